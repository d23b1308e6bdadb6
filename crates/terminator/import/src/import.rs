//! An import on its way: the draft, and what became of each option.

use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::Duration;

use options::diagnostic::nearest;
use options::{Kind, Table};
use toml::Value;

use crate::convert::{KeyRange, UnusableValue, convert};
use crate::draft::{self, Draft, DraftTable};
use crate::finding::{ImportFinding, ImportOutcome};
use crate::meanings::{self, Conversion, OldDefault, OptionMeaning, OptionSupport, Predecessor};
use crate::source::{
    BLOCKS_MAX, FILE_BYTES_MAX, FILES_MAX, FINDINGS_MAX, OPTIONS_MAX, READ_BYTES_MAX, SourceFiles,
    SourceLine, Statement, Statements, UNKNOWN, Written, switch,
};

/// The finding of an option that another one stands in for.
const REPLACED: &str = "without effect: another option is used in its place";

/// The same of HAProxy's, where it may also be an option of what is left out.
const REPLACED_OR_OUT: &str =
    "without effect: another option is used in its place, or its section or server is left out";

/// The table in which keys of services begin.
const SERVICE: &str = "service.";

/// The result of importing the files of a program.
#[derive(Debug)]
pub struct Import {
    of: Predecessor,
    table: &'static Table,
    /// The files, or the command line.
    words: String,
    /// Stands for them as a whole.
    pub(crate) place: SourceLine,
    pub(crate) draft: Draft,
    /// The service that is being written.
    pub(crate) service: DraftTable,
    pub(crate) findings: Vec<ImportFinding>,
    /// Options that were read, each of which needs a finding.
    read: Vec<(SourceLine, String)>,
    /// The last value of each option that stands at the top, by its name in the table.
    pub(crate) settings: HashMap<&'static str, String>,
    unknown: Vec<ImportFinding>,
    /// How many unknown options may still be compared with all others.
    comparisons: usize,
    /// Options that were looked at, for each service anew.
    options: usize,
    /// Whether something was more than any configuration has, so that the rest is not looked at.
    pub(crate) is_full: bool,
}

impl Import {
    pub(crate) fn new(of: Predecessor, words: &[PathBuf], table: &'static Table) -> Self {
        let words = words.iter().map(|word| word.display().to_string()).collect::<Vec<_>>();
        let words = words.join(" ");
        let is_line = words.is_empty() || words.starts_with('-');
        Self {
            of,
            table,
            place: SourceLine::outside(if is_line { "command line" } else { &words }),
            words,
            draft: Draft::default(),
            service: DraftTable::default(),
            findings: Vec::new(),
            read: Vec::new(),
            settings: HashMap::new(),
            unknown: Vec::new(),
            comparisons: BLOCKS_MAX,
            options: 0,
            is_full: false,
        }
    }

    pub(crate) fn is_of(&self, predecessor: Predecessor) -> bool {
        self.of == predecessor
    }

    /// The findings about options, in the order of the files.
    pub fn findings(&self) -> &[ImportFinding] {
        &self.findings
    }

    /// Whether something is wrong with the files, so that nothing should be made of them.
    pub fn is_faulty(&self) -> bool {
        self.is_full
            || self.findings.iter().any(|one| matches!(one.outcome, ImportOutcome::Fault { .. }))
    }

    /// Options that the program does not have, and would refuse.
    pub fn unknown(&self) -> &[ImportFinding] {
        &self.unknown
    }

    /// The first address that is listened at.
    pub fn first_address(&self) -> Option<&str> {
        let service = self.draft.services.first()?;
        service.find("front.listen")?.values.first()?.value.as_str()
    }

    /// The value of an option of hitch, by its name in the table of meanings, as it was written.
    pub fn setting(&self, option: &str) -> Option<&str> {
        self.settings.get(option).map(String::as_str)
    }

    /// Whether a switch of hitch is on.
    pub fn is_on(&self, option: &str) -> bool {
        self.setting(option).and_then(switch) == Some(true)
    }

    /// The file of the other program to which Lariat would write lines too.
    pub fn log_file(&self) -> Option<&str> {
        let path = self.draft.process.text("log.output")?;
        (path.contains('/') && !path.starts_with("/dev/")).then_some(path)
    }

