//! Measures a configuration once: the server is started, loaded, watched, judged, and ended.
//!
//! `loaded` makes a load of ours; `programs` are the test server behind all servers and loads of
//! other programs; `usage` reads what processes used meanwhile and makes parts of the record of it,
//! and `verdict` judges, or says why there is no record.
//!
//! Owns what all configurations of a run share: the origin behind the servers. Knows neither the
//! order of configurations nor the record.

mod loaded;
mod programs;
mod usage;
pub(crate) mod verdict;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use load::outcome::interrupted_by_stop;
use load::plan::{ArrivalModel, LoadPlan, Verification};
use measure::choice::Kind;
use measure::experiment::{DurationSummary, Measurement, MeasurementNoise, Placement, Reload};
use measure::histogram::Histogram;
use measure::quantity::nanoseconds;
use measure::record::{LoadRecord, LoadSecond, RunWarning, TrafficBytes};

use super::scenario::settings::{
    Call, ConfigurationSettings, LaunchSettings, PlannedConfiguration,
};
use crate::interrupt::Cancel;
use crate::load::destination::RecordDate;
use crate::targets::certificates::{TargetCertificates, site_name};
use crate::targets::form::TestTarget;
use crate::targets::program::TargetProgram;
use crate::targets::server::{ServerPlace, TargetServer, own_folder};
use loaded::{BackgroundLoad, LoadResult, LoadedUsage};
use programs::{
    CpuAssignment, EventCommand, FetchedRun, LoggedRequests, RunningOrigin, ServerEvent, fetch,
};
use usage::{CpuUsage, MeasuredCapacity, WatchedProcesses, of_capacity, of_client};
use verdict::{Evidence, Measured, MeasurementFailure};

/// A server that takes longer to fill its session cache hangs.
const FILL_MAX: Duration = Duration::from_secs(3600);

/// Longer by this for each session beyond the first million.
const FILL_MORE: Duration = Duration::from_millis(1);

/// Between two readings of the memory of a server that reloads.
const RELOAD_PAUSE: Duration = Duration::from_millis(1);

/// A pause is so many times as long as the reading before it took.
const RELOAD_RESTS: u32 = 9;

/// How long its memory is read after a reload.
const RELOAD_AFTER: Duration = Duration::from_millis(500);

/// Connections from one address to another, of the 28,232 ports that Linux gives by itself
/// (`net.ipv4.ip_local_port_range`).
const CONNECTIONS_A_SOURCE: u32 = 25_000;

/// A load in the background is ended when the measured one is over.
const BACKGROUND_MAX: Duration = Duration::from_secs(3600);

pub(crate) struct Bench<'a> {
    certificates: &'a TargetCertificates,
    folder: &'a Path,
    placement: &'a Placement,
    origin: RunningOrigin,
}

#[derive(Clone, Copy)]
pub(crate) struct MeasuredSubject<'a> {
    pub(crate) planned: &'a PlannedConfiguration,
    pub(crate) target: &'a TestTarget,
    pub(crate) program: &'a TargetProgram,
    /// The program that makes the load in place of us.
    pub(crate) client: Option<(&'a TestTarget, &'a TargetProgram)>,
    /// The program behind the server in place of the test server.
    pub(crate) origin: Option<(&'a TestTarget, &'a TargetProgram)>,
    pub(crate) repeat: u32,
}

impl<'a> Bench<'a> {
    /// Starts the origin. The folder is that of the whole run.
    ///
    /// # Errors
    /// The origin does not serve.
    pub(crate) fn start(
        certificates: &'a TargetCertificates,
        folder: &'a Path,
        placement: &'a Placement,
    ) -> Measured<Self> {
        Ok(Self {
            origin: RunningOrigin::start(&placement.client, folder)?,
            certificates,
            folder,
            placement,
        })
    }

    /// Measures a configuration once. Whatever was started for it has ended when this returns.
    pub(crate) fn measure(
        &mut self,
        subject: MeasuredSubject<'_>,
        cancel: &dyn Cancel,
    ) -> Measured<Measurement> {
        let cpus = CpuAssignment::of(self.placement, subject.planned.spec.workers);
        if self.origin.has_ended() || self.origin.cpus != cpus.client {
            self.origin = RunningOrigin::start(&cpus.client, self.folder)?;
        }
        // Our own work must not use the server's CPUs.
        let ours = sys::cpu::allowed_cpus();
        sys::cpu::confine_current_thread(&cpus.client)?;
        let stopped_before = cancel.stood_still();
        let measured = self.measure_on(subject, &cpus, cancel);
        sys::cpu::confine_current_thread(&ours)?;
        let stood_still = cancel.stood_still().saturating_sub(stopped_before);
        measured.map(|mut measurement| {
            measurement.warnings.extend(interrupted_by_stop(stood_still));
            measurement
        })
    }

