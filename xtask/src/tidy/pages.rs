//! Rules of pages: what they link to is there, and so is each test that the threat model names.

use std::collections::HashSet;

use super::tree::{TextFile, Violation, WorkTree};

const THREAT_MODEL: &str = "docs/threat-model.md";

/// A name in code font with this many underscores is that of a test.
const UNDERSCORES_MIN: usize = 3;

pub(super) fn check(tree: &WorkTree) -> Vec<Violation> {
    let broken = tree.pages.iter().flat_map(|page| broken(page, &tree.paths));
    let functions = tree.sources.iter().flat_map(|source| source.declared("fn"));
    let functions: HashSet<_> = functions.map(|(name, _)| name).collect();
    let page = tree.pages.iter().find(|page| page.path == THREAT_MODEL);
    let missing = page.map_or_else(Vec::new, |page| missing(page, &functions));
    broken.chain(missing).collect()
}

fn broken(page: &TextFile, paths: &[String]) -> Vec<Violation> {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(page.text.lines()) {
        for target in targets(line) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let path = resolve(folder, file);
            if !path.is_empty() && !paths.contains(&path) {
                violations.push(Violation::at(
                    &page.path,
                    number,
                    format!("links to nothing: {file}"),
                ));
            }
        }
    }
    violations
}

/// The targets in the round brackets of `[words](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

fn resolve(folder: &str, file: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn missing(page: &TextFile, functions: &HashSet<&str>) -> Vec<Violation> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn only_broken_links_are_reported() {
        let text = "[a](b.md#x) [c](../d.md) [e](https://x) [f](g.md)\n[h](..)";
        let paths = ["docs/guide/b.md", "docs/d.md", "docs"].map(str::to_owned);
        let place = "docs/guide/one.md";
        let rule = "links to nothing: g.md";
        assert_eq!(
            broken(&page(place, text), &paths),
            [Violation::at(place, 1, rule)]
        );
    }

    #[test]
    fn only_missing_tests_are_reported() {
        let text = "| `it_is_still_there`, `it_is_not_there` |\n`max_bytes` `src/a_b_c_d.rs`";
        let functions = HashSet::from(["it_is_still_there"]);
        let rule = "names a test that is not there: it_is_not_there";
        let place = THREAT_MODEL;
        let missing = missing(&page(place, text), &functions);
        assert_eq!(missing, [Violation::at(place, 1, rule)]);
    }
}
