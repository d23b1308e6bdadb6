//! Rust with comments and the contents of literals blanked, so that words can be searched.
//!
//! A scanner, no parser: enough for rustfmt'd code.

/// The masked text, line for line and byte for byte as long as the original.
#[derive(Debug)]
pub(super) struct Masked {
    text: String,
    /// The line (from 0) at which inline tests begin; the number of lines if there are none.
    tests: usize,
}

impl Masked {
    pub(super) fn new(text: &str) -> Self {
        let text = mask(text);
        let lines: Vec<&str> = text.lines().collect();
        let begins = |at: &usize| {
            let mut after = lines[*at..].iter().skip_while(|line| line.starts_with('#'));
            lines[*at].trim_end() == "#[cfg(test)]"
                && after.next().is_some_and(|line| line.starts_with("mod "))
        };
        let tests = (0..lines.len()).find(begins).unwrap_or(lines.len());
        Self { text, tests }
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines()
    }

    /// The lines before the inline tests.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().take(self.tests)
    }

    /// The lines of the inline tests, each with its number from 1.
    pub(super) fn test_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines()).skip(self.tests)
    }

    /// The comments and the contents of literals of `original`, with bars in place of code.
    pub(super) fn prose(&self, original: &str) -> String {
        let is_code = |masked: &u8| !masked.is_ascii_whitespace();
        let bytes = original.bytes().zip(self.text.bytes());
        let prose = bytes.map(|(byte, masked)| if is_code(&masked) { b'|' } else { byte });
        String::from_utf8(prose.collect()).expect("only code is replaced, byte by byte")
    }

    /// The text before the inline tests.
    pub(super) fn code(&self) -> String {
        self.code_lines().flat_map(|line| [line, "\n"]).collect()
    }
}

fn mask(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(&first) = rest.first() {
        let blank = blank_length(rest, out.last().copied());
        let (kept, blanked, closing) = blank.unwrap_or((1, 0, 0));
        debug_assert!(kept + blanked + closing > 0, "{first}");
        out.extend_from_slice(&rest[..kept]);
        let hidden = &rest[kept..kept + blanked];
        out.extend(
            hidden
                .iter()
                .map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }),
        );
        out.extend_from_slice(&rest[kept + blanked..kept + blanked + closing]);
        rest = &rest[kept + blanked + closing..];
    }
    String::from_utf8(out).expect("only whole literals and comments are blanked")
}

/// If a comment or literal begins here: how many bytes open it, are blanked, and close it.
fn blank_length(rest: &[u8], before: Option<u8>) -> Option<(usize, usize, usize)> {
    let in_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match rest {
        [b'/', b'/', ..] => Some((0, line_end(rest), 0)),
        [b'/', b'*', ..] => Some((0, block_end(rest), 0)),
        [b'"', ..] => Some((1, string_end(&rest[1..]), 1)),
        [b'r', b'"' | b'#', ..] if !in_word || before == Some(b'b') => raw_string(rest),
        [b'\'', b'\\', ..] => {
            let end = rest[3..].iter().position(|byte| *byte == b'\'')?;
            Some((1, 2 + end, 1))
        }
        [b'\'', ..] => {
            let character = std::str::from_utf8(&rest[1..rest.len().min(5)])
                .map_or_else(|e| &rest[1..1 + e.valid_up_to()], str::as_bytes);
            let width = std::str::from_utf8(character)
                .ok()?
                .chars()
                .next()?
                .len_utf8();
            (rest.get(1 + width) == Some(&b'\'')).then_some((1, width, 1))
        }
        _ => None,
    }
}

fn line_end(rest: &[u8]) -> usize {
    rest.iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(rest.len())
}

fn block_end(rest: &[u8]) -> usize {
    rest.windows(2)
        .position(|two| two == b"*/")
        .map_or(rest.len(), |at| at + 2)
}

fn string_end(rest: &[u8]) -> usize {
    let mut at = 0;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at.min(rest.len().saturating_sub(1))
}

fn raw_string(rest: &[u8]) -> Option<(usize, usize, usize)> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let closing = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = &rest[2 + hashes..];
    let end = body
        .windows(closing.len())
        .position(|window| window == closing)?;
    Some((2 + hashes, end, closing.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_nothing_else() {
        for (text, masked) in [
            ("a // b\nc", "a     \nc"),
            ("f(\"x\\\"y\", 'z', '\\n')", "f(\"    \", ' ', '  ')"),
            ("r#\"a\"b\"# c", "r#\"   \"# c"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("a /* b\n c */ d", "a     \n      d"),
            ("'ä' x", "'  ' x"),
            ("b\"\\x00\" y", "b\"    \" y"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }

    #[test]
    fn tests_are_separated_from_code() {
        let masked = Masked::new("a\n#[cfg(test)]\n#[allow(b)]\nmod tests {\n}\n");
        assert_eq!(masked.code(), "a\n");
        assert_eq!(masked.test_lines().next(), Some((2, "#[cfg(test)]")));
    }
}