    fn measure_on(
        &self,
        subject: MeasuredSubject<'_>,
        cpus: &CpuAssignment,
        cancel: &dyn Cancel,
    ) -> Measured<Measurement> {
        let MeasuredSubject { planned, target, program, .. } = subject;
        let place = ServerPlace {
            cpus: &cpus.server,
            client_cpus: &cpus.client,
            folder: self.folder,
            origin: Some(self.origin.address),
            certificates: self.certificates,
            is_cancelled: &|| cancel.is_requested(),
        };
        let origin = match subject.origin {
            None => None,
            Some((target, program)) => {
                let spec = programs::origin_spec(&planned.spec, cpus.client.len());
                let cpus = &cpus.client;
                Some(TargetServer::start(target, program, &spec, &ServerPlace { cpus, ..place })?)
            }
        };
        let place = ServerPlace {
            origin: origin.as_ref().map(|server| server.address).or(place.origin),
            ..place
        };
        let begun = RecordDate::of(SystemTime::now());
        let mut server = TargetServer::start(target, program, &planned.spec, &place)?;
        let mut session = Session {
            watched: WatchedProcesses {
                server: server.tree(),
                origin: origin.as_ref().map_or_else(|| self.origin.tree(), TargetServer::tree),
                cpus: cpus.all(),
                background: None,
            },
            known: self.certificates.shown(&planned.spec)?,
            server: &server,
            origin: origin.as_ref(),
            bench: self,
            subject,
            cpus,
            cancel,
        };
        let measured = match planned.load.program {
            None => session.load(),
            Some(_) => session.call(),
        };
        // If the server has ended, that is why the rest failed.
        if let Some(how) = server.ended() {
            let name = &target.name;
            return Err(MeasurementFailure::Failed(format!("{name} ended meanwhile: {how}")));
        }
        server.stop();
        origin.into_iter().for_each(TargetServer::stop);
        Ok(Measurement { at: begun.to_string(), ..measured? })
    }
}

/// One server that runs, for one measurement.
struct Session<'s, 'a> {
    bench: &'s Bench<'a>,
    subject: MeasuredSubject<'s>,
    cpus: &'s CpuAssignment,
    server: &'s TargetServer,
    /// The target behind it, if it is not the test server.
    origin: Option<&'s TargetServer>,
    watched: WatchedProcesses,
    known: Vec<u8>,
    cancel: &'s dyn Cancel,
}

impl Session<'_, '_> {
    fn load(&mut self) -> Measured<Measurement> {
        let PlannedConfiguration { load, launch, .. } = self.subject.planned;
        let settings = load.settings.clone();
        let capacity = load.capacity.as_ref();
        let first = match capacity {
            None => self.plan(&settings, launch.duration)?,
            Some(capacity) => self.plan(&capacity.settings, capacity.duration)?,
        };
        loaded::probe(&first, self.cancel)?;
        let start_ns = nanoseconds(self.server.begun.elapsed());
        self.watched.usage_at_rest()?;
        let resident_bytes_before = self.resident_bytes()?;
        self.fill(&settings)?;
        let found = capacity.map(|_| self.capacity(&first)).transpose()?;
        let plan = match capacity.zip(found) {
            None => first,
            Some((plan, found)) => {
                let offered = settings.offering(plan.offered, found.per_s, launch.duration);
                self.plan(&offered, launch.duration)?
            }
        };
        let background = load.background.as_ref();
        let start = |it| BackgroundLoad::start(self.plan(it, BACKGROUND_MAX)?, self.cancel);
        let background = background.map(start).transpose()?;
        self.watched.background = background.as_ref().map(BackgroundLoad::stopper);
        let loaded = match found {
            None => self.run(&plan)?,
            // Whether anything succeeds beyond the capacity is what is measured.
            Some(_) => loaded::run(&plan, &self.watched, None, self.cancel)?,
        };
        drop(background);
        self.watched.background = None;
        self.judge(&plan, &loaded)?;
        self.judge_origin()?;
        let goodput_per_s = loaded.ended_in_time as f64 / launch.duration.as_secs_f64();
        let mut measurement = self.measurement(loaded, &plan);
        measurement.capacity_per_s = found.map(|found| found.per_s);
        measurement.goodput_per_s = found.map(|_| goodput_per_s);
        measurement.warnings.extend(found.and_then(of_capacity));
        measurement.resident_bytes_before = resident_bytes_before;
        measurement.start_ns = start_ns;
        measurement.reload = self.reload()?;
        Ok(measurement)
    }

