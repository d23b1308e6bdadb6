//! Rules of shape: how files open, how long functions, lines and files are, and no promises left.

use super::tree::{Source, Tree};
use super::violation::Violation;

/// Lines of code a function, comments and blank lines not counted; clippy counts the same way.
const FUNCTION_LINES_MAX: usize = 70;

/// Lines a file before its tests.
const FILE_LINES_MAX: usize = 600;

/// Columns a line, the contents of literals not counted: they are not cut for a ruler.
const COLUMNS_MAX: usize = 100;

/// Words of unfinished work. Written in two parts, or this file would be its own violation.
const PROMISES: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations: Vec<Violation> = tree.sources.iter().flat_map(rules).collect();
    for page in tree.pages.iter().chain(&tree.manifests) {
        violations.extend(promises(&page.path, &page.text));
    }
    violations
}

fn rules(source: &Source) -> Vec<Violation> {
    let mut violations = promises(&source.path, &source.text);
    if !source.text.starts_with("//!") {
        violations.push(Violation::at(
            &source.path,
            1,
            "a file opens with `//!`: what it owns",
        ));
    }
    let length = source.masked.code_lines().count();
    if length > FILE_LINES_MAX {
        violations.push(Violation::new(
            &source.path,
            format!("{length} lines before its tests"),
        ));
    }
    let lines = source.text.lines().zip(source.masked.lines());
    for (number, (line, masked)) in (1..).zip(lines) {
        if width(line, masked) > COLUMNS_MAX {
            violations.push(Violation::at(
                &source.path,
                number,
                "a line of more than 100 columns",
            ));
        }
    }
    for (number, length) in functions(source) {
        if length > FUNCTION_LINES_MAX {
            let rule = format!("a function of {length} lines");
            violations.push(Violation::at(&source.path, number, rule));
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
    masked
        .trim_end()
        .split('"')
        .step_by(2)
        .map(|outside| outside.chars().count() + 2)
        .sum()
}

/// The first line and the length in lines of code of each function with a body.
fn functions(source: &Source) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = source.masked.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if begins_function(line) {
            found.extend(body(&lines[at..]).map(|length| (at + 1, length)));
        }
    }
    found
}

fn begins_function(line: &str) -> bool {
    let before = line.split("fn ").next().unwrap_or(line);
    line.contains("fn ")
        && before.split_whitespace().all(|word| {
            let visible = word.starts_with("pub");
            visible
                || ["async", "const", "extern", "unsafe", "\"", "\"\""].contains(&word)
                || word.starts_with("in")
                || word.ends_with(')')
        })
}

/// Lines of code from the first line's function to its closing brace; `None` without a body.
fn body(lines: &[&str]) -> Option<usize> {
    let mut depth = 0usize;
    let mut length = 0;
    for line in lines {
        length += usize::from(!line.trim().is_empty());
        for c in line.chars() {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(length);
                    }
                }
                ';' if depth == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::masked::Masked;

    fn broken(text: &str) -> usize {
        let masked = Masked::new(text);
        rules(&Source {
            path: "crates/shared/a/src/a.rs".to_owned(),
            text: text.to_owned(),
            masked,
        })
        .len()
    }

    #[test]
    fn each_rule_is_found_broken() {
        let long = "    x;\n".repeat(70);
        let blank = "\n    // why\n".repeat(70);
        let wide = "x".repeat(101);
        let unfinished = concat!("TO", "DO");
        for (what, text, count) in [
            ("nothing", "//! Owns.\nfn f() {}\n".to_owned(), 0),
            ("no opening", "fn f() {}\n".to_owned(), 1),
            (
                "a long function",
                format!("//! Owns.\npub(crate) fn f() {{\n{long}}}\n"),
                1,
            ),
            ("comments", format!("//! Owns.\nfn f() {{\n{blank}}}\n"), 0),
            ("a wide line", format!("//! Owns.\n{wide}\n"), 1),
            (
                "a wide literal",
                format!("//! Owns.\nlet a = \"{wide}\";\n"),
                0,
            ),
            (
                "a long file",
                format!("//! Owns.\n{}", "x\n".repeat(600)),
                1,
            ),
            (
                "unfinished work",
                format!("//! Owns.\n// {unfinished} later\n"),
                1,
            ),
        ] {
            assert_eq!(broken(&text), count, "{what}");
        }
    }
}
