//! `docs/reference/experiment.md` tells every field and figure, and its ids are those of a page.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod experiments;

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/reference/experiment.md");

/// Keys of cells are names of factors, and reasons of failures have a page of their own.
const NO_FIELDS: [&str; 5] = ["suite", "size", "connections", "resumption", "ktls"];

/// The names of all fields, and all values of `event`, `way` and `figures`.
fn names(line: &str) -> BTreeSet<&str> {
    let ends = line.match_indices("\":").map(|(end, _)| &line[..end]);
    ends.map(|before| &before[before.rfind('"').unwrap() + 1..])
        .collect()
}

fn is_told(word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    PAGE.split(|c| !is_part(c)).any(|told| told == word)
}

#[test]
fn every_field_is_told() {
    let lines: Vec<String> = experiments::events()
        .iter()
        .map(|it| it.to_line())
        .collect();
    let fields: BTreeSet<&str> = lines.iter().flat_map(|line| names(line)).collect();
    assert!(fields.len() > 100, "{}", fields.len());
    for field in fields
        .into_iter()
        .filter(|field| !NO_FIELDS.contains(field))
    {
        assert!(is_told(field), "{field}");
    }
}

#[test]
fn every_event_way_and_figure_is_told() {
    let words = [
        "began", "resumed", "read", "missed", "ended", "cannot", "failed", "void",
    ];
    let figures = [
        "server-cpu",
        "rate",
        "bandwidth",
        "server-cpu-per-gib",
        "mean-response",
        "p99-response",
        "loss",
        "goodput",
        "connection-memory",
        "under-100-ms",
        "under-500-ms",
        "few-errors",
        "peak",
    ];
    for word in words.into_iter().chain(figures) {
        assert!(is_told(word), "{word}");
    }
}

#[test]
fn every_number_of_a_page_is_told() {
    let page = report::experiment::page::html(&[experiments::whole()]);
    let (_, told) = PAGE.split_once("## Numbers of a page").unwrap();
    let ids = [
        (
            "e1-SCENARIO-TARGET-FIGURE",
            "e1-implementations-lariat-server-cpu",
        ),
        (
            "e1-SCENARIO-LEVEL-TARGET-FIGURE",
            "e1-ciphers-chacha20-lariat-rate",
        ),
        ("-ratio", "e1-ciphers-chacha20-haproxy-tcp-rate-ratio"),
        ("standing-ahead", "standing-ahead"),
        ("standing-level", "standing-level"),
        ("standing-behind", "standing-behind"),
    ];
    for (name, id) in ids {
        assert!(told.contains(&format!("`{name}`")), "{name}");
        let is_there = page.split("id=\"").any(|rest| {
            rest.strip_prefix(id)
                .is_some_and(|rest| rest.starts_with("\" data-value="))
        });
        assert!(is_there, "{id}");
    }
}
