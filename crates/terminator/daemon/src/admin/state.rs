//! The admin side's knowledge: the counters, what was true at start, and what reloads change.
//!
//! Owns the translation of these into the status document and the exposition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hyper::{HeaderMap, Uri};
use proxy::options::KtlsOptions;
use proxy::plane::Plane;
use proxy::sources::SourceTable;
use sys::usage::{Memory, Usage};
use telemetry::Registry;
use telemetry::catalogue::{
    BUCKETS_US, Labelled, Process, ProcessMetric, ServerCounter, ServerGauge, ServiceGauge,
};
use telemetry::counters::{Counts, ServiceSnapshot, Snapshot};
use telemetry::exposition::{LabelledValue, write_prometheus};
use telemetry::history::{History, INTERVAL};
use tls::resumption::{KeyPurpose, Resumption};
use tls::server::Expiries;
use tls::validity::Ends;
use tokio::time::MissedTickBehavior;

use crate::handover::{EndedReload, Reloads, STEADY_AFTER};
use crate::kernel::KernelTls;
use crate::maintenance::ServerName;
use crate::observations::Observations;

use super::access::{Access, Denied};
use super::cluster::ClusterFacts;
use super::document::{
    CERTIFICATES_MAX, ExpiryStatus, ProcessStatus, RightsStatus, RunState, ServiceStatus,
    StatusDocument, VERSION, WorkerStatus,
};
use super::history::{self, Question};
use super::parts::{
    certificates, count_expiries, kernel_status, ktls, last_reload, last_upgrade, since_epoch,
};
use super::readiness::Workers;
use super::server_watch::{Said, ServerWatch};
use super::servers::{HealthReport, ServerStates, milliseconds, observed, server};

/// The admin side's knowledge. Shared by the control thread's tasks.
pub(crate) struct AdminState {
    registry: Arc<Registry>,
    start: StartFacts,
    start_time: SystemTime,
    usage: Usage,
    workers: Workers,
    facts: Mutex<Facts>,
    history: Mutex<History>,
}

/// The limits of what is open, in progress or stored at the same time; the served plan's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) connections: u64,
    pub(crate) handshakes: u64,
    pub(crate) session_entries: u64,
    pub(crate) session_bytes: u64,
}

/// Facts that were true when the worker process started.
#[derive(Clone, Debug)]
pub(crate) struct StartFacts {
    pub(crate) program: &'static str,
    pub(crate) supervisor_pid: u32,
    pub(crate) supervisor_start: SystemTime,
    /// Worker processes started again after one died, this one with them.
    pub(crate) restarts: u64,
    /// How those before it died, if they died again and again.
    pub(crate) dying: Option<String>,
    /// One a worker: the CPU it is pinned to.
    pub(crate) worker_cpus: Vec<Option<u16>>,
    pub(crate) rights: RightsStatus,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServiceFacts {
    pub(crate) name: String,
    pub(crate) listeners: Vec<String>,
    /// When its certificates and what belongs to them end.
    pub(crate) expiries: Expiries,
    /// When the kernel seals; `None` = no plan says.
    pub(crate) ktls: Option<KtlsOptions>,
    /// Empty = servers get plaintext; else what proves who a server is.
    pub(crate) server_tls: &'static str,
    /// Whether files stand behind it.
    pub(crate) serves_files: bool,
    /// Connections that may wait for a server.
    pub(crate) queue_limit: u64,
    /// Connections that servers take, by name, of those that do not take any number.
    pub(crate) server_limits: BTreeMap<String, u64>,
}

/// Facts about a plan while it is served.
#[derive(Default)]
pub(crate) struct Served {
    pub(crate) generation: u64,
    pub(crate) services: Vec<ServiceFacts>,
    pub(crate) limits: Limits,
    /// The kernel's part of TLS; `None` = no service wants it.
    pub(crate) kernel_tls: Option<KernelTls>,
    /// Who is answered over HTTP; `None` = nobody.
    pub(crate) access: Option<Access>,
    pub(crate) resumption: Option<Arc<Resumption>>,
}

#[derive(Default)]
struct Facts {
    served: Served,
    reload: Reloads,
    sources: Arc<SourceTable>,
    is_draining: bool,
    /// Bytes of lines about connections that could not be written.
    log_lost_bytes: u64,
    /// The reason why the last ones could not; `None` = they could.
    log_failure: Option<String>,
    cluster: ClusterFacts,
    /// The reasons why checks took servers out, by service and server.
    notes: BTreeMap<(String, String), (bool, String)>,
    /// Servers that an operator has disabled.
    disabled: BTreeSet<ServerName>,
    states: ServerStates,
    watch: ServerWatch,
}

impl AdminState {
    /// Knows of no plan yet; the worker process starts now.
    pub(crate) fn new(registry: Arc<Registry>, start: StartFacts) -> Self {
        Self {
            registry,
            start,
            start_time: SystemTime::now(),
            usage: Usage::default(),
            workers: Workers::default(),
            facts: Mutex::default(),
            history: Mutex::default(),
        }
    }

