//! The settings of a load, as a scenario gives them, and the plan that they come to.
//!
//! The settings are those of `lariat-lab load`. The server, the CPUs and the duration are
//! the runner's to say: [`Launch`].

use std::net::SocketAddr;
use std::time::Duration;

use load::options::TABLE;
use load::options::rows::is_of_tls;
use load::plan::Plan;
use options::flags::{overlaid, parse, words};
use options::{Complaint, Entry, Node, Report, Spot, Value, quantity};
use serde::Deserialize;

use crate::load::files;

/// Settings that the runner gives.
pub(crate) const RESERVED: &str = "url connect source duration warm-up threads cpus record quiet find-capacity count \
                        start-at move-sessions";

#[derive(Clone, Debug)]
pub(crate) struct Settings(Node);

impl Default for Settings {
    fn default() -> Self {
        Self(Node::new(Value::Table(Vec::new()), Spot::Nowhere))
    }
}

/// What is offered, in multiples of what the target is capable of.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(
    untagged,
    expecting = "wanted is a multiple, or { from = 0.2, to = 1.5 }"
)]
pub(crate) enum Offered {
    Even(f64),
    /// A rate that goes evenly from one multiple to the other.
    Ramp(Ramp),
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ramp {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Whether TLS is spoken; else settings about TLS are left out.
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

impl Settings {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.entries().is_empty()
    }

    pub(crate) fn new(root: Node) -> Self {
        Self(root)
    }

    /// This, and what `over` says in its place; see [`overlaid`].
    pub(crate) fn overlaid(&self, over: &Self) -> Self {
        Self(overlaid(&self.0, &over.0, &TABLE))
    }

    fn only(&self, is_kept: impl Fn(&Entry) -> bool) -> Self {
        let entries = self.0.entries().iter();
        let kept = entries.filter(|entry| is_kept(entry)).cloned().collect();
        Self(Node::new(Value::Table(kept), Spot::Nowhere))
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        self.only(|entry| entry.key != name)
    }

    /// With this in place of what the setting was.
    pub(crate) fn with(&self, name: &str, text: &str) -> Self {
        self.overlaid(&Self(parse([(name, text)], &TABLE, &Report::new(None))))
    }

    /// Open load, at multiples of a rate that the target was found capable of.
    pub(crate) fn offering(self, offered: Offered, capacity_per_s: f64, time: Duration) -> Self {
        let rate = |multiple: f64| format!("{:.3}", (multiple * capacity_per_s).max(0.001));
        match offered {
            Offered::Even(multiple) => self.with("rate", &rate(multiple)),
            Offered::Ramp(Ramp { from, to }) => {
                let text = format!("{}:{}:{}", rate(from), rate(to), typed(time));
                self.with("ramp", &text)
            }
        }
    }

    /// What was typed for a setting, as one text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        Some(self.0.get(name)?.texts().join(","))
    }

    /// The plan of a load of that launch.
    ///
    /// # Errors
    /// All that contradicts, in words; what came from a scenario was checked when it was read.
    pub(crate) fn plan(&self, launch: &Launch) -> Result<Plan, Vec<Complaint>> {
        let report = Report::new(None);
        let root = self.at(launch).0;
        match load::options::read(&root, &files::read, &launch.cpus, &report) {
            None => Err(report.into_complaints()),
            Some((_, draft)) => draft
                .plan(vec![wire::address::Address::Ip(launch.address)])
                .map_err(|problem| vec![Complaint::error(Spot::Nowhere, problem)]),
        }
    }

    /// The command line that loads a server like that, with ADDRESS where it listens.
    pub(crate) fn command(&self, launch: &Launch) -> Vec<String> {
        // What only the runner's own host and moment decide stays out.
        let places = ["url", "connect", "threads", "cpus"];
        let whole = self.at(launch);
        let url = whole.text("url").unwrap_or_default();
        let whole = whole.only(|entry| !places.contains(&&*entry.key));
        let place = ["lariat-lab", "load", &url, "--connect", "ADDRESS"].map(str::to_owned);
        place.into_iter().chain(words(&whole.0, &TABLE)).collect()
    }

    fn at(&self, launch: &Launch) -> Self {
        let scheme = if launch.is_tls { "https" } else { "http" };
        let size = self.text("size").filter(|_| launch.is_of_files);
        let file = size.and_then(|text| quantity::size(&text));
        let path = file.map_or_else(String::new, |bytes| bytes.to_string());
        let cpus: Vec<_> = launch.cpus.iter().map(u16::to_string).collect();
        let is_of_tls = |entry: &Entry| TABLE.find(&entry.key).is_some_and(is_of_tls);
        let whole = self
            .only(|entry| launch.is_tls || !is_of_tls(entry))
            .only(|entry| file.is_none() || entry.key != "size")
            .with("url", &format!("{scheme}://{SERVER_NAME}/{path}"))
            .with("connect", &launch.address.to_string())
            .with("warm-up", &typed(launch.warm_up))
            .with("threads", &cpus.len().to_string())
            .with("cpus", &cpus.join(","));
        match whole.text("steps") {
            Some(_) => whole,
            None => whole.with("duration", &typed(launch.duration)),
        }
    }
}

/// A time as the table reads it.
pub(crate) fn typed(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}
