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

/// How a line is written.
pub(crate) trait Form {
    fn key(&mut self, key: &'static str);
    fn absent(&mut self);
    fn value(&mut self, value: &[u8]);
    /// On both sides of a value that needs no escape, as JSON quotes it and text does not.
    fn quote(&mut self);
    fn quote_number(&mut self) {
        self.quote();
    }
    fn out(&mut self) -> &mut Vec<u8>;
    fn end(&mut self) {}

    fn string(&mut self, key: &'static str, value: Option<&[u8]>) {
        self.key(key);
        match value {
            Some(value) => self.value(value),
            None => self.absent(),
        }
    }

    /// One of our own words.
    fn word(&mut self, key: &'static str, value: Option<&str>) {
        self.key(key);
        let Some(word) = value else {
            return self.absent();
        };
        self.quote();
        self.out().extend_from_slice(word.as_bytes());
        self.quote();
    }

    fn number(&mut self, key: &'static str, value: u64) {
        self.optional_number(key, Some(value));
    }

    fn optional_number(&mut self, key: &'static str, value: Option<u64>) {
        self.key(key);
        match value {
            Some(value) => {
                self.quote_number();
                put_number(self.out(), value);
                self.quote_number();
            }
            None => self.absent(),
        }
    }

    fn id(&mut self, key: &'static str, id: u64) {
        self.key(key);
        self.quote();
        let digits: [u8; 16] = std::array::from_fn(|i| hex(id >> (60 - 4 * i)));
        self.out().extend_from_slice(&digits);
        self.quote();
    }

    fn time(&mut self, key: &'static str, time_us: u64) {
        self.key(key);
        self.quote();
        put_time(self.out(), time_us);
        self.quote();
    }

    fn address(&mut self, key: &'static str, address: SocketAddr) {
        self.key(key);
        self.quote();
        write!(self.out(), "{address}").expect("a Vec takes all that is written");
        self.quote();
    }
}

pub(crate) struct Text<'a> {
    out: &'a mut Vec<u8>,
    is_begun: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        let is_begun = false;
        Self { out, is_begun }
    }
}

impl Form for Text<'_> {
    fn key(&mut self, key: &'static str) {
        if std::mem::replace(&mut self.is_begun, true) {
            self.out.push(b' ');
        }
        self.out.extend_from_slice(key.as_bytes());
        self.out.push(b'=');
    }

    fn absent(&mut self) {
        self.out.push(b'-');
    }

    fn quote(&mut self) {}

    fn value(&mut self, value: &[u8]) {
        let (shown, is_cut) = cut(value);
        let is_plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\' | b'=');
        if !shown.is_empty() && shown != b"-" && !is_cut && shown.iter().all(is_plain) {
            return self.out.extend_from_slice(shown);
        }
        self.out.push(b'"');
        for &b in shown {
            match b {
                b'"' | b'\\' => self.out.extend_from_slice(&[b'\\', b]),
                b' '..=b'~' => self.out.push(b),
                _ => {
                    let (high, low) = (hex(u64::from(b) >> 4), hex(u64::from(b)));
                    self.out.extend_from_slice(&[b'\\', b'x', high, low]);
                }
            }
        }
        self.out.extend_from_slice(if is_cut { b"...\"" } else { b"\"" });
    }

    fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }
}

pub(crate) struct Json<'a> {
    out: &'a mut Vec<u8>,
    is_begun: bool,
}

impl<'a> Json<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        let is_begun = false;
        Self { out, is_begun }
    }
}

impl Form for Json<'_> {
    fn key(&mut self, key: &'static str) {
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        self.out.extend_from_slice(if is_begun { b",\"" } else { b"{\"" });
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn absent(&mut self) {
        self.out.extend_from_slice(b"null");
    }

    fn quote(&mut self) {
        self.out.push(b'"');
    }

    fn quote_number(&mut self) {}

    fn value(&mut self, value: &[u8]) {
        self.out.push(b'"');
        put_value(self.out, value, put_json_char);
        self.out.push(b'"');
    }

    fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    fn end(&mut self) {
        self.out.push(b'}');
    }
}

/// The separator of two fields of an entry for journald until it is sent, so that the entry is a
/// line until then (ASCII's unit separator). No value has it: it is a control character.
pub(crate) const FIELD_SEPARATOR: u8 = 0x1f;

/// Parameters of structured data (RFC 5424, 6.3.3). What is absent is left out.
pub(crate) struct StructuredData<'a> {
    out: &'a mut Vec<u8>,
    /// The key of the parameter that waits for its value.
    key: &'static str,
    is_open: bool,
}

impl<'a> StructuredData<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        let (key, is_open) = ("", false);
        Self { out, key, is_open }
    }

    fn begin(&mut self) {
        self.out.push(b' ');
        self.out.extend_from_slice(self.key.as_bytes());
        self.out.extend_from_slice(b"=\"");
    }
}

impl Form for StructuredData<'_> {
    fn key(&mut self, key: &'static str) {
        self.key = key;
    }

    fn absent(&mut self) {}

    fn value(&mut self, value: &[u8]) {
        self.begin();
        put_value(self.out, value, put_parameter_char);
        self.out.push(b'"');
    }

    fn quote(&mut self) {
        if self.is_open {
            self.out.push(b'"');
        } else {
            self.begin();
        }
        self.is_open = !self.is_open;
    }

    fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }
}

/// Fields of journald, each `LARIAT_KEY=value` and [`FIELD_SEPARATOR`]. What is absent is left out.
pub(crate) struct JournalFields<'a> {
    out: &'a mut Vec<u8>,
    /// The key of the field that waits for its value.
    key: &'static str,
    is_open: bool,
}

impl<'a> JournalFields<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        let (key, is_open) = ("", false);
        Self { out, key, is_open }
    }

    fn begin(&mut self) {
        self.out.extend_from_slice(b"LARIAT_");
        let key = self.key.bytes().map(|b| b.to_ascii_uppercase());
        self.out.extend(key);
        self.out.push(b'=');
    }
}

impl Form for JournalFields<'_> {
    fn key(&mut self, key: &'static str) {
        self.key = key;
    }

    fn absent(&mut self) {}

    fn value(&mut self, value: &[u8]) {
        self.begin();
        put_value(self.out, value, put_visible_char);
        self.out.push(FIELD_SEPARATOR);
    }

    fn quote(&mut self) {
        if self.is_open {
            self.out.push(FIELD_SEPARATOR);
        } else {
            self.begin();
        }
        self.is_open = !self.is_open;
    }

    fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }
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

    /// A parameter as RFC 5424 has it: its value, and what follows; `None` = it is none.
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
        let mut form = StructuredData::new(&mut out);
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
        let mut form = JournalFields::new(&mut out);
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
