//! Rules of sources: `unsafe` in one crate; no effects in pure crates; no test sleeps, is ignored,
//! or hides that it needs another server; how files open, how long lines and files are, and no
//! unfinished work. Clippy checks the length of functions.

use super::imports;
use super::tree::{RustSource, Violation, WorkTree};

const UNSAFE: &str = "sys";

pub(super) fn check(tree: &WorkTree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in &tree.sources {
        let package = source.package();
        let name = package.rsplit('/').next().unwrap_or(package);
        if name != UNSAFE {
            violations.extend(forbids_unsafe(source));
        }
        if imports::find(name).is_some_and(|one| one.pure) && source.is_in_src() {
            violations.extend(no_effects(source));
        }
        violations.extend(honest_tests(source));
    }
    violations
}

/// Checks that a crate forbids `unsafe`, so that the compiler rejects it.
fn forbids_unsafe(source: &RustSource) -> Option<Violation> {
    let is_root = ["/src/lib.rs", "/src/main.rs"].iter().any(|end| source.path.ends_with(end));
    let forbids = source.text.contains("#![forbid(unsafe_code)]");
    let is_broken = is_root && !source.path.starts_with("fuzz/") && !forbids;
    is_broken.then(|| Violation::new(&source.path, "does not forbid unsafe code"))
}

/// Calls that read a clock, a file, a socket, the environment, or wait, separated by bars.
const EFFECTS: &str = "\
    Instant::now|SystemTime::now|.elapsed()|std::env|std::fs|std::process|std::thread|std::os::|\
    TcpListener|TcpStream|UdpSocket|UnixListener|UnixStream|async fn|async move|async {|.await|\
    println!|eprintln!";

fn no_effects(source: &RustSource) -> impl Iterator<Item = Violation> {
    let lines = (1..).zip(source.code_lines());
    lines.flat_map(move |(number, line)| {
        let found = EFFECTS.split('|').filter(move |effect| line.contains(effect));
        found.map(move |effect| {
            Violation::at(&source.path, number, format!("{effect} in a pure crate"))
        })
    })
}

/// Only file of the tests that may sleep, because it waits for other programs.
const PATIENCE: &str = "tests/src/patience.rs";

/// Other servers and a browser, which `./run-tests fast` does not need.
const FOREIGN: [&str; 7] = ["chromium", "haproxy", "hitch", "nginx", "redis", "strace", "stunnel"];

fn honest_tests(source: &RustSource) -> Vec<Violation> {
    let mut violations = Vec::new();
    let lines: Vec<(usize, &str)> = if source.is_test() || source.package() == "tests" {
        (1..).zip(source.masked.lines()).collect()
    } else {
        source.test_lines().collect()
    };
    for (number, line) in lines {
        let mut report = |rule: &str| violations.push(Violation::at(&source.path, number, rule));
        if line.contains("sleep(") && source.path != PATIENCE {
            report("a test that sleeps");
        }
        if line.contains("#[ignore") {
            report("a test that is ignored");
        }
        let names_foreign = FOREIGN.iter().any(|one| line.contains(&format!("suite::{one}")));
        // Tests of the kernel run in virtual machines only.
        let may = ["/foreign/", "tests/kernel/"].map(|part| source.path.contains(part));
        if names_foreign && !may.contains(&true) {
            report("a test outside of a module `foreign` that needs another server or a browser");
        }
        let text = source.text.lines().nth(number - 1).unwrap_or_default();
        if binds_fixed_port(text) {
            report("a test on a fixed port");
        }
    }
    violations
}

/// Reports whether a line binds or listens at a literal address whose port is not 0.
fn binds_fixed_port(line: &str) -> bool {
    ["bind(", "bind_addr(", "listen("].iter().any(|call| {
        let argument = line.split(call).nth(1).unwrap_or_default().trim_start_matches('&');
        let literal = argument.strip_prefix('"').and_then(|rest| rest.split('"').next());
        let port = literal.and_then(|address| address.rsplit_once(':')).map(|(_, port)| port);
        port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0))
    })
}

/// Maximum lines of a file before its tests.
const FILE_LINES_MAX: usize = 600;

/// Maximum columns of a line. Literals' contents do not count, because they need not be cut.
const COLUMNS_MAX: usize = 100;

/// Words of unfinished work, written in two parts because this file would be a violation otherwise.
const PROMISES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

pub(super) fn check_shape(tree: &WorkTree) -> Vec<Violation> {
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

/// Returns the columns of a line, without the contents of literals.
fn width(line: &str, masked: &str) -> usize {
    if !line.contains('"') {
        return line.chars().count();
    }
    masked.trim_end().split('"').step_by(2).map(|outside| outside.chars().count() + 2).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, text: &str) -> usize {
        let (path, text) = (path.to_owned(), text.to_owned());
        let tree =
            WorkTree { sources: vec![RustSource::new(path, text).unwrap()], ..WorkTree::default() };
        check(&tree).len()
    }

    #[test]
    fn each_rule_is_found_broken() {
        let sleeper = "#[cfg(test)]\nmod tests {\n sleep(x);\n #[ignore]\n}";
        for (path, text, count) in [
            ("shared/wire/src/a.rs", "fn f() {} // Instant::now, unsafe", 0),
            ("shared/wire/src/a.rs", "let t = Instant::now();", 1),
            ("terminator/proxy/src/a.rs", "let t = Instant::now();", 0),
            ("terminator/proxy/src/lib.rs", "//! Forbids nothing.", 1),
            ("shared/sys/src/a.rs", sleeper, 2),
            ("a/b/tests/foreign/c.rs", "use suite::nginx::Nginx;", 0),
            ("a/b/tests/c.rs", "use suite::nginx::Nginx;", 1),
        ] {
            assert_eq!(broken(&format!("crates/{path}"), text), count, "{path}: {text}");
        }
    }

    #[test]
    fn a_fixed_port_is_found() {
        assert!(binds_fixed_port("TcpListener::bind(\"127.0.0.1:8080\")"));
        assert!(!binds_fixed_port("TcpListener::bind(\"127.0.0.1:0\")"));
        assert!(!binds_fixed_port("TcpListener::bind(address)"));
    }

    fn misshapen(text: &str) -> usize {
        let path = "crates/shared/a/src/a.rs".to_owned();
        rules(&RustSource::new(path, text.to_owned()).unwrap()).len()
    }

    #[test]
    fn each_rule_of_shape_is_found_broken() {
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
            assert_eq!(misshapen(&text), count, "{what}");
        }
    }
}