    /// Whether somebody should look at what is missing.
    pub fn is_partial(&self) -> bool {
        let is_missing = |one: &ImportFinding| {
            matches!(
                one.outcome,
                ImportOutcome::Unmapped { .. }
                    | ImportOutcome::LeftOut { .. }
                    | ImportOutcome::Missing(_)
            )
        };
        self.findings.iter().any(is_missing)
    }

    /// The report: a line for each finding, and their numbers.
    pub fn report(&self) -> String {
        let lines: String = self.findings.iter().map(|one| format!("{one}\n")).collect();
        lines + &self.counts()
    }

    fn counts(&self) -> String {
        let count = |word| self.findings.iter().filter(|one| one.outcome.word() == word).count();
        let words =
            ["mapped", "mapped with a difference", "not mapped", "left out", "not found", "error"];
        let counts = words.map(|word| (count(word), word));
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, word)| format!("{count} {word}")).collect();
        if counts.is_empty() { "nothing was found".to_owned() } else { counts.join(", ") }
    }

    /// The configuration as TOML, with the origin of each value, and what is not in it.
    pub fn toml(&self) -> String {
        let mut text = String::new();
        let head = format!("From `lariat import {} {}`.", self.of.word(), self.words);
        draft::comment(&mut text, &head);
        draft::comment(&mut text, "A comment behind a value names the line that it comes from.");
        for finding in &self.findings {
            let ImportFinding { place, option, outcome } = finding;
            let (word, why) = match outcome {
                ImportOutcome::Unmapped { why, .. } => ("Not mapped", why),
                ImportOutcome::LeftOut { why, .. } => ("Left out", why),
                _ => continue,
            };
            draft::comment(&mut text, &format!("{word}: {place}: {option}: {why}"));
        }
        text + &draft::toml(&self.draft)
    }

    /// Notes that an option was read, so that it gets a finding in any case.
    pub(crate) fn expect(&mut self, written: &Statement) {
        let name = written.option.split(' ').next().unwrap_or_default();
        self.read.push((written.place.clone(), name.to_owned()));
    }

    /// Puts findings into the order of the files.
    fn settle(&mut self) {
        let found: HashSet<_> = self.findings.iter().map(|one| one.named()).collect();
        let read = std::mem::take(&mut self.read);
        let missed = read.into_iter().filter(|one| !found.contains(one) && !self.is_full);
        let missed: Vec<_> = missed.collect();
        let outcome = if self.is_faulty() {
            let (why, remedy) = ("was not looked at, because of an error", "mend that first");
            ImportOutcome::Unmapped { why: why.to_owned(), remedy: remedy.to_owned() }
        } else {
            let is_haproxy = self.is_of(Predecessor::Haproxy);
            let words = if is_haproxy { REPLACED_OR_OUT } else { REPLACED };
            ImportOutcome::Mapped(words.to_owned())
        };
        for (place, option) in missed {
            self.note(&place, &option, outcome.clone());
        }
        if self.draft.services.is_empty() && !self.is_faulty() {
            let remedy = "see what is not mapped";
            self.fault(&self.place.clone(), "services", "none is left to be served", remedy);
        }
        self.say_once();
        self.findings.sort_by(|a, b| a.place.cmp(&b.place));
    }

    /// Counts options that are looked at for one more service; a fault if they are too many.
    pub(crate) fn take_options(&mut self, options: usize, place: &SourceLine) -> bool {
        self.options = self.options.saturating_add(options);
        if self.options > OPTIONS_MAX {
            let what = "options, those that several services share counted for each,";
            self.fill(place, &format!("more than {OPTIONS_MAX} {what}"));
        }
        !self.is_full
    }

    /// Ends the import because of too much of something, which is told once.
    pub(crate) fn fill(&mut self, place: &SourceLine, what: &str) {
        if !self.is_full {
            self.fault(place, "file", format!("{what}, as no configuration has"), "divide it");
            self.is_full = true;
        }
    }

    /// Whether one more block may follow after `blocks` blocks; a fault if it may not.
    pub(crate) fn has_room(&mut self, blocks: usize, place: &SourceLine) -> bool {
        if blocks == BLOCKS_MAX {
            let why = format!("more than {BLOCKS_MAX} of a kind, as no configuration has");
            self.fault(place, "file", why, "divide it");
        }
        blocks < BLOCKS_MAX
    }

    /// Begins a service, under a name that no other has.
    pub(crate) fn begin(&mut self, name: &str, origin: impl Into<Option<SourceLine>>) {
        self.service = DraftTable::default();
        let name = self.draft.free_name(name);
        self.service.set("name", name, origin);
    }

    /// The table that has been written, in place of which an empty one is begun.
    pub(crate) fn take_service(&mut self) -> DraftTable {
        std::mem::take(&mut self.service)
    }

    /// Puts a sentence above a key of the service that has been set.
    pub(crate) fn remark(&mut self, path: &str, remark: &str) {
        self.service.remark(path, remark);
    }

    /// Does what the table says of an option. Returns whether the importer's own code must do it,
    /// and report it.
    pub(crate) fn apply(&mut self, meaning: &OptionMeaning, written: &Statement) -> bool {
        match &meaning.support {
            OptionSupport::Joined { .. } => return true,
            _ if meaning.is_harmless(&written.value()) => {
                self.mapped(written, format!("`{}`, as here", written.value()));
            }
            OptionSupport::Key { key, conversion, note } => {
                self.apply_key(key, *conversion, note, written)
            }
            OptionSupport::Always(words) => self.mapped(written, *words),
            OptionSupport::Lacks { why, remedy, .. } => self.lacks(written, why, remedy),
        }
        false
    }

    /// Writes the value of one key.
    pub(crate) fn apply_key<'s>(
        &mut self,
        key: &str,
        conversion: Conversion,
        note: &str,
        all: impl Written<'s>,
    ) {
        for written in all {
            let converted = match convert(self.range(key), conversion, &written.words) {
                Ok(converted) => converted,
                // hitch itself refuses it.
                Err(UnusableValue { why, remedy })
                    if self.is_of(Predecessor::Hitch)
                        && matches!(conversion, Conversion::Number | Conversion::Seconds) =>
                {
                    self.fault(&written.place, &written.option, why, remedy);
                    continue;
                }
                Err(unfit) => {
                    self.unmapped(written, unfit);
                    continue;
                }
            };
            let notes =
                [Some(note.to_owned()).filter(|note| !note.is_empty()), converted.difference];
            let notes = notes.into_iter().flatten().collect::<Vec<_>>().join("; ");
            match conversion {
                Conversion::Paths => self.add(key, converted.value, written, &notes),
                _ => self.put(key, converted.value, written, &notes),
            }
        }
    }

    /// The least and the most that a key takes.
    pub(crate) fn range(&self, key: &str) -> KeyRange {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        match self.table.find(key).map(|key| key.kind) {
            Some(Kind::Count(least, most) | Kind::Size(least, most)) => (least, most),
            Some(Kind::Duration(least, most)) => (milliseconds(least), milliseconds(most)),
            Some(Kind::Threads) => (1, 1024),
            _ => (0, i64::MAX as u64),
        }
    }

    /// Sets a key, of the service or of the process, and reports it; with a difference, if any.
    pub(crate) fn put<'s>(
        &mut self,
        key: &str,
        value: impl Into<Value>,
        all: impl Written<'s>,
        difference: &str,
    ) {
        let value = value.into();
        for written in all {
            let (table, path) = self.table_of(key);
            table.set(path, value.clone(), written.place.clone());
            self.joined(written, key, difference);
        }
    }

    /// Adds a value to the list of a key, and reports it.
    pub(crate) fn add(
        &mut self,
        key: &str,
        value: impl Into<Value>,
        written: &Statement,
        difference: &str,
    ) {
        let (table, path) = self.table_of(key);
        table.push(path, value, written.place.clone());
        self.joined(written, key, difference);
    }

    fn table_of<'k>(&mut self, key: &'k str) -> (&mut DraftTable, &'k str) {
        match key.strip_prefix(SERVICE) {
            Some(path) => (&mut self.service, path),
            None => (&mut self.draft.process, key),
        }
    }

    /// Writes the defaults of the program before where those keys have no value yet.
    pub(crate) fn defaults(&mut self, defaults: impl IntoIterator<Item = &'static OldDefault>) {
        let of = self.of;
        for OldDefault { option, key, value, note, .. } in defaults {
            let (table, path) = self.table_of(key);
            if !table.has(path) {
                table.set_default(path, value.clone(), &remark(note, of));
                let outcome = ImportOutcome::Mapped(format!("{key} = {value}: {note}"));
                self.note(&self.place.clone(), &format!("{option} (a default)"), outcome);
            }
        }
    }

    /// Puts the service into the draft, unless one of its options refuses clients or servers in a
    /// way that cannot be said.
    pub(crate) fn finish(&mut self, options: &Statements, of: &Statement) {
        let table = self.of;
        let is_guard = |(name, written): &(&str, &Statement)| {
            let meaning = meanings::find(table, name);
            *name == UNKNOWN || meaning.is_some_and(|one| one.guards(&written.value()))
        };
        match options.iter().find(is_guard) {
            None => self.keep(),
            Some((_, guard)) => self.leave_out(of, UnusableValue::refusal(guard)),
        }
    }

    /// Puts the service into the draft.
    pub(crate) fn keep(&mut self) {
        let service = self.take_service();
        self.draft.services.push(service);
    }

    /// Makes the service a comment in the file.
    pub(crate) fn refuse(&mut self) {
        let service = self.take_service();
        self.draft.refused.push(service);
    }

    /// Leaves the service out, which is a comment in the file.
    pub(crate) fn leave_out(&mut self, of: &Statement, unfit: UnusableValue) {
        self.refuse();
        self.report_refused(of, unfit);
    }

    /// Reports what is left out.
    pub(crate) fn report_refused(
        &mut self,
        of: &Statement,
        UnusableValue { why, remedy }: UnusableValue,
    ) {
        let option = format!("{} {}", of.option, of.value());
        self.note(&of.place, option.trim(), ImportOutcome::LeftOut { why, remedy });
    }

    /// An option of the table that the importer's own code has written, with the table's note.
    pub(crate) fn apply_joined(&mut self, meaning: &OptionMeaning, written: &Statement) {
        if let OptionSupport::Joined { keys, note } = meaning.support {
            self.joined(written, keys, note);
        }
    }

    /// Options that the importer's own code has written; with a difference if there is one.
    pub(crate) fn joined<'s>(&mut self, all: impl Written<'s>, key: &str, difference: &str) {
        let (key, difference) = (key.to_owned(), difference.to_owned());
        let is_same = difference.is_empty();
        let outcome = if is_same {
            ImportOutcome::Mapped(key)
        } else {
            ImportOutcome::Differs { key, difference }
        };
        all.into_iter().for_each(|one| self.note(&one.place, &one.option, outcome.clone()));
    }

    /// A default that no key says, and what differs.
    pub(crate) fn note_default(&mut self, option: &str, (key, note): (&str, &str)) {
        let option = format!("{option} (a default)");
        self.joined(&Statement::new(&self.place.clone(), &option, Vec::new()), key, note);
    }

    pub(crate) fn mapped<'s>(&mut self, all: impl Written<'s>, to: impl Into<String>) {
        let outcome = ImportOutcome::Mapped(to.into());
        all.into_iter().for_each(|one| self.note(&one.place, &one.option, outcome.clone()));
    }

    pub(crate) fn unmapped(&mut self, written: &Statement, unfit: UnusableValue) {
        let option = match written.value() {
            value if value.is_empty() || value.chars().count() > 60 => written.option.clone(),
            value => format!("{} {value}", written.option),
        };
        let UnusableValue { why, remedy } = unfit;
        self.note(&written.place, &option, ImportOutcome::Unmapped { why, remedy });
    }

    /// Options, and what to do in their place.
    pub(crate) fn lacks<'s>(&mut self, all: impl Written<'s>, why: &str, remedy: &str) {
        all.into_iter().for_each(|one| self.unmapped(one, UnusableValue::new(why, remedy)));
    }

    /// An option that the table does not have.
    pub(crate) fn note_unknown(&mut self, written: &Statement) {
        self.comparisons = self.comparisons.saturating_sub(1);
        let compared = if self.comparisons > 0 { meanings::of(self.of) } else { &[] };
        let names = compared.iter().flat_map(|one| one.names.iter().copied());
        let remedy = match nearest(&written.option, names) {
            Some(name) => format!("there is `{name}`"),
            None => format!("look into {}'s manual for what it does", self.of),
        };
        let why = format!("{} has no such option that this program knows", self.of);
        if [Predecessor::Hitch, Predecessor::Stud].contains(&self.of) {
            // It starts with none, and one that is misspelt may refuse clients.
            return self.fault(&written.place, &written.option, why, remedy);
        }
        self.unmapped(written, UnusableValue::new(why, remedy));
        self.unknown.extend(self.findings.last().cloned());
    }

    pub(crate) fn fault(
        &mut self,
        place: &SourceLine,
        option: &str,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.note(place, option, ImportOutcome::Fault { why: why.into(), remedy: remedy.into() });
    }

    fn note(&mut self, place: &SourceLine, option: &str, outcome: ImportOutcome) {
        if self.is_full {
            return;
        }
        let (place, option) = (place.clone(), option.to_owned());
        self.findings.push(ImportFinding { place, option, outcome });
        if self.findings.len() >= FINDINGS_MAX {
            self.say_once();
            // Otherwise each finding more would compare all of them.
            if self.findings.len() > FINDINGS_MAX / 2
                && let Some(place) = self.findings.last().map(|one| one.place.clone())
            {
                self.fill(&place, &format!("more than {} findings", FINDINGS_MAX / 2));
            }
        }
    }

    /// Takes out what was found before: what is said of several services is said once.
    fn say_once(&mut self) {
        let mut seen = HashSet::new();
        self.findings.retain(|one| seen.insert(one.clone()));
    }
}

