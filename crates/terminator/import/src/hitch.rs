//! Imports files and command lines of hitch and stud.
//!
//! Options of the top level are defaults of all frontends; each group of equal frontends becomes a
//! service. Some options are for the process: the log, and the exchange of sessions among peers.

mod frontend;
mod syntax;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::convert::{address, split_endpoint};
use crate::draft::DraftTable;
use crate::import::{Import, Importer};
use crate::meanings::{self, Predecessor};
use crate::source::{SourceLine, Statement, Statements, switch};
use crate::tls_policy::ORDER;
use frontend::Frontend;
use syntax::{HitchEntry, SyntaxFault};

/// Everything read, before it is put together.
#[derive(Debug)]
struct HitchReading {
    /// The top level, as a frontend without an address.
    global: Frontend,
    frontends: Vec<Frontend>,
}

/// Reads files, or a command line, which begins with a flag, into a draft.
pub(crate) fn read(import: &mut Importer<'_>, paths: &[PathBuf]) {
    let words: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    let is_line = words.first().is_some_and(|word| word.starts_with('-'));
    let place = import.place.clone();
    let mut reading = HitchReading { global: Frontend::new(&place), frontends: Vec::new() };
    if is_line {
        reading.take(import, syntax::parse_flags(&words, &place));
    } else {
        paths.iter().for_each(|path| reading.take_file(import, path));
    }
    // Defaults would hide why nothing of a file was read.
    if !(import.is_faulty() && reading.is_empty()) {
        reading.finish(import, &place);
    }
}

impl HitchReading {
    fn is_empty(&self) -> bool {
        self.frontends.is_empty() && self.global.options.iter().next().is_none()
    }

    fn take_file(&mut self, import: &mut Importer<'_>, path: &Path) {
        if let Some(text) = import.read(path, None) {
            self.take(import, syntax::parse(&text, &SourceLine::first_of(path)));
        }
    }

    fn take(&mut self, import: &mut Importer<'_>, entries: Result<Vec<HitchEntry>, SyntaxFault>) {
        let entries = entries.unwrap_or_else(|(place, why)| {
            import.fault(&place, "syntax", why, "write it as hitch.conf(5) says: `option = value`");
            Vec::new()
        });
        for entry in entries {
            if import.is_full {
                return;
            }
            let is_frontend = entry.name() == Some("frontend");
            if is_frontend && !import.has_room(self.frontends.len(), &entry.statement.place) {
                return;
            }
            if let Some(name) = entry.name() {
                import.settings.insert(name, entry.statement.value());
            }
            match (entry.name(), &entry.block) {
                // A file cannot name another, so this cannot loop.
                (Some("--config"), _) => {
                    import.joined(&entry.statement, "the file", "");
                    self.take_file(import, Path::new(&entry.statement.value()));
                }
                (Some("frontend"), None) => {
                    self.frontends.push(Frontend::of_line(import, &entry.statement));
                }
                (Some("frontend"), Some(_)) => {
                    let mut frontend = Frontend::new(&entry.statement.place);
                    for inner in entry.block.into_iter().flatten() {
                        frontend.take(import, inner);
                    }
                    self.frontends.push(frontend);
                }
                _ => self.global.take(import, entry),
            }
        }
    }

