//! Entries for log daemons. Those of syslog (RFC 5424), over a Unix socket or UDP (RFC 5426), are
//! one for each datagram; those of systemd's journal, in its native protocol
//! (systemd.io/JOURNAL_NATIVE_PROTOCOL), are fields `KEY=value`, a line each, or the binary form
//! for a value of several lines.
//!
//! Owns the header of syslog and its origin. A line about a connection has all but the origin,
//! which those who write it do not know, until it is sent; for the journal it has all fields on one
//! line.

use wire::date::put_time;

use crate::form::FIELD_SEPARATOR;
use crate::outcome::Level;

/// The name of our structured data (RFC 5424, 7.2.2); its number is that for documentation
/// (RFC 5612), since we have none.
pub(crate) const DATA_ID: &[u8] = b"lariat@32473";

/// The longest name of a host (RFC 5424, 6).
const HOST_BYTES_MAX: usize = 255;

/// The kind of program that speaks (RFC 5424, 6.2.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Facility(u8);

impl Facility {
    /// The facilities that a program which is no part of the system's core may have, by their
    /// names.
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

    /// The facility of this name.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, facility)| *facility)
    }

    fn priority(self, level: Level) -> u8 {
        self.0 * 8 + level.severity()
    }
}

/// The host and process that speak: the part of a header from the time up to the kind of message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Origin(String);

impl Origin {
    /// The sender of this number of process on the host of that name.
    pub fn new(host: &str, pid: u32) -> Self {
        let graphic = host.chars().filter(char::is_ascii_graphic);
        let host: String = graphic.take(HOST_BYTES_MAX).collect();
        let host = if host.is_empty() { "-" } else { &host };
        Self(format!("{host} lariat {pid} "))
    }
}

/// The header up to the origin.
pub(crate) fn put_syslog_start(
    out: &mut Vec<u8>,
    (facility, level): (Facility, Level),
    time_us: u64,
) {
    out.extend_from_slice(format!("<{}>1 ", facility.priority(level)).as_bytes());
    put_time(out, time_us);
    out.push(b' ');
}

/// The whole entry about something that is said, on one line.
pub(crate) fn syslog_message(
    (facility, level): (Facility, Level),
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

/// Puts the origin into a line about a connection. One of another form, which was written before
/// the output became another, is the text of an entry without time and fields.
pub fn complete_syslog(line: &[u8], facility: Facility, origin: &Origin, out: &mut Vec<u8>) {
    out.clear();
    let mut spaces = line.iter().enumerate().filter(|(_, byte)| **byte == b' ');
    let time_ends = spaces.nth(1).map(|(at, _)| at + 1);
    let is_ours = line.starts_with(b"<");
    let (start, rest) = match time_ends.filter(|_| is_ours) {
        Some(at) => line.split_at(at),
        None => {
            let start = format!("<{}>1 - ", facility.priority(Level::Info));
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

/// The field that people are shown, before its value.
pub(crate) const JOURNAL_MESSAGE: &[u8] = b"MESSAGE=";

/// The fields of every entry. No time is among them: the journal notes when an entry came.
fn journal_fields(level: Level) -> [(&'static str, String); 2] {
    [("PRIORITY", level.severity().to_string()), ("SYSLOG_IDENTIFIER", "lariat".to_owned())]
}

/// The first fields of a line about a connection.
pub(crate) fn put_journal_start(out: &mut Vec<u8>, level: Level) {
    for (key, value) in journal_fields(level) {
        out.extend_from_slice(key.as_bytes());
        out.push(b'=');
        out.extend_from_slice(value.as_bytes());
        out.push(FIELD_SEPARATOR);
    }
}

/// The whole entry about something that is said; what is shown of it, and the remedy.
pub(crate) fn journal_message(level: Level, text: &str, hint: Option<&str>) -> Vec<u8> {
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

/// Makes the entry of a line about a connection. One of another form, which was written before the
/// output became another, is the text of an entry without further fields.
pub fn complete_journal(line: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if !line.starts_with(b"PRIORITY=") {
        put_journal_start(out, Level::Info);
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
    use super::*;

    #[test]
    fn facilities_have_their_numbers() {
        for (name, level, priority) in [
            ("user", Level::Error, 11),
            ("daemon", Level::Info, 30),
            ("local7", Level::Notice, 189),
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
}

#[cfg(test)]
mod journal_tests {
    use super::*;

    #[test]
    fn a_value_of_several_lines_has_its_length() {
        let mut entry = journal_message(Level::Error, "a\nMESSAGE=b", None);
        let expected = b"PRIORITY=3\nSYSLOG_IDENTIFIER=lariat\nMESSAGE\n\x0b\0\0\0\0\0\0\0";
        assert_eq!(entry, [expected, &b"a\nMESSAGE=b\n"[..]].concat());
        entry = journal_message(Level::Notice, "a=b", Some("c"));
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
