//! The control thread: carries out the supervisor's orders, takes turns with another worker process
//! (one pauses, the next one accepts), and passes results of checks and resolved names to workers.

mod takeover;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use config::LogOutput;
use proxy::data_plane::{DataPlane, ServerNews};
use sys::channel::Channel;
use sys::usage::{self, Usage};
use telemetry::Registry;
use tls::key_log::{self, KeyLines};
use tls::resumption::Resumption;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::MissedTickBehavior;

use super::cluster::{Cluster, ClusterSetup};
use super::health::Checks;
use super::log::{Log, LogNews, Target};
use super::plan::{Built, Descriptors, Servers};
use super::sessions::{Inheritance, Sessions};
use super::store::{PassOn, Say};
use super::supervisor_link::{self, Orders, ReceivedOrder, say};
use super::tls_findings::{ExpiryWatch, unix_seconds};
use crate::admin::{self, AdminDescriptors, AdminState, HealthReport, RightsStatus, StartFacts};
use crate::handover::{
    Bundle, ResolvedName, Rights, ServeOrder, SessionKey, SupervisorOrder, WorkerAnswer,
    WorkerStart,
};
use crate::named_servers::ServerName;

/// Interval of the search for expired sessions, which are refused anyway.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Interval of the checks whether the log takes lines.
const LOG_LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Interval of the checks which servers are up.
const SERVER_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of the signs of life while a plan is being built: several within the time after which
/// the supervisor takes this process for stuck.
const SIGN_INTERVAL: Duration = Duration::from_secs(10);

/// How long a drain waits for the log to write the last lines, when all connections have ended.
const LOG_FLUSH_TIME_MAX: Duration = Duration::from_secs(2);

const LINES_LOST: &str =
    "the last lines about connections are lost: what reads the log takes nothing";

/// Runs the control thread, from the first plan to the end.
pub(super) async fn run(channel: Arc<Channel>, rights: Rights, usage: Usage) -> io::Result<()> {
    let mut queue = supervisor_link::listen(Arc::clone(&channel))?;
    let (sender, mut reports) = unbounded_channel();
    let report = move |report: HealthReport| {
        // The receiver lives as long as this thread's loop.
        let _ = sender.send(report);
    };
    let checks = super::health::run(Vec::new(), report);
    let Some(first) = queue.recv().await.transpose()? else {
        return Ok(());
    };
    let started = Control::start(channel, (rights, usage), first, checks).await?;
    let Some(mut control) = started else {
        return Ok(());
    };
    let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut log_look = tokio::time::interval(LOG_LOOK_INTERVAL);
    log_look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut server_look = tokio::time::interval(SERVER_LOOK_INTERVAL);
    server_look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            received = queue.recv() => match received.transpose()? {
                Some(ReceivedOrder { order: SupervisorOrder::Drain { time, is_replaced }, .. }) => {
                    return control.drain(time, is_replaced, &mut queue).await;
                }
                Some(received) => control.obey(received).await?,
                None => return Ok(()),
            },
            Some(report) = reports.recv() => control.checked(&report),
            _ = sweep.tick() => control.resumption.sweep(Instant::now()),
            _ = log_look.tick() => control.look_at_log()?,
            _ = server_look.tick() => control.look_at_servers()?,
            () = tokio::time::sleep_until(control.look_at.into()) => control.look()?,
        }
    }
}

struct Control {
    channel: Arc<Channel>,
    data_plane: DataPlane,
    inheritance: Arc<Inheritance>,
    resumption: Arc<Resumption>,
    /// Key of the memory that holds the sessions.
    session_key: SessionKey,
    admin: Arc<AdminState>,
    admin_descriptors: AdminDescriptors,
    cluster: Cluster,
    /// Session sharing setup that awaits the order to accept.
    waiting: Option<Option<ClusterSetup>>,
    log: Log,
    log_output: LogOutput,
    checks: Checks,
    servers: Servers,
    /// Servers that an operator has disabled.
    disabled: BTreeSet<ServerName>,
    /// Weights that an operator has ordered.
    weights: BTreeMap<ServerName, u16>,
    validity: ExpiryWatch,
    /// Time at which a validity may change next.
    look_at: Instant,
    /// Whether lines of the key log are passed on.
    logs_keys: bool,
}

