//! The one table of options: every key with its flag, kind, default, help and example.
//!
//! Everything that knows keys is made from it: the check for unknown ones, the reader's defaults
//! and ranges, the flags of `lariat serve`, its help, and the reference.

mod back_tls;
mod clients;
mod cluster;
mod foreign;
mod front;
mod limits;
mod process;
mod service;
mod sessions;
mod synonyms;

use options::{Key, Table};

use back_tls::BACK_TLS;
use clients::CLIENTS;
use cluster::CLUSTER;
use front::FRONT;
use limits::LIMITS;
use process::PROCESS;
use service::{BACK, TLS};
use sessions::SESSIONS;

const PARTS: &[&[Key]] = &[
    FRONT, TLS, CLIENTS, SESSIONS, BACK, BACK_TLS, LIMITS, PROCESS, CLUSTER,
];

/// The keys of a configuration, in the order of the reference.
pub static TABLE: Table = Table {
    keys: &joined::<{ count() }>(),
    foreign: foreign::FOREIGN,
    later: &["service.front.peek"],
    help: "lariat help serve",
};

const fn count() -> usize {
    let (mut part, mut count) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
}

const fn joined<const COUNT: usize>() -> [Key; COUNT] {
    let mut all = [PARTS[0][0]; COUNT];
    let (mut part, mut row, mut place) = (0, 0, 0);
    while place < COUNT {
        if row == PARTS[part].len() {
            (part, row) = (part + 1, 0);
            continue;
        }
        let key = PARTS[part][row];
        all[place] = key.group(heading(key.path.as_bytes()));
        (row, place) = (row + 1, place + 1);
    }
    all
}

const fn heading(path: &[u8]) -> &'static str {
    if begins(path, b"service.front.tls.") {
        "TLS"
    } else if begins(path, b"service.front.") {
        "Front"
    } else if begins(path, b"service.back.tls.") {
        "TLS to servers"
    } else if begins(path, b"service.back.") {
        "Back"
    } else if begins(path, b"service.") {
        "Service"
    } else if begins(path, b"cluster") {
        "Cluster"
    } else {
        "Process"
    }
}

const fn begins(mut text: &[u8], mut head: &[u8]) -> bool {
    while let ([one, rest @ ..], [other, others @ ..]) = (text, head) {
        if *one != *other {
            return false;
        }
        (text, head) = (rest, others);
    }
    head.is_empty()
}

#[cfg(test)]
mod tests {
    use options::Kind;

    use super::service::STARTTLS;

    use super::*;

    #[test]
    fn the_table_is_sound() {
        assert_eq!(TABLE.faults(), Vec::<String>::new());
    }

    #[test]
    fn protocols_of_starttls_are_those_of_wire() {
        let names: Vec<_> = wire::starttls::Dialect::ALL
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names, STARTTLS);
    }

    #[test]
    fn suites_and_groups_are_those_of_tls() {
        use tls::options::{Group, Suite};
        let words = |path: &str| match TABLE.find(path).map(|key| key.kind) {
            Some(Kind::Choice(words)) => words,
            other => panic!("{path} is a choice: {other:?}"),
        };
        let suites: Vec<_> = Suite::ALL.iter().map(|suite| suite.name()).collect();
        let groups: Vec<_> = Group::ALL.iter().map(|group| group.name()).collect();
        for side in ["front", "back"] {
            assert_eq!(words(&format!("service.{side}.tls.suites"))[1..], suites);
            assert_eq!(words(&format!("service.{side}.tls.groups")), groups);
        }
    }
}
