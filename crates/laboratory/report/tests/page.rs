//! Tests that the page of any record is whole, needs no other file, and shows the record's numbers.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod made;
mod tags;

use measure::choice::Kind;
use measure::record::LoadRecord;
use tags::{assert_numbers, assert_whole, tags};

fn records() -> Vec<(&'static str, LoadRecord)> {
    vec![
        ("empty", made::empty()),
        ("one second", made::one_second()),
        ("ramp", made::ramp()),
        ("ramp without steps", made::plain_ramp()),
        ("kept", made::keep_alive()),
        ("failing", made::failing()),
        ("ticket", made::resumed(Kind::Ticket, 2)),
        ("hostile", made::hostile()),
        ("broken", made::broken()),
    ]
}

fn html(records: &[LoadRecord]) -> String {
    made::report(records).html()
}

fn value(page: &str, id: &str) -> f64 {
    let (_, after) = page.split_once(&format!("id=\"{id}\" data-value=\"")).unwrap();
    after.split_once('"').unwrap().0.parse().unwrap()
}

#[test]
fn every_page_is_whole_and_needs_nothing_else() {
    for (name, record) in records() {
        let page = html(&[record]);
        assert_whole(name, &page);
    }
}

#[test]
fn no_number_of_a_figure_is_none() {
    for (name, record) in records() {
        assert_numbers(name, &html(&[record]));
    }
}

#[test]
fn the_page_has_the_record_s_numbers() {
    let record = made::ramp();
    let page = html(std::slice::from_ref(&record));
    let totals = record.totals;
    assert_eq!(value(&page, "r1-attempted"), totals.attempted as f64);
    assert_eq!(value(&page, "r1-succeeded"), totals.succeeded as f64);
    assert_eq!(value(&page, "r1-failed"), totals.failed as f64);
    assert_eq!(value(&page, "r1-rate"), totals.succeeded as f64 / 120.0);
    assert_eq!(value(&page, "r1-mean-response"), record.total_latency().mean_ns().trunc());
    let resumed = record.handshakes_of(Kind::SessionId);
    let full = record.handshakes_of(Kind::Full);
    assert_eq!(value(&page, "r1-handshakes-session-id"), resumed as f64);
    assert_eq!(value(&page, "r1-resumed-share"), resumed as f64 / (resumed + full) as f64);
    let histogram = &record.latencies[&Kind::Full].handshake;
    assert_eq!(value(&page, "r1-full-handshake-p99-ns"), histogram.quantile_ns(0.99) as f64);
    assert_eq!(value(&page, "r1-failure-timeout"), record.failures["timeout"] as f64);
    let read = record.capacity.unwrap().read_offs;
    assert_eq!(value(&page, "r1-peak"), read.peak_per_s.unwrap());
    assert_eq!(value(&page, "r1-few-errors"), read.few_errors_per_s.unwrap());
}

#[test]
fn warnings_stand_before_the_numbers() {
    let page = html(&[made::ramp()]);
    let place = |text: &str| page.find(text).unwrap();
    assert!(place("threads were busy for 93\u{a0}%") < place("r1-rate"));
    assert!(place("give it more threads") < place("r1-rate"));
    // Warnings of several records stand before the comparison.
    let page = html(&[made::keep_alive(), made::ramp()]);
    let place = |text: &str| page.find(text).unwrap();
    assert!(place("threads were busy for 93\u{a0}%") < place("Runs side by side"));
}

#[test]
fn what_never_succeeded_has_no_spread() {
    let mut record = made::empty();
    record.totals.attempted = 9;
    record.totals.failed = 9;
    let page = html(&[record]);
    assert!(page.contains("nothing succeeded") && !page.contains("no whole second"));
}

#[test]
fn flags_of_commands_are_not_broken() {
    let mut record = made::one_second();
    record.command = ["lab", "--rate", "5", "-q"].map(str::to_owned).into();
    let page = html(&[record]);
    assert!(page.contains("<code><span>lab <b>--rate </b>5 -q</span></code>"));
}

#[test]
fn what_a_record_says_is_text() {
    let page = html(&[made::hostile(), made::hostile()]);
    assert!(!page.contains("<script") && !page.contains("alert('x')"));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"));
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'));
    assert!(!page.contains('\u{202e}'));
    for (name, svg) in made::report_of(&made::hostile()).figures() {
        assert!(!svg.contains("<script"), "{name}");
    }
}

#[test]
fn three_hours_make_a_small_page_that_keeps_the_spike() {
    let record = made::long(10_000);
    let page = html(&[record]);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    // The one second in which 777 failed is in the spread, in the table and in the drawing.
    assert_eq!(value(&page, "r1-failed-rate-max"), 777.0);
    assert!(page.contains("failed 777"));
}

#[test]
fn several_records_are_compared_first() {
    let kinds = [Kind::SessionId, Kind::Ticket, Kind::Psk, Kind::Psk];
    let records = [1, 2, 3, 4].map(|seed| made::resumed(kinds[seed - 1], seed as u64));
    let page = html(&records);
    tags(&page);
    let place = |text: &str| page.find(text).unwrap();
    assert!(place("Runs side by side") < place("id=\"r1\""));
    assert!(place("id=\"r1\"") < place("id=\"r4\""));
    for name in ["1. handshake session-id", "2. handshake ticket", "3. handshake psk"] {
        assert!(page.contains(&format!("<h2>{name}</h2>")), "{name}");
    }
    // Runs 3 and 4 do not differ.
    assert!(page.contains("Runs that differ in nothing"));
    let rates = records.map(|record| record.totals.succeeded as f64 / 20.0);
    for (index, rate) in rates.into_iter().enumerate() {
        assert_eq!(value(&page, &format!("r{}-rate", index + 1)), rate);
    }
}

#[test]
fn no_records_make_a_page_too() {
    assert!(html(&[]).contains("No records."));
}

#[test]
fn parts_that_say_the_same_have_one_chart() {
    let mut record = made::ramp();
    let charts = |record: &LoadRecord| {
        let page = html(std::slice::from_ref(record));
        let panels = page.split("-1-title\">").skip(1);
        let titles = panels.filter_map(|rest| rest.split_once("</title>"));
        titles.filter(|(it, _)| it.ends_with(" by percentile")).count()
    };
    // The first byte of a reply arrives with the last.
    assert_eq!(charts(&record), 2);
    let page = html(std::slice::from_ref(&record));
    assert!(page.contains("<h4>Handshake</h4>"));
    for latencies in record.latencies.values_mut() {
        latencies.handshake = latencies.total.clone();
        latencies.first_byte = latencies.total.clone();
    }
    assert_eq!(charts(&record), 1);
    let page = html(&[record]);
    assert!(page.contains("within 5 % the same: handshake and first byte"));
}
