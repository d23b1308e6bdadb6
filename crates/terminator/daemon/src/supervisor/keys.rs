//! The processes that hold keys: one for each group of keys of a plan that are elsewhere than in
//! the worker process.
//!
//! Owns their lives. One of the served plan is started again if it dies, hangs or could not open
//! all its keys, with the same channels, of which this process keeps the ends: worker threads
//! notice it by the time alone that a signature takes. Those of a plan that was replaced are
//! `earlier_keys`'. What each holds is the reader's to say (`crate::held_keys`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sys::packet;
use telemetry::printable;

use super::child::{Backoff, Child, ChildEvent};
use super::earlier_keys::{
    ANSWER_TIME_MAX, EarlierKeyProcesses, KEYS, LATE_TIME_MAX, LOOK_INTERVAL, OPEN_TIME_MAX,
    state_of,
};
use super::events::{Event, EventSender};
use super::upgrade::state::KeyProcessState;
use crate::handover::Confinement;
use crate::held_keys::{KeyAsk, KeyGroup, KeyReply, UnopenedKey};
use crate::key_holder_status::{KeyHolderStatus, LentKeyProcess};
use crate::messages::{error, note, warn};

/// Keys that did not open are tried again after so long, each time after twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// No retry is later: a token that was plugged in again serves as soon as this.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Reasons of keys that did not open, in the status.
const REASONS_MAX: usize = 16;

/// The point of its life that a process is at.
#[derive(Default)]
enum KeyProcessStage {
    /// There is none.
    #[default]
    Away,
    /// It opens its keys, and has done so then.
    Opening(Instant),
    /// It signs, and is asked then whether it goes on.
    Open(Instant),
    /// It has been asked, and has answered then.
    Asked(Instant),
    /// It has not answered, and is ended then.
    Late(Instant),
}

/// The process of one group of keys.
#[derive(Default)]
pub(super) struct KeyHolding {
    name: String,
    keys: usize,
    process: Option<Child>,
    /// The ends of the worker process's channels that are the process's.
    ends: Vec<OwnedFd>,
    stage: KeyProcessStage,
    /// When another is started, after one has died or could not open all keys.
    starts: Option<Instant>,
    backoff: Backoff,
    restarts: u64,
    away: Option<(String, SystemTime)>,
    unopened: Vec<String>,
    /// Attempts in a row that did not open all keys.
    retries: u32,
    /// A token has refused a PIN: no other process tries it before a reload.
    is_pin_refused: bool,
    /// A process that tries what the one that serves could not open, until then. It takes its
    /// place if it opens more, so that the keys that are open go on.
    attempt: Option<(Child, Instant)>,
}

impl KeyHolding {
    fn of(group: &KeyGroup) -> Self {
        Self {
            name: printable::line(&group.name).to_string(),
            keys: group.ids.len(),
            away: Some(("has not opened its keys yet".to_owned(), SystemTime::now())),
            ..Self::default()
        }
    }

    fn is_number(&self, number: u64) -> bool {
        self.process.as_ref().is_some_and(|process| process.number() == number)
    }

    fn due(&self) -> Option<Instant> {
        let due = match self.stage {
            KeyProcessStage::Away => None,
            KeyProcessStage::Opening(at)
            | KeyProcessStage::Open(at)
            | KeyProcessStage::Asked(at)
            | KeyProcessStage::Late(at) => Some(at),
        };
        let until = self.attempt.iter().map(|(_, until)| *until);
        self.starts.into_iter().chain(due).chain(until).min()
    }

    /// An attempt has opened all keys but these, or nothing.
    fn attempted(&mut self, unopened: Option<&[UnopenedKey]>, now: Instant) {
        let attempt = self.attempt.take();
        let Some((process, unopened)) =
            attempt.zip(unopened).filter(|(_, unopened)| unopened.len() < self.unopened.len())
        else {
            self.is_pin_refused |= unopened.iter().copied().flatten().any(|one| one.is_pin_refused);
            let is_worth_it =
                unopened.is_none_or(|all| all.iter().any(|one| !one.waits_for_reload));
            self.retry_later(is_worth_it && !self.is_pin_refused, now);
            return;
        };
        // The one before is gone before the next reads its channels, and asks again for what that
        // one has taken.
        self.process = None;
        self.restarts += 1;
        let process = self.process.insert(process.0);
        match serve_channels(process, &self.ends) {
            Ok(()) => self.opened(unopened, now),
            Err(error) => self.is_gone(&format!("cannot be told to serve: {error}"), now),
        }
    }