    fn launch(&self, duration: Duration) -> LaunchSettings {
        LaunchSettings {
            address: self.server.address,
            cpus: self.cpus.client.clone(),
            duration,
            ..self.subject.planned.launch.clone()
        }
    }

    fn plan(&self, settings: &ConfigurationSettings, duration: Duration) -> Measured<LoadPlan> {
        let settings = match self.subject.planned.spec.sites.checked_sub(1) {
            None => settings,
            Some(last) => &settings.clone().with("server-name", &site_name(last)),
        };
        let plan = settings.plan(&self.launch(duration));
        let mut plan = plan.map_err(|complaints| {
            let said = complaints.into_iter().map(|one| {
                let subject = one.subject.unwrap_or_default();
                format!("{subject}: {}", one.problem.message)
            });
            MeasurementFailure::Failed(said.collect::<Vec<_>>().join("; "))
        })?;
        plan.rests = true;
        plan.sources = sources(&plan, self.server.address);
        if let Some(tls) = &mut plan.tls
            && tls.verification == Verification::Off
        {
            // It costs next to nothing, and a configuration may be about the key.
            tls.verification = Verification::These(self.known.clone());
        }
        Ok(plan)
    }

    fn run(&self, plan: &LoadPlan) -> Measured<LoadResult> {
        let event = self.node_loss();
        let loaded = loaded::run(plan, &self.watched, event.as_ref(), self.cancel)?;
        match loaded.record.totals.succeeded {
            0 => Err(loaded::fruitless(&loaded.record)),
            _ => Ok(loaded),
        }
    }

    /// The target's capacity under this load. It is measured right before each load that is a
    /// multiple of it: a host's CPUs are not as fast in one minute as in the next.
    fn capacity(&self, plan: &LoadPlan) -> Measured<MeasuredCapacity> {
        let loaded = self.run(plan)?;
        let seconds = loaded.elapsed.as_secs_f64();
        let cpus = self.cpus.server.len();
        Ok(MeasuredCapacity {
            per_s: loaded.record.totals.succeeded as f64 / seconds.max(1e-9),
            server_busy: loaded.used.server_busy(loaded.elapsed, cpus),
        })
    }

    fn judge(&self, plan: &LoadPlan, loaded: &LoadResult) -> Measured<()> {
        let evidence = Evidence {
            record: &loaded.record,
            is_tls: self.subject.planned.launch.is_tls,
            is_closed: matches!(plan.arrival, ArrivalModel::Closed { .. }),
        };
        verdict::judge(&self.subject.planned.expect, evidence)
    }

    /// How the connections to an origin that speaks TLS must have begun.
    fn judge_origin(&self) -> Measured<()> {
        match (self.origin, self.subject.planned.expect.origin_resumed) {
            (Some(origin), Some(wanted)) => {
                let requests = programs::logged(&origin.folder, &self.subject.planned.spec)?;
                verdict::judge_origin(wanted, &requests.handshakes)
            }
            _ => Ok(()),
        }
    }

    fn measurement(&self, loaded: LoadResult, plan: &LoadPlan) -> Measurement {
        let LoadResult { record, elapsed, busiest, carried, used, at_load, .. } = loaded;
        // Of open load, the server also did what the warm-up left over.
        let operations = record.totals.succeeded + carried;
        let mut warnings = record.warnings.clone();
        warnings.extend(self.warning(Duration::from_nanos(record.client.cpu_ns), elapsed, used));
        Measurement {
            offered_per_s: usage::offered_per_s(plan),
            operations,
            client_cpu_ns: record.client.cpu_ns,
            response: DurationSummary::from(&record.total_latency()),
            handshake: usage::handshake_durations(&record),
            seconds: usage::seconds(plan, &record, self.subject.planned.lose_node.is_some()),
            read_offs: usage::read_offs(plan, &record),
            full_handshakes: self.subject.planned.fill + record.handshakes_of(Kind::Full),
            counts: record.totals,
            failures: record.failures,
            traffic: record.traffic,
            handshakes: record.handshakes,
            steps: record.steps,
            warnings,
            ..self.common(elapsed, used, at_load, busiest)
        }
    }

