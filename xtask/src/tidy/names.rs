//! Rules of names: a comment of the documentation names its subject, and a type has a name that no
//! other type has.

use std::collections::BTreeMap;

use super::tree::{RustSource, Violation, WorkTree};

/// Words that leave open what is spoken of.
const NAMELESS: &[&str] =
    &["What", "Of", "Has", "Its", "Those", "Where", "Which", "Why", "Nothing", "So"];

/// Names that several types still have, one a line. This list only shrinks.
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

/// Comments that do not begin with their subject.
fn nameless(source: &RustSource) -> Vec<Violation> {
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some(text.split_whitespace().next().unwrap_or_default().to_owned())
    };
    let mut violations = Vec::new();
    let mut is_within = false;
    for (number, line) in (1..).zip(source.text.lines()) {
        let first = comment(line);
        if let Some(word) = first.as_deref().filter(|word| !is_within && NAMELESS.contains(word)) {
            let rule = format!("a comment that begins with \"{word}\" does not name its subject");
            violations.push(Violation::at(&source.path, number, rule));
        }
        is_within = first.is_some();
    }
    violations
}

/// The files in which types of each name are visible outside of their module.
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
}
