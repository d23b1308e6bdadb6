//! Rules of imports: packages import only lower layers, and keep the restrictions on dependencies;
//! no two files of one crate import each other, not even through other files.
//!
//! Defines the plan of the architecture: the layer of each crate, and the crates that it may name.
//! docs/architecture.md gives the reasons.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::tree::{RustSource, Violation, WorkTree};

#[derive(Clone, Copy, Debug)]
pub(super) struct Crate {
    pub(super) name: &'static str,
    /// Layer of the crate; imports run only to lower layers.
    pub(super) layer: u8,
    /// No socket, file, clock, environment or async.
    pub(super) pure: bool,
    /// Part of the product, not of the tools that build and test it.
    pub(super) product: bool,
}

const fn plain(name: &'static str, layer: u8) -> Crate {
    Crate { name, layer, pure: false, product: true }
}

const fn pure(name: &'static str, layer: u8) -> Crate {
    Crate { pure: true, ..plain(name, layer) }
}

const fn tool(name: &'static str, layer: u8) -> Crate {
    Crate { product: false, ..plain(name, layer) }
}

/// Every package; a package missing here is a violation.
const CRATES: &[Crate] = &[
    pure("wire", 0),
    pure("options", 1),
    pure("telemetry", 1),
    plain("sys", 2),
    pure("session", 2),
    pure("backend", 2),
    pure("import", 2),
    pure("static-files", 2),
    plain("tls", 3),
    plain("acme", 4),
    pure("flow", 4),
    plain("proxy", 5),
    plain("config", 6),
    plain("daemon", 7),
    pure("measure", 1),
    pure("plan", 2),
    pure("report", 2),
    plain("load", 3),
    plain("probe", 4),
    plain("lab", 5),
    tool("testkit", 0),
    tool("suite", 8),
    tool("xtask", 8),
];

/// Dependencies, and the only crates that may have them outside of tests.
type Restriction = (&'static str, &'static str);

/// Restrictions, with names separated by blanks.
const RESTRICTIONS: &[Restriction] = &[
    // The TLS library: one crate of the terminator, the client of authorities, and the clients that
    // test and measure it from outside.
    ("rustls rustls-webpki tokio-rustls", "acme tls load testkit suite"),
    ("rustls-pki-types", "acme tls load testkit suite wire"),
    // Cryptography: the daemon hashes the scripts of its page, the laboratory's load measures how
    // fast the library is on a CPU, and a client of the tests makes records by hand.
    ("aws-lc-rs ring sha2", "tls daemon load testkit"),
    // The libraries of tokens run in one process of the daemon.
    ("cryptoki cryptoki-sys", "daemon"),
    // The laboratory: the terminator carries no measuring code.
    ("measure load plan report probe lab", "measure load plan report probe lab xtask"),
    // The terminator: the measuring crates do not import the measured ones.
    (
        "acme telemetry session backend static-files tls flow proxy daemon",
        "acme telemetry session backend static-files tls flow proxy config daemon xtask",
    ),
    // The product's configuration is read by the program alone.
    ("config", "daemon xtask"),
    ("import", "config daemon xtask"),
    // The text of configurations and plans.
    ("toml toml_edit", "options import daemon lab suite xtask"),
    // Async runtimes and their servers: the control side.
    ("tokio hyper hyper-util futures", "acme daemon"),
    // System calls.
    ("libc rustix nix mio socket2 landlock seccompiler", "sys daemon suite"),
    // Errors as text, only where a person reads them.
    ("anyhow eyre", "daemon lab xtask"),
];

pub(super) fn find(name: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|one| one.name == name)
}

/// Checks every manifest of the workspace.
pub(super) fn check(tree: &WorkTree) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for file in &tree.manifests {
        let manifest = Manifest::parse(&file.text).with_context(|| file.path.clone())?;
        // The fuzz targets are a workspace of their own and may import any crate.
        let Some(manifest) = manifest.filter(|_| !file.path.starts_with("fuzz/")) else { continue };
        let found = match find(&manifest.name) {
            Some(package) => rules(package, &manifest),
            None => vec!["is not in xtask/src/tidy/imports.rs".to_owned()],
        };
        violations.extend(found.into_iter().map(|rule| Violation::new(&file.path, rule)));
    }
    Ok(violations)
}

fn rules(package: &Crate, manifest: &Manifest) -> Vec<String> {
    let mut broken = Vec::new();
    if !manifest.lints {
        broken.push("takes no lints from the workspace".to_owned());
    }
    for name in &manifest.dependencies {
        broken.extend(direction(package, name, false));
        broken.extend(restriction(package, name));
    }
    for name in &manifest.for_tests {
        broken.extend(direction(package, name, true));
    }
    broken
}

