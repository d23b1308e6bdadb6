//! Reports runs of load: one in full, or several side by side.

pub(crate) mod charts;
mod reading;
mod tables;
pub(crate) mod time_series;

use measure::choice::Kind as Handshake;
use measure::histogram::Histogram;
use measure::metric::Metric;
use measure::quantity::{ByteCount, Nanoseconds, RoundedCount};
use measure::record::{CapacitySearch, LoadRecord, RunEnding};

use crate::document::{
    Cell, DataSheet, Figure, ListItem, NumberCard, ReportBlock, ReportDocument, ReportFact,
    ReportSection, ReportTable, ReportWarning, SectionKind, cells, counted, section,
};
use crate::host;
use crate::words::{joined, listed, titled};

use charts::{along_time, percentiles};
use reading::{
    CARDS, METRICS, PARTS, TransactionPart, client_load, cpu_per_transaction_ns, handshakes,
    resumed, spread,
};
use tables::{failed_share, shown, title};

/// Returns the report of these runs, each with the prefix of its files' names.
pub fn document(records: &[(&str, &LoadRecord)]) -> ReportDocument {
    let runs: Vec<&LoadRecord> = records.iter().map(|(_, record)| *record).collect();
    let mut document = ReportDocument {
        title: format!("{} loads compared", runs.len()),
        footer: footer(&runs),
        ..ReportDocument::default()
    };
    if let [record] = runs.as_slice() {
        document.title = format!("Load on {}", record.target.url);
        document.blocks = run(record, 1);
    } else {
        several(&runs, &mut document);
    }
    for (name, record) in records {
        let figures = figures(record).into_iter();
        document.files.extend(figures.map(|(id, chart)| (format!("{name}-{id}"), chart.into())));
        let sheets = sheets(record)
            .into_iter()
            .map(|sheet| DataSheet { name: format!("{name}-{}", sheet.name), ..sheet });
        document.sheets.extend(sheets.filter(|sheet| !sheet.rows.is_empty()));
    }
    let compared = (records.len() > 1).then(|| charts::compared(records)).flatten();
    document.files.extend(compared.map(|it| ("comparison".to_owned(), it.into())));
    document
}

fn sheets(record: &LoadRecord) -> [DataSheet; 3] {
    [tables::second_sheet(record), tables::latency_sheet(record), tables::step_sheet(record)]
}

fn figures(record: &LoadRecord) -> Vec<(&'static str, crate::figure::Chart)> {
    let time = along_time(record.into()).map(|it| ("time", it));
    let parts = PARTS.iter().filter_map(|part| Some((part.id, percentiles(record, part)?)));
    let capacity = charts::capacity(record).map(|it| ("capacity", it));
    time.into_iter().chain(parts).chain(capacity).collect()
}

fn footer(records: &[&LoadRecord]) -> String {
    let Some(tool) = records.first().map(|record| &record.tool) else {
        return "No records.".to_owned();
    };
    format!(
        "Recorded by {} {} with {}. Durations count from the planned instant of each transaction.",
        tool.name, tool.version, tool.tls,
    )
}