    /// Tries what did not open again, if there is use in it.
    fn retry_later(&mut self, is_worth_it: bool, now: Instant) {
        let pause = RETRY_FIRST.saturating_mul(2_u32.saturating_pow(self.retries)).min(RETRY_MAX);
        self.retries = self.retries.saturating_add(1);
        if is_worth_it {
            self.starts = Some(now + pause);
        }
    }

    /// The process has opened its keys, but for these. A process before may have opened others.
    fn opened(&mut self, unopened: &[UnopenedKey], now: Instant) {
        self.stage = KeyProcessStage::Open(now + LOOK_INTERVAL);
        let name = &self.name;
        let signs = unopened.len() < self.keys;
        if self.away.take().is_some() && signs {
            let again = if self.backoff.deaths > 0 { " again" } else { "" };
            let pid = self.process.as_ref().map_or(0, Child::pid);
            note(format_args!(
                "the process that holds the keys is there{again} ({name}, pid {pid})"
            ));
        }
        let reasons: Vec<_> = unopened.iter().map(|one| shown(&one.why)).collect();
        let is_news = reasons != self.unopened;
        self.unopened = reasons;
        self.is_pin_refused = unopened.iter().any(|one| one.is_pin_refused);
        if unopened.is_empty() {
            self.retries = 0;
            if is_news {
                note(format_args!("all keys are open again ({name})"));
            }
            return;
        }
        let is_worth_it = unopened.iter().any(|one| !one.waits_for_reload);
        self.retry_later(is_worth_it && !self.is_pin_refused, now);
        let next = if self.is_pin_refused {
            "none is tried again before a reload, because tokens lock their PIN after a few tries"
                .to_owned()
        } else if is_worth_it {
            format!("they are tried again, at the latest every {} s", RETRY_MAX.as_secs())
        } else {
            "none is tried again before a reload, which reads PINs anew".to_owned()
        };
        if is_news {
            let (count, all, name) = (unopened.len(), self.keys, &self.name);
            let first = self.unopened.first().map_or("", String::as_str);
            error(format_args!("{count} of {all} keys cannot be opened ({name}): {first}; {next}"));
        }
    }

    fn is_gone(&mut self, why: &str, now: Instant) {
        self.process = None;
        self.stage = KeyProcessStage::Away;
        let name = &self.name;
        let since = self.away.take().map_or_else(SystemTime::now, |(_, since)| since);
        self.away = Some((why.to_owned(), since));
        if self.is_pin_refused {
            return error(format_args!(
                "the process that holds the keys {why} ({name}); no other is started before a \
                 reload, because tokens lock their PIN after a few tries"
            ));
        }
        let pause = self.backoff.died(now);
        if self.backoff.deaths == 1 || self.backoff.is_longer() {
            warn(format_args!(
                "the process that holds the keys {why} ({name}); another is started after {} ms",
                pause.as_millis()
            ));
        }
        self.starts = Some(now + pause);
    }

    /// Asks the process whether it goes on, or ends one that has not said so in time.
    fn look(&mut self, now: Instant) {
        if self.attempt.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.attempted(None, now);
        }
        match self.stage {
            KeyProcessStage::Open(at) if at <= now => {
                self.stage = KeyProcessStage::Asked(now + ANSWER_TIME_MAX);
                // One that cannot be asked is about to be heard of.
                self.process.iter().for_each(|one| drop(one.send(&KeyAsk::AreYouWell, &[])));
            }
            KeyProcessStage::Asked(at) if at <= now => {
                self.stage = KeyProcessStage::Late(now + LATE_TIME_MAX);
                self.away = Some(("does not answer".to_owned(), SystemTime::now()));
            }
            KeyProcessStage::Opening(at) | KeyProcessStage::Late(at) if at <= now => {
                let time = match self.stage {
                    KeyProcessStage::Opening(_) => OPEN_TIME_MAX,
                    _ => ANSWER_TIME_MAX + LATE_TIME_MAX,
                };
                self.is_gone(
                    &format!("has not answered in {} s, and is ended", time.as_secs()),
                    now,
                );
            }
            _ => {}
        }
    }

    fn status(&self) -> KeyHolderStatus {
        let since = self.away.as_ref().map(|(_, since)| since.duration_since(UNIX_EPOCH));
        let ms = |since: Duration| u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        KeyHolderStatus {
            keys: self.name.clone(),
            count: self.keys as u64,
            pid: self.process.as_ref().map(Child::pid),
            restarts: self.restarts,
            away: self.away.as_ref().map(|(why, _)| why.clone()),
            away_since_ms: since.map(|since| ms(since.unwrap_or_default())),
            unopened: self.unopened.len() as u64,
            reasons: self.unopened.iter().take(REASONS_MAX).cloned().collect(),
        }
    }
}