fn direction(package: &Crate, target: &str, for_tests: bool) -> Option<String> {
    let target = find(target)?;
    let (from, to) = (package.name, target.name);
    let tester = matches!(from, "suite" | "testkit");
    if tester && target.product {
        return Some(format!("the tester may not import the tested: {from} -> {to}"));
    }
    if package.product && !target.product && !for_tests {
        return Some(format!("the product may not import a tool: {from} -> {to}"));
    }
    let upward = target.layer >= package.layer;
    let kit = to == "testkit";
    (upward && !kit).then(|| format!("an import that does not run down: {from} -> {to}"))
}

fn restriction(package: &Crate, target: &str) -> Option<String> {
    let names = |list: &str, name: &str| list.split(' ').any(|one| one == name);
    let restriction = RESTRICTIONS.iter().find(|(crates, _)| names(crates, target));
    let (_, only_for) = restriction?;
    (!names(only_for, package.name)).then(|| format!("{target} is only for {only_for}"))
}

/// Parts of a `Cargo.toml` that the rules check.
#[derive(Debug)]
struct Manifest {
    name: String,
    /// Dependencies of the product, including build scripts'.
    dependencies: Vec<String>,
    for_tests: Vec<String>,
    /// Whether the package uses the workspace's lints.
    lints: bool,
}

impl Manifest {
    /// Reads the text of a package's manifest; `None` for a manifest without a package.
    fn parse(text: &str) -> Result<Option<Self>> {
        let table: Table = text.parse()?;
        let Some(package) = table.get("package") else { return Ok(None) };
        let name = package.get("name").and_then(Value::as_str).context("a package has a name")?;
        let inherited = table.get("lints").and_then(|lints| lints.get("workspace"));
        Ok(Some(Self {
            name: name.to_owned(),
            dependencies: keys(&table, &["dependencies", "build-dependencies"]),
            for_tests: keys(&table, &["dev-dependencies"]),
            lints: inherited.and_then(Value::as_bool).unwrap_or(false),
        }))
    }
}

fn keys(table: &Table, sections: &[&str]) -> Vec<String> {
    let sections = sections.iter().filter_map(|name| table.get(*name)?.as_table());
    sections.flat_map(Table::keys).cloned().collect()
}

/// Checks the files of every crate of the workspace.
pub(super) fn check_files(tree: &WorkTree) -> Vec<Violation> {
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

/// Returns the shortest cycle through a file.
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

/// Returns the module of a file, given its path within `src`: `["a", "b"]` for `a/b.rs`.
fn module_of_file(within_src: &str) -> Vec<String> {
    let bare = within_src.strip_suffix(".rs").unwrap_or(within_src);
    let bare = bare.strip_suffix("/mod").unwrap_or(bare);
    if matches!(bare, "lib" | "main") {
        return Vec::new();
    }
    bare.split('/').map(str::to_owned).collect()
}

/// Returns every path that begins at the crate, at this module, or at one of its children, as
/// absolute segments. Groups in braces are expanded.
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

    fn broken(name: &str, dependencies: &[&str], for_tests: &[&str]) -> usize {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let manifest = Manifest {
            name: name.to_owned(),
            dependencies: owned(dependencies),
            for_tests: owned(for_tests),
            lints: true,
        };
        rules(find(name).unwrap(), &manifest).len()
    }

    #[test]
    fn each_rule_is_found_broken() {
        assert_eq!(broken("flow", &["tls", "wire"], &["testkit", "rustls"]), 0);
        assert_eq!(broken("wire", &["flow"], &[]), 2, "upwards, and restricted");
        assert_eq!(broken("load", &["session"], &[]), 1, "the tested");
        assert_eq!(broken("flow", &["measure"], &[]), 1, "the laboratory");
        assert_eq!(broken("report", &["rustls"], &[]), 1, "the TLS library");
        assert_eq!(broken("telemetry", &["options"], &[]), 1, "sideways");
        assert_eq!(broken("flow", &["rustls"], &[]), 1, "the TLS library");
        assert_eq!(broken("proxy", &["config"], &[]), 2, "text, and upwards");
        assert_eq!(broken("backend", &["tokio"], &[]), 1, "async");
        assert_eq!(broken("suite", &["wire"], &[]), 1, "the tested");
        assert_eq!(broken("tls", &["testkit"], &[]), 1, "a tool in the product");
    }

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
