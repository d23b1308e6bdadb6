//! The admin side's knowledge: the counters, what was true at start, and what reloads change.
//!
//! The status document and the metrics are made of it in `views`.

mod views;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use config::KeyLogOptions;
use hyper::Request;
use proxy::data_plane::DataPlane;
use proxy::options::KtlsOptions;
use proxy::sources::SourceTable;
use sys::usage;
use sys::usage::Usage;
use telemetry::Registry;
use telemetry::catalogue::{BUCKETS_US, ServerCounter, ServiceGauge};
use telemetry::history::{History, INTERVAL};
use telemetry::outcome::Reason;
use tls::ech::EchKeys;
use tls::resumption::Resumption;
use tls::server::Expiries;
use tokio::time::MissedTickBehavior;

use crate::handover::{Reloads, STEADY_AFTER};
use crate::held_keys::KeyCounts;
use crate::key_holder_status::KeyHolderStatus;
use crate::named_servers::{Observations, ServerName};
use crate::status_parts::{AcmeStatus, KernelTlsStatus, milliseconds};

use super::access::{Access, AccessDenial};
use super::cluster::ClusterFacts;
use super::document::RightsStatus;
use super::history::{self, Question};
use super::readiness::{KeysReadiness, Workers};
use super::server_watch::{LogMessage, ServerWatch};
use super::servers::{HealthReport, ServerStates, observed};

/// The admin side's knowledge. Shared by the control thread's tasks.
pub(crate) struct AdminState {
    registry: Arc<Registry>,
    start: StartFacts,
    start_time: SystemTime,
    usage: Usage,
    /// Whether the workers go on.
    pub(crate) workers: Workers,
    facts: Mutex<AdminFacts>,
    history: Mutex<History>,
    descriptors: Mutex<DescriptorWatch>,
}

/// The limits of what is open, in progress or stored at the same time; the served plan's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServedLimits {
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
pub(crate) struct ServedPlan {
    pub(crate) generation: u64,
    pub(crate) services: Vec<ServiceFacts>,
    pub(crate) limits: ServedLimits,
    /// The kernel's part of TLS; `None` = no service wants it.
    pub(crate) kernel_tls: Option<KernelTlsStatus>,
    /// The clients that are answered over HTTP; `None` = no client.
    pub(crate) access: Option<Access>,
    pub(crate) key_log: Option<KeyLogOptions>,
    /// The signatures of the key process; `None` = the plan has no keys there.
    pub(crate) key_counts: Option<Arc<KeyCounts>>,
    /// Whether the key of a front's certificate is in the worker process.
    pub(crate) holds_keys: bool,
    pub(crate) resumption: Option<Arc<Resumption>>,
    /// The keys that open encrypted hellos; `None` = none are opened.
    pub(crate) ech: Option<EchKeys>,
}

#[derive(Default)]
pub(crate) struct AdminFacts {
    served: ServedPlan,
    /// The reloads, as the supervisor last said.
    pub(crate) reload: Reloads,
    sources: Arc<SourceTable>,
    /// Whether no connection is accepted any more.
    pub(crate) is_draining: bool,
    /// Bytes of lines about connections that could not be written.
    log_lost_bytes: u64,
    /// The reason why the last ones could not; `None` = they could.
    pub(crate) log_failure: Option<String>,
    /// The reason why the log's file could not be opened anew.
    pub(crate) log_unopened: Option<String>,
    pub(crate) cluster: ClusterFacts,
    /// The reasons why checks took servers out, by service and server.
    notes: BTreeMap<(String, String), (bool, String)>,
    /// Servers that an operator has disabled.
    disabled: BTreeSet<ServerName>,
    /// Weights that an operator has ordered.
    pub(crate) weights: BTreeMap<ServerName, u16>,
    /// The certificates that come by ACME.
    pub(crate) acme: Vec<AcmeStatus>,
    /// The processes that hold keys.
    pub(crate) keys: Vec<KeyHolderStatus>,
    states: ServerStates,
    watch: ServerWatch,
    /// The services that have changed since the watch looked at them.
    unwatched: BTreeSet<String>,
}

