//! An upgrade: this process becomes another program, and no client notices.
//!
//! The new program is run as a child first: it reads its configuration and what would be handed
//! on, and says yes or no (`check`). Then what worker processes say is heard to the end of a
//! message, and the process becomes the new program (`image`). Its worker process builds a plan
//! while the one before serves; that one pauses, the new one accepts, that one drains. Whatever
//! goes wrong before the new one accepts, the program before goes on: it is run again with all that
//! it had.

pub(super) mod check;
pub(super) mod image;
pub(super) mod state;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sys::signal::{self, Signal};
use telemetry::message::LogLevel;
use telemetry::printable::line;

use super::child::{Child, ChildEvent, EarlierWorkerProcess, state_of};
use super::events::Event;
use super::failure::Failure;
use super::{DueWork, Phase, Supervisor};
use crate::handover::{Secret, SupervisorOrder};
use crate::held_keys::KeyGroup;
use crate::messages::{error, note, printable};
use crate::named_servers::Observations;
use crate::reader::HostFindings;
use crate::status_parts::UpgradeStatus;

use check::{CHECK_TIME_MAX, CheckNews, NewProgram, RELEASE_TIME_MAX, SWITCH_TIME_MAX, Upgrade};
use image::OwnState;
use state::{ImageState, Release, SupervisorState};

/// How long a worker process may take to end a message that has begun.
const STOP_TIME_MAX: Duration = Duration::from_secs(2);

const TOLD_TO_STOP: &str = "the running one was told to stop";

