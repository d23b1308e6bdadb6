//! Laws: `unsafe` stands in one room; pure rooms open no door; tests neither sleep nor ignore.

use super::breach::Breach;
use super::rooms::{self, UNSAFE};
use super::tree::{Source, Tree};

/// Checks every file.
pub(super) fn check(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for source in &tree.sources {
        let package = source.package();
        let name = package.rsplit('/').next().unwrap_or(package);
        if name != UNSAFE {
            breaches.extend(no_unsafe(source));
        }
        if rooms::find(name).is_some_and(|room| room.pure) && !source.is_test() {
            breaches.extend(no_doors(source));
        }
        breaches.extend(honest_tests(source));
    }
    breaches
}

fn no_unsafe(source: &Source) -> Vec<Breach> {
    let word = |line: &str| words(line).any(|word| word == "unsafe");
    let mut breaches = find(
        source,
        source.masked.lines(),
        word,
        "unsafe stands outside of sys",
    );
    let root = ["/src/lib.rs", "/src/main.rs"]
        .iter()
        .any(|end| source.path.ends_with(end));
    if root && !source.path.starts_with("fuzz/") && !source.text.contains("#![forbid(unsafe_code)]")
    {
        breaches.push(Breach::new(&source.path, "does not forbid unsafe code"));
    }
    breaches
}

/// What reads a clock, a file, a socket, the environment, or waits.
const DOORS: &[&str] = &[
    "Instant::now",
    "SystemTime::now",
    ".elapsed()",
    "std::env",
    "std::fs",
    "std::process",
    "std::thread",
    "std::os::",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "UnixListener",
    "UnixStream",
    "async fn",
    "async move",
    "async {",
    ".await",
    "println!",
    "eprintln!",
];

fn no_doors(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for door in DOORS {
        let law = format!("{door} in a pure room");
        breaches.extend(find(
            source,
            source.masked.code_lines(),
            |line| line.contains(door),
            &law,
        ));
    }
    breaches
}

/// The only place of the tests that may sleep: it waits for other programs.
const PATIENCE: &str = "tests/src/patience.rs";

fn honest_tests(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let lines: Vec<(usize, &str)> = if source.is_test() || source.package() == "tests" {
        (1..).zip(source.masked.lines()).collect()
    } else {
        source.masked.test_lines().collect()
    };
    for (number, line) in lines {
        let mut tell = |law: &str| breaches.push(Breach::at(&source.path, number, law));
        if line.contains("sleep(") && source.path != PATIENCE {
            tell("a test that sleeps");
        }
        if line.contains("#[ignore") {
            tell("a test that is ignored");
        }
        let text = source.text.lines().nth(number - 1).unwrap_or_default();
        if binds_fixed_port(text) {
            tell("a test on a fixed port");
        }
    }
    breaches
}

/// Whether a line binds or listens at a literal address whose port is not 0.
fn binds_fixed_port(line: &str) -> bool {
    ["bind(", "bind_addr(", "listen("].iter().any(|call| {
        let argument = line
            .split(call)
            .nth(1)
            .unwrap_or_default()
            .trim_start_matches('&');
        let literal = argument
            .strip_prefix('"')
            .and_then(|rest| rest.split('"').next());
        let port = literal
            .and_then(|address| address.rsplit_once(':'))
            .map(|(_, port)| port);
        port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0))
    })
}

fn find<'a>(
    source: &Source,
    lines: impl Iterator<Item = &'a str>,
    broken: impl Fn(&str) -> bool,
    law: &str,
) -> Vec<Breach> {
    let lines = (1..).zip(lines).filter(|(_, line)| broken(line));
    lines
        .map(|(number, _)| Breach::at(&source.path, number, law))
        .collect()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::masked::Masked;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            masked: Masked::new(text),
        }
    }

    fn broken(path: &str, text: &str) -> usize {
        let tree = Tree {
            manifests: Vec::new(),
            pages: Vec::new(),
            sources: vec![source(path, text)],
            paths: Vec::new(),
        };
        check(&tree).len()
    }

    #[test]
    fn each_law_is_seen_broken() {
        assert_eq!(
            broken(
                "crates/shared/wire/src/a.rs",
                "fn f() {} // Instant::now, unsafe"
            ),
            0
        );
        assert_eq!(
            broken("crates/shared/wire/src/a.rs", "let t = Instant::now();"),
            1
        );
        assert_eq!(
            broken(
                "crates/terminator/proxy/src/a.rs",
                "let t = Instant::now();"
            ),
            0
        );
        assert_eq!(
            broken("crates/terminator/proxy/src/a.rs", "unsafe { f() }"),
            1
        );
        assert_eq!(broken("crates/shared/sys/src/a.rs", "unsafe { f() }"), 0);
        assert_eq!(
            broken("crates/terminator/proxy/src/lib.rs", "//! No law."),
            1
        );
        let sleeper = "#[cfg(test)]\nmod tests {\n sleep(x);\n #[ignore]\n}";
        assert_eq!(broken("crates/shared/sys/src/a.rs", sleeper), 2);
    }

    #[test]
    fn a_fixed_port_is_seen() {
        assert!(binds_fixed_port("TcpListener::bind(\"127.0.0.1:8080\")"));
        assert!(!binds_fixed_port("TcpListener::bind(\"127.0.0.1:0\")"));
        assert!(!binds_fixed_port("TcpListener::bind(address)"));
    }
}
