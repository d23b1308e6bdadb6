//! Imports files of nginx: the blocks `stream` and `http`, whose servers become services, and the
//! directives of its core, which configure the process.

mod names;
mod section;
mod server;
mod servers;
mod sockets;
mod syntax;
mod tls;

use std::path::{Path, PathBuf};

use crate::import::{Import, Importer};
use crate::meanings::{self, Conversion, Predecessor};
use crate::nginx::section::{absolute, leave_out};
use crate::nginx::server::take_log;
use crate::nginx::syntax::{NginxDirective, NginxReader};
use crate::source::Statement;
use crate::tls_policy::ORDER;
use section::NginxSection;
use sockets::Sockets;

/// Reads files of nginx into a draft.
pub(crate) fn read(import: &mut Importer<'_>, paths: &[PathBuf]) {
    let main = paths.first().map_or_else(|| Path::new(""), PathBuf::as_path);
    let mut reader = NginxReader::new(main);
    let all: Vec<_> = paths.iter().flat_map(|path| reader.read(import, path, None)).collect();
    if import.is_faulty() {
        return;
    }
    let mut process = NginxProcess::default();
    let mut sections = Vec::new();
    // A file that `http` or `stream` includes has servers outside of all blocks.
    let (loose, all): (Vec<_>, Vec<_>) = all.into_iter().partition(is_of_section);
    if !loose.is_empty() {
        let is_stream = |one: &NginxDirective| {
            let names = one.block.iter().flatten().map(|inner| inner.written.option.as_str());
            names.into_iter().any(|name| ["proxy_pass", "ssl_preread"].contains(&name))
        };
        let is_http = !loose.iter().any(is_stream);
        sections.push(NginxSection::gather(import, &reader.root, loose, is_http));
    }
    for NginxDirective { written, block } in all {
        match (written.option.as_str(), block) {
            ("http" | "stream", Some(block)) => {
                let is_http = written.option == "http";
                import.mapped(&written, "services");
                sections.push(NginxSection::gather(import, &reader.root, block, is_http));
            }
            ("events", Some(block)) => {
                import.mapped(&written, "workers and limits");
                block.into_iter().for_each(|one| process.take(import, &reader.root, one));
            }
            (_, block) => process.take(import, &reader.root, NginxDirective { written, block }),
        }
    }
    let place = import.place.clone();
    process.finish(import);
    for section in &sections {
        let place = section.servers.first().map_or(&place, |server| &server.written.place);
        let servers = section.servers.iter();
        let own: usize = servers.map(|one| one.options.len() + one.listens.len()).sum();
        // Servers inherit the options around them.
        let shared = section.options.len().saturating_mul(section.servers.len());
        if !import.take_options(own.saturating_add(shared), place) {
            return;
        }
    }
    let sockets = Sockets::of(&sections);
    for (number, section) in sections.iter().enumerate() {
        server::write_all(section, number, &sockets, import);
    }
    let logs = sections.iter().any(NginxSection::logs_connections);
    let kind = if logs { "access_log" } else { "stream without access_log" };
    let defaults = meanings::defaults_of(Predecessor::Nginx).iter();
    import.defaults(defaults.filter(|one| one.of == kind));
}

fn is_of_section(one: &NginxDirective) -> bool {
    let names = ["map", "server", "upstream"];
    names.contains(&one.written.option.as_str()) && one.block.is_some()
}

/// Directives that are converted together.
#[derive(Debug, Default)]
struct NginxProcess {
    workers: Option<String>,
    connections: Option<Statement>,
}

impl NginxProcess {
    /// Applies a directive of the top level or of `events`.
    fn take(&mut self, import: &mut Import, root: &Path, one: NginxDirective) {
        let NginxDirective { mut written, block } = one;
        let Some(meaning) = meanings::find(Predecessor::Nginx, &written.option) else {
            return leave_out(import, &NginxDirective { written, block });
        };
        if block.is_some() {
            return leave_out(import, &NginxDirective { written, block });
        }
        import.expect(&written);
        absolute(root, &mut written);
        let value = written.value();
        match meaning.option {
            "user" => {
                let note = "the package of Lariat has `lariat`";
                let first = written.words.first().cloned().unwrap_or_default();
                import.put("process.user", first, &written, note);
                if let Some(group) = written.words.get(1) {
                    import.put("process.group", group.as_str(), &written, note);
                }
            }
            "worker_processes" => {
                if value == "auto" {
                    import.mapped(&written, "workers.threads: one for each CPU, as here");
                } else {
                    let (key, note) = ("workers.threads", "threads of one process");
                    import.apply_key(key, Conversion::Number, note, &written);
                }
                self.workers = Some(value);
            }
            "worker_connections" => self.connections = Some(written),
            "error_log" | "access_log" => take_log(import, &written),
            _ => {
                if import.apply(meaning, &written) {
                    let remedy = "write it into `http` or `stream`";
                    import.lacks(&written, "does not stand at the top level", remedy);
                }
            }
        }
    }

    /// Writes keys that depend on several directives, and defaults that differ.
    fn finish(self, import: &mut Import) {
        if let Some(written) = self.connections {
            let workers = self.workers.as_deref().unwrap_or("1").parse::<u64>().ok();
            let each = written.value().parse::<u64>().ok();
            match workers.zip(each).map(|(workers, each)| workers.saturating_mul(each) / 2) {
                Some(total) => {
                    let note = "half of all workers' together: nginx counts servers' as well";
                    let total = written.with([total.to_string()]);
                    let (key, number) = ("limits.connections", Conversion::Number);
                    import.apply_key(key, number, note, &total);
                }
                None => {
                    let note = "50000 of all workers together, as nothing else is written";
                    import.joined(&written, "limits.connections", note);
                }
            }
        }
        import.note_default("ssl_prefer_server_ciphers", ("", ORDER));
        let older = "TLS 1.2 and 1.3; nginx before 1.27.3 speaks TLS 1.0 and 1.1 too, and before \
                     1.23.4 no TLS 1.3, unless somebody writes it";
        import.note_default("ssl_protocols", ("", older));
    }
}
