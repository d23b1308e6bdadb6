//! Files of HAProxy: what a `frontend` sends to a `backend`, or a `listen`, becomes a service; the
//! section `global` is for the process.

mod arguments;
mod back;
mod check;
mod front;
mod route;
mod service;
mod syntax;

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::convert::{FACILITIES, is_among};
use crate::haproxy::syntax::{HaproxyPlace, HaproxyReading, HaproxySection, OFF, find};
use crate::import::{Import, Importer};
use crate::meanings::{Conversion, OptionMeaning, OptionSupport};
use crate::source::{SourceFiles, SourceLine, Statement, Statements, UNKNOWN};
use crate::tls_policy::ORDER;

/// Reads files into a draft.
pub(crate) fn read(import: &mut Importer<'_>, paths: &[PathBuf]) {
    let mut reading = HaproxyReading::default();
    for path in paths {
        for path in files_of(path, import.files) {
            reading.take_file(import, &path);
        }
    }
    write_process(&reading, import);
    if !import.is_faulty() {
        service::write(&reading, import);
    }
}

/// The files that `-f PATH` reads: of a folder each `*.cfg`, by name, but for hidden ones.
fn files_of(path: &Path, files: &mut dyn SourceFiles) -> Vec<PathBuf> {
    let mut listed = files.list(path).unwrap_or_default();
    listed.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".cfg") && !name.starts_with('.')
    });
    if listed.is_empty() { vec![path.to_owned()] } else { listed }
}

impl HaproxyReading {
    fn take_file(&mut self, import: &mut Importer<'_>, path: &Path) {
        let Some(text) = import.read(path, None) else { return };
        self.within = HaproxyPlace::Nothing;
        let first = SourceLine::first_of(path);
        for (number, line) in (1..).zip(text.lines()) {
            self.is_full |= self.variables.is_spent() || import.is_full;
            if self.is_full {
                return;
            }
            let place = first.at(number);
            let mut lookup = |name: &str| self.variables.replace(name, import.files);
            let words = syntax::words(line, &mut lookup);
            let words = words.and_then(|words| syntax::expand_address(words, &mut lookup));
            match words {
                Ok(words) => {
                    if matches!(self.within, HaproxyPlace::Global) {
                        self.variables.take(&words, import.files);
                    }
                    self.take_line(import, words, place);
                }
                Err(why) => {
                    import.fault(&place, "syntax", why, "see section 2.2 of HAProxy's manual");
                }
            }
        }
    }

    fn take_line(&mut self, import: &mut Import, words: Vec<String>, place: SourceLine) {
        let mut words = words.into_iter();
        let Some(first) = words.next() else { return };
        let mut words: Vec<_> = words.collect();
        let mut written = Statement { place, option: first.clone(), words: words.clone() };
        if first.starts_with('.') {
            let why = "lines under a condition are not chosen";
            return import.fault(&written.place, &first, why, "write the lines that hold alone");
        }
        if self.opens_section(import, &written) {
            return;
        }
        // A prefix that turns an option off, or back to what it was.
        let is_off = ["no", "default"].contains(&first.as_str()) && !words.is_empty();
        if is_off {
            written.option = words.remove(0);
        }
        let scope = match self.within {
            HaproxyPlace::Global => "global ",
            HaproxyPlace::Proxy => "",
            HaproxyPlace::Other(meaning) => {
                import.apply(meaning, &written);
                return;
            }
            HaproxyPlace::Nothing => {
                let remedy = "write it into `global`, `defaults`, `frontend` or `backend`";
                return import.fault(&written.place, &first, "stands in no section", remedy);
            }
        };
        let two = words.first().map(|second| format!("{scope}{} {second}", written.option));
        let one = format!("{scope}{}", written.option);
        let found = two.as_deref().and_then(find);
        if found.is_some() {
            written.option = format!("{} {}", written.option, words.remove(0));
        }
        let Some(meaning) = found.or_else(|| find(&one)) else {
            let option = two.filter(|_| written.option == "option").unwrap_or(one);
            let written = Statement { option, ..written };
            import.note_unknown(&written);
            if let (HaproxyPlace::Proxy, Some(section)) = (self.within, self.sections.last_mut()) {
                section.options.push(UNKNOWN, written);
            }
            return;
        };
        written.words = words;
        import.expect(&written);
        if is_off {
            import.mapped(&written, "turned off");
            written.option = format!("{OFF}{}", written.option);
        }
        self.keep(import, meaning, written);
    }

    /// Keeps what services need, and reports the rest at once.
    fn keep(&mut self, import: &mut Import, meaning: &'static OptionMeaning, written: Statement) {
        if !meaning.is_written() {
            if written.option.starts_with(OFF) {
                return;
            }
            import.apply(meaning, &written);
            if !meaning.guards(&written.value()) {
                return;
            }
        }
        if is_among(RULES, meaning.option.split(' ').next().unwrap_or_default()) {
            self.is_full |= !import.has_room(self.rules, &written.place);
            self.rules += 1;
        }
        match (self.within, self.sections.last_mut()) {
            (HaproxyPlace::Proxy, Some(section)) => section.options.push(meaning.option, written),
            _ => self.global.push(meaning.option, written),
        }
    }

