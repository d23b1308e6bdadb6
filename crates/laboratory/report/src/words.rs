//! Formats words: lists, titles, command lines for a shell, and sanitized text of records.

use measure::quantity::RoundedCount;
use wire::text::is_control;

/// Returns the text with a capital letter, as for titles.
pub(crate) fn titled(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.next().map(char::to_uppercase).into_iter().flatten().collect();
    first + characters.as_str()
}

/// Joins names: `a, b and c`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Joins the parts that are not empty, with a separator.
pub(crate) fn joined<S: AsRef<str>>(parts: impl IntoIterator<Item = S>, separator: &str) -> String {
    let mut text = String::new();
    for part in parts.into_iter().filter(|part| !part.as_ref().is_empty()) {
        if !text.is_empty() {
            text += separator;
        }
        text += part.as_ref();
    }
    text
}

/// Formats a step of a ramp as a share of the value read from it: `±12 %`.
pub(crate) fn in_percent(step: f64) -> String {
    format!("±{} %", percentage(step * 100.0))
}

pub(crate) fn percentage(percent: f64) -> String {
    match percent.abs() {
        ..9.95 => format!("{percent:.1}"),
        _ => digits(percent.round()).trim_end_matches(".0").to_owned(),
    }
}

/// Formats with two decimals under 10, one under 100; an interval's end may be infinite.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        ..1e4 => RoundedCount(value.round()).to_string(),
        _ => "over 10\u{202f}000".to_owned(),
    }
}

/// Keeps characters that are valid in an id, and in a file name on any system: letters, digits and
/// hyphens.
pub(crate) fn id_part(text: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }
    };
    let text: String = text.chars().map(letter).collect();
    joined(text.split('-'), "-")
}

/// Prevents a line break between a number and its unit.
pub(crate) fn with_units_held(text: &str) -> String {
    const UNITS: [&str; 12] =
        ["%", "ns", "µs", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB"];
    let is_unit = |rest: &str| {
        let end = rest.find(|c: char| !c.is_alphabetic() && c != '%');
        UNITS.contains(&&rest[..end.unwrap_or(rest.len())])
    };
    let mut held = String::with_capacity(text.len());
    for (place, letter) in text.char_indices() {
        let is_between = letter == ' '
            && held.ends_with(|c: char| c.is_ascii_digit())
            && is_unit(&text[place + 1..]);
        held.push(if is_between { '\u{a0}' } else { letter });
    }
    held
}

pub fn command_line(words: &[String]) -> String {
    parts(words).join(" ")
}

/// Returns the words as lines of at most `width` characters if words allow it, each but the last
/// ended by a backslash, so that all of them can be pasted. A flag and its value stay together.
pub(crate) fn command_lines(words: &[String], width: usize) -> Vec<String> {
    const CONTINUED: &str = " \\";
    let room = width.saturating_sub(CONTINUED.len());
    let mut lines: Vec<String> = Vec::new();
    for part in parts(words) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + part.chars().count() <= room => {
                line.push(' ');
                line.push_str(&part);
            }
            Some(line) => {
                line.push_str(CONTINUED);
                lines.push(format!("    {part}"));
            }
            None => lines.push(part),
        }
    }
    lines
}

/// Returns the words, quoted, each flag with its value.
fn parts(words: &[String]) -> Vec<String> {
    let is_flag = |word: &str| word.starts_with('-') && !word.contains('=');
    let parts = words.chunk_by(|a, b| is_flag(a) && !b.starts_with('-'));
    let quote = |part: &[String]| part.iter().map(|word| quoted(word)).collect::<Vec<_>>();
    parts.map(|part| quote(part).join(" ")).collect()
}

fn quoted(word: &str) -> String {
    let word = sanitized(word);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Replacement of removed characters.
const REPLACEMENT: char = '\u{fffd}';

/// Removes control characters, which terminals obey and XML forbids, and marks that reverse the
/// direction of writing or are invisible.
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
    fn numbers_and_their_units_stay_together() {
        let shown = |text: &str| with_units_held(text).replace('\u{a0}', "~");
        assert_eq!(shown("0 failed (0 %)"), "0 failed (0~%)");
        assert_eq!(shown("762 µs, 1.2 MiB/s; 3 s"), "762~µs, 1.2~MiB/s; 3~s");
        assert_eq!(shown("4 seconds, x s, 5 "), "4 seconds, x s, 5 ");
    }

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_a_shell_would_read_is_quoted() {
        let command = words(&["lab", "http://a/?b=1&c", "it's", "", "$(x)", "5%"]);
        let wanted = r"lab 'http://a/?b=1&c' 'it'\''s' '' '$(x)' 5%";
        assert_eq!(command_lines(&command, 80), [wanted]);
    }

    #[test]
    fn long_commands_go_on_in_the_next_line() {
        let command = words(&["lariat-lab", "load", "--quiet", "--rate", "500"]);
        let lines = command_lines(&command, 33);
        assert_eq!(lines, [r"lariat-lab load --quiet \", "    --rate 500"]);
        assert!(command_lines(&[], 19).is_empty());
    }

    #[test]
    fn terminals_get_no_control_characters() {
        assert_eq!(sanitized("a\x1b[2Jb\x07\u{9b}"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}");
        assert_eq!(sanitized("line\nfeed\ttab"), "line feed tab");
        assert_eq!(sanitized("exe\u{202e}gnp"), "exe\u{fffd}gnp");
        assert_eq!(sanitized("a\u{2028}\u{200f}\u{e0041}"), "a\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(sanitized("grüße, 世界"), "grüße, 世界");
    }
}
