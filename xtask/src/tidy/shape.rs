//! Rules of shape: how files open, how long lines and files are, and no promises left. How long
//! functions are is clippy's.

use super::tree::{RustSource, Violation, WorkTree};

/// Lines a file before its tests.
const FILE_LINES_MAX: usize = 600;

/// Columns a line, the contents of literals not counted: they are not cut for a ruler.
const COLUMNS_MAX: usize = 100;

/// Words of unfinished work. Written in two parts, or this file would be its own violation.
const PROMISES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

pub(super) fn check(tree: &WorkTree) -> Vec<Violation> {
    let mut violations: Vec<Violation> = tree.sources.iter().flat_map(rules).collect();
    for page in tree.pages.iter().chain(&tree.manifests) {
        violations.extend(promises(&page.path, &page.text));
    }
    violations
}

fn rules(source: &RustSource) -> Vec<Violation> {
    let mut violations = promises(&source.path, &source.text);
    if !source.text.starts_with("//!") {
        violations.push(Violation::at(&source.path, 1, "a file opens with `//!`: what it owns"));
    }
    let length = source.code_lines().count();
    if length > FILE_LINES_MAX {
        violations.push(Violation::new(&source.path, format!("{length} lines before its tests")));
    }
    let lines = source.text.lines().zip(source.masked.lines());
    for (number, (line, masked)) in (1..).zip(lines) {
        if width(line, masked) > COLUMNS_MAX {
            violations.push(Violation::at(&source.path, number, "a line of more than 100 columns"));
        }
    }
    violations
}

fn promises(path: &str, text: &str) -> Vec<Violation> {
    let promising = |line: &str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric());
        words.any(|word| PROMISES.contains(&word))
    };
    let lines = (1..).zip(text.lines()).filter(|(_, line)| promising(line));
    lines
        .map(|(number, _)| Violation::at(path, number, "unfinished work is not kept here"))
        .collect()
}

/// Columns, without the contents of literals.
fn width(line: &str, masked: &str) -> usize {
    if !line.contains('"') {
        return line.chars().count();
    }
    masked.trim_end().split('"').step_by(2).map(|outside| outside.chars().count() + 2).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> usize {
        let path = "crates/shared/a/src/a.rs".to_owned();
        rules(&RustSource::new(path, text.to_owned()).unwrap()).len()
    }

    #[test]
    fn each_rule_is_found_broken() {
        let wide = "x".repeat(101);
        let unfinished = concat!("TO", "DO");
        for (what, text, count) in [
            ("nothing", "//! Owns.\nfn f() {}\n".to_owned(), 0),
            ("no opening", "fn f() {}\n".to_owned(), 1),
            ("a wide line", format!("//! Owns.\n{wide}\n"), 1),
            ("a wide literal", format!("//! Owns.\nlet a = \"{wide}\";\n"), 0),
            ("a long file", format!("//! Owns.\n{}", "x\n".repeat(600)), 1),
            ("unfinished work", format!("//! Owns.\n// {unfinished} later\n"), 1),
        ] {
            assert_eq!(broken(&text), count, "{what}");
        }
    }
}
