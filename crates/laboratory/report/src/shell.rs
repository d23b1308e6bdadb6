//! A command line as one would type it into a POSIX shell.

use crate::sanitize::sanitized;

/// The words in one line.
pub fn command_line(words: &[String]) -> String {
    parts(words).join(" ")
}

/// The words as lines of at most `width` characters where words allow it, each but the last ended
/// by a backslash, so that all of them can be pasted. A flag and its value stay together.
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

/// The words, quoted, each flag with what follows it.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