    fn finish(mut self, import: &mut Importer<'_>, place: &SourceLine) {
        if self.frontends.is_empty() {
            self.frontends.push(Frontend::default_one());
        }
        write_process(&self.global.options, import);
        // Keys of services, and the addresses of each one's frontends.
        let mut services: Vec<(Vec<_>, DraftTable)> = Vec::new();
        let mut places = HashMap::new();
        let shared = self.global.options.len() + self.global.certificates();
        for frontend in &self.frontends {
            if !import.take_options(shared + frontend.options.len(), place) {
                return;
            }
        }
        for frontend in self.frontends {
            let listen = frontend.listen(import);
            let (options, certificates) = frontend.with(import, &self.global);
            if certificates.is_empty() && !options.is_on("client") {
                let place = listen.1.as_ref().unwrap_or(place);
                let why = format!("no certificate is specified for {}", listen.0);
                import.fault(place, "pem-file", why, "name one: hitch serves none without");
            }
            frontend::write(&options, import, certificates);
            import.defaults(meanings::defaults_of(Predecessor::Hitch));
            if frontend.is_of_ipv6_alone() && import.is_of(Predecessor::Hitch) {
                import.service.set("front.ipv6-only", true, listen.1.clone());
            }
            let made = import.take_service();
            let next = services.len();
            match services.get_mut(*places.entry(format!("{:?}", made.keys)).or_insert(next)) {
                Some((addresses, _)) => addresses.push(listen),
                None => services.push((vec![listen], made)),
            }
        }
        let is_alone = services.len() == 1;
        for (addresses, made) in services {
            let first = addresses.first().map_or("", |(address, _)| address.as_str());
            let port = first.rsplit(':').next().unwrap_or_default();
            let name = if is_alone { "main".to_owned() } else { format!("port-{port}") };
            import.begin(&name, None);
            for (address, place) in addresses {
                import.service.push("front.listen", address, place);
            }
            import.service.keys.extend(made.keys);
            import.keep();
        }
    }
}

/// Writes the options of the process, and reports defaults of hitch that differ from Lariat's.
fn write_process(options: &Statements, import: &mut Import) {
    options.all("syslog").for_each(|written| write_syslog(written, import));
    if options.find("ocsp-dir").is_none() && import.is_of(Predecessor::Hitch) {
        let note = "hitch fetches OCSP responses by itself; Lariat staples those that a timer writes \
                    to `x.ocsp` beside `x.pem`";
        import.note_default("ocsp-dir", ("", note));
    }
    if options.find("prefer-server-ciphers").is_none() {
        import.note_default("prefer-server-ciphers", ("", ORDER));
    }
    write_cluster(options, import);
}

/// Writes the only option that needs two keys.
fn write_syslog(written: &Statement, import: &mut Import) {
    if switch(&written.value()) != Some(true) {
        return import.mapped(written, "off, as here");
    }
    let note = "RFC 5424; where /dev/log is journald's, \"journald\"";
    for (key, note) in [("log.output", note), ("log.messages-output", "")] {
        import.put(key, "syslog", written, note);
    }
}

/// File for the secret of a cluster.
const SECRET: &str = "/etc/lariat/cluster.key";

/// Writes `[cluster]` if an option asks for it.
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
    let process = &mut import.draft.process;
    process.set("cluster.secret", SECRET, listen.place.clone());
    let make = "Make it once, for all hosts: head -c 32 /dev/urandom > /etc/lariat/cluster.key";
    process.remark("cluster.secret", make);
    let note = format!("with {SECRET}, which must be made and be the same on all hosts");
    let at = endpoint(listen);
    import.put("cluster.peers.listen", address(&at.0, &at.1), listen, &note);
    let mut has_group = false;
    for peer in peers {
        let (host, port) = endpoint(peer);
        let at = address(&host, &port);
        if host.parse::<IpAddr>().is_ok_and(|address| address.is_multicast()) {
            has_group = true;
            import.put("cluster.peers.multicast.group", at, peer, "");
        } else {
            let note = "datagrams are encrypted, and not those of stud: change all hosts at once";
            import.add("cluster.peers.send-to", at, peer, note);
        }
    }
    let Some(written) = interface else { return };
    if !has_group {
        return import.mapped(written, "without effect: no peer is a multicast group");
    }
    let value = written.value();
    let (name, hops) = value.split_once(',').unwrap_or((&value, ""));
    import.put("cluster.peers.multicast.interface", name, written, "");
    if let Ok(hops) = hops.parse::<u8>() {
        let hops = i64::from(hops.max(1));
        import.put("cluster.peers.multicast.hops", hops, written, "");
    }
}

fn endpoint(written: &Statement) -> (String, String) {
    split_endpoint(&written.value())
}
