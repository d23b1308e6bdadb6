//! The start of a supervisor: by itself, in the place of another program of the same process, or
//! after one that could not serve in the place of this one. And its end: draining, and what a
//! second signal does.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use sys::signal::Signal;
use sys::{process, sandbox};
use wire::address::Address;

use super::acme::Acme;
use super::answers::say_ended;
use super::child::{Backoff, DRAIN_GRACE, EarlierWorkerProcess};
use super::events::{Event, EventQueue};
use super::failure::Failure;
use super::inheritance::{Roots, Sessions};
use super::key_log::KeyLog;
use super::keys::KeyProcesses;
use super::listeners::Listeners;
use super::names::Names;
use super::own_sockets::{AdminSockets, ClusterSocket};
use super::prepared::ConfigSummary;
use super::reading::{self, Read, ReaderResult, RunningReaders};
use super::reload::{say_each, warnings_of};
use super::service_manager::ServiceManager;
use super::service_manager::protocol::HandedOverSockets;
use super::upgrade::check::Upgrading;
use super::upgrade::image::{OwnState, RollbackProgram, SupervisorOrigin, UpgradeRollback};
use super::upgrade::state::{HookState, InheritedImage, InheritedState, KeyProcessState};
use super::watched::Watched;
use super::{DueWork, Phase, Request, Supervisor};
use crate::handover::{Reloads, SupervisorOrder};
use crate::messages as forms;
use crate::messages::{note, warn};
use crate::reader::Task;
use crate::watcher::Stamps;

/// From one sign of life to the service manager to the next, while files are read.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);

/// The configuration to begin with, and what a program has left to itself that goes on.
type First = (Option<OwnState>, Read, Option<Stamps>);

/// A program before leaves worker processes, processes with keys, its version, and programs that
/// change the DNS.
type EarlierImage =
    (Vec<EarlierWorkerProcess>, Vec<(KeyProcessState, OwnedFd)>, Option<String>, Vec<HookState>);

impl<'a> Supervisor<'a> {
    /// `None` = it was told to stop.
    pub(super) fn prepare(
        request: Request<'a>,
        mut events: EventQueue,
        origin: SupervisorOrigin,
        way_back: &'a mut Option<RollbackProgram>,
    ) -> Result<Option<Self>, Failure> {
        let (mut inherited, readers) = (origin.inherited, RunningReaders::default());
        let mut manager = ServiceManager::of_environment(&inherited);
        let before = (origin.returned, way_back.is_some().then_some(&mut manager));
        let Some((own, read, looked)) = first(&request, &readers, &mut events, before)? else {
            return Ok(None);
        };
        let (served, own) = (read.prepared, own.as_ref());
        let summary = &served.summary;
        let calls_forbidden_by = forbid_system_calls(summary, &inherited)?;
        let (listeners, admin_sockets, cluster_socket) =
            open_sockets(summary, read.log, origin.handed_over, &mut inherited, own.is_some())?;
        let confinement = summary.confinement(read.become_user);
        let mut reloads = own.map(|own| own.reloads.clone()).unwrap_or_default();
        let (earlier, lent, program, hooks) = earlier_image(&mut inherited, &mut reloads)?;
        let mut keys = KeyProcesses::new(confinement.clone(), events.sender());
        let others = (own.map(|own| &*own.key_processes), read.others);
        keys.take_up(&served.keys, others, lent);
        Ok(Some(Self {
            request,
            listeners,
            roots: Roots::new(read.folders),
            admin_sockets,
            cluster_socket,
            names: Names::new(confinement.clone(), events.sender()),
            watched: Watched::new(events.sender(), looked),
            acme: Acme::new(confinement.clone(), events.sender(), hooks),
            keys,
            disabled: inherited.disabled,
            weights: inherited.weights,
            confinement,
            connect_rights: own
                .map_or_else(|| served.summary.connect_rights(), |own| own.connect_rights.clone()),
            served,
            generation: own.map_or(1, |own| own.generation),
            pending: None,
            reload_asked: false,
            is_log_renamed: false,
            log_unopened: None,
            stop_asked: false,
            is_ended: false,
            events,
            readers,
            is_reading: false,
            reloads,
            warnings: warnings_of(&read.warnings).map(ToString::to_string).collect(),
            child: None,
            last_number: inherited.last_number,
            children: 0,
            phase: Phase::Starting,
            rights: None,
            due: None,
            backoff: Backoff::default(),
            sessions: Sessions::new(inherited.secret, inherited.sessions)?,
            key_log: KeyLog::default(),
            upgrading: Upgrading::new(program),
            way_back,
            waits: earlier.iter().any(EarlierWorkerProcess::serves) && own.is_none(),
            earlier,
            is_switching: false,
            calls_forbidden_by,
            start: SystemTime::now(),
            manager,
        }))
    }

