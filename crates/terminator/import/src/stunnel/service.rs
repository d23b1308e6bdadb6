//! A section of stunnel's file and the service that comes of it.

use std::path::Path;

use toml::Value;

use crate::convert::{Unfit, switch};
use crate::draft::DraftTable;
use crate::import::{Import, inline_table};
use crate::meanings;
use crate::predecessor::Predecessor;
use crate::source::{SourceFiles, SourceLine, Statement};
use crate::stunnel::peer;
use crate::stunnel::process::take_debug;
use crate::stunnel::tls;

/// A section, with the defaults before its own options.
#[derive(Clone, Debug)]
pub(super) struct Section {
    name: String,
    place: SourceLine,
    pub(super) written: Vec<Statement>,
}

/// Options that have no effect alone: those that use them report them too.
const TAKEN_TOGETHER: &[&str] = &[
    "CAfile",
    "CApath",
    "CRLfile",
    "accept",
    "cert",
    "checkEmail",
    "checkHost",
    "checkIP",
    "ciphers",
    "ciphersuites",
    "client",
    "connect",
    "curves",
    "failover",
    "key",
    "options",
    "protocol",
    "protocolHost",
    "requireCert",
    "sni",
    "sslVersion",
    "sslVersionMax",
    "sslVersionMin",
    "verify",
    "verifyChain",
    "verifyPeer",
];

/// Protocols in which either side may ask for TLS, by stunnel's names and ours.
const STARTTLS: &[(&str, &str)] = &[
    ("imap", "imap"),
    ("ldap", "ldap"),
    ("nntp", "nntp"),
    ("pgsql", "postgres"),
    ("pop3", "pop3"),
    ("smtp", "smtp"),
];

impl Section {
    pub(super) fn new(name: &str, place: SourceLine) -> Self {
        Self { name: name.to_owned(), place, written: Vec::new() }
    }

    /// The same with defaults, over which its own options go.
    pub(super) fn with(mut self, defaults: &[Statement]) -> Self {
        self.written.splice(0..0, defaults.iter().cloned());
        self
    }

    /// The last of an option.
    pub(super) fn find(&self, option: &str) -> Option<&Statement> {
        self.written.iter().rev().find(|one| one.option == option)
    }

    /// All of an option that may be written several times.
    pub(super) fn all(&self, option: &str) -> impl Iterator<Item = &Statement> {
        self.written.iter().filter(move |one| one.option == option)
    }

    pub(super) fn is_on(&self, option: &str) -> bool {
        self.find(option).is_some_and(|one| switch(&one.value()) == Some(true))
    }

    pub(super) fn is_client(&self) -> bool {
        self.is_on("client")
    }

    /// Writes the service, unless it does what Lariat cannot.
    pub(super) fn write(
        &self,
        import: &mut Import,
        files: &mut dyn SourceFiles,
        sections: &[Self],
        place: &SourceLine,
    ) {
        let mut service = DraftTable::default();
        service.set("name", import.draft.free_name(&self.name), self.place.clone());
        for written in &self.written {
            self.take(import, &mut service, written);
        }
        let primary = self.primary(sections);
        let is_whole = [
            self.write_listen(import, files, &mut service, primary),
            self.write_servers(import, files, &mut service, primary),
            self.write_protocol(import, &mut service, primary),
            self.write_certificate(import, files, &mut service),
            peer::write(self, import, files, &mut service),
        ];
        tls::write(self, import, &mut service);
        import.defaults(meanings::defaults_of(Predecessor::Stunnel), place, &mut service);
        if is_whole == [true; 5] {
            import.draft.services.push(service);
        } else {
            let words = vec![format!("[{}]", self.name)];
            let written =
                Statement { place: self.place.clone(), option: "service".to_owned(), words };
            let why = "the service is left out, for a reason that stands with one of its options";
            import
                .unmapped(&written, Unfit::new(why, "keep this service in stunnel, or see there"));
        }
    }

