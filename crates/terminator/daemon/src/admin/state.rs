//! What the admin side knows: the counters, what was true at start, and what reloads change.
//!
//! Owns the translation of these into the status document and the exposition.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::{HeaderMap, Uri};
use proxy::options::{KtlsMode, KtlsOptions};
use telemetry::Registry;
use telemetry::catalogue::{
    Histogram, ServerCounter, ServerGauge, ServiceCounter, ServiceGauge, WorkerCounter, WorkerGauge,
};
use telemetry::exposition::{
    Certificates, Ends, Expiry, Process, SessionCache, TicketKey, write_prometheus,
};
use telemetry::outcome::{
    EarlyData, HandshakeKind, OffloadRefusal, Reason, ResumptionMiss, Version,
};
use telemetry::snapshot::{
    BUCKETS_US, HistogramSnapshot, ServerSnapshot, ServiceSnapshot, Snapshot, WorkerSnapshot,
};
use tls::resumption::{KeyPurpose, Resumption};
use tls::server::Expiries;
use tls::validity;

use crate::kernel::KernelTls;

use super::access::{Access, Denied};
use super::document::{
    ByteStatus, CertificateStatus, ConnectionStatus, DialStatus, EndedStatus, FilesStatus,
    HandshakeStatus, HistogramStatus, KernelTlsStatus, KindStatus, KtlsStatus, LastReload,
    LogStatus, ProcessStatus, ReloadStatus, RightsStatus, RunState, SentStatus, ServerState,
    ServerStatus, ServiceStatus, SessionStatus, StatusDocument, VERSION, WorkerStatus,
};

/// What the admin side knows. Shared by the control thread's tasks.
pub(crate) struct AdminState {
    registry: Arc<Registry>,
    start: StartFacts,
    start_time: SystemTime,
    facts: Mutex<Facts>,
}

/// What was true when the worker process started.
#[derive(Clone, Debug)]
pub(crate) struct StartFacts {
    /// This program's version.
    pub(crate) program: &'static str,
    pub(crate) supervisor_pid: u32,
    pub(crate) supervisor_start: SystemTime,
    /// Worker processes started again after one died, this one with them.
    pub(crate) restarts: u64,
    /// One a worker: the CPU it is pinned to.
    pub(crate) worker_cpus: Vec<Option<u16>>,
    /// What it gave up.
    pub(crate) rights: RightsStatus,
}

/// What the supervisor knows of reloads, since it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReloadFacts {
    pub(crate) ok: u64,
    pub(crate) refused: u64,
    pub(crate) last: Option<(SystemTime, ReloadResult)>,
}

/// How a reload ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReloadResult {
    /// The new plan is served.
    Ok,
    /// The old one still is; why.
    Refused(String),
}

/// What a plan says of one service.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServiceFacts {
    pub(crate) name: String,
    /// Addresses, as configured.
    pub(crate) listeners: Vec<String>,
    /// When its certificates and what belongs to them end.
    pub(crate) expiries: Expiries,
    /// When the kernel seals; `None` = no plan says.
    pub(crate) ktls: Option<KtlsOptions>,
    /// Whether files stand behind it.
    pub(crate) serves_files: bool,
}

#[derive(Default)]
struct Facts {
    generation: u64,
    services: Vec<ServiceFacts>,
    /// What the kernel does of TLS; `None` = no service wants it.
    kernel_tls: Option<KernelTls>,
    reload: ReloadFacts,
    is_draining: bool,
    log: LogStatus,
    /// Who is answered over HTTP; the served plan's. `None` = nobody yet.
    access: Option<Access>,
    /// The served plan's.
    resumption: Option<Arc<Resumption>>,
    /// Why servers are down that checks took out, by service and server.
    notes: BTreeMap<(String, String), String>,
}

impl AdminState {
    /// Knows of no plan yet; the worker process starts now.
    pub(crate) fn new(registry: Arc<Registry>, start: StartFacts) -> Self {
        Self {
            registry,
            start,
            start_time: SystemTime::now(),
            facts: Mutex::default(),
        }
    }

    /// A plan is served from now on.
    pub(crate) fn plan_served(
        &self,
        generation: u64,
        services: Vec<ServiceFacts>,
        kernel_tls: Option<KernelTls>,
    ) {
        let mut facts = self.facts();
        let is_served = |name: &String| services.iter().any(|service| service.name == *name);
        facts.notes.retain(|(service, _), _| is_served(service));
        facts.generation = generation;
        facts.services = services;
        facts.kernel_tls = kernel_tls;
    }

