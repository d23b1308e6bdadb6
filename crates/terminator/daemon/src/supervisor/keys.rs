//! The processes that hold keys: one for each plan that has keys elsewhere than in the worker
//! process.
//!
//! Owns their lives. The one of the served plan is started again if it dies, with the same
//! channels, of which this process keeps the ends: worker threads do not notice but by the time that
//! a signature takes. The one of a plan that was replaced goes on for the handshakes that began by
//! it. What it holds is the reader's to say (`crate::held_keys`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sys::packet;
use telemetry::printable;

use super::child::{Backoff, Child, Heard, Program};
use super::events::{Event, EventSender};
use super::{Prepared, Supervisor};
use crate::handover::{Fences, ProcessMessageForm, Role};
use crate::held_keys::{KeyAsk, KeyReply, REPLY_BYTES_MAX};
use crate::key_process::{KEYS_ARGUMENT, KEYS_NAME};
use crate::messages::{note, warn};

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
    process: Option<Child>,
    /// Those ends of the worker process's channels that are the process's.
    ends: Vec<OwnedFd>,
}

pub(super) struct Keys {
    pub(super) served: KeyHolding,
    pub(super) pending: Option<KeyHolding>,
    earlier: Vec<(Child, Instant)>,
    fences: Fences,
    sender: EventSender,
    /// The number of the last process.
    processes: u64,
    backoff: Backoff,
    /// When the next one is started, after one has died.
    starts: Option<Instant>,
}

impl Keys {
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
    fn channels(&mut self, prepared: &Prepared, count: usize, is_pending: bool) -> Vec<OwnedFd> {
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
        let mut holding = match is_pending {
            true => self.pending.take().unwrap_or_default(),
            false => std::mem::take(&mut self.served),
        };
        holding.ends = theirs;
        self.serve(&mut holding, prepared);
        match is_pending {
            true => self.pending = Some(holding),
            false => self.served = holding,
        }
        ours
    }

    /// Has a holding's process serve its channels; starts it if it is not there.
    fn serve(&mut self, holding: &mut KeyHolding, prepared: &Prepared) {
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

    fn is_gone(&mut self, why: &str) {
        let pause = self.backoff.died(Instant::now());
        warn(format_args!(
            "the process that holds the keys {why}; another is started after {} ms",
            pause.as_millis()
        ));
        self.starts = Some(Instant::now() + pause);
    }

    /// The pending plan is served.
    pub(super) fn commit(&mut self) {
        let served = self.pending.take().unwrap_or_default();
        let before = std::mem::replace(&mut self.served, served);
        let until = Instant::now() + LINGER_TIME;
        self.earlier.extend(before.process.map(|process| (process, until)));
        let surplus = self.earlier.len().saturating_sub(EARLIER_MAX);
        self.earlier.drain(..surplus);
    }

    /// What a program that comes back needs to go on: the process's number and pid.
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
            Heard::Answer(KeyReply::Failed(why)) => {
                format!("cannot open them: {}", printable::line(&why))
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
