//! Capacity of a farm of TLS terminators, reckoned from records.
//!
//! [`observation`] reads what records say of CPU time, [`cost`] makes costs of connections of it,
//! [`queue`] the tail of a worker by simulation, [`hosts`] a number of hosts, [`validation`] sets
//! predictions beside measurements. [`farm`] is the farm second by second, [`script`] what happens
//! to it. A [`PlanFault`] is why there is no answer.
//!
//! Pure: records in, answers out; chance comes from a seed. It knows no program under test: how
//! sessions are shared is modelled from measured figures ([`traffic`]), not imported.
#![forbid(unsafe_code)]

pub mod cost;
pub mod farm;
pub mod hosts;
pub mod observation;
pub mod queue;
pub mod script;
pub mod traffic;
pub mod validation;

/// The records or the question are at fault, and what would help.
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
    /// The remedy, for people.
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
