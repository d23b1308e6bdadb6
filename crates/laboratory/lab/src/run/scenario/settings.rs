//! Describes a configuration for its measurement: settings of the load and of the server, and the
//! negotiation that is expected.

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

/// Settings that the runner sets.
pub(crate) const RESERVED: &str = "url connect source duration warm-up threads cpus record quiet find-capacity count \
                        start-at move-sessions";

#[derive(Clone, Debug)]
pub(crate) struct ConfigurationSettings(pub(crate) Node);

/// Checks only that this is a table: entries are read with their places, which serde lacks.
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
    /// A rate that changes linearly from one multiple to the other.
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
    /// Whether the server speaks TLS; if not, settings about TLS are dropped and handshakes are not
    /// checked.
    pub(crate) is_tls: bool,
    /// Whether objects are files, named by their number of bytes.
    pub(crate) is_of_files: bool,
    pub(crate) address: SocketAddr,
    /// CPUs of the load, a thread on each.
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

    /// Returns these settings with those of `over` in their place; see [`overlaid`].
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

    /// Sets one setting.
    pub(crate) fn with(&self, name: &str, text: &str) -> Self {
        self.overlaid(&Self(parse([(name, text)], &TABLE, &Report::new(None))))
    }

    /// Makes the load open, at multiples of the measured capacity.
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

    /// Makes the plan of a load of that launch.
    ///
    /// # Errors
    /// Fails with all contradictions, in words; settings of scenarios were checked before.
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

    /// Returns the command line that makes this load, with ADDRESS for the server's address.
    pub(crate) fn command(&self, launch: &LaunchSettings) -> Vec<String> {
        // Settings that depend on the runner's host and moment are left out.
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

/// Expected results; a measurement with others is void. Missing fields are not checked.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Expect {
    /// Kinds of handshake: no others, and each of these at least once.
    pub(crate) kinds: Option<Vec<Kind>>,
    /// Version of every handshake, `TLSv1.2` or `TLSv1.3`.
    pub(crate) version: Option<String>,
    /// Suite of every handshake, by its standard name.
    pub(crate) suite: Option<String>,
    /// Group of every handshake that exchanged keys.
    pub(crate) group: Option<String>,
    /// Scheme of the server's signature in every handshake that had one.
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
    /// Returns these expectations with those of `over` in their place.
    pub(crate) fn overlaid(self, over: Self) -> Self {
        macro_rules! overlaid {
            ($($key:ident)*) => { Self { $($key: over.$key.or(self.$key),)* } };
        }
        overlaid!(kinds version suite group signature resumed origin_resumed error_rate)
    }
}

/// A target at one choice of values, with everything that its measurement needs.
#[derive(Clone, Debug)]
pub(crate) struct PlannedConfiguration {
    pub(crate) scenario: String,
    pub(crate) configuration: Configuration,
    /// Name of the server: the target, or the server that a client under test loads.
    pub(crate) server: String,
    /// Target behind the server; `None` if it is the laboratory's own test server.
    pub(crate) origin: Option<String>,
    pub(crate) spec: ServerSpec,
    pub(crate) load: PlannedLoad,
    /// Launch settings with a placeholder address and CPUs.
    pub(crate) launch: LaunchSettings,
    pub(crate) expect: Expect,
    pub(crate) repeats: u32,
    /// Full handshakes before the load, which fill the server's session cache.
    pub(crate) fill: u64,
    /// Whether the server is asked to reload its configuration after the load.
    pub(crate) reloads: bool,
    /// Time of a node's death, from the end of the warm-up.
    pub(crate) lose_node: Option<Duration>,
}

/// Time of a measurement besides its load: the server's start and end, a probe, a rest.
const OVERHEAD: Duration = Duration::from_millis(700);

/// Approximate time of a full handshake that fills a session cache.
const FILL_US: u64 = 300;

impl PlannedConfiguration {
    /// Estimates the duration of one measurement.
    pub(crate) fn estimate(&self) -> Duration {
        // Transactions planned beyond a server's capacity are answered, or given up, later.
        let of_capacity = self.load.capacity.as_ref();
        let of_capacity = of_capacity.map(|plan| plan.duration + self.launch.warm_up * 2);
        let load = self.launch.duration + of_capacity.unwrap_or_default();
        OVERHEAD + self.launch.warm_up + load + Duration::from_micros(self.fill * FILL_US)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PlannedLoad {
    /// Settings of the load, without those that the runner sets.
    pub(crate) settings: ConfigurationSettings,
    /// Program that makes the load instead of `lariat-lab`: a target with the role of a client.
    pub(crate) program: Option<String>,
    /// The capacity of which an open load is a multiple.
    pub(crate) capacity: Option<CapacityPlan>,
    /// Settings of a load in the background.
    pub(crate) background: Option<ConfigurationSettings>,
}

/// A load that is a multiple of the target's capacity.
#[derive(Clone, Debug)]
pub(crate) struct CapacityPlan {
    /// Settings of the closed load that measures the capacity.
    pub(crate) settings: ConfigurationSettings,
    pub(crate) duration: Duration,
    pub(crate) offered: OfferedLoad,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) program: &'a Path,
    pub(crate) folder: &'a Path,
    /// Address and port of the server.
    pub(crate) address: &'a str,
    /// File with the certificates of the servers' authorities, PEM.
    pub(crate) authorities: &'a Path,
    pub(crate) spec: &'a ServerSpec,
}

impl PlannedLoad {
    /// Returns values for the templates of the program.
    pub(crate) fn values<'a>(&self, call: Call<'a>, launch: &LaunchSettings) -> ClientValues<'a> {
        let text = |name| self.settings.text(name);
        let size = text("size").and_then(|text| quantity::size(&text));
        let path = match size {
            Some(size) if launch.is_of_files => format!("/{size}"),
            Some(size) => format!("/?size={size}"),
            None => "/".to_owned(),
        };
        let scheme = if launch.is_tls { "https" } else { "http" };
        // A warm-up would be missing in its own counts, but not in the server's.
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

/// Words before the flags of a load: `lariat-lab load URL --connect ADDRESS`.
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