/// Compares runs first, and shows each in full on the page only.
fn several(records: &[&LoadRecord], document: &mut ReportDocument) {
    let names = reading::names(records);
    let anchors: Vec<String> = (1..=records.len()).map(|run| format!("r{run}")).collect();
    let numbers = 1..=records.len();
    document.links = numbers.map(|run| (format!("r{run}"), format!("Run {run}"))).collect();
    let warnings = records.iter().enumerate().flat_map(|(index, record)| {
        record.warnings.iter().map(move |warning| ReportWarning {
            about: format!("run {}", index + 1),
            ..ReportWarning::of(warning)
        })
    });
    let items = names.iter().zip(&anchors).enumerate().map(|(index, (name, anchor))| ListItem {
        link: anchor.clone(),
        head: format!("{}. {name}", index + 1),
        parts: Vec::new(),
    });
    let runs = vec![
        ReportBlock::Items(items.collect()),
        ReportBlock::Table(tables::side_by_side(records)),
    ];
    let repeats = tables::repeats(records).block();
    let blocks = [
        (!records.is_empty()).then(|| ReportSection::new(SectionKind::Card, "Runs", runs).into()),
        section(SectionKind::Card, "Repeated", repeats),
        compared_percentiles(records, &names),
    ];
    document.blocks = vec![ReportBlock::Warnings(warnings.collect())];
    document.blocks.extend(blocks.into_iter().flatten());
    for (index, record) in records.iter().enumerate() {
        let heading = format!("{}. {}", index + 1, names[index]);
        let article = ReportSection::new(SectionKind::Article, heading, run(record, index + 1));
        let article = article.at(anchors[index].clone());
        let page = ReportSection::new(SectionKind::Page, "", vec![article.into()]);
        document.blocks.push(page.into());
    }
}

fn compared_percentiles(records: &[&LoadRecord], names: &[String]) -> Option<ReportBlock> {
    /// Maximum length of names that fit into the figure.
    const NAME_MAX: usize = 50;
    let numbered = names.iter().zip(1..).map(|(name, number)| {
        let name: String = name.chars().take(NAME_MAX).collect();
        format!("{number}. {name}")
    });
    let numbered: Vec<String> = numbered.collect();
    let named: Vec<_> = numbered.iter().map(String::as_str).zip(records.iter().copied()).collect();
    let figure = Figure::block("c-total", charts::compared(&named)?);
    section(SectionKind::Card, "Response time by percentile", vec![figure])
}

/// Reports everything about the run of that number.
fn run(record: &LoadRecord, number: usize) -> Vec<ReportBlock> {
    let prefix = format!("r{number}-");
    let table = |table: ReportTable| table.prefixed(&prefix).block();
    let card = |title: &str, blocks: Vec<Option<ReportBlock>>| {
        section(SectionKind::Card, title, blocks.into_iter().flatten())
    };
    /// Maximum rows of the table of seconds, as nobody reads more.
    const SECONDS_MAX: usize = 600;
    let seconds = table(tables::seconds(record, SECONDS_MAX));
    let seconds = section(SectionKind::Details, "Seconds as a table", seconds);
    let time = vec![over_time(record, &prefix), table(tables::spreads(record)), seconds];
    let latencies = vec![by_percentile(record, &prefix), table(tables::latencies(record))];
    let capacity = charts::capacity(record);
    let capacity = capacity.map(|it| Figure::block(&format!("{prefix}capacity"), it));
    let has_attempts = record.totals.attempted > 0 || !record.seconds.is_empty();
    let mut blocks = vec![
        ReportBlock::Headline(headline(record)),
        ReportBlock::Paragraph(course(record)),
        ReportWarning::all(&record.warnings),
        ReportBlock::Cards(cards(record, &prefix)),
    ];
    let cards = [
        has_attempts.then(|| card("Over time", time)).flatten(),
        card("Latency", latencies),
        card("Capacity", vec![capacity, table(tables::capacity(record))]),
        card("Steps", vec![table(tables::steps(record))]),
        card("Failures", vec![table(tables::failures(record))]),
        card("Addresses", vec![table(tables::addresses(record))]),
        card("Requests", vec![table(tables::requests(record))]),
        card("Handshakes", vec![table(tables::handshakes(record))]),
    ];
    blocks.extend(cards.into_iter().flatten());
    blocks.push(ReportSection::new(SectionKind::Card, "How it was measured", how(record)).into());
    blocks
}

