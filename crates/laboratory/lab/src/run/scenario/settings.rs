//! A configuration as it is measured: settings of the load, of the server, and what it is expected
//! to negotiate.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use load::options::TABLE;
use load::options::written::is_of_tls;
use load::plan::LoadPlan;
use measure::choice::Kind;
use measure::experiment::Configuration;
use options::flags::{overlaid, parse, words};
use options::{Complaint, Entry, Node, RawLocation, Report, Value, quantity};
use serde::{Deserialize, Deserializer};

use crate::load::read;
use crate::process::cpu_list;
use crate::targets::form::ServerSpec;
use crate::targets::templates::{ClientValues, TemplateTls};

/// Settings that the runner gives.
pub(crate) const RESERVED: &str = "url connect source duration warm-up threads cpus record quiet find-capacity count \
                        start-at move-sessions";

#[derive(Clone, Debug)]
pub(crate) struct ConfigurationSettings(pub(crate) Node);

/// Checks that it is a table: its entries are read with their places, which serde does not know.
impl<'de> Deserialize<'de> for ConfigurationSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        toml::Table::deserialize(deserializer).map(|_| Self::default())
    }
}

impl Default for ConfigurationSettings {
    fn default() -> Self {
        Self(Node::new(Value::Table(Vec::new()), RawLocation::Nowhere))
    }
}

