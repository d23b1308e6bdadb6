//! The processes that hold keys: one for each plan that has keys elsewhere than in the worker
//! process.
//!
//! Owns their lives. The one of the served plan is started again if it dies, with the same
//! channels, of which this process keeps the ends: worker threads notice it by the time alone that
//! a signature takes. The one of a plan that was replaced goes on for the handshakes that began by
//! it. What it holds is the reader's to say (`crate::held_keys`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sys::packet;

use super::child::{Backoff, Child, Program};
use super::events::{Event, EventSender};
use super::prepared::Prepared;
use crate::handover::{Fences, ProcessMessageForm};
use crate::held_keys::{KeyAsk, REPLY_BYTES_MAX};
use crate::key_process::{KEYS_ARGUMENT, KEYS_NAME};
use crate::messages::warn;

const KEYS: Program = Program {
    argument: KEYS_ARGUMENT,
    name: KEYS_NAME,
    form: ProcessMessageForm::Postcard,
    answer_bytes_max: REPLY_BYTES_MAX,
    // Libraries of tokens find their configuration by it.
    has_environment: true,
};

/// The process of a plan that was replaced goes on for so long: longer than any handshake that
/// began by it may take (`timeouts.handshake` is shorter by default).
const LINGER_TIME: Duration = Duration::from_secs(60);

/// Processes of plans that were replaced; the oldest goes when there are more. Each holds the keys
/// of a plan in memory.
const EARLIER_MAX: usize = 4;

/// The process of one plan.
#[derive(Default)]
pub(super) struct KeyHolding {
    pub(super) process: Option<Child>,
    /// The ends of the worker process's channels that are the process's.
    pub(super) ends: Vec<OwnedFd>,
}

pub(super) struct KeyProcesses {
    pub(super) served: KeyHolding,
    pub(super) pending: Option<KeyHolding>,
    pub(super) earlier: Vec<(Child, Instant)>,
    fences: Fences,
    sender: EventSender,
    /// The number of the last process.
    processes: u64,
    pub(super) backoff: Backoff,
    /// When the next one is started, after one has died.
    pub(super) starts: Option<Instant>,
    /// A token has refused the PIN of the served plan: no other process tries it before a reload.
    pub(super) is_pin_refused: bool,
}

impl KeyProcesses {
    pub(super) fn new(fences: Fences, sender: EventSender) -> Self {
        Self {
            served: KeyHolding::default(),
            pending: None,
            earlier: Vec::new(),
            fences,
            sender,
            processes: 0,
            backoff: Backoff::default(),
            starts: None,
            is_pin_refused: false,
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.starts.into_iter().chain(self.earlier.iter().map(|(_, until)| *until)).min()
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        let pending = self.pending.iter().filter_map(|one| one.process.as_ref());
        let earlier = self.earlier.iter().map(|(one, _)| one);
        self.served.process.iter().chain(pending).chain(earlier).map(Child::pid)
    }

    /// New channels for all threads of a worker process that is to serve a plan, the pending one
    /// or the one served; none = it has no keys elsewhere.
    pub(super) fn channels(
        &mut self,
        prepared: &Prepared,
        count: usize,
        is_pending: bool,
    ) -> Vec<OwnedFd> {
        if prepared.keys.is_empty() {
            return Vec::new();
        }
        let pairs: io::Result<Vec<_>> = (0..count).map(|_| packet::pair()).collect();
        let (ours, theirs) = match pairs {
            Ok(pairs) => pairs.into_iter().unzip(),
            Err(error) => {
                warn(format_args!("no channels can be made to the key process: {error}"));
                (Vec::new(), Vec::new())
            }
        };
        let mut holding = if is_pending {
            self.pending.take().unwrap_or_default()
        } else {
            std::mem::take(&mut self.served)
        };
        holding.ends = theirs;
        if is_pending || !self.is_pin_refused {
            self.serve(&mut holding, prepared);
        }
        if is_pending {
            self.pending = Some(holding);
        } else {
            self.served = holding;
        }
        ours
    }

    /// Lets a holding's process serve its channels; starts it if it is not there.
    pub(super) fn serve(&mut self, holding: &mut KeyHolding, prepared: &Prepared) {
        let served = match &holding.process {
            Some(process) => serve_channels(process, &holding.ends),
            None => self.start(prepared).and_then(|process| {
                let process = holding.process.insert(process);
                serve_channels(process, &holding.ends)
            }),
        };
        if let Err(error) = served {
            self.is_gone(&format!("cannot be started: {error}"));
            holding.process = None;
        }
    }

    fn start(&mut self, prepared: &Prepared) -> io::Result<Child> {
        self.processes += 1;
        let (number, sender) = (self.processes, self.sender.clone());
        let hear = move |heard| sender.send(Event::Keys(number, heard));
        let process = Child::start(number, &KEYS, hear)?;
        process.send_with(&KeyAsk::Enter(self.fences.clone()), &[], &prepared.keys.0)?;
        Ok(process)
    }

    pub(super) fn is_gone(&mut self, why: &str) {
        let pause = self.backoff.died(Instant::now());
        warn(format_args!(
            "the process that holds the keys {why}; another is started after {} ms",
            pause.as_millis()
        ));
        self.starts = Some(Instant::now() + pause);
    }

    /// The pending plan is served.
    pub(super) fn commit(&mut self) {
        self.is_pin_refused = false;
        let served = self.pending.take().unwrap_or_default();
        let before = std::mem::replace(&mut self.served, served);
        let until = Instant::now() + LINGER_TIME;
        self.earlier.extend(before.process.map(|process| (process, until)));
        let surplus = self.earlier.len().saturating_sub(EARLIER_MAX);
        self.earlier.drain(..surplus);
    }

    /// The means of a program that comes back to go on: the process's number and pid.
    pub(super) fn state(&self) -> Option<(u64, u32)> {
        self.served.process.as_ref().map(|process| (process.number(), process.pid()))
    }

    /// The way to the process, if there is one, and then the ends of the channels.
    pub(super) fn handed_on(&self) -> Vec<BorrowedFd<'_>> {
        let process = self.served.process.iter().map(Child::channel);
        process.chain(self.served.ends.iter().map(AsFd::as_fd)).collect()
    }

    /// Takes up the process that this program has handed on.
    pub(super) fn take_up(&mut self, state: Option<(u64, u32)>, fds: Vec<OwnedFd>) {
        let mut fds = fds.into_iter();
        self.served.process = state.and_then(|state| {
            let mut process = Child::lent(state, &KEYS, fds.next()?).ok()?;
            process.keep();
            let (number, sender) = (state.0, self.sender.clone());
            process.listen(move |heard| sender.send(Event::Keys(number, heard))).ok()?;
            self.processes = number;
            Some(process)
        });
        self.served.ends = fds.collect();
        if self.served.process.is_none() && !self.served.ends.is_empty() {
            self.starts = Some(Instant::now());
        }
    }
}

fn serve_channels(process: &Child, ends: &[OwnedFd]) -> io::Result<()> {
    let ends: Vec<_> = ends.iter().map(AsFd::as_fd).collect();
    Ok(process.send(&KeyAsk::Serve, &ends)?)
}
