//! The forms of what is said of one connection: text, JSON, syslog's structured data, and fields of
//! journald. No value, whatever its bytes, ends its field, line or entry.
//!
//! Owns how keys and values are written; which there are, and in which order, is `line`'s.

use std::io::Write;
use std::net::SocketAddr;

use wire::date::put_time;

use crate::printable;

/// The longest value that is shown whole; a longer one is cut and ends in `...`. Names and alerts
/// are shorter; the bound is for what clients may send.
const VALUE_BYTES_MAX: usize = 256;

/// The separator of two fields of an entry for journald until it is sent, so that the entry is a
/// line until then (ASCII's unit separator). No value has it: it is a control character.
pub(crate) const FIELD_SEPARATOR: u8 = 0x1f;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    Text,
    Json,
    /// Parameters of structured data (RFC 5424, 6.3.3). An absent value has none.
    StructuredData,
    /// Fields of journald, each `LARIAT_KEY=value` and [`FIELD_SEPARATOR`]. An absent value has
    /// none.
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

/// Writes a value as text: between quotes if it has anything but printable ASCII.
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

/// Writes a value, character by character. Bytes that are no UTF-8 become U+FFFD.
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

/// RFC 5424, 6.3.3: `"`, `\` and `]` have a backslash before them. The backslash of an escaped
/// control character is one of the value.
fn put_parameter_char(out: &mut Vec<u8>, c: char) {
    if printable::is_control(c) {
        out.push(b'\\');
    }
    out.extend(matches!(c, '"' | '\\' | ']').then_some(b'\\'));
    put_visible_char(out, c);
}

/// A character, or its escape if it is one that a viewer of the log would obey rather than show.
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

/// The part of a value that is shown, and whether that is not all.
fn cut(value: &[u8]) -> (&[u8], bool) {
    match value.split_at_checked(VALUE_BYTES_MAX) {
        Some((shown, rest)) => (shown, !rest.is_empty()),
        None => (value, false),
    }
}

/// The lowest four bits as a digit.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A parameter as RFC 5424 has it: its value, and the text behind it; `None` = the text does
    /// not begin with it.
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
}
