//! The supervisor: keeps the rights, the sockets and the configuration, and a worker process alive
//! that has none of them but what it is handed.
//!
//! Owns the order of things: start, reload as a transaction, restart after a crash, drain. It
//! carries no connection, does no TLS and knows no protocol; what it hears from the worker process
//! decides over its plans only, never over its own rights.

mod admin_sockets;
mod answers;
mod backoff;
mod child;
mod cluster_socket;
mod descriptor_store;
mod events;
mod failure;
mod handed_over;
mod inheriting;
mod listeners;
mod lookups;
mod meeting;
mod messages;
mod names;
mod phase;
mod predecessor;
mod prepared;
mod reading;
mod reload;
mod reporting;
mod resolving;
mod roots;
mod servers;
mod service_manager;
mod sessions;
mod starting;
mod stopping;
mod succession;
mod successor;
mod takeover_socket;
mod trial;
mod watched;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use sys::signal::Signal;
use sys::{limit, process, sandbox};
use telemetry::message::Level;
use wire::address::Address;

use crate::handover::{
    ANSWER_BYTES_MAX, Fences, Order, Reach, Reloads, Rights, Role, SUPERVISOR_NAME, Serve, Start,
    WORKER_ARGUMENT, WORKER_NAME,
};
use crate::maintenance::ServerName;
use crate::messages::{self as forms, say};
use crate::reader::{ConfigSource, Task};
use crate::status_socket;
use crate::stderr;
use crate::takeover::{Hello, socket_path};
use crate::watcher::Stamps;

use admin_sockets::AdminSockets;
use backoff::Backoff;
use child::{Child, Program};
use cluster_socket::ClusterSocket;
use descriptor_store::DescriptorStore;
use events::{Event, EventQueue};
use handed_over::{Given, HandedOverSockets};
use listeners::Listeners;
use meeting::Met;
use messages::{say_each, warn};
use names::Names;
use phase::{Due, Next, Phase};
use predecessor::{From, Inherited, Watcher};
use prepared::{ConfigSummary, Prepared};
use reading::{Done, Read, Readers};
use roots::Roots;
use service_manager::ServiceManager;
use sessions::Sessions;
use successor::Succession;
use watched::Watched;

pub(crate) use failure::{Failure, ListenFailure};
pub(crate) use predecessor::report_failure;

/// What `lariat serve` and `lariat demo` ask for.
pub(crate) struct Request<'a> {
    /// The configuration; read again at each reload.
    pub(crate) config: ConfigSource,
    /// Called once, when the first plan is served.
    pub(crate) started: &'a mut dyn FnMut(&Started),
    pub(crate) colour: bool,
}

/// What is true when the first plan is served.
#[derive(Debug)]
pub(crate) struct Started {
    /// Each service's name and an address it listens at, with the ports that the kernel chose.
    pub(crate) listeners: Vec<(String, Address)>,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) status_socket: PathBuf,
    /// What the worker process gave up, as a sentence without a full stop.
    pub(crate) rights: String,
}

/// A plan of 10,000 certificates is built in ten seconds. A worker process that answers nothing for
/// this long is stuck.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);

const DATA: Program = Program {
    argument: WORKER_ARGUMENT,
    name: WORKER_NAME,
    answer_bytes_max: ANSWER_BYTES_MAX,
};

/// Serves until it is told to stop and the last connection has ended.
///
/// To be called by the process's first thread before it starts another: signals are blocked in
/// it, and the worker process ends with it.
pub(crate) fn run(request: Request<'_>) -> Result<(), Failure> {
    let (kept, handed_over) = handed_over::given()?
        .into_iter()
        .partition(|given| descriptor_store::is_ours(&given.name));
    let handed_over = HandedOverSockets::new(handed_over)?;
    let events = EventQueue::open().map_err(Failure::host("take signals"))?;
    stderr::write_in_background(forms::lines_lost).map_err(Failure::host("start a thread"))?;
    // Only `ps` would miss it.
    let _ = process::set_name(SUPERVISOR_NAME);
    limit::raise_open_files().map_err(Failure::host("raise the limit of open files"))?;
    // Keys pass through here.
    limit::forbid_core_dumps().map_err(Failure::host("forbid memory images"))?;
    let Some(mut supervisor) = Supervisor::prepare(request, events, (handed_over, kept))? else {
        return Ok(());
    };
    supervisor.start_child()?;
    supervisor.serve()
}