    fn warning(&self, load: Duration, elapsed: Duration, used: CpuUsage) -> Option<RunWarning> {
        let CpuAssignment { server, client, is_shared } = self.cpus;
        let server_busy = used.server_busy(elapsed, server.len());
        of_client(load + used.origin, elapsed, client.len(), server_busy).filter(|_| !is_shared)
    }

    fn common(
        &self,
        elapsed: Duration,
        used: CpuUsage,
        at_load: LoadedUsage,
        client_busy: f64,
    ) -> Measurement {
        let (planned, repeat) = (self.subject.planned, self.subject.repeat);
        Measurement {
            scenario: planned.scenario.clone(),
            configuration: planned.configuration.key.clone(),
            repeat,
            elapsed_ns: nanoseconds(elapsed),
            server_cpu_ns: nanoseconds(used.server),
            server_switches: Some(used.server_switches),
            origin_cpu_ns: nanoseconds(used.origin),
            resident_bytes_loaded: at_load.resident_bytes,
            open_connections: at_load.open_connections,
            background: used.background,
            noise: MeasurementNoise {
                foreign: used.foreign,
                stolen: used.stolen,
                server_busy: used.server_busy(elapsed, self.cpus.server.len()),
                client_busy: client_busy.min(1.0),
                is_shared: self.cpus.is_shared,
            },
            ..Measurement::default()
        }
    }

    fn call(&self) -> Measured<Measurement> {
        let planned = self.subject.planned;
        let missing = || MeasurementFailure::Failed("no program makes the load".to_owned());
        let (client, program) = self.subject.client.ok_or_else(missing)?;
        let folder = own_folder(self.bench.folder, &client.name)?;
        let call = Call {
            program: &program.path,
            folder: &folder,
            address: &self.server.address.to_string(),
            authorities: &self.bench.certificates.authorities()?,
            spec: &planned.spec,
        };
        let values = planned.load.values(call, &self.launch(planned.launch.duration));
        let before = self.watched.usage_at_rest()?;
        let resident_bytes_before = self.resident_bytes()?;
        let look = || self.watched.server.resident_bytes().unwrap_or(0);
        let fetched = fetch(client, &values, &self.cpus.client, look, self.cancel)?;
        let used = self.watched.usage_at_rest()?.since(&before)?;
        let requests = self.requests()?;
        self.judge_call(&fetched, requests.as_ref(), values.connections)?;
        Ok(Measurement {
            resident_bytes_before,
            handshakes: requests.map(|one| one.handshakes).unwrap_or_default(),
            ..self.called(&fetched, used)
        })
    }

    /// The server's log, if it was asked for one.
    fn requests(&self) -> Measured<Option<LoggedRequests>> {
        let planned = self.subject.planned;
        if !planned.spec.request_log || !planned.launch.is_tls {
            return Ok(None);
        }
        programs::logged(&self.server.folder, &planned.spec).map(Some)
    }

    /// The body must be complete, and the server must have logged as many requests as the program
    /// counted, or those more that were in progress when the program ended.
    fn judge_call(
        &self,
        fetched: &FetchedRun,
        requests: Option<&LoggedRequests>,
        connections: u64,
    ) -> Measured<()> {
        let planned = self.subject.planned;
        let counted = fetched.counted;
        let void = |why| Err(MeasurementFailure::Void(why));
        if let ([wanted], 1..) = (&planned.spec.objects[..], counted.bytes)
            && counted.bytes != *wanted
        {
            return void(format!("asked for {wanted} bytes, got {}", counted.bytes));
        }
        let Some(requests) = requests else {
            return Ok(());
        };
        let (seen, claimed) = (requests.succeeded, counted.operations);
        if !(claimed..=claimed + connections + 1).contains(&seen) {
            return void(format!("it counted {claimed} requests, the server {seen}"));
        }
        let mut record = LoadRecord {
            handshakes: requests.handshakes.clone(),
            totals: usage::counts(counted),
            ..LoadRecord::default()
        };
        let all: u64 = requests.handshakes.iter().map(|row| row.count).sum();
        let full = record.handshakes_of(Kind::Full);
        record.seconds = vec![LoadSecond { full, resumed: all - full, ..LoadSecond::default() }];
        let evidence = Evidence { record: &record, is_tls: planned.launch.is_tls, is_closed: true };
        verdict::judge(&planned.expect, evidence)
    }

