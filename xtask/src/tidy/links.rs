//! Rule: what a page links to is there.

use super::tree::{Text, Tree};
use super::violation::Violation;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    tree.pages
        .iter()
        .flat_map(|page| broken(page, &tree.paths))
        .collect()
}

fn broken(page: &Text, paths: &[String]) -> Vec<Violation> {
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

/// What is in the round brackets of `[words](target)`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_broken_links_are_reported() {
        let text = "[a](b.md#x) [c](../d.md) [e](https://x) [f](g.md)\n[h](..)".to_owned();
        let page = Text {
            path: "docs/guide/one.md".to_owned(),
            text,
        };
        let paths = ["docs/guide/b.md", "docs/d.md", "docs"].map(str::to_owned);
        let violations = broken(&page, &paths);
        assert_eq!(
            violations,
            [Violation::at(
                "docs/guide/one.md",
                1,
                "links to nothing: g.md"
            )]
        );
    }
}
