//! Tests that the sheets contain the record's numbers, one field each.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod made;

use measure::choice::Kind;
use measure::record::LoadRecord;

fn sheet(record: &LoadRecord, name: &str) -> String {
    let sheets = made::report_of(record).sheets().into_iter();
    let mut found = sheets.filter(|(file, _)| *file == format!("run-{name}"));
    found.next().unwrap().1
}

/// Returns fields by their heads, a list a row.
fn rows(csv: &str) -> Vec<Vec<(&str, &str)>> {
    let mut lines = csv.lines();
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields.len(), heads.len(), "{line}");
            heads.iter().copied().zip(fields).collect()
        })
        .collect()
}

fn field<'a>(row: &[(&str, &'a str)], head: &str) -> &'a str {
    row.iter().find(|(name, _)| *name == head).unwrap().1
}

#[test]
fn a_row_a_second() {
    let record = made::failing();
    let csv = sheet(&record, "seconds");
    let rows = rows(&csv);
    assert_eq!(rows.len(), 40);
    let sum: u64 = rows.iter().map(|row| field(row, "failed").parse::<u64>().unwrap()).sum();
    assert_eq!(sum, record.totals.failed);
    // No transaction succeeded then, so there is no time.
    assert_eq!(field(&rows[17], "succeeded"), "0");
    assert_eq!(field(&rows[17], "p99_ns"), "");
    assert_ne!(field(&rows[3], "p99_ns"), "");
}

#[test]
fn a_row_a_kind_and_part() {
    let record = made::keep_alive();
    let csv = sheet(&record, "latencies");
    let rows = rows(&csv);
    let names: Vec<String> =
        rows.iter().map(|row| format!("{} {}", field(row, "kind"), field(row, "part"))).collect();
    let wanted =
        ["full handshake", "full first-byte", "full total", "kept first-byte", "kept total"];
    assert_eq!(names, wanted);
    let total = &record.latencies[&Kind::Kept].total;
    assert_eq!(field(&rows[4], "p99.9_ns"), total.quantile_ns(0.999).to_string());
    assert_eq!(field(&rows[4], "count"), total.count().to_string());
}

#[test]
fn a_row_a_step() {
    let record = made::ramp();
    let csv = sheet(&record, "steps");
    let rows = rows(&csv);
    assert_eq!(rows.len(), record.steps.len());
    assert_eq!(field(&rows[2], "from_s"), "20");
    let counts = record.steps[9].counts;
    assert_eq!(field(&rows[9], "failed"), counts.failed.to_string());
}

#[test]
fn sheets_without_rows_are_left_out() {
    assert!(made::report_of(&made::empty()).sheets().is_empty());
    let sheets = made::report_of(&made::keep_alive()).sheets().into_iter();
    let names: Vec<String> = sheets.map(|(name, _)| name).collect();
    assert_eq!(names, ["run-seconds", "run-latencies"]);
}