/// What no supervisor needs, unless the configuration says otherwise; also for the worker process.
/// A kernel without seccomp is named when the worker process has entered its sandbox.
fn forbid_system_calls(summary: &ConfigSummary) -> Result<(), Failure> {
    if !summary.process.sandbox.system_calls {
        return Ok(());
    }
    process::no_new_privileges().map_err(Failure::host("refuse new privileges"))?;
    let forbidden = sandbox::forbid_system_calls().map_err(Failure::host("forbid system calls"));
    forbidden.map(drop)
}

/// Has the first configuration read; `None` = a signal ended the wait.
fn first_read(
    config: &ConfigSource,
    readers: &Readers,
    events: &mut EventQueue,
) -> Result<Option<(Read, Option<Stamps>)>, Failure> {
    let sender = events.sender();
    let hear = move |done, looked| sender.send(Event::Read(done, looked));
    readers.start(&Task::Read(config.clone()), hear)?;
    let mut others = Vec::new();
    loop {
        let news = events.next(None);
        match news.map_err(Failure::host("wait for events"))? {
            Some(Event::Read(done, looked)) => {
                events.put_back(others);
                return match done? {
                    Done::Read(read) => Ok(Some((*read, looked))),
                    Done::Log(_) | Done::Removed => Ok(None),
                };
            }
            Some(Event::Signal(Signal::Interrupt | Signal::Terminate)) => return Ok(None),
            other => others.extend(other),
        }
    }
}

/// What a running supervisor hands over, and what another one had the service manager keep;
/// `None` = it was told to stop.
fn inherit(met: Met, kept: Vec<Given>) -> Option<(Option<From>, Inherited)> {
    let (predecessor, mut inherited) = match met {
        Met::Nobody => return Some((None, descriptor_store::restored(kept))),
        Met::Offered(from, inherited) => (from, *inherited),
        Met::Stopped => return None,
    };
    inherited.add_kept(descriptor_store::restored(kept));
    Some((Some(predecessor), inherited))
}

/// Opens what a first plan wants and nobody has handed over.
fn open_sockets(
    summary: &ConfigSummary,
    log: Option<OwnedFd>,
    handed_over: HandedOverSockets,
    inherited: &mut Inherited,
    waits: bool,
) -> Result<(Listeners, AdminSockets, ClusterSocket), Failure> {
    handed_over.warn_of_unused(|address| summary.listens_at(address));
    let address = summary.control.listen.map(Address::Ip);
    let shared = address
        .as_ref()
        .and_then(|at| handed_over.share(at, 1)?.pop());
    let is_handed_over = shared.is_some();
    let admin = address.and_then(|admin| inherited.take_admin(&admin).or(shared));
    let mut listeners = Listeners::new(handed_over, reading::remove);
    listeners.adopt(std::mem::take(&mut inherited.listeners), waits);
    let workers = summary.workers.cpus.len();
    listeners.open(&summary.listen, workers, &summary.listen_options)?;
    if !waits {
        listeners.keep(&summary.listen);
    }
    let mut admin_sockets = AdminSockets::open(summary, (log, admin), waits)?;
    if is_handed_over {
        admin_sockets.admin_is_handed_over();
    }
    let cluster_socket = ClusterSocket::open(summary.peers.as_ref(), inherited.cluster.take())?;
    Ok((listeners, admin_sockets, cluster_socket))
}

struct Supervisor<'a> {
    request: Request<'a>,
    events: EventQueue,
    listeners: Listeners,
    roots: Roots,
    admin_sockets: AdminSockets,
    cluster_socket: ClusterSocket,
    names: Names,
    watched: Watched,
    /// Servers that an operator has disabled.
    disabled: BTreeSet<ServerName>,
    fences: Fences,
    reach: Reach,
    workers: usize,
    /// What is served, or shall be by the next worker process.
    served: Prepared,
    generation: u64,
    /// What is served if the worker process says yes.
    pending: Option<Prepared>,
    reload_asked: bool,
    /// The log was renamed while a reload was under way, which may have opened it before.
    is_log_renamed: bool,
    stop_asked: bool,
    readers: Readers,
    is_reading: bool,
    reloads: Reloads,
    warnings: Vec<String>,
    child: Option<Child>,
    /// Of the last worker process. They go on from a predecessor's.
    last_number: u64,
    children: u64,
    phase: Phase,
    rights: Option<Rights>,
    due: Option<(Instant, Due)>,
    backoff: Backoff,
    sessions: Sessions,
    /// While this one takes over from it.
    predecessor: Option<From>,
    /// The same, while it watches this one.
    watcher: Option<Watcher>,
    succession: Succession,
    start: SystemTime,
    manager: ServiceManager,
}

