//! Makes foreign text safe to show to a person.
//!
//! Handles the one list of characters that change how a terminal shows the following text, and the
//! form in which they are shown instead. The content of a text is not judged.

use std::fmt::{self, Write};

/// Reports whether a terminal, or a viewer of text, obeys the character rather than showing it:
/// control characters (C0, DEL, C1), the two separators that some take for line ends, and those
/// that reorder the text around them or are unseen (Unicode UAX 9, section 2.7; tags).
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}

/// Text with its control characters escaped as in JSON (`\u001b`; RFC 8259, section 7), so that a
/// JSON document remains the same document when shown.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a> {
    text: &'a str,
    kept: &'static [char],
}

/// Escapes text that must stay on one line.
pub fn line(text: &str) -> Printable<'_> {
    Printable { text, kept: &[] }
}

/// Escapes text of several lines: line feeds and tabs stay as they are.
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

/// Writes a character escaped as in JSON.
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
