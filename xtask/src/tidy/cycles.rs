//! Rule: no two files of one crate import each other, not even by way of others.

use std::collections::{BTreeMap, BTreeSet};

use super::module_path;
use super::tree::{Source, Tree};
use super::violation::Violation;

/// Checks every crate of the workspace.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in &tree.sources {
        if within_src(source).is_some() {
            crates.entry(source.package()).or_default().push(source);
        }
    }
    crates
        .values()
        .flat_map(|sources| cycles_among(sources))
        .collect()
}

fn within_src(source: &Source) -> Option<&str> {
    source
        .path
        .strip_prefix(source.package())?
        .strip_prefix("/src/")
}

fn cycles_among(sources: &[&Source]) -> Vec<Violation> {
    let graph = graph(sources);
    let mut known = BTreeSet::new();
    let mut violations = Vec::new();
    for start in 0..sources.len() {
        let Some(cycle) = cycle_through(&graph, start) else {
            continue;
        };
        if !known.insert(cycle.iter().copied().collect::<BTreeSet<_>>()) {
            continue;
        }
        let names: Vec<&str> = cycle
            .iter()
            .map(|index| sources[*index].path.as_str())
            .collect();
        let rule = format!("files import each other: {}", names.join(" -> "));
        violations.push(Violation::new(names[0], rule));
    }
    violations
}

fn graph(sources: &[&Source]) -> Vec<BTreeSet<usize>> {
    let modules: BTreeMap<Vec<String>, usize> = sources
        .iter()
        .enumerate()
        .filter_map(|(index, source)| Some((module_path::of_file(within_src(source)?), index)))
        .collect();
    let mut graph = vec![BTreeSet::new(); sources.len()];
    for (module, &index) in &modules {
        let below = modules
            .keys()
            .filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
        let children: Vec<String> = below.filter_map(|other| other.last().cloned()).collect();
        for path in module_path::named(&sources[index].masked.code(), module, &children) {
            let target = (0..=path.len())
                .rev()
                .find_map(|length| modules.get(&path[..length]));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::masked::Masked;

    fn source(path: &str, text: &str) -> Source {
        let path = format!("crates/shared/one/src/{path}");
        Source {
            path,
            text: text.to_owned(),
            masked: Masked::new(text),
        }
    }

    #[test]
    fn only_cycles_are_found() {
        for (count, files) in [
            (
                0,
                &[
                    ("a.rs", "use crate::b::B;"),
                    ("b.rs", "use crate::c;"),
                    ("c.rs", ""),
                ][..],
            ),
            (
                1,
                &[("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a;")],
            ),
            (1, &[("lib.rs", "use a::A;"), ("a.rs", "use crate::Noun;")]),
            (
                1,
                &[("a.rs", "mod b; use b::B;"), ("a/b.rs", "use super::A;")],
            ),
        ] {
            let sources = files.iter().map(|(path, text)| source(path, text));
            let sources: Vec<Source> = sources.collect();
            let found = cycles_among(&sources.iter().collect::<Vec<_>>());
            assert_eq!(found.len(), count, "{files:?}");
        }
    }
}