    /// When the certificates of a service end, as of now.
    pub(crate) fn ends_noted(&self, service: &str, expiries: Expiries) {
        let mut facts = self.facts();
        let its = facts.services.iter_mut().find(|one| one.name == service);
        if let Some(its) = its {
            its.expiries = expiries;
        }
    }

    /// These sessions and ticket keys are the served plan's.
    pub(crate) fn resumes_by(&self, resumption: Arc<Resumption>) {
        self.facts().resumption = Some(resumption);
    }

    /// Who is answered over HTTP from now on.
    pub(crate) fn answers(&self, access: Access) {
        self.facts().access = Some(access);
    }

    /// Whether a request over HTTP is answered.
    pub(super) fn check_access(&self, target: &Uri, fields: &HeaderMap) -> Result<(), Denied> {
        let facts = self.facts();
        facts
            .access
            .as_ref()
            .ok_or(Denied::Host)?
            .check(target, fields)
    }

    /// What the supervisor says of reloads.
    pub(crate) fn reloaded(&self, reload: ReloadFacts) {
        self.facts().reload = reload;
    }

    /// No connection is accepted any more.
    pub(crate) fn drain_begun(&self) {
        self.facts().is_draining = true;
    }

    /// So many bytes of lines about connections could not be written.
    pub(crate) fn log_lost(&self, bytes: u64, why: String) {
        let log = &mut self.facts().log;
        log.lost_bytes += bytes;
        log.failure = Some(why);
    }

    /// The log is written again.
    pub(crate) fn log_recovered(&self) {
        self.facts().log.failure = None;
    }

