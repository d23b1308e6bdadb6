//! Diagnostics of a configuration: the place, the error, and the remedy.
//!
//! Renders the frame of a sentence (place, excerpt, caret, hint); callers write the sentences.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use wire::text::line;

/// An error, a warning or a note.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Diagnostic {
    /// Whether the diagnostic stops the program.
    pub severity: Severity,
    /// Key (`service.front.listen`) or flag (`--listen`) that the diagnostic is about.
    pub subject: Option<String>,
    /// One sentence without a full stop.
    pub message: String,
    pub place: FaultLocation,
    /// The line it was written in.
    pub excerpt: Option<Excerpt>,
    pub hint: Option<String>,
}

/// Whether a diagnostic stops the program.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Severity {
    Error,
    /// The program starts, and somebody should look.
    Warning,
    /// The program starts, and the configuration may well be meant so.
    Note,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum FaultLocation {
    Nowhere,
    File {
        /// Path as it was given.
        path: String,
        /// Line number from 1; 0 = the file as a whole.
        line: usize,
        column: usize,
    },
    Flag(String),
}

/// A line and its marked part.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Excerpt {
    /// Text of the line, or the part of a long one, without control characters.
    pub line: String,
    /// Number of characters before the mark.
    pub before: usize,
    /// Number of marked characters, at least one.
    pub marked: usize,
}

/// A sentence and its remedy, without a place yet.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Problem {
    /// One sentence without a full stop.
    pub message: String,
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum RawLocation {
    /// Bytes of the file.
    File(Range<usize>),
    /// Name of a flag, without dashes.
    Flag(&'static str),
    /// Not written by anybody: a default, or the configuration as a whole.
    Nowhere,
}

/// Path and text of a file.
pub type File<'a> = (&'a str, &'a str);

/// A file that another one includes. Its byte offsets continue after those of the previous file,
/// separated by one byte that belongs to neither.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct IncludedFile {
    /// Path, with the same beginning as that of the including file.
    pub path: String,
    pub text: String,
}

/// A diagnostic whose place has not been looked up yet.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Complaint {
    /// Whether the complaint stops the program.
    pub severity: Severity,
    /// Key or flag that the complaint is about, unless the message names it.
    pub subject: Option<String>,
    pub problem: Problem,
    pub spot: RawLocation,
}

impl Complaint {
    /// An error whose message names what it is about.
    pub fn error(spot: RawLocation, problem: Problem) -> Self {
        Self { severity: Severity::Error, subject: None, problem, spot }
    }

    /// Looks up the place in that file.
    pub fn at(self, file: Option<File<'_>>) -> Diagnostic {
        self.placed(file, &mut LineCounter::default())
    }

    fn placed(self, file: Option<File<'_>>, lines: &mut LineCounter) -> Diagnostic {
        Diagnostic {
            severity: self.severity,
            subject: self.subject,
            message: self.problem.message,
            place: place(&self.spot, file, lines),
            excerpt: excerpt(&self.spot, file),
            hint: self.problem.hint,
        }
    }
}

/// Collects diagnostics about one source.
pub struct Report<'a> {
    file: Option<File<'a>>,
    included: &'a [IncludedFile],
    /// Environment variables by name.
    variables: Option<&'a BTreeMap<String, String>>,
    /// Whether the file was made from other files, which comments behind its values name.
    names_origins: bool,
    found: RefCell<Vec<Complaint>>,
    /// Set of `found`, because a table that two others depend on is read for each of them.
    noted: RefCell<HashSet<Complaint>>,
}

impl<'a> Report<'a> {
    /// Makes a report about a file, or about flags alone.
    pub fn new(file: Option<File<'a>>) -> Self {
        Self {
            file,
            included: &[],
            variables: None,
            names_origins: false,
            found: RefCell::default(),
            noted: RefCell::default(),
        }
    }

    /// Hides these variables' values, which may be secrets, behind the variables' names.
    pub fn hiding(self, variables: &'a BTreeMap<String, String>) -> Self {
        Self { variables: Some(variables), ..self }
    }

    /// Takes places from the comments of a file that was made from other files.
    pub fn by_origins(self) -> Self {
        Self { names_origins: true, ..self }
    }

    /// Adds the files that the file includes.
    pub fn with_included(self, included: &'a [IncludedFile]) -> Self {
        Self { included, ..self }
    }

