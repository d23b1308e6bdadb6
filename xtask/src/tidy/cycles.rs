//! Rule: no two files of one crate import each other, not even by way of others.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{RustSource, Violation, WorkTree};

/// Checks every crate of the workspace.
pub(super) fn check(tree: &WorkTree) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<&RustSource>> = BTreeMap::new();
    for source in &tree.sources {
        if within_src(source).is_some() {
            crates.entry(source.package()).or_default().push(source);
        }
    }
    crates.values().flat_map(|sources| cycles_among(sources)).collect()
}

fn within_src(source: &RustSource) -> Option<&str> {
    source.path.strip_prefix(source.package())?.strip_prefix("/src/")
}

fn cycles_among(sources: &[&RustSource]) -> Vec<Violation> {
    let graph = graph(sources);
    let mut known = BTreeSet::new();
    let mut violations = Vec::new();
    for start in 0..sources.len() {
        let Some(cycle) = cycle_through(&graph, start) else { continue };
        if !known.insert(cycle.iter().copied().collect::<BTreeSet<_>>()) {
            continue;
        }
        let names: Vec<&str> = cycle.iter().map(|index| sources[*index].path.as_str()).collect();
        let rule = format!("files import each other: {}", names.join(" -> "));
        violations.push(Violation::new(names[0], rule));
    }
    violations
}

fn graph(sources: &[&RustSource]) -> Vec<BTreeSet<usize>> {
    let modules: BTreeMap<Vec<String>, usize> = sources
        .iter()
        .enumerate()
        .filter_map(|(index, source)| Some((module_of_file(within_src(source)?), index)))
        .collect();
    let mut graph = vec![BTreeSet::new(); sources.len()];
    for (module, &index) in &modules {
        let below = modules
            .keys()
            .filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
        let children: Vec<String> = below.filter_map(|other| other.last().cloned()).collect();
        for path in paths_named(&sources[index].code_tokens(), module, &children) {
            let target = (0..=path.len()).rev().find_map(|length| modules.get(&path[..length]));
            graph[index].extend(target.copied().filter(|target| *target != index));
        }
    }
    graph
}

/// The shortest way from a file back to itself.
fn cycle_through(graph: &[BTreeSet<usize>], start: usize) -> Option<Vec<usize>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = *way.last().expect("a way begins somewhere");
            for &next in &graph[last] {
                let further = [way.as_slice(), &[next]].concat();
                if next == start {
                    return Some(further);
                }
                if seen.insert(next) {
                    longer.push(further);
                }
            }
        }
        ways = longer;
    }
    None
}

/// The module of a file, given its path within `src`: `["a", "b"]` for `a/b.rs`.
fn module_of_file(within_src: &str) -> Vec<String> {
    let bare = within_src.strip_suffix(".rs").unwrap_or(within_src);
    let bare = bare.strip_suffix("/mod").unwrap_or(bare);
    if matches!(bare, "lib" | "main") {
        return Vec::new();
    }
    bare.split('/').map(str::to_owned).collect()
}

/// Every path that begins at the crate, at this module, or at one of its children, as absolute
/// segments. Groups in braces are taken apart.
fn paths_named(tokens: &[&str], module: &[String], children: &[String]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let begins = at == 0 || tokens[at - 1] != "::";
        if !begins || pair[1] != "::" {
            continue;
        }
        let base = match pair[0] {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module[..module.len().saturating_sub(1)].to_vec(),
            child if children.iter().any(|one| one == child) => {
                [module, &[child.to_owned()]].concat()
            }
            _ => continue,
        };
        follow_path(tokens, at + 2, base, &mut paths);
    }
    paths
}

/// Follows a path from token `at` on; returns the token after it.
fn follow_path(
    tokens: &[&str],
    at: usize,
    base: Vec<String>,
    paths: &mut Vec<Vec<String>>,
) -> usize {
    match tokens.get(at) {
        Some(&"{") => {
            let mut at = at + 1;
            while tokens.get(at).is_some_and(|token| *token != "}") {
                at = if tokens[at] == "," {
                    at + 1
                } else {
                    follow_path(tokens, at, base.clone(), paths)
                };
            }
            at + 1
        }
        Some(&"super") if tokens.get(at + 1) == Some(&"::") => {
            let above = base[..base.len().saturating_sub(1)].to_vec();
            follow_path(tokens, at + 2, above, paths)
        }
        Some(word) => {
            let path = [base, vec![(*word).to_owned()]].concat();
            if tokens.get(at + 1) == Some(&"::") {
                return follow_path(tokens, at + 2, path, paths);
            }
            paths.push(path);
            let renamed = tokens.get(at + 1) == Some(&"as");
            at + if renamed { 3 } else { 1 }
        }
        None => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> RustSource {
        RustSource::new(format!("crates/shared/one/src/{path}"), text.to_owned()).unwrap()
    }

    #[test]
    fn paths_are_taken_apart() {
        let (module, children) = (vec!["m".to_owned()], vec!["kid".to_owned()]);
        for (code, expected) in [
            ("use crate::a::B;", &["a/B"][..]),
            ("use crate::{a, b::{C, d::E as F}};", &["a", "b/C", "b/d/E"]),
            ("super::x::y(self::z)", &["x/y", "m/z"]),
            ("kid::f(std::kid::g)", &["m/kid/f"]),
        ] {
            let source = source("m.rs", code);
            let paths = paths_named(&source.code_tokens(), &module, &children);
            let paths: Vec<String> = paths.iter().map(|path| path.join("/")).collect();
            assert_eq!(paths, expected);
        }
    }

    #[test]
    fn only_cycles_are_found() {
        for (count, files) in [
            (0, &[("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c;"), ("c.rs", "")][..]),
            (1, &[("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a;")]),
            (1, &[("lib.rs", "use a::A;"), ("a.rs", "use crate::Noun;")]),
            (1, &[("a.rs", "mod b; use b::B;"), ("a/b.rs", "use super::A;")]),
        ] {
            let sources = files.iter().map(|(path, text)| source(path, text));
            let sources: Vec<RustSource> = sources.collect();
            let found = cycles_among(&sources.iter().collect::<Vec<_>>());
            assert_eq!(found.len(), count, "{files:?}");
        }
    }
}
