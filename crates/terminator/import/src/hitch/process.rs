//! Options of hitch that are for the process, not for frontends.

use crate::convert::switch;
use crate::draft::DraftTable;
use crate::import::Import;
use crate::predecessor::Predecessor;
use crate::source::{SourceLine, Statement};
use crate::statements::Statements;
use crate::tls_policy::ORDER;

/// Writes where to log, and reports defaults of hitch that differ from Lariat's.
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