    /// Does what one option alone says.
    fn take(&self, import: &mut Import, service: &mut DraftTable, written: &Statement) {
        let value = written.value();
        let origin = written.place.clone();
        let is_on = switch(&value) == Some(true);
        let side = if self.is_client() { "back.tls" } else { "front.tls" };
        match written.option.as_str() {
            option if TAKEN_TOGETHER.contains(&option) => {}
            "debug" => take_debug(import, written),
            "setuid" | "setgid" => {
                let why = "the owner of a Unix socket is not set";
                let remedy = "the permissions of its directory limit who may connect";
                import.unmapped(written, Unfit::new(why, remedy));
            }
            "sessionResume" if is_on => import.mapped(written, "`yes`, as here"),
            "sessionResume" => {
                service.set(&format!("{side}.resumption"), false, origin);
                import.joined(written, &format!("service.{side}.resumption"), "");
            }
            "sessionCacheSize" if value == "0" => {
                let remedy = "its size is bounded: resumption.session-cache.entries";
                import.unmapped(written, Unfit::new("no cache is unlimited", remedy));
            }
            "sessionCacheSize" => {
                let key = "resumption.session-cache.entries";
                let note = "one cache for all services";
                let conversion = crate::meaning::Conversion::Number;
                import.apply_key(key, conversion, note, written, service);
            }
            "transparent" => match value.as_str() {
                "none" | "no" => import.mapped(written, "`none`, as here"),
                "source" | "yes" => {
                    service.set("back.source", "client", origin);
                    import.joined(written, "service.back.source", "");
                }
                _ => {
                    let why = "the original destination is not asked for";
                    import.unmapped(written, Unfit::new(why, "a service for each destination"));
                }
            },
            "socket" => self.take_socket(import, service, written),
            option => match meanings::find(Predecessor::Stunnel, option) {
                Some(meaning) if import.apply(meaning, written, service) => {
                    let why = "this option is global";
                    import.unmapped(written, Unfit::new(why, "write it above all services"));
                }
                Some(_) => {}
                None => import.unknown(written, meanings::of(Predecessor::Stunnel)),
            },
        }
    }

    /// `a|l|r:OPTION=VALUE`: a listener, a client's connection, a server's connection.
    fn take_socket(&self, import: &mut Import, service: &mut DraftTable, written: &Statement) {
        let value = written.value();
        let (side, option) = value.split_once(':').unwrap_or(("", &value));
        let (option, setting) = option.split_once('=').unwrap_or((option, ""));
        let path = if side == "r" { "back.keepalive" } else { "front.keepalive" };
        let origin = written.place.clone();
        match (side, option, setting.parse::<u32>()) {
            (_, "TCP_NODELAY" | "SO_REUSEADDR", _) => import.mapped(written, "in any case"),
            (_, "SO_KEEPALIVE", Ok(0)) => {
                service.set(path, "0s", origin);
                import.joined(written, &format!("service.{path}"), "");
            }
            (_, "SO_KEEPALIVE", _) => import.mapped(written, "on, after 2 minutes"),
            (_, "TCP_KEEPIDLE", Ok(seconds)) => {
                service.set(path, format!("{seconds}s"), origin);
                import.joined(written, &format!("service.{path}"), "with four probes");
            }
            ("a", "SO_BINDTODEVICE", _) => {
                service.set("front.interface", setting, origin);
                import.joined(written, "service.front.interface", "");
            }
            _ => {
                let remedy = "`keepalive`, `timeouts.unacknowledged`, or sysctl";
                import.unmapped(written, Unfit::new("this option of sockets is not set", remedy));
            }
        }
    }

