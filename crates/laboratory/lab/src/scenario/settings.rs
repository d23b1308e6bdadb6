//! The settings of a load, as a scenario gives them, and the plan that they come to.
//!
//! The settings are those of `lariat-lab load`. Whom to load, on which CPUs and for how long is
//! the runner's to say: [`Launch`].

use std::net::SocketAddr;
use std::time::Duration;

use load::options::table;
use load::plan::Plan;
use serde::Deserialize;

use crate::load::complaint::Complaint;
use crate::load::given::{Given, Spot, Text, merged, split};
use crate::load::meaning;

/// Settings that the runner gives.
pub(crate) const RESERVED: [&str; 11] = [
    "url",
    "connect",
    "source",
    "duration",
    "warm-up",
    "threads",
    "cpus",
    "record",
    "quiet",
    "find-capacity",
    "count",
];

/// What a scenario says of its load. Each setting stands once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings(Vec<Given>);

/// What is offered, in multiples of what the target is capable of.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(
    untagged,
    expecting = "wanted is a multiple, or { from = 0.2, to = 1.5 }"
)]
pub(crate) enum Offered {
    /// One rate.
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

/// What the runner adds to the settings.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Whether TLS is spoken; else settings about TLS are left out.
    pub(crate) is_tls: bool,
    pub(crate) address: SocketAddr,
    /// A thread of the load on each.
    pub(crate) cpus: Vec<u16>,
    /// Before the figures begin.
    pub(crate) warm_up: Duration,
    /// For the figures.
    pub(crate) duration: Duration,
}

/// The name in the certificates of the laboratory.
pub(crate) const SERVER_NAME: &str = "localhost";

impl Settings {
    pub(crate) fn new(given: Vec<Given>) -> Self {
        Self(given)
    }

    /// This, and what `over` says in its place; see [`merged`].
    pub(crate) fn overlaid(&self, over: &Self) -> Self {
        Self(merged(self.0.clone(), over.0.clone()))
    }

    /// Without what was said of a setting.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.retain(|given| given.setting.name != name);
        self
    }

    /// With this in place of what the setting was.
    pub(crate) fn with(self, name: &str, text: &str) -> Self {
        let setting = table::find(name).expect("the runner knows the settings");
        let spot = Spot::Flag;
        let given = Given {
            setting,
            texts: match setting.shape {
                table::Shape::Commas(_) => split(text, &spot),
                _ => vec![Text {
                    text: text.to_owned(),
                    spot: spot.clone(),
                }],
            },
            spot,
        };
        Self(merged(self.0, vec![given]))
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
        let given = self.0.iter().find(|given| given.setting.name == name)?;
        let texts: Vec<_> = given.texts.iter().map(|text| text.text.as_str()).collect();
        Some(texts.join(","))
    }

    /// All that were typed.
    pub(crate) fn given(&self) -> &[Given] {
        &self.0
    }

    /// The plan of a load of that launch.
    ///
    /// # Errors
    /// All that contradicts, in words; what came from a scenario was checked when it was read.
    pub(crate) fn plan(&self, launch: &Launch) -> Result<Plan, Vec<Complaint>> {
        let whole = self.at(launch).0;
        let options = meaning::options(&whole, Vec::new())?;
        let draft = meaning::draft(&options, &whole, &launch.cpus)?;
        let address = wire::address::Address::Ip(launch.address);
        draft
            .plan(address)
            .map_err(|faults| meaning::of_plan(&faults, &whole))
    }

    /// The command line that loads a server like that, with ADDRESS where it listens.
    pub(crate) fn command(&self, launch: &Launch) -> Vec<String> {
        let whole = self.at(launch).0;
        let mut options = load::options::Options::default();
        for given in whole.iter().filter(|given| !is_place(given)) {
            for text in &given.texts {
                let applied = table::apply(&mut options, given.setting, &text.text);
                debug_assert!(applied.is_ok(), "checked when the scenario was read");
            }
        }
        let scheme = if launch.is_tls { "https" } else { "http" };
        let mut command = vec!["lariat-lab".to_owned()];
        command.extend(table::command(&options));
        let url = format!("{scheme}://{SERVER_NAME}/");
        command.splice(2..2, [url, "--connect".to_owned(), "ADDRESS".to_owned()]);
        command
    }

    fn at(&self, launch: &Launch) -> Self {
        let scheme = if launch.is_tls { "https" } else { "http" };
        let cpus: Vec<_> = launch.cpus.iter().map(u16::to_string).collect();
        let kept = self.0.iter();
        let kept = kept.filter(|given| launch.is_tls || !given.setting.of_tls);
        let whole = Self(kept.cloned().collect())
            .with("url", &format!("{scheme}://{SERVER_NAME}/"))
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

/// What only the runner's own host and moment decide.
fn is_place(given: &Given) -> bool {
    ["url", "connect", "threads", "cpus"].contains(&given.setting.name)
}

/// A time as the table reads it.
pub(crate) fn typed(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}
