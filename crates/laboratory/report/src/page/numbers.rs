//! The cards of a run's most telling numbers.

use measure::kind::Kind;
use measure::quantity::{Bytes, Count, Nanoseconds};
use measure::record::Record;

use crate::facts::length;
use crate::headline::{Headline, headlines};
use crate::markup::{Element, element};
use crate::reading::{
    client_load, cpu_per_transaction_ns, fraction, handshakes, loss, per_second, resumed,
};
use crate::tables::NONE;

use super::parts::identified;

/// All of them.
pub(crate) fn cards(record: &Record, prefix: &str) -> Element {
    let [succeeded, mean, p99, attempted, _] = headlines(record);
    let of = |figure: Headline| number(prefix, figure.id, figure.name, shown(figure), figure.whole);
    let cards = [
        of(succeeded).child(note(&spread(succeeded))),
        of(mean).child(note(&spread(mean))),
        of(p99).child(note(&spread(p99))),
        failed(record, prefix, attempted),
        resumption(record, prefix),
        client(record, prefix),
    ];
    element("div").with("class", "numbers").children(cards)
}

fn number(prefix: &str, id: &str, name: &str, shown: String, value: Option<f64>) -> Element {
    let figure = element("b").text(shown);
    let figure = match value {
        Some(value) => identified(figure, &format!("{prefix}-{id}"), value),
        None => figure,
    };
    element("div")
        .with("class", "card number")
        .child(element("h3").text(name))
        .child(figure)
}

fn note(text: &str) -> Element {
    element("p").text(text)
}

fn shown(figure: Headline) -> String {
    match figure.whole {
        Some(value) => figure.amount(value).to_string(),
        None => NONE.to_owned(),
    }
}

fn spread(figure: Headline) -> String {
    let Some(spread) = figure.spread else {
        return "no whole second to take a spread from".to_owned();
    };
    if spread.count == 1 {
        return "of one whole second, so without a spread".to_owned();
    }
    format!(
        "median {}, {} to {}, deviation {} over {} seconds",
        figure.amount(spread.median),
        figure.amount(spread.min),
        figure.amount(spread.max),
        figure.amount(spread.deviation),
        Count(spread.count as f64),
    )
}

fn failed(record: &Record, prefix: &str, attempted: Headline) -> Element {
    let share = loss(record.totals);
    let has_share = record.totals.attempted > 0;
    let value = has_share.then(|| fraction(share));
    let shown = if has_share {
        share.to_string()
    } else {
        NONE.to_owned()
    };
    let part = |id: &str, count: u64| {
        let text = Count(count as f64).to_string();
        identified(element("span"), &format!("{prefix}-{id}"), count as f64).text(text)
    };
    let counts = element("p")
        .child(part("failed", record.totals.failed))
        .text(" failed and ")
        .child(part("succeeded", record.totals.succeeded))
        .text(" succeeded of ")
        .child(part("attempted", record.totals.attempted))
        .text(" attempted");
    let rate = attempted
        .whole
        .map(|rate| format!(", {}/s", attempted.amount(rate)));
    let class = if record.totals.failed > 0 { "bad" } else { "" };
    number(prefix, "failed-share", "Failed", shown, value)
        .child(counts.text(rate.unwrap_or_default()))
        .with("data-state", class)
}

fn resumption(record: &Record, prefix: &str) -> Element {
    let share = resumed(record);
    if share.whole == 0 {
        return bodies(record, prefix);
    }
    let mut kinds = element("p");
    let kinds_seen = Kind::ALL.into_iter().filter_map(|kind| {
        let count = handshakes(record, |other| other == kind);
        (count > 0).then_some((kind, count))
    });
    for (index, (kind, count)) in kinds_seen.enumerate() {
        let id = format!("{prefix}-handshakes-{}", kind.name());
        let text = Count(count as f64).to_string();
        let number = identified(element("span"), &id, count as f64).text(text);
        kinds = kinds.text(if index > 0 { ", " } else { "" }).child(number);
        kinds = kinds.text(format!(" {}", kind.name()));
    }
    number(
        prefix,
        "resumed-share",
        "Handshakes resumed",
        share.to_string(),
        Some(fraction(share)),
    )
    .child(kinds)
}

/// Where there were no handshakes.
fn bodies(record: &Record, prefix: &str) -> Element {
    let bytes = record.traffic.body_bytes;
    let rate = per_second(record, bytes);
    let shown = rate.map_or_else(
        || NONE.to_owned(),
        |rate| format!("{}/s", Bytes(rate as u64)),
    );
    number(prefix, "body-bytes-per-s", "Bodies received", shown, rate).child(note(&format!(
        "{} in all; no handshake was finished",
        Bytes(bytes)
    )))
}

fn client(record: &Record, prefix: &str) -> Element {
    let ns = cpu_per_transaction_ns(record);
    let shown = ns.map_or_else(|| NONE.to_owned(), |ns| Nanoseconds(ns).to_string());
    let threads = record.client.threads.len();
    let load = client_load(record).map(|load| {
        let plural = if threads == 1 { "thread" } else { "threads" };
        let time = length(record.elapsed_ns);
        format!(
            "the load itself kept {threads} {plural} {:.0} % busy for {time}",
            load * 100.0
        )
    });
    number(
        prefix,
        "cpu-per-transaction-ns",
        "Client's CPU a transaction",
        shown,
        ns,
    )
    .child(note(&load.unwrap_or_default()))
}
