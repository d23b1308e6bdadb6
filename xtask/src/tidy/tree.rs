//! The files of the work tree, read once, and the type that all rules share: a violation and its
//! place.

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Span, TokenStream, TokenTree};

/// Input of the rules.
#[derive(Debug, Default)]
pub(super) struct WorkTree {
    pub(super) manifests: Vec<TextFile>,
    pub(super) data: Vec<TextFile>,
    pub(super) pages: Vec<TextFile>,
    pub(super) sources: Vec<RustSource>,
    /// Every path, files and directories, that a link may name.
    pub(super) paths: Vec<String>,
}

/// File and its path from the root, with slashes.
#[derive(Debug)]
pub(super) struct TextFile {
    pub(super) path: String,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct RustSource {
    pub(super) path: String,
    pub(super) text: String,
    /// Text with comments and the contents of literals blanked, of the same length in bytes.
    pub(super) masked: String,
    /// Places of the tokens in `text`; `::` is one token.
    tokens: Vec<Range<usize>>,
    /// Line (from 0) at which inline tests begin; the number of lines if there are none.
    tests: usize,
}

/// Broken rule: its place and its text.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Violation {
    pub(super) place: String,
    pub(super) rule: String,
}

impl Violation {
    pub(super) fn new(place: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { place: place.into(), rule: rule.into() }
    }

    pub(super) fn at(path: &str, line: usize, rule: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), rule)
    }
}

const SKIPPED: &[&str] = &[".git", "artifacts", "corpus", "target"];

impl WorkTree {
    /// Reads the tree below `root`.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.enter(root, "")?;
        Ok(tree)
    }

    fn enter(&mut self, directory: &Path, above: &str) -> Result<()> {
        let place = || directory.display().to_string();
        let mut entries: Vec<_> =
            fs::read_dir(directory).and_then(Iterator::collect).with_context(place)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let path = if above.is_empty() { name } else { format!("{above}/{name}") };
            self.paths.push(path.clone());
            if entry.file_type()?.is_dir() {
                self.enter(&entry.path(), &path)?;
            } else {
                self.add(&entry.path(), path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, file: &Path, path: String) -> Result<()> {
        let read = || fs::read_to_string(file).with_context(|| file.display().to_string());
        if path.ends_with(".rs") {
            self.sources.push(RustSource::new(path, read()?)?);
            return Ok(());
        }
        let texts = match path.rsplit_once('.') {
            Some((_, "toml")) if path.ends_with("Cargo.toml") => &mut self.manifests,
            Some((_, "toml")) => &mut self.data,
            Some((_, "md")) => &mut self.pages,
            _ => return Ok(()),
        };
        let text = read()?;
        texts.push(TextFile { path, text });
        Ok(())
    }
}

impl RustSource {
    /// # Errors
    /// Fails if the text is not Rust.
    pub(super) fn new(path: String, text: String) -> Result<Self> {
        let stream: TokenStream = text.parse().map_err(|error| anyhow!("{path}: {error}"))?;
        let mut code: Vec<u8> = text.bytes().map(blank).collect();
        let mut tokens: Vec<Range<usize>> = Vec::new();
        note_tokens(stream, &text, &mut |span, is_literal| {
            let place = span.byte_range();
            let token = &text[place.clone()];
            let hidden = if is_literal { content_of(token) } else { 0..0 };
            code[place.clone()].copy_from_slice(token.as_bytes());
            for byte in &mut code[place.start + hidden.start..place.start + hidden.end] {
                *byte = blank(*byte);
            }
            match tokens.last_mut() {
                Some(before) if token == ":" && text[before.start..place.end] == *"::" => {
                    before.end = place.end;
                }
                _ => tokens.push(place),
            }
        });
        let masked = String::from_utf8(code)?;
        let tests = tests_begin(&masked);
        Ok(Self { path, text, masked, tokens, tests })
    }

    /// Returns the masked lines before the inline tests.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = &str> {
        self.masked.lines().take(self.tests)
    }

    /// Returns the masked lines of the inline tests, each with its number from 1.
    pub(super) fn test_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.masked.lines()).skip(self.tests)
    }

    /// Returns the tokens before the inline tests.
    pub(super) fn code_tokens(&self) -> Vec<&str> {
        let end: usize = self.text.split_inclusive('\n').take(self.tests).map(str::len).sum();
        let tokens = self.tokens.iter().take_while(|place| place.start < end);
        tokens.map(|place| &self.text[place.clone()]).collect()
    }

    /// Returns the names that this keyword declares, each with the token before the keyword.
    pub(super) fn declared(&self, keyword: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
        let token = |at: usize| self.tokens.get(at).map(|place| &self.text[place.clone()]);
        let all = (0..self.tokens.len()).filter(move |at| token(*at) == Some(keyword));
        all.filter_map(move |at| Some((token(at + 1)?, token(at.wrapping_sub(1)))))
    }

    /// Returns the comments and the contents of literals, with bars in place of code.
    pub(super) fn prose(&self) -> String {
        let is_code = |masked: &u8| !masked.is_ascii_whitespace();
        let bytes = self.text.bytes().zip(self.masked.bytes());
        let prose = bytes.map(|(byte, masked)| if is_code(&masked) { b'|' } else { byte });
        String::from_utf8(prose.collect()).expect("only code is replaced, byte by byte")
    }

    /// Returns the folder of the package, `crates/shared/wire` or `tests`; empty if none.
    pub(super) fn package(&self) -> &str {
        let depth = if self.path.starts_with("crates/") { 3 } else { 1 };
        let end = self.path.match_indices('/').nth(depth - 1).map_or(0, |(at, _)| at);
        &self.path[..end]
    }

    /// Reports whether the file is in a crate's `src`, and not in a folder of tests there.
    pub(super) fn is_in_src(&self) -> bool {
        let within = self.path.get(self.package().len()..).unwrap_or_default();
        within.starts_with("/src/")
            && self.path.starts_with("crates/")
            && !within.contains("/tests")
    }

    pub(super) fn is_test(&self) -> bool {
        let package = self.package();
        let within = self.path.get(package.len() + 1..).unwrap_or_default();
        within.starts_with("tests/") || within.starts_with("suite/")
    }
}

