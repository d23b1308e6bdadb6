//! Shows results of `lariat-lab plan` and `lariat-lab simulate` as documents.

use measure::planned::{
    CacheChoice, CollapseVerdict, FarmPlan, PlannedChange, PlannedCost, PlannedDay, PlannedFigure,
    PlannedResource, SimulatedMoment, SimulatedNode, SimulatedRun, TargetPlan, ValidationRow,
};
use measure::quantity::{ByteCount, RoundedCount};
use measure::record::{RunEnding, RunWarning};

use crate::document::{
    Cell, Figure, NONE, ReportBlock, ReportDocument, ReportFact, ReportSection, ReportTable,
    ReportWarning, SectionKind, cells, counted, percent, section,
};
use crate::figure::{Axis, AxisUnit, Chart, Panel, Series, SeriesShape};
use crate::load;

/// Returns the answer for each target; the first is the requested one.
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

/// Shows predictions with every error.
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

/// Maximum rows of the table of nodes: the busiest ones.
const NODES_MAX: usize = 40;

/// Maximum places that can be distinguished in a panel.
const PLACES_MAX: usize = 240;

pub fn simulated(run: &SimulatedRun) -> ReportDocument {
    let mut document = load::document(&[("simulated", &run.load)]);
    document.title = format!("Simulated: {}", run.load.target.url);
    document.footer = format!(
        "Simulated by {} {}: nothing was measured.",
        run.load.tool.name, run.load.tool.version
    );
    let is_whole = run.load.ending != RunEnding::Interrupted;
    let how = if is_whole { "SIMULATED" } else { "SIMULATED, and stopped before its end" };
    let headline = format!("{how}. {}", verdict(&run.verdict));
    let mut happened = ReportTable::new("", ["<script"]);
    run.script.iter().for_each(|line| happened.row(cells![line]));
    let farm = [Some(Figure::block("s-farm", over_time(&run.moments))), nodes(&run.nodes).block()];
    let own = [
        Some(ReportBlock::Headline(headline)),
        section(SectionKind::Card, "What happens", happened.block()),
        section(SectionKind::Card, "The farm", farm.into_iter().flatten()),
        section(SectionKind::Card, "With one thing changed", remedies(run).block()),
    ];
    let load = std::mem::take(&mut document.blocks);
    document.blocks = own.into_iter().flatten().chain(load).collect();
    document.files.push(("simulated-farm".to_owned(), over_time(&run.moments).into()));
    document
}

fn verdict(verdict: &CollapseVerdict) -> String {
    let failed = format!("{:.2} % of tries failed", verdict.failed_share * 100.0);
    match (verdict.seconds_failing, verdict.seconds_after, verdict.has_recovered) {
        (0, _, _) => format!("{failed}; no second with more than one in a hundred"),
        (during, 0, true) => format!("{failed}, in {during} s, and none once all was over"),
        (_, after, true) => format!("{failed}; it took {after} s to recover once all was over"),
        (_, after, false) => {
            format!("{failed}; a collapse that lasts: {after} s after all was over it still fails")
        }
    }
}

fn remedies(run: &SimulatedRun) -> ReportTable {
    let heads = ["<change", "failing, s", "of them afterwards", "failed", "<"];
    let mut table = ReportTable::new("The same script and chance", heads);
    for one in &run.remedies {
        let it = &one.verdict;
        let failed = format!("{:.2} %", it.failed_share * 100.0);
        let end = if it.has_recovered { "recovers" } else { "collapse lasts" };
        table.row(cells![&one.change, it.seconds_failing, it.seconds_after, failed, end]);
    }
    table
}

fn nodes(nodes: &[SimulatedNode]) -> ReportTable {
    let mut busiest: Vec<&SimulatedNode> = nodes.iter().collect();
    busiest.sort_by(|a, b| b.busy_mean.total_cmp(&a.busy_mean).then(a.node.cmp(&b.node)));
    let caption = match nodes.len() {
        more @ NODES_MAX.. => format!("The {NODES_MAX} busiest of {more} nodes"),
        _ => "Nodes, the busiest first".to_owned(),
    };
    let heads =
        ["node", "succeeded", "full", "resumed", "failed", "CPU", "at most", "down, s", "wasted"];
    let mut table = ReportTable::new(caption, heads);
    for node in busiest.into_iter().take(NODES_MAX) {
        let counts = [node.succeeded, node.full, node.resumed, node.failed];
        let counts = counts.map(|count| Cell::from(RoundedCount(count as f64)));
        let [mean, most, wasted] = [node.busy_mean, node.busy_max, node.wasted].map(percent);
        let rest = cells![mean, most, node.seconds_down, wasted];
        table.row(cells![node.node].into_iter().chain(counts).chain(rest));
    }
    table
}

/// Draws CPU, clients with a session, and waiting connections over time.
fn over_time(moments: &[SimulatedMoment]) -> Chart {
    let size = moments.len().div_ceil(PLACES_MAX).max(1);
    let groups = || moments.chunks(size);
    let mean = |of: fn(&SimulatedMoment) -> f64| {
        groups().map(move |group| {
            (group[0].at_s as f64, group.iter().map(of).sum::<f64>() / group.len() as f64)
        })
    };
    let most = |of: fn(&SimulatedMoment) -> f64| {
        groups().map(move |group| (group[0].at_s as f64, group.iter().map(of).fold(0.0, f64::max)))
    };
    let line = |name: &str, colour, dashes| Series::new(name, colour, SeriesShape::Line(dashes));
    let end = moments.last().map_or(1.0, |last| last.at_s as f64 + 1.0);
    let waiting: Vec<(f64, f64)> = most(|it| it.waiting as f64).collect();
    let greatest = waiting.iter().map(|point| point.1).fold(1.0, f64::max);
    let share = |title: &str| Axis::from_zero(title, AxisUnit::Count, 100.0, 4);
    let cpu = vec![
        line("mean of nodes", "ink", "").of(mean(|it| it.busy_mean * 100.0)),
        line("busiest node", "grey", "7 3").of(most(|it| it.busy_max * 100.0)),
    ];
    let sessions = vec![line("", "ink", "").of(mean(|it| it.with_session * 100.0))];
    let queue = Axis::from_zero("connections that wait", AxisUnit::Count, greatest, 4);
    Chart {
        title: "The farm over time (simulated)".to_owned(),
        description: "CPU of nodes, clients that hold a session, connections that wait".to_owned(),
        x: Axis::exact("time since the beginning", AxisUnit::Clock, 0.0, end, 12),
        panels: vec![
            Panel::new(share("CPU, %"), cpu),
            Panel::new(share("clients that hold a session, %"), sessions),
            Panel::new(queue, vec![line("", "rose", "").of(waiting)]),
        ],
        columns: Vec::new(),
    }
}
