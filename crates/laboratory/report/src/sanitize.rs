//! Text that a stranger may have written, made sanitized for a screen.
//!
//! A record may come from anywhere, and its address, settings and names are shown on terminals and
//! pages. What belongs to HTML or a shell is [`crate::markup`]'s and [`crate::shell`]'s.

use wire::text::is_control;

/// Shown in place of what is taken out.
const REPLACEMENT: char = '\u{fffd}';

/// Without control characters, which terminals obey and XML forbids, and without the marks that
/// turn the direction of writing around or are not seen.
pub(crate) fn sanitized(text: &str) -> String {
    text.chars().map(replaced).collect()
}

fn replaced(character: char) -> char {
    match character {
        '\n' | '\t' => ' ',
        '\u{fffe}' | '\u{ffff}' => REPLACEMENT,
        _ if is_control(character) => REPLACEMENT,
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_get_no_control_characters() {
        assert_eq!(
            sanitized("a\x1b[2Jb\x07\u{9b}"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}"
        );
        assert_eq!(sanitized("line\nfeed\ttab"), "line feed tab");
        assert_eq!(sanitized("exe\u{202e}gnp"), "exe\u{fffd}gnp");
        assert_eq!(
            sanitized("a\u{2028}\u{200f}\u{e0041}"),
            "a\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(sanitized("grüße, 世界"), "grüße, 世界");
    }
}
