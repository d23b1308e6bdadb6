//! Rules of pages: linked files and headings exist, and so does each test that the threat model
//! names; and the summary names every page.

use std::collections::{BTreeMap, HashSet};

use super::tree::{TextFile, Violation, WorkTree};

const SUMMARY: &str = "docs/SUMMARY.md";
const THREAT_MODEL: &str = "docs/threat-model.md";

/// Minimum of underscores by which a name in code font is that of a test.
const UNDERSCORES_MIN: usize = 3;

pub(super) fn check(tree: &WorkTree) -> Vec<Violation> {
    let functions = tree.sources.iter().flat_map(|source| source.declared("fn"));
    let functions: HashSet<_> = functions.map(|(name, _)| name).collect();
    let page = tree.pages.iter().find(|page| page.path == THREAT_MODEL);
    let missing = page.map_or_else(Vec::new, |page| missing(page, &functions));
    broken_links(tree).chain(missing).chain(pages_off_the_site(tree)).collect()
}

/// Returns pages missing in docs/SUMMARY.md, which are therefore not on the site.
fn pages_off_the_site(tree: &WorkTree) -> Vec<Violation> {
    let summary = tree.pages.iter().find(|page| page.path == SUMMARY);
    let named = summary.map_or_else(Vec::new, linked_paths);
    let pages = tree.pages.iter().map(|page| &page.path);
    pages
        .filter(|path| path.starts_with("docs/") && *path != SUMMARY && !named.contains(path))
        .map(|path| Violation::new(path, format!("is not named by {SUMMARY}")))
        .collect()
}

fn broken_links(tree: &WorkTree) -> impl Iterator<Item = Violation> {
    let headings: BTreeMap<_, _> =
        tree.pages.iter().map(|page| (page.path.as_str(), headings(&page.text))).collect();
    let pages = tree.pages.iter();
    pages.flat_map(move |page| broken(page, &tree.paths, &headings))
}

/// Returns the files that a page links to, from the root.
fn linked_paths(page: &TextFile) -> Vec<String> {
    let targets = page.text.lines().flat_map(targets);
    targets.map(|target| parts(page, target).0).collect()
}

fn broken(
    page: &TextFile,
    paths: &[String],
    headings: &BTreeMap<&str, HashSet<String>>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in (1..).zip(page.text.lines()) {
        for target in targets(line) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = parts(page, target);
            let is_there = path.is_empty() || paths.contains(&path);
            let has_heading = |of: &HashSet<String>| heading.is_empty() || of.contains(heading);
            if !is_there || !headings.get(path.as_str()).is_none_or(has_heading) {
                let rule = format!("links to nothing: {target}");
                violations.push(Violation::at(&page.path, number, rule));
            }
        }
    }
    violations
}

/// Returns the targets of links: the round brackets of `[words](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Splits a target into its path from the root and its heading, which may be empty.
fn parts<'a>(page: &TextFile, target: &'a str) -> (String, &'a str) {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    if file.is_empty() {
        return (page.path.clone(), heading);
    }
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    (resolve(folder, file), heading)
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

/// Returns the headings of a page as links name them.
fn headings(text: &str) -> HashSet<String> {
    let mut is_code = false;
    let mut names = HashSet::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if !is_code && line.starts_with('#') {
            names.insert(heading_name(line.trim_start_matches('#').trim()));
        }
    }
    names
}

/// Converts a heading for links: letters and digits in lower case, a hyphen for each blank.
fn heading_name(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    let name: String = kept.collect();
    name.replace(' ', "-").to_lowercase()
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

    #[test]
    fn only_pages_that_are_not_on_the_site_are_reported() {
        let page =
            |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let tree = WorkTree {
            pages: vec![
                page(SUMMARY, "- [A](guide/a.md)\n[R](../README.md)"),
                page("docs/guide/a.md", ""),
                page("docs/guide/b.md", ""),
                page("examples/README.md", ""),
            ],
            ..WorkTree::default()
        };
        let rule = "is not named by docs/SUMMARY.md";
        assert_eq!(pages_off_the_site(&tree), [Violation::new("docs/guide/b.md", rule)]);
    }

    #[test]
    fn only_broken_links_are_reported() {
        let text = "[a](b.md#x) [c](../d.md#the-tls-13-kind) [e](https://x) [f](g.md)\n\
                    [h](..) [i](../d.md#y) [j](#z)";
        let page =
            |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let tree = WorkTree {
            pages: vec![
                page("docs/guide/one.md", text),
                page("docs/guide/b.md", "# X"),
                page("docs/d.md", "## The `TLS` 1.3 kind\n```\n# y\n```"),
            ],
            paths: ["docs", "docs/guide/one.md", "docs/guide/b.md", "docs/d.md"]
                .map(str::to_owned)
                .to_vec(),
            ..WorkTree::default()
        };
        let found: Vec<_> = broken_links(&tree).collect();
        let rules: Vec<_> = found.iter().map(|one| one.rule.as_str()).collect();
        let wanted =
            ["g.md", "../d.md#y", "#z"].map(|target| format!("links to nothing: {target}"));
        assert_eq!(rules, wanted);
    }

    #[test]
    fn only_missing_tests_are_reported() {
        let text = "| `it_is_still_there`, `it_is_not_there` |\n`max_bytes` `src/a_b_c_d.rs`";
        let functions = HashSet::from(["it_is_still_there"]);
        let rule = "names a test that is not there: it_is_not_there";
        let place = THREAT_MODEL;
        let missing =
            missing(&TextFile { path: place.to_owned(), text: text.to_owned() }, &functions);
        assert_eq!(missing, [Violation::at(place, 1, rule)]);
    }
}
