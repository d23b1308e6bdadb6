//! The page of `lariat-lab simulate`: that of a load, marked, with the farm above it.

use measure::quantity::RoundedCount;
use measure::record::RunEnding;
use measure::simulated::{CollapseVerdict, SimulatedMoment, SimulatedNode, SimulatedRun};

use crate::document::{
    Cell, Figure, ReportBlock, ReportDocument, ReportTable, SectionKind, cells, percent, section,
};
use crate::figure::{Axis, AxisUnit, Chart, Panel, Series, SeriesShape};
use crate::load;

/// Rows of the table of nodes: the busiest ones.
const NODES_MAX: usize = 40;

/// As many places as can be distinguished in a panel.
const PLACES_MAX: usize = 240;

pub fn document(run: &SimulatedRun) -> ReportDocument {
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

/// CPU, clients with a session, and connections that wait, over time.
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
