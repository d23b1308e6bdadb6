//! Turns taken with another worker process: one pauses, the next one accepts.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use super::Control;
use crate::admin::HealthReport;
use crate::handover::WorkerAnswer;
use crate::named_servers::{Observations, ObservedServer};
use crate::worker_process::supervisor_link::say;

/// How long a worker process that is being replaced waits for handshakes in progress. New
/// connections wait as long.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_millis(200);

/// Interval of the checks whether handshakes have ended.
const HANDSHAKE_LOOK_INTERVAL: Duration = Duration::from_millis(1);

impl Control {
    /// Leaves listeners and stored sessions to another worker process, when the handshakes in
    /// progress have ended: later ones store nothing, and find nothing.
    pub(super) async fn pause(&self) -> io::Result<()> {
        // Collected before accepting stops, because it takes time.
        let observations = self.admin.observations();
        self.data_plane.accept(false);
        let until = Instant::now() + HANDSHAKE_TIME_MAX;
        while self.data_plane.handshakes() > 0 && Instant::now() < until {
            tokio::time::sleep(HANDSHAKE_LOOK_INTERVAL).await;
        }
        self.resumption.let_go_of_sessions();
        say(&self.channel, &WorkerAnswer::Paused(observations))
    }

    /// Takes listeners and stored sessions over from another worker process, or back.
    pub(super) fn accept(&mut self, observed: &Observations) -> io::Result<()> {
        self.resumption.take_over_sessions();
        self.data_plane.accept(true);
        if let Some(cluster) = self.waiting.take() {
            self.admin.take_over(observed);
            self.assume_down(&observed.servers);
            self.admin_descriptors.open(&self.admin)?;
            self.cluster.set(cluster)?;
        }
        say(&self.channel, &WorkerAnswer::Accepting)
    }

    /// Keeps servers that were down unused until their first check.
    fn assume_down(&self, observed: &[ObservedServer]) {
        let down = observed.iter().filter(|one| one.state == "down");
        let down = down.filter_map(|one| Some((one.name(), one.cause.clone()?)));
        let mut down: BTreeMap<_, _> = down.collect();
        for (service, server, name) in self.servers.all() {
            if self.checks.is_first_due(service, server)
                && let Some(why) = down.remove(&name)
            {
                self.checked(&HealthReport {
                    service: service.to_owned(),
                    server,
                    down: self.checks.addresses(service, server),
                    up: false,
                    why,
                });
            }
        }
    }
}
