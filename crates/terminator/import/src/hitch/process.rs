//! Options of hitch and stud that are for the process, not for frontends: the log, and the exchange
//! of sessions among peers.

use std::net::IpAddr;

use crate::convert::{address, split_endpoint, switch};
use crate::draft::DraftTable;
use crate::import::Import;
use crate::predecessor::Predecessor;
use crate::source::{SourceLine, Statement};
use crate::statements::Statements;
use crate::tls_policy::ORDER;

/// Writes what is said, and reports defaults of hitch that differ from Lariat's.
pub(super) fn write(options: &Statements, import: &mut Import, place: &SourceLine) {
    options.all("syslog").for_each(|written| write_syslog(written, import));
    if options.find("ocsp-dir").is_none() && import.is_of(Predecessor::Hitch) {
        let note = "hitch fetches OCSP responses by itself; Lariat staples those that a timer writes \
                    to `x.ocsp` beside `x.pem`";
        import.note_default(place, "ocsp-dir", ("", note));
    }
    if options.find("prefer-server-ciphers").is_none() {
        import.note_default(place, "prefer-server-ciphers", ("", ORDER));
    }
    write_cluster(options, import);
}

/// The one option that two keys say.
fn write_syslog(written: &Statement, import: &mut Import) {
    if switch(&written.value()) != Some(true) {
        return import.mapped(written, "off, as here");
    }
    let note = "RFC 5424; where /dev/log is journald's, \"journald\"";
    for (key, note) in [("log.output", note), ("log.messages-output", "")] {
        import.put(&mut DraftTable::default(), key, "syslog", written, note);
    }
}

/// The file for the secret of a cluster.
const SECRET: &str = "/etc/lariat/cluster.key";

/// Writes `[cluster]`, if anything says so.
fn write_cluster(options: &Statements, import: &mut Import) {
    let interface = options.find("shared-cache-if");
    let peers: Vec<_> = options.all("shared-cache-peer").collect();
    let Some(listen) = options.find("shared-cache-listen") else {
        if let Some(first) = peers.first().copied().or(interface) {
            let remedy = "write shared-cache-listen too";
            import.fault(&first.place, &first.option, "no address is listened at", remedy);
        }
        return;
    };
    let mut unused = DraftTable::default();
    let process = &mut import.draft.process;
    process.set("cluster.secret", SECRET, listen.place.clone());
    let make = "Make it once, for all hosts: head -c 32 /dev/urandom > /etc/lariat/cluster.key";
    process.remark("cluster.secret", make);
    let note = format!("with {SECRET}, which must be made and be the same on all hosts");
    let at = endpoint(listen);
    import.put(&mut unused, "cluster.peers.listen", address(&at.0, &at.1), listen, &note);
    let mut has_group = false;
    for peer in peers {
        let (host, port) = endpoint(peer);
        let at = address(&host, &port);
        if host.parse::<IpAddr>().is_ok_and(|address| address.is_multicast()) {
            has_group = true;
            import.put(&mut unused, "cluster.peers.multicast.group", at, peer, "");
        } else {
            let note = "datagrams are encrypted, and not those of stud: change all hosts at once";
            import.add(&mut unused, "cluster.peers.send-to", at, peer, note);
        }
    }
    let Some(written) = interface else {
        return;
    };
    if !has_group {
        return import.mapped(written, "without effect: no peer is a multicast group");
    }
    let value = written.value();
    let (name, hops) = value.split_once(',').unwrap_or((&value, ""));
    import.put(&mut unused, "cluster.peers.multicast.interface", name, written, "");
    if let Ok(hops) = hops.parse::<u8>() {
        let hops = i64::from(hops.max(1));
        import.put(&mut unused, "cluster.peers.multicast.hops", hops, written, "");
    }
}

fn endpoint(written: &Statement) -> (String, String) {
    split_endpoint(&written.value())
}