    /// What a check of a server decided: why it is down, or `None` if it is up. May be said again.
    pub(crate) fn server_noted(&self, service: &str, server: &str, note: Option<String>) {
        let is_down = note.is_some();
        let key = (service.to_owned(), server.to_owned());
        let mut facts = self.facts();
        let before = match note {
            Some(note) => facts.notes.insert(key, note),
            None => facts.notes.remove(&key),
        };
        if before.is_some() != is_down {
            let change = if is_down {
                ServerCounter::WentDown
            } else {
                ServerCounter::WentUp
            };
            let servers = [server.to_owned()];
            let control = self.registry.control();
            let counters = self.registry.service(control, service, &servers);
            counters.server(0).count(change);
        }
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn prometheus(&self) -> String {
        let snapshot = self.registry.snapshot();
        let mut out = String::with_capacity(64 * 1024);
        write_prometheus(&snapshot, &self.process_metrics(), &mut out);
        out
    }

    fn process_metrics(&self) -> Process {
        let facts = self.facts();
        let certificates = facts.services.iter().map(|service| Certificates {
            service: service.name.clone(),
            certificates: ends_metric(&service.expiries.certificates),
            ocsp_responses: ends_metric(&service.expiries.staples),
            crls: ends_metric(&service.expiries.lists),
        });
        Process {
            version: self.start.program.to_owned(),
            start_seconds: milliseconds(self.start_time) / 1000,
            supervisor_start_seconds: milliseconds(self.start.supervisor_start) / 1000,
            restarts: self.start.restarts,
            generation: facts.generation,
            reloads_ok: facts.reload.ok,
            reloads_refused: facts.reload.refused,
            log_lost_bytes: facts.log.lost_bytes,
            log_fails: facts.log.failure.is_some(),
            certificates: certificates.collect(),
            ticket_keys: facts.resumption.as_deref().map_or(Vec::new(), ticket_keys),
            session_cache: facts
                .resumption
                .as_deref()
                .map_or_else(SessionCache::default, session_cache),
        }
    }

    /// The status document as of now.
    pub(crate) fn document(&self) -> StatusDocument {
        let snapshot = self.registry.snapshot();
        let facts = self.facts();
        StatusDocument {
            version: VERSION,
            time_ms: milliseconds(SystemTime::now()),
            process: self.process(&facts),
            reload: reload(&facts.reload),
            log: facts.log.clone(),
            workers: self.workers(&snapshot),
            services: services(&snapshot, &facts),
            kernel_tls: facts.kernel_tls.as_ref().map(kernel_status),
            sessions: facts
                .resumption
                .as_deref()
                .map_or_else(SessionStatus::default, session_status),
            bounds_us: BUCKETS_US.to_vec(),
        }
    }

    fn process(&self, facts: &Facts) -> ProcessStatus {
        ProcessStatus {
            program: self.start.program.to_owned(),
            state: match facts.is_draining {
                false => RunState::Serving,
                true => RunState::Draining,
            },
            pid: std::process::id(),
            supervisor_pid: self.start.supervisor_pid,
            start_ms: milliseconds(self.start_time),
            supervisor_start_ms: milliseconds(self.start.supervisor_start),
            restarts: self.start.restarts,
            generation: facts.generation,
            rights: self.start.rights.clone(),
        }
    }

    fn workers(&self, snapshot: &Snapshot) -> Vec<WorkerStatus> {
        let workers = snapshot.workers.iter().enumerate();
        let cpu = |index: usize| self.start.worker_cpus.get(index).copied().flatten();
        workers
            .map(|(index, counts)| worker(counts, cpu(index)))
            .collect()
    }

    /// A panic elsewhere leaves facts as true as they were.
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reload(facts: &ReloadFacts) -> ReloadStatus {
    let last = facts.last.as_ref().map(|(time, result)| LastReload {
        time_ms: milliseconds(*time),
        refused: match result {
            ReloadResult::Ok => None,
            ReloadResult::Refused(message) => Some(message.clone()),
        },
    });
    ReloadStatus {
        ok: facts.ok,
        refused: facts.refused,
        last,
    }
}

fn worker(counts: &WorkerSnapshot, cpu: Option<u16>) -> WorkerStatus {
    WorkerStatus {
        cpu,
        connections_open: counts.gauge(WorkerGauge::ConnectionsOpen),
        busy_us: counts.counter(WorkerCounter::BusyMicroseconds),
        loop_iterations: counts.counter(WorkerCounter::LoopIterations),
        events: counts.counter(WorkerCounter::Events),
        accept_errors: counts.counter(WorkerCounter::AcceptErrors),
        buffers_in_use: counts.gauge(WorkerGauge::BuffersInUse),
        buffers_pooled: counts.gauge(WorkerGauge::BuffersPooled),
    }
}

/// Those of the plan in its order, then those that are gone from it and still have connections.
fn services(snapshot: &Snapshot, facts: &Facts) -> Vec<ServiceStatus> {
    let counted = |name: &str| snapshot.services.iter().find(|s| s.name == name);
    let planned = facts.services.iter().map(|plan| {
        let counts = counted(&plan.name).cloned().unwrap_or_default();
        service(&counts, plan, facts, snapshot.workers.len())
    });
    let is_gone = |counts: &&ServiceSnapshot| facts.services.iter().all(|s| s.name != counts.name);
    let gone = snapshot.services.iter().filter(is_gone).map(|counts| {
        let plan = ServiceFacts {
            name: counts.name.clone(),
            ..ServiceFacts::default()
        };
        service(counts, &plan, facts, snapshot.workers.len())
    });
    planned.chain(gone).collect()
}

fn service(
    counts: &ServiceSnapshot,
    plan: &ServiceFacts,
    facts: &Facts,
    workers: usize,
) -> ServiceStatus {
    let note = |server: &str| {
        let key = (plan.name.clone(), server.to_owned());
        facts.notes.get(&key).cloned()
    };
    let servers = counts.servers.iter();
    ServiceStatus {
        name: plan.name.clone(),
        listeners: plan.listeners.clone(),
        certificates: ends_status(&plan.expiries.certificates),
        ocsp_responses: ends_status(&plan.expiries.staples),
        crls: ends_status(&plan.expiries.lists),
        connections: ConnectionStatus {
            accepted: counts.counter(ServiceCounter::ConnectionsAccepted),
            open: counts.gauge(ServiceGauge::ConnectionsOpen),
            ended: ended(counts),
            duration: histogram(counts.histogram(Histogram::Connection)),
        },
        handshakes: handshakes(counts),
        bytes: ByteStatus {
            up: counts.counter(ServiceCounter::BytesUp),
            down: counts.counter(ServiceCounter::BytesDown),
            sent: sent(counts),
        },
        ktls: ktls(counts, plan),
        files: plan.serves_files.then(|| files(counts)),
        dials: DialStatus {
            retries: counts.counter(ServiceCounter::DialRetries),
            duration: histogram(counts.histogram(Histogram::Dial)),
        },
        servers: servers.map(|s| server(s, note(&s.name), workers)).collect(),
        log_lines_suppressed: counts.counter(ServiceCounter::LogLinesSuppressed),
    }
}

fn kernel_status(kernel_tls: &KernelTls) -> KernelTlsStatus {
    KernelTlsStatus {
        available: kernel_tls.is_there(),
        sentence: kernel_tls.sentence.clone(),
        remedy: kernel_tls.remedy.clone(),
        rekeys: kernel_tls.rekeys,
    }
}

fn ktls(counts: &ServiceSnapshot, plan: &ServiceFacts) -> KtlsStatus {
    let mode = plan.ktls.map(|ktls| match ktls.mode {
        KtlsMode::Off => "off",
        KtlsMode::Auto => "auto",
        KtlsMode::Require => "require",
    });
    let refusals = OffloadRefusal::ALL.iter();
    KtlsStatus {
        mode: mode.map(str::to_owned),
        from_bytes: plan.ktls.map(|ktls| ktls.from),
        connections: counts.counter(ServiceCounter::Offloads),
        open: counts.gauge(ServiceGauge::Offloaded),
        rekeys: counts.counter(ServiceCounter::Rekeys),
        refused: those_used(refusals.map(|why| (why.name(), counts.offload_refused(*why)))),
    }
}

fn sent(counts: &ServiceSnapshot) -> SentStatus {
    SentStatus {
        sendfile: counts.counter(ServiceCounter::SentBySendfile),
        splice: counts.counter(ServiceCounter::SentBySplice),
        kernel: counts.counter(ServiceCounter::SentToKernel),
        user_space: counts.counter(ServiceCounter::SentByUserSpace),
    }
}

fn files(counts: &ServiceSnapshot) -> FilesStatus {
    FilesStatus {
        found: counts.counter(ServiceCounter::FilesFound),
        elsewhere: counts.counter(ServiceCounter::FilesElsewhere),
        refused: counts.counter(ServiceCounter::FilesRefused),
        failed: counts.counter(ServiceCounter::FilesFailed),
    }
}

fn ended(counts: &ServiceSnapshot) -> BTreeMap<String, EndedStatus> {
    let happened = Reason::ALL
        .iter()
        .filter(|reason| counts.ended(**reason) > 0);
    let named = happened.map(|reason| {
        let ended = EndedStatus {
            fault: reason.fault().to_owned(),
            count: counts.ended(*reason),
        };
        (reason.name().to_owned(), ended)
    });
    named.collect()
}

fn ticket_keys(resumption: &Resumption) -> Vec<TicketKey> {
    let keys = resumption.ticket_keys().into_iter();
    keys.map(|key| TicketKey {
        name: key.name,
        encrypts: key.purpose == KeyPurpose::Encrypt,
        age_seconds: key.age_seconds,
    })
    .collect()
}

fn session_cache(resumption: &Resumption) -> SessionCache {
    let counters = resumption.session_counters();
    SessionCache {
        entries: counters.entries,
        bytes: counters.bytes,
        hits: counters.hits,
        expired: counters.misses_expired,
        damaged: counters.misses_damaged,
        recovered: counters.recovered,
        unknown: counters.misses_unknown,
        evictions: counters.evictions,
        refusals: counters.refusals,
    }
}

fn session_status(resumption: &Resumption) -> SessionStatus {
    let counters = resumption.session_counters();
    SessionStatus {
        entries: counters.entries,
        bytes: counters.bytes,
        hits: counters.hits,
        expired: counters.misses_expired,
        unknown: counters.misses_unknown,
        damaged: counters.misses_damaged,
        evictions: counters.evictions,
        refusals: counters.refusals,
        recovered: counters.recovered,
    }
}

fn handshakes(counts: &ServiceSnapshot) -> HandshakeStatus {
    let kinds = HandshakeKind::ALL.iter().map(|kind| {
        let status = KindStatus {
            count: counts.handshakes_of(*kind),
            duration: histogram(counts.histogram(Histogram::of_handshake(*kind))),
        };
        (kind.name().to_owned(), status)
    });
    let versions = Version::ALL.iter().map(|version| {
        let kinds = HandshakeKind::ALL.iter();
        let count = kinds.map(|kind| counts.handshakes(*kind, *version)).sum();
        (version.name().to_owned(), count)
    });
    HandshakeStatus {
        in_progress: counts.gauge(ServiceGauge::HandshakesInProgress),
        kinds: kinds.collect(),
        versions: versions.collect(),
        misses: those_used(
            ResumptionMiss::ALL
                .iter()
                .map(|miss| (miss.name(), counts.missed(*miss))),
        ),
        early_data: those_used(
            EarlyData::ALL
                .iter()
                .map(|outcome| (outcome.name(), counts.offered_early(*outcome))),
        ),
        suites: those_used(counts.suites()),
        groups: those_used(counts.groups()),
        hello_retry_requests: counts.counter(ServiceCounter::HelloRetryRequests),
        key_updates: counts.counter(ServiceCounter::KeyUpdates),
    }
}

fn those_used(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    let used = counts.filter(|(_, count)| *count > 0);
    used.map(|(name, count)| (name.to_owned(), count)).collect()
}

fn server(counts: &ServerSnapshot, note: Option<String>, workers: usize) -> ServerStatus {
    let workers_up = counts.gauge(ServerGauge::WorkersUp);
    let state = match workers_up {
        0 => ServerState::Down,
        up if up < workers as u64 => ServerState::Partly,
        _ => ServerState::Up,
    };
    let note = note.or_else(|| unchecked(state, counts.counter(ServerCounter::Dials)));
    ServerStatus {
        name: counts.name.clone(),
        state,
        workers_up,
        note: note.filter(|_| state != ServerState::Up),
        connections_open: counts.gauge(ServerGauge::ConnectionsOpen),
        dials: counts.counter(ServerCounter::Dials),
        dials_refused: counts.counter(ServerCounter::DialsRefused),
        dials_timed_out: counts.counter(ServerCounter::DialsTimedOut),
        dials_unreachable: counts.counter(ServerCounter::DialsUnreachable),
        went_down: counts.counter(ServerCounter::WentDown),
        bytes_up: counts.counter(ServerCounter::BytesUp),
        bytes_down: counts.counter(ServerCounter::BytesDown),
    }
}

/// Why a server is not up of which no check says so: its name was never resolved, so that nobody
/// dialled it, or its dials failed.
fn unchecked(state: ServerState, dials: u64) -> Option<String> {
    match (state, dials) {
        (ServerState::Up, _) | (ServerState::Partly, 0) => None,
        (ServerState::Down, 0) => Some("no address: its name is not resolved".to_owned()),
        (ServerState::Down | ServerState::Partly, _) => {
            Some("its last dials failed; it is tried again".to_owned())
        }
    }
}

fn histogram(snapshot: &HistogramSnapshot) -> HistogramStatus {
    HistogramStatus {
        buckets: snapshot.buckets.0.to_vec(),
        sum_us: snapshot.sum_us,
    }
}

fn ends_metric(ends: &validity::Ends) -> Ends {
    let listed = ends.listed.iter().map(|one| Expiry {
        file: one.file.to_string(),
        name: one.name.to_string(),
        key: one.key,
        time_seconds: since_epoch(one.time),
    });
    Ends {
        loaded: ends.loaded,
        expired: ends.expired,
        listed: listed.collect(),
    }
}

fn ends_status(ends: &validity::Ends) -> CertificateStatus {
    CertificateStatus {
        loaded: ends.loaded,
        expired: ends.expired,
        expiry_seconds: ends.first().map(since_epoch),
    }
}

/// An end before the epoch is over as well.
fn since_epoch(unix_seconds: i64) -> u64 {
    u64::try_from(unix_seconds).unwrap_or(0)
}

/// Since the epoch; a clock that stands before it says 0.
fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn state(registry: &Arc<Registry>) -> AdminState {
        let start = StartFacts {
            program: "1.2.3",
            supervisor_pid: 7,
            supervisor_start: UNIX_EPOCH + Duration::from_secs(5),
            restarts: 2,
            worker_cpus: vec![Some(3)],
            rights: RightsStatus::default(),
        };
        AdminState::new(Arc::clone(registry), start)
    }

    fn facts(name: &str) -> ServiceFacts {
        ServiceFacts {
            name: name.into(),
            listeners: vec!["[::]:443".into()],
            expiries: Expiries {
                certificates: validity::Ends {
                    loaded: 2,
                    expired: 1,
                    listed: vec![validity::Expiry {
                        file: "site.pem".into(),
                        name: "example.com".into(),
                        key: "RSA",
                        time: 99,
                    }],
                },
                ..Expiries::default()
            },
            ktls: None,
            serves_files: true,
        }
    }

    #[test]
    fn the_document_reads_back_as_it_was_written() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        let web = registry.service(0, "web", &["a:1".to_owned()]);
        web.ended(Reason::NotTls);
        web.server(0).set_up(false);
        state.plan_served(4, vec![facts("web")], None);
        state.server_noted("web", "a:1", Some("status 503".into()));
        state.reloaded(ReloadFacts {
            ok: 3,
            refused: 1,
            last: Some((UNIX_EPOCH, ReloadResult::Refused("no such file".into()))),
        });

        let document = state.document();
        let read = StatusDocument::from_json(&document.to_json()).expect("our own");
        assert_eq!(read, document);
        let service = &document.services[0];
        assert_eq!(service.connections.ended["not-tls"].fault, "client");
        assert_eq!(service.servers[0].state, ServerState::Down);
        assert_eq!(service.servers[0].note.as_deref(), Some("status 503"));
        assert_eq!(document.workers[0].cpu, Some(3));
        assert_eq!(document.process.generation, 4);
        let last = document.reload.last.expect("one was said");
        assert_eq!(last.refused.as_deref(), Some("no such file"));
    }

