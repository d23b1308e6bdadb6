//! A configuration, ready to be measured.

use std::path::Path;
use std::time::Duration;

use measure::experiment::Configuration;
use options::quantity;

use super::expect::Expect;
use super::settings::{Launch, Offered, Settings};
use crate::target::server_spec::ServerSpec;
use crate::target::templates::{ClientValues, Tls};

/// A target under one choice of values, with all that is needed to measure it.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) scenario: String,
    pub(crate) configuration: Configuration,
    /// The server: the target, or what clients under test load.
    pub(crate) server: String,
    /// The target behind it; `None`: the laboratory's own test server.
    pub(crate) origin: Option<String>,
    pub(crate) spec: ServerSpec,
    /// Whether the server speaks TLS; where it does not, nothing is expected of handshakes.
    pub(crate) is_tls: bool,
    /// Whether it answers from files.
    pub(crate) is_of_files: bool,
    pub(crate) client: Client,
    pub(crate) expect: Expect,
    pub(crate) repeats: u32,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// Full handshakes before, which fill the server's session cache.
    pub(crate) fill: u64,
    /// Whether the server is asked to read its configuration again, after the load.
    pub(crate) reloads: bool,
    /// When a node of it dies, from the end of the warm-up.
    pub(crate) lose_node: Option<Duration>,
}

/// What a measurement takes beside its load: the server's start and end, a probe, a rest.
const OVERHEAD: Duration = Duration::from_millis(700);

/// A full handshake that fills a session cache, about.
const FILL_US: u64 = 300;

impl Planned {
    /// How long one measurement takes, about.
    pub(crate) fn estimate(&self) -> Duration {
        let load = match &self.client {
            Client::Load(Loading { capacity: None, .. }) => self.duration,
            // What is planned beyond a server's capacity is answered, or given up, later.
            Client::Load(Loading {
                capacity: Some(plan),
                ..
            }) => self.duration + plan.duration + self.warm_up * 2,
            Client::Program(_) => self.duration,
        };
        OVERHEAD + self.warm_up + load + Duration::from_micros(self.fill * FILL_US)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Client {
    Load(Loading),
    Program(ProgramLoad),
}

impl Client {
    /// The name of the program that makes the load in place of ours.
    pub(crate) fn program(&self) -> Option<&str> {
        match self {
            Self::Load(_) => None,
            Self::Program(load) => Some(&load.client),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Loading {
    /// Its settings, without those that the runner gives.
    pub(crate) settings: Settings,
    /// Of open load at a multiple of the target's capacity.
    pub(crate) capacity: Option<CapacityPlan>,
    /// The settings of a load that goes on meanwhile.
    pub(crate) background: Option<Settings>,
}

/// Load that is a multiple of the target's capacity.
#[derive(Clone, Debug)]
pub(crate) struct CapacityPlan {
    /// The closed load that measures the capacity.
    pub(crate) settings: Settings,
    pub(crate) duration: Duration,
    pub(crate) offered: Offered,
}

#[derive(Clone, Debug)]
pub(crate) struct ProgramLoad {
    /// The program: a target with the role of a client.
    pub(crate) client: String,
    pub(crate) settings: Settings,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) program: &'a Path,
    pub(crate) folder: &'a Path,
    /// The server's address and port.
    pub(crate) address: &'a str,
    /// The certificates of the authorities of servers, PEM.
    pub(crate) authorities: &'a Path,
    pub(crate) spec: &'a ServerSpec,
}

impl ProgramLoad {
    /// What the templates of the program may use.
    pub(crate) fn values<'a>(&self, call: Call<'a>, launch: &Launch) -> ClientValues<'a> {
        let text = |name| self.settings.text(name);
        let size = text("size").and_then(|text| quantity::size(&text));
        let path = match size {
            Some(size) if launch.is_of_files => format!("/{size}"),
            Some(size) => format!("/?size={size}"),
            None => "/".to_owned(),
        };
        let scheme = if launch.is_tls { "https" } else { "http" };
        // Its own counts would leave a warm-up out, and the server's would not.
        let at_once = Launch {
            warm_up: Duration::ZERO,
            ..launch.clone()
        };
        let flags = self.settings.without("size").command(&at_once);
        ClientValues {
            program: call.program,
            folder: call.folder,
            url: format!("{scheme}://{}{path}", call.address),
            path,
            address: call.address,
            authorities: call.authorities,
            is_tls: launch.is_tls,
            seconds: launch.duration.as_secs_f64().ceil() as u64,
            connections: text("connections").map_or(1, |text| text.parse().unwrap_or(1)),
            handshake: text("handshake").unwrap_or_else(|| "full".to_owned()),
            is_kept: text("requests-per-connection").is_some_and(|text| text != "1"),
            load_flags: flags.into_iter().skip(PLACE_WORDS).collect(),
            tls: Tls::from(call.spec),
        }
    }
}

/// `lariat-lab load URL --connect ADDRESS`: the words before the flags of a load.
const PLACE_WORDS: usize = 5;
