//! Key processes of plans that are served no more.
//!
//! Owns the rest of their lives: each goes on for the handshakes that began by its plan, answers
//! for itself meanwhile, and ends with them. It goes on over upgrades, because the worker process
//! before still asks it. Nobody starts one of these again: this program may not have its keys.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sys::clock;

use super::child::{Child, ChildEvent, Program};
use super::events::{Event, EventSender};
use super::upgrade::state::KeyProcessState;
use crate::handover::ProcessMessageForm;
use crate::held_keys::{KeyAsk, KeyReply, REPLY_BYTES_MAX, TOKENS_MAX};
use crate::key_process::{KEYS_ARGUMENT, KEYS_NAME};
use crate::messages::warn;

pub(super) const KEYS: Program = Program {
    argument: KEYS_ARGUMENT,
    name: KEYS_NAME,
    form: ProcessMessageForm::Postcard,
    answer_bytes_max: REPLY_BYTES_MAX,
    // Libraries of tokens find their configuration by it.
    has_environment: true,
};

/// The process of a plan that was replaced goes on for so long at least, and for as long as any
/// handshake that began by it may take (`timeouts.handshake`, which is shorter by default).
const LINGER_TIME: Duration = Duration::from_secs(60);

/// Processes of plans that were replaced: four times as many as a plan may have. The oldest goes
/// when there are more, because each holds keys of a plan in memory.
const EARLIER_MAX: usize = 4 * (TOKENS_MAX + 1);

/// From one question whether a process goes on to the next.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// A process that has not answered within this time is stopped, or gets no time: it signs nothing.
/// The thread that answers does nothing else.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// One that is late is ended after so much more: another may be better off.
pub(super) const LATE_TIME_MAX: Duration = Duration::from_secs(2);

/// A token's library that hangs ends its process before (8 s).
pub(super) const OPEN_TIME_MAX: Duration = Duration::from_secs(12);

struct EarlierKeyProcess {
    process: Child,
    /// The number of the worker process that asks it.
    worker: u64,
    /// When no handshake of its plan is left; `None` = when that worker process has ended.
    until: Option<Instant>,
    /// When it is asked whether it goes on, or ended if it has been asked.
    look: Instant,
    is_asked: bool,
}

impl EarlierKeyProcess {
    fn due(&self) -> Instant {
        self.until.map_or(self.look, |until| until.min(self.look))
    }

    /// Whether it goes on; asks it so, if it is time.
    fn goes_on(&mut self, now: Instant) -> bool {
        if self.until.is_some_and(|until| until <= now) {
            return false;
        }
        if self.look > now {
            return true;
        }
        if self.is_asked {
            let (pid, time) = (self.process.pid(), ANSWER_TIME_MAX + LATE_TIME_MAX);
            warn(format_args!(
                "the process that holds the keys of an earlier configuration (pid {pid}) has not \
                 answered in {} s, and is ended",
                time.as_secs()
            ));
            return false;
        }
        (self.is_asked, self.look) = (true, now + ANSWER_TIME_MAX + LATE_TIME_MAX);
        // One that cannot be asked is about to be heard of.
        let _ = self.process.send(&KeyAsk::AreYouWell, &[]);
        true
    }
}

/// All of them, the oldest first.
pub(super) struct EarlierKeyProcesses {
    all: Vec<EarlierKeyProcess>,
    /// The program before has these until this one serves.
    lent: Vec<EarlierKeyProcess>,
    sender: EventSender,
}