impl Control {
    /// Serves the first plan; `None` = the plan was refused.
    async fn start(
        channel: Arc<Channel>,
        (rights, usage): (Rights, Usage),
        received: ReceivedOrder,
        checks: Checks,
    ) -> io::Result<Option<Self>> {
        let shortage = received.shortage();
        let first = (received.order, received.bundle);
        let (SupervisorOrder::Start(start, serve), Some(bundle)) = first else {
            return Err(io::Error::other("the supervisor began with another order"));
        };
        let inheritance = Arc::new(Inheritance::of(&start));
        let sessions = Sessions {
            inheritance: Arc::clone(&inheritance),
            before: None,
            is_in_use: serve.waits,
        };
        let serve = Arc::new(serve);
        let built = match shortage {
            Some(why) => Err(why),
            None => build(&channel, bundle, &serve, received.fds, sessions).await?,
        };
        let mut built = match built {
            Ok(built) => built,
            Err(message) => {
                say(&channel, &WorkerAnswer::refused(serve.generation, message))?;
                return Ok(None);
            }
        };
        let registry = Arc::new(Registry::new(serve.workers));
        let admin = admin_state(&registry, &start, (rights, usage), &built);
        let log = start_log(&mut built, log_reporter(&channel, &admin))?;
        let Descriptors { status, admin: listener, .. } = &mut built.descriptors;
        let (status, listener) = (status.take(), listener.take());
        let admin_descriptors = AdminDescriptors::new(status, listener, &admin, !serve.waits)?;
        tokio::spawn(admin::record_history(Arc::clone(&admin)));
        let listeners = std::mem::take(&mut built.listeners);
        let data_plane = DataPlane::start(
            built.plan.clone(),
            listeners,
            registry,
            Arc::clone(&log.queue),
            !serve.waits,
        )?;
        admin.workers_begun(&data_plane);
        let cluster = Cluster::new(&inheritance, (sayer(&channel), passer_on(&channel)));
        admin.facts().cluster = cluster.context.facts.clone();
        let mut control = Self {
            channel,
            data_plane,
            inheritance,
            resumption: Arc::clone(&built.resumption),
            session_key: serve.session_key.clone(),
            admin,
            admin_descriptors,
            cluster,
            waiting: serve.waits.then(|| built.cluster.take()),
            log,
            log_output: built.log_output.clone(),
            checks,
            servers: Servers::default(),
            disabled: BTreeSet::new(),
            weights: BTreeMap::new(),
            validity: ExpiryWatch::new(&built.plan, unix_seconds()),
            look_at: Instant::now(),
            logs_keys: false,
        };
        control.take_up(&serve, built)?;
        Ok(Some(control))
    }

    async fn obey(&mut self, received: ReceivedOrder) -> io::Result<()> {
        let shortage = received.shortage();
        match (received.order, received.bundle) {
            (SupervisorOrder::Replace(serve), Some(bundle)) => match shortage {
                Some(why) => say(&self.channel, &WorkerAnswer::refused(serve.generation, why))?,
                None => self.replace(serve, bundle, received.fds).await?,
            },
            (SupervisorOrder::Resolved(resolved), _) => self.resolved(&resolved),
            (SupervisorOrder::Disabled(names), _) => self.set_disabled(names),
            (SupervisorOrder::Weights(weights), _) => {
                self.order_weights(weights.into_iter().collect())
            }
            (SupervisorOrder::CloseSessions(name), _) => self.close_sessions(&name),
            (SupervisorOrder::Unready, _) => self.admin.facts().is_draining = true,
            (SupervisorOrder::AreYouWell, _) => self.say_when_well(),
            (SupervisorOrder::Reloads(reloads), _) => self.admin.facts().reload = reloads,
            (SupervisorOrder::Validations(number, validations), _) => {
                let set = self.inheritance.authorities.set(validations);
                set.unwrap_or_else(|why| {
                    drop(say(&self.channel, &WorkerAnswer::warned(vec![why])))
                });
                say(&self.channel, &WorkerAnswer::Answering(number))?;
            }
            (SupervisorOrder::Acme(status), _) => self.admin.facts().acme = status,
            (SupervisorOrder::Keys(status), _) => self.admin.facts().keys = status,
            (SupervisorOrder::Notify(text), _) => self.cluster.notify(text),
            (SupervisorOrder::Log, _) => {
                let kept = shortage.map(|why| format!("the log goes where it went: {why}"));
                kept.map_or(Ok(()), |why| say(&self.channel, &WorkerAnswer::warned(vec![why])))?;
                let targets = received.fds.into_iter();
                let targets = targets.map(|fd| Target::of(&self.log_output, fd));
                targets.for_each(|target| self.log.log_target.set(target));
            }
            (SupervisorOrder::LogUnopened(why), _) => self.admin.facts().log_unopened = why,
            (SupervisorOrder::Pause, _) => self.pause().await?,
            (SupervisorOrder::Accept(observed), _) => self.accept(&observed)?,
            (
                SupervisorOrder::Drain { .. }
                | SupervisorOrder::Enter(..)
                | SupervisorOrder::Start(..)
                | SupervisorOrder::Replace(_),
                _,
            ) => {
                return Err(io::Error::other("the supervisor gave an order out of turn"));
            }
        }
        Ok(())
    }