    /// The same, with what reports what the process uses of the host.
    pub(crate) fn with_usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    pub(crate) fn workers_begun(&self, plane: &Plane) {
        self.workers.begun(plane.heartbeat());
        self.facts().sources = plane.sources();
    }

    /// Whether the workers go on.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// How worker processes died before this one, until it has lived long enough.
    pub(super) fn dying(&self) -> Option<&str> {
        let lived = self.start_time.elapsed().unwrap_or(STEADY_AFTER);
        self.start.dying.as_deref().filter(|_| lived < STEADY_AFTER)
    }

    pub(super) fn is_draining(&self) -> bool {
        self.facts().is_draining
    }

    /// Connections of clients that are open now.
    pub(crate) fn connections_open(&self) -> u64 {
        let services = self.registry.snapshot().services;
        let counts = services.iter().map(|one| one.counts.get(ServiceGauge::ConnectionsOpen));
        counts.fold(0, u64::saturating_add)
    }

    /// A plan is served from now on.
    pub(crate) fn plan_served(&self, served: Served) {
        let mut facts = self.facts();
        let is_served = |name: &String| served.services.iter().any(|one| one.name == *name);
        facts.notes.retain(|(service, _), _| is_served(service));
        facts.served = served;
    }

    /// When the certificates of a service end, as of now.
    pub(crate) fn expiries_changed(&self, service: &str, expiries: Expiries) {
        let mut facts = self.facts();
        let mut services = facts.served.services.iter_mut();
        if let Some(its) = services.find(|one| one.name == service) {
            its.expiries = expiries;
        }
    }

    /// Takes the facts about the cluster's peers from there.
    pub(crate) fn cluster_begun(&self, cluster: ClusterFacts) {
        self.facts().cluster = cluster;
    }

    /// Whether a request over HTTP is answered.
    pub(super) fn check_access(&self, target: &Uri, fields: &HeaderMap) -> Result<(), Denied> {
        let facts = self.facts();
        let access = facts.served.access.as_ref();
        access.ok_or(Denied::Host)?.check(target, fields)
    }

    pub(crate) fn reloaded(&self, reload: Reloads) {
        self.facts().reload = reload;
    }

    /// Notes the servers that an operator has disabled.
    pub(crate) fn servers_disabled(&self, names: BTreeSet<ServerName>) {
        self.facts().disabled = names;
    }

    /// No connection is accepted any more.
    pub(crate) fn drain_begun(&self) {
        self.facts().is_draining = true;
    }

    /// Counts bytes of lines about connections that could not be written.
    pub(crate) fn log_lost(&self, bytes: u64, why: String) {
        let mut facts = self.facts();
        facts.log_lost_bytes += bytes;
        facts.log_failure = Some(why);
    }

    /// The log is written again.
    pub(crate) fn log_recovered(&self) {
        self.facts().log_failure = None;
    }

    /// Notes the decision of a server's checks. May be called again with the same.
    pub(crate) fn server_noted(&self, server: &str, report: &HealthReport) {
        let key = (report.service.clone(), server.to_owned());
        let mut facts = self.facts();
        let is_down = !report.up;
        let before = if report.down.is_empty() {
            facts.notes.remove(&key)
        } else {
            facts.notes.insert(key, (is_down, report.why.clone()))
        };
        if before.is_some_and(|(was_down, _)| was_down) != is_down {
            let change = if is_down { ServerCounter::WentDown } else { ServerCounter::WentUp };
            let servers = [server.to_owned()];
            let control = self.registry.control();
            let counters = self.registry.service(control, &report.service, &servers);
            counters.server(0).count(change);
        }
    }