    /// Starts a worker process, or goes on with the one that there is, since another program could
    /// not take over.
    pub(super) fn begin(&mut self, returned: Option<String>) -> Result<(), Failure> {
        self.follow_key_log();
        self.forget_servers();
        self.resolve(self.served.summary.names.clone())?;
        self.listen_to(|_| true);
        if self.way_back.is_some() {
            // The manager has known the program before: it expects signs of life.
            self.manager.look = Some(Instant::now());
        }
        match returned {
            None => self.start_child(),
            Some(why) => self.has_returned(&why),
        }
    }
}

/// Forbids system calls that no supervisor needs, unless the configuration says otherwise; also for
/// the worker process. A kernel without seccomp is named when that has entered its sandbox. Gives
/// the version that has done so, which may be that of a program before.
fn forbid_system_calls(
    summary: &ConfigSummary,
    inherited: &InheritedState,
) -> Result<Option<String>, Failure> {
    let own = env!("CARGO_PKG_VERSION");
    let before = inherited.image.as_ref();
    let before = before.and_then(|image| image.state.calls_forbidden_by.clone());
    if !summary.process.sandbox.system_calls || before.as_deref() == Some(own) {
        return Ok(before);
    }
    process::no_new_privileges().map_err(Failure::host("refuse new privileges"))?;
    sandbox::forbid_system_calls().map_err(Failure::host("forbid system calls"))?;
    Ok(Some(own.to_owned()))
}

/// The worker processes, the processes with keys and the version of the program before, if this one
/// follows another.
fn earlier_image(
    inherited: &mut InheritedState,
    reloads: &mut Reloads,
) -> Result<EarlierImage, Failure> {
    let Some(image) = inherited.image.take() else {
        return Ok(EarlierImage::default());
    };
    let InheritedImage { program, state, workers, key_processes, .. } = image;
    reloads.last_upgrade = state.last_upgrade;
    let workers = EarlierWorkerProcess::all(&state.workers, workers)
        .map_err(Failure::host("hear a process"))?;
    let keys = state.key_processes.into_iter().zip(key_processes).collect();
    Ok((workers, keys, Some(program), state.hooks))
}

/// Reads the first configuration, unless a program goes on; `None` = a signal ended the wait. A
/// manager that knows the program before hears meanwhile that this one lives.
fn first(
    request: &Request<'_>,
    readers: &RunningReaders,
    events: &mut EventQueue,
    (returned, mut manager): (Option<UpgradeRollback>, Option<&mut ServiceManager>),
) -> Result<Option<First>, Failure> {
    let sender = events.sender();
    let hear = move |done, looked| sender.send(Event::Read(done, looked));
    let (own, read, looked) = match returned {
        Some(UpgradeRollback { mut own, fds, .. }) => {
            let (found, bundle) = (own.found.clone(), std::mem::take(&mut own.bundle));
            let keys = std::mem::take(&mut own.keys);
            let mut read = reading::read(found, fds, (bundle, keys))?;
            read.prepared.summary.keep_fixed_parts(own.fixed.clone());
            (Some(own), read, None)
        }
        None => {
            readers.start(&Task::Read(request.config.clone()), hear)?;
            let wanted = |news: &Event| {
                let ends = [Signal::Interrupt, Signal::Terminate];
                matches!(news, Event::Read(..))
                    || matches!(news, Event::Signal(signal) if ends.contains(signal))
            };
            let news = loop {
                manager.iter_mut().for_each(|manager| manager.beat());
                let until = Instant::now() + BEAT_INTERVAL;
                let news = events.next_of(until, wanted);
                if let Some(news) = news.map_err(Failure::host("wait for events"))? {
                    break news;
                }
            };
            match news {
                Event::Read(Ok(ReaderResult::Read(read)), looked) => (None, *read, looked),
                Event::Read(Err(failure), _) => return Err(failure),
                Event::Signal(signal) if manager.is_some() => {
                    // The program before knows what it has, and drains.
                    events.put_back(Event::Signal(signal));
                    return Err(events.told_to_stop());
                }
                _ => return Ok(None),
            }
        }
    };
    forms::configure(&read.prepared.summary.control);
    say_each(&read.warnings, request.colour);
    Ok(Some((own, read, looked)))
}