    /// Serves a new plan, or keeps the old one.
    async fn replace(
        &mut self,
        serve: ServeOrder,
        bundle: Bundle,
        fds: Vec<OwnedFd>,
    ) -> io::Result<()> {
        let serve = Arc::new(serve);
        let sessions = Sessions {
            inheritance: Arc::clone(&self.inheritance),
            before: Some((Arc::clone(&self.resumption), self.session_key.clone())),
            is_in_use: false,
        };
        let mut built = match build(&self.channel, bundle, &serve, fds, sessions).await? {
            Ok(built) => built,
            Err(message) => {
                return say(&self.channel, &WorkerAnswer::refused(serve.generation, message));
            }
        };
        self.log_output = built.log_output.clone();
        if let Some(target) = built.descriptors.log.take() {
            self.log.log_target.set(Target::of(&self.log_output, target));
        }
        let listeners = std::mem::take(&mut built.listeners);
        self.data_plane.replace(built.plan.clone(), listeners);
        self.take_up(&serve, built)
    }

    /// Applies all that goes with a plan now served, and reports it to the supervisor.
    fn take_up(&mut self, serve: &ServeOrder, built: Built) -> io::Result<()> {
        if built.served.key_log.is_some() && !self.logs_keys {
            pass_keys_on(Arc::clone(&self.channel))?;
            self.logs_keys = true;
        }
        self.servers = built.servers;
        self.resumption = built.resumption;
        self.session_key = serve.session_key.clone();
        self.checks.replace(built.checked);
        serve.resolved.iter().for_each(|resolved| self.resolved(resolved));
        if self.waiting.is_none() {
            self.cluster.set(built.cluster)?;
        }
        self.disabled.clone_from(&serve.disabled);
        self.admin.servers_disabled(serve.disabled.clone());
        self.weights = serve.weights.iter().cloned().collect();
        self.admin.facts().weights.clone_from(&self.weights);
        self.admin.plan_served(built.served);
        self.validity = built.validity;
        self.note_ends(unix_seconds());
        // The rest of the old plan and of the bundle is large, and this is rare.
        drop(built.plan);
        usage::return_freed();
        let ready = WorkerAnswer::ready(serve.generation, built.warnings);
        say(&self.channel, &ready)
    }

    /// Reports what has expired since the last look, and what expires soon.
    fn look(&mut self) -> io::Result<()> {
        let now = unix_seconds();
        let warnings = self.validity.look(now);
        self.note_ends(now);
        if warnings.is_empty() {
            return Ok(());
        }
        say(&self.channel, &WorkerAnswer::warned(warnings))
    }

    /// Reports if nobody reads the log, or no descriptor is left.
    fn look_at_log(&self) -> io::Result<()> {
        let (now, note) = (Instant::now(), |why| self.admin.log_lost(0, why));
        let said = self.log.stalled(now, note).into_iter();
        let said: Vec<_> = said.chain(self.admin.lacks_descriptors(now)).collect();
        if said.is_empty() { Ok(()) } else { say(&self.channel, &WorkerAnswer::warned(said)) }
    }

    /// Reports health once every worker has answered. A stuck worker delays the report, and the
    /// supervisor asks no further.
    fn say_when_well(&self) {
        let (channel, admin) = (Arc::clone(&self.channel), Arc::clone(&self.admin));
        tokio::spawn(async move {
            admin.workers.all_answer().await;
            let connections = admin.connections_open();
            // Without a supervisor this process ends.
            let _ = say(&channel, &WorkerAnswer::Alive { connections });
        });
    }

    /// Reports which servers went down or came back up.
    fn look_at_servers(&self) -> io::Result<()> {
        if self.waiting.is_some() {
            // The serving process reports this, and passes its reports with the order to accept.
            return Ok(());
        }
        let said = self.admin.look_at_servers(Instant::now());
        if said.is_empty() {
            return Ok(());
        }
        say(&self.channel, &WorkerAnswer::said(said))
    }

