//! Rule: what a page links to is there, file and heading.

use std::collections::{BTreeMap, HashSet};

use super::tree::{Text, Tree};
use super::violation::Violation;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let headings: BTreeMap<_, _> = tree
        .pages
        .iter()
        .map(|page| (page.path.as_str(), headings(&page.text)))
        .collect();
    tree.pages
        .iter()
        .flat_map(|page| broken(page, &tree.paths, &headings))
        .collect()
}

/// The files that a page links to, from the root.
pub(super) fn paths(page: &Text) -> Vec<String> {
    let targets = page.text.lines().flat_map(targets);
    targets.map(|target| parts(page, target).0).collect()
}

fn broken(
    page: &Text,
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

/// The round brackets of `[words](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

/// A target's path from the root, and its heading, which may be empty.
fn parts<'a>(page: &Text, target: &'a str) -> (String, &'a str) {
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

/// The headings of a page as links name them.
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

/// Letters and digits in small, and a hyphen for each blank.
fn heading_name(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    let name: String = kept.collect();
    name.replace(' ', "-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_broken_links_are_reported() {
        let text = "[a](b.md#x) [c](../d.md#the-tls-13-kind) [e](https://x) [f](g.md)\n\
                    [h](..) [i](../d.md#y) [j](#z)";
        let page = |path: &str, text: &str| Text {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let tree = Tree {
            pages: vec![
                page("docs/guide/one.md", text),
                page("docs/guide/b.md", "# X"),
                page("docs/d.md", "## The `TLS` 1.3 kind\n```\n# y\n```"),
            ],
            paths: ["docs", "docs/guide/one.md", "docs/guide/b.md", "docs/d.md"]
                .map(str::to_owned)
                .to_vec(),
            ..Tree::default()
        };
        let found = check(&tree);
        let rules: Vec<_> = found.iter().map(|one| one.rule.as_str()).collect();
        let wanted =
            ["g.md", "../d.md#y", "#z"].map(|target| format!("links to nothing: {target}"));
        assert_eq!(rules, wanted);
    }
}
