//! Text that somebody else wrote, made safe to show to a person.
//!
//! Owns the one list of characters that change how a terminal shows what follows, and the form
//! that they are shown in instead. What a text says is not judged.

use std::fmt::{self, Write};

/// Whether a terminal, or a viewer of text, obeys the character rather than showing it: control
/// characters (C0, DEL, C1), the two separators that some take for line ends, and those that
/// change the order of the text around them or are not seen (Unicode UAX 9, section 2.7; tags).
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}

/// Text with its control characters escaped as in JSON (`\u001b`; RFC 8259, section 7): so a JSON
/// document that is shown stays the same document.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a> {
    text: &'a str,
    kept: &'static [char],
}

/// Text that stays on its line.
pub fn line(text: &str) -> Printable<'_> {
    Printable { text, kept: &[] }
}

/// Text of several lines: line feeds and tabs stay as they are.
pub fn lines(text: &str) -> Printable<'_> {
    Printable { text, kept: &['\n', '\t'] }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.text.chars() {
            if is_control(c) && !self.kept.contains(&c) { escape(f, c)? } else { f.write_char(c)? }
        }
        Ok(())
    }
}

/// Writes a character as JSON does one that must not stand in a string.
fn escape(out: &mut impl Write, c: char) -> fmt::Result {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(out, "\\u{unit:04x}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let all: String = ('\0'..=char::MAX).collect();
        assert!(!line(&all).to_string().chars().any(is_control));
        let kept: String = lines(&all).to_string().chars().filter(|c| is_control(*c)).collect();
        assert_eq!(kept, "\t\n");
        for hostile in ['\u{1b}', '\u{7f}', '\u{9b}', '\u{202e}', '\u{e0041}'] {
            assert!(is_control(hostile), "{}", line(&hostile.to_string()));
        }
    }

    #[test]
    fn what_is_no_control_character_stays() {
        let text = "\u{e9}\u{4e2d}\u{1f600} plain \\ \"";
        assert_eq!(lines(text).to_string(), text);
        let osc = "\u{1b}]0;x\u{7}a\nb\u{e0041}";
        let shown = r"\u001b]0;x\u0007a\u000ab\udb40\udc41";
        assert_eq!(line(osc).to_string(), shown);
    }
}
