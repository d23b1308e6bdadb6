//! Writes facts about one connection as text, JSON, structured data of syslog or fields of
//! journald, and builds entries for log daemons. No value, whatever its bytes, can end its field,
//! line or entry.
//!
//! Handles how keys and values are written; `line` decides which there are, and their order.
//! Entries of syslog (RFC 5424), over a Unix socket or UDP (RFC 5426), take one datagram each.
//! Entries of systemd's journal, in its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL), are
//! fields `KEY=value`, one per line, or the binary form for a value of several lines.
//!
//! Handles the header of syslog and its origin. A line about a connection lacks the origin until it
//! is sent, because its writer does not know it; for the journal, it has all fields on one line
//! until then.

use std::io::Write;
use std::net::SocketAddr;

use wire::date::put_time;

use crate::outcome::LogLevel;
use crate::printable;

/// Longest value that is shown whole; a longer one is cut and ends in `...`. Names and alerts are
/// shorter; the limit is for values that clients choose.
const VALUE_BYTES_MAX: usize = 256;

/// Separates fields of an entry for journald until it is sent, so that the entry stays one line
/// (ASCII unit separator). No value contains it, because control characters are escaped.
pub(crate) const FIELD_SEPARATOR: u8 = 0x1f;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    Text,
    Json,
    /// Parameters of structured data (RFC 5424, 6.3.3). Absent values are left out.
    StructuredData,
    /// Fields of journald, each `LARIAT_KEY=value` and [`FIELD_SEPARATOR`]. Absent values are left
    /// out.
    JournalFields,
}

/// A writer of keys and their values in one form.
pub(crate) struct FieldWriter<'a> {
    form: Form,
    out: &'a mut Vec<u8>,
    is_begun: bool,
}

impl<'a> FieldWriter<'a> {
    pub(crate) fn new(form: Form, out: &'a mut Vec<u8>) -> Self {
        Self { form, out, is_begun: false }
    }

    pub(crate) fn string(&mut self, key: &'static str, value: Option<&[u8]>) {
        self.field(key, value, Self::put_string);
    }

    /// Writes one of our own words.
    pub(crate) fn word(&mut self, key: &'static str, value: Option<&str>) {
        self.plain(key, value, |out, word| out.extend_from_slice(word.as_bytes()));
    }

    pub(crate) fn number(&mut self, key: &'static str, value: u64) {
        self.optional_number(key, Some(value));
    }

    pub(crate) fn optional_number(&mut self, key: &'static str, value: Option<u64>) {
        self.field(key, value, |fields, value| put_number(fields.out, value));
    }

    pub(crate) fn id(&mut self, key: &'static str, id: u64) {
        self.plain(key, Some(id), |out, id| {
            let digits: [u8; 16] = std::array::from_fn(|i| hex(id >> (60 - 4 * i)));
            out.extend_from_slice(&digits);
        });
    }

    pub(crate) fn time(&mut self, key: &'static str, time_us: u64) {
        self.plain(key, Some(time_us), put_time);
    }

    pub(crate) fn address(&mut self, key: &'static str, address: SocketAddr) {
        self.plain(key, Some(address), |out, address| {
            write!(out, "{address}").expect("a Vec takes all that is written");
        });
    }

    /// Ends the last field.
    pub(crate) fn end(self) {
        if self.form == Form::Json {
            self.out.push(b'}');
        }
    }

    /// Writes a field whose value needs no escape; JSON has it between quotes.
    fn plain<T>(&mut self, key: &'static str, value: Option<T>, put: fn(&mut Vec<u8>, T)) {
        self.field(key, value, |fields, value| {
            let is_json = fields.form == Form::Json;
            fields.out.extend(is_json.then_some(b'"'));
            put(fields.out, value);
            fields.out.extend(is_json.then_some(b'"'));
        });
    }