    fn called(&self, fetched: &FetchedRun, used: CpuUsage) -> Measurement {
        let counted = fetched.counted;
        let elapsed = fetched.took;
        let mut response = Histogram::default();
        if counted.operations == 1 {
            response.record(elapsed);
        }
        let at_load = LoadedUsage { resident_bytes: fetched.server_bytes, open_connections: 0 };
        let client_busy = used.ended.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        Measurement {
            counts: usage::counts(counted),
            operations: counted.operations,
            client_cpu_ns: nanoseconds(used.ended),
            client_resident_bytes_max: fetched.client_bytes,
            response: usage::called(&response, counted),
            traffic: TrafficBytes { body_bytes: counted.bytes, ..TrafficBytes::default() },
            ..self.common(elapsed, used, at_load, client_busy)
        }
    }

    /// Fills the session cache by full handshakes, each of which stores a session, or as many as it
    /// has stateful tickets.
    fn fill(&self, settings: &ConfigurationSettings) -> Measured<()> {
        let count = self.subject.planned.fill;
        if count == 0 {
            return Ok(());
        }
        let settings = settings.clone().without("clients").with("handshake", "full");
        let settings = if self.subject.planned.spec.stateful_tickets {
            settings.with("tls", "1.3")
        } else {
            settings.with("tls", "1.2").with("tickets", "off")
        };
        let more = u32::try_from(count.saturating_sub(1_000_000)).unwrap_or(u32::MAX);
        let mut plan = self.plan(&settings, FILL_MAX + FILL_MORE * more)?;
        plan.warm_up = Duration::ZERO;
        plan.rests = false;
        plan.count_max = Some(count);
        let loaded = self.run(&plan)?;
        match loaded.record.totals.failed {
            0 => Ok(()),
            failed => {
                Err(MeasurementFailure::Failed(format!("{failed} of {count} sessions failed")))
            }
        }
    }

    fn command(&self, name: &'static str, words: &[String]) -> EventCommand {
        let (program, cpus) = (&self.subject.program.path, &self.cpus.client);
        EventCommand::new(name, words, program, &self.server.folder, cpus)
    }

    /// The death of a node, if the scenario wants it.
    fn node_loss(&self) -> Option<ServerEvent> {
        let words = &self.subject.target.form.lose_node;
        Some(ServerEvent {
            at: self.subject.planned.lose_node?,
            command: self.command("lose-node", words),
        })
    }

    /// Reloads the server, and reads its memory meanwhile.
    fn reload(&self) -> Measured<Option<Reload>> {
        let MeasuredSubject { planned, target, .. } = self.subject;
        if !planned.reloads || target.form.reload.is_empty() {
            return Ok(None);
        }
        let command = self.command("reload", &target.form.reload);
        let begun = Instant::now();
        let mut child = command.start()?;
        let mut reload = Reload::default();
        let mut over: Option<Instant> = None;
        while over.is_none_or(|over| over.elapsed() < RELOAD_AFTER) {
            if self.cancel.is_requested() {
                return Err(MeasurementFailure::Cancelled);
            }
            let read = Instant::now();
            reload.resident_bytes_max = reload.resident_bytes_max.max(self.resident_bytes()?);
            // The kernel reads it page by page, and the server gets no memory meanwhile.
            let rest = RELOAD_PAUSE.max(read.elapsed() * RELOAD_RESTS);
            if over.is_none() && child.ended().is_some() {
                over = Some(Instant::now());
                reload.took_ns = nanoseconds(begun.elapsed());
            }
            thread::sleep(rest);
        }
        command.judge(&mut child)?;
        self.watched.usage_at_rest()?;
        reload.resident_bytes_after = self.resident_bytes()?;
        Ok(Some(reload))
    }

    fn resident_bytes(&self) -> Measured<u64> {
        Ok(self.watched.server.resident_bytes()?)
    }
}

/// Our own addresses for so many connections to a server of this host: 127.0.0.0/8 is ours.
fn sources(plan: &LoadPlan, server: SocketAddr) -> Vec<IpAddr> {
    let connections = match plan.arrival {
        ArrivalModel::Closed { connections } => connections,
        ArrivalModel::Open { .. } => plan.clients.count,
    };
    let count = connections / CONNECTIONS_A_SOURCE;
    if count == 0 || server.ip() != Ipv4Addr::LOCALHOST {
        return Vec::new();
    }
    (0..=count).map(|one| Ipv4Addr::from(0x7f00_0100 + one).into()).collect()
}
