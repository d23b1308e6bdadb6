//! Text that a stranger wrote, where a person reads it.

/// Whether a terminal, or a viewer of text, obeys the character rather than showing it: control
/// characters (C0, DEL, C1), the two separators that some take for line ends, and those that
/// change the order of the text around them or are not seen (Unicode UAX 9, section 2.7; tags).
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}')
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        )
        || matches!(c, '\u{2066}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}')
}