impl<'a> Supervisor<'a> {
    /// `None` = it was told to stop.
    fn prepare(
        request: Request<'a>,
        mut events: EventQueue,
        (handed_over, kept): (HandedOverSockets, Vec<Given>),
    ) -> Result<Option<Self>, Failure> {
        let readers = Readers::default();
        let Some((read, looked)) = first_read(&request.config, &readers, &mut events)? else {
            return Ok(None);
        };
        forms::configure(&read.prepared.summary.control);
        say_each(&read.warnings, request.colour);
        let served = read.prepared;
        let summary = &served.summary;
        let takeover_path = socket_path(&status_socket::path(&summary.control));
        let own = Hello::new(&request.config);
        let met = meeting::meet(takeover_path.clone(), own.clone(), &mut events)?;
        let Some((predecessor, mut inherited)) = inherit(met, kept) else {
            return Ok(None);
        };
        let store = DescriptorStore::knowing(descriptor_store::names_of(&inherited));
        forbid_system_calls(summary)?;
        let waits = predecessor.is_some();
        let (listeners, admin_sockets, cluster_socket) =
            open_sockets(summary, read.log, handed_over, &mut inherited, waits)?;
        let fences = summary.fences(read.become_user);
        let mut supervisor = Self {
            request,
            listeners,
            roots: Roots::new(read.folders),
            admin_sockets,
            cluster_socket,
            names: Names::new(fences.clone(), events.sender()),
            watched: Watched::new(events.sender()),
            disabled: inherited.disabled,
            fences,
            reach: served.summary.reach(),
            workers: served.summary.workers.cpus.len(),
            served,
            generation: 1,
            pending: None,
            reload_asked: false,
            is_log_renamed: false,
            stop_asked: false,
            events,
            readers,
            is_reading: false,
            reloads: Reloads::default(),
            warnings: read.warnings.iter().map(ToString::to_string).collect(),
            child: None,
            last_number: inherited.last_number,
            children: 0,
            phase: Phase::Starting,
            rights: None,
            due: None,
            backoff: Backoff::default(),
            sessions: Sessions::new(inherited.secret, inherited.sessions)?,
            predecessor,
            watcher: None,
            succession: Succession::new(own, takeover_path),
            start: SystemTime::now(),
            manager: ServiceManager::of_environment(store, waits),
        };
        supervisor.watched.looked(looked);
        supervisor.forget_servers();
        if supervisor.predecessor.is_none() {
            supervisor.open_takeover_socket();
        }
        supervisor.resolve(supervisor.served.summary.names.clone())?;
        Ok(Some(supervisor))
    }

    fn serve(&mut self) -> Result<(), Failure> {
        loop {
            let due = self.due.map(|(at, _)| at);
            let dues = [
                due,
                self.names.due(),
                self.manager.due(),
                self.succession.due(),
            ];
            let until = dues.into_iter().flatten().min();
            let news = self
                .events
                .next(until)
                .map_err(Failure::host("wait for events"))?;
            let next = match news {
                Some(Event::Signal(signal)) => self.signalled(signal)?,
                Some(Event::Ordered(number)) => {
                    self.ordered(number);
                    Next::Continue
                }
                Some(Event::Heard(number, heard)) => self.heard(number, heard)?,
                Some(Event::Resolver(number, heard)) => {
                    self.resolver_said(number, heard);
                    Next::Continue
                }
                Some(Event::Asked(asked)) => self.asked(asked)?,
                Some(Event::Told(told)) => self.told(told)?,
                Some(Event::Read(done, looked)) => self.read(done, looked)?,
                Some(Event::Watched(number, heard)) => {
                    let options = self.served.summary.reload;
                    if self.watched.heard(number, heard, options) {
                        self.reload()?
                    } else {
                        Next::Continue
                    }
                }
                Some(Event::Reopened(path, done)) => self.reopened(path, done),
                None => self.time_is_over()?,
            };
            if let Next::Stop = next {
                return Ok(());
            }
        }
    }

    fn signalled(&mut self, signal: Signal) -> Result<Next, Failure> {
        match signal {
            Signal::Hangup => self.reload(),
            Signal::User1 => Ok(self.log_renamed()),
            // It is a part of an upgrade, until it has taken over.
            Signal::User2 if self.predecessor.is_some() => Ok(Next::Continue),
            Signal::User2 => {
                self.upgrade(None);
                Ok(Next::Continue)
            }
            Signal::Interrupt => self.stop_for_good(),
            Signal::Terminate => self.stop(),
            Signal::Child | Signal::Order | Signal::Pipe => Ok(Next::Continue),
        }
    }