    /// Returns all files, each with the offset of its first byte among the bytes of all.
    pub fn files(&self) -> impl Iterator<Item = (usize, File<'a>)> {
        let included = self.included.iter().map(|one| (one.path.as_str(), one.text.as_str()));
        self.file.into_iter().chain(included).scan(0, |next, file| {
            let start = *next;
            *next = start + file.1.len() + 1;
            Some((start, file))
        })
    }

    /// A place in the file that holds it.
    fn within(&self, spot: &RawLocation) -> (RawLocation, Option<File<'a>>) {
        let RawLocation::File(range) = spot else { return (spot.clone(), self.file) };
        let holding = self.files().take_while(|(start, _)| *start <= range.start).last();
        let (start, file) = holding.unzip();
        let start = start.unwrap_or_default();
        (RawLocation::File(range.start - start..range.end - start), file)
    }

    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// A place in the file as a diagnostic begins with it: path and line.
    pub fn place_of(&self, spot: &RawLocation) -> Option<String> {
        let (spot, file) = self.within(spot);
        match place(&spot, file, &mut LineCounter::default()) {
            FaultLocation::File { path, line, .. } if line > 0 => Some(format!("{path}:{line}")),
            FaultLocation::File { .. } | FaultLocation::Flag(_) | FaultLocation::Nowhere => None,
        }
    }

    /// Notes an error about a key.
    pub fn error(&self, spot: &RawLocation, key: &str, problem: Problem) {
        self.say(Severity::Error, spot, Some(key), problem);
    }

    /// Notes an error whose message names what it is about.
    pub fn error_here(&self, spot: &RawLocation, problem: Problem) {
        self.say(Severity::Error, spot, None, problem);
    }

    /// Notes something about a key; `None` = the message names what it is about.
    pub fn say(&self, severity: Severity, spot: &RawLocation, key: Option<&str>, problem: Problem) {
        let subject = match spot {
            RawLocation::Flag(flag) => Some(format!("--{flag}")),
            RawLocation::File(_) | RawLocation::Nowhere => key.map(str::to_owned),
        };
        let complaint = Complaint { severity, subject, problem, spot: spot.clone() };
        if self.noted.borrow_mut().insert(complaint.clone()) {
            self.found.borrow_mut().push(complaint);
        }
    }

    /// Returns the number of errors.
    pub fn errors(&self) -> usize {
        let found = self.found.borrow();
        let errors = found.iter().filter(|one| one.severity == Severity::Error);
        errors.count()
    }

    /// The places of the errors that are about something written.
    pub fn faulty(&self) -> Vec<RawLocation> {
        let found = self.found.borrow();
        let errors = found.iter().filter(|one| one.severity == Severity::Error);
        let spots = errors.map(|one| one.spot.clone());
        spots.filter(|spot| *spot != RawLocation::Nowhere).collect()
    }

    /// Returns all complaints in the order of their recording.
    pub fn into_complaints(self) -> Vec<Complaint> {
        self.found.into_inner()
    }

    /// Returns all diagnostics in the order of their places.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        let mut lines = LineCounter::default();
        let mut found = self.found.take();
        found.sort_by_key(|one| match &one.spot {
            RawLocation::File(range) => range.start,
            RawLocation::Flag(_) | RawLocation::Nowhere => 0,
        });
        let found = found.into_iter().map(|one| {
            let (spot, file) = self.within(&one.spot);
            let origin = file.filter(|_| self.names_origins).map(|file| origin(&spot, file));
            let written = match (&spot, file) {
                (RawLocation::File(range), Some((_, text))) => text.get(range.clone()),
                _ => None,
            };
            let hidden = |text| self.hidden(text, written.unwrap_or_default());
            let mut diagnostic = Complaint { spot, ..one }.placed(file, &mut lines);
            diagnostic.message = hidden(diagnostic.message);
            diagnostic.hint = diagnostic.hint.map(hidden);
            if let Some(origin) = origin {
                (diagnostic.place, diagnostic.excerpt) = (origin, None);
            }
            diagnostic
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by(|a, b| a.place.cmp(&b.place));
        found
    }
}

impl Report<'_> {
    /// Replaces the variables' values in a text by the variables' names. A very short value, or a
    /// part such as one element of a list, is hidden only in quotes and if `written` has the
    /// variable, because other words contain it too.
    fn hidden(&self, mut text: String, written: &str) -> String {
        for (name, value) in self.variables.into_iter().flatten() {
            let shown = format!("${{{name}}}");
            let escaped = value.escape_debug().to_string();
            for value in [value, &escaped] {
                if value.len() >= HIDDEN_BYTES_MIN {
                    text = text.replace(value.as_str(), &shown);
                }
            }
            if !written.contains(&format!("${{{name}")) {
                continue;
            }
            let parts: Vec<_> = text.split('"').collect();
            let is_part = |part: &str| !part.is_empty() && escaped.contains(part);
            let quoted = parts.iter().enumerate();
            let quoted = quoted.map(|(number, part)| match number % 2 {
                1 if is_part(part) => &*shown,
                _ => *part,
            });
            text = quoted.collect::<Vec<_>>().join("\"");
        }
        text
    }
}