    /// An interval of the history, which was this long, ends now.
    fn end_interval(&self, duration: Duration) {
        let peaks = self.registry.peaks();
        let (now, workers) = (milliseconds(SystemTime::now()), self.registry.workers());
        let states = &mut self.facts().states;
        states.look(&peaks.services, workers as u64, now);
        self.history().add(now, duration, &peaks);
    }

    /// The observations with which the next worker process goes on.
    pub(crate) fn observations(&self) -> Observations {
        Observations {
            servers: observed(&self.document().services),
            history: history::handed_over(&self.history()),
        }
    }

    /// Goes on with what another worker process has observed.
    pub(crate) fn take_over(&self, before: &Observations) {
        let (now, now_ms) = (Instant::now(), milliseconds(SystemTime::now()));
        let mut facts = self.facts();
        facts.states.take_over(&before.servers, now_ms);
        facts.watch.take_over(&before.servers, now, now_ms);
        drop(facts);
        history::take_over(&mut self.history(), &before.history);
    }

    /// The history that somebody asks for, as JSON.
    pub(super) fn history_document(&self, question: &Question<'_>) -> Vec<u8> {
        history::answer(&self.history(), question, &BUCKETS_US)
    }

    /// A panic elsewhere leaves it as good as it was.
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages about servers that changed since the last look.
    pub(crate) fn look_at_servers(&self, now: Instant) -> Vec<Said> {
        let services = self.document().services;
        let workers = self.start.worker_cpus.len() as u64;
        self.facts().watch.look(&services, workers, now)
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn prometheus(&self) -> String {
        let facts = self.facts();
        let snapshot = self.snapshot(&facts);
        let (process, labelled) = (self.process_counts(&facts), self.labelled(&facts));
        let mut out = String::with_capacity(64 * 1024);
        write_prometheus(&snapshot, &process, &labelled, &mut out);
        out
    }

    /// The status document as of now.
    pub(crate) fn document(&self) -> StatusDocument {
        let facts = self.facts();
        let Snapshot { services, workers } = self.snapshot(&facts);
        let workers_count = workers.len() as u64;
        let cpus = self.start.worker_cpus.iter().copied();
        let workers = workers.into_iter().zip(cpus.chain(std::iter::repeat(None)));
        let services = services.into_iter();
        StatusDocument {
            version: VERSION,
            time_ms: milliseconds(SystemTime::now()),
            process: self.process(&facts),
            last_reload: facts.reload.last.as_ref().map(last_reload),
            last_upgrade: facts.reload.last_upgrade.as_ref().map(last_upgrade),
            log_failure: facts.log_failure.clone(),
            workers: workers.map(|(metrics, cpu)| WorkerStatus { cpu, metrics }).collect(),
            services: services.map(|one| service(one, &facts, workers_count)).collect(),
            kernel_tls: facts.served.kernel_tls.as_ref().map(kernel_status),
            cluster: facts.cluster.status(),
            bounds_us: BUCKETS_US.to_vec(),
        }
    }

    /// A copy of the counters. Services of the plan come first, in its order; then those that are
    /// gone from it and still have connections.
    fn snapshot(&self, facts: &Facts) -> Snapshot {
        let mut counted = self.registry.snapshot();
        let mut services = Vec::new();
        for plan in &facts.served.services {
            let at = counted.services.iter().position(|one| one.name == plan.name);
            let mut service =
                at.map_or_else(ServiceSnapshot::default, |at| counted.services.remove(at));
            service.name.clone_from(&plan.name);
            count_expiries(&mut service, &plan.expiries);
            service.counts.set(ServiceGauge::QueueLimit, plan.queue_limit);
            for server in &mut service.servers {
                let limit = plan.server_limits.get(&server.name).copied();
                let limit = limit.unwrap_or(0);
                server.counts.set(ServerGauge::ConnectionsLimit, limit);
            }
            services.push(service);
        }
        services.append(&mut counted.services);
        for service in &mut services {
            for server in &mut service.servers {
                let name =
                    ServerName { service: service.name.clone(), server: server.name.clone() };
                let disabled = facts.disabled.contains(&name);
                server.counts.set(ServerGauge::Disabled, u64::from(disabled));
                let since_ms = facts.states.since_ms(&name.service, &name.server);
                let since = since_ms.unwrap_or(0) / 1000;
                server.counts.set(ServerGauge::Changed, since);
            }
        }
        Snapshot { services, ..counted }
    }

    fn process_counts(&self, facts: &Facts) -> Counts<Process> {
        use ProcessMetric as Metric;
        let mut counts = facts.cluster.counts();
        let reload = &facts.reload;
        let is_refused = |last: &EndedReload| last.refused.is_some();
        let last_ok = reload.last_ok.unwrap_or(self.start.supervisor_start);
        let Limits { connections, handshakes, session_entries, session_bytes } =
            facts.served.limits;
        for (metric, value) in [
            (Metric::StartTime, milliseconds(self.start_time) / 1000),
            (Metric::SupervisorStartTime, milliseconds(self.start.supervisor_start) / 1000),
            (Metric::Restarts, self.start.restarts),
            (Metric::Generation, facts.served.generation),
            (Metric::LastReloadOk, u64::from(!reload.last.as_ref().is_some_and(is_refused))),
            (Metric::LastReloadOkTime, milliseconds(last_ok) / 1000),
            (Metric::ReloadsOk, reload.ok),
            (Metric::ReloadsRefused, reload.refused),
            (Metric::ConnectionsLimit, connections),
            (Metric::HandshakesLimit, handshakes),
            (Metric::Sources, facts.sources.entries() as u64),
            (Metric::SessionsLimit, session_entries),
            (Metric::SessionBytesLimit, session_bytes),
            (Metric::LogBytesUnwritten, facts.log_lost_bytes),
            (Metric::LogFails, u64::from(facts.log_failure.is_some())),
        ] {
            counts.set(metric, value);
        }
        self.count_usage(&mut counts);
        let Some(resumption) = facts.served.resumption.as_deref() else {
            return counts;
        };
        let cache = resumption.session_counters();
        for (metric, value) in [
            (Metric::SessionsStored, cache.entries),
            (Metric::SessionBytes, cache.bytes),
            (Metric::SessionHits, cache.hits),
            (Metric::SessionsExpired, cache.misses_expired),
            (Metric::SessionsDamaged, cache.misses_damaged),
            (Metric::SessionsUnknown, cache.misses_unknown),
            (Metric::SessionEvictions, cache.evictions),
            (Metric::SessionsRecovered, cache.recovered),
            (Metric::SessionRefusals, cache.refusals),
        ] {
            counts.set(metric, value);
        }
        counts
    }

    fn count_usage(&self, counts: &mut Counts<Process>) {
        use ProcessMetric as Metric;
        let cpu_time = self.usage.cpu_time().unwrap_or_default();
        let cpu_us = u64::try_from(cpu_time.as_micros()).unwrap_or(u64::MAX);
        let memory = self.usage.memory();
        let memory = |of: fn(Memory) -> u64| memory.map_or(0, of);
        for (metric, value) in [
            (Metric::CpuMicroseconds, cpu_us),
            (Metric::ResidentMemory, memory(|one| one.resident_bytes)),
            (Metric::VirtualMemory, memory(|one| one.virtual_bytes)),
            (Metric::OpenDescriptors, self.usage.open_descriptors().unwrap_or(0)),
            (Metric::MostDescriptors, sys::limit::open_files()),
        ] {
            counts.set(metric, value);
        }
    }

    fn labelled(&self, facts: &Facts) -> Vec<LabelledValue> {
        let mut all = Vec::new();
        let mut add = |family: Labelled, labels: &[&str], value| {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            all.push(LabelledValue { family, labels, value });
        };
        add(Labelled::BuildInfo, &[self.start.program], 1);
        let keys = facts.served.resumption.as_deref().map(Resumption::ticket_keys);
        for key in keys.into_iter().flatten() {
            let is_encrypting = key.purpose == KeyPurpose::Encrypt;
            let purpose = if is_encrypting { "encrypt" } else { "decrypt" };
            add(Labelled::TicketKeyAge, &[&key.name, purpose], key.age_seconds);
        }
        for service in &facts.served.services {
            let Expiries { certificates, staples, authorities, lists, skipped: _ } =
                &service.expiries;
            for (family, ends) in [
                (Labelled::CertificateExpiry, certificates),
                (Labelled::OcspResponseExpiry, staples),
                (Labelled::AuthorityExpiry, authorities),
                (Labelled::CrlExpiry, lists),
            ] {
                for one in &ends.listed {
                    let labels = [&*service.name, &one.file, &one.name, &one.key];
                    let count = family.family().labels.len();
                    add(family, &labels[..count], since_epoch(one.time));
                }
            }
        }
        all
    }

    fn process(&self, facts: &Facts) -> ProcessStatus {
        ProcessStatus {
            program: self.start.program.to_owned(),
            state: if facts.is_draining { RunState::Draining } else { RunState::Serving },
            pid: std::process::id(),
            supervisor_pid: self.start.supervisor_pid,
            start_ms: milliseconds(self.start_time),
            supervisor_start_ms: milliseconds(self.start.supervisor_start),
            rights: self.start.rights.clone(),
            dying: self.dying().map(str::to_owned),
            start_warnings: Some(facts.reload.start_warnings.clone())
                .filter(|text| !text.is_empty()),
            metrics: self.process_counts(facts),
        }
    }

    /// A panic elsewhere leaves facts as true as they were.
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends an interval each second, until its task is dropped.
pub(crate) async fn record_history(state: Arc<AdminState>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut begun = Instant::now();
    loop {
        ticks.tick().await;
        let now = Instant::now();
        state.end_interval(now - begun);
        begun = now;
    }
}

fn service(counted: ServiceSnapshot, facts: &Facts, workers: u64) -> ServiceStatus {
    let ServiceSnapshot { name, counts, servers } = counted;
    let plan = facts.served.services.iter().find(|plan| plan.name == name);
    let plan = plan.cloned().unwrap_or_default();
    let servers = servers.into_iter().map(|one| {
        let watched = facts.watch.of(&name, &one.name).map(str::to_owned);
        let checked = facts.notes.get(&(name.clone(), one.name.clone()));
        let checked = checked.map(|(_, why)| why.clone());
        let since_ms = facts.states.since_ms(&name, &one.name);
        server(one, checked.or(watched), workers, since_ms)
    });
    let first = |ends: &Ends| ends.first().map(since_epoch);
    let skipped = plan.expiries.skipped.iter().take(CERTIFICATES_MAX);
    ServiceStatus {
        servers: servers.collect(),
        listeners: plan.listeners,
        serves_files: plan.serves_files,
        ktls: plan.ktls.map(ktls),
        server_tls: plan.server_tls.to_owned(),
        expiry: ExpiryStatus {
            certificates_seconds: first(&plan.expiries.certificates),
            ocsp_responses_seconds: first(&plan.expiries.staples),
            authorities_seconds: first(&plan.expiries.authorities),
            crls_seconds: first(&plan.expiries.lists),
        },
        certificates: certificates(&plan.expiries.certificates),
        certificates_skipped: skipped.cloned().collect(),
        metrics: counts,
        name,
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use telemetry::catalogue::Breakdown;
    use telemetry::outcome::Reason;
    use tls::validity::Expiry;

    use super::super::document::ServerState;
    use super::*;

    fn state(registry: &Arc<Registry>) -> AdminState {
        let start = StartFacts {
            program: "1.2.3",
            supervisor_pid: 7,
            supervisor_start: UNIX_EPOCH + Duration::from_secs(5),
            restarts: 2,
            dying: None,
            worker_cpus: vec![Some(3)],
            rights: RightsStatus::default(),
        };
        AdminState::new(Arc::clone(registry), start)
    }

    /// Of `web`, whose only address is down for this reason, or up.
    fn report(why: Option<String>) -> HealthReport {
        let address = || "192.0.2.1:1".parse().unwrap();
        HealthReport {
            service: "web".to_owned(),
            server: 0,
            down: why.iter().map(|_| address()).collect(),
            up: why.is_none(),
            why: why.unwrap_or_default(),
        }
    }

    fn facts(name: &str) -> ServiceFacts {
        ServiceFacts {
            name: name.into(),
            listeners: vec!["[::]:443".into()],
            expiries: Expiries {
                certificates: Ends {
                    loaded: 2,
                    expired: 1,
                    listed: vec![Expiry {
                        file: "site.pem".into(),
                        name: "example.com".into(),
                        key: "RSA 2048".into(),
                        time: 99,
                    }],
                },
                ..Expiries::default()
            },
            ktls: None,
            server_tls: "",
            serves_files: true,
            queue_limit: 0,
            server_limits: BTreeMap::new(),
        }
    }

    fn served(generation: u64, names: &[&str]) -> Served {
        Served {
            generation,
            services: names.iter().map(|name| facts(name)).collect(),
            ..Served::default()
        }
    }

    #[test]
    fn the_document_reads_back_as_it_was_written() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        let web = registry.service(0, "web", &["a:1".to_owned()]);
        web.ended(Reason::NotTls);
        web.server(0).set_up(false);
        state.plan_served(served(4, &["web"]));
        state.server_noted("a:1", &report(Some("status 503".into())));
        state.reloaded(Reloads {
            ok: 3,
            refused: 1,
            last_ok: None,
            last_upgrade: None,
            last: Some(EndedReload {
                time: UNIX_EPOCH,
                refused: Some("no such file".into()),
                warnings: "warning: a\nhint: b".into(),
            }),
            start_warnings: String::new(),
        });

        let document = state.document();
        let read = StatusDocument::from_json(&document.to_json()).expect("our own");
        assert_eq!(read, document);
        let service = &document.services[0];
        let ended = service.metrics.by(Breakdown::Ended);
        let ended: Vec<_> = ended.filter(|(_, count)| *count > 0).collect();
        assert_eq!(ended, [(&["not-tls", "client"][..], 1)]);
        assert_eq!(service.servers[0].state, ServerState::Down);
        assert_eq!(service.servers[0].note.as_deref(), Some("status 503"));
        assert_eq!(service.certificates[0].name, "example.com");
        assert_eq!(document.workers[0].cpu, Some(3));
        assert_eq!(document.process.metrics.get(ProcessMetric::Generation), 4);
        let last = document.last_reload.expect("one was reported");
        assert_eq!(last.refused.as_deref(), Some("no such file"));
        assert_eq!(last.warnings.as_deref(), Some("warning: a\nhint: b"));
    }

    #[test]
    fn services_stand_in_the_plans_order_and_those_gone_from_it_last() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        let _held = ["old", "b", "a"].map(|name| registry.service(0, name, &[]));
        state.plan_served(served(2, &["a", "b"]));
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
        state.plan_served(served(1, &["web"]));
        let server = &state.document().services[0].servers[0];
        let up = server.metrics.get(ServerGauge::WorkersUp);
        assert_eq!((server.state, up), (ServerState::Partly, 1));
    }

    #[test]
    fn a_server_that_is_down_without_a_check_has_its_reason() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        let web = registry.service(0, "web", &["app:1".to_owned()]);
        web.server(0).set_up(false);
        state.plan_served(served(1, &["web"]));
        let note = || state.document().services[0].servers[0].note.clone();
        assert!(note().is_some_and(|note| note.starts_with("no address")));
        web.server(0).count(ServerCounter::Dials);
        assert!(note().is_some_and(|note| note.starts_with("its last dials failed")));
        web.server(0).set_up(true);
        assert_eq!(note(), None);
    }

