//! What is said after a run: all of one record that a person wants to know, as text.

use measure::quantity::Count;
use measure::record::{Capacity, Record};

use crate::facts::{self, Fact};
use crate::headline::{Headline, headlines};
use crate::hostile::harmless;
use crate::reading::loss;
use crate::shell::command_lines;
use crate::table::Table;
use crate::tables::{self, NONE};
use crate::terminal::{FIELD_WIDTH, Ink, Look, wrap};

/// The record as text for a screen `width` characters wide.
#[must_use]
pub fn text(record: &Record, width: usize, colour: bool) -> String {
    let look = Look { width, colour };
    let parts = [
        headline(record, look),
        warnings(record, look),
        section("", &tables::spreads(record), look),
        facts(&facts::results(record), look),
        section("Latency", &tables::latencies(record), look),
        section("Handshakes", &tables::handshakes(record), look),
        section("Failures", &tables::failures(record), look),
        section("Capacity", &tables::capacity(record), look),
        section("Steps", &tables::steps(record), look),
        facts(&facts::surroundings(record), look) + &repeat(record, look),
    ];
    let filled: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    filled.join("\n")
}

fn headline(record: &Record, look: Look) -> String {
    let first = match &record.capacity {
        _ if record.totals.attempted == 0 => {
            let text = format!("nothing was attempted; {}", facts::course(record));
            return look.paint(Ink::Strong, &text) + "\n";
        }
        // Of a search the sums over all rates say nothing.
        Some(capacity) => found(capacity),
        None => rates(record),
    };
    let second = format!(
        "{}, {}",
        harmless(&record.target.url),
        facts::course(record)
    );
    let mut text = String::new();
    for line in wrap(&first, look.width) {
        text += &(look.paint(Ink::Strong, &line) + "\n");
    }
    text + &wrap(&second, look.width).join("\n") + "\n"
}

/// What a search found.
fn found(capacity: &Capacity) -> String {
    let limit = harmless(&capacity.limit);
    let broken = match capacity.broken_at_per_s {
        Some(rate) => format!("broken when {}/s were offered", Count(rate)),
        None => "nothing broke it".to_owned(),
    };
    match capacity.found_per_s {
        Some(rate) => format!("{}/s kept {limit}; {broken}", Count(rate)),
        None => format!("no rate kept {limit}; {broken}"),
    }
}

fn rates(record: &Record) -> String {
    let [succeeded, mean, p99, attempted, _] = headlines(record);
    format!(
        "{}/s succeeded of {}/s, {} failed ({}); mean {}, p99 {}",
        shown(succeeded),
        shown(attempted),
        Count(record.totals.failed as f64),
        loss(record.totals),
        shown(mean),
        shown(p99),
    )
}

fn shown(figure: Headline) -> String {
    match figure.whole {
        Some(value) => figure.amount(value).to_string(),
        None => NONE.to_owned(),
    }
}

fn warnings(record: &Record, look: Look) -> String {
    let mut text = String::new();
    for warning in &record.warnings {
        text += &look.labelled(Ink::Warning, "warning", &warning.seen);
        text += &look.labelled(Ink::Hint, "hint", &warning.hint);
    }
    text
}

fn facts(facts: &[Fact], look: Look) -> String {
    let fields = facts.iter().map(|fact| look.field(fact.name, &fact.text));
    fields.collect()
}

fn section(title: &str, table: &Table, look: Look) -> String {
    if table.is_empty() {
        return String::new();
    }
    look.table(title, table)
}

fn repeat(record: &Record, look: Look) -> String {
    let lines = command_lines(&record.command, look.width.saturating_sub(FIELD_WIDTH));
    look.field_lines("repeat", &lines)
}