/// Shortest value hidden everywhere; shorter ones occur in many words.
const HIDDEN_BYTES_MIN: usize = 4;

fn place(spot: &RawLocation, file: Option<File<'_>>, lines: &mut LineCounter) -> FaultLocation {
    match (spot, file) {
        (RawLocation::Flag(flag), _) => FaultLocation::Flag(format!("--{flag}")),
        (RawLocation::File(range), Some((path, text))) => {
            let column = characters(text, line_start(text, range.start)..range.start) + 1;
            FaultLocation::File {
                path: path.to_owned(),
                line: lines.line(text, range.start),
                column,
            }
        }
        (RawLocation::Nowhere, Some((path, _))) => {
            FaultLocation::File { path: path.to_owned(), line: 0, column: 0 }
        }
        (RawLocation::File(_) | RawLocation::Nowhere, None) => FaultLocation::Nowhere,
    }
}

/// The place that the comment behind a value names, or the file as a whole.
fn origin(spot: &RawLocation, (path, text): File<'_>) -> FaultLocation {
    let lines = match spot {
        RawLocation::File(range) => text.get(line_start(text, range.start)..).unwrap_or_default(),
        RawLocation::Flag(_) | RawLocation::Nowhere => "",
    };
    // A list may span lines; the comment follows its end.
    let mut value = lines.lines().take_while(|line| !line.is_empty());
    let comment = value.find_map(|line| line.rsplit_once("  # ")).map(|(_, comment)| comment);
    let named = comment.and_then(|comment| comment.rsplit_once(':'));
    let named = named.and_then(|(path, line)| Some((path, line.parse().ok()?)));
    let (path, line) = named.unwrap_or_else(|| (comment.unwrap_or(path), 0));
    FaultLocation::File { path: path.to_owned(), line, column: 0 }
}

/// Word before a PIN in the URI of a key (RFC 7512 section 2.4): such a line is not shown.
const SECRET: &str = "pin-value=";

fn excerpt(spot: &RawLocation, file: Option<File<'_>>) -> Option<Excerpt> {
    let (RawLocation::File(range), Some((_, text))) = (spot, file) else { return None };
    let start = line_start(text, range.start);
    let line = text.get(start..)?.lines().next().unwrap_or_default();
    if line.contains(SECRET) {
        return None;
    }
    let end = range.end.min(start + line.len());
    let before = characters(text, start..range.start);
    let marked = characters(text, range.start..end);
    Some(Excerpt::cut(line, before, marked))
}

/// Returns the offset at which the line of a byte begins.
fn line_start(text: &str, offset: usize) -> usize {
    let head = text.get(..offset).unwrap_or(text);
    head.rfind('\n').map_or(0, |newline| newline + 1)
}

/// Counts line numbers. Each count continues from the last one, because thousands of complaints
/// about one file are placed in the order of its bytes.
#[derive(Default)]
struct LineCounter {
    /// Address of the text.
    text: usize,
    offset: usize,
    newlines: usize,
}

impl LineCounter {
    /// Returns the number of the line that holds a byte, from 1.
    fn line(&mut self, text: &str, offset: usize) -> usize {
        let address = text.as_ptr().addr();
        if self.text != address || offset < self.offset {
            *self = Self { text: address, ..Self::default() };
        }
        let offset = offset.min(text.len());
        let between = text.as_bytes().get(self.offset..offset).unwrap_or_default();
        self.newlines += between.iter().filter(|byte| **byte == b'\n').count();
        self.offset = offset;
        self.newlines + 1
    }
}

