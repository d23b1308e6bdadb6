//! Whether this process lives and whether it takes connections: `/healthz` and `/ready`.
//!
//! Owns the two answers. Who asks is a load balancer or an orchestrator, every second or so, and
//! needs a yes or a no: neither answer shows anything else, so both are for everybody.

use std::sync::OnceLock;
use std::time::Duration;

use proxy::data_plane::Heartbeat;
use tokio::time::{sleep, timeout};

/// A worker answers in its next turn, within milliseconds even under load. One that has not within
/// this time is stuck, or the host is.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// The pause between looks at the answers.
const PAUSE: Duration = Duration::from_millis(1);

/// The way to the workers, once there are any.
#[derive(Default)]
pub(crate) struct Workers(OnceLock<Heartbeat>);

/// The keys of full handshakes, as far as other processes hold them.
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
        // There is one plane in a process.
        let _ = self.0.set(heartbeat);
    }

    /// Waits until each has answered a question that is asked now, or was asked before.
    pub(crate) async fn all_answer(&self) {
        let Some(heartbeat) = self.0.get() else {
            return;
        };
        heartbeat.ask();
        while heartbeat.unanswered() > 0 {
            sleep(PAUSE).await;
        }
    }

    /// How many do not answer, of how many; `None` = there are none yet.
    async fn stuck(&self) -> Option<(usize, usize)> {
        let heartbeat = self.0.get()?;
        let unanswered = match timeout(ANSWER_TIME_MAX, self.all_answer()).await {
            Ok(()) => 0,
            Err(_) => heartbeat.unanswered(),
        };
        Some((unanswered, heartbeat.worker_count()))
    }

    /// Whether the process lives: every worker answers.
    pub(super) async fn health(&self) -> Verdict {
        match self.stuck().await {
            Some((0, _)) => Ok("healthy"),
            Some((stuck, all)) => Err(format!("{stuck} of {all} worker threads do not answer")),
            None => Err("no worker thread has begun yet".to_owned()),
        }
    }

    /// Whether a client that connects now is served.
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