impl Supervisor<'_> {
    pub(super) fn upgrade(&mut self) {
        match std::mem::take(&mut self.upgrading.stage) {
            Upgrade::None if self.way_back.is_none() => {}
            Upgrade::Checking(check) => {
                note("an upgrade is ordered once more: the program is run anew as it is now");
                check.give_up();
            }
            other => {
                // Who asked hears what comes of that one.
                self.upgrading.stage = other;
                return;
            }
        }
        let begun = match self.phase {
            Phase::Draining => Err("the running one drains".to_owned()),
            _ if self.stop_asked => Err(TOLD_TO_STOP.to_owned()),
            _ => {
                let (state, events) = (self.state(self.last_number), self.events.sender());
                let hear = move |number, news| events.send(Event::Check(number, news));
                self.upgrading.begin_check(state, hear)
            }
        };
        match begun {
            Ok(check) => {
                self.tell_upgrade(check.status());
                self.upgrading.stage = Upgrade::Checking(check);
            }
            Err(why) => self.upgrade_failed(&format!("cannot run the new program: {why}")),
        }
    }

    pub(super) fn checked(&mut self, number: u64, news: CheckNews) {
        let Upgrade::Checking(check) = &mut self.upgrading.stage else {
            return;
        };
        if check.number != number {
            return;
        }
        match news {
            CheckNews::Running(pid) => {
                check.runs(pid);
                let (stage, name) = (check.status(), check.name.display());
                note(format_args!(
                    "upgrade: {name} (pid {pid}) is run to say whether it would serve; it has {} s \
                     to say which version it is, and {} s to read the configuration",
                    RELEASE_TIME_MAX.as_secs(),
                    CHECK_TIME_MAX.as_secs(),
                ));
                self.tell_upgrade(stage);
            }
            CheckNews::Reads(version) => {
                check.reads(version);
                let stage = check.status();
                self.tell_upgrade(stage);
            }
            CheckNews::Ended(Ok(program)) => {
                let status = check.accepted();
                self.tell_upgrade(status);
                self.upgrading.stage = Upgrade::Accepted(program);
            }
            CheckNews::Ended(Err(why)) => {
                self.upgrading.stage = Upgrade::None;
                self.upgrade_failed(&why);
            }
        }
    }

    pub(super) fn upgrade_is_late(&mut self) {
        if let Upgrade::Stopping(_, until) = &mut self.upgrading.stage {
            *until = Instant::now() + STOP_TIME_MAX;
            let known: Vec<_> = self.workers_before().map(Child::number).collect();
            self.upgrading.listening.retain(|one| known.contains(one));
            return self.kill_those_that_are_heard();
        }
        let Upgrade::Checking(check) = std::mem::take(&mut self.upgrading.stage) else {
            return;
        };
        let why = check.why_late();
        check.give_up();
        self.upgrade_failed(&why);
    }

    /// Ends worker processes of which half a message has come, and no more within the time: whose
    /// thread does not end cannot be handed on.
    fn kill_those_that_are_heard(&self) {
        let listening = self.upgrading.listening.clone();
        let is_heard = |child: &&Child| listening.contains(&child.number());
        for child in self.workers_before().filter(is_heard) {
            let (pid, time) = (child.pid(), STOP_TIME_MAX.as_secs());
            error(format_args!(
                "the worker process (pid {pid}) has not ended a message in {time} s, and is \
                 killed"
            ));
            child.kill();
        }
    }

    /// Gives an upgrade up, if there is one, because this process is to stop.
    pub(super) fn give_up_upgrade(&mut self) {
        match std::mem::take(&mut self.upgrading.stage) {
            Upgrade::None => return,
            Upgrade::Checking(check) => check.give_up(),
            Upgrade::Accepted(_) => {}
            Upgrade::Stopping(..) => {
                // To the others as soon as their threads have ended.
                let listening = self.upgrading.listening.clone();
                self.listen_to(|number| !listening.contains(&number));
            }
        }
        self.upgrade_failed(TOLD_TO_STOP);
    }

    /// How far an upgrade is, for the status.
    fn tell_upgrade(&mut self, status: UpgradeStatus) {
        self.reloads.upgrade = Some(status);
        self.tell(&SupervisorOrder::Reloads(self.reloads.clone()));
    }

    /// This program goes on. The reason is a sentence without a full stop.
    fn upgrade_failed(&mut self, why: &str) {
        let why = printable(why.trim_end());
        // As it stands on a standard error.
        let why = LogLevel::split(&why).map_or(&*why, |(_, text)| text);
        error(format_args!("the new program has not taken over, and this one goes on: {why}"));
        let own = Release::own().program;
        self.reloads.upgrade_ended(own, Some(why.to_owned()));
        self.tell(&SupervisorOrder::Reloads(self.reloads.clone()));
    }

    /// Goes on with an upgrade whose turn has come.
    pub(super) fn go_on_with_upgrade(&mut self) -> Result<(), Failure> {
        let is_idle = self.pending.is_none() && !self.is_reading && self.way_back.is_none();
        let has_turn = match self.phase {
            Phase::Serving => is_idle,
            Phase::Restarting => true,
            Phase::Starting | Phase::Draining => false,
        };
        if !has_turn {
            return Ok(());
        }
        self.upgrading.stage = match std::mem::take(&mut self.upgrading.stage) {
            Upgrade::Accepted(program) => {
                if self.phase == Phase::Restarting {
                    // It does not serve, and the new one may know better.
                    self.child = None;
                }
                self.stop_listening();
                Upgrade::Stopping(program, Instant::now() + STOP_TIME_MAX)
            }
            other => other,
        };
        if self.upgrading.listening.is_empty()
            && let Some(program) = self.upgrading.stage.take_stopping()
        {
            let why = self.become_program(program);
            self.listen_to(|_| true);
            self.upgrade_failed(&why);
            self.watched.follow(self.served.summary.reload);
            self.follow_acme();
            if self.phase == Phase::Restarting {
                self.start_again()?;
            }
            self.reload_if_asked();
        }
        Ok(())
    }

    /// Hears worker processes to the end of a message, and then no more.
    fn stop_listening(&mut self) {
        self.workers_before().for_each(Child::stop_listening);
        self.upgrading.listening = self.workers_before().map(Child::number).collect();
    }

    /// All worker processes that are to be handed on.
    fn workers_before(&self) -> impl Iterator<Item = &Child> {
        let earlier = self.earlier.iter().map(|one| &one.child);
        self.child.iter().chain(earlier)
    }

    /// A thread that listened to a worker process has ended, as it was told.
    pub(super) fn listens_no_more(&mut self, number: u64) {
        self.upgrading.listening.retain(|one| *one != number);
        if !matches!(self.upgrading.stage, Upgrade::Stopping(..)) {
            self.listen_to(|one| one == number);
        }
    }

    /// Listens to these worker processes, to which no thread does.
    pub(super) fn listen_to(&self, is_one: impl Fn(u64) -> bool) {
        for child in self.workers_before().filter(|child| is_one(child.number())) {
            let (number, sender) = (child.number(), self.events.sender());
            let hear = move |heard| sender.send(Event::Heard(number, heard));
            if let Err(why) = child.listen(hear) {
                let pid = child.pid();
                error(format_args!("the worker process (pid {pid}) is not heard any more: {why}"));
            }
        }
    }

    /// Becomes the new program. Returns why that could not be.
    fn become_program(&mut self, program: NewProgram) -> String {
        self.watched.process = None;
        self.names.pause();
        self.acme.pause();
        self.keys.end_attempts();
        self.keep_descriptors();
        self.feed_watchdog();
        self.key_log.flush();
        self.manager.notifier.flush();
        let version = line(&program.version);
        note(format_args!("this process becomes lariat {version}"));
        self.send_signals_again();
        let mut children: Vec<&mut Child> = self.child.iter_mut().collect();
        children.extend(self.earlier.iter_mut().map(|one| &mut one.child));
        children.into_iter().for_each(Child::lend);
        let error = match (self.handed_on(&program), program.fd) {
            (Ok(handed), file) => {
                let mut fds: Vec<_> = handed.iter().map(AsFd::as_fd).collect();
                fds.extend(self.handed_on_descriptors());
                image::hand_on(file, &fds, self.upgrading.program.clone())
            }
            (Err(error), _) => error,
        };
        self.child.iter_mut().for_each(Child::keep);
        self.earlier.iter_mut().for_each(|one| one.child.keep());
        format!("cannot become lariat {version}: {error}")
    }

    /// Signals that were read and not yet followed are the next program's.
    fn send_signals_again(&mut self) {
        let own = std::process::id();
        if std::mem::take(&mut self.reload_asked) {
            let _ = signal::send(own, Signal::Hangup);
        }
        self.events.send_signals_again();
    }

    /// The first of what is handed on; see [`image`].
    fn handed_on(&self, program: &NewProgram) -> io::Result<[OwnedFd; 3]> {
        let state = SupervisorState {
            format: program.format,
            image: Some(self.image_state()),
            ..self.full_state()
        };
        let summary = &self.served.summary;
        let found = HostFindings {
            become_user: self.confinement.become_user.clone(),
            kernel_tls: summary.kernel_tls.clone(),
            concerns: Vec::new(),
            folders: self.roots.identities(),
            acme: self.acme.found(),
            notice_roots: self.served.acme.notice_roots.clone(),
        };
        let own = OwnState {
            generation: self.generation,
            reloads: self.reloads.clone(),
            found,
            fixed: summary.fixed_parts(),
            connect_rights: self.connect_rights.clone(),
            bundle: Secret::new(self.served.bundle.bytes().to_vec()),
            keys: self.served.keys.iter().map(KeyGroup::copy).collect(),
            key_processes: self.keys.state(),
        };
        Ok([image::own_program()?, own.sealed()?, image::sealed(&state)?])
    }

    fn image_state(&self) -> ImageState {
        let workers = self.child.iter().map(|child| (child, None));
        let earlier = self.earlier.iter();
        let earlier = earlier.map(|one| (&one.child, one.drains_until));
        ImageState {
            status_socket: self.admin_sockets.status_path.clone(),
            pid_file: self.admin_sockets.pid_file.clone(),
            workers: workers.chain(earlier).map(|(child, until)| state_of(child, until)).collect(),
            calls_forbidden_by: self.calls_forbidden_by.clone(),
            last_upgrade: self.reloads.last_upgrade.clone(),
            key_processes: self.handed_on_keys().map(|(state, _)| state).collect(),
            hooks: self.acme.challenges.handed_on(),
        }
    }

    /// In the order that [`SupervisorState`] says; then this program's own.
    fn handed_on_descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let sessions = self.sessions.handed_on();
        let mut fds: Vec<_> = sessions.iter().map(|(_, fd)| *fd).collect();
        fds.extend(self.listeners.handed_on().into_iter().flat_map(|(_, fds)| fds));
        fds.extend(self.admin_sockets.admin());
        fds.extend(self.cluster_socket.as_ref().map(|socket| socket.handed_on().1));
        fds.push(self.admin_sockets.status());
        fds.extend(self.workers_before().map(Child::channel));
        fds.extend(self.handed_on_keys().map(|(_, fd)| fd));
        fds.extend(self.roots.all());
        fds.push(self.admin_sockets.log());
        fds.extend(self.keys.ends());
        fds
    }

    /// The state that a new process gets as well, with all that this one has open.
    fn full_state(&self) -> SupervisorState {
        let admin = self.served.summary.control.listen;
        let admin = self.admin_sockets.admin().and(admin);
        let listeners = self.listeners.handed_on().into_iter();
        SupervisorState {
            listeners: listeners.map(|(listener, _)| listener).collect(),
            admin: admin.map(|address| address.to_string()),
            cluster: self.cluster_socket.as_ref().map(|socket| socket.handed_on().0),
            ..self.state(self.last_number)
        }
    }

    /// The state that is handed on beside sockets, of worker processes up to that number.
    pub(super) fn state(&self, last_number: u64) -> SupervisorState {
        let Release { formats, program } = Release::own();
        SupervisorState {
            format: formats[1],
            program,
            must_understand: Vec::new(),
            secret: self.sessions.secret.clone(),
            last_number,
            disabled: self.disabled.iter().cloned().collect(),
            weights: self.weights.clone().into_iter().collect(),
            listeners: Vec::new(),
            admin: None,
            cluster: None,
            sessions: self.sessions.handed_on().map(|(state, _)| state),
            image: None,
        }
    }

    // In the new program.

    /// The new worker process has built its plan: the one before may pause.
    pub(super) fn pause_before(&mut self) {
        self.due = Some((Instant::now() + SWITCH_TIME_MAX, DueWork::Pause));
        let before = self.earlier.iter_mut().find(|one| one.serves());
        match before.map(|one| one.child.send(&SupervisorOrder::Pause, &[])) {
            Some(Ok(())) => self.is_switching = true,
            // It has died, or is about to.
            Some(Err(_)) | None => self.paused(Observations::default()),
        }
    }

    /// The worker process before has paused, or is gone.
    pub(super) fn paused(&mut self, observations: Observations) {
        self.is_switching = true;
        if matches!(self.due, Some((_, DueWork::Pause))) {
            self.due = Some((Instant::now() + SWITCH_TIME_MAX, DueWork::Switch));
        }
        self.tell(&SupervisorOrder::Accept(observations));
    }

    /// Ends a worker process that has not paused in its time: it serves nobody well, and must not
    /// keep a host from the program that would.
    pub(super) fn has_not_paused(&mut self) {
        for mut one in self.earlier.extract_if(.., |one| one.serves()) {
            let (pid, time) = (one.child.pid(), SWITCH_TIME_MAX.as_secs());
            self.upgrading.listening.retain(|number| *number != one.child.number());
            one.child.keep();
            error(format_args!(
                "the worker process before (pid {pid}) has not paused in {time} s, and is killed, \
                 and its connections with it"
            ));
        }
        self.paused(Observations::default());
    }

    /// The new worker process accepts: there is no way back, and none is needed.
    pub(super) fn has_taken_over(&mut self) {
        (self.waits, self.is_switching) = (false, false);
        if self.way_back.take().is_none() {
            return;
        }
        let summary = &self.served.summary;
        self.listeners.lent.clear();
        self.listeners.keep(&summary.listen);
        if let Err(failure) = self.admin_sockets.take_places(summary) {
            error(failure);
        }
        let drain = summary.process.drain;
        self.earlier.iter_mut().for_each(|one| one.drain(drain));
        self.keys.keep_lent();
        self.end_unasked_keys();
        let before = self.upgrading.program_before.take().unwrap_or_default();
        let (before, own) = (line(&before), Release::own().program);
        note(format_args!("lariat {own} has taken over from lariat {before}"));
        self.reloads.upgrade_ended(own, None);
        self.tell(&SupervisorOrder::Reloads(self.reloads.clone()));
    }

    /// The program before goes on by itself: what was heard and not followed is its own, and no
    /// message of a worker process is cut in two.
    pub(super) fn leave(mut self) {
        // It has served nobody.
        self.child = None;
        self.stop_listening();
        let until = Instant::now() + STOP_TIME_MAX;
        let is_heard = |news: &Event| matches!(news, Event::Heard(..));
        while !self.upgrading.listening.is_empty()
            && let Ok(Some(Event::Heard(number, heard))) = self.events.next_of(until, is_heard)
        {
            match heard {
                ChildEvent::Answer(_) => self.heard_of_earlier(number, heard),
                ChildEvent::Stopped | ChildEvent::End => {
                    self.upgrading.listening.retain(|one| *one != number);
                }
            }
        }
        self.kill_those_that_are_heard();
        self.send_signals_again();
    }

    /// In the program that goes on, since the next one could not serve.
    pub(super) fn has_returned(&mut self, why: &str) -> Result<(), Failure> {
        // The number of the new program's own, so that no value of the cache is sealed twice by it.
        self.last_number += 1;
        self.phase = Phase::Restarting;
        if let Some(place) = self.earlier.iter().position(EarlierWorkerProcess::serves) {
            self.phase = Phase::Serving;
            self.child = Some(self.earlier.remove(place).child);
        }
        self.child.iter_mut().for_each(Child::keep);
        self.earlier.iter_mut().for_each(|one| one.child.keep());
        self.listeners.lent.clear();
        if let Err(failure) = self.admin_sockets.take_places(&self.served.summary) {
            error(failure);
        }
        if self.phase == Phase::Restarting {
            self.start_again()?;
        }
        // It may have been told to pause.
        self.tell(&SupervisorOrder::Accept(Observations::default()));
        self.upgrade_failed(why);
        self.watched.follow(self.served.summary.reload);
        self.follow_acme();
        self.tell_manager_ready();
        self.keep_descriptors();
        Ok(())
    }
}