fn characters(text: &str, range: Range<usize>) -> usize {
    text.get(range).map_or(0, |part| part.chars().count())
}

/// Number of characters that fit beside a line number on a usual terminal.
const EXCERPT_CHARACTERS_MAX: usize = 120;

/// Number of characters of a long line that are shown before the mark.
const CONTEXT_CHARACTERS: usize = 40;

/// Mark for the omitted part of a line.
const CUT: &str = "... ";

impl Excerpt {
    fn cut(line: &str, before: usize, marked: usize) -> Self {
        let characters = line.chars().count();
        let skipped = if characters <= EXCERPT_CHARACTERS_MAX || before < CONTEXT_CHARACTERS {
            0
        } else {
            before - CONTEXT_CHARACTERS
        };
        let mut shown: String =
            line.chars().skip(skipped).take(EXCERPT_CHARACTERS_MAX).map(printable).collect();
        let room = shown.chars().count().saturating_sub(before - skipped);
        let mut before = before - skipped;
        if skipped > 0 {
            shown.insert_str(0, CUT);
            before += CUT.len();
        }
        Self { line: shown, before, marked: marked.min(room).max(1) }
    }
}

/// Replaces control characters, because a terminal must not obey the contents of a file.
fn printable(character: char) -> char {
    match character {
        '\t' => ' ',
        other if wire::text::is_control(other) => '\u{fffd}',
        other => other,
    }
}

impl Diagnostic {
    /// Whether the diagnostic stops the program.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Renders the text for a terminal, several lines without the last newline. File names never
    /// begin a line, because others may have chosen them.
    pub fn render(&self, colour: bool) -> String {
        let paint = Paint { colour };
        let word = self.severity.word();
        let name = match self.severity {
            Severity::Error => paint.red(word),
            Severity::Warning => paint.yellow(word),
            Severity::Note => paint.cyan(word),
        };
        let subject = self.subject.as_ref().map(|subject| format!("{subject}: "));
        let message = line(&self.message);
        let mut text = format!("{name}: {}{message}", subject.unwrap_or_default());
        text.push_str(&self.render_place(paint));
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n{}: {}", paint.cyan("hint"), line(hint)));
        }
        text
    }

    fn render_place(&self, paint: Paint) -> String {
        let FaultLocation::File { path, line: number, column } = &self.place else {
            return String::new();
        };
        let (path, number) = (line(path), number.to_string());
        let margin = " ".repeat(number.len());
        let arrow = paint.blue("-->");
        if number == "0" {
            return format!("\n{margin}{arrow} {path}");
        }
        if *column == 0 {
            return format!("\n{margin}{arrow} {path}:{number}");
        }
        let mut text = format!("\n{margin}{arrow} {path}:{number}:{column}");
        if let Some(excerpt) = &self.excerpt {
            let bar = paint.blue("|");
            let caret = paint.red(&"^".repeat(excerpt.marked));
            let indent = " ".repeat(excerpt.before);
            let shown = excerpt.line.trim_end();
            text.push_str(&format!("\n{margin} {bar}\n{} {bar} {shown}", paint.blue(&number)));
            text.push_str(&format!("\n{margin} {bar} {indent}{caret}"));
        }
        text
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// Colours of ECMA-48, if enabled.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    pub colour: bool,
}

impl Paint {
    pub fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.wrap("1;33", text)
    }

    pub fn cyan(self, text: &str) -> String {
        self.wrap("1;36", text)
    }

    fn blue(self, text: &str) -> String {
        self.wrap("1;34", text)
    }
}

/// Longest word that is compared with names: no name is longer, with room for typos.
const TYPED_BYTES_MAX: usize = 96;