/// Draws a figure per part of a transaction; a part like the whole shares its heading.
fn by_percentile(record: &LoadRecord, prefix: &str) -> Option<ReportBlock> {
    let [parts @ .., whole] = &PARTS;
    let (same, own): (Vec<&TransactionPart>, Vec<&TransactionPart>) = parts
        .iter()
        .filter(|part| record.latencies.values().any(|it| !(part.of)(it).is_empty()))
        .partition(|part| is_same(record, part, whole));
    let names: Vec<String> = same.iter().map(|part| part.name.to_owned()).collect();
    let title = match names.as_slice() {
        [] => String::new(),
        names => format!("Total; within 5 % the same: {}", listed(names)),
    };
    // Charts beside each other begin at the same height.
    let heading = |part: &TransactionPart| match names.as_slice() {
        [] => String::new(),
        _ => titled(part.name),
    };
    let all = own.into_iter().map(|part| (part, heading(part))).chain([(whole, title)]);
    let drawn = all.filter_map(|(part, title)| {
        let chart = percentiles(record, part)?;
        Some((format!("{prefix}{}", part.id), title, chart))
    });
    Figure::row(drawn.collect())
}

/// Reports whether a part took as long as the whole, in each kind of handshake.
fn is_same(record: &LoadRecord, part: &TransactionPart, whole: &TransactionPart) -> bool {
    const DIFFERENCE_MAX: f64 = 0.05;
    const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 1.0];
    record.latencies.values().all(|latencies| {
        let [part, whole] = [part, whole].map(|it| (it.of)(latencies));
        part.count() == whole.count()
            && QUANTILES.iter().all(|quantile| {
                let [part, whole] = [part, whole].map(|it| it.quantile_ns(*quantile) as f64);
                (whole - part).abs() <= whole * DIFFERENCE_MAX
            })
    })
}

fn over_time(record: &LoadRecord, prefix: &str) -> Option<ReportBlock> {
    Some(Figure::block(&format!("{prefix}time"), along_time(record.into())?))
}

fn headline(record: &LoadRecord) -> String {
    match &record.capacity {
        _ if record.totals.attempted == 0 => "nothing was attempted".to_owned(),
        // The sums over all rates of a search have no meaning.
        Some(capacity) => found(capacity),
        None => {
            let metric = |metric: Metric| shown(metric, metric.of(record)).text;
            format!(
                "{}/s succeeded of {}/s, {} failed ({}); mean {}, p99 {}",
                metric(Metric::Rate),
                metric(Metric::AttemptedRate),
                RoundedCount(record.totals.failed as f64),
                failed_share(record.totals),
                metric(Metric::MeanResponse),
                metric(Metric::P99Response),
            )
        }
    }
}

fn found(capacity: &CapacitySearch) -> String {
    let limit = &capacity.limit;
    let broken = match capacity.broken_at_per_s {
        Some(rate) => format!("broken when {}/s were offered", RoundedCount(rate)),
        None => "nothing broke it".to_owned(),
    };
    match capacity.found_per_s {
        Some(rate) => format!("{}/s kept {limit}; {broken}{}", RoundedCount(rate), span(capacity)),
        None => format!("no rate kept {limit}; {broken}"),
    }
}

/// Returns the rates between which single trials disagreed, or gave no result.
fn span(capacity: &CapacitySearch) -> String {
    match (capacity.kept_by_all_per_s, capacity.broken_by_all_per_s) {
        (Some(from), Some(to)) => {
            let (from, to) = (RoundedCount(from), RoundedCount(to));
            format!("; all trials kept it up to {from}/s, and broke it from {to}/s on")
        }
        _ => String::new(),
    }
}

/// Describes the load's target, duration and end.
fn course(record: &LoadRecord) -> String {
    let end = match record.ending {
        RunEnding::Completed => "completed",
        RunEnding::Interrupted => "interrupted",
    };
    format!("{}, {}, {end}", record.target.url, length(record.elapsed_ns))
}

/// Formats a long duration in minutes and hours.
fn length(ns: u64) -> String {
    let seconds = ns.saturating_add(500_000_000) / 1_000_000_000;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0 | 1) => Nanoseconds(ns as f64).to_string(),
        (0, _) => format!("{minutes} min {rest} s"),
        _ => format!("{hours} h {minutes} min {rest} s"),
    }
}