/// An import with the files that it reads.
pub(crate) struct Importer<'f> {
    import: Import,
    pub(crate) files: &'f mut dyn SourceFiles,
    /// Files that were read, and their bytes.
    read_files: usize,
    read_bytes: usize,
}

impl<'f> Importer<'f> {
    pub(crate) fn new(import: Import, files: &'f mut dyn SourceFiles) -> Self {
        Self { import, files, read_files: 0, read_bytes: 0 }
    }

    /// The text of a file; a fault if it cannot be read.
    pub(crate) fn read(&mut self, path: &Path, place: Option<&SourceLine>) -> Option<String> {
        self.read_files += 1;
        if self.read_files > FILES_MAX || self.read_bytes > READ_BYTES_MAX {
            let place = place.cloned().unwrap_or_else(|| SourceLine::first_of(path));
            let most = READ_BYTES_MAX >> 20;
            self.fill(&place, &format!("more than {FILES_MAX} files, or {most} MiB in them"));
        }
        if self.is_full {
            return None;
        }
        let text = match self.files.read(path) {
            Ok(text) if text.len() <= FILE_BYTES_MAX => {
                self.read_bytes += text.len();
                return Some(text);
            }
            Ok(_) => "has more than 8 MiB, as no configuration has".to_owned(),
            Err(fault) => fault,
        };
        let name = path.display().to_string();
        let (option, remedy) = match place {
            Some(_) => (name.as_str(), "copy it here, or import on the old host"),
            None => ("the file", "name a file of the program"),
        };
        let place = place.cloned().unwrap_or_else(|| SourceLine::outside(&name));
        self.fault(&place, option, format!("cannot be read: {text}"), remedy);
        None
    }

