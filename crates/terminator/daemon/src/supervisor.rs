//! The supervisor: the process that keeps the rights, and keeps alive a worker process without
//! rights.
//!
//! **It owns** what must outlive a worker process: the listening sockets (`listeners`), the status
//! socket, admin listener, log, pid file and the cluster's socket (`own_sockets`), the folders that
//! are served, the memory of stored sessions and the secrets of ticket keys (`inheritance`), the
//! servers that an operator has disabled and the addresses of names (`servers`, `names`), what
//! certificates by ACME need (`acme`), and the configuration that is served (`prepared`). The
//! supervisor carries no connection, does no TLS, and reads nothing from the network. A worker
//! process's messages affect its plans only, never the supervisor's rights; those of the ACME
//! process (`certificates`) affect only certificates that the configuration names.
//!
//! **It waits** in one place, [`Supervisor::serve`], for an [`Event`]: a signal, a message of a
//! thread, or a deadline ([`DueWork`]). Each task that may block has its own process (`child`
//! starts it, a thread reads its messages): the reader of files (`reading`), the resolver of names
//! (`names`), the watcher of files (`watched`), the process that orders certificates (`acme`), the
//! one that holds keys (`keys`, `earlier_keys`), the check of a new program (`upgrade::check`).
//!
//! **Its phases** ([`Phase`]) are those of the worker process: *starting*, *serving*, *draining*,
//! and *restarting* after it died. `answers` judges every answer by the phase.
//!
//! - **A start** (`starting`): the reader reads the configuration, sockets are opened, names are
//!   looked up, a worker process is started. It gives up its rights, gets the plan with all
//!   descriptors, and reports that it serves.
//! - **A reload** (`reload`) is a transaction. The reader reads the files anew; the supervisor
//!   opens what the plan needs beside what is served, as the *pending* plan; the worker process
//!   builds it after key processes, if any, have opened their keys. If the worker process accepts
//!   it, the pending plan becomes the served one, and resources that it does not need are closed.
//!   If anything fails, the pending plan is dropped. Some keys are fixed from the start
//!   (`prepared::FixedParts`), and the reload names them.
//! - **A crash** of the worker process ends its connections. The next one is started at once, and
//!   later and later after repeated deaths (`child::Backoff`), with the same plan, sockets,
//!   sessions and secrets. A pending plan is taken for the reason, and dropped.
//! - **An upgrade** (`upgrade`) executes another program in this process. That program starts a
//!   worker process, which builds its plan while the earlier one serves; then they change over, and
//!   the earlier one drains. Until then there is a way back: if the new program fails, crashes or
//!   hangs, the process executes the former program again, which goes on with all that it had.
//! - **A restart** by a service manager is an end and a start (`service_manager`, `reporting`). The
//!   manager may keep the sockets and the sessions between the two (its descriptor store), so that
//!   clients wait and sessions resume.
//! - **An end** (`starting`): SIGTERM, or SIGINT for good, drains; another signal ends at once. If
//!   the supervisor itself dies, so does the worker process.

mod acme;
mod answers;
mod certificates;
mod challenges;
mod child;
mod earlier_keys;
mod events;
mod failure;
mod inheritance;
mod key_log;
mod key_news;
mod keys;
mod listeners;
mod names;
mod own_sockets;
mod prepared;
mod reading;
mod reload;
mod reporting;
mod servers;
mod service_manager;
mod sharing;
mod sharing_host;
mod starting;
mod upgrade;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use sys::signal::Signal;
use sys::{process, usage};
use wire::address::Address;

use crate::handover::{
    Confinement, ConnectRights, DescriptorRole, Reloads, Rights, SUPERVISOR_NAME, ServeOrder,
    SupervisorOrder, WorkerAnswer, WorkerStart,
};
use crate::held_keys::listed_ids;
use crate::messages::{self, error};
use crate::named_servers::ServerName;
use crate::reader::ConfigSource;

