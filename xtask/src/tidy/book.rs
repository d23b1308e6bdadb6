//! Rule: docs/SUMMARY.md names every page of docs, since a page that it leaves out is not on the
//! site.

use super::links;
use super::tree::Tree;
use super::violation::Violation;

const PAGE: &str = "docs/SUMMARY.md";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let summary = tree.pages.iter().find(|page| page.path == PAGE);
    let named = summary.map_or_else(Vec::new, links::paths);
    let pages = tree.pages.iter().map(|page| &page.path);
    pages
        .filter(|path| path.starts_with("docs/") && *path != PAGE && !named.contains(path))
        .map(|path| Violation::new(path, format!("is not named by {PAGE}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Text;
    use super::*;

    #[test]
    fn only_pages_that_are_left_out_are_reported() {
        let page = |path: &str, text: &str| Text {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let tree = Tree {
            pages: vec![
                page(PAGE, "- [A](guide/a.md)\n[R](../README.md)"),
                page("docs/guide/a.md", ""),
                page("docs/guide/b.md", ""),
                page("examples/README.md", ""),
            ],
            ..Tree::default()
        };
        let rule = "is not named by docs/SUMMARY.md";
        assert_eq!(check(&tree), [Violation::new("docs/guide/b.md", rule)]);
    }
}