    fn time_is_over(&mut self) -> Result<Next, Failure> {
        let now = Instant::now();
        if self.names.due().is_some_and(|due| due <= now) {
            let news = self.names.time_is_over();
            news.into_iter().for_each(|one| self.resolved(one));
        }
        self.tend_manager(now);
        if self.succession.due().is_some_and(|due| due <= now) {
            return self.takeover_is_late();
        }
        match self.due.take_if(|(due, _)| *due <= now) {
            // If a successor does not come to serve, one is started then.
            Some((_, Due::Restart)) if self.is_given_away() => Ok(Next::Continue),
            Some((_, Due::Restart)) => self.start_again(),
            Some((_, Due::Answer)) => {
                if let Some(failure) = self.not_given_way() {
                    return Err(failure);
                }
                say(Level::Error, "the worker process does not answer");
                self.child_is_gone()
            }
            Some((_, Due::DrainDelay)) => Ok(self.drain(false)),
            Some((_, Due::Drained)) => Ok(self.end_at_once("the worker process has had its time")),
            None => Ok(Next::Continue),
        }
    }

    // The worker process.

    fn start_child(&mut self) -> Result<(), Failure> {
        self.children += 1;
        self.last_number += 1;
        self.sessions.fit(self.served.summary.session_limits)?;
        // The one after us must not give its worker process this number.
        self.keep_descriptors();
        self.manager.flush();
        let (number, sender) = (self.last_number, self.events.sender());
        let hear = move |heard| sender.send(Event::Heard(number, heard));
        let child =
            Child::start(number, &DATA, hear).map_err(Failure::host("start the worker process"))?;
        self.child = Some(child);
        self.manager.answered(Instant::now());
        self.due = Some((Instant::now() + ANSWER_TIME_MAX, Due::Answer));
        self.roots.keep(&self.served.summary.folders);
        let (enter, roots) = (
            Order::Enter(self.fences.clone(), self.reach.clone()),
            self.roots.all(),
        );
        let sent = self.child.as_ref().map(|child| child.send(&enter, &roots));
        self.unless_stuck(sent);
        let start = Start {
            supervisor_pid: std::process::id(),
            supervisor_start: self.start,
            restarts: self.restarts(),
            dying: self.backoff.dying.clone(),
            secret: self.sessions.secret().0,
            number: u32::try_from(number).unwrap_or(u32::MAX),
            reloads: self.reloads.clone(),
        };
        self.tell_plan(self.generation, |serve| Order::Start(start, serve));
        Ok(())
    }

    /// Worker processes started again after one died.
    fn restarts(&self) -> u64 {
        self.children.saturating_sub(1)
    }

    fn tell(&mut self, order: &Order) {
        let sent = self.child.as_ref().map(|child| child.send(order, &[]));
        self.unless_stuck(sent);
    }

    /// Sends the pending plan, or else the one served, with all descriptors that it needs.
    fn tell_plan(&mut self, generation: u64, order: impl FnOnce(Serve) -> Order) {
        let Prepared { summary, bundle } = self.pending.as_ref().unwrap_or(&self.served);
        let mut with_roles = self.admin_sockets.roles();
        with_roles.extend(self.sessions.role());
        with_roles.extend(self.cluster_socket.role());
        with_roles.extend(self.listeners.roles(&summary.listen, self.workers));
        with_roles.extend(self.roots.roles(&summary.folders));
        let (roles, fds): (Vec<Role>, Vec<_>) = with_roles.into_iter().unzip();
        let order = order(Serve {
            generation,
            workers: self.workers,
            session_key: self.sessions.key(),
            roles,
            resolved: self.names.known(&summary.names),
            disabled: self.disabled.clone(),
            kernel_tls: summary.kernel_tls.clone(),
            waits: self.predecessor.is_some(),
        });
        let sent = self
            .child
            .as_ref()
            .map(|child| child.send_with(&order, &fds, bundle));
        self.unless_stuck(sent);
    }

    /// A worker process that takes no orders has died or is stuck. Its last words may be under way:
    /// what follows is decided when its end is heard.
    fn unless_stuck(&mut self, sent: Option<io::Result<()>>) {
        if let (Some(Err(_)), Some(child)) = (sent, &mut self.child) {
            child.kill();
        }
    }

    /// Others may take over from now on, unless the host does not let us listen for them.
    fn open_takeover_socket(&mut self) {
        let path = socket_path(self.admin_sockets.status_path());
        let sender = self.events.sender();
        let hear = move |asked| sender.send(Event::Asked(asked));
        match takeover_socket::open(&path, hear) {
            Ok(()) => self.admin_sockets.own(path),
            Err(error) => warn(format_args!(
                "no other lariat can take over from this one: cannot listen at {}: {error}",
                path.display()
            )),
        }
    }
}