fn cards(record: &LoadRecord, prefix: &str) -> Vec<NumberCard> {
    let id =
        |cell: Cell, id: &str, value: Option<f64>| cell.maybe_id(format!("{prefix}{id}"), value);
    let card = |metric: &Metric| {
        let value = metric.of(record);
        let cell = id(shown(*metric, value), metric.id(), value);
        NumberCard::new(title(*metric), cell, cells![spread_words(record, *metric)])
    };
    let mut cards: Vec<NumberCard> = METRICS[..CARDS].iter().map(card).collect();
    let totals = record.totals;
    let count =
        |name: &str, count: u64| id(RoundedCount(count as f64).into(), name, Some(count as f64));
    let share = (totals.attempted > 0).then(|| failed_share(totals));
    let share = id(Cell::maybe(share), Metric::ErrorRate.id(), Metric::ErrorRate.of(record));
    let note = cells![
        count("failed", totals.failed),
        " failed and ",
        count("succeeded", totals.succeeded),
        " succeeded of ",
        count("attempted", totals.attempted),
        " attempted",
    ];
    let is_bad = totals.failed > 0;
    cards.push(NumberCard { is_bad, ..NumberCard::new("Failed", share, note) });
    cards.push(resumption_card(record, &id));
    let ns = cpu_per_transaction_ns(record);
    let value = id(Cell::maybe(ns.map(Nanoseconds)), "cpu-per-transaction-ns", ns);
    let note = cells![client_load(record).unwrap_or_default()];
    cards.push(NumberCard::new("Client's CPU per transaction", value, note));
    cards
}

fn spread_words(record: &LoadRecord, metric: Metric) -> String {
    let Some(spread) = spread(record, metric) else {
        if record.totals.attempted > 0 && record.totals.succeeded == 0 {
            return "nothing succeeded".to_owned();
        }
        return "no whole second to take a spread from".to_owned();
    };
    if spread.count == 1 {
        return "of one whole second, so without a spread".to_owned();
    }
    format!(
        "median {}, {} to {}, deviation {} over {} seconds",
        metric.fitted(spread.median),
        metric.fitted(spread.min),
        metric.fitted(spread.max),
        metric.fitted(spread.deviation),
        RoundedCount(spread.count as f64),
    )
}

/// Shows the kinds of handshakes; without any, the received data.
fn resumption_card(
    record: &LoadRecord,
    id: &dyn Fn(Cell, &str, Option<f64>) -> Cell,
) -> NumberCard {
    let share = resumed(record);
    if share.whole == 0 {
        let rate = Metric::Bandwidth.of(record);
        let bytes = ByteCount(record.traffic.body_bytes);
        let value = id(shown(Metric::Bandwidth, rate), Metric::Bandwidth.id(), rate);
        let note = cells![format!("{bytes} in all; no handshake was finished")];
        return NumberCard::new("Bodies received", value, note);
    }
    let mut note = Vec::new();
    for (kind, count) in kinds(record) {
        let comma = if note.is_empty() { "" } else { ", " };
        let number = Cell::from(RoundedCount(count as f64));
        let number = id(number, &format!("handshakes-{}", kind.name()), Some(count as f64));
        note.extend(cells![comma, number, format!(" {}", kind.name())]);
    }
    let value = id(share.into(), "resumed-share", Some(share.part as f64 / share.whole as f64));
    NumberCard::new("Handshakes resumed", value, note)
}

/// Returns the kinds of handshakes that occurred, with their counts.
fn kinds(record: &LoadRecord) -> impl Iterator<Item = (Handshake, u64)> + '_ {
    let counts = Handshake::ALL.map(|kind| (kind, handshakes(record, |other| other == kind)));
    counts.into_iter().filter(|(_, count)| *count > 0)
}

