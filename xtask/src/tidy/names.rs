//! Rules of names: a doc comment names its subject, a type has a name that no other type has, and
//! words that docs/glossary.md replaces are not used.
//!
//! The third column of the glossary lists replaced words in code font: `CamelCase` is the name of a
//! type, `name.rs` that of a file, anything else a word or phrase, which neither prose (pages,
//! comments, literals, data) nor the name of a file or of a declaration may contain. Case and line
//! ends make no difference.

use std::collections::BTreeMap;

use super::tree::{RustSource, TextFile, Violation, WorkTree};

/// Words that leave the subject unnamed.
const NAMELESS: &[&str] = &[
    "What", "Of", "Has", "It", "Its", "They", "That", "Those", "The same", "All that", "Where",
    "Which", "Why", "Nothing", "So",
];

/// Names that several types still have, one on each line. This list only shrinks.
const SHARED: &str = include_str!("shared-names.txt");

pub(super) fn check(tree: &WorkTree) -> Vec<Violation> {
    let mut violations: Vec<_> = tree.sources.iter().flat_map(nameless).collect();
    let shared: Vec<&str> = SHARED.lines().collect();
    for (name, paths) in types(tree) {
        if paths.len() > 1 && !shared.contains(&name) {
            let rule = format!("several types are named `{name}`: {}", paths.join(", "));
            violations.push(Violation::new(paths[0], rule));
        }
    }
    violations
}

/// Returns comments that do not begin with their subject.
fn nameless(source: &RustSource) -> Vec<Violation> {
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some(text.trim_start().to_owned())
    };
    let begins = |text: &str, word: &str| {
        text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let mut violations = Vec::new();
    let mut is_within = false;
    for (number, line) in (1..).zip(source.text.lines()) {
        let first = comment(line);
        let text = first.as_deref().filter(|_| !is_within);
        if let Some(word) = text.and_then(|text| NAMELESS.iter().find(|word| begins(text, word))) {
            let rule = format!("a comment that begins with \"{word}\" does not name its subject");
            violations.push(Violation::at(&source.path, number, rule));
        }
        is_within = first.is_some();
    }
    violations
}

/// Returns the files in which types of each name are visible outside of their module.
fn types(tree: &WorkTree) -> BTreeMap<&str, Vec<&str>> {
    let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let product = tree.sources.iter().filter(|source| source.is_in_src());
    for source in product {
        for keyword in ["struct", "enum", "trait"] {
            for (name, before) in source.declared(keyword) {
                let is_type = name.starts_with(|c: char| c.is_ascii_uppercase());
                if is_type && matches!(before, Some("pub" | ")")) {
                    types.entry(name).or_default().push(&source.path);
                }
            }
        }
    }
    types
}

const PAGE: &str = "docs/glossary.md";

/// Files that must contain replaced words: the glossary, the history, and reports of old names with
/// their new ones.
const EXEMPT: &[&str] =
    &[PAGE, "CHANGELOG.md", "crates/laboratory/lab/src/fault.rs", "docs/reference/status.md"];

/// Replaced word or phrase.
#[derive(Debug)]
enum Term {
    Type(String),
    File(String),
    Phrase(String),
}

/// Checks the words of pages, sources, data and the names of files.
pub(super) fn check_words(tree: &WorkTree) -> Vec<Violation> {
    let page = tree.pages.iter().find(|page| page.path == PAGE);
    let terms = page.map_or_else(Vec::new, |page| terms(&page.text));
    let mut violations = Vec::new();
    let is_checked = |path: &&String| !EXEMPT.contains(&path.as_str());
    for path in tree.paths.iter().filter(is_checked) {
        let found = terms.iter().filter(|term| term.is_in_path(path));
        violations.extend(found.map(|term| Violation::new(path, term.rule())));
    }
    for TextFile { path, text } in tree.pages.iter().chain(&tree.data) {
        if is_checked(&path) {
            violations.extend(in_prose(path, text, &terms));
        }
    }
    for source in tree.sources.iter().filter(|one| is_checked(&&one.path)) {
        violations.extend(in_prose(&source.path, &source.prose(), &terms));
        violations.extend(in_code(source, &terms));
    }
    violations
}

/// Returns the words in code font in the third columns of the tables.
fn terms(page: &str) -> Vec<Term> {
    let columns = page.lines().filter_map(|line| line.split('|').nth(3));
    columns.flat_map(|column| column.split('`').skip(1).step_by(2)).map(Term::new).collect()
}

impl Term {
    fn new(text: &str) -> Self {
        let is_type = text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_alphanumeric());
        match text.strip_suffix(".rs") {
            Some(stem) => Self::File(stem.to_owned()),
            None if is_type => Self::Type(text.to_owned()),
            None => Self::Phrase(text.to_lowercase()),
        }
    }

    fn rule(&self) -> String {
        let (Self::Type(text) | Self::File(text) | Self::Phrase(text)) = self;
        format!("`{text}` is a word that {PAGE} replaces")
    }

    fn is_in_path(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = name.split('.').next().unwrap_or(name);
        match self {
            Self::File(file) => name.ends_with(".rs") && file == stem,
            Self::Type(name) => stem == snake_case(name),
            Self::Phrase(phrase) => is_named(stem, phrase),
        }
    }
}

