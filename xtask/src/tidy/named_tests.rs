//! Rule: a test that the threat model names is there.

use std::collections::HashSet;

use super::tree::{Text, Tree};
use super::violation::Violation;

const PAGE: &str = "docs/threat-model.md";

/// A name in code font with this many underscores is that of a test.
const UNDERSCORES_MIN: usize = 3;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let sources = tree.sources.iter().flat_map(|source| source.text.lines());
    let functions: HashSet<_> = sources.filter_map(function).collect();
    let page = tree.pages.iter().find(|page| page.path == PAGE);
    page.map_or_else(Vec::new, |page| missing(page, &functions))
}

fn missing(page: &Text, functions: &HashSet<&str>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(page.text.lines()) {
        let named = line.split('`').skip(1).step_by(2).filter(|it| is_test(it));
        for name in named.filter(|name| !functions.contains(name)) {
            let rule = format!("names a test that is not there: {name}");
            violations.push(Violation::at(&page.path, number, rule));
        }
    }
    violations
}

fn is_test(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    word.bytes().all(is_part) && word.matches('_').count() >= UNDERSCORES_MIN
}

fn function(line: &str) -> Option<&str> {
    let name = line.trim_start().strip_prefix("fn ")?;
    name.split_once("()").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_tests_are_reported() {
        let text = "| `it_is_still_there`, `it_is_not_there` |\n`max_bytes` `src/a_b_c_d.rs`";
        let page = Text {
            path: PAGE.to_owned(),
            text: text.to_owned(),
        };
        let functions = function("    fn it_is_still_there() {")
            .into_iter()
            .collect();
        let rule = "names a test that is not there: it_is_not_there";
        assert_eq!(missing(&page, &functions), [Violation::at(PAGE, 1, rule)]);
    }
}
