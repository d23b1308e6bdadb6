//! The result of `lariat-lab simulate`: a record of a load that was never made, and its farm.
//!
//! The clients' side has the form of a measured record, so that the same page shows it; its tool
//! and its first warning say that it is simulated.

use serde::Serialize;

use crate::record::LoadRecord;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedRun {
    pub load: LoadRecord,
    pub moments: Vec<SimulatedMoment>,
    pub nodes: Vec<SimulatedNode>,
    /// The script as it was carried out.
    pub script: Vec<String>,
    pub verdict: CollapseVerdict,
    /// The same farm and script with one thing changed.
    pub remedies: Vec<SimulatedRemedy>,
}

/// A second of the farm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedMoment {
    pub at_s: u64,
    pub nodes_up: u32,
    /// The share of its time that a node was busy: the mean and the greatest.
    pub busy_mean: f64,
    pub busy_max: f64,
    /// Connections that waited at its end.
    pub waiting: u64,
    /// The share of clients that hold a session that the farm resumes.
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
    /// The share of its CPU time that went to clients that had given up.
    pub wasted: f64,
}

/// Whether the farm served its clients again after the last event was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CollapseVerdict {
    /// Seconds in which more than one connection in a hundred failed.
    pub seconds_failing: u64,
    /// The same after all events were over: a failure that outlives its cause is metastable.
    pub seconds_after: u64,
    pub has_recovered: bool,
    /// The share of all connections that failed, tries of the same client counted each.
    pub failed_share: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SimulatedRemedy {
    pub change: String,
    pub verdict: CollapseVerdict,
}