    fn field<T>(&mut self, key: &'static str, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        let (before, between, absent, behind): (&[u8], &[u8], &[u8], &[u8]) = match self.form {
            Form::Text => (if is_begun { b" " } else { b"" }, b"=", b"-", b""),
            Form::Json => (if is_begun { b",\"" } else { b"{\"" }, b"\":", b"null", b""),
            Form::StructuredData | Form::JournalFields if value.is_none() => return,
            Form::StructuredData => (b" ", b"=\"", b"", b"\""),
            Form::JournalFields => (b"LARIAT_", b"=", b"", &[FIELD_SEPARATOR]),
        };
        self.out.extend_from_slice(before);
        let start = self.out.len();
        self.out.extend_from_slice(key.as_bytes());
        if self.form == Form::JournalFields {
            self.out[start..].make_ascii_uppercase();
        }
        self.out.extend_from_slice(between);
        match value {
            Some(value) => put(self, value),
            None => self.out.extend_from_slice(absent),
        }
        self.out.extend_from_slice(behind);
    }

    fn put_string(&mut self, value: &[u8]) {
        match self.form {
            Form::Text => put_text(self.out, value),
            Form::Json => {
                self.out.push(b'"');
                put_value(self.out, value, put_json_char);
                self.out.push(b'"');
            }
            Form::StructuredData => put_value(self.out, value, put_parameter_char),
            Form::JournalFields => put_value(self.out, value, put_visible_char),
        }
    }
}

/// Writes a value as text: between quotes if it contains anything but printable ASCII.
fn put_text(out: &mut Vec<u8>, value: &[u8]) {
    let (shown, is_cut) = cut(value);
    let is_plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\' | b'=');
    if !shown.is_empty() && shown != b"-" && !is_cut && shown.iter().all(is_plain) {
        return out.extend_from_slice(shown);
    }
    out.push(b'"');
    for &b in shown {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            b' '..=b'~' => out.push(b),
            _ => {
                let (high, low) = (hex(u64::from(b) >> 4), hex(u64::from(b)));
                out.extend_from_slice(&[b'\\', b'x', high, low]);
            }
        }
    }
    out.extend_from_slice(if is_cut { b"...\"" } else { b"\"" });
}

/// Writes a value, character by character. Bytes that are not UTF-8 become U+FFFD.
fn put_value(out: &mut Vec<u8>, value: &[u8], put_char: fn(&mut Vec<u8>, char)) {
    let (shown, is_cut) = cut(value);
    for chunk in shown.utf8_chunks() {
        chunk.valid().chars().for_each(|c| put_char(out, c));
        if !chunk.invalid().is_empty() {
            put_char(out, char::REPLACEMENT_CHARACTER);
        }
    }
    out.extend_from_slice(if is_cut { b"..." } else { b"" });
}

/// RFC 5424, 6.3.3: `"`, `\` and `]` are escaped with a backslash. The backslash of an escaped
/// control character is part of the value.
fn put_parameter_char(out: &mut Vec<u8>, c: char) {
    if printable::is_control(c) {
        out.push(b'\\');
    }
    out.extend(matches!(c, '"' | '\\' | ']').then_some(b'\\'));
    put_visible_char(out, c);
}