use acme::Acme;
use child::{Backoff, Child, ChildEvent, EarlierWorkerProcess, SendFault, WORKER};
use events::{Event, EventQueue};
use inheritance::{Roots, Sessions, SessionsMemory};
use key_log::KeyLog;
use keys::KeyProcesses;
use listeners::Listeners;
use names::Names;
use own_sockets::{AdminSockets, ClusterSocket};
use prepared::PreparedConfiguration;
use reading::RunningReaders;
use service_manager::ServiceManager;
use upgrade::check::{SWITCH_TIME_MAX, Upgrade, Upgrading};
use upgrade::image::{RollbackProgram, SupervisorOrigin, origin};
use watched::Watched;

pub(crate) use failure::{Failure, ListenFailure};
pub(crate) use upgrade::check::{CHECK_ARGUMENT, answer_check};

/// Arguments of `lariat serve` and `lariat demo`.
pub(crate) struct Request<'a> {
    /// Source of the configuration; read again at each reload.
    pub(crate) config: ConfigSource,
    /// Callback when the first plan is served, and after each reload.
    pub(crate) started: &'a mut dyn FnMut(&ServingFacts),
    pub(crate) colour: bool,
}

/// Facts to show when a plan is served.
#[derive(Debug)]
pub(crate) struct ServingFacts {
    /// Whether another plan was served before.
    pub(crate) is_reload: bool,
    /// Name of each service and an address it listens at, with the ports that the kernel chose.
    pub(crate) listeners: Vec<(String, Address)>,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) status_socket: PathBuf,
    /// Rights that the worker process gave up, as a sentence without a full stop.
    pub(crate) rights: String,
}

/// Silence after which a worker process is stuck. One that builds a plan sends more often.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);

/// Time limit of building a plan, whatever the worker process says.
const BUILD_TIME_MAX: Duration = Duration::from_secs(1800);

/// Serves until ordered to stop and the last connection has ended.
///
/// Must be called by the process's first thread before it starts another: signals are blocked in
/// it, and the worker process ends with it.
pub(crate) fn run(request: Request<'_>) -> Result<(), Failure> {
    let mut origin = origin()?;
    let mut way_back = origin.way_back.take();
    // `lariat status` and the like recognize a supervisor by it, at once after an upgrade.
    let _ = process::set_name(SUPERVISOR_NAME);
    // For as long as the way back exists.
    let request = Request { started: &mut *request.started, ..request };
    let ended = serve(request, origin, &mut way_back);
    match (ended, way_back) {
        (Err(failure), Some(way_back)) => {
            error(way_back.go(&failure.to_string()));
            Err(failure)
        }
        (ended, _) => ended,
    }
}

fn serve<'a>(
    request: Request<'a>,
    origin: SupervisorOrigin,
    way_back: &'a mut Option<RollbackProgram>,
) -> Result<(), Failure> {
    let events = EventQueue::open().map_err(Failure::host("take signals"))?;
    messages::write_in_background().map_err(Failure::host("start a thread"))?;
    usage::raise_open_files().map_err(Failure::host("raise the limit of open files"))?;
    // Keys pass through this process.
    usage::forbid_core_dumps().map_err(Failure::host("forbid memory images"))?;
    let why = origin.returned.as_ref().map(|returned| returned.why.clone());
    let Some(mut supervisor) = Supervisor::prepare(request, events, origin, way_back)? else {
        return Ok(());
    };
    let ended = supervisor.begin(why).and_then(|()| supervisor.serve());
    if supervisor.way_back.is_some() {
        supervisor.leave();
    }
    ended
}

/// Progress of the worker process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Starting,
    /// A successor has been started, or will be.
    Restarting,
    Serving,
    /// The worker process was ordered to drain.
    Draining,
}

