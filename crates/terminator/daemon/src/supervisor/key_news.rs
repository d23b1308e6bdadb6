//! News of the processes that hold keys, and what a worker process gets to ask them by.

use std::os::fd::OwnedFd;
use std::time::Instant;

use telemetry::printable;

use super::Supervisor;
use super::child::{Child, Heard};
use crate::handover::Role;
use crate::held_keys::KeyReply;
use crate::messages::{error, note};

impl Supervisor<'_> {
    /// Channels to the key process for the plan that the worker process is told, with their roles.
    pub(super) fn key_channels(&mut self) -> Vec<(Role, OwnedFd)> {
        let (prepared, is_pending) = match &self.pending {
            Some(pending) => (&pending.prepared, true),
            None => (&self.served, false),
        };
        // One more for what is no worker, such as the checks of servers.
        let ends = self.keys.channels(prepared, self.workers + 1, is_pending);
        ends.into_iter().map(|end| (Role::KeyChannel, end)).collect()
    }

    pub(super) fn keys_said(&mut self, number: u64, heard: Heard<KeyReply>) {
        let is_one = |process: &Option<Child>| {
            process.as_ref().is_some_and(|process| process.number() == number)
        };
        let keys = &mut self.keys;
        let pending = keys.pending.as_mut().filter(|one| is_one(&one.process));
        let why = match heard {
            Heard::Answer(KeyReply::Opened) => {
                if is_one(&keys.served.process) && keys.backoff.deaths > 0 {
                    note("the process that holds the keys is there again");
                }
                return;
            }
            Heard::Answer(KeyReply::Stuck(why)) => {
                format!("cannot give up its rights: {}", printable::line(&why))
            }
            Heard::Answer(KeyReply::Failed(why)) => format!("cannot open them: {}", shown(&why)),
            Heard::Answer(KeyReply::PinRefused(why)) => {
                keys.is_pin_refused = true;
                format!("cannot open them: {}", shown(&why))
            }
            Heard::End | Heard::Stopped => "has ended".to_owned(),
        };
        if let Some(pending) = pending {
            pending.process = None;
        } else if is_one(&keys.served.process) {
            keys.served.process = None;
        } else {
            return keys.earlier.retain(|(process, _)| process.number() != number);
        }
        if keys.is_pin_refused {
            return error(format_args!(
                "the process that holds the keys {why}; no other is started before a reload, \
                 because tokens lock their PIN after a few tries"
            ));
        }
        keys.is_gone(&why);
    }

    pub(super) fn tend_keys(&mut self, now: Instant) {
        self.keys.earlier.retain(|(_, until)| *until > now);
        if self.keys.starts.take_if(|at| *at <= now).is_none() {
            return;
        }
        if let (Some(pending), Some(mut holding)) = (&self.pending, self.keys.pending.take()) {
            if holding.process.is_none() {
                self.keys.serve(&mut holding, &pending.prepared);
            }
            self.keys.pending = Some(holding);
        }
        if self.keys.served.process.is_none() && !self.keys.served.ends.is_empty() {
            let mut holding = std::mem::take(&mut self.keys.served);
            self.keys.serve(&mut holding, &self.served);
            self.keys.served = holding;
        }
    }
}

/// A sentence and its hint, in one line.
fn shown(why: &str) -> String {
    match why.split_once("\nhint: ") {
        Some((why, hint)) => format!("{} ({})", printable::line(why), printable::line(hint)),
        None => printable::line(why).to_string(),
    }
}
