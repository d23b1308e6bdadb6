//! The status document and the metrics, made of what the admin side knows.

use std::collections::{BTreeSet, HashMap};
use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use config::KeyLogOptions;
use proxy::options::{KtlsMode, KtlsOptions};
use sys::usage::Memory;
use telemetry::catalogue::{
    BUCKETS_US, Breakdown, Labelled, Process, ProcessMetric, ServerGauge, ServiceGauge,
};
use telemetry::counters::{Counts, ServiceSnapshot, Snapshot};
use telemetry::exposition::{LabelledValue, ZEROS_SHOWN_MAX, write_prometheus};
use tls::ech::{EchKeyState, EchKeys};
use tls::key_log;
use tls::resumption::{KeyPurpose, Resumption};
use tls::server::Expiries;
use tls::validity::ExpirySummary;

use super::super::document::{
    CERTIFICATES_MAX, CertificateStatus, EchKeyStatus, EchStatus, ExpiryStatus, KeyLogStatus,
    KeyProcessStatus, KtlsStatus, LastUpgrade, ProcessStatus, RunState, ServiceStatus, ShownCounts,
    StatusDocument, VERSION, WorkerStatus,
};
use super::super::servers::server;
use super::{AdminFacts, AdminState, ServedLimits, ServiceFacts};
use crate::handover::EndedUpgrade;
use crate::held_keys::KeyCounts;
use crate::named_servers::ServerName;
use crate::status_parts::{LastReload, milliseconds};

