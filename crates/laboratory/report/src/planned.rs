//! The reports of `lariat-lab plan`: hosts and where each figure comes from; predictions beside
//! measurements.

use measure::planned::{
    CacheChoice, FarmPlan, PlannedChange, PlannedCost, PlannedDay, PlannedFigure, PlannedResource,
    TargetPlan, ValidationRow,
};
use measure::quantity::{ByteCount, RoundedCount};
use measure::record::RunWarning;

use crate::document::{
    Cell, NONE, ReportBlock, ReportDocument, ReportFact, ReportSection, ReportTable, ReportWarning,
    SectionKind, cells, counted, percent, section,
};

/// The answer for each target; the first is the one that was asked for.
pub fn document(plan: &FarmPlan) -> ReportDocument {
    let facts = plan.asked.iter().map(|(name, text)| ReportFact::new(name, text)).collect();
    let records = plan.records.iter().map(|text| ReportFact::new("record", text)).collect();
    let first = plan.targets.first().map(|first| ReportBlock::Headline(headline(first)));
    let mut blocks: Vec<ReportBlock> = first.into_iter().collect();
    blocks.push(ReportWarning::all(&plan.warnings));
    blocks.extend(section(SectionKind::Card, "Asked", [ReportBlock::Facts(facts)]));
    for target in &plan.targets {
        let article =
            ReportSection::new(SectionKind::Article, &target.target, self::target(target));
        blocks.push(article.into());
    }
    let sources = [ReportBlock::Facts(records), ReportBlock::Command(plan.command.clone())];
    blocks.extend(section(SectionKind::Card, "Made from", sources));
    ReportDocument {
        title: "A farm planned from records".to_owned(),
        blocks,
        footer: format!(
            "Planned by {} {}: predicted, not measured.",
            plan.tool.name, plan.tool.version
        ),
        ..ReportDocument::default()
    }
}

fn headline(target: &TargetPlan) -> String {
    match target.hosts {
        Some(hosts) => format!(
            "{}: {} ({} to {}); {} binds",
            target.target,
            counted(RoundedCount(hosts.value), "host"),
            hosts.low,
            hosts.high,
            target.binds
        ),
        None => format!("{}: not to be met: {}", target.target, target.binds),
    }
}

fn target(target: &TargetPlan) -> Vec<ReportBlock> {
    let mut blocks =
        vec![ReportBlock::Paragraph(headline(target)), ReportWarning::all(&target.warnings)];
    let tables = [
        ("Days", days(&target.days)),
        ("Resources of a host on the worst day", resources(&target.resources)),
        ("With one choice changed", changes(&target.changes)),
        ("Session cache of the farm", cache(&target.cache)),
        ("CPU time, and its source", costs(&target.costs)),
    ];
    for (title, table) in tables {
        blocks.extend(section(SectionKind::Card, title, table.block()));
    }
    blocks
}

fn percents(figure: &PlannedFigure) -> String {
    let PlannedFigure { value, low, high } = figure;
    format!("{:.1} % ({:.1} to {:.1})", value * 100.0, low * 100.0, high * 100.0)
}

fn days(days: &[PlannedDay]) -> ReportTable {
    let heads = ["<day", "hosts", "conn./s each", "resumed", "CPU, 95 %", "p50", "p99"];
    let mut table = ReportTable::new("Each host, busy with its share", heads);
    for day in days {
        table.row(cells![
            &day.name,
            day.hosts,
            RoundedCount(day.connections_per_s),
            percent(day.resumed_share),
            percents(&day.busy),
            format!("{:.2} ms", day.p50_ms),
            format!("{:.2} ms", day.p99_ms),
        ]);
    }
    table
}

fn resources(resources: &[PlannedResource]) -> ReportTable {
    let mut table = ReportTable::new("", ["<", "<used", "<there is", "share"]);
    for one in resources {
        let share = if one.used_share > 0.0 { percent(one.used_share) } else { NONE.to_owned() };
        table.row(cells![&one.name, &one.used, &one.limit, share]);
    }
    table
}

fn costs(costs: &[PlannedCost]) -> ReportTable {
    let mut table = ReportTable::new("A worker in full use", ["<", "µs, 95 %", "n", "<from"]);
    for cost in costs {
        let PlannedFigure { value, low, high } = cost.cpu_us;
        let digits = if value < 0.1 { 5 } else { 1 };
        let derived = if cost.is_measured { "" } else { "derived: " };
        let cpu_us = format!("{value:.digits$} ({low:.digits$} to {high:.digits$})");
        table.row(cells![&cost.name, cpu_us, cost.samples, format!("{derived}{}", cost.source)]);
    }
    table
}

fn changes(changes: &[PlannedChange]) -> ReportTable {
    let mut table = ReportTable::new("", ["<change", "hosts", "CPU", "p99", "<"]);
    for change in changes {
        let busy = change.hosts.map(|_| percent(change.busy_normal));
        let p99 = change.hosts.map(|_| format!("{:.2} ms", change.p99_ms));
        let [hosts, busy, p99] = [Cell::maybe(change.hosts), Cell::maybe(busy), Cell::maybe(p99)];
        table.row(cells![&change.change, hosts, busy, p99, &change.note]);
    }
    table
}

fn cache(choices: &[CacheChoice]) -> ReportTable {
    let mut table = ReportTable::new("", ["entries", "memory", "resumed", "cores in full use"]);
    for choice in choices {
        let entries = RoundedCount(choice.entries as f64);
        let (bytes, resumed) = (ByteCount(choice.bytes), percent(choice.resumed_share));
        table.row(cells![entries, bytes, resumed, RoundedCount(choice.cores)]);
    }
    table
}

/// Predictions with every error.
pub fn validation(rows: &[ValidationRow], remarks: &[RunWarning]) -> ReportDocument {
    let heads =
        ["<configuration", "<metric", "predicted", "measured", "rounds", "busy", "error", "<"];
    let mut table = ReportTable::new("Predictions that did not see their measurement", heads);
    let mut last = "";
    for row in rows {
        if row.scenario != last {
            table.head(&row.scenario);
            last = &row.scenario;
        }
        let (least, most) = row.measured_range;
        let digits = if row.measured.abs() < 10.0 { 2 } else { 0 };
        table.row(cells![
            &row.configuration,
            &row.metric,
            format!("{:.digits$}", row.predicted),
            format!("{:.digits$}", row.measured),
            format!("{least:.digits$} to {most:.digits$}"),
            format!("{:.0} %", row.busy * 100.0),
            format!("{:+.1} %", row.error * 100.0),
            if row.is_within { "" } else { "beyond" },
        ]);
    }
    let within = rows.iter().filter(|row| row.is_within).count();
    let bounds = "within 5 % of CPU time, 30 % of a p99, 5 points of a share";
    let headline = format!("{within} of {} predictions are {bounds}", rows.len());
    let mut blocks = vec![ReportBlock::Headline(headline), ReportWarning::all(remarks)];
    blocks.extend(section(SectionKind::Card, "Predictions", table.block()));
    ReportDocument {
        title: "Predictions and measurements".to_owned(),
        blocks,
        ..ReportDocument::default()
    }
}
