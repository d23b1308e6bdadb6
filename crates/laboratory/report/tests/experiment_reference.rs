//! Tests that `docs/reference/experiment.md` describes every field and metric, and that its ids are
//! those of a page.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod experiments;

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/reference/experiment.md");

/// Keys of configurations are names of factors, and reasons of failures have a separate page.
const NO_FIELDS: [&str; 5] = ["suite", "size", "connections", "resumption", "ktls"];

/// Returns the names of all fields, and all values of `event`, `kind` and `metrics`.
fn names(line: &str) -> BTreeSet<&str> {
    let ends = line.match_indices("\":").map(|(end, _)| &line[..end]);
    ends.map(|before| &before[before.rfind('"').unwrap() + 1..]).collect()
}

fn is_described(word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    PAGE.split(|c| !is_part(c)).any(|other| other == word)
}

#[test]
fn every_field_is_described() {
    let lines = experiments::STORED.lines();
    let fields: BTreeSet<&str> = lines.flat_map(names).collect();
    assert!(fields.len() > 100, "{}", fields.len());
    for field in fields.into_iter().filter(|field| !NO_FIELDS.contains(field)) {
        assert!(is_described(field), "{field}");
    }
}

#[test]
fn every_event_kind_and_metric_is_described() {
    let events = "began resumed measured failed ended unsupported void";
    let metrics = "server-cpu server-switches rate bandwidth server-cpu-per-gib mean-response p99-response \
                   error-rate goodput connection-memory under-100-ms-few-lost under-100-ms \
                   under-500-ms few-errors peak";
    for word in events.split(' ').chain(metrics.split(' ')) {
        assert!(is_described(word), "{word}");
    }
}

#[test]
fn every_number_of_a_page_is_described() {
    let page = report::experiment::document(&[("run", &experiments::whole())], None).html();
    let (_, described) = PAGE.split_once("## Numbers of a page").unwrap();
    let ids = [
        ("e1-SCENARIO-TARGET-METRIC", "e1-implementations-lariat-server-cpu"),
        ("e1-SCENARIO-VALUE-TARGET-METRIC", "e1-ciphers-chacha20-lariat-rate"),
        ("-ratio", "e1-ciphers-chacha20-haproxy-tcp-rate-ratio"),
        ("ranking-better", "ranking-better"),
        ("ranking-not-known", "ranking-not-known"),
        ("ranking-worse", "ranking-worse"),
    ];
    for (name, id) in ids {
        assert!(described.contains(&format!("`{name}`")), "{name}");
        let is_there = page.split("id=\"").any(|rest| {
            rest.strip_prefix(id).is_some_and(|rest| rest.starts_with("\" data-value="))
        });
        assert!(is_there, "{id}");
    }
}
