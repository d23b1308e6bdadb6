//! Files and command lines of hitch and stud.
//!
//! Options of the top level are defaults of all frontends; each frontend, or all that are alike,
//! becomes a service.

mod process;
mod service;
mod syntax;

use std::path::{Path, PathBuf};

use crate::import::Import;
use crate::meanings;
use crate::predecessor::Predecessor;
use crate::source::{SourceFiles, SourceLine};
use process::ProcessOptions;
use service::{Frontend, Scope};
use syntax::{HitchEntry, SyntaxFault};

/// All that was read, before it is put together.
#[derive(Debug, Default)]
struct HitchReading {
    scope: Scope,
    frontends: Vec<Frontend>,
    process: ProcessOptions,
}

/// Reads files, or a command line, which begins with a flag, into a draft.
pub(crate) fn read(import: &mut Import, paths: &[PathBuf], files: &mut dyn SourceFiles) {
    let mut reading = HitchReading::default();
    let words: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    let place = if words.first().is_some_and(|word| word.starts_with('-')) {
        let place = SourceLine::outside("command line");
        match syntax::parse_flags(&words, &place) {
            Ok(entries) => reading.take(import, files, entries),
            Err(fault) => broken(import, fault),
        }
        place
    } else {
        paths.iter().for_each(|path| reading.take_file(import, files, path));
        SourceLine::outside(&words.join(" "))
    };
    reading.finish(import, files, &place);
}

fn broken(import: &mut Import, (place, why): SyntaxFault) {
    import.fault(&place, "syntax", why, "write it as hitch.conf(5) says: `option = value`");
}

/// Whether an empty value stands for the default; an address or a file that is empty is a fault.
fn may_be_empty(option: &str) -> bool {
    !matches!(option, "frontend" | "backend" | "pem-file" | "pem-dir" | "PEM" | "host" | "port")
}

impl HitchReading {
    fn take_file(&mut self, import: &mut Import, files: &mut dyn SourceFiles, path: &Path) {
        let Some(text) = import.read(files, path, None) else {
            return;
        };
        match syntax::parse(&text, &SourceLine::first_of(path)) {
            Ok(entries) => self.take(import, files, entries),
            Err(fault) => broken(import, fault),
        }
    }

    fn take(&mut self, import: &mut Import, files: &mut dyn SourceFiles, entries: Vec<HitchEntry>) {
        for entry in entries {
            let written = &entry.statement;
            import.expect(written);
            let Some(meaning) = meanings::find(Predecessor::Hitch, &written.option) else {
                import.unknown(written, meanings::of(Predecessor::Hitch));
                continue;
            };
            if written.value().is_empty() && entry.block.is_none() && may_be_empty(meaning.option) {
                import.mapped(written, "empty: the default");
                continue;
            }
            import.keep_setting(meaning.option, written.value());
            match (meaning.option, entry.block) {
                // A configuration names no other, so that this is no circle.
                ("--config", _) => {
                    import.joined(written, "the file", "");
                    self.take_file(import, files, Path::new(&written.value()));
                }
                ("frontend", Some(block)) => {
                    let mut frontend = Frontend::new(&written.place);
                    for inner in block {
                        frontend.take(import, files, inner);
                    }
                    self.frontends.push(frontend);
                }
                ("frontend", None) => {
                    self.frontends.push(Frontend::of_line(import, files, written));
                }
                (_, block) => {
                    let entry = HitchEntry { statement: entry.statement, block };
                    if !self.process.take(import, meaning, &entry.statement) {
                        self.scope.take(import, files, meaning, entry);
                    }
                }
            }
        }
    }

    fn finish(mut self, import: &mut Import, files: &mut dyn SourceFiles, place: &SourceLine) {
        if self.frontends.is_empty() {
            self.frontends.push(Frontend::default_one());
        }
        self.process.finish(import, place, &mut self.scope);
        let mut services: Vec<service::ServiceOfFrontends> = Vec::new();
        for frontend in self.frontends {
            let made = frontend.finish(import, files, &self.scope, place);
            match services.iter_mut().find(|one| one.is_like(&made)) {
                Some(like) => like.listen.extend(made.listen),
                None => services.push(made),
            }
        }
        let is_alone = services.len() == 1;
        for made in services {
            made.write(import, is_alone);
        }
    }
}