    #[test]
    fn a_change_is_counted_once_however_often_it_is_reported() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        let _web = registry.service(0, "web", &["a:1".to_owned()]);
        state.server_noted("a:1", &report(None));
        for note in ["refused", "reset"] {
            state.server_noted("a:1", &report(Some(note.into())));
            state.plan_served(served(2, &["web"]));
        }
        state.server_noted("a:1", &report(None));
        state.server_noted("a:1", &report(Some("refused".into())));
        let snapshot = registry.snapshot();
        let server = &snapshot.services[0].servers[0];
        let changes =
            [ServerCounter::WentDown, ServerCounter::WentUp].map(|c| server.counts.get(c));
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
    fn the_metrics_show_the_facts() {
        let registry = Arc::new(Registry::new(1));
        let state = state(&registry);
        let mut served = served(4, &["web"]);
        served.limits.connections = 7;
        state.plan_served(served);
        let metrics = state.prometheus();
        for line in [
            "lariat_build_info{version=\"1.2.3\"} 1",
            "lariat_config_generation 4",
            "lariat_supervisor_start_time_seconds 5",
            "lariat_config_last_reload_successful 1",
            "lariat_config_last_reload_success_timestamp_seconds 5",
            "lariat_connections_limit 7",
            "lariat_worker_process_restarts_total 2",
            "lariat_certificates{service=\"web\"} 2",
            "lariat_certificates_expired{service=\"web\"} 1",
            "lariat_certificate_expiry_timestamp_seconds{service=\"web\",file=\"site.pem\",name=\"example.com\",key=\"RSA 2048\"} 99",
        ] {
            assert!(metrics.lines().any(|l| l == line), "no {line}");
        }
    }
}
