//! Files and command lines of hitch and stud.
//!
//! Options of the top level are defaults of all frontends; each frontend, or all that are alike,
//! becomes a service.

mod frontend;
mod process;
mod service;
mod syntax;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::draft::DraftTable;
use crate::import::Importer;
use crate::meanings;
use crate::predecessor::Predecessor;
use crate::source::SourceLine;
use frontend::Frontend;
use syntax::{HitchEntry, SyntaxFault};

/// All that was read, before it is put together.
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
    let place =
        if is_line || words.is_empty() { "command line".to_owned() } else { words.join(" ") };
    let place = SourceLine::outside(&place);
    let mut reading = HitchReading { global: Frontend::new(&place), frontends: Vec::new() };
    if is_line {
        reading.take(import, syntax::parse_flags(&words, &place));
    } else {
        paths.iter().for_each(|path| reading.take_file(import, path));
    }
    // Defaults of a file of which nothing was read would hide why.
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
            if import.is_full() {
                return;
            }
            let is_frontend = entry.name() == Some("frontend");
            if is_frontend && !import.has_room(self.frontends.len(), &entry.statement.place) {
                return;
            }
            if let Some(name) = entry.name() {
                import.keep_setting(name, entry.statement.value());
            }
            match (entry.name(), &entry.block) {
                // No file names another, so that this is no circle.
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
        process::write(&self.global.options, import, place);
        // What services say, and the addresses of the frontends that each is for.
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
            let mut made = service::table(&options, import, certificates);
            import.defaults(meanings::defaults_of(Predecessor::Hitch), place, &mut made);
            if frontend.is_of_ipv6_alone() && import.is_of(Predecessor::Hitch) {
                made.set("front.ipv6-only", true, listen.1.clone());
            }
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
            let mut service = DraftTable::default();
            service.set("name", import.draft.free_name(&name), None);
            for (address, place) in addresses {
                service.push("front.listen", address, place);
            }
            service.keys.extend(made.keys);
            import.draft.services.push(service);
        }
    }
}
