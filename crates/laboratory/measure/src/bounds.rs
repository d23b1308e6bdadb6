//! Checks bounds that a whole load must keep, for scripts that stop if one does not hold.

use std::fmt;

use crate::capacity::percent;
use crate::quantity::{Nanoseconds, RoundedCount};
use crate::record::LoadRecord;

/// A figure of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadFigure {
    /// Mean response time of successful transactions, in nanoseconds.
    Mean,
    /// Response time that this share (0 to 1) of all responses does not exceed, in nanoseconds.
    Quantile(f64),
    /// Failed transactions divided by attempted ones, 0 to 1.
    ErrorRate,
    /// Resumed handshakes divided by all, 0 to 1.
    Resumed,
    /// Successful transactions per second.
    Rate,
}

/// A bound that a figure of a load stays below, or above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadBound {
    pub figure: LoadFigure,
    pub is_below: bool,
    pub bound: f64,
}

impl LoadBound {
    /// Returns the actual figure if it breaks its bound: for a message, without a full stop.
    pub fn unmet(&self, record: &LoadRecord) -> Option<String> {
        let found = self.figure.of(record);
        let is_kept =
            found.is_some_and(
                |found| if self.is_below { found < self.bound } else { found > self.bound },
            );
        let found = || match found {
            Some(found) => self.figure.shown(found),
            None => "not known, since nothing succeeded".to_owned(),
        };
        (!is_kept).then(|| format!("{} is {}, expected: {self}", self.figure, found()))
    }
}

impl LoadFigure {
    /// Reads the figure; `None` if the record has no transaction or handshake for it.
    fn of(self, record: &LoadRecord) -> Option<f64> {
        let totals = record.totals;
        let latency = || Some(record.total_latency()).filter(|all| !all.is_empty());
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        match self {
            Self::Mean => latency().map(|all| all.mean_ns()),
            Self::Quantile(share) => latency().map(|all| all.quantile_ns(share) as f64),
            Self::ErrorRate => share(totals.failed, totals.attempted),
            Self::Resumed => {
                let resumed = record.seconds.iter().map(|second| second.resumed).sum::<u64>();
                let full = record.seconds.iter().map(|second| second.full).sum::<u64>();
                share(resumed, resumed + full)
            }
            Self::Rate => share(totals.succeeded, record.elapsed_ns).map(|rate| rate * 1e9),
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Mean | Self::Quantile(_) => Nanoseconds(value).to_string(),
            Self::ErrorRate | Self::Resumed => format!("{} %", percent(value)),
            Self::Rate => format!("{}/s", RoundedCount(value)),
        }
    }
}

impl fmt::Display for LoadFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Quantile(share) => write!(f, "p{}", percent(*share)),
            Self::ErrorRate => f.write_str("error-rate"),
            Self::Resumed => f.write_str("resumed"),
            Self::Rate => f.write_str("rate"),
        }
    }
}

impl fmt::Display for LoadBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_below { "<" } else { ">" };
        write!(f, "{sign} {}", self.figure.shown(self.bound))
    }
}
