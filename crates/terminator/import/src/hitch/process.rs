//! Options of hitch that are for the process, not for frontends.

use crate::convert::switch;
use crate::draft::DraftTable;
use crate::import::Import;
use crate::meaning::Conversion;
use crate::predecessor::Predecessor;
use crate::source::{SourceLine, Statement};
use crate::statements::Statements;
use crate::tls_policy::ORDER;

/// Options that this module writes.
pub(super) const OPTIONS: &str = "\
    log-level quiet shared-cache shared-cache-if shared-cache-listen shared-cache-peer \
    syslog syslog-facility tcp-fastopen user workers";

/// Writes these options, and reports defaults of hitch that differ from Lariat's.
pub(super) fn write(options: &Statements, import: &mut Import, place: &SourceLine) {
    for (name, written) in options.iter() {
        take(name, written, import);
    }
    let default = |option: &str| Statement {
        place: place.clone(),
        option: format!("{option} (a default)"),
        words: Vec::new(),
    };
    if options.find("ocsp-dir").is_none() && import.is_of(Predecessor::Hitch) {
        let note = "hitch fetches OCSP responses by itself; Lariat staples those that a timer writes \
                    to `x.ocsp` beside `x.pem`";
        import.joined(&default("ocsp-dir"), "", note);
    }
    if options.find("prefer-server-ciphers").is_none() {
        import.joined(&default("prefer-server-ciphers"), "", ORDER);
    }
}

fn take(name: &str, written: &Statement, import: &mut Import) {
    let value = written.value();
    let is_on = switch(&value) == Some(true);
    let mut unused = DraftTable::default();
    let mut put = |key: &str, value: &str, note: &str| {
        import.put(&mut unused, key, value, written, note);
    };
    match name {
        "workers" if value == "auto" => import.mapped(written, "workers.threads"),
        "workers" => number(import, "workers.threads", written),
        "user" => put("process.user", &value, "the package of Lariat has `lariat`"),
        "log-level" => {
            let levels = [("0", "none"), ("1", "failed")];
            let connections = levels.iter().find(|(level, _)| *level == value);
            let connections = connections.map_or("all", |(_, connections)| connections);
            put("log.connections", connections, "messages are written in any case");
        }
        "quiet" => put("log.connections", if is_on { "failed" } else { "all" }, ""),
        "syslog" if is_on => {
            put("log.output", "syslog", "RFC 5424; where /dev/log is journald's, \"journald\"");
            put("log.messages-output", "syslog", "");
        }
        "syslog-facility" => put("log.syslog.facility", &value.to_ascii_lowercase(), ""),
        "tcp-fastopen" if is_on => {
            let note = "with a queue of 256; set net.ipv4.tcp_fastopen to 2 or 3";
            import.put(&mut unused, "workers.fast-open", 256, written, note);
        }
        "shared-cache" if value != "0" => {
            number(import, "resumption.session-cache.entries", written);
        }
        "syslog" | "tcp-fastopen" | "shared-cache" => import.mapped(written, "off, as here"),
        _ => {}
    }
}

fn number(import: &mut Import, key: &str, written: &Statement) {
    import.apply_key(key, Conversion::Number, "", written, &mut DraftTable::default());
}
