//! `lariat-lab run --until`: ends at its time, is taken up, and reports what it found; also about a
//! known difference.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

use suite::desk::{Desk, assert_said};
use suite::prelude::*;
use suite::process::children;

/// Far narrower than any interval of loads as short as these.
const NARROW: &str = "--until ±0.1% --time-max";

fn rounds(desk: &Desk) -> u64 {
    let read = desk.of_kind("measured");
    1 + read.iter().map(|event| event["repeat"].as_u64().unwrap()).max().unwrap()
}

fn report(desk: &Desk) -> String {
    // Lines are wrapped.
    let told = run(lab::command().arg("report").arg(desk.path("r.jsonl"))).success();
    told.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_run_ends_at_its_time_and_says_after_how_many_rounds() {
    let desk = Desk::new();
    let finished = desk.small(&format!("--only size=none {NARROW} 1s"));
    // Fewer rounds than the rule needs.
    assert_eq!(finished.code(), 6, "{finished:?}");
    let count = rounds(&desk);
    let said = format!("small: time is up (1 s) after {count} round");
    assert_said(&finished, &[&said, "within ±0.1 %", "hint: a longer --time-max"]);
    assert_eq!(desk.events().last().unwrap()["is_complete"], true);
    let told = report(&desk);
    assert_has(&told, "repeated until intervals of main metrics are within ±0.1 %; complete");
    assert_has(&told, &format!("{} measurements", 2 * count));
}

#[test]
fn a_run_with_a_rule_is_taken_up_with_what_it_has() {
    let desk = Desk::new();
    let words = format!("./small.toml --speeds none --record r.jsonl --only size=none {NARROW} 1h");
    let mut running = Running::start(&mut desk.command(&words));
    until_true("a round", || {
        running.assert_running();
        desk.of_kind("measured").len() >= 2
    });
    running.signal(Signal::INT);
    assert_eq!(running.wait().code(), Some(6), "{}", running.stderr());
    let before = desk.of_kind("measured");
    // As if its disk had been full while it wrote.
    let whole = desk.text();
    let lines = whole.lines().count();
    fs::write(desk.path("r.jsonl"), format!("{whole}{{\"event\":\"re")).unwrap();
    let told = run(lab::command().arg("report").arg(desk.path("r.jsonl")));
    assert_said(&told, &[&format!("r.jsonl` ends in the middle of line {}", lines + 1)]);
    assert_has(&told.stdout, "can be resumed");
    // The rule is the record's; a run of one more measurement is enough here.
    let mut again = Running::start(&mut desk.command("--resume r.jsonl"));
    until_true("a measurement more", || {
        again.assert_running();
        desk.of_kind("measured").len() > before.len()
    });
    again.signal(Signal::INT);
    assert_eq!(again.wait().code(), Some(6), "{}", again.stderr());
    let after = desk.of_kind("measured");
    assert_eq!(after[..before.len()], before[..], "what it had is kept, and not measured again");
}

/// Two equal servers, one of which burns as much again of the CPU time that it uses, or nothing.
const PLANTED: &str = r#"
question = "What is said of a known difference?"
method = "One server burns a share more of what it uses."
operation = "requests"
metrics = ["server-cpu"]
targets = ["steady", "burning"]
[quick]
repeats = 4
warm-up = "50ms"
duration = "150ms"
[full]
repeats = 4
warm-up = "50ms"
duration = "150ms"
[load]
connections = 4
size = "1k"
timeout = "30s"
[[factor]]
name = "planted"
title = "planted"
[[factor.value]]
name = "100"
title = "everything twice"
server = { burn-percent = 100 }
[[factor.value]]
name = "0"
title = "nothing"
server = { burn-percent = 0 }
"#;

/// Returns the factor of CPU time that the report states for the burning server after this many
/// rounds (1 = no difference).
fn found(planted: &str, rounds: u32) -> f64 {
    let desk = Desk::with(PLANTED);
    let words = format!("--only planted={planted} --repeats {rounds}");
    let finished = desk.small(&words);
    assert_eq!(finished.code(), 0, "{finished:?}");
    let told = report(&desk);
    if told.starts_with("No difference from steady is established.") {
        return 1.0;
    }
    let found = told.strip_prefix("burning needs ").expect("the finding comes first");
    found.split(' ').next().unwrap().parse().unwrap()
}

/// Reports whether one of three reports has this figure, because other tests disturb short rounds.
fn is_found(planted: &str, rounds: u32, figure: Range<f64>) -> bool {
    (0..3).any(|_| figure.contains(&found(planted, rounds)))
}

#[test]
fn twice_the_work_is_worse_and_none_more_is_not() {
    // Enough rounds that a disturbed one is cut off on each side. Beside other work less of the
    // difference is seen.
    assert!(is_found("100", 6, 1.1..4.0));
    // A null differs by chance once in twenty times, but not by as much as was planted.
    assert!(is_found("0", 4, 0.7..1.4));
}

#[test]
fn a_round_in_which_the_run_was_stopped_is_marked() {
    let desk = Desk::new();
    let words = "./small.toml --speeds none --record r.jsonl --targets plain --only size=none \
                 --repeats 3 --duration 3s";
    let mut running = Running::start(&mut desk.command(words));
    let own: BTreeSet<u32> = [running.id()].into();
    let mut first = BTreeSet::new();
    until_true("the first round", || {
        running.assert_running();
        first.extend(children(&own));
        desk.of_kind("measured").len() == 1
    });
    // A round begins before its server is started.
    until_true("a server of another round", || {
        running.assert_running();
        !children(&own).is_subset(&first)
    });
    let stopped = Instant::now();
    running.signal(Signal::STOP);
    until_true("a while", || stopped.elapsed() > Duration::from_secs(1));
    running.signal(Signal::CONT);
    assert_eq!(running.wait().code(), Some(0), "{}", running.stderr());
    let read = desk.of_kind("measured");
    let warnings = read.iter().flat_map(|event| event["warnings"].as_array().unwrap());
    let disturbed = warnings.filter(|it| it["seen"].as_str().unwrap().contains("was stopped for"));
    assert_eq!(disturbed.count(), 1, "{read:?}");
    assert_has(report(&desk), "1 of 3 measurements: the load was stopped for ");
}
