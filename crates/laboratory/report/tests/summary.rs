//! Compares the text of known records with files: `BLESS=1` rewrites them.

#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod made;

use made::report_of as one;
use measure::choice::Kind;
use measure::record::LoadRecord;

fn compare(name: &str, text: &str) {
    let path = format!("{}/tests/text/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, wanted, "{path} differs");
}

/// Names that may be longer than a line are put into separate lines.
fn check(name: &str, record: &LoadRecord) {
    let text = one(record).text(80, false);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert_eq!(line, line.trim_end());
    }
    compare(name, &text);
}

#[test]
fn known_records_have_known_texts() {
    for (name, record) in [
        ("ramp", made::ramp()),
        ("keep-alive", made::keep_alive()),
        ("failing", made::failing()),
        ("ticket", made::resumed(Kind::Ticket, 1)),
        ("empty", made::empty()),
        ("one-second", made::one_second()),
    ] {
        check(name, &record);
    }
}

#[test]
fn terminals_get_no_control_characters() {
    let text = one(&made::hostile()).text(80, false);
    let is_order = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(is_order) && !text.contains('\u{202e}'));
    // The command contains it as one word.
    assert!(text.contains(r"'\''x'\''"));
}

#[test]
fn colours_change_nothing_but_colours() {
    let record = made::ramp();
    let coloured = one(&record).text(80, true);
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain += before;
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(plain + rest, one(&record).text(80, false));
    assert!(coloured.contains('\u{1b}'));
}

#[test]
fn several_runs_side_by_side() {
    let kinds = [Kind::SessionId, Kind::Ticket, Kind::Psk, Kind::Psk];
    let mut records = [1, 2, 3, 4].map(|seed| made::resumed(kinds[seed - 1], seed as u64)).to_vec();
    records.push(made::ramp());
    let text = made::report(&records).text(80, false);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    compare("compared", &text);
}

#[test]
fn impossible_numbers_are_shown_somehow() {
    let text = one(&made::broken()).text(80, false);
    assert!(text.contains("Capacity"));
}
