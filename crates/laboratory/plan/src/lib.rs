//! Computes the capacity of a farm of TLS terminators from records.
//!
//! [`observation`] reads CPU time from records, [`cost`] derives costs of connections, [`queue`]
//! simulates the tail of a worker, [`hosts`] computes a number of hosts, [`validation`] compares
//! predictions with measurements. [`farm`] simulates the farm second by second, [`script`] its
//! events. A [`PlanFault`] is the reason why there is no answer.
//!
//! Pure: records in, answers out; random numbers come from a seed. The crate knows no program under
//! test: sharing of sessions is modelled from measured figures ([`traffic`]), not imported.
#![forbid(unsafe_code)]

pub mod cost;
pub mod farm;
pub mod hosts;
pub mod observation;
pub mod queue;
pub mod script;
pub mod traffic;
pub mod validation;

/// The fault of the records or the question, and a remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanFault {
    #[error("no record says what {what} costs {target}")]
    NoCost { target: String, what: String, remedy: String },
    #[error("no record has a measurement of {0}")]
    NoTarget(String),
    #[error(
        "{resumed:.0} % resumed cannot be: {most:.0} % of clients return within a session's lifetime"
    )]
    TooFewReturn { resumed: f64, most: f64 },
    #[error("the script's line `{0}` is not understood")]
    Script(String),
    #[error("the script's line `{line}` {why}")]
    Meaning { line: String, why: String },
}

impl PlanFault {
    /// Returns the remedy, for people.
    pub fn hint(&self) -> String {
        match self {
            Self::NoCost { remedy, .. } => remedy.clone(),
            Self::NoTarget(_) => "`lariat-lab run terminate part-load idle` measures the programs \
                                  of --targets; name its record with --record"
                .to_owned(),
            Self::TooFewReturn { .. } => "take fewer --clients, a longer --session-lifetime, or \
                                          leave --resumed out: it is reckoned then"
                .to_owned(),
            Self::Script(_) => "for example: `10m lose 1 for 2m`, `1h roll 30s`, `5m load 2x for \
                                10m`, `5m return 80% in 10s`, `5m store away for 1m`, `5m \
                                partition for 1m`, `5m forget 100%`, `5m reload 20% for 2s`"
                .to_owned(),
            Self::Meaning { .. } => "docs/planning.md explains each event".to_owned(),
        }
    }
}
