//! Taking over from a running supervisor: what one that has been started beside it does.
//!
//! Until the predecessor has given way, nothing here touches what is its own: a failure leaves it
//! as it was.

use std::time::{Duration, Instant};

use super::Supervisor;
use super::failure::Failure;
use super::messages::say;
use super::phase::{Due, Next};
use super::predecessor::{Told, Watcher};
use crate::handover::Order;
use crate::observations::Observations;
use crate::takeover::{Predecessor, Successor};

/// How long it may take to give way once we are ready.
const GIVE_WAY_TIME_MAX: Duration = Duration::from_secs(15);

impl Supervisor<'_> {
    /// The worker process has built its plan: the predecessor may give way.
    pub(super) fn ready_to_take_over(&mut self) -> Result<Next, Failure> {
        let Some(from) = &self.predecessor else {
            return Ok(Next::Continue);
        };
        self.due = Some((Instant::now() + GIVE_WAY_TIME_MAX, Due::Answer));
        // If it has died, that is heard.
        let _ = from.send(&Successor::Ready);
        Ok(Next::Continue)
    }

    /// The predecessor has not given way.
    pub(super) fn not_given_way(&self) -> Option<Failure> {
        let why = format!("it did not give way in {GIVE_WAY_TIME_MAX:?}");
        Some(self.predecessor.as_ref()?.failed(why))
    }

    /// The predecessor has said something.
    pub(super) fn told(&mut self, told: Told) -> Result<Next, Failure> {
        let Some(from) = &self.predecessor else {
            // It has told the service manager of us, or has ended.
            self.is_heard();
            if let Told::End = told {
                self.watcher = None;
            }
            return Ok(Next::Continue);
        };
        let mut observed = Observations::default();
        match told {
            Told::Message(
                Predecessor::Yours {
                    reload,
                    observations,
                },
                _,
            ) => {
                self.reload_asked |= reload;
                observed = observations;
            }
            Told::Message(Predecessor::Refused { why }, _) => return Err(from.failed(why)),
            Told::Message(..) => return Err(from.failed("it speaks out of turn".to_owned())),
            // Its worker process ends with it, and nobody else serves.
            Told::End => {
                let pid = from.pid;
                say(format_args!(
                    "process {pid} ended before it had handed over; this one serves"
                ));
                self.manager.hears_another = false;
            }
        }
        self.tell(&Order::Accept(observed));
        Ok(Next::Continue)
    }

    /// The worker process accepts: what was the predecessor's is ours.
    pub(super) fn accepting(&mut self) -> Result<Next, Failure> {
        let Some(from) = self.predecessor.take() else {
            return Ok(Next::Continue);
        };
        self.listeners.lend(Vec::new());
        self.listeners.keep(&self.served.summary.listen);
        if let Err(failure) = self.admin_sockets.take_places(&self.served.summary) {
            say(format_args!("error: {failure}"));
        }
        self.open_takeover_socket();
        let mut kept = self.admin_sockets.paths().to_vec();
        kept.extend(self.listeners.paths());
        // If it has died, it needs not know.
        let addresses = self.served.summary.listen.iter();
        let addresses = addresses.map(|wanted| wanted.address.to_string()).collect();
        let _ = from.send(&Successor::Serving { kept, addresses });
        say(format_args!("took over from process {}", from.pid));
        self.watcher = Watcher::of(from);
        self.serves()
    }
}
