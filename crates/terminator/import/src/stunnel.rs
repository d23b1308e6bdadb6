//! Files of stunnel: global options, which may be defaults of services, and a section a service.

mod section;
mod service;

use std::path::{Path, PathBuf};

use crate::convert::is_among;
use crate::import::{Import, Importer};
use crate::meanings::{self, OptionMeaning, OptionSupport, Predecessor};
use crate::source::{SourceLine, Statement, Statements, UNKNOWN, switch};
use crate::stunnel::service::take_debug;
use crate::tls_policy::ORDER;
use section::StunnelSection;

/// All that was read.
#[derive(Debug, Default)]
struct StunnelReading {
    process: StunnelProcess,
    /// Options of services at the top level: the defaults of all sections.
    defaults: Statements,
    sections: Vec<StunnelSection>,
    /// Files that are being read, each included by the one before.
    open: Vec<PathBuf>,
    /// Whether there were too many sections, so that the rest is not looked at.
    is_full: bool,
}

/// Files within files; a service has hardly ever more than two.
const INCLUDES_MAX: usize = 16;

/// Reads files into a draft.
pub(crate) fn read(import: &mut Importer<'_>, paths: &[PathBuf]) {
    let mut reading = StunnelReading::default();
    for path in paths {
        reading.take_file(import, path, None);
    }
    reading.finish(import);
}

impl StunnelReading {
    fn take_file(&mut self, import: &mut Importer<'_>, path: &Path, from: Option<&SourceLine>) {
        if self.open.iter().any(|open| open == path) || self.open.len() >= INCLUDES_MAX {
            let place = from.cloned().unwrap_or_else(|| SourceLine::first_of(path));
            let why = format!("{} includes itself, by others or at once", path.display());
            return import.fault(&place, "include", why, "take out one of the includes");
        }
        let Some(text) = import.read(path, from) else { return };
        self.open.push(path.to_owned());
        let first = SourceLine::first_of(path);
        for (number, line) in (1..).zip(text.lines()) {
            self.is_full |= import.is_full;
            if self.is_full {
                break;
            }
            self.take_line(import, line.trim_start_matches('\u{feff}'), first.at(number));
        }
        self.open.pop();
    }

    fn take_line(&mut self, import: &mut Importer<'_>, line: &str, place: SourceLine) {
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            return;
        }
        if let Some(name) = line.strip_prefix('[') {
            match name.strip_suffix(']') {
                Some(name) if import.has_room(self.sections.len(), &place) => {
                    self.sections.push(StunnelSection::new(name.trim(), place));
                }
                Some(_) => self.is_full = true,
                None => import.fault(&place, line, "`[` is not closed", "write `[service]`"),
            }
            return;
        }
        let Some((option, value)) = line.split_once('=') else {
            return import.fault(&place, line, "is no option", "write `option = value`");
        };
        let (option, words) = (option.trim().to_owned(), vec![value.trim().to_owned()]);
        let written = Statement { place, option, words };
        let Some(meaning) = meanings::find(Predecessor::Stunnel, &written.option) else {
            import.note_unknown(&written);
            return self.take_option(UNKNOWN, written);
        };
        import.expect(&written);
        if meaning.option == "include" {
            return self.include(import, &written);
        }
        let is_global = self.sections.is_empty();
        if is_global && self.process.take(import, meaning, &written) {
            // What services say of paths depends on it.
            if meaning.option != "chroot" {
                return;
            }
        }
        self.take_option(meaning.option, written);
    }

    fn take_option(&mut self, name: &'static str, written: Statement) {
        match self.sections.last_mut() {
            Some(section) => section.options.push(name, written),
            None => self.defaults.push(name, written),
        }
    }

    fn include(&mut self, import: &mut Importer<'_>, written: &Statement) {
        let directory = written.value();
        match import.files.list(Path::new(&directory)) {
            Ok(paths) => {
                import.mapped(written, "the files in it");
                for path in paths {
                    self.take_file(import, &path, Some(&written.place));
                }
            }
            Err(fault) => {
                let why = format!("`{directory}` cannot be listed: {fault}");
                import.fault(&written.place, "include", why, "name a directory");
            }
        }
    }

    fn finish(self, import: &mut Importer<'_>) {
        self.process.finish(import);
        if self.sections.is_empty() && !import.is_faulty() {
            let place = import.place.clone();
            let why = "has no [service]: inetd would start it for each connection";
            let remedy = "write `[main]` with accept and connect";
            return import.fault(&place, "inetd mode", why, remedy);
        }
        for section in &self.sections {
            let options = self.defaults.len() + section.options.len();
            if !import.take_options(options, &section.place) {
                return;
            }
        }
        let sections: Vec<_> = self.sections.iter().map(|one| one.with(&self.defaults)).collect();
        for section in &sections {
            if import.is_full {
                return;
            }
            service::write(section, import, &sections);
        }
    }
}

/// Global options that are written once all of them have been read.
#[derive(Debug, Default)]
struct StunnelProcess {
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
    fn take(&mut self, import: &mut Import, meaning: &OptionMeaning, written: &Statement) -> bool {
        let value = written.value();
        let is_on = switch(&value) == Some(true);
        let mut put = |key: &str, value: &str, note: &str| {
            import.put(key, value, written, note);
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
                if matches!(meaning.support, OptionSupport::Joined { .. }) {
                    import.apply_joined(meaning, written);
                } else {
                    import.apply(meaning, written);
                }
            }
            _ => return false,
        }
        true
    }

    fn finish(&self, import: &mut Import) {
        if let Some(written) = &self.pid {
            let value = written.value();
            let path = match &self.chroot {
                Some(root) => format!("{}{value}", root.trim_end_matches('/')),
                None => value,
            };
            import.put("process.pid-file", path, written, "");
        }
        if !self.says_where_to_log {
            let note = "lines go to the standard output, which systemd gives to the journal";
            import.note_default("syslog", ("log.output", note));
        }
        import.note_default("ciphers", ("", ORDER));
    }
}
