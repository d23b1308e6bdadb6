//! Global options of stunnel.

use crate::convert::switch;
use crate::import::Import;
use crate::meaning::{Meaning, Sense};
use crate::source::{SourceLine, Statement};

/// What must be seen whole.
#[derive(Debug, Default)]
pub(super) struct ProcessOptions {
    chroot: Option<String>,
    pid: Option<Statement>,
    says_where_to_log: bool,
}

/// Options that are global, and no defaults of services.
const GLOBAL: &[&str] = &[
    "EGD",
    "RNDbytes",
    "RNDfile",
    "RNDoverwrite",
    "chroot",
    "compression",
    "engine",
    "engineCtrl",
    "engineDefault",
    "fips",
    "foreground",
    "iconActive",
    "iconError",
    "iconIdle",
    "log",
    "provider",
    "providerParameter",
    "service",
    "setEnv",
    "taskbar",
];

impl ProcessOptions {
    /// Takes an option; `false` = it is a default of services.
    pub(super) fn take(
        &mut self,
        import: &mut Import,
        meaning: &Meaning,
        written: &Statement,
    ) -> bool {
        let value = written.value();
        let origin = written.place.clone();
        let process = &mut import.draft.process;
        match meaning.option {
            "debug" => take_debug(import, written),
            "output" => {
                self.says_where_to_log = true;
                let output = match value.as_str() {
                    "/dev/stdout" => "stdout",
                    "/dev/stderr" => "stderr",
                    path => path,
                };
                process.set("log.output", output, origin);
                let note = "lines about connections; messages go to the standard error";
                import.joined(written, "log.output", note);
            }
            "syslog" => {
                self.says_where_to_log = true;
                if switch(&value) == Some(true) {
                    process.set("log.output", "syslog", origin.clone());
                    process.set("log.messages-output", "syslog", origin);
                    let note = "RFC 5424; where /dev/log is journald's, write \"journald\"";
                    import.joined(written, "log.output", note);
                } else {
                    import.mapped(written, "`no`, as here");
                }
            }
            "pid" if value.is_empty() => import.mapped(written, "no file, as here"),
            "pid" => self.pid = Some(written.clone()),
            "setuid" => {
                process.set("process.user", value, origin);
                import.joined(written, "process.user", "the package of Lariat has `lariat`");
            }
            "setgid" => {
                process.push("process.group", value, origin);
                import.joined(written, "process.group", "the package of Lariat has `lariat`");
            }
            option if GLOBAL.contains(&option) => {
                if option == "chroot" {
                    self.chroot = Some(value);
                }
                if matches!(meaning.sense, Sense::Joined { .. }) {
                    import.apply_joined(meaning, written);
                } else {
                    import.apply(meaning, written, &mut crate::draft::DraftTable::default());
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
            import.draft.process.set("process.pid-file", path, written.place.clone());
            import.joined(written, "process.pid-file", "");
        }
        if !self.says_where_to_log {
            let (place, option) = (place.clone(), "syslog (a default)".to_owned());
            let note = "lines go to the standard output, which systemd gives to the journal";
            import.joined(&Statement { place, option, words: Vec::new() }, "log.output", note);
        }
    }
}

/// `[FACILITY.]LEVEL`; connections have the level notice.
pub(super) fn take_debug(import: &mut Import, written: &Statement) {
    let value = written.value().to_ascii_lowercase();
    let (facility, level) = value.split_once('.').unwrap_or(("", &value));
    let is_quiet =
        ["0", "1", "2", "3", "4", "emerg", "alert", "crit", "err", "warning"].contains(&level);
    let process = &mut import.draft.process;
    if !facility.is_empty() {
        process.set("log.syslog.facility", facility, written.place.clone());
    }
    let connections = if is_quiet { "failed" } else { "all" };
    process.set("log.connections", connections, written.place.clone());
    import.joined(written, "log.connections", "a line for each connection, when it ends");
}