pub fn nearest<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // A comparison takes time and memory by the length of both.
    let typed = (typed.len() <= TYPED_BYTES_MAX).then(|| typed.to_ascii_lowercase())?;
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&typed, &name.to_ascii_lowercase()), name))
        .filter(|(likeness, name)| *likeness >= 0.75 && is_slip(&typed, name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Whether a name was cut short or has few typos. Similarity alone does not tell: "acme" is like
/// "name".
fn is_slip(typed: &str, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let slips = strsim::damerau_levenshtein(typed, &name);
    slips <= (typed.len() / 3).max(1) || typed.len() > 2 && name.starts_with(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, spot: RawLocation) -> String {
        let report = Report::new(Some(("a.toml", text)));
        report.error(&spot, "key", Problem::new("is wrong").hint("make it right"));
        report.into_diagnostics()[0].to_string()
    }

    #[test]
    fn the_caret_stands_under_what_it_means() {
        let text = "one = 1\n\ttwö = \"x\"\n";
        let start = text.find("\"x\"").unwrap();
        let expected = "error: key: is wrong\n --> a.toml:2:8\n  |\n2 |  twö = \"x\"\n  |        ^^^\n\
                        hint: make it right";
        assert_eq!(rendered(text, RawLocation::File(start..start + 3)), expected);
    }

    #[test]
    fn a_span_over_several_lines_marks_the_first() {
        assert!(
            rendered("a = [\n1,\n]\n", RawLocation::File(4..9)).contains("1 | a = [\n  |     ^\n")
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let text = format!("{}HERE{}", "x".repeat(5000), "y".repeat(5000));
        let shown = rendered(&text, RawLocation::File(5000..5004));
        assert!(shown.contains("HERE") && shown.len() < 500, "{shown}");
    }

    #[test]
    fn an_escape_sequence_does_not_reach_the_terminal() {
        assert!(!rendered("a = \u{1b}[31m", RawLocation::File(0..1)).contains('\u{1b}'));
    }

    #[test]
    fn the_name_of_a_file_begins_no_line() {
        let report = Report::new(Some(("a\nerror: b.toml", "a = 1")));
        let problem = Problem::new("cannot read x\nerror: forged").hint("see y\u{1b}[31m");
        report.error(&RawLocation::File(0..1), "a", problem);
        let shown = report.into_diagnostics()[0].to_string();
        let begin = |head| shown.lines().filter(|line| line.starts_with(head)).count();
        assert_eq!((begin("error: "), begin("hint: ")), (1, 1), "{shown}");
        assert!(!shown.contains('\u{1b}'));
    }

    #[test]
    fn spans_outside_the_text_do_no_harm() {
        rendered("", RawLocation::File(0..0));
        rendered("a", RawLocation::File(7..9));
        rendered("ä", RawLocation::File(1..2));
    }

    #[test]
    fn values_of_variables_are_not_shown_and_places_are_the_origins() {
        let variables = [("KEY", "s3cret,se\"cond"), ("N", "17"), ("EMPTY", "")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let variables = BTreeMap::from(variables);
        let text = "a = [\"${KEY}${N}\"]  # old.conf:7\nb = 1\n";
        let told = |message: &str, at| {
            let report = Report::new(Some(("made", text))).hiding(&variables).by_origins();
            report.error_here(&RawLocation::File(at), Problem::new(message).hint(message));
            report.into_diagnostics().remove(0).to_string()
        };
        for (message, shown) in [
            ("s3cret,se\"cond is bad", "${KEY} is bad"),
            ("\"s3cret\" is no network", "\"${KEY}\" is no network"),
            ("\"17\" is out of range: 1 to 170", "\"${N}\" is out of range: 1 to 170"),
        ] {
            let expected = format!("error: {shown}\n --> old.conf:7\nhint: {shown}");
            assert_eq!(told(message, 5..17), expected);
        }
        let other = "\"s\" and \"17\" are other words";
        let expected = format!("error: {other}\n --> made\nhint: {other}");
        assert_eq!(told(other, 36..37), expected);
    }

    #[test]
    fn nearest_names() {
        let names = ["listen", "tls", "accept-proxy"];
        assert_eq!(nearest("lisen", names), Some("listen"));
        assert_eq!(nearest("TLS", names), Some("tls"));
        assert_eq!(nearest("qqq", names), None);
        let long = "l".repeat(80);
        assert_eq!(nearest(&long, [&*long]), Some(&*long));
        assert_eq!(nearest(&long.repeat(2), [&*long.repeat(2)]), None);
        assert_eq!(nearest("acme", ["name"]), None);
        assert_eq!(nearest("include", ["insecure"]), None);
        assert_eq!(nearest("accept", names), Some("accept-proxy"));
    }
}