    fn opens_section(&mut self, import: &mut Import, written: &Statement) -> bool {
        let kind = written.option.as_str();
        let is_proxy = ["defaults", "frontend", "backend", "listen"].contains(&kind);
        if kind == "global" {
            self.within = HaproxyPlace::Global;
        } else if is_proxy {
            self.is_full = !import.has_room(self.sections.len(), &written.place);
            // All sections behind it have its options.
            if let Some(last) = self.sections.last_mut().filter(|one| one.kind == "defaults") {
                last.options = last.options.without_repeated(is_single);
            }
            self.within = HaproxyPlace::Proxy;
            let from = written.words.iter().position(|word| word == "from");
            let from = from.and_then(|place| written.words.get(place + 1));
            let is_default = |one: &HaproxySection| {
                one.kind == "defaults" && from.is_none_or(|name| *name == one.name)
            };
            self.sections.push(HaproxySection {
                kind: kind.to_owned(),
                name: written.words.first().cloned().unwrap_or_default(),
                place: written.place.clone(),
                // A section `defaults` itself has others only by `from`.
                defaults: (kind != "defaults" || from.is_some())
                    .then(|| self.sections.iter().rposition(is_default))
                    .flatten(),
                options: Statements::default(),
                whole: OnceCell::new(),
            });
        } else if let Some(meaning) = find(kind).filter(|_| is_among(OTHERS, kind)) {
            self.within = HaproxyPlace::Other(meaning);
            import.apply(meaning, written);
        } else {
            return false;
        }
        true
    }
}

/// Whether only the last of an option counts.
fn is_single(name: &str) -> bool {
    let is_key = |meaning: &OptionMeaning| match meaning.support {
        OptionSupport::Key { conversion, .. } => !matches!(conversion, Conversion::Paths),
        _ => false,
    };
    ["option ", "timeout "].iter().any(|begin| name.starts_with(begin))
        || ["default_backend", "mode", "source"].contains(&name)
        || find(name).is_some_and(is_key)
}

/// Keywords with conditions.
const RULES: &str = "acl http-request tcp-request tcp-response use_backend";

/// Sections that are no services.
const OTHERS: &str =
    "cache fcgi-app http-errors log-forward mailers peers program resolvers ring userlist";

/// Writes what the whole process does.
fn write_process(reading: &HaproxyReading, import: &mut Import) {
    arguments::write_keys(&reading.global, import);
    for (name, written) in reading.global.iter() {
        match name {
            "global ca-base" | "global crt-base" => {
                import.joined(written, "the paths of files below it", "");
            }
            "global ssl-server-verify" => import.joined(written, "service.back.tls.verify", ""),
            "global setenv" => import.mapped(written, "in this file"),
            "global tune.ssl.lifetime" => {
                let (key, note) =
                    ("resumption.session-cache.lifetime", "tickets live on for 2 hours");
                import.apply_key(key, Conversion::Seconds, note, written);
            }
            "global log" => write_log(written, import),
            _ => {}
        }
    }
    import.note_default("ciphers", ("", ORDER));
    let has_log = reading.sections.iter().any(|one| one.options.find("log").is_some());
    if !has_log && reading.global.find("global log").is_none() {
        let process = &mut import.draft.process;
        process.set_default("log.connections", "none", "without `log`, HAProxy writes no lines");
        import.note_default("log", ("log.connections", ""));
    }
    for (name, written) in reading.sections.iter().flat_map(|one| one.options.iter()) {
        match (name, written.words.first().map(String::as_str)) {
            ("log", Some("global")) => import.joined(written, "log.output", ""),
            ("log", _) => write_log(written, import),
            _ => {}
        }
    }
}

/// A target of the log: one is written to.
fn write_log(written: &Statement, import: &mut Import) {
    if import.draft.process.has("log.output") {
        return import.lacks(written, "the log has one target", "syslog daemons pass it on");
    }
    let target = written.words.first().map_or("", String::as_str);
    let note = "a line for each connection, when it ends";
    let mut put = |key: &str, value: &str| import.put(key, value, written, note);
    match target {
        "stdout" | "stderr" => put("log.output", target),
        target if target.starts_with('/') => {
            put("log.output", "syslog");
            put("log.syslog.address", &format!("unix:{target}"));
        }
        target => {
            let target = target.trim_start_matches("udp@").trim_start_matches("ipv4@");
            let with_port = format!("{target}:514");
            let address = [target, &with_port].into_iter().find_map(|one| one.parse().ok());
            let Some(address): Option<SocketAddr> = address else {
                let remedy = "`log.output = \"syslog\"`";
                return import.lacks(written, "is no address that logs are sent to", remedy);
            };
            put("log.output", "syslog");
            put("log.syslog.address", &address.to_string());
        }
    }
    let is_facility = |word: &&String| is_among(FACILITIES, word);
    if let Some(facility) = written.words.iter().skip(1).find(is_facility) {
        import.put("log.syslog.facility", facility.clone(), written, note);
    }
}
