//! Options of hitch that are for the process, not for frontends.

use toml::Value;

use crate::convert::{Unfit, address, split_endpoint, switch};
use crate::hitch::service::Scope;
use crate::import::Import;
use crate::meaning::{Conversion, Meaning};
use crate::predecessor::Predecessor;
use crate::source::{SourceLine, Statement};

/// What must be seen whole.
#[derive(Debug, Default)]
pub(super) struct ProcessOptions {
    peers: Vec<Statement>,
    peers_listen: Option<Statement>,
    interface: Option<Statement>,
    has_ocsp_dir: bool,
    has_order: bool,
}

/// Where the secret of a cluster is written to.
const SECRET: &str = "/etc/lariat/cluster.key";

impl ProcessOptions {
    /// Takes an option; `false` = it is for a frontend.
    pub(super) fn take(
        &mut self,
        import: &mut Import,
        meaning: &Meaning,
        written: &Statement,
    ) -> bool {
        let value = written.value();
        let origin = written.place.clone();
        let is_on = switch(&value) == Some(true);
        let process = &mut import.draft.process;
        match meaning.option {
            "ocsp-dir" => {
                self.has_ocsp_dir = true;
                return false;
            }
            "prefer-server-ciphers" => {
                self.has_order = true;
                return false;
            }
            "workers" if value == "auto" => import.joined(written, "workers.threads", ""),
            "workers" => number(import, "workers.threads", written),
            "user" => {
                process.set("process.user", value, origin);
                import.joined(written, "process.user", "the package of Lariat has `lariat`");
            }
            "log-level" => {
                let connections = match value.as_str() {
                    "0" => "none",
                    "1" => "failed",
                    _ => "all",
                };
                process.set("log.connections", connections, origin);
                import.joined(written, "log.connections", "messages are written in any case");
            }
            "quiet" => {
                process.set("log.connections", if is_on { "failed" } else { "all" }, origin);
                import.joined(written, "log.connections", "");
            }
            "syslog" if is_on => {
                process.set("log.output", "syslog", origin.clone());
                process.set("log.messages-output", "syslog", origin);
                let note = "RFC 5424; where /dev/log is journald's, write \"journald\"";
                import.joined(written, "log.output", note);
            }
            "syslog" => import.mapped(written, "`off`, as here"),
            "syslog-facility" => {
                process.set("log.syslog.facility", value.to_ascii_lowercase(), origin);
                import.joined(written, "log.syslog.facility", "");
            }
            "tcp-fastopen" if is_on => {
                process.set("workers.fast-open", 256, origin);
                let note = "with a queue of 256; set net.ipv4.tcp_fastopen to 2 or 3";
                import.joined(written, "workers.fast-open", note);
            }
            "tcp-fastopen" => import.mapped(written, "`off`, as here"),
            "shared-cache" if value == "0" => import.mapped(written, "no session cache is shared"),
            "shared-cache" => number(import, "resumption.session-cache.entries", written),
            "shared-cache-listen" => self.peers_listen = Some(written.clone()),
            "shared-cache-peer" => self.peers.push(written.clone()),
            "shared-cache-if" => self.interface = Some(written.clone()),
            _ => return false,
        }
        true
    }

    /// Reports what was not written and differs all the same.
    pub(super) fn finish(&self, import: &mut Import, place: &SourceLine, scope: &mut Scope) {
        let default = |option: &str| Statement {
            place: place.clone(),
            option: format!("{option} (a default)"),
            words: Vec::new(),
        };
        if !self.has_ocsp_dir && import.is_of(Predecessor::Hitch) {
            let why = "hitch fetches OCSP responses by itself; Lariat staples those in files";
            let remedy = "a timer that writes the response to `x.ocsp` beside `x.pem`";
            import.unmapped(&default("ocsp-dir"), Unfit::new(why, remedy));
        }
        if !self.has_order {
            import.joined(&default("prefer-server-ciphers"), "", super::service::ORDER);
        }
        if scope.is_mutual() {
            let why = "write-ip, write-proxy-v1, write-proxy-v2 and proxy-proxy exclude each other";
            import.fault(place, "write-proxy", why, "leave one of them on");
        }
        self.write_cluster(import);
    }

    /// Its shared cache over UDP is the exchange of sessions among peers.
    fn write_cluster(&self, import: &mut Import) {
        let all = self.peers_listen.iter().chain(&self.peers).chain(&self.interface);
        let Some(first) = all.into_iter().next() else {
            return;
        };
        let Some(listen) = &self.peers_listen else {
            let remedy = "write shared-cache-listen too";
            return import.fault(&first.place, &first.option, "no address is listened at", remedy);
        };
        let place = listen.place.clone();
        let process = &mut import.draft.process;
        process.set("cluster.secret", SECRET, place.clone());
        let make = "Make it once, for all hosts: head -c 32 /dev/urandom > /etc/lariat/cluster.key";
        process.remark("cluster.secret", make);
        let (host, port) = split_endpoint(&listen.value());
        process.set("cluster.peers.listen", address(&host, &port), place.clone());
        let mut groups = Vec::new();
        for peer in &self.peers {
            let (host, peer_port) = split_endpoint(&peer.value());
            let address = address(&host, &peer_port);
            if is_multicast(&host) {
                groups.push((peer, address));
            } else {
                import.draft.process.push("cluster.peers.send-to", address, peer.place.clone());
                let note =
                    "datagrams are encrypted, and not those of stud: change all hosts at once";
                import.joined(peer, "cluster.peers.send-to", note);
            }
        }
        if let Some((peer, group)) = groups.first() {
            let place = peer.place.clone();
            import.draft.process.set("cluster.peers.multicast.group", group.as_str(), place);
            import.joined(peer, "cluster.peers.multicast.group", "");
        }
        if let Some(interface) = &self.interface {
            self.write_interface(import, interface, groups.is_empty());
        }
        let difference = format!("with {SECRET}, which must be made and be the same on all hosts");
        import.joined(listen, "cluster.peers.listen, cluster.secret", &difference);
    }

    fn write_interface(&self, import: &mut Import, written: &Statement, is_without_group: bool) {
        if is_without_group {
            return import.mapped(written, "without effect: no peer is a multicast group");
        }
        let value = written.value();
        let (name, hops) = value.split_once(',').unwrap_or((&value, ""));
        let process = &mut import.draft.process;
        process.set("cluster.peers.multicast.interface", name, written.place.clone());
        if let Ok(hops) = hops.parse::<u8>() {
            let hops = Value::from(i64::from(hops.max(1)));
            process.set("cluster.peers.multicast.hops", hops, written.place.clone());
        }
        import.joined(written, "cluster.peers.multicast.interface", "");
    }
}

fn number(import: &mut Import, key: &str, written: &Statement) {
    let mut unused = crate::draft::DraftTable::default();
    import.apply_key(key, Conversion::Number, "", written, &mut unused);
}

fn is_multicast(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_multicast())
}
