//! What configurations need of this host: CPUs and open files.

use std::collections::BTreeSet;

use measure::experiment::Placement;

use crate::scenario::planned::{Client, Planned};
use crate::scenario::settings::Settings;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Means {
    pub(crate) cpus: usize,
    /// Open files of a process.
    pub(crate) files: u64,
}

/// Descriptors beside those of connections, of whichever program has most.
const FILES_SPARE: u64 = 100;

/// A connection that a server relays has two ends there. Of open load, most of those that are there
/// at once wait for their handshake, and have one.
const FILES_A_CONNECTION: u64 = 2;

/// Of a load that does not say how many it has, as `load` has it.
const CONNECTIONS_DEFAULT: u64 = 50;

impl Means {
    pub(crate) fn new(placement: &Placement, files: u64) -> Self {
        let both = placement.server.iter().chain(&placement.client);
        Self {
            cpus: both.collect::<BTreeSet<_>>().len(),
            files,
        }
    }

    /// Why a configuration cannot be read with that, and the remedy.
    pub(crate) fn lack(self, planned: &Planned) -> Option<(String, String)> {
        let workers = usize::from(planned.spec.workers);
        if workers > self.cpus {
            return Some((
                format!(
                    "{workers} workers want a CPU each, and there are {}",
                    self.cpus
                ),
                "a host with more CPUs, or --server-cpus and --client-cpus with more of them"
                    .to_owned(),
            ));
        }
        let Client::Load(loading) = &planned.client else {
            return None;
        };
        let files = files(&loading.settings) + FILES_SPARE;
        (files > self.files).then(|| {
            (
                format!(
                    "it wants {files} open files, and the limit is {}",
                    self.files
                ),
                format!("raise the limit of open files (`ulimit -n {files}`, perhaps as root)"),
            )
        })
    }

    /// Whether server and client must share CPUs.
    pub(crate) fn must_share(self, planned: &Planned) -> bool {
        usize::from(planned.spec.workers) + 1 > self.cpus
    }
}

/// Of the program that has most of them open at once.
fn files(settings: &Settings) -> u64 {
    let number = |name| settings.text(name).and_then(|text| text.parse().ok());
    match (number("connections"), number("clients")) {
        (None, Some(clients)) => clients,
        (connections, _) => connections.unwrap_or(CONNECTIONS_DEFAULT) * FILES_A_CONNECTION,
    }
}
