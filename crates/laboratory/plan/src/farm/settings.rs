//! A farm before anything happens to it.

use crate::traffic::Sharing;

/// How often clients try again, and how soon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    pub most: u32,
    /// Whether each wait is twice as long as the one before; else each is a second.
    pub backs_off: bool,
}

#[derive(Clone, Debug)]
pub struct FarmSettings {
    pub nodes: u32,
    /// Cores of each node, as many of one worker's speed.
    pub cores: f64,
    /// CPU time of a connection in full use.
    pub full_s: f64,
    pub resumed_s: f64,
    pub connections_per_s: f64,
    pub clients: u64,
    /// The share of connections, every session known where it is offered.
    pub resumed_share: f64,
    pub sharing: Sharing,
    /// Whether the balancer brings a session to the node that made it.
    pub has_affinity: bool,
    /// How long a client waits before it gives up.
    pub patience_s: f64,
    pub retry: RetryPolicy,
    /// Whether a node refuses those that waited too long and serves the latest first; else it
    /// serves all in turn, those that are gone as well.
    pub sheds: bool,
    /// How long the balancer sends clients to a node that is dead.
    pub detection_s: f64,
    /// Sessions that peers never get, 0 to 1.
    pub lost_share: f64,
    /// Connections that wait at a node at most.
    pub connections_max: u64,
    pub duration_s: u64,
    pub seed: u64,
    /// Busy shares by work, each hundredth from 0 to 1; empty where they are the same.
    pub busy_by_work: Vec<f64>,
    /// Median, 95th and 99th percentile of responses by work, evenly from 0 to 1.
    pub quantiles_s: Vec<[f64; 3]>,
}

impl RetryPolicy {
    /// The waits after the attempt of that number failed, each with its part of the clients.
    pub(super) fn waits(self, attempt: usize, count: u64) -> [(f64, u64); 2] {
        if !self.backs_off {
            return [(1.0, count), (1.0, 0)];
        }
        // Half of them wait half as long again: clients do not keep step.
        let wait = f64::from(1u32 << attempt.min(6));
        [(wait, count / 2), (wait * 1.5, count - count / 2)]
    }
}

impl FarmSettings {
    pub(super) fn busy_at(&self, work: f64) -> f64 {
        let place = (work * 100.0).round().min(100.0) as usize;
        self.busy_by_work.get(place).copied().unwrap_or_else(|| work.min(1.0))
    }

    pub(super) fn quantiles_at(&self, work: f64) -> [f64; 3] {
        let last = self.quantiles_s.len().saturating_sub(1);
        let place = (work.min(1.0) * last as f64).round() as usize;
        self.quantiles_s.get(place).copied().unwrap_or_default()
    }
}
