//! Entries of systemd's journal, in its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL):
//! fields `KEY=value`, a line each, or the binary form for a value of several lines.
//!
//! A line about a connection has all fields on one line until it is sent.

use crate::form::FIELD_SEPARATOR;
use crate::level::Level;

/// The field that people are shown, before its value.
pub(crate) const MESSAGE: &[u8] = b"MESSAGE=";

/// The fields of every entry. No time is among them: the journal notes when an entry came.
fn start(level: Level) -> [(&'static str, String); 2] {
    [
        ("PRIORITY", level.severity().to_string()),
        ("SYSLOG_IDENTIFIER", "lariat".to_owned()),
    ]
}

/// The first fields of a line about a connection.
pub(crate) fn put_start(out: &mut Vec<u8>, level: Level) {
    for (key, value) in start(level) {
        out.extend_from_slice(key.as_bytes());
        out.push(b'=');
        out.extend_from_slice(value.as_bytes());
        out.push(FIELD_SEPARATOR);
    }
}

/// The whole entry about something that is said; what is shown of it, and the remedy.
pub(crate) fn message(level: Level, text: &str, hint: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in start(level) {
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
pub fn complete(line: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if !line.starts_with(b"PRIORITY=") {
        put_start(out, Level::Info);
        out.extend_from_slice(MESSAGE);
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
    fn a_value_of_several_lines_has_its_length() {
        let mut entry = message(Level::Error, "a\nMESSAGE=b", None);
        let expected = b"PRIORITY=3\nSYSLOG_IDENTIFIER=lariat\nMESSAGE\n\x0b\0\0\0\0\0\0\0";
        assert_eq!(entry, [expected, &b"a\nMESSAGE=b\n"[..]].concat());
        entry = message(Level::Notice, "a=b", Some("c"));
        let expected = "PRIORITY=5\nSYSLOG_IDENTIFIER=lariat\nMESSAGE=a=b\nLARIAT_HINT=c\n";
        assert_eq!(entry, expected.as_bytes());
    }

    #[test]
    fn a_line_of_another_form_is_a_text() {
        let mut out = b"what was there".to_vec();
        complete(b"a=1", &mut out);
        assert_eq!(out, b"PRIORITY=6\nSYSLOG_IDENTIFIER=lariat\nMESSAGE=a=1\n");
        complete(b"PRIORITY=3\x1fMESSAGE=x", &mut out);
        assert_eq!(out, b"PRIORITY=3\nMESSAGE=x\n");
    }
}
