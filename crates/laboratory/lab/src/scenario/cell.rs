//! A cell, ready to be measured.

use std::time::Duration;

use measure::experiment::Configuration;
use serde::Deserialize;

use super::expect::Expect;
use super::settings::{Offered, Settings};
use crate::target::server_spec::ServerSpec;

/// A target under one choice of levels, with all that is needed to measure it.
#[derive(Clone, Debug)]
pub(crate) struct CellPlan {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// As the record tells it: key, target, levels, and why it is not tried, if it is not.
    pub(crate) cell: Configuration,
    /// What the server is asked to be.
    pub(crate) spec: ServerSpec,
    /// Whether the target speaks TLS; where it does not, nothing is expected of handshakes.
    pub(crate) is_tls: bool,
    /// What loads it.
    pub(crate) client: Client,
    /// Void unless.
    pub(crate) expect: Expect,
    /// How often it is read.
    pub(crate) repeats: u32,
    /// Load before the figures begin.
    pub(crate) warm_up: Duration,
    /// Load for the figures.
    pub(crate) duration: Duration,
}

/// What a reading takes beside its load: the server's start and end, a probe, a rest.
const OVERHEAD: Duration = Duration::from_millis(700);

impl CellPlan {
    /// How long one reading takes, about.
    pub(crate) fn estimate(&self) -> Duration {
        let load = match &self.client {
            Client::Load(Loading { capacity: None, .. }) => self.duration,
            // What is planned beyond a server's capacity is answered, or given up, later.
            Client::Load(Loading {
                capacity: Some(plan),
                ..
            }) => self.duration + plan.duration + self.warm_up * 2,
            Client::Program(program) => self.duration * program.runs,
        };
        OVERHEAD + self.warm_up + load
    }
}

/// What loads a server.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    /// Ours, in this process.
    Load(Loading),
    /// Another program.
    Program(ProgramClient),
}

/// A load of ours.
#[derive(Clone, Debug)]
pub(crate) struct Loading {
    /// Its settings, without those that the runner gives.
    pub(crate) settings: Settings,
    /// Open load at a multiple of what the target is capable of, if it is that.
    pub(crate) capacity: Option<CapacityPlan>,
}

/// Load that is a multiple of what the target is capable of.
#[derive(Clone, Debug)]
pub(crate) struct CapacityPlan {
    /// The closed load that finds out what it is capable of, in this run.
    pub(crate) settings: Settings,
    /// For how long.
    pub(crate) duration: Duration,
    /// What is offered then.
    pub(crate) offered: Offered,
}

/// A program that fetches one thing and says how long it took.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramClient {
    /// The program's name, to be found in PATH.
    pub(crate) program: String,
    /// Debian's package of it.
    pub(crate) package: String,
    /// `{url}` stands for what is to be fetched.
    pub(crate) arguments: Vec<String>,
    /// The path and query of the URL.
    pub(crate) path: String,
    /// What it prints, in this order, with white space between.
    pub(crate) output: Vec<Output>,
    /// How often it is started for one reading, one after the other.
    pub(crate) runs: u32,
}

/// A number that a program prints.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Output {
    /// Bytes of the body.
    Bytes,
    /// Seconds that it took.
    Seconds,
}
