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
    /// The scenario's name.
    pub(crate) scenario: String,
    /// As the record tells it: key, target, values, and why it is not tried, if it is not.
    pub(crate) configuration: Configuration,
    /// The server: the target, or what clients under test load.
    pub(crate) server: String,
    /// What the server is asked to be.
    pub(crate) spec: ServerSpec,
    /// Whether the server speaks TLS; where it does not, nothing is expected of handshakes.
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
    /// Full handshakes before, which fill the server's session cache.
    pub(crate) fill: u64,
    /// Whether the server is asked to read its configuration again, after the load.
    pub(crate) reloads: bool,
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

/// What loads a server.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    /// Ours, in this process.
    Load(Loading),
    /// Another program.
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

/// A load that another program makes.
#[derive(Clone, Debug)]
pub(crate) struct ProgramLoad {
    /// The program: a target with the role of a client.
    pub(crate) client: String,
    /// What it is to do, as settings of our own load.
    pub(crate) settings: Settings,
}

/// Where a program is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The program's file.
    pub(crate) program: &'a Path,
    /// Its own folder.
    pub(crate) folder: &'a Path,
    /// The server's address and port.
    pub(crate) address: &'a str,
    /// What the server was asked to be.
    pub(crate) spec: &'a ServerSpec,
}

impl ProgramLoad {
    /// What the templates of the program may use.
    pub(crate) fn values<'a>(&self, call: Call<'a>, launch: &Launch) -> ClientValues<'a> {
        let text = |name| self.settings.text(name);
        let size = text("size").and_then(|text| quantity::size(&text));
        let path = size.map_or_else(|| "/".to_owned(), |size| format!("/?size={size}"));
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

/// `lariat-lab load URL --connect ADDRESS`: what stands before the flags of a load.
const PLACE_WORDS: usize = 5;
