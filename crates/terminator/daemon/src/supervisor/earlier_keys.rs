//! Key processes of plans that are served no more.
//!
//! Handles the rest of their lives: each goes on for the handshakes that began with its plan, is
//! checked meanwhile, and ends with them. It goes on over upgrades, because the earlier worker
//! process still sends it requests. It is never restarted: this program may not have its keys.

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
    // Libraries of tokens find their configuration by the environment.
    has_environment: true,
};

/// Minimum time that the process of a replaced plan goes on; longer if a handshake that began with
/// it may take longer (`timeouts.handshake`, which is shorter by default).
const LINGER_TIME: Duration = Duration::from_secs(60);

/// Processes of plans that were replaced: four times as many as a plan may have. More end the
/// oldest, because each holds keys of a plan in memory.
const EARLIER_MAX: usize = 4 * (TOKENS_MAX + 1);

/// Pause between two checks whether a process goes on.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Time limit of an answer: a later process is stopped, or gets no CPU time, and signs nothing. The
/// thread that answers does nothing else.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// Further time after which a late process is ended, because another may do better.
pub(super) const LATE_TIME_MAX: Duration = Duration::from_secs(2);

/// Time limit of opening keys; a token's library that hangs ends its process before (8 s).
pub(super) const OPEN_TIME_MAX: Duration = Duration::from_secs(12);

struct EarlierKeyProcess {
    process: Child,
    /// Number of the worker process that uses it.
    worker: u64,
    /// Time when no handshake of its plan is left; `None` = when that worker process has ended.
    until: Option<Instant>,
    /// Time of the next check, or of its end if the check is unanswered.
    look: Instant,
    is_asked: bool,
}

impl EarlierKeyProcess {
    fn due(&self) -> Instant {
        self.until.map_or(self.look, |until| until.min(self.look))
    }

    /// Whether the process goes on; sends a check if it is time.
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
        // A process that takes no message is about to be reported as ended.
        let _ = self.process.send(&KeyAsk::AreYouWell, &[]);
        true
    }
}

/// All earlier key processes, the oldest first.
pub(super) struct EarlierKeyProcesses {
    all: Vec<EarlierKeyProcess>,
    /// Processes owned by the previous program until this one serves.
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

    /// Takes the processes of a replaced plan; a worker process goes on to use them. A process that
    /// is still opening its keys, silent meanwhile, gets its time.
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

    /// Takes up what a previous program has handed on, which owns it until [`Self::keep_lent`].
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

    /// Takes ownership of the processes.
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

    /// Handles a message of the process of that number, if it is one of these.
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

    /// Ends processes that none of these worker processes uses any more.
    pub(super) fn keep_for(&mut self, workers: &[u64]) {
        self.all.retain(|one| workers.contains(&one.worker));
    }

    /// Returns the processes as they are handed on, with their channels.
    pub(super) fn state(&self) -> impl Iterator<Item = (KeyProcessState, BorrowedFd<'_>)> {
        let state = |one: &EarlierKeyProcess| state_of(&one.process, one.worker, one.until);
        self.all.iter().map(move |one| (state(one), one.process.channel()))
    }
}

/// Returns the state of one process for the next program.
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
                // Nobody owns the process to kill it.
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
