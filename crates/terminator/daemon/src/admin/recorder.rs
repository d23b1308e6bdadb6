//! When an interval of the history ends.

use std::sync::Arc;
use std::time::Instant;

use telemetry::history::INTERVAL;
use tokio::time::MissedTickBehavior;

use super::state::AdminState;

/// Ends an interval each second, until its task is dropped.
pub(crate) async fn record_history(state: Arc<AdminState>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut begun = Instant::now();
    loop {
        ticks.tick().await;
        let now = Instant::now();
        state.end_interval(now - begun);
        begun = now;
    }
}