    #[test]
    fn services_stand_in_the_plans_order_and_those_gone_from_it_last() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        let _held = ["old", "b", "a"].map(|name| registry.service(0, name, &[]));
        state.plan_served(2, vec![facts("a"), facts("b")], None);
        let services = state.document().services;
        let names: Vec<_> = services.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "old"]);
    }

    #[test]
    fn a_server_that_some_workers_would_use_is_partly_up() {
        let registry = Arc::new(Registry::new(2));
        let state = state(&registry);
        let list = ["a:1".to_owned()];
        let workers = [0, 1].map(|worker| registry.service(worker, "web", &list));
        workers[1].server(0).set_up(false);
        state.plan_served(1, vec![facts("web")], None);
        let server = &state.document().services[0].servers[0];
        assert_eq!((server.state, server.workers_up), (ServerState::Partly, 1));
    }

    #[test]
    fn a_server_that_is_down_without_a_check_has_its_reason() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        let web = registry.service(0, "web", &["app:1".to_owned()]);
        web.server(0).set_up(false);
        state.plan_served(1, vec![facts("web")], None);
        let note = || state.document().services[0].servers[0].note.clone();
        assert!(note().is_some_and(|note| note.starts_with("no address")));
        web.server(0).count(ServerCounter::Dials);
        assert!(note().is_some_and(|note| note.starts_with("its last dials failed")));
        web.server(0).set_up(true);
        assert_eq!(note(), None);
    }

    #[test]
    fn a_change_is_counted_once_however_often_it_is_said() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        let _web = registry.service(0, "web", &["a:1".to_owned()]);
        state.server_noted("web", "a:1", None);
        for note in ["refused", "reset"] {
            state.server_noted("web", "a:1", Some(note.into()));
            state.plan_served(2, vec![facts("web")], None);
        }
        state.server_noted("web", "a:1", None);
        state.server_noted("web", "a:1", Some("refused".into()));
        let snapshot = registry.snapshot();
        let server = &snapshot.services[0].servers[0];
        let changes = [ServerCounter::WentDown, ServerCounter::WentUp].map(|c| server.counter(c));
        assert_eq!(changes, [2, 1]);
    }

    #[test]
    fn a_document_of_another_version_is_refused() {
        let error = StatusDocument::from_json(br#"{"version": 1}"#).unwrap_err();
        assert!(matches!(error, super::super::StatusError::Version(Some(1))));
        let error = StatusDocument::from_json(b"{}").unwrap_err();
        assert!(matches!(error, super::super::StatusError::Version(None)));
        let error = StatusDocument::from_json(b"garbage").unwrap_err();
        assert!(matches!(error, super::super::StatusError::Malformed(_)));
    }

    #[test]
    fn the_metrics_tell_the_facts() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        state.plan_served(4, vec![facts("web")], None);
        let metrics = state.prometheus();
        for line in [
            "lariat_build_info{version=\"1.2.3\"} 1",
            "lariat_config_generation 4",
            "lariat_supervisor_start_time_seconds 5",
            "lariat_worker_process_restarts_total 2",
            "lariat_certificates{service=\"web\"} 2",
            "lariat_certificates_expired{service=\"web\"} 1",
            "lariat_certificate_expiry_timestamp_seconds{service=\"web\",file=\"site.pem\",name=\"example.com\",key=\"RSA\"} 99",
        ] {
            assert!(metrics.lines().any(|l| l == line), "no {line}");
        }
    }
}
