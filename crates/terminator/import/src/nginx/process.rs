//! Directives of nginx's core, which are for the process.

use std::path::Path;

use crate::convert::{FACILITIES, is_among};
use crate::draft::DraftTable;
use crate::import::Import;
use crate::meaning::Conversion;
use crate::meanings;
use crate::nginx::section::{absolute, leave_out};
use crate::nginx::syntax::NginxDirective;
use crate::predecessor::Predecessor;
use crate::source::{SourceLine, Statement};
use crate::tls_policy::ORDER;

/// Directives that must be seen together.
#[derive(Debug, Default)]
pub(super) struct NginxProcess {
    workers: Option<String>,
    connections: Option<Statement>,
}

impl NginxProcess {
    /// Takes a directive of the top level or of `events`.
    pub(super) fn take(&mut self, import: &mut Import, root: &Path, one: NginxDirective) {
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
        let mut unused = DraftTable::default();
        match meaning.option {
            "user" => {
                let note = "the package of Lariat has `lariat`";
                let first = written.words.first().cloned().unwrap_or_default();
                import.put(&mut unused, "process.user", first, &written, note);
                if let Some(group) = written.words.get(1) {
                    import.put(&mut unused, "process.group", group.as_str(), &written, note);
                }
            }
            "worker_processes" => {
                if value == "auto" {
                    import.mapped(&written, "workers.threads: one for each CPU, as here");
                } else {
                    let (key, note) = ("workers.threads", "threads of one process");
                    import.apply_key(key, Conversion::Number, note, &written, &mut unused);
                }
                self.workers = Some(value);
            }
            "worker_connections" => self.connections = Some(written),
            "error_log" | "access_log" => take_log(import, &written),
            _ => {
                if import.apply(meaning, &written, &mut unused) {
                    let remedy = "write it into `http` or `stream`";
                    import.lacks(&written, "does not stand at the top level", remedy);
                }
            }
        }
    }

    /// Writes what several directives say together, and what differs though nobody wrote it.
    pub(super) fn finish(self, import: &mut Import, place: &SourceLine) {
        if let Some(written) = self.connections {
            let workers = self.workers.as_deref().unwrap_or("1").parse::<u64>().ok();
            let each = written.value().parse::<u64>().ok();
            match workers.zip(each).map(|(workers, each)| workers.saturating_mul(each) / 2) {
                Some(total) => {
                    let note = "half of all workers' together: nginx counts servers' as well";
                    let words = vec![total.to_string()];
                    let total = Statement { words, ..written };
                    let (key, number) = ("limits.connections", Conversion::Number);
                    import.apply_key(key, number, note, &total, &mut DraftTable::default());
                }
                None => {
                    let note = "50000 of all workers together, as nothing else is written";
                    import.joined(&written, "limits.connections", note);
                }
            }
        }
        import.note_default(place, "ssl_prefer_server_ciphers", ("", ORDER));
        let older = "TLS 1.2 and 1.3; nginx before 1.27.3 speaks TLS 1.0 and 1.1 too, and before \
                     1.23.4 no TLS 1.3, unless somebody writes it";
        import.note_default(place, "ssl_protocols", ("", older));
    }
}

/// The log of messages, or of connections: there is one of each.
pub(super) fn take_log(import: &mut Import, written: &Statement) {
    let mut unused = DraftTable::default();
    let target = written.words.first().map_or("", String::as_str);
    let (key, note) = match written.option.as_str() {
        "error_log" => ("log.messages-output", "messages go to the standard error or the journal"),
        _ => ("log.output", "one log of all connections, with lines of Lariat's own"),
    };
    let syslog = target.strip_prefix("syslog:");
    match (key, syslog) {
        ("log.output", None) if target == "off" => {
            import.put(&mut unused, "log.connections", "none", written, "for all services");
        }
        (key, Some(parameters)) => {
            import.put(&mut unused, key, "syslog", written, note);
            for parameter in parameters.split(',') {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                match name {
                    "facility" if is_among(FACILITIES, value) => {
                        import.put(&mut unused, "log.syslog.facility", value, written, "");
                    }
                    "server"
                        if value.starts_with(|one: char| one.is_alphabetic())
                            && !value.starts_with("unix:") =>
                    {
                        import.lacks(
                            written,
                            "names are not looked up here",
                            "write an IP address",
                        );
                    }
                    "server" => {
                        let has_port = value.starts_with("unix:") || value.contains(':');
                        let port = if has_port { "" } else { ":514" };
                        let (key, address) = ("log.syslog.address", format!("{value}{port}"));
                        import.put(&mut unused, key, address, written, "an IP address");
                    }
                    _ => import.joined(written, key, "tags and severities are Lariat's own"),
                }
            }
        }
        ("log.output", None) if target.contains('$') || target.is_empty() => {
            import.lacks(written, "Lariat has no variables", "`log.output`");
        }
        ("log.output", None) => {
            let target = target.strip_prefix("/dev/").filter(|name| name.starts_with("std"));
            let target = target.unwrap_or(&written.words[0]);
            import.put(&mut unused, key, target, written, note);
        }
        _ => import.joined(written, key, note),
    }
}