/// A handshake waits for a signature for as long (1 s), so that a process which is replaced within
/// this time is not missed.
const AWAY_MS_MAX: u64 = 1000;

impl AdminState {
    /// Knows of no plan yet; the worker process starts now.
    pub(crate) fn new(registry: Arc<Registry>, start: StartFacts, usage: Usage) -> Self {
        Self {
            registry,
            start,
            start_time: SystemTime::now(),
            usage,
            workers: Workers::default(),
            facts: Mutex::default(),
            history: Mutex::default(),
            descriptors: Mutex::default(),
        }
    }

    pub(crate) fn workers_begun(&self, data_plane: &DataPlane) {
        self.workers.begun(data_plane.heartbeat());
        self.facts().sources = data_plane.sources();
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
        self.registry.sum(ServiceGauge::ConnectionsOpen)
    }

    /// A plan is served from now on.
    pub(crate) fn plan_served(&self, served: ServedPlan) {
        let mut facts = self.facts();
        let names: BTreeSet<_> = served.services.iter().map(|one| &*one.name).collect();
        facts.notes.retain(|(service, _), _| names.contains(service.as_str()));
        facts.served = served;
    }

    /// When the certificates of each service end, as of now.
    pub(crate) fn expiries_changed<'a>(&self, expiries: impl Iterator<Item = (&'a str, Expiries)>) {
        let mut expiries: HashMap<_, _> = expiries.collect();
        for service in &mut self.facts().served.services {
            if let Some(now) = expiries.remove(&*service.name) {
                service.expiries = now;
            }
        }
    }

    /// Whether a request over HTTP is answered.
    pub(super) fn check_access<T>(&self, request: &Request<T>) -> Result<(), AccessDenial> {
        let facts = self.facts();
        let access = facts.served.access.as_ref();
        access.ok_or(AccessDenial::Host)?.check(request)
    }

    /// Whether signatures may come for no certificate.
    pub(super) fn keys_readiness(&self) -> KeysReadiness {
        let facts = self.facts();
        if facts.served.key_counts.is_none() {
            return KeysReadiness::There;
        }
        let now = milliseconds(SystemTime::now());
        let is_away = |one: &KeyHolderStatus| {
            one.unopened == one.count
                || one.away_since_ms.is_some_and(|since| now.saturating_sub(since) > AWAY_MS_MAX)
        };
        let away = facts.keys.iter().filter(|one| is_away(one)).count();
        match away {
            0 if facts.keys.iter().all(|one| one.unopened == 0) => KeysReadiness::There,
            _ if away == facts.keys.len() && !facts.served.holds_keys => KeysReadiness::Away,
            _ => KeysReadiness::SomeAway,
        }
    }

    /// Notes the servers that an operator has disabled.
    pub(crate) fn servers_disabled(&self, names: BTreeSet<ServerName>) {
        self.facts().disabled = names;
        self.registry.look_anew();
    }

    /// Counts bytes of lines about connections that could not be written.
    pub(crate) fn log_lost(&self, bytes: u64, why: String) {
        let mut facts = self.facts();
        facts.log_lost_bytes += bytes;
        facts.log_failure = Some(why);
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
        let changes = self.registry.changes();
        let (now, workers) = (milliseconds(SystemTime::now()), self.registry.workers());
        let mut facts = self.facts();
        facts.states.forget(&changes.gone);
        facts.watch.forget(&changes.gone);
        facts.states.look(&changes.services, workers as u64, now);
        facts.unwatched.extend(changes.services.iter().map(|one| one.name.clone()));
        drop(facts);
        self.history().add(now, duration, &changes);
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
        self.registry.look_anew();
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
    pub(crate) fn look_at_servers(&self, now: Instant) -> Vec<LogMessage> {
        let workers = self.start.worker_cpus.len() as u64;
        let facts = &mut *self.facts();
        let mut names = std::mem::take(&mut facts.unwatched);
        names.extend(facts.watch.pending().map(str::to_owned));
        if names.is_empty() {
            return Vec::new();
        }
        let services = self.services(facts, &names);
        for service in &services {
            names.remove(&service.name);
        }
        facts.watch.forget(&names);
        facts.watch.look(&services, workers, now)
    }

    /// A message about descriptors that were lacking since the last look.
    pub(crate) fn lacks_descriptors(&self, now: Instant) -> Option<String> {
        let refused = self.registry.ended(Reason::DescriptorLimit);
        let mut watch = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        watch.look(refused, now)
    }

    /// A panic elsewhere leaves facts as true as they were.
    pub(crate) fn facts(&self) -> MutexGuard<'_, AdminFacts> {
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

/// From one message to the next: the limit is raised by a restart, and each of a thousand clients a
/// second would be a line.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Counts connections that ended for it, and when that was said.
#[derive(Debug, Default)]
pub(super) struct DescriptorWatch {
    counted: u64,
    said: Option<Instant>,
}

impl DescriptorWatch {
    /// A message, if more connections than at the last one have ended for it and the last one was
    /// long ago. `ended` is the number of all that did.
    pub(super) fn look(&mut self, ended: u64, now: Instant) -> Option<String> {
        let more = ended.saturating_sub(self.counted);
        let since = |said| now.saturating_duration_since(said);
        if more == 0 || self.said.is_some_and(|said| since(said) < MESSAGE_INTERVAL) {
            return None;
        }
        *self = Self { counted: ended, said: Some(now) };
        Some(format!(
            "no file descriptor is left: {more} connections were refused or lost for it \
             (descriptor-limit), and the process may have {}\nhint: raise that (`LimitNOFILE=` of \
             systemd, `ulimit -Hn`; fs.file-max of the host), or lower `limits.connections`",
            usage::open_files()
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use telemetry::catalogue::{Breakdown, ProcessMetric, ServerGauge};
    use telemetry::outcome::Reason;
    use tls::validity::{Expiry, ExpirySummary};

    use super::super::document::{ServerState, StatusDocument};
    use super::*;
    use crate::status_parts::LastReload;

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
        AdminState::new(Arc::clone(registry), start, Usage::default())
    }

    /// A report about `web`, whose only address is down for this reason, or up.
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
                certificates: ExpirySummary {
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

    fn served(generation: u64, names: &[&str]) -> ServedPlan {
        ServedPlan {
            generation,
            services: names.iter().map(|name| facts(name)).collect(),
            ..ServedPlan::default()
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
        state.facts().reload = Reloads {
            ok: 3,
            refused: 1,
            last_ok: None,
            last_upgrade: None,
            upgrade: None,
            last: Some(LastReload {
                time_ms: 0,
                refused: Some("no such file".into()),
                warnings: Some("warning: a\nhint: b".into()),
            }),
            start_warnings: String::new(),
        };

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
        assert!(matches!(error, super::super::StatusError::Version(1)));
        let error = StatusDocument::from_json(b"{}").unwrap_err();
        assert!(matches!(error, super::super::StatusError::NoVersion));
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

    #[test]
    fn many_refusals_are_one_message_until_a_while_later() {
        let (mut watch, now) = (DescriptorWatch::default(), Instant::now());
        assert_eq!(watch.look(0, now), None);
        let first = watch.look(3, now).unwrap();
        assert!(first.contains(": 3 connections") && first.contains("\nhint: raise"), "{first}");
        assert_eq!(watch.look(9, now + MESSAGE_INTERVAL / 2), None);
        let later = watch.look(9, now + MESSAGE_INTERVAL).unwrap();
        assert!(later.contains(": 6 connections"), "{later}");
        assert_eq!(watch.look(9, now + MESSAGE_INTERVAL * 3), None);
    }
}