impl Phase {
    /// Whether this phase expects the answer. A compromised worker process may send anything at any
    /// time, and some answers would end the supervisor.
    fn expects(self, answer: &WorkerAnswer) -> bool {
        match answer {
            WorkerAnswer::Stuck(_) => matches!(self, Self::Starting | Self::Restarting),
            WorkerAnswer::Drained { .. } => self == Self::Draining,
            _ => true,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DueWork {
    /// The next worker process is started.
    Restart,
    /// The keys of the pending plan should be open.
    Keys,
    /// The worker process should have answered. While it reports building a plan it has longer, but
    /// not beyond this.
    Answer { at_latest: Instant },
    /// The previous worker process should have paused.
    Pause,
    /// Our worker process should accept.
    Switch,
    /// Load balancers have had their time to notice: the drain begins.
    DrainDelay,
    /// The worker process should have drained.
    Drained,
}

impl DueWork {
    /// Returns the deadline for the answer to a plan that is sent now.
    fn answer() -> (Instant, Self) {
        let now = Instant::now();
        (now + ANSWER_TIME_MAX, Self::Answer { at_latest: now + BUILD_TIME_MAX })
    }
}

/// A plan that is served once the worker process has accepted it.
struct Pending {
    prepared: PreparedConfiguration,
    log: OwnedFd,
    cluster_socket: Option<ClusterSocket>,
    /// New memory of sessions; `None` keeps the current one.
    memory: Option<SessionsMemory>,
}

struct Supervisor<'a> {
    request: Request<'a>,
    events: EventQueue,
    listeners: Listeners,
    roots: Roots,
    admin_sockets: AdminSockets,
    cluster_socket: Option<ClusterSocket>,
    names: Names,
    watched: Watched,
    acme: Acme,
    keys: KeyProcesses,
    disabled: BTreeSet<ServerName>,
    /// Weights that an operator has ordered.
    weights: BTreeMap<ServerName, u16>,
    confinement: Confinement,
    connect_rights: ConnectRights,
    /// Plan that is served, or that the next worker process will serve.
    served: PreparedConfiguration,
    generation: u64,
    pending: Option<Pending>,
    reload_asked: bool,
    /// Whether the log was renamed during a reload, which may have opened it before.
    is_log_renamed: bool,
    /// Reason why the log could not be reopened, and the time of the next try.
    log_unopened: Option<(String, Option<Instant>)>,
    stop_asked: bool,
    is_ended: bool,
    readers: RunningReaders,
    is_reading: bool,
    reloads: Reloads,
    warnings: Vec<String>,
    child: Option<Child>,
    /// Number of the last worker process; numbers continue across programs.
    last_number: u64,
    children: u64,
    phase: Phase,
    rights: Option<Rights>,
    due: Option<(Instant, DueWork)>,
    backoff: Backoff,
    sessions: Sessions,
    key_log: KeyLog,
    upgrading: Upgrading,
    /// Way back, until this program serves in the place of another.
    way_back: &'a mut Option<RollbackProgram>,
    /// Worker processes of earlier programs.
    earlier: Vec<EarlierWorkerProcess>,
    /// Whether the worker process must wait for the previous one to pause.
    waits: bool,
    /// Whether the previous worker process has been ordered to pause, or is gone.
    is_switching: bool,
    calls_forbidden_by: Option<String>,
    start: SystemTime,
    manager: ServiceManager,
}

impl<'a> Supervisor<'a> {
    fn serve(&mut self) -> Result<(), Failure> {
        loop {
            let due = self.due.map(|(at, _)| at);
            let earlier = self.earlier.iter().filter_map(|one| one.drains_until).min();
            let dues = [
                due,
                self.names.lookups.due(),
                self.manager.due(),
                self.upgrading.stage.due(),
                self.acme.due(),
                self.keys.due(),
                self.log_unopened.as_ref().and_then(|(_, again)| *again),
                earlier,
            ];
            let until = dues.into_iter().flatten().min();
            let news = self.events.next(until).map_err(Failure::host("wait for events"))?;
            match news {
                Some(Event::Signal(signal)) => self.signalled(signal)?,
                Some(Event::Ordered(number)) => self.ordered(number),
                Some(Event::Heard(number, heard)) => self.heard(number, heard)?,
                Some(Event::Resolver(number, heard)) => self.resolver_said(number, heard),
                Some(Event::Check(number, news)) => self.checked(number, news),
                Some(Event::Read(done, looked)) => self.read(done, looked),
                Some(Event::Watched(number, heard)) => {
                    if self.watched.heard(number, heard, self.served.summary.reload) {
                        self.reload();
                    }
                }
                Some(Event::Reopened(path, done)) => self.reopened(path, done),
                Some(Event::Acme(number, heard)) => self.acme_said(number, heard),
                Some(Event::AcmeStored(done)) => self.acme_stored(done),
                Some(Event::AcmeLoaded(name, key, done)) => self.acme_loaded(name, key, done),
                Some(Event::Keys(number, heard)) => self.keys_said(number, &heard),
                Some(Event::HookEnded(id, presents, done)) => self.hook_ended(id, presents, done),
                None => self.time_is_over()?,
            }
            if self.is_ended {
                return Ok(());
            }
            self.go_on_with_upgrade()?;
        }
    }

    fn signalled(&mut self, signal: Signal) -> Result<(), Failure> {
        match signal {
            Signal::Hangup => self.reload(),
            Signal::User1 => self.log_renamed(),
            Signal::User2 => self.upgrade(),
            Signal::Interrupt | Signal::Terminate
                if self.way_back.is_some() && !self.is_switching =>
            {
                // The former program knows its state, and drains.
                self.events.put_back(Event::Signal(signal));
                return Err(self.events.told_to_stop());
            }
            Signal::Interrupt => self.stop_for_good(),
            Signal::Terminate => self.stop(),
            Signal::Child => self.child_ended(),
            Signal::Continue | Signal::Order | Signal::Pipe | Signal::Suspend => {}
        }
        Ok(())
    }

    /// Handles the end of one of our processes, or as the first of a container, of one not ours.
    fn child_ended(&self) {
        let earlier = self.earlier.iter().map(|one| &one.child);
        let workers = self.child.iter().chain(earlier);
        let helpers = [&self.names.process, &self.watched.process, &self.acme.process];
        let helpers = helpers.into_iter().flatten().chain(self.keys.processes());
        let known = workers.chain(helpers).inspect(|one| one.look_for_end());
        let known: Vec<_> = known.map(Child::pid).collect();
        // Only the check of a new program may learn how that program ends.
        if !matches!(self.upgrading.stage, Upgrade::Checking(_)) {
            process::reap_strays(&known);
        }
    }

    fn time_is_over(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        if self.names.lookups.due().is_some_and(|due| due <= now) {
            let news = self.names.time_is_over();
            news.into_iter().for_each(|one| self.resolved(one));
        }
        self.tend_manager(now);
        self.tend_acme(now);
        self.tend_keys(now);
        self.tend_log(now);
        if self.upgrading.stage.due().is_some_and(|due| due <= now) {
            self.upgrade_is_late();
        }
        self.earlier_are_late(now);
        if self.is_ended {
            return Ok(());
        }
        match self.due.take_if(|(due, _)| *due <= now) {
            Some((_, DueWork::Restart)) => self.start_again()?,
            Some((_, DueWork::Keys)) => self.keys_have_had_their_time(),
            Some((_, DueWork::Answer { .. })) => {
                error("the worker process does not answer");
                self.child_is_gone()?;
            }
            Some((_, DueWork::Pause)) => self.has_not_paused(),
            Some((_, DueWork::Switch)) => {
                let time = SWITCH_TIME_MAX.as_secs();
                let why = format!("its worker process did not accept in {time} s");
                return Err(Failure::Upgrade(why));
            }
            Some((_, DueWork::DrainDelay)) => self.drain(),
            Some((_, DueWork::Drained)) => self.end_at_once("the worker process has had its time"),
            None => {}
        }
        Ok(())
    }

    // The worker process.

    fn start_child(&mut self) -> Result<(), Failure> {
        self.children += 1;
        self.last_number += 1;
        self.sessions.fit(self.served.summary.session_limits)?;
        // The next program must not give its worker process this number.
        self.keep_descriptors();
        self.manager.notifier.flush();
        let (number, sender) = (self.last_number, self.events.sender());
        let hear = move |heard| sender.send(Event::Heard(number, heard));
        let child = Child::start(number, &WORKER, hear)
            .map_err(Failure::host("start the worker process"))?;
        self.child = Some(child);
        self.manager.answered(Instant::now());
        self.due = Some(DueWork::answer());
        self.roots.keep(&self.served.summary.folders);
        let (enter, roots) = (
            SupervisorOrder::Enter(self.confinement.clone(), self.connect_rights.clone()),
            self.roots.all(),
        );
        let sent = self.child.as_ref().map(|child| child.send(&enter, &roots));
        self.unless_stuck(sent, None);
        let start = WorkerStart {
            supervisor_pid: std::process::id(),
            supervisor_start: self.start,
            restarts: self.restarts(),
            dying: self.backoff.dying.clone(),
            secret: self.sessions.secret.clone(),
            number: u32::try_from(number).unwrap_or(u32::MAX),
            reloads: self.reloads.clone(),
        };
        self.tell_plan(self.generation, |serve| SupervisorOrder::Start(start, serve));
        self.tell_acme();
        // The new worker process knows nothing yet.
        self.keys.told.clear();
        self.tell_keys();
        Ok(())
    }

    /// Returns the number of worker threads, which is fixed from the start.
    fn workers(&self) -> usize {
        self.served.summary.workers.cpus.len()
    }

    /// Returns the number of worker processes restarted after one died.
    fn restarts(&self) -> u64 {
        self.children.saturating_sub(1)
    }

    fn tell(&mut self, order: &SupervisorOrder) {
        let sent = self.child.as_ref().map(|child| child.send(order, &[]));
        self.unless_stuck(sent, None);
    }

    /// Sends the pending plan, or else the one served, with all descriptors that it needs.
    fn tell_plan(&mut self, generation: u64, order: impl FnOnce(ServeOrder) -> SupervisorOrder) {
        let key_channels = match self.key_channels() {
            Ok(key_channels) => key_channels,
            Err(error) => {
                let fault = Some(Err(SendFault::Unsendable(error)));
                return self.unless_stuck(fault, Some(generation));
            }
        };
        let served = (&self.served, self.admin_sockets.log(), &self.cluster_socket);
        let pending = self.pending.as_ref();
        let (prepared, log, cluster_socket) =
            pending.map_or(served, |plan| (&plan.prepared, plan.log.as_fd(), &plan.cluster_socket));
        let memory = pending.and_then(|plan| plan.memory.as_ref());
        let memory = memory.unwrap_or(&self.sessions.memory);
        let PreparedConfiguration { summary, bundle, .. } = prepared;
        let mut with_roles = self.admin_sockets.roles();
        with_roles.push((DescriptorRole::Log, log));
        with_roles.extend(memory.role());
        with_roles.extend(cluster_socket.as_ref().map(ClusterSocket::role));
        with_roles.extend(self.listeners.roles(&summary.listen, self.workers()));
        with_roles.extend(self.roots.roles(&summary.folders));
        with_roles.extend(key_channels.iter().map(|(role, fd)| (*role, fd.as_fd())));
        let (roles, fds): (Vec<DescriptorRole>, Vec<_>) = with_roles.into_iter().unzip();
        let order = order(ServeOrder {
            generation,
            workers: self.workers(),
            session_key: memory.key.clone(),
            roles,
            resolved: self.names.lookups.known(&summary.names),
            disabled: self.disabled.clone(),
            weights: self.weights.clone().into_iter().collect(),
            kernel_tls: summary.kernel_tls.clone(),
            waits: self.waits,
            key_groups: listed_ids(&prepared.keys),
        });
        let sent = self.child.as_ref().map(|child| child.send_with(&order, &fds, bundle));
        self.unless_stuck(sent, Some(generation));
    }

    /// Handles a failed send. A worker process that takes no orders has died or is stuck. Its last
    /// words may be under way: the reaction waits for its end. An order that cannot be sent is no
    /// fault of the process and would fail with the next one too: the plan counts as refused.
    fn unless_stuck(&mut self, sent: Option<Result<(), SendFault>>, plan: Option<u64>) {
        let (Some(Err(fault)), Some(child)) = (sent, &mut self.child) else {
            return;
        };
        match (fault, plan) {
            (SendFault::Broken(_), _) => child.kill(),
            (fault, None) => error(fault),
            (fault, Some(generation)) => {
                let refused = WorkerAnswer::refused(generation, fault.to_string());
                let news = Event::Heard(child.number(), ChildEvent::Answer(refused));
                self.events.push(news);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unexpected_answer_does_not_end_the_supervisor() {
        let phases = [Phase::Starting, Phase::Restarting, Phase::Serving, Phase::Draining];
        for (answer, expected) in [
            (WorkerAnswer::Stuck(String::new()), [true, true, false, false]),
            (WorkerAnswer::Drained { cut: 0 }, [false, false, false, true]),
        ] {
            assert_eq!(phases.map(|phase| phase.expects(&answer)), expected);
        }
    }
}