    /// Notes expiries for the status and the metrics, until the next look.
    fn note_ends(&mut self, now: i64) {
        self.admin.expiries_changed(self.validity.expiries(now));
        self.look_at = Instant::now() + self.validity.pause(now);
    }

    fn resolved(&self, resolved: &ResolvedName) {
        self.cluster.resolved(resolved);
        for (service, server, target) in self.servers.named(resolved) {
            self.checks.set_addresses(service, server, &target.addresses);
            self.data_plane.tell(service, server, &ServerNews::Target(Arc::new(target)));
        }
    }

    /// Disables these servers, and enables all others.
    fn set_disabled(&mut self, names: BTreeSet<ServerName>) {
        for (service, server, name) in self.servers.all() {
            let disabled = names.contains(&name);
            if disabled != self.disabled.contains(&name) {
                self.data_plane.tell(service, server, &ServerNews::Disabled(disabled));
            }
        }
        self.disabled.clone_from(&names);
        // Each worker learns of this within its next turn, and its servers' state then shows it.
        self.admin.servers_disabled(names);
    }

    /// Orders these weights, and restores the configured ones of all other servers.
    fn order_weights(&mut self, weights: BTreeMap<ServerName, u16>) {
        for (service, server, name) in self.servers.all() {
            let weight = weights.get(&name).copied();
            if weight != self.weights.get(&name).copied() {
                self.data_plane.tell(service, server, &ServerNews::Weight(weight));
            }
        }
        self.weights.clone_from(&weights);
        self.admin.facts().weights = weights;
    }

    fn close_sessions(&self, name: &ServerName) {
        let all = self.servers.all().filter(|(_, _, one)| one == name);
        all.for_each(|(service, server, _)| {
            self.data_plane.tell(service, server, &ServerNews::Close)
        });
    }

    fn checked(&self, report: &HealthReport) {
        let down = ServerNews::Checked(report.down.as_slice().into());
        self.data_plane.tell(&report.service, report.server, &down);
        if let Some(server) = self.servers.label(&report.service, report.server) {
            self.admin.server_noted(&server, report);
        }
    }

    /// Lets connections finish; ends sooner if the supervisor goes.
    async fn drain(
        mut self,
        time: Duration,
        is_replaced: bool,
        queue: &mut Orders,
    ) -> io::Result<()> {
        if is_replaced {
            self.admin_descriptors.close();
            self.cluster.set(None)?;
        }
        self.admin.facts().is_draining = true;
        self.data_plane.drain(time);
        drop(self.checks);
        let (data_plane, log, output) = (self.data_plane, self.log, self.log_output);
        let (closer, servers) = (data_plane.session_closer(), self.servers);
        let log_target = log.log_target.clone();
        let finish = move || {
            let ended = data_plane.join();
            (ended, log.finish(LOG_FLUSH_TIME_MAX))
        };
        let mut finished = spawn_blocking(finish);
        loop {
            tokio::select! {
                ended = &mut finished => {
                    let (ended, is_written) = ended.map_err(io::Error::other)?;
                    let cut = ended?;
                    say_keys(&self.channel, key_log::take_rest())?;
                    if !is_written {
                        let lost = vec![LINES_LOST.to_owned()];
                        say(&self.channel, &WorkerAnswer::warned(lost))?;
                    }
                    return say(&self.channel, &WorkerAnswer::Drained { cut });
                }
                received = queue.recv() => match received.transpose()? {
                    Some(ReceivedOrder { order: SupervisorOrder::Log, fds, .. }) => {
                        fds.into_iter().for_each(|fd| log_target.set(Target::of(&output, fd)));
                    }
                    Some(ReceivedOrder { order: SupervisorOrder::CloseSessions(name), .. }) => {
                        let all = servers.all().filter(|(_, _, one)| *one == name);
                        all.for_each(|(service, server, _)| closer.close(service, server));
                    }
                    // No other order can stop the drain.
                    Some(_) => {}
                    // The connections' threads end with the process.
                    None => std::process::exit(0),
                },
            }
        }
    }
}

/// Passes the lines of the key log on to the supervisor, for the rest of the process's life.
fn pass_keys_on(channel: Arc<Channel>) -> io::Result<()> {
    let thread = thread::Builder::new().name("key log".to_owned());
    // Without a supervisor this process ends.
    let pass_on = move || while say_keys(&channel, key_log::take()).is_ok() {};
    thread.spawn(pass_on).map(drop)
}