impl EarlierKeyProcesses {
    pub(super) fn new(sender: EventSender) -> Self {
        Self { all: Vec::new(), lent: Vec::new(), sender }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.all.iter().map(EarlierKeyProcess::due).min()
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Child> {
        self.all.iter().chain(&self.lent).map(|one| &one.process)
    }

    /// The plan is replaced that the processes sign for; a worker process goes on to ask them. One
    /// that opens its keys still, and says nothing meanwhile, gets its time.
    pub(super) fn extend(
        &mut self,
        processes: impl Iterator<Item = Child>,
        worker: u64,
        handshake_time: Duration,
    ) {
        let now = Instant::now();
        self.all.extend(processes.map(|process| EarlierKeyProcess {
            process,
            worker,
            until: Some(now + LINGER_TIME.max(handshake_time + LOOK_INTERVAL)),
            look: now + OPEN_TIME_MAX,
            is_asked: false,
        }));
        let surplus = self.all.len().saturating_sub(EARLIER_MAX);
        self.all.drain(..surplus);
    }

    /// Takes up what a program before has handed on, which has it until [`Self::keep_lent`].
    pub(super) fn lend(&mut self, handed_on: Vec<(KeyProcessState, OwnedFd)>) {
        let now = Instant::now();
        self.lent.extend(handed_on.into_iter().filter_map(|(state, channel)| {
            let left = |at| Duration::from_millis(at).saturating_sub(clock::monotonic());
            Some(EarlierKeyProcess {
                process: Child::lent((state.number, state.pid), &KEYS, channel).ok()?,
                worker: state.worker,
                until: state.ends_ms.map(|at| now + left(at)),
                look: now,
                is_asked: false,
            })
        }));
    }

    /// They are this program's from now on.
    pub(super) fn keep_lent(&mut self) {
        for mut one in std::mem::take(&mut self.lent) {
            one.process.keep();
            let (number, sender) = (one.process.number(), self.sender.clone());
            let hear = move |heard| sender.send(Event::Keys(number, heard));
            if one.process.listen::<KeyReply>(hear).is_ok() {
                self.all.push(one);
            }
        }
        let surplus = self.all.len().saturating_sub(EARLIER_MAX);
        self.all.drain(..surplus);
    }

    /// Hears the process of that number, if it is one of these.
    pub(super) fn heard(&mut self, number: u64, heard: &ChildEvent<KeyReply>) {
        let is_well = matches!(heard, ChildEvent::Answer(KeyReply::Well | KeyReply::Opened(_)));
        self.all.retain(|one| one.process.number() != number || is_well);
        for one in self.all.iter_mut().filter(|one| one.process.number() == number) {
            (one.is_asked, one.look) = (false, Instant::now() + LOOK_INTERVAL);
        }
    }

    pub(super) fn tend(&mut self, now: Instant) {
        self.all.retain_mut(|one| one.goes_on(now));
    }

    /// Ends those that no worker process of these asks any more.
    pub(super) fn keep_for(&mut self, workers: &[u64]) {
        self.all.retain(|one| workers.contains(&one.worker));
    }

    /// As they are handed on, with the ways to them.
    pub(super) fn state(&self) -> impl Iterator<Item = (KeyProcessState, BorrowedFd<'_>)> {
        let state = |one: &EarlierKeyProcess| state_of(&one.process, one.worker, one.until);
        self.all.iter().map(move |one| (state(one), one.process.channel()))
    }
}

/// The same for the next program.
pub(super) fn state_of(process: &Child, worker: u64, until: Option<Instant>) -> KeyProcessState {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let at = left.map(|left| (clock::monotonic() + left).as_millis());
    KeyProcessState {
        number: process.number(),
        pid: process.pid(),
        worker,
        ends_ms: at.map(|at| u64::try_from(at).unwrap_or(u64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use sys::channel;

    use super::super::events::EventQueue;
    use super::*;

    #[test]
    fn processes_stay_for_the_longest_handshake_of_their_plan_and_a_minute_at_least() {
        // A queue blocks the signals of its thread.
        let test = || {
            let events = EventQueue::open().unwrap();
            let mut earlier = EarlierKeyProcesses::new(events.sender());
            let begun = Instant::now();
            let mut ends = Vec::new();
            for (number, seconds) in [(1, 10), (2, 100)] {
                let (end, channel) = channel::pair().unwrap();
                ends.push(end);
                // It is nobody's to kill.
                let process = Child::lent((number, 0), &KEYS, channel).unwrap();
                earlier.extend(std::iter::once(process), 1, Duration::from_secs(seconds));
            }
            let mut left_after = |seconds| {
                earlier.tend(begun + Duration::from_secs(seconds));
                for number in [1, 2] {
                    earlier.heard(number, &ChildEvent::Answer(KeyReply::Well));
                }
                earlier.all.iter().map(|one| one.process.number()).collect::<Vec<_>>()
            };
            assert_eq!(left_after(59), [1, 2]);
            assert_eq!(left_after(62), [2]);
            assert_eq!(left_after(101), [2]);
            assert!(left_after(104).is_empty());
        };
        std::thread::spawn(test).join().unwrap();
    }
}