/// Opens what a first plan wants and nobody has handed over.
fn open_sockets(
    summary: &ConfigSummary,
    log: Option<OwnedFd>,
    handed_over: HandedOverSockets,
    inherited: &mut InheritedState,
    is_returned: bool,
) -> Result<(Listeners, AdminSockets, Option<ClusterSocket>), Failure> {
    handed_over.warn_of_unused(|address| summary.listens_at(address));
    let address = summary.control.listen.map(Address::Ip);
    let shared = address.as_ref().and_then(|at| handed_over.share(at, 1)?.pop());
    let is_handed_over = shared.is_some();
    let admin = address.and_then(|admin| inherited.take_admin(&admin).or(shared));
    let mut listeners = Listeners::new(handed_over, reading::remove);
    let waits = inherited.image.is_some() && !is_returned;
    listeners.adopt(std::mem::take(&mut inherited.listeners), waits);
    let workers = summary.workers.cpus.len();
    listeners.open(&summary.listen, workers, &summary.listen_options)?;
    if !waits {
        listeners.keep(&summary.listen);
    }
    let image = inherited.image.as_mut();
    let image = image.and_then(|image| Some((image.status.take()?, &image.state)));
    let mut admin_sockets = AdminSockets::open(summary, (log, admin), image)?;
    admin_sockets.is_handed_over = is_handed_over;
    let before = inherited.cluster.as_ref().map(|(name, fd)| (name.clone(), fd.as_fd()));
    let cluster_socket = ClusterSocket::of_plan(summary.peers.as_ref(), before)?;
    Ok((listeners, admin_sockets, cluster_socket))
}

/// How long a worker process that is told to end may take to say that it serves, if it does: the
/// word takes microseconds on a host at rest. One that still builds a plan has no clients.
const READY_GRACE: Duration = Duration::from_secs(1);

impl Supervisor<'_> {
    /// Drains and does not come back: what the service manager would keep is closed.
    pub(super) fn stop_for_good(&mut self) {
        self.forget_descriptors();
        self.stop();
    }

    /// Drains; when asked again, ends at once. The service manager keeps the listening sockets, if
    /// it keeps any, for the next start: whether there is one, it alone knows.
    pub(super) fn stop(&mut self) {
        self.give_up_upgrade();
        if self.is_switching && !std::mem::replace(&mut self.stop_asked, true) {
            // Our worker process accepts in a moment, and drains then.
            return;
        }
        let is_begun = matches!(self.phase, Phase::Starting | Phase::Restarting);
        if self.child.is_some() && is_begun && !std::mem::replace(&mut self.stop_asked, true) {
            // Its workers may serve clients already, and its word of it be under way.
            self.due = Some((Instant::now() + READY_GRACE, DueWork::Drained));
            return;
        }
        if self.child.is_none() || self.phase != Phase::Serving {
            self.tell_manager_stopping(DRAIN_GRACE);
            // Their drop kills and reaps.
            self.earlier.drain(..).for_each(|mut one| one.child.keep());
            return self.end_at_once(match self.phase {
                Phase::Draining => "it was told a second time to end",
                _ => "nothing was drained to its end",
            });
        }
        self.phase = Phase::Draining;
        self.stop_asked = true;
        self.pending = None;
        self.keys.roll_back();
        let process = &self.served.summary.process;
        let (delay, drain) = (process.drain_delay, process.drain);
        self.tell_manager_stopping(delay + drain + DRAIN_GRACE);
        if delay.is_zero() {
            return self.drain();
        }
        note(format_args!(
            "a drain begins in {delay:?}: /ready answers 503, ports stay open until then; a second \
             signal ends at once"
        ));
        self.due = Some((Instant::now() + delay, DueWork::DrainDelay));
        self.tell(&SupervisorOrder::Unready);
    }

    pub(super) fn drain(&mut self) {
        // Ours first: the kernel must send no connection to a socket that nobody accepts from.
        self.listeners.close();
        let time = self.served.summary.process.drain;
        note(format_args!("draining for up to {} s; a second signal ends at once", time.as_secs()));
        self.due = Some((Instant::now() + time + DRAIN_GRACE, DueWork::Drained));
        let is_replaced = false;
        self.tell(&SupervisorOrder::Drain { time, is_replaced });
    }

    /// The worker process has drained; `cut` connections were still open at the deadline.
    pub(super) fn drained(&mut self, cut: u64) {
        say_ended("ended", cut);
        self.end();
    }

    /// A worker process that has not drained is killed, with its connections.
    pub(super) fn end_at_once(&mut self, why: &str) {
        if self.child.is_some() || !self.earlier.is_empty() {
            warn(format_args!("ended; connections that are still open are cut: {why}"));
        }
        self.end();
    }

    /// Ends, unless worker processes before ours still drain.
    pub(super) fn end(&mut self) {
        // Its drop kills and reaps.
        self.child = None;
        if !self.earlier.is_empty() {
            self.due = None;
            return;
        }
        self.key_log.flush();
        self.manager.notifier.flush();
        self.is_ended = true;
    }
}
