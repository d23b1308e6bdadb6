//! Dials beside the one that a connection waits for: races of a server's addresses (RFC 8305), and
//! trials of addresses that were ejected.
//!
//! Owns the dials under way and their time; what follows when one is answered is `dial`'s.

use std::time::{Duration, Instant};

use backend::tried::Place;
use telemetry::outcome::Reason;

use crate::attempt::{Attempt, Blame, judge};
use crate::driver::Socket;
use crate::service::Service;

/// How long one address of a server is alone in being dialled before the next one is dialled too:
/// the "Connection Attempt Delay" that RFC 8305, section 5, recommends.
pub(crate) const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Dials beside the one that is waited for, each with a descriptor: races only out of the lower
/// half of all descriptors, because every connection has to find its two.
const RIVALS_MAX: usize = 3;

#[derive(Default)]
pub(crate) struct Rivals {
    all: Vec<Rival>,
    /// When the next address is dialled, if none has answered.
    next_at: Option<Instant>,
    /// There was an event about one of them.
    is_noted: bool,
}

struct Rival {
    attempt: Attempt,
    socket: Socket,
    /// The address was ejected: nobody waits for it, and it goes on when another has won.
    is_trial: bool,
}

impl Rivals {
    /// There may be something to do: an event came, or the time has.
    pub(crate) fn note(&mut self) {
        self.is_noted = true;
    }

    /// When there is something to do, if no event comes before.
    pub(crate) fn due(&self, limit: Duration) -> Option<Instant> {
        let ends = self.all.iter().map(|one| one.attempt.started + limit);
        ends.chain(self.next_at).min()
    }

    pub(crate) fn is_due(&mut self, limit: Duration, now: Instant) -> bool {
        let is_over = self.due(limit).is_some_and(|at| at <= now);
        std::mem::take(&mut self.is_noted) | is_over
    }

    /// The next address is to be dialled then.
    pub(crate) fn race_at(&mut self, at: Option<Instant>) {
        self.next_at = at.filter(|_| self.all.len() < RIVALS_MAX);
    }

    /// Whether the next address is to be dialled.
    pub(crate) fn is_next_due(&self, now: Instant) -> bool {
        self.next_at.is_some_and(|at| at <= now)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.all.len() < RIVALS_MAX
    }

    pub(crate) fn add(&mut self, attempt: Attempt, socket: Socket, is_trial: bool) {
        // It may have been answered already.
        self.is_noted = true;
        self.all.push(Rival {
            attempt,
            socket,
            is_trial,
        });
    }

    /// The first that was answered. Those that have failed are dropped.
    pub(crate) fn answered(
        &mut self,
        service: &Service,
        now: Instant,
    ) -> Option<(Attempt, Socket)> {
        let mut number = 0;
        while let Some(rival) = self.all.get_mut(number) {
            let error = rival.socket.take_error();
            let is_over = rival.attempt.started + service.plan.timeouts.dial <= now;
            let failure = match error {
                Some(error) => Some(judge(&error, false)),
                None if rival.socket.is_connected() => {
                    let rival = self.all.remove(number);
                    return Some((rival.attempt, rival.socket));
                }
                None => is_over.then_some((Blame::Server, Reason::BackendTimeout)),
            };
            match failure {
                Some((blame, reason)) => {
                    let rival = self.all.remove(number);
                    rival.attempt.failed(service, blame, reason, now);
                }
                None => number += 1,
            }
        }
        None
    }

    /// One that is to be waited for now, since the one before it has failed: the oldest of a race,
    /// or a trial if these are asked for.
    pub(crate) fn promote(&mut self, is_trial: bool) -> Option<(Attempt, Socket)> {
        let same = |one: &Rival| one.is_trial == is_trial;
        let number = self.all.iter().position(same)?;
        let rival = self.all.remove(number);
        Some((rival.attempt, rival.socket))
    }

    /// Another one was answered that was begun then. Of those that it has overtaken no connection
    /// is to wait again; trials go on. Returns the places of those that have not failed.
    pub(crate) fn settle(
        &mut self,
        service: &Service,
        winner_started: Instant,
        now: Instant,
    ) -> Vec<Place> {
        self.next_at = None;
        let (trials, lost) = std::mem::take(&mut self.all)
            .into_iter()
            .partition(|one| one.is_trial);
        self.all = trials;
        let lost = lost.into_iter().filter_map(|one: Rival| {
            let place = one.attempt.picked.place;
            let has_failed = overtaken(one.attempt, service, winner_started, now);
            (!has_failed).then_some(place)
        });
        lost.collect()
    }

    pub(crate) fn release(&mut self, service: &Service) {
        self.next_at = None;
        for mut rival in self.all.drain(..) {
            rival.attempt.release(service);
        }
    }
}

/// An address that was not answered though another one was that was begun a delay later has failed,
/// as if it had taken too long: else each connection that begins with it would wait. Returns
/// whether it has.
pub(crate) fn overtaken(
    mut attempt: Attempt,
    service: &Service,
    winner_started: Instant,
    now: Instant,
) -> bool {
    let has_failed = attempt.started + ATTEMPT_DELAY <= winner_started;
    if has_failed {
        attempt.failed(service, Blame::Server, Reason::BackendTimeout, now);
    } else {
        attempt.release(service);
    }
    has_failed
}