    /// The section whose address it shares, as `sni = PRIMARY:NAME` says.
    fn primary<'s>(&self, sections: &'s [Self]) -> Option<&'s Self> {
        let sni = self.find("sni").filter(|_| !self.is_client())?.value();
        let (name, _) = sni.split_once(':')?;
        sections.iter().find(|one| one.name == name)
    }

    fn write_listen(
        &self,
        import: &mut Import,
        files: &mut dyn SourceFiles,
        service: &mut DraftTable,
        primary: Option<&Self>,
    ) -> bool {
        let key = "service.front.listen";
        if !self.is_client() {
            for written in self.all("sni") {
                let value = written.value();
                let (name, pattern) = value.split_once(':').unwrap_or(("", &value));
                if primary.is_none_or(|primary| primary.name != name) {
                    let why = format!("there is no service `{name}`");
                    import.fault(&written.place, "sni", why, "name the section with `accept`");
                    continue;
                }
                service.push("front.names", pattern, written.place.clone());
                import.joined(written, "service.front.names", "");
            }
        }
        let Some(written) = self.find("accept").or(primary.and_then(|one| one.find("accept")))
        else {
            let written = Statement {
                place: self.place.clone(),
                option: "accept".to_owned(),
                words: vec!["(not written)".to_owned()],
            };
            let why = "programs and inetd do not start Lariat for a connection";
            import.unmapped(&written, Unfit::new(why, "write the address to listen at"));
            return false;
        };
        match accept_address(&written.value(), files) {
            Ok(address) => {
                service.push("front.listen", address, written.place.clone());
                import.joined(written, key, "");
                true
            }
            Err(unfit) => {
                import.unmapped(written, unfit);
                false
            }
        }
    }

    fn write_servers(
        &self,
        import: &mut Import,
        files: &mut dyn SourceFiles,
        service: &mut DraftTable,
        primary: Option<&Self>,
    ) -> bool {
        let own: Vec<_> = self.all("connect").collect();
        let of_primary = primary.into_iter().flat_map(|one| one.all("connect"));
        let all = if own.is_empty() { of_primary.collect() } else { own };
        let failover = self.find("failover");
        let in_turn = failover.is_some_and(|one| one.value() == "rr") && !self.is_on("delay");
        for (number, written) in all.iter().enumerate() {
            let Some(address) = connect_address(&written.value(), files) else {
                let why = "has no port that is known";
                import.fault(&written.place, "connect", why, "write HOST:PORT with a number");
                continue;
            };
            let is_backup = number > 0 && !in_turn;
            let value = if is_backup {
                inline_table([("address", Value::from(address)), ("backup", Value::from(true))])
            } else {
                Value::from(address)
            };
            service.push("back.servers", value, written.place.clone());
            let difference = if is_backup && number > 1 { "backups are used in turn" } else { "" };
            import.joined(written, "service.back.servers", difference);
        }
        if let Some(written) = failover {
            let words = if in_turn { "service.back.balance" } else { "backup = true" };
            import.joined(written, words, "");
        }
        if all.is_empty() && !self.written.iter().any(|one| one.option == "exec") {
            let place = self.place.clone();
            let words = vec!["(not written)".to_owned()];
            let written = Statement { place, option: "connect".to_owned(), words };
            let why = "no server is named";
            import.unmapped(&written, Unfit::new(why, "write its address"));
        }
        !all.is_empty()
    }

    fn write_protocol(
        &self,
        import: &mut Import,
        service: &mut DraftTable,
        primary: Option<&Self>,
    ) -> bool {
        let host = self.find("protocolHost");
        let Some(written) = self.find("protocol").or(primary.and_then(|one| one.find("protocol")))
        else {
            if let Some(host) = host {
                import.mapped(host, "without effect: no protocol is negotiated");
            }
            return true;
        };
        let name = written.value().to_ascii_lowercase();
        let origin = written.place.clone();
        let ours = STARTTLS.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
        let key = match (ours, self.is_client()) {
            (Some(_), true) => "back.starttls",
            (Some(_), false) => "front.starttls.protocol",
            (None, false) if name == "proxy" => "back.send-proxy.version",
            _ => {
                let why = "this negotiation is not spoken";
                import.unmapped(written, Unfit::new(why, "keep this service in stunnel"));
                return false;
            }
        };
        service.set(key, ours.unwrap_or("v1"), origin);
        import.joined(written, &format!("service.{key}"), "");
        if let Some(host) = host {
            if self.is_client() && name == "smtp" {
                service.set("back.ehlo-name", host.value(), host.place.clone());
                import.joined(host, "service.back.ehlo-name", "");
            } else {
                import.mapped(host, "without effect: it is for smtp and connect of clients");
            }
        }
        true
    }

    /// The certificate that it shows: to clients, or to servers. A server needs one.
    fn write_certificate(
        &self,
        import: &mut Import,
        files: &mut dyn SourceFiles,
        service: &mut DraftTable,
    ) -> bool {
        if let Some(written) = self.find("client") {
            if self.is_client() {
                service.set("front.tls.mode", "off", written.place.clone());
                service.set("back.tls.mode", "on", written.place.clone());
            }
            import.joined(written, "service.back.tls", "");
        }
        let Some(cert) = self.find("cert") else {
            if !self.is_client() && self.find("PSKsecrets").is_none() {
                let remedy = "name it by `cert`";
                import.fault(&self.place, &self.name, "a server without a certificate", remedy);
            }
            return self.is_client();
        };
        let key = self.find("key");
        for written in std::iter::once(cert).chain(key) {
            let value = written.value();
            let lower = value.to_ascii_lowercase();
            if lower.starts_with("pkcs11:") || lower.ends_with(".p12") || lower.ends_with(".pfx") {
                let remedy = "openssl pkcs12 -in FILE -nodes -out FILE.pem";
                let why = "keys in hardware and PKCS #12 are not read";
                import.unmapped(written, Unfit::new(why, remedy));
                return false;
            }
            import.look_for(files, &value, written);
        }
        let (chain, place) = (Value::from(cert.value()), cert.place.clone());
        let (path_of_cert, path_of_key) = if self.is_client() {
            service.set("back.tls.certificate", chain, place);
            if let Some(key) = key {
                service.set("back.tls.key", key.value(), key.place.clone());
            }
            ("service.back.tls.certificate", "service.back.tls.key")
        } else {
            let value = match key {
                Some(key) => inline_table([("chain", chain), ("key", Value::from(key.value()))]),
                None => chain,
            };
            service.push("front.tls.certificates", value, place);
            ("service.front.tls.certificates", "service.front.tls.certificates.key")
        };
        import.joined(cert, path_of_cert, "");
        if let Some(key) = key {
            import.joined(key, path_of_key, "");
        }
        true
    }
}