fn say_keys(channel: &Channel, lines: KeyLines) -> io::Result<()> {
    let KeyLines { text, dropped } = lines;
    if text.is_empty() && dropped == 0 {
        return Ok(());
    }
    say(channel, &WorkerAnswer::KeyLog { lines: text, dropped })
}

/// Builds a plan beside the control thread, which meanwhile answers operators and signals life to
/// the supervisor.
async fn build(
    channel: &Channel,
    bundle: Bundle,
    serve: &Arc<ServeOrder>,
    fds: Vec<OwnedFd>,
    sessions: Sessions,
) -> io::Result<Result<Built, String>> {
    let serve = Arc::clone(serve);
    let work = move || super::plan::build(bundle, &serve, fds, &sessions);
    with_signs(spawn_blocking(work), SIGN_INTERVAL, || say(channel, &WorkerAnswer::Building)).await
}

async fn with_signs<T>(
    mut work: JoinHandle<T>,
    interval: Duration,
    mut sign: impl FnMut() -> io::Result<()>,
) -> io::Result<T> {
    loop {
        match tokio::time::timeout(interval, &mut work).await {
            Ok(done) => return done.map_err(io::Error::other),
            Err(_) => sign()?,
        }
    }
}

fn admin_state(
    registry: &Arc<Registry>,
    start: &WorkerStart,
    (rights, usage): (Rights, Usage),
    built: &Built,
) -> Arc<AdminState> {
    let facts_of_start = StartFacts {
        program: env!("CARGO_PKG_VERSION"),
        supervisor_pid: start.supervisor_pid,
        supervisor_start: start.supervisor_start,
        restarts: start.restarts,
        dying: start.dying.clone(),
        worker_cpus: built.cpus.clone(),
        rights: RightsStatus {
            sentence: rights.to_string(),
            files: rights.files.word().to_owned(),
            tcp_ports: rights.tcp_ports.word().to_owned(),
            system_calls: rights.system_calls.word().to_owned(),
        },
    };
    let state = AdminState::new(Arc::clone(registry), facts_of_start, usage);
    state.facts().reload = start.reloads.clone();
    Arc::new(state)
}

fn start_log(built: &mut Built, report: impl FnMut(LogNews) + Send + 'static) -> io::Result<Log> {
    let target = built.descriptors.log.take();
    let target = target.ok_or(io::ErrorKind::InvalidData)?;
    let log = Log::start(Target::of(&built.log_output, target), report)?;
    log.flush_in_panics();
    Ok(log)
}

/// Returns a reporter that counts the log thread's lost lines and lets the supervisor report them,
/// because our own standard error may block for the same reason as the log.
fn log_reporter(
    channel: &Arc<Channel>,
    admin: &Arc<AdminState>,
) -> impl FnMut(LogNews) + Send + 'static {
    let (channel, admin) = (Arc::clone(channel), Arc::clone(admin));
    move |news| match news {
        LogNews::Lost { bytes, why } => admin.log_lost(bytes, why),
        LogNews::Recovered => admin.facts().log_failure = None,
        LogNews::Away => drop(say(&channel, &WorkerAnswer::LogAway)),
        // Without a supervisor this process ends.
        LogNews::Message(level, message) => {
            drop(say(&channel, &WorkerAnswer::said(vec![(level, message)])));
        }
    }
}

/// Returns a function that gives the supervisor texts of other hosts' supervisors.
fn passer_on(channel: &Arc<Channel>) -> PassOn {
    let channel = Arc::clone(channel);
    // Without a supervisor this process ends.
    Arc::new(move |text| drop(say(&channel, &WorkerAnswer::Notified(text))))
}

/// Returns a function that sends other threads' messages to the operator, through the supervisor.
fn sayer(channel: &Arc<Channel>) -> Say {
    let channel = Arc::clone(channel);
    Arc::new(move |warns, text| {
        let answer =
            if warns { WorkerAnswer::warned(vec![text]) } else { WorkerAnswer::Note(text) };
        // Without a supervisor this process ends.
        drop(say(&channel, &answer));
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_plan_that_is_built_gives_signs_until_it_is_done() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (signs, seen) = mpsc::channel();
        let result = runtime.block_on(async {
            // The work ends only when it has seen three signs.
            let work = spawn_blocking(move || (0..3).map(|_| seen.recv().unwrap()).count());
            let sign = || {
                let _ = signs.send(());
                Ok(())
            };
            with_signs(work, Duration::from_millis(1), sign).await
        });
        assert_eq!(result.unwrap(), 3);
    }
}