fn blank(byte: u8) -> u8 {
    if byte == b'\n' { b'\n' } else { b' ' }
}

/// Calls `note` with each token in order, inside groups too, and whether it is a literal. Skips doc
/// comments, which are attributes to the compiler.
fn note_tokens(stream: TokenStream, text: &str, note: &mut impl FnMut(Span, bool)) {
    for tree in stream {
        let is_slash = matches!(&tree, TokenTree::Punct(mark) if mark.as_char() == '/');
        if text.as_bytes()[tree.span().byte_range().start] == b'/' && !is_slash {
            continue;
        }
        match tree {
            TokenTree::Group(group) => {
                note(group.span_open(), false);
                note_tokens(group.stream(), text, note);
                note(group.span_close(), false);
            }
            TokenTree::Literal(literal) => note(literal.span(), true),
            TokenTree::Ident(word) => note(word.span(), false),
            TokenTree::Punct(mark) => note(mark.span(), false),
        }
    }
}

/// Returns the range of a text's or character's content within the literal.
fn content_of(literal: &str) -> Range<usize> {
    let quoted = ['"', '\''].iter().find_map(|quote| {
        let opened = literal.find(*quote)? + 1;
        Some(opened..literal.rfind(*quote)?.max(opened))
    });
    quoted.unwrap_or_default()
}

fn tests_begin(masked: &str) -> usize {
    let lines: Vec<&str> = masked.lines().collect();
    let begins = |at: &usize| {
        let mut after = lines[*at..].iter().skip_while(|line| line.starts_with('#'));
        lines[*at].trim_end() == "#[cfg(test)]"
            && after.next().is_some_and(|line| line.starts_with("mod "))
    };
    (0..lines.len()).find(begins).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> RustSource {
        RustSource::new("a.rs".to_owned(), text.to_owned()).unwrap()
    }

    #[test]
    fn comments_and_literals_are_blanked_and_nothing_else() {
        for (text, masked) in [
            ("a // b\nc", "a     \nc"),
            ("f(\"x\\\"y\", 'z', '\\n')", "f(\"    \", ' ', '  ')"),
            ("r#\"a\"b\"# c", "r#\"   \"# c"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("a /* b\n c */ d", "a     \n      d"),
            ("/// a\nfn b() {}", "     \nfn b() {}"),
            ("'ä' x", "'  ' x"),
            ("b\"\\x00\" y", "b\"    \" y"),
        ] {
            assert_eq!(source(text).masked, masked);
        }
    }

    #[test]
    fn tests_are_separated_from_code() {
        let source = source("a::b\n#[cfg(test)]\n#[allow(b)]\nmod tests {\n}\n");
        assert_eq!(source.code_tokens(), ["a", "::", "b"]);
        assert_eq!(source.test_lines().next(), Some((2, "#[cfg(test)]")));
    }
}