/// Host and port; a lone word is a port.
fn split(text: &str) -> (&str, &str) {
    text.rsplit_once(':').unwrap_or(("", text))
}

/// `accept`: all of IPv4 without a host.
fn accept_address(text: &str, files: &mut dyn SourceFiles) -> Result<String, Unfit> {
    if text.starts_with('/') {
        return Ok(format!("unix:{text}"));
    }
    let (host, port) = split(text);
    let Some(port) = port_number(port, files) else {
        return Err(Unfit::new(format!("`{port}` is no port that is known"), "write its number"));
    };
    let host = match host {
        "" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host.trim_start_matches('[').trim_end_matches(']'),
    };
    if host != "*" && host.parse::<std::net::IpAddr>().is_err() {
        let remedy = "write its IP address";
        return Err(Unfit::new("names of hosts are not listened at", remedy));
    }
    Ok(crate::convert::address(host, &port.to_string()))
}

/// `connect`: this host without one.
fn connect_address(text: &str, files: &mut dyn SourceFiles) -> Option<String> {
    if text.starts_with('/') {
        return Some(format!("unix:{text}"));
    }
    let (host, port) = split(text);
    let port = port_number(port, files)?;
    let host = if host.is_empty() { "localhost" } else { host };
    Some(crate::convert::address(host, &port.to_string()))
}

/// A number, or a name of /etc/services.
fn port_number(text: &str, files: &mut dyn SourceFiles) -> Option<u16> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let services = files.read(Path::new("/etc/services")).ok()?;
    let lines = services.lines().map(|line| line.split('#').next().unwrap_or_default());
    let number = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, port) = (words.next()?, words.next()?.strip_suffix("/tcp")?);
        (name == text || words.any(|alias| alias == text)).then(|| port.parse().ok())?
    });
    let mut number = number;
    number.next()
}