pub(super) struct KeyProcesses {
    served: Vec<KeyHolding>,
    pending: Option<Vec<KeyHolding>>,
    pub(super) earlier: EarlierKeyProcesses,
    confinement: Confinement,
    sender: EventSender,
    /// The number of the last process.
    processes: u64,
    /// The state of the processes that the worker process knows.
    pub(super) told: Vec<KeyHolderStatus>,
}

impl KeyProcesses {
    pub(super) fn new(confinement: Confinement, sender: EventSender) -> Self {
        let earlier = EarlierKeyProcesses::new(sender.clone());
        let (served, told) = (Vec::new(), Vec::new());
        Self { served, pending: None, earlier, confinement, sender, processes: 0, told }
    }

    fn all(&self) -> impl Iterator<Item = &KeyHolding> {
        self.served.iter().chain(self.pending.iter().flatten())
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let holdings = self.all().filter_map(KeyHolding::due);
        holdings.chain(self.earlier.due()).min()
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Child> {
        let processes = self.all().flat_map(|one| {
            one.process.iter().chain(one.attempt.iter().map(|(process, _)| process))
        });
        processes.chain(self.earlier.processes())
    }

    pub(super) fn status(&self) -> Vec<KeyHolderStatus> {
        self.served.iter().map(KeyHolding::status).collect()
    }

    /// Starts the processes of the pending plan, which open their keys while another is served.
    pub(super) fn prepare(&mut self, groups: &[KeyGroup]) {
        let mut holdings: Vec<_> = groups.iter().map(KeyHolding::of).collect();
        for (holding, group) in holdings.iter_mut().zip(groups) {
            self.serve(holding, group);
        }
        self.pending = Some(holdings);
    }

    /// Whether all processes of the pending plan, or else of the one served, have opened their
    /// keys, or could not.
    pub(super) fn next_are_open(&self) -> bool {
        let mut next = self.pending.as_ref().unwrap_or(&self.served).iter();
        !next.any(|one| matches!(one.stage, KeyProcessStage::Opening(_)))
    }

    /// New channels for all threads of a worker process that is to serve a plan, the pending one
    /// or the one served, each with its group's place; none = it has no keys elsewhere.
    ///
    /// # Errors
    /// This process, or the host, has no descriptor left; nothing has changed.
    pub(super) fn channels(
        &mut self,
        groups: &[KeyGroup],
        count: usize,
        is_pending: bool,
    ) -> io::Result<Vec<(u32, OwnedFd)>> {
        let pairs = |_| (0..count).map(|_| packet::pair()).collect();
        let pairs: Vec<Vec<_>> = groups.iter().map(pairs).collect::<io::Result<_>>()?;
        let mut holdings = if is_pending {
            self.pending.take().unwrap_or_default()
        } else {
            std::mem::take(&mut self.served)
        };
        holdings.truncate(groups.len());
        holdings.extend(groups.iter().skip(holdings.len()).map(KeyHolding::of));
        let mut ours = Vec::new();
        let all = holdings.iter_mut().zip(groups).zip(pairs);
        for (place, ((holding, group), pairs)) in (0..).zip(all) {
            let (own, theirs): (Vec<_>, _) = pairs.into_iter().unzip();
            ours.extend(own.into_iter().map(|end| (place, end)));
            holding.ends = theirs;
            self.serve(holding, group);
        }
        if is_pending {
            self.pending = Some(holdings);
        } else {
            self.served = holdings;
        }
        Ok(ours)
    }

    /// Lets a holding's process serve its channels; starts it if it is not there, and may be.
    fn serve(&mut self, holding: &mut KeyHolding, group: &KeyGroup) {
        let now = Instant::now();
        let served = match &holding.process {
            Some(process) => serve_channels(process, &holding.ends),
            None if holding.is_pin_refused => return,
            None => self.start(group).and_then(|process| {
                holding.starts = None;
                holding.stage = KeyProcessStage::Opening(now + OPEN_TIME_MAX);
                let process = holding.process.insert(process);
                serve_channels(process, &holding.ends)
            }),
        };
        if let Err(error) = served {
            holding.is_gone(&format!("cannot be started: {error}"), now);
        }
    }

    fn start(&mut self, group: &KeyGroup) -> io::Result<Child> {
        self.processes += 1;
        let (number, sender) = (self.processes, self.sender.clone());
        let hear = move |heard| sender.send(Event::Keys(number, heard));
        let process = Child::start(number, &KEYS, hear)?;
        process.send_with(&KeyAsk::Enter(self.confinement.clone()), &[], &group.packed)?;
        Ok(process)
    }

    /// Hears the process of that number, if it is of a plan that is served or is to be.
    pub(super) fn heard(&mut self, number: u64, heard: &ChildEvent<KeyReply>) {
        self.earlier.heard(number, heard);
        let now = Instant::now();
        let mut all = self.served.iter_mut().chain(self.pending.iter_mut().flatten());
        let is_it = |(process, _): &(Child, Instant)| process.number() == number;
        if let Some(holding) = all.find(|one| one.attempt.as_ref().is_some_and(is_it)) {
            return match heard {
                ChildEvent::Answer(KeyReply::Opened(unopened)) => {
                    holding.attempted(Some(unopened), now)
                }
                _ => holding.attempted(None, now),
            };
        }
        let mut all = self.served.iter_mut().chain(self.pending.iter_mut().flatten());
        let Some(holding) = all.find(|one| one.is_number(number)) else {
            return;
        };
        match heard {
            ChildEvent::Answer(KeyReply::Opened(unopened)) => holding.opened(unopened, now),
            ChildEvent::Answer(KeyReply::Well) => {
                holding.stage = KeyProcessStage::Open(now + LOOK_INTERVAL);
                holding.away = None;
            }
            ChildEvent::Answer(KeyReply::Stuck(why)) => {
                let why = format!("cannot give up its rights: {}", printable::line(why));
                holding.is_gone(&why, now);
            }
            ChildEvent::End | ChildEvent::Stopped => holding.is_gone("has ended", now),
        }
    }

    /// Looks at the processes, and starts those whose time has come, of the plan that is served and
    /// of the pending one.
    pub(super) fn tend(&mut self, now: Instant, served: &[KeyGroup], pending: Option<&[KeyGroup]>) {
        self.earlier.tend(now);
        let mut holdings = std::mem::take(&mut self.served);
        self.tend_all(now, &mut holdings, served);
        self.served = holdings;
        if let (Some(groups), Some(mut holdings)) = (pending, self.pending.take()) {
            self.tend_all(now, &mut holdings, groups);
            self.pending = Some(holdings);
        }
    }

    fn tend_all(&mut self, now: Instant, holdings: &mut [KeyHolding], groups: &[KeyGroup]) {
        for (holding, group) in holdings.iter_mut().zip(groups) {
            holding.look(now);
            if holding.starts.take_if(|at| *at <= now).is_some() {
                self.start_again(holding, group, now);
            }
        }
    }

    /// Starts another process: where one serves, beside it, and else in its place.
    fn start_again(&mut self, holding: &mut KeyHolding, group: &KeyGroup, now: Instant) {
        if holding.process.is_none() {
            holding.restarts += 1;
            return self.serve(holding, group);
        }
        match self.start(group) {
            Ok(process) => holding.attempt = Some((process, now + OPEN_TIME_MAX)),
            Err(_) => holding.retry_later(true, now),
        }
    }

    /// The pending plan is not served.
    pub(super) fn roll_back(&mut self) {
        self.pending = None;
    }

    /// The pending plan is served by that worker process. Handshakes by the plan before may take so
    /// long.
    pub(super) fn commit(&mut self, worker: u64, handshake_time: Duration) {
        let served = self.pending.take().unwrap_or_default();
        let before = std::mem::replace(&mut self.served, served);
        let processes = before.into_iter().filter_map(|one| one.process);
        self.earlier.extend(processes, worker, handshake_time);
    }

    /// The worker process is gone that asks by the channels. Their ends are shut down, not only
    /// closed: it may have passed on copies of its own (`SCM_RIGHTS`, unix(7)), and the processes
    /// that hold keys go on and would answer who has one.
    pub(super) fn end_channels(&mut self) {
        let all = self.served.iter_mut().chain(self.pending.iter_mut().flatten());
        all.flat_map(|one| one.ends.drain(..)).for_each(packet::end);
    }

    /// This program serves in the place of the one before: its processes are ours.
    pub(super) fn keep_lent(&mut self) {
        self.earlier.keep_lent();
    }

    /// Ends attempts, which sign nothing yet; this program makes others if it goes on.
    pub(super) fn end_attempts(&mut self) {
        let starts = Instant::now() + RETRY_FIRST;
        for holding in self.served.iter_mut().filter(|one| one.attempt.is_some()) {
            (holding.attempt, holding.starts) = (None, Some(starts));
        }
    }

    /// All processes that a worker process asks, as the next program gets them, with the ways to
    /// them; the one that asks those of the served plan has this number.
    pub(super) fn handed_on(
        &self,
        worker: u64,
    ) -> impl Iterator<Item = (KeyProcessState, BorrowedFd<'_>)> {
        let processes = self.served.iter().filter_map(|one| one.process.as_ref());
        let served = processes.map(move |one| (state_of(one, worker, None), one.channel()));
        self.earlier.state().chain(served)
    }

    /// The means of a program that comes back to go on, for each group.
    pub(super) fn state(&self) -> Vec<LentKeyProcess> {
        let state = |one: &KeyHolding| LentKeyProcess {
            process: one.process.as_ref().map(Child::number),
            channels: one.ends.len() as u32,
            unopened: one.unopened.clone(),
            is_pin_refused: one.is_pin_refused,
            is_retried: one.starts.is_some(),
        };
        self.served.iter().map(state).collect()
    }

    /// The ends of the channels, which are this program's own.
    pub(super) fn ends(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.served.iter().flat_map(|one| one.ends.iter().map(AsFd::as_fd))
    }

    /// Takes up the processes that a program has handed on: those of the served plan if it was this
    /// program, which has these ends of their channels.
    pub(super) fn take_up(
        &mut self,
        groups: &[KeyGroup],
        (lent, ends): (Option<&[LentKeyProcess]>, Vec<OwnedFd>),
        mut handed_on: Vec<(KeyProcessState, OwnedFd)>,
    ) {
        let numbers = handed_on.iter().map(|(state, _)| state.number);
        self.processes = numbers.max().unwrap_or(0);
        let (mut fds, now) = (ends.into_iter(), Instant::now());
        for (group, one) in groups.iter().zip(lent.unwrap_or_default()) {
            let mut holding = KeyHolding::of(group);
            let is_its = |state: &KeyProcessState| Some(state.number) == one.process;
            let place = handed_on.iter().position(|(state, _)| is_its(state));
            holding.process = place.and_then(|place| {
                let (state, channel) = handed_on.remove(place);
                let mut process = Child::lent((state.number, state.pid), &KEYS, channel).ok()?;
                process.keep();
                let (number, sender) = (state.number, self.sender.clone());
                process.listen(move |heard| sender.send(Event::Keys(number, heard))).ok()?;
                Some(process)
            });
            holding.ends = fds.by_ref().take(one.channels as usize).collect();
            holding.unopened.clone_from(&one.unopened);
            holding.is_pin_refused = one.is_pin_refused;
            if holding.process.is_some() {
                holding.away = None;
                holding.stage = KeyProcessStage::Open(now);
                holding.starts = one.is_retried.then_some(now + RETRY_FIRST);
            } else {
                holding.starts = (!one.is_pin_refused).then_some(now);
            }
            self.served.push(holding);
        }
        self.earlier.lend(handed_on);
        if lent.is_some() {
            self.earlier.keep_lent();
        }
    }
}

fn serve_channels(process: &Child, ends: &[OwnedFd]) -> io::Result<()> {
    let ends: Vec<_> = ends.iter().map(AsFd::as_fd).collect();
    Ok(process.send(&KeyAsk::Serve, &ends)?)
}

/// A sentence and its hint, in one line.
fn shown(why: &str) -> String {
    match why.split_once("\nhint: ") {
        Some((why, hint)) => format!("{} ({})", printable::line(why), printable::line(hint)),
        None => printable::line(why).to_string(),
    }
}