/// Returns further facts about the load.
fn how(record: &LoadRecord) -> Vec<ReportBlock> {
    let tool = &record.tool;
    let target = &record.target;
    let mut facts = vec![
        ReportFact::new("users", users(record)),
        ReportFact::new("resumed", resumption(record)),
        ReportFact::new("warm-up", warm_up(record)),
        ReportFact::new("traffic", traffic(record)),
        ReportFact::new("client", client(record)),
        ReportFact::new("lag", lag(record)),
        ReportFact::new("target", format!("{} at {}", target.url, target.address)),
        ReportFact::new("started", &record.started),
        ReportFact::new(
            "host",
            format!("{}; load average {:.2}", host::line(&record.host), record.host.load_average),
        ),
        ReportFact::new("tool", format!("{} {} with {}", tool.name, tool.version, tool.tls)),
    ];
    facts.retain(|fact| !fact.text.is_empty());
    let mut settings = ReportTable::new("Every setting, given or by default", ["<", "<"]);
    for (name, value) in reading::rows(&record.plan) {
        settings.row(cells![name, value]);
    }
    let settings = section(SectionKind::Details, "All settings", settings.block());
    let blocks = [ReportBlock::Facts(facts), ReportBlock::Command(record.command.clone())];
    blocks.into_iter().chain(settings).collect()
}

/// Explains session arrivals: requests of a user that gave up are not counted.
fn users(record: &LoadRecord) -> String {
    let Some(each) = record.plan.requests_per_arrival else {
        return String::new();
    };
    format!(
        "each new, without a session, to bring {}; a user whose request fails gives up, and what \
         is not requested then is not attempted",
        counted(RoundedCount(each.into()), "request")
    )
}

fn resumption(record: &LoadRecord) -> String {
    let share = resumed(record);
    if share.whole == 0 {
        return String::new();
    }
    let (part, whole) = (RoundedCount(share.part as f64), RoundedCount(share.whole as f64));
    let mut text = format!("{share} of handshakes, {part} of {whole}");
    for (kind, count) in kinds(record).filter(|(kind, _)| kind.is_resumption()) {
        text += &format!(", {} by {}", RoundedCount(count as f64), kind.name());
    }
    text
}

fn warm_up(record: &LoadRecord) -> String {
    let counts = record.warm_up;
    if counts.attempted == 0 {
        return String::new();
    }
    let (all, share) = (RoundedCount(counts.attempted as f64), failed_share(counts));
    format!("{all} transactions before the figures, {share} failed")
}

fn traffic(record: &LoadRecord) -> String {
    let traffic = &record.traffic;
    let bodies = Metric::Bandwidth.of(record);
    let bodies = bodies.map(|rate| format!(", {}", Metric::Bandwidth.fitted(rate)));
    format!(
        "{} connections; {} received, {} sent; {} of bodies{}",
        RoundedCount(traffic.connections as f64),
        ByteCount(traffic.received_bytes),
        ByteCount(traffic.sent_bytes),
        ByteCount(traffic.body_bytes),
        bodies.unwrap_or_default()
    )
}

fn client(record: &LoadRecord) -> String {
    let cpu = cpu_per_transaction_ns(record);
    let cpu = cpu.map(|ns| format!("{} of CPU per transaction", Nanoseconds(ns)));
    let memory = ByteCount(record.client.resident_bytes_max);
    let parts = [cpu, client_load(record), Some(format!("{memory} of memory at most"))];
    joined(parts.into_iter().flatten(), ", ")
}

fn lag(record: &LoadRecord) -> String {
    let mut lag = Histogram::default();
    for thread in &record.client.threads {
        lag.add(&thread.lag);
    }
    if lag.is_empty() {
        return String::new();
    }
    format!(
        "transactions began {} late in the mean, p99 {}, at most {}",
        Nanoseconds(lag.mean_ns()),
        Nanoseconds(lag.quantile_ns(0.99) as f64),
        Nanoseconds(lag.max_ns() as f64),
    )
}
