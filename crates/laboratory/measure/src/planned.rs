//! Defines the answers of `lariat-lab plan` and `lariat-lab simulate`: hosts, the limiting
//! resource, the source of each figure; and the record of a simulated load, and its farm.
//!
//! Durations are microseconds or milliseconds by their names; shares are 0 to 1. The clients' side
//! of a simulation has the form of a measured record, so that the same page shows it; its tool and
//! its first warning say that it is simulated.

use serde::Serialize;

use crate::record::{LoadRecord, RecordingTool, RunWarning};

/// A figure with the bounds within which 95 % of resamples lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PlannedFigure {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FarmPlan {
    pub tool: RecordingTool,
    /// Command line that repeats it, a word an entry.
    pub command: Vec<String>,
    /// The question: keys with their values, defaults included.
    pub asked: Vec<(String, String)>,
    /// Hosts and programs that the records describe, a line each.
    pub records: Vec<String>,
    pub targets: Vec<TargetPlan>,
    pub warnings: Vec<RunWarning>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TargetPlan {
    pub target: String,
    /// Hosts in all, including those that may be lost; `None` if no number is enough.
    pub hosts: Option<PlannedFigure>,
    /// The resource that decides the number, or the reason why there is none.
    pub binds: String,
    /// Greatest share of its time that a worker may be busy and keep the limit.
    pub busy_limit: f64,
    pub days: Vec<PlannedDay>,
    /// Memory, descriptors, bandwidth of each host on the worst day, with their limits.
    pub resources: Vec<PlannedResource>,
    pub costs: Vec<PlannedCost>,
    pub changes: Vec<PlannedChange>,
    pub cache: Vec<CacheChoice>,
    pub warnings: Vec<RunWarning>,
}

/// A day with all hosts, or with some of them lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlannedDay {
    pub name: String,
    pub hosts: u32,
    /// Connections per second of each host.
    pub connections_per_s: f64,
    pub resumed_share: f64,
    pub busy: PlannedFigure,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlannedResource {
    pub name: String,
    /// Amount used, with its unit.
    pub used: String,
    /// Amount available, with its unit.
    pub limit: String,
    pub used_share: f64,
}

/// CPU time of one kind of connection or request, its server in full use.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlannedCost {
    pub name: String,
    pub cpu_us: PlannedFigure,
    pub samples: usize,
    /// Record, scenario and configuration, or the derivation.
    pub source: String,
    /// Whether it was measured; otherwise it was derived.
    pub is_measured: bool,
}

/// Number of hosts with one choice changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlannedChange {
    pub change: String,
    pub hosts: Option<u32>,
    pub busy_normal: f64,
    pub p99_ms: f64,
    pub note: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CacheChoice {
    pub entries: u64,
    pub bytes: u64,
    pub resumed_share: f64,
    /// CPU cores in full use, over all hosts.
    pub cores: f64,
}

/// A prediction, and the measurement that was kept from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ValidationRow {
    pub record: String,
    pub scenario: String,
    pub configuration: String,
    pub metric: String,
    pub predicted: f64,
    pub measured: f64,
    /// Least and greatest of the rounds.
    pub measured_range: (f64, f64),
    /// Share of the time in which the server was busy, 0 to 1.
    pub busy: f64,
    /// Predicted divided by measured, minus 1; for shares, the difference.
    pub error: f64,
    pub is_within: bool,
    /// Source of the prediction.
    pub from: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedRun {
    pub load: LoadRecord,
    pub moments: Vec<SimulatedMoment>,
    pub nodes: Vec<SimulatedNode>,
    /// The script as it was executed.
    pub script: Vec<String>,
    pub verdict: CollapseVerdict,
    /// Results of the farm and script with one thing changed.
    pub remedies: Vec<SimulatedRemedy>,
}

/// A second of the farm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedMoment {
    pub at_s: u64,
    pub nodes_up: u32,
    /// Share of the time in which a node was busy: the mean over nodes, and the greatest.
    pub busy_mean: f64,
    pub busy_max: f64,
    /// Connections that waited at the end of the second.
    pub waiting: u64,
    /// Share of clients that hold a session that the farm resumes.
    pub with_session: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedNode {
    pub node: u32,
    pub succeeded: u64,
    pub full: u64,
    pub resumed: u64,
    pub failed: u64,
    pub busy_mean: f64,
    pub busy_max: f64,
    pub seconds_down: u64,
    /// Share of CPU time that was spent on clients that had given up.
    pub wasted: f64,
}

/// Whether the farm served its clients again after the last event was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CollapseVerdict {
    /// Seconds in which more than one connection in a hundred failed.
    pub seconds_failing: u64,
    /// Failing seconds after all events were over: a failure that outlives its cause is metastable.
    pub seconds_after: u64,
    pub has_recovered: bool,
    /// Share of all connections that failed; each retry of a client counts.
    pub failed_share: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedRemedy {
    pub change: String,
    pub verdict: CollapseVerdict,
}
