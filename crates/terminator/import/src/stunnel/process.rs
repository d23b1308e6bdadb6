//! Global options of stunnel.

use crate::convert::{is_among, switch};
use crate::draft::DraftTable;
use crate::import::Import;
use crate::meaning::{Meaning, Sense};
use crate::source::{SourceLine, Statement};
use crate::tls_policy::ORDER;

/// Global options that are written once all of them have been read.
#[derive(Debug, Default)]
pub(super) struct StunnelProcess {
    chroot: Option<String>,
    pid: Option<Statement>,
    says_where_to_log: bool,
}

/// Options that are global, and no defaults of services.
const GLOBAL: &str = "\
    EGD RNDbytes RNDfile RNDoverwrite chroot compression engine engineCtrl engineDefault \
    fips foreground iconActive iconError iconIdle log provider providerParameter service \
    setEnv taskbar";

impl StunnelProcess {
    /// Takes an option; `false` = it is a default of services.
    pub(super) fn take(
        &mut self,
        import: &mut Import,
        meaning: &Meaning,
        written: &Statement,
    ) -> bool {
        let value = written.value();
        let is_on = switch(&value) == Some(true);
        let mut unused = DraftTable::default();
        let mut put = |key: &str, value: &str, note: &str| {
            import.put(&mut unused, key, value, written, note);
        };
        match meaning.option {
            "debug" => take_debug(import, written),
            "output" => {
                let to = value.strip_prefix("/dev/").filter(|name| name.starts_with("std"));
                let note = "lines about connections; messages go to the standard error";
                put("log.output", to.unwrap_or(&value), note);
                self.says_where_to_log = true;
            }
            "syslog" => {
                self.says_where_to_log = true;
                if is_on {
                    let note = "RFC 5424; where /dev/log is journald's, \"journald\"";
                    put("log.output", "syslog", note);
                    put("log.messages-output", "syslog", "");
                } else {
                    import.mapped(written, "`no`, as here");
                }
            }
            "pid" if value.is_empty() => import.mapped(written, "no file, as here"),
            "pid" => self.pid = Some(written.clone()),
            "setuid" => put("process.user", &value, "the package of Lariat has `lariat`"),
            "setgid" => put("process.group", &value, "the package of Lariat has `lariat`"),
            option if is_among(GLOBAL, option) => {
                if option == "chroot" {
                    self.chroot = Some(value);
                }
                if matches!(meaning.sense, Sense::Joined { .. }) {
                    import.apply_joined(meaning, written);
                } else {
                    import.apply(meaning, written, &mut unused);
                }
            }
            _ => return false,
        }
        true
    }

    pub(super) fn finish(&self, import: &mut Import, place: &SourceLine) {
        if let Some(written) = &self.pid {
            let value = written.value();
            let path = match &self.chroot {
                Some(root) => format!("{}{value}", root.trim_end_matches('/')),
                None => value,
            };
            import.put(&mut DraftTable::default(), "process.pid-file", path, written, "");
        }
        if !self.says_where_to_log {
            let note = "lines go to the standard output, which systemd gives to the journal";
            import.note_default(place, "syslog", ("log.output", note));
        }
        import.note_default(place, "ciphers", ("", ORDER));
    }
}

/// `[FACILITY.]LEVEL`; connections have the level notice.
pub(super) fn take_debug(import: &mut Import, written: &Statement) {
    let value = written.value().to_ascii_lowercase();
    let (facility, level) = value.split_once('.').unwrap_or(("", &value));
    let is_quiet =
        ["0", "1", "2", "3", "4", "emerg", "alert", "crit", "err", "warning"].contains(&level);
    let mut unused = DraftTable::default();
    if !facility.is_empty() {
        import.put(&mut unused, "log.syslog.facility", facility, written, "");
    }
    let connections = if is_quiet { "failed" } else { "all" };
    let note = "a line for each connection, when it ends";
    import.put(&mut unused, "log.connections", connections, written, note);
}
