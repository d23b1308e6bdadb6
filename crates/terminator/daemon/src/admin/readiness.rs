//! Answers `/healthz` and `/ready`: whether this process lives and whether it takes connections.
//!
//! A load balancer or an orchestrator asks every second or so and needs a yes or a no: neither
//! answer shows anything else, so both are for everybody.

use std::sync::OnceLock;
use std::time::Duration;

use proxy::data_plane::Heartbeat;
use tokio::time::{sleep, timeout};

/// Deadline of a worker's answer. A worker answers in its next turn, within milliseconds even under
/// load; after this time it is stuck, or the host is.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// Pause between two looks at the answers.
const PAUSE: Duration = Duration::from_millis(1);

/// Access to the workers, once they have started.
#[derive(Default)]
pub(crate) struct Workers(OnceLock<Heartbeat>);

/// Availability of the full-handshake keys that other processes hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum KeysReadiness {
    There,
    SomeAway,
    /// No full handshake succeeds.
    Away,
}

pub(super) type Verdict = Result<&'static str, String>;

impl Workers {
    pub(crate) fn begun(&self, heartbeat: Heartbeat) {
        // A process has only one `DataPlane`.
        let _ = self.0.set(heartbeat);
    }

    /// Waits until each worker has answered a question asked now or before.
    pub(crate) async fn all_answer(&self) {
        let Some(heartbeat) = self.0.get() else {
            return;
        };
        heartbeat.ask();
        while heartbeat.unanswered() > 0 {
            sleep(PAUSE).await;
        }
    }

    /// Returns the numbers of silent and of all workers; `None` = no worker has started yet.
    async fn stuck(&self) -> Option<(usize, usize)> {
        let heartbeat = self.0.get()?;
        let unanswered = match timeout(ANSWER_TIME_MAX, self.all_answer()).await {
            Ok(()) => 0,
            Err(_) => heartbeat.unanswered(),
        };
        Some((unanswered, heartbeat.worker_count()))
    }

    /// Reports whether the process lives: every worker answers.
    pub(super) async fn health(&self) -> Verdict {
        match self.stuck().await {
            Some((0, _)) => Ok("healthy"),
            Some((stuck, all)) => Err(format!("{stuck} of {all} worker threads do not answer")),
            None => Err("no worker thread has begun yet".to_owned()),
        }
    }

    /// Reports whether a client that connects now is served.
    pub(super) async fn readiness(
        &self,
        is_draining: bool,
        is_dying: bool,
        keys: KeysReadiness,
    ) -> Verdict {
        if is_draining {
            return Err("draining".to_owned());
        }
        if is_dying {
            return Err("worker processes died one after the other until a minute ago".to_owned());
        }
        if keys == KeysReadiness::Away {
            return Err("no process signs with the keys, so that full handshakes fail".to_owned());
        }
        match self.stuck().await {
            Some((stuck, all)) if stuck < all => Ok(match keys {
                KeysReadiness::SomeAway => "ready, but for some keys that cannot sign",
                KeysReadiness::There | KeysReadiness::Away => "ready",
            }),
            _ => Err("no worker thread accepts connections".to_owned()),
        }
    }
}
