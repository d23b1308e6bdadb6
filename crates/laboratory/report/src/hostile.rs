//! Text that a stranger may have written, made harmless for a screen.
//!
//! A record may come from anywhere, and its address, settings and names are shown on terminals and
//! pages. What belongs to HTML or a shell is [`crate::markup`]'s and [`crate::shell`]'s.

/// Shown in place of what is taken out.
const REPLACEMENT: char = '\u{fffd}';

/// Without control characters, which terminals obey and XML forbids, and without the marks that
/// turn the direction of writing around (U+202A to U+202E, U+2066 to U+2069).
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(tame).collect()
}

fn tame(character: char) -> char {
    match character {
        '\n' | '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => REPLACEMENT,
        '\u{fffe}' | '\u{ffff}' => REPLACEMENT,
        _ if character.is_control() => REPLACEMENT,
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_given_no_orders() {
        assert_eq!(
            harmless("a\x1b[2Jb\x07\u{9b}"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}"
        );
        assert_eq!(harmless("line\nfeed\ttab"), "line feed tab");
        assert_eq!(harmless("exe\u{202e}gnp"), "exe\u{fffd}gnp");
        assert_eq!(harmless("grüße, 世界"), "grüße, 世界");
    }
}