/// Writes a character, escaped if a viewer of the log would obey it rather than show it.
fn put_visible_char(out: &mut Vec<u8>, c: char) {
    let mut bytes = [0; 4];
    let text = c.encode_utf8(&mut bytes);
    if printable::is_control(c) {
        write!(out, "{}", printable::line(text)).expect("a Vec takes all that is written");
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

pub(crate) fn put_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    text.chars().for_each(|c| put_json_char(out, c));
    out.push(b'"');
}

/// RFC 8259, section 7.
fn put_json_char(out: &mut Vec<u8>, c: char) {
    out.extend(matches!(c, '"' | '\\').then_some(b'\\'));
    put_visible_char(out, c);
}

/// Returns the part of a value that is shown, and whether the rest was cut.
fn cut(value: &[u8]) -> (&[u8], bool) {
    match value.split_at_checked(VALUE_BYTES_MAX) {
        Some((shown, rest)) => (shown, !rest.is_empty()),
        None => (value, false),
    }
}

/// Returns the lowest four bits as a digit.
fn hex(bits: u64) -> u8 {
    b"0123456789abcdef"[(bits & 15) as usize]
}

fn put_number(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

/// Name of our structured data (RFC 5424, 7.2.2); its number is that for documentation (RFC 5612),
/// because we have none.
pub(crate) const DATA_ID: &[u8] = b"lariat@32473";

/// Longest name of a host (RFC 5424, 6).
const HOST_BYTES_MAX: usize = 255;

/// Kind of program that sends a message (RFC 5424, 6.2.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Facility(u8);

impl Facility {
    /// Facilities, by name, that a program outside the system's core may use.
    pub const NAMED: [(&str, Self); 20] = [
        ("user", Self(1)),
        ("mail", Self(2)),
        ("daemon", Self(3)),
        ("auth", Self(4)),
        ("syslog", Self(5)),
        ("lpr", Self(6)),
        ("news", Self(7)),
        ("uucp", Self(8)),
        ("cron", Self(9)),
        ("authpriv", Self(10)),
        ("ftp", Self(11)),
        ("ntp", Self(12)),
        ("local0", Self(16)),
        ("local1", Self(17)),
        ("local2", Self(18)),
        ("local3", Self(19)),
        ("local4", Self(20)),
        ("local5", Self(21)),
        ("local6", Self(22)),
        ("local7", Self(23)),
    ];

    /// Finds a facility by name.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, facility)| *facility)
    }

    fn priority(self, level: LogLevel) -> u8 {
        self.0 * 8 + level.severity()
    }
}

/// Host and process that send a message: the part of a header between time and kind of message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Origin(String);

impl Origin {
    /// Makes the origin of the process `pid` on this host.
    pub fn new(host: &str, pid: u32) -> Self {
        let graphic = host.chars().filter(char::is_ascii_graphic);
        let host: String = graphic.take(HOST_BYTES_MAX).collect();
        let host = if host.is_empty() { "-" } else { &host };
        Self(format!("{host} lariat {pid} "))
    }
}

/// Writes the header up to the origin.
pub(crate) fn put_syslog_start(
    out: &mut Vec<u8>,
    (facility, level): (Facility, LogLevel),
    time_us: u64,
) {
    out.extend_from_slice(format!("<{}>1 ", facility.priority(level)).as_bytes());
    put_time(out, time_us);
    out.push(b' ');
}

/// Returns the whole entry of a message, on one line.
pub(crate) fn syslog_message(
    (facility, level): (Facility, LogLevel),
    time_us: u64,
    origin: &Origin,
    line: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    put_syslog_start(&mut out, (facility, level), time_us);
    out.extend_from_slice(origin.0.as_bytes());
    out.extend_from_slice(b"message - ");
    out.extend_from_slice(line.as_bytes());
    out
}

/// Inserts the origin into a line about a connection. A line of another form, written before the
/// output changed, becomes the text of an entry without time and fields.
pub fn complete_syslog(line: &[u8], facility: Facility, origin: &Origin, out: &mut Vec<u8>) {
    out.clear();
    let mut spaces = line.iter().enumerate().filter(|(_, byte)| **byte == b' ');
    let time_ends = spaces.nth(1).map(|(at, _)| at + 1);
    let is_ours = line.starts_with(b"<");
    let (start, rest) = match time_ends.filter(|_| is_ours) {
        Some(at) => line.split_at(at),
        None => {
            let start = format!("<{}>1 - ", facility.priority(LogLevel::Info));
            out.extend_from_slice(start.as_bytes());
            out.extend_from_slice(origin.0.as_bytes());
            out.extend_from_slice(b"connection - ");
            return out.extend_from_slice(line);
        }
    };
    for part in [start, origin.0.as_bytes(), rest] {
        out.extend_from_slice(part);
    }
}

/// Field that people are shown, before its value.
pub(crate) const JOURNAL_MESSAGE: &[u8] = b"MESSAGE=";

/// Returns the fields of every entry. The time is left out because the journal records it.
fn journal_fields(level: LogLevel) -> [(&'static str, String); 2] {
    [("PRIORITY", level.severity().to_string()), ("SYSLOG_IDENTIFIER", "lariat".to_owned())]
}

/// Writes the first fields of a line about a connection.
pub(crate) fn put_journal_start(out: &mut Vec<u8>, level: LogLevel) {
    for (key, value) in journal_fields(level) {
        out.extend_from_slice(key.as_bytes());
        out.push(b'=');
        out.extend_from_slice(value.as_bytes());
        out.push(FIELD_SEPARATOR);
    }
}

/// Returns the whole entry of a message: the text shown, and the remedy.
pub(crate) fn journal_message(level: LogLevel, text: &str, hint: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in journal_fields(level) {
        put_field(&mut out, key, &value);
    }
    put_field(&mut out, "MESSAGE", text);
    if let Some(hint) = hint {
        put_field(&mut out, "LARIAT_HINT", hint);
    }
    out
}

fn put_field(out: &mut Vec<u8>, key: &str, value: &str) {
    out.extend_from_slice(key.as_bytes());
    if value.contains('\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

/// Makes the entry of a line about a connection. A line of another form, written before the output
/// changed, becomes the text of an entry without further fields.
pub fn complete_journal(line: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if !line.starts_with(b"PRIORITY=") {
        put_journal_start(out, LogLevel::Info);
        out.extend_from_slice(JOURNAL_MESSAGE);
    }
    out.extend_from_slice(line);
    out.push(FIELD_SEPARATOR);
    for byte in out {
        if *byte == FIELD_SEPARATOR {
            *byte = b'\n';
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses a parameter of RFC 5424 into its value and the remaining text; `None` if the text
    /// does not begin with one.
    fn parameter<'a>(text: &'a str, key: &str) -> Option<(String, &'a str)> {
        let mut rest = text.strip_prefix(' ')?.strip_prefix(key)?.strip_prefix("=\"")?;
        let mut value = String::new();
        loop {
            let c = rest.chars().next()?;
            rest = &rest[c.len_utf8()..];
            match c {
                '"' => return Some((value, rest)),
                ']' => return None,
                '\\' => {
                    let escaped = rest.chars().next().filter(|c| matches!(c, '"' | '\\' | ']'))?;
                    value.push(escaped);
                    rest = &rest[1..];
                }
                _ => value.push(c),
            }
        }
    }

    fn shown(value: &[u8]) -> String {
        let (kept, is_cut) = cut(value);
        let text = kept.utf8_chunks().map(|chunk| {
            let broken = if chunk.invalid().is_empty() { "" } else { "\u{fffd}" };
            format!("{}{broken}", printable::line(chunk.valid()))
        });
        let text: String = text.collect();
        if is_cut { text + "..." } else { text }
    }

    fn check(values: [&[u8]; 2]) {
        let mut out = Vec::new();
        let mut form = FieldWriter::new(Form::StructuredData, &mut out);
        form.string("a", Some(values[0]));
        form.number("n", 7);
        form.string("absent", None);
        form.word("b", None);
        form.string("c", Some(values[1]));
        let text = String::from_utf8(out).unwrap();
        assert!(!text.chars().any(printable::is_control), "{text}");
        let (first, rest) = parameter(&text, "a").unwrap();
        let (number, rest) = parameter(rest, "n").unwrap();
        let (second, rest) = parameter(rest, "c").unwrap();
        assert_eq!([first, second], values.map(shown));
        assert_eq!((number.as_str(), rest), ("7", ""));

        let mut out = Vec::new();
        let mut form = FieldWriter::new(Form::JournalFields, &mut out);
        form.string("a", Some(values[0]));
        form.string("absent", None);
        form.id("id", 10);
        form.string("c_d", Some(values[1]));
        let text = String::from_utf8(out).unwrap();
        let fields: Vec<_> = text.split_terminator(char::from(FIELD_SEPARATOR)).collect();
        let [first, second] = values.map(shown);
        let expected = [
            format!("LARIAT_A={first}"),
            "LARIAT_ID=000000000000000a".to_owned(),
            format!("LARIAT_C_D={second}"),
        ];
        assert_eq!(fields, expected);
        assert!(!fields.concat().chars().any(printable::is_control), "{text}");
    }

    #[test]
    fn hostile_values_stay_in_their_parameters_and_fields() {
        for hostile in [
            "\"] <0>1 - - - - - forged".as_bytes(),
            b"\\",
            b"\\\"",
            b"x\nPRIORITY=0\nMESSAGE=forged\n\n",
            b"\x1fPRIORITY=0\x1f",
            b"\xef\xbb\xbf\xff\0\r",
            "\u{85}\u{2028}\u{202e}".as_bytes(),
            b"",
        ] {
            check([hostile, b"b"]);
            check([b"a", hostile]);
        }
    }

    proptest! {
        #[test]
        fn no_value_ends_its_parameter_or_field(
            a in prop::collection::vec(any::<u8>(), 0..300),
            b in "[\"\\\\\\]\\x00-\\x1f\u{feff}=x ]{0,40}",
        ) {
            check([&a, b.as_bytes()]);
        }
    }

    #[test]
    fn facilities_have_their_numbers() {
        for (name, level, priority) in [
            ("user", LogLevel::Error, 11),
            ("daemon", LogLevel::Info, 30),
            ("local7", LogLevel::Notice, 189),
        ] {
            assert_eq!(Facility::named(name).unwrap().priority(level), priority);
        }
        assert_eq!(Facility::named("kern"), None);
    }

    #[test]
    fn an_origin_is_of_visible_characters_whatever_the_host_is_called() {
        assert_eq!(Origin::new("edge-1", 7).0, "edge-1 lariat 7 ");
        assert_eq!(Origin::new("a b\n]\u{e9}", 7).0, "ab] lariat 7 ");
        assert_eq!(Origin::new("", 7).0, "- lariat 7 ");
    }

    #[test]
    fn a_line_gets_its_origin_whatever_it_is() {
        let (facility, origin) = (Facility::named("daemon").unwrap(), Origin::new("h", 1));
        let complete = |line: &str| {
            let mut out = b"what was there".to_vec();
            complete_syslog(line.as_bytes(), facility, &origin, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            complete("<27>1 2024-02-29T00:00:00.000042Z connection [x a=\"1\"] a=1"),
            "<27>1 2024-02-29T00:00:00.000042Z h lariat 1 connection [x a=\"1\"] a=1"
        );
        assert_eq!(complete("a=1 b=2"), "<30>1 - h lariat 1 connection - a=1 b=2");
        assert_eq!(complete("<27>"), "<30>1 - h lariat 1 connection - <27>");
        assert_eq!(complete(""), "<30>1 - h lariat 1 connection - ");
    }

    #[test]
    fn a_value_of_several_lines_has_its_length() {
        let mut entry = journal_message(LogLevel::Error, "a\nMESSAGE=b", None);
        let expected = b"PRIORITY=3\nSYSLOG_IDENTIFIER=lariat\nMESSAGE\n\x0b\0\0\0\0\0\0\0";
        assert_eq!(entry, [expected, &b"a\nMESSAGE=b\n"[..]].concat());
        entry = journal_message(LogLevel::Notice, "a=b", Some("c"));
        let expected = "PRIORITY=5\nSYSLOG_IDENTIFIER=lariat\nMESSAGE=a=b\nLARIAT_HINT=c\n";
        assert_eq!(entry, expected.as_bytes());
    }

    #[test]
    fn a_line_of_another_form_is_a_text() {
        let mut out = b"what was there".to_vec();
        complete_journal(b"a=1", &mut out);
        assert_eq!(out, b"PRIORITY=6\nSYSLOG_IDENTIFIER=lariat\nMESSAGE=a=1\n");
        complete_journal(b"PRIORITY=3\x1fMESSAGE=x", &mut out);
        assert_eq!(out, b"PRIORITY=3\nMESSAGE=x\n");
    }
}
