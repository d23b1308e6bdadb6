//! The end: draining, and what a second signal does.

use std::time::{Duration, Instant};

use super::answers::say_ended;
use super::upgrade::earlier::DRAIN_GRACE;
use super::{Due, Phase, Supervisor};
use crate::handover::Order;
use crate::messages::{note, warn};

/// How long a worker process that is told to end may take to say that it serves, if it does: the
/// word takes microseconds on a host at rest. One that still builds a plan has no clients.
const READY_GRACE: Duration = Duration::from_secs(1);

impl Supervisor<'_> {
    /// Drains and does not come back: what the service manager would keep is closed.
    pub(super) fn stop_for_good(&mut self) {
        self.forget_descriptors();
        self.stop();
    }

    /// Drains; when asked again, ends at once. The service manager keeps the listening sockets, if
    /// it keeps any, for the next start: whether there is one, it alone knows.
    pub(super) fn stop(&mut self) {
        self.give_up_upgrade();
        if self.is_switching && !std::mem::replace(&mut self.stop_asked, true) {
            // Our worker process accepts in a moment, and drains then.
            return;
        }
        let is_begun = matches!(self.phase, Phase::Starting | Phase::Restarting);
        if self.child.is_some() && is_begun && !std::mem::replace(&mut self.stop_asked, true) {
            // Its workers may serve clients already, and its word of it be under way.
            self.due = Some((Instant::now() + READY_GRACE, Due::Drained));
            return;
        }
        if self.child.is_none() || self.phase != Phase::Serving {
            self.tell_manager_stopping(DRAIN_GRACE);
            // Their drop kills and reaps.
            self.earlier.drain(..).for_each(|mut one| one.child.keep());
            return self.end_at_once(match self.phase {
                Phase::Draining => "it was told a second time to end",
                _ => "nothing was drained to its end",
            });
        }
        self.phase = Phase::Draining;
        self.stop_asked = true;
        self.pending = None;
        self.keys.roll_back();
        let process = &self.served.summary.process;
        let (delay, drain) = (process.drain_delay, process.drain);
        self.tell_manager_stopping(delay + drain + DRAIN_GRACE);
        if delay.is_zero() {
            return self.drain();
        }
        note(format_args!(
            "a drain begins in {delay:?}: /ready answers 503, ports stay open until then; a second \
             signal ends at once"
        ));
        self.due = Some((Instant::now() + delay, Due::DrainDelay));
        self.tell(&Order::Unready);
    }

    pub(super) fn drain(&mut self) {
        // Ours first: the kernel must send no connection to a socket that nobody accepts from.
        self.listeners.close();
        let time = self.served.summary.process.drain;
        note(format_args!("draining for up to {} s; a second signal ends at once", time.as_secs()));
        self.due = Some((Instant::now() + time + DRAIN_GRACE, Due::Drained));
        let is_replaced = false;
        self.tell(&Order::Drain { time, is_replaced });
    }

    /// The worker process has drained; `cut` connections were still open at the deadline.
    pub(super) fn drained(&mut self, cut: u64) {
        say_ended("ended", cut);
        self.end();
    }

    /// A worker process that has not drained is killed, with its connections.
    pub(super) fn end_at_once(&mut self, why: &str) {
        if self.child.is_some() || !self.earlier.is_empty() {
            warn(format_args!("ended; connections that are still open are cut: {why}"));
        }
        self.end();
    }

    /// Ends, unless worker processes before ours still drain.
    pub(super) fn end(&mut self) {
        // Its drop kills and reaps.
        self.child = None;
        if !self.earlier.is_empty() {
            self.due = None;
            return;
        }
        self.key_log.flush();
        self.manager.notifier.flush();
        self.is_ended = true;
    }
}