/// The offered rate, in multiples of the target's capacity.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(untagged, expecting = "wanted is a multiple, or { from = 0.2, to = 1.5 }")]
pub(crate) enum OfferedLoad {
    Even(f64),
    /// A rate that goes evenly from one multiple to the other.
    Ramp(RampSettings),
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct RampSettings {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct LaunchSettings {
    /// Whether the server speaks TLS; else settings about TLS are left out, and nothing is expected
    /// of handshakes.
    pub(crate) is_tls: bool,
    /// Whether objects are files, named by their number of bytes.
    pub(crate) is_of_files: bool,
    pub(crate) address: SocketAddr,
    /// A thread of the load on each.
    pub(crate) cpus: Vec<u16>,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
}

/// The name in the certificates of the laboratory.
pub(crate) const SERVER_NAME: &str = "localhost";

impl ConfigurationSettings {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.entries().is_empty()
    }

    /// This, and what `over` says in its place; see [`overlaid`].
    pub(crate) fn overlaid(&self, over: &Self) -> Self {
        Self(overlaid(&self.0, &over.0, &TABLE))
    }

    fn only(&self, is_kept: impl Fn(&Entry) -> bool) -> Self {
        let kept = self.0.entries().iter().filter(|entry| is_kept(entry)).cloned().collect();
        Self(Node::new(Value::Table(kept), RawLocation::Nowhere))
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        self.only(|entry| entry.key != name)
    }

    /// With this in place of what the setting was.
    pub(crate) fn with(&self, name: &str, text: &str) -> Self {
        self.overlaid(&Self(parse([(name, text)], &TABLE, &Report::new(None))))
    }

    /// Open load, at multiples of a rate that the target was found capable of.
    pub(crate) fn offering(
        self,
        offered: OfferedLoad,
        capacity_per_s: f64,
        time: Duration,
    ) -> Self {
        let rate = |multiple: f64| format!("{:.3}", (multiple * capacity_per_s).max(0.001));
        match offered {
            OfferedLoad::Even(multiple) => self.with("rate", &rate(multiple)),
            OfferedLoad::Ramp(RampSettings { from, to }) => {
                self.with("ramp", &format!("{}:{}:{}", rate(from), rate(to), typed(time)))
            }
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        Some(self.0.get(name)?.texts().join(","))
    }

    /// The plan of a load of that launch.
    ///
    /// # Errors
    /// All that contradicts, in words; what came from a scenario was checked when it was read.
    pub(crate) fn plan(&self, launch: &LaunchSettings) -> Result<LoadPlan, Vec<Complaint>> {
        let report = Report::new(None);
        let root = self.at(launch).0;
        match load::options::read(&root, &read, &launch.cpus, &report) {
            None => Err(report.into_complaints()),
            Some((_, draft)) => draft
                .plan(vec![wire::address::Address::Ip(launch.address)])
                .map_err(|problem| vec![Complaint::error(RawLocation::Nowhere, problem)]),
        }
    }

    /// The command line that loads a server like that, with ADDRESS where it listens.
    pub(crate) fn command(&self, launch: &LaunchSettings) -> Vec<String> {
        // What only the runner's own host and moment decide stays out.
        let places = ["url", "connect", "threads", "cpus"];
        let whole = self.at(launch);
        let url = whole.text("url").unwrap_or_default();
        let whole = whole.only(|entry| !places.contains(&&*entry.key));
        let place = ["lariat-lab", "load", &url, "--connect", "ADDRESS"].map(str::to_owned);
        place.into_iter().chain(words(&whole.0, &TABLE)).collect()
    }

    fn at(&self, launch: &LaunchSettings) -> Self {
        let scheme = if launch.is_tls { "https" } else { "http" };
        let size = self.text("size").filter(|_| launch.is_of_files);
        let file = size.and_then(|text| quantity::size(&text));
        let path = file.map_or_else(String::new, |bytes| bytes.to_string());
        let is_of_tls = |entry: &Entry| TABLE.find(&entry.key).is_some_and(is_of_tls);
        let whole = self
            .only(|entry| launch.is_tls || !is_of_tls(entry))
            .only(|entry| file.is_none() || entry.key != "size")
            .with("url", &format!("{scheme}://{SERVER_NAME}/{path}"))
            .with("connect", &launch.address.to_string())
            .with("warm-up", &typed(launch.warm_up))
            .with("threads", &launch.cpus.len().to_string())
            .with("cpus", &cpu_list(&launch.cpus));
        match whole.text("steps") {
            Some(_) => whole,
            None => whole.with("duration", &typed(launch.duration)),
        }
    }
}

pub(crate) fn typed(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// A measurement of anything else is void. What is not named is not checked.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Expect {
    /// No handshake of another kind, and at least one of each of these.
    pub(crate) kinds: Option<Vec<Kind>>,
    /// `TLSv1.2` or `TLSv1.3`, of every handshake.
    pub(crate) version: Option<String>,
    /// The suite of every handshake, by its standard name.
    pub(crate) suite: Option<String>,
    /// The group of every handshake that exchanged keys.
    pub(crate) group: Option<String>,
    /// The scheme of the server's signature in every handshake that had one.
    pub(crate) signature: Option<String>,
    pub(crate) resumed: Option<ShareBounds>,
    /// Resumed share of the connections to an origin that speaks TLS.
    pub(crate) origin_resumed: Option<ShareBounds>,
    pub(crate) error_rate: Option<ShareBounds>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShareBounds {
    #[serde(default)]
    pub(crate) least: f64,
    #[serde(default = "whole")]
    pub(crate) most: f64,
}

fn whole() -> f64 {
    1.0
}

impl ShareBounds {
    pub(crate) fn holds(self, share: f64) -> bool {
        (self.least..=self.most).contains(&share)
    }
}

impl Expect {
    /// This, and what `over` says in its place.
    pub(crate) fn overlaid(self, over: Self) -> Self {
        macro_rules! overlaid {
            ($($key:ident)*) => { Self { $($key: over.$key.or(self.$key),)* } };
        }
        overlaid!(kinds version suite group signature resumed origin_resumed error_rate)
    }
}

/// A target under one choice of values, with all that is needed to measure it.
#[derive(Clone, Debug)]
pub(crate) struct PlannedConfiguration {
    pub(crate) scenario: String,
    pub(crate) configuration: Configuration,
    /// The server: the target, or what clients under test load.
    pub(crate) server: String,
    /// The target behind it; `None`: the laboratory's own test server.
    pub(crate) origin: Option<String>,
    pub(crate) spec: ServerSpec,
    pub(crate) load: PlannedLoad,
    /// With an address and CPUs that stand for those of the run.
    pub(crate) launch: LaunchSettings,
    pub(crate) expect: Expect,
    pub(crate) repeats: u32,
    /// Full handshakes before, which fill the server's session cache.
    pub(crate) fill: u64,
    /// Whether the server is asked to read its configuration again, after the load.
    pub(crate) reloads: bool,
    /// When a node of it dies, from the end of the warm-up.
    pub(crate) lose_node: Option<Duration>,
}

/// Time of a measurement beside its load: the server's start and end, a probe, a rest.
const OVERHEAD: Duration = Duration::from_millis(700);

/// A full handshake that fills a session cache, about.
const FILL_US: u64 = 300;

impl PlannedConfiguration {
    /// How long one measurement takes, about.
    pub(crate) fn estimate(&self) -> Duration {
        // What is planned beyond a server's capacity is answered, or given up, later.
        let of_capacity = self.load.capacity.as_ref();
        let of_capacity = of_capacity.map(|plan| plan.duration + self.launch.warm_up * 2);
        let load = self.launch.duration + of_capacity.unwrap_or_default();
        OVERHEAD + self.launch.warm_up + load + Duration::from_micros(self.fill * FILL_US)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PlannedLoad {
    /// The load's settings, without those that the runner gives.
    pub(crate) settings: ConfigurationSettings,
    /// The program that makes it in place of ours: a target with the role of a client.
    pub(crate) program: Option<String>,
    /// The capacity of an open load at a multiple of it.
    pub(crate) capacity: Option<CapacityPlan>,
    /// The settings of a load that goes on meanwhile.
    pub(crate) background: Option<ConfigurationSettings>,
}

/// Load that is a multiple of the target's capacity.
#[derive(Clone, Debug)]
pub(crate) struct CapacityPlan {
    /// The closed load that measures the capacity.
    pub(crate) settings: ConfigurationSettings,
    pub(crate) duration: Duration,
    pub(crate) offered: OfferedLoad,
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

impl PlannedLoad {
    /// Values that the templates of the program may use.
    pub(crate) fn values<'a>(&self, call: Call<'a>, launch: &LaunchSettings) -> ClientValues<'a> {
        let text = |name| self.settings.text(name);
        let size = text("size").and_then(|text| quantity::size(&text));
        let path = match size {
            Some(size) if launch.is_of_files => format!("/{size}"),
            Some(size) => format!("/?size={size}"),
            None => "/".to_owned(),
        };
        let scheme = if launch.is_tls { "https" } else { "http" };
        // Its own counts would leave a warm-up out, and the server's would not.
        let at_once = LaunchSettings { warm_up: Duration::ZERO, ..launch.clone() };
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
            tls: TemplateTls::from(call.spec),
        }
    }
}

/// `lariat-lab load URL --connect ADDRESS`: the words before the flags of a load.
const PLACE_WORDS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_later_replaces() {
        let parsed = |text| toml::from_str::<Expect>(text).unwrap();
        let base = parsed("kinds = [\"full\"]\nversion = \"TLSv1.3\"\nresumed = { most = 0.0 }");
        let over = parsed("kinds = [\"session-id\"]\nresumed = { least = 0.9 }");
        let both = base.overlaid(over);
        assert_eq!(both.kinds, Some(vec![Kind::SessionId]));
        assert_eq!(both.version.as_deref(), Some("TLSv1.3"));
        let share = both.resumed.unwrap();
        assert!(share.holds(0.9) && share.holds(1.0) && !share.holds(0.89));
    }
}