fn in_prose(path: &str, text: &str, terms: &[Term]) -> Vec<Violation> {
    let mut joined = String::new();
    let mut starts = Vec::new();
    for line in text.lines() {
        starts.push(joined.len());
        joined.push_str(&words(line));
        joined.push(' ');
    }
    let line_of = |at: usize| starts.partition_point(|start| *start <= at);
    let phrases = terms.iter().filter_map(|term| match term {
        Term::Phrase(phrase) => Some((phrase, term.rule())),
        _ => None,
    });
    phrases
        .flat_map(|(phrase, rule)| positions(&joined, phrase).map(move |at| (at, rule.clone())))
        .map(|(at, rule)| Violation::at(path, line_of(at), rule))
        .collect()
}

/// Returns a line in lower case, without comment signs and with single blanks.
fn words(line: &str) -> String {
    let line = line.trim_matches(|c: char| c.is_whitespace() || "/!\\>#*".contains(c));
    let words: Vec<&str> = line.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// Returns violations in the names of a source: types anywhere, and declarations.
fn in_code(source: &RustSource, terms: &[Term]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(source.masked.lines()) {
        let names: Vec<&str> = line.split(|c: char| !is_word(c)).collect();
        let declared = declared(&names);
        for term in terms {
            let found = match term {
                Term::Type(name) => names.contains(&name.as_str()),
                Term::Phrase(phrase) => declared.is_some_and(|name| is_named(name, phrase)),
                Term::File(_) => false,
            };
            if found {
                violations.push(Violation::at(&source.path, number, term.rule()));
            }
        }
    }
    violations
}

/// Returns the declared name of a line: a function, a module, a constant, or a public field.
fn declared<'a>(names: &[&'a str]) -> Option<&'a str> {
    const BEFORE: &[&str] = &["fn", "mod", "const", "static", "pub", "crate", "super"];
    let names = || names.iter().filter(|name| !name.is_empty());
    let pairs = names().zip(names().skip(1));
    let mut pairs =
        pairs.filter(|(before, name)| BEFORE.contains(before) && !BEFORE.contains(name));
    pairs.next().map(|(_, name)| *name)
}

fn is_named(name: &str, phrase: &str) -> bool {
    let name = name.to_lowercase();
    let spellings = [name.replace(['_', '-'], " "), name.replace('_', "-"), name];
    spellings.iter().any(|name| positions(name, phrase).next().is_some())
}

/// Returns the positions of a phrase that is not part of longer words.
fn positions<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| is_word(c) || c == '-';
    text.match_indices(phrase).map(|(at, _)| at).filter(move |at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Converts `CamelCase` to the name of a file.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> WorkTree {
        let source = |(path, text): &(&str, &str)| {
            RustSource::new((*path).to_owned(), (*text).to_owned()).unwrap()
        };
        WorkTree { sources: files.iter().map(source).collect(), ..WorkTree::default() }
    }

    #[test]
    fn nameless_comments_and_shared_names_are_found() {
        let [one, other] = ["crates/shared/wire/src/a.rs", "crates/shared/options/src/b.rs"];
        for (texts, count) in [
            (["/// What it is.\nstruct A;", "/// What it is.\nstruct A;"], 2),
            (["/// The wire.\n/// What it is.\nstruct A;", ""], 0),
            (["//! Has no name.", "// What it is."], 1),
            (["pub struct A;", "pub(crate) enum A {}"], 1),
            (["pub struct A;", "enum A {}"], 0),
            (["pub struct Options;", "pub enum Options {}"], 0),
        ] {
            let violations = check(&tree(&[(one, texts[0]), (other, texts[1])]));
            assert_eq!(violations.len(), count, "{texts:?}: {violations:?}");
        }
    }

    const TABLE: &str = "| term | meaning | not used |\n|---|---|---|\n\
        | a | b | `old way`, `left-over`, `OldWay`, `oldest.rs` |\n";

    fn broken(path: &str, text: &str) -> usize {
        let (path, text) = (path.to_owned(), text.to_owned());
        let mut tree = WorkTree::default();
        tree.paths.push(path.clone());
        let page = TextFile { path: PAGE.to_owned(), text: TABLE.to_owned() };
        tree.pages.push(page);
        if path.ends_with(".rs") {
            tree.sources.push(RustSource::new(path, text).unwrap());
        } else {
            tree.pages.push(TextFile { path, text });
        }
        check_words(&tree).len()
    }

    #[test]
    fn replaced_words_are_found() {
        for (path, text, count) in [
            ("a.md", "an Old\n  way, old ways, left-over", 2),
            ("a.md", "OldWay, left over, left-overs, oldest", 0),
            ("old-way.md", "", 1),
            ("a.rs", "// the old\n// way\nlet old_way = 1;", 1),
            ("a.rs", "f(\"old\", \"way\"); g(\"the old way\")", 1),
            ("a.rs", "fn the_old_way() {}\npub left_over: u8,", 2),
            ("a.rs", "impl OldWay { } // OldWay", 1),
            ("old_way.rs", "", 2),
            ("oldest.rs", "", 1),
            ("CHANGELOG.md", "the old way", 0),
        ] {
            assert_eq!(broken(path, text), count, "{path}: {text}");
        }
    }
}
