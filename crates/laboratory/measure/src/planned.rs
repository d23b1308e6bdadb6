//! The answer of `lariat-lab plan`: hosts, what binds, and where each figure comes from.
//!
//! Durations are microseconds or milliseconds by their names; shares are 0 to 1.

use serde::Serialize;

use crate::record::{RunWarning, Tool};

/// A figure with the bounds within which 95 % of resamples lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PlannedFigure {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FarmPlan {
    pub tool: Tool,
    /// The command line that repeats it, a word an entry.
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
    /// Hosts in all, those that may be lost included; `None` where no number of them is enough.
    pub hosts: Option<PlannedFigure>,
    /// The resource that decides the number, or the reason why there is none.
    pub binds: String,
    /// The greatest share of its time that a worker may be busy and keep the limit.
    pub busy_limit: f64,
    pub days: Vec<PlannedDay>,
    /// Memory, descriptors, bandwidth of each host on the worst day, beside what there is.
    pub resources: Vec<PlannedResource>,
    pub costs: Vec<PlannedCost>,
    pub changes: Vec<PlannedChange>,
    pub cache: Vec<CacheChoice>,
    pub warnings: Vec<RunWarning>,
}

/// All hosts there, or some of them lost.
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
    /// How much is used, with its unit.
    pub used: String,
    /// How much there is, with its unit.
    pub limit: String,
    pub used_share: f64,
}

/// CPU time of one kind of connection or request, its server in full use.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlannedCost {
    pub name: String,
    pub cpu_us: PlannedFigure,
    pub samples: usize,
    /// The record, scenario and configuration, or the reckoning.
    pub source: String,
    /// Whether it was measured so; else it was derived.
    pub is_measured: bool,
}

/// The hosts with one choice changed.
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
    /// CPU of all hosts, cores in full use.
    pub cores: f64,
}

/// A prediction beside the measurement that it did not see.
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
    /// How busy the server was, 0 to 1.
    pub busy: f64,
    /// Predicted to measured, less 1; of shares, the difference.
    pub error: f64,
    pub is_within: bool,
    /// The origin of the prediction.
    pub from: String,
}