impl AdminState {
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
        let plans = plans(&facts, |_| true);
        let leaves_zeros_out = services.len() > ZEROS_SHOWN_MAX;
        let ech = facts.served.ech.as_ref().map(|keys| ech_status(keys, &services));
        let services = services.into_iter().map(|one| {
            let plan = plans.get(one.name.as_str()).copied();
            service(one, plan, &facts, (workers_count, leaves_zeros_out))
        });
        StatusDocument {
            version: VERSION,
            time_ms: milliseconds(SystemTime::now()),
            process: self.process(&facts),
            last_reload: facts.reload.last.clone(),
            upgrade: facts.reload.upgrade.clone(),
            last_upgrade: facts.reload.last_upgrade.as_ref().map(last_upgrade),
            log_failure: facts.log_failure.clone(),
            log_unopened: facts.log_unopened.clone(),
            key_log: facts.served.key_log.as_ref().map(key_log_status),
            ech,
            key_process: facts.served.key_counts.as_deref().map(|counts| KeyProcessStatus {
                processes: facts.keys.clone(),
                ..key_process_status(counts)
            }),
            workers: workers.map(|(metrics, cpu)| WorkerStatus { cpu, metrics }).collect(),
            services: services.collect(),
            services_left_out: 0,
            kernel_tls: facts.served.kernel_tls.clone(),
            cluster: facts.cluster.status(),
            acme: facts.acme.clone(),
            bounds_us: BUCKETS_US.to_vec(),
        }
    }

    /// These services as the document has them, in any order.
    pub(super) fn services(
        &self,
        facts: &AdminFacts,
        names: &BTreeSet<String>,
    ) -> Vec<ServiceStatus> {
        let plans = plans(facts, |name| names.contains(name));
        let workers = self.registry.workers() as u64;
        let counted = self.registry.services(|name| names.contains(name));
        let services = counted.into_iter().map(|mut one| {
            let plan = plans.get(one.name.as_str()).copied();
            complete(&mut one, plan, facts);
            service(one, plan, facts, (workers, true))
        });
        services.collect()
    }

    /// A copy of the counters. Services of the plan come first, in its order; then those that are
    /// gone from it and still have connections.
    fn snapshot(&self, facts: &AdminFacts) -> Snapshot {
        let mut counted = self.registry.snapshot();
        let mut services = Vec::new();
        let names = counted.services.iter().map(|one| one.name.clone());
        let places: HashMap<_, _> = names.zip(0..).collect();
        for plan in &facts.served.services {
            let at = places.get(&*plan.name);
            let mut service =
                at.map_or_else(ServiceSnapshot::default, |at| take(&mut counted.services[*at]));
            service.name.clone_from(&plan.name);
            complete(&mut service, Some(plan), facts);
            services.push(service);
        }
        counted.services.retain(|one| !one.name.is_empty());
        counted.services.iter_mut().for_each(|gone| complete(gone, None, facts));
        services.append(&mut counted.services);
        Snapshot { services, ..counted }
    }

    fn process_counts(&self, facts: &AdminFacts) -> Counts<Process> {
        use ProcessMetric as Metric;
        let mut counts = facts.cluster.counts();
        let reload = &facts.reload;
        let is_refused = |last: &LastReload| last.refused.is_some();
        let log_fails = facts.log_failure.is_some() || facts.log_unopened.is_some();
        let last_ok = reload.last_ok.unwrap_or(self.start.supervisor_start);
        let ServedLimits { connections, handshakes, session_entries, session_bytes } =
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
            (Metric::LogFails, u64::from(log_fails)),
        ] {
            counts.set(metric, value);
        }
        self.count_usage(&mut counts);
        if let Some(keys) = facts.served.key_counts.as_deref().map(key_process_status) {
            counts.set(Metric::KeySigned, keys.signed);
            counts.set(Metric::KeyLate, keys.late);
            counts.set(Metric::KeyFailed, keys.failed);
            counts.set(Metric::KeyWaiting, keys.waiting_us);
        }
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
            (Metric::MostDescriptors, sys::usage::open_files()),
        ] {
            counts.set(metric, value);
        }
    }

    fn labelled(&self, facts: &AdminFacts) -> Vec<LabelledValue> {
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
        let now = milliseconds(SystemTime::now()) / 1000;
        for key in facts.served.ech.iter().flat_map(EchKeys::states) {
            let (config, Some((from, until))) = (key.config_id.to_string(), key.published) else {
                continue;
            };
            if from <= now {
                add(Labelled::EchKeyAge, &[&config], now - from);
            }
            if (from..until).contains(&now) {
                add(Labelled::EchPublishEnd, &[&config], until);
            }
        }
        for one in &facts.acme {
            let labels = [one.name.as_str()];
            for (family, value) in [
                (Labelled::AcmeIssued, one.not_before_seconds),
                (Labelled::AcmeExpiry, one.not_after_seconds),
                (Labelled::AcmeNext, one.next_seconds),
                (Labelled::AcmeFailures, Some(one.failures)),
                (Labelled::AcmeOverdue, Some(one.is_overdue.into())),
            ] {
                add(family, &labels, value.unwrap_or(0));
            }
            let reason = one.last_failure.iter();
            reason.for_each(|why| add(Labelled::AcmeLastFailure, &[&one.name, why], 1));
        }
        for one in facts.keys.iter().filter(|_| facts.served.key_counts.is_some()) {
            add(Labelled::KeyProcessUp, &[&one.keys], u64::from(one.away.is_none()));
            add(Labelled::KeyProcessRestarts, &[&one.keys], one.restarts);
            add(Labelled::KeysUnopened, &[&one.keys], one.unopened);
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

    fn process(&self, facts: &AdminFacts) -> ProcessStatus {
        ProcessStatus {
            program: self.start.program.to_owned(),
            fips: tls::policy::is_fips(),
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
}

/// The services of the plan that are chosen, by name.
fn plans(facts: &AdminFacts, is_chosen: impl Fn(&str) -> bool) -> HashMap<&str, &ServiceFacts> {
    let plans = facts.served.services.iter().filter(|plan| is_chosen(&plan.name));
    plans.map(|plan| (plan.name.as_str(), plan)).collect()
}

/// Sets what workers do not count.
fn complete(service: &mut ServiceSnapshot, plan: Option<&ServiceFacts>, facts: &AdminFacts) {
    if let Some(plan) = plan {
        count_expiries(service, &plan.expiries);
        service.counts.set(ServiceGauge::QueueLimit, plan.queue_limit);
    }
    for server in &mut service.servers {
        if let Some(plan) = plan {
            let limit = plan.server_limits.get(&server.name).copied();
            server.counts.set(ServerGauge::ConnectionsLimit, limit.unwrap_or(0));
        }
        let name = ServerName { service: service.name.clone(), server: server.name.clone() };
        let is_taken_out = facts.disabled.contains(&name) || facts.weights.get(&name) == Some(&0);
        server.counts.set(ServerGauge::Disabled, u64::from(is_taken_out));
        let since_ms = facts.states.since_ms(&name.service, &name.server);
        server.counts.set(ServerGauge::Changed, since_ms.unwrap_or(0) / 1000);
    }
}

fn service(
    counted: ServiceSnapshot,
    plan: Option<&ServiceFacts>,
    facts: &AdminFacts,
    (workers, leaves_zeros_out): (u64, bool),
) -> ServiceStatus {
    let no_plan = ServiceFacts::default();
    let plan = plan.unwrap_or(&no_plan);
    let ServiceSnapshot { name, counts, servers } = counted;
    let servers = servers.into_iter().map(|one| {
        let watched = facts.watch.of(&name, &one.name).map(str::to_owned);
        let checked = facts.notes.get(&(name.clone(), one.name.clone()));
        let checked = checked.map(|(_, why)| why.clone());
        let since_ms = facts.states.since_ms(&name, &one.name);
        let its_name = ServerName { service: name.clone(), server: one.name.clone() };
        let weight = facts.weights.get(&its_name).copied();
        let ordered = (facts.disabled.contains(&its_name), weight);
        let mut status = server(one, checked.or(watched), workers, ordered, since_ms);
        status.metrics.leaves_zeros_out = leaves_zeros_out;
        status
    });
    let first = |ends: &ExpirySummary| ends.first().map(since_epoch);
    let skipped = plan.expiries.skipped.iter().take(CERTIFICATES_MAX);
    ServiceStatus {
        servers: servers.collect(),
        listeners: plan.listeners.clone(),
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
        metrics: ShownCounts { counts, leaves_zeros_out },
        name,
    }
}

fn last_upgrade(ended: &EndedUpgrade) -> LastUpgrade {
    LastUpgrade {
        number: ended.number,
        time_ms: milliseconds(ended.time),
        program: ended.program.clone(),
        refused: ended.refused.clone(),
    }
}

fn key_process_status(counts: &KeyCounts) -> KeyProcessStatus {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    KeyProcessStatus {
        processes: Vec::new(),
        signed: read(&counts.signed),
        late: read(&counts.late),
        failed: read(&counts.failed),
        waiting_us: read(&counts.waiting_us),
    }
}

fn key_log_status(options: &KeyLogOptions) -> KeyLogStatus {
    let counts = key_log::counts();
    KeyLogStatus {
        path: options.path.display().to_string(),
        services: options.services.clone(),
        lines: counts.logged,
        dropped: counts.dropped,
    }
}

fn ech_status(keys: &EchKeys, services: &[ServiceSnapshot]) -> EchStatus {
    let hellos = |result: &str| {
        let counts = services.iter().flat_map(|service| service.counts.by(Breakdown::Ech));
        counts.filter(|(values, _)| *values == [result]).map(|(_, count)| count).sum()
    };
    let status = |key: EchKeyState| {
        let result = key.result.name();
        EchKeyStatus {
            config: key.config_id,
            published_from_ms: key.published.map(|(from, _)| from * 1000),
            published_until_ms: key.published.map(|(_, until)| until.saturating_mul(1000)),
            result: result.to_owned(),
            hellos: hellos(result),
        }
    };
    EchStatus {
        public_name: keys.public_name().to_owned(),
        keys: keys.states().into_iter().map(status).collect(),
    }
}

fn certificates(ends: &ExpirySummary) -> Vec<CertificateStatus> {
    let first = ends.listed.iter().take(CERTIFICATES_MAX);
    let each = first.map(|one| CertificateStatus {
        file: one.file.to_string(),
        name: one.name.to_string(),
        key: one.key.to_string(),
        expiry_seconds: since_epoch(one.time),
    });
    each.collect()
}

fn ktls(options: KtlsOptions) -> KtlsStatus {
    let mode = match options.mode {
        KtlsMode::Off => "off",
        KtlsMode::Auto => "auto",
        KtlsMode::Require => "require",
    };
    KtlsStatus { mode: mode.to_owned(), min_bytes: options.from }
}

/// An end before the epoch is over as well.
fn since_epoch(unix_seconds: i64) -> u64 {
    u64::try_from(unix_seconds).unwrap_or(0)
}

/// How many of each a service has, how many are over, and how many are skipped.
fn count_expiries(service: &mut ServiceSnapshot, expiries: &Expiries) {
    let counts = &mut service.counts;
    use ServiceGauge as Gauge;
    for (loaded, expired, ends) in [
        (Gauge::Certificates, Gauge::CertificatesExpired, &expiries.certificates),
        (Gauge::OcspResponses, Gauge::OcspResponsesExpired, &expiries.staples),
        (Gauge::Authorities, Gauge::AuthoritiesExpired, &expiries.authorities),
        (Gauge::Crls, Gauge::CrlsExpired, &expiries.lists),
    ] {
        counts.set(loaded, ends.loaded);
        counts.set(expired, ends.expired);
    }
    counts.set(Gauge::CertificatesSkipped, expiries.skipped.len() as u64);
}