    /// Notes the files that options name and that are not on this host.
    pub(crate) fn look_for<'s>(&mut self, all: impl Written<'s>) {
        all.into_iter().for_each(|one| self.look_for_path(&one.value(), one));
    }

    /// Notes a file that a key names and that is not on this host.
    pub(crate) fn look_for_path(&mut self, path: &str, of: &Statement) {
        if !self.files.exists(Path::new(path)) {
            let begins = ", where relative paths begin at the directory of lariat.toml";
            let begins = if Path::new(path).is_absolute() { "" } else { begins };
            let why =
                format!("`{path}` is not on this host: bring it before `lariat check`{begins}");
            self.note(&of.place, &of.option, ImportOutcome::Missing(why));
        }
    }

    /// The import, once all has been read.
    pub(crate) fn settled(mut self) -> Import {
        self.settle();
        self.import
    }
}

impl Deref for Importer<'_> {
    type Target = Import;

    fn deref(&self) -> &Import {
        &self.import
    }
}

impl DerefMut for Importer<'_> {
    fn deref_mut(&mut self) -> &mut Import {
        &mut self.import
    }
}

/// A table with these keys, as an element of a list.
pub(crate) fn inline_table(keys: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Table(keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A note about a default for the file, in which nothing before it says whose that is.
fn remark(note: &str, of: Predecessor) -> String {
    match note.split_once(' ') {
        Some(("it", rest)) => format!("{of} {rest}"),
        Some(("its", rest)) => format!("{of}'s {rest}"),
        _ => note.to_owned(),
    }
}
