//! News of the processes that hold keys, and what a worker process gets to ask them by.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::child::{Child, ChildEvent};
use super::upgrade::state::KeyProcessState;
use super::{DueWork, Supervisor};
use crate::handover::{DescriptorRole, SupervisorOrder};
use crate::held_keys::KeyReply;
use crate::messages::warn;

/// A plan waits so long for its keys, and is served without those that are not open then: a token
/// whose library hangs (8 s) must not hold up the reload of other services. It is shorter than the
/// time that clients have patience for, and longer than a smart card takes.
const KEYS_TIME_MAX: Duration = Duration::from_secs(5);

impl Supervisor<'_> {
    /// The plan to come is served when its keys are open, so that no handshake waits for that:
    /// what is served until then has its own.
    pub(super) fn await_keys(&mut self) {
        self.due = Some((Instant::now() + KEYS_TIME_MAX, DueWork::Keys));
        self.go_on_if_keys_are_open();
    }

    fn go_on_if_keys_are_open(&mut self) {
        if matches!(self.due, Some((_, DueWork::Keys))) && self.keys.next_are_open() {
            self.serve_next();
        }
    }

    pub(super) fn keys_have_had_their_time(&mut self) {
        let time = KEYS_TIME_MAX.as_secs();
        warn(format_args!(
            "not all keys have been opened in {time} s; the configuration is served meanwhile"
        ));
        self.serve_next();
    }

    /// Goes on with a reload, or with an upgrade.
    fn serve_next(&mut self) {
        if self.pending.is_none() {
            return self.pause_before();
        }
        self.due = Some(DueWork::answer());
        self.tell_plan(self.generation + 1, SupervisorOrder::Replace);
    }

    /// Channels to the key processes of the plan that the worker process is told, with their roles.
    pub(super) fn key_channels(&mut self) -> io::Result<Vec<(DescriptorRole, OwnedFd)>> {
        let (prepared, is_pending) = match &self.pending {
            Some(pending) => (&pending.prepared, true),
            None => (&self.served, false),
        };
        // One more for what is no worker, such as the checks of servers.
        let ends = self.keys.channels(&prepared.keys, self.workers() + 1, is_pending)?;
        Ok(ends
            .into_iter()
            .map(|(group, end)| (DescriptorRole::KeyChannel { group }, end))
            .collect())
    }

    pub(super) fn keys_said(&mut self, number: u64, heard: &ChildEvent<KeyReply>) {
        self.keys.heard(number, heard);
        self.tell_keys();
        self.go_on_if_keys_are_open();
    }

    pub(super) fn tend_keys(&mut self, now: Instant) {
        if self.keys.due().is_none_or(|due| due > now) {
            return;
        }
        let pending = self.pending.as_ref().map(|one| one.prepared.keys.as_slice());
        self.keys.tend(now, &self.served.keys, pending);
        self.tell_keys();
        self.go_on_if_keys_are_open();
    }

    /// Says how the key processes are, if that is news to the worker process.
    pub(super) fn tell_keys(&mut self) {
        let status = self.keys.status();
        if self.keys.told != status {
            self.keys.told.clone_from(&status);
            self.tell(&SupervisorOrder::Keys(status));
        }
    }

    /// The number of the worker process that asks the processes of the served plan.
    pub(super) fn worker_number(&self) -> u64 {
        self.child.as_ref().map_or(self.last_number, Child::number)
    }

    /// All processes that a worker process asks, as the next program gets them.
    pub(super) fn handed_on_keys(&self) -> impl Iterator<Item = (KeyProcessState, BorrowedFd<'_>)> {
        self.keys.handed_on(self.worker_number())
    }

    /// Ends the processes of earlier plans that no worker process asks any more.
    pub(super) fn end_unasked_keys(&mut self) {
        let earlier = self.earlier.iter().map(|one| &one.child);
        let workers: Vec<_> = self.child.iter().chain(earlier).map(Child::number).collect();
        self.keys.earlier.keep_for(&workers);
    }
}
