//! The Prometheus exposition, text format 0.0.4.
//!
//! Owns the form; what stands in it is the catalogue's and the snapshot's.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::fmt::Write;

use crate::catalogue::{
    Histogram, Metric, ProcessMetric, ServerCounter, ServerGauge, ServerState, ServiceBreakdown,
    ServiceCounter, ServiceGauge, Unit, WorkerCounter, WorkerGauge,
};
use crate::outcome::{EarlyData, HandshakeKind, OffloadRefusal, Reason, ResumptionMiss, Version};
use crate::snapshot::{BUCKETS_US, HistogramSnapshot, ServerSnapshot, ServiceSnapshot, Snapshot};

/// The value of the `Content-Type` field.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is known of the whole process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// This program's version.
    pub version: String,
    /// When the worker process started, in seconds since the epoch.
    pub start_seconds: u64,
    /// When the supervisor started, in seconds since the epoch.
    pub supervisor_start_seconds: u64,
    /// Worker processes started again after one died.
    pub restarts: u64,
    /// The number of the plan that is served.
    pub generation: u64,
    /// Reloads that gave a new plan.
    pub reloads_ok: u64,
    /// Reloads that kept the old one.
    pub reloads_refused: u64,
    /// Bytes of lines about connections that could not be written.
    pub log_lost_bytes: u64,
    /// Whether the last lines could not.
    pub log_fails: bool,
    /// By service.
    pub certificates: Vec<Certificates>,
    /// Those that open tickets.
    pub ticket_keys: Vec<TicketKey>,
    /// Sessions by session id.
    pub session_cache: SessionCache,
}

/// One ticket key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TicketKey {
    /// The first bytes of its name, in hexadecimal.
    pub name: String,
    /// Whether it seals new tickets.
    pub encrypts: bool,
    /// How long it has been in use, in seconds.
    pub age_seconds: u64,
}

/// What the session cache holds, and has done since the worker process started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SessionCache {
    /// Sessions held.
    pub entries: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Look-ups that found their session.
    pub hits: u64,
    /// Look-ups of a session that was too old.
    pub expired: u64,
    /// Look-ups of a session that could not be opened: its memory was changed.
    pub damaged: u64,
    /// Sessions that were taken over from the worker process before.
    pub recovered: u64,
    /// Look-ups of a session that is not here.
    pub unknown: u64,
    /// Sessions that left before their time.
    pub evictions: u64,
    /// Sessions that were too large.
    pub refusals: u64,
}

/// A service's certificates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Certificates {
    /// The service's name.
    pub service: String,
    /// The certificates themselves.
    pub certificates: Ends,
    /// The OCSP responses that are stapled.
    pub ocsp_responses: Ends,
    /// The revocation lists that clients are held against.
    pub crls: Ends,
}

/// When several things end that are valid for a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ends {
    /// How many are loaded.
    pub loaded: u64,
    /// How many have ended.
    pub expired: u64,
    /// The first of them to end, soonest first.
    pub listed: Vec<Expiry>,
}

/// When one of them ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expiry {
    /// The file it came from.
    pub file: String,
    /// The certificate's first name, or the revocation list's issuer.
    pub name: String,
    /// The kind of the certificate's key; of a revocation list none.
    pub key: &'static str,
    /// In seconds since the epoch.
    pub time_seconds: u64,
}

/// Appends all metrics.
pub fn write_prometheus(snapshot: &Snapshot, process: &Process, out: &mut String) {
    let mut page = Page { out };
    page.services(&snapshot.services);
    page.servers(&snapshot.services);
    page.workers(snapshot);
    page.process(process);
}

struct Page<'a> {
    out: &'a mut String,
}

/// Values of a metric's labels, in the catalogue's order.
type Labels<'a> = &'a [&'a str];

impl Page<'_> {
    fn services(&mut self, services: &[ServiceSnapshot]) {
        for rows in families(ServiceCounter::ALL, ServiceCounter::metric) {
            self.family(
                rows,
                ServiceCounter::metric,
                services,
                |page, row, service| {
                    page.sample(row.metric(), &[&service.name], service.counter(row));
                },
            );
        }
        for rows in families(ServiceBreakdown::ALL, ServiceBreakdown::metric) {
            self.family(rows, ServiceBreakdown::metric, services, Self::breakdown);
        }
        for rows in families(ServiceGauge::ALL, ServiceGauge::metric) {
            self.family(
                rows,
                ServiceGauge::metric,
                services,
                |page, row, service| {
                    page.sample(row.metric(), &[&service.name], service.gauge(row));
                },
            );
        }
        for rows in families(Histogram::ALL, Histogram::metric) {
            self.family(rows, Histogram::metric, services, |page, row, service| {
                page.histogram(row.metric(), &[&service.name], service.histogram(row));
            });
        }
    }

    fn breakdown(&mut self, row: ServiceBreakdown, service: &ServiceSnapshot) {
        let metric = row.metric();
        let name = service.name.as_str();
        match row {
            ServiceBreakdown::ConnectionsEnded => {
                for &reason in Reason::ALL {
                    let labels = [name, reason.name(), reason.fault()];
                    self.sample(metric, &labels, service.ended(reason));
                }
            }
            ServiceBreakdown::Handshakes => {
                for (kind, version) in made_handshakes() {
                    let labels = [name, kind.name(), version.name()];
                    self.sample(metric, &labels, service.handshakes(kind, version));
                }
            }
            ServiceBreakdown::EarlyData => {
                for &outcome in EarlyData::ALL {
                    let count = service.offered_early(outcome);
                    self.sample(metric, &[name, outcome.name()], count);
                }
            }
            ServiceBreakdown::OffloadRefusals => {
                for &refusal in OffloadRefusal::ALL {
                    let count = service.offload_refused(refusal);
                    self.sample(metric, &[name, refusal.name()], count);
                }
            }
            ServiceBreakdown::ResumptionMisses => {
                for &miss in ResumptionMiss::ALL {
                    self.sample(metric, &[name, miss.name()], service.missed(miss));
                }
            }
            ServiceBreakdown::Suites => {
                for (suite, count) in service.suites() {
                    self.sample(metric, &[name, suite], count);
                }
            }
            ServiceBreakdown::Groups => {
                for (group, count) in service.groups() {
                    self.sample(metric, &[name, group], count);
                }
            }
        }
    }

    fn servers(&mut self, services: &[ServiceSnapshot]) {
        let servers: Vec<_> = services
            .iter()
            .flat_map(|service| service.servers.iter().map(move |server| (service, server)))
            .collect();
        type Pair<'a> = (&'a ServiceSnapshot, &'a ServerSnapshot);
        for rows in families(ServerCounter::ALL, ServerCounter::metric) {
            let sample = |page: &mut Self, row: ServerCounter, pair: &Pair<'_>| {
                let labels = [pair.0.name.as_str(), &pair.1.name];
                page.sample(row.metric(), &labels, pair.1.counter(row));
            };
            self.family(rows, ServerCounter::metric, &servers, sample);
        }
        for rows in families(ServerGauge::ALL, ServerGauge::metric) {
            let sample = |page: &mut Self, row: ServerGauge, pair: &Pair<'_>| {
                let labels = [pair.0.name.as_str(), &pair.1.name];
                page.sample(row.metric(), &labels, pair.1.gauge(row));
            };
            self.family(rows, ServerGauge::metric, &servers, sample);
        }
        for rows in families(ServerState::ALL, ServerState::metric) {
            let sample = |page: &mut Self, row: ServerState, pair: &Pair<'_>| {
                let labels = [pair.0.name.as_str(), &pair.1.name];
                page.sample(row.metric(), &labels, u64::from(pair.1.is_up()));
            };
            self.family(rows, ServerState::metric, &servers, sample);
        }
    }

    fn workers(&mut self, snapshot: &Snapshot) {
        let named = snapshot.workers.iter().enumerate();
        let workers: Vec<_> = named
            .map(|(index, worker)| (index.to_string(), worker))
            .collect();
        for rows in families(WorkerCounter::ALL, WorkerCounter::metric) {
            self.family(
                rows,
                WorkerCounter::metric,
                &workers,
                |page, row, (name, worker)| {
                    page.sample(row.metric(), &[name], worker.counter(row));
                },
            );
        }
        for rows in families(WorkerGauge::ALL, WorkerGauge::metric) {
            self.family(
                rows,
                WorkerGauge::metric,
                &workers,
                |page, row, (name, worker)| {
                    page.sample(row.metric(), &[name], worker.gauge(row));
                },
            );
        }
    }

    fn process(&mut self, process: &Process) {
        for rows in families(ProcessMetric::ALL, ProcessMetric::metric) {
            self.family(
                rows,
                ProcessMetric::metric,
                &[process],
                |page, row, process| {
                    page.process_row(row, process);
                },
            );
        }
    }

    fn process_row(&mut self, row: ProcessMetric, process: &Process) {
        let value = match row {
            ProcessMetric::BuildInfo => return self.sample(row.metric(), &[&process.version], 1),
            ProcessMetric::Certificates
            | ProcessMetric::CertificatesExpired
            | ProcessMetric::CertificateExpiry
            | ProcessMetric::OcspResponses
            | ProcessMetric::OcspResponsesExpired
            | ProcessMetric::OcspResponseExpiry
            | ProcessMetric::Crls
            | ProcessMetric::CrlsExpired
            | ProcessMetric::CrlExpiry => return self.certificates(row, process),
            ProcessMetric::TicketKeyAge => return self.ticket_keys(row.metric(), process),
            ProcessMetric::SessionsStored => process.session_cache.entries,
            ProcessMetric::SessionBytes => process.session_cache.bytes,
            ProcessMetric::SessionHits => process.session_cache.hits,
            ProcessMetric::SessionsExpired => process.session_cache.expired,
            ProcessMetric::SessionsDamaged => process.session_cache.damaged,
            ProcessMetric::SessionsRecovered => process.session_cache.recovered,
            ProcessMetric::SessionsUnknown => process.session_cache.unknown,
            ProcessMetric::SessionEvictions => process.session_cache.evictions,
            ProcessMetric::SessionRefusals => process.session_cache.refusals,
            ProcessMetric::StartTime => process.start_seconds,
            ProcessMetric::SupervisorStartTime => process.supervisor_start_seconds,
            ProcessMetric::Restarts => process.restarts,
            ProcessMetric::Generation => process.generation,
            ProcessMetric::ReloadsOk => process.reloads_ok,
            ProcessMetric::ReloadsRefused => process.reloads_refused,
            ProcessMetric::LogBytesUnwritten => process.log_lost_bytes,
            ProcessMetric::LogFails => u64::from(process.log_fails),
        };
        self.sample(row.metric(), &[], value);
    }

    fn certificates(&mut self, row: ProcessMetric, process: &Process) {
        let metric = row.metric();
        for one in &process.certificates {
            let ends = match row {
                ProcessMetric::Certificates
                | ProcessMetric::CertificatesExpired
                | ProcessMetric::CertificateExpiry => &one.certificates,
                ProcessMetric::OcspResponses
                | ProcessMetric::OcspResponsesExpired
                | ProcessMetric::OcspResponseExpiry => &one.ocsp_responses,
                _ => &one.crls,
            };
            match (metric.labels.len(), metric.name.ends_with("_expired")) {
                (1, false) => self.sample(metric, &[&one.service], ends.loaded),
                (1, true) => self.sample(metric, &[&one.service], ends.expired),
                (count, _) => {
                    for end in &ends.listed {
                        let labels = [&*one.service, &end.file, &end.name, end.key];
                        self.sample(metric, &labels[..count], end.time_seconds);
                    }
                }
            }
        }
    }

    fn ticket_keys(&mut self, metric: &Metric, process: &Process) {
        for key in &process.ticket_keys {
            let purpose = if key.encrypts { "encrypt" } else { "decrypt" };
            self.sample(metric, &[&key.name, purpose], key.age_seconds);
        }
    }

    /// HELP and TYPE, then the rows of all that are counted.
    fn family<R: Copy, T>(
        &mut self,
        rows: &[R],
        metric: impl Fn(R) -> &'static Metric,
        counted: &[T],
        write: impl Fn(&mut Self, R, &T),
    ) {
        let Some(&first) = rows.first() else { return };
        let Metric {
            name, kind, help, ..
        } = metric(first);
        self.put(format_args!("# HELP {name} "));
        escape_help(self.out, help);
        self.put(format_args!("\n# TYPE {name} {}\n", kind.name()));
        for one in counted {
            for &row in rows {
                write(self, row, one);
            }
        }
    }

    fn sample(&mut self, metric: &Metric, labels: Labels<'_>, value: u64) {
        self.name_and_labels(metric, "", labels, None);
        match metric.unit {
            Unit::Microseconds => self.put(format_args!(" {}\n", Seconds(value))),
            _ => self.put(format_args!(" {value}\n")),
        }
    }

    fn histogram(&mut self, metric: &Metric, labels: Labels<'_>, histogram: &HistogramSnapshot) {
        let mut below = 0;
        for (bucket, bound) in histogram.buckets.0.iter().zip(BUCKETS_US) {
            below += bucket;
            self.name_and_labels(
                metric,
                "_bucket",
                labels,
                Some(format_args!("{}", Seconds(bound))),
            );
            self.put(format_args!(" {below}\n"));
        }
        let count = histogram.count();
        self.name_and_labels(metric, "_bucket", labels, Some(format_args!("+Inf")));
        self.put(format_args!(" {count}\n"));
        self.name_and_labels(metric, "_sum", labels, None);
        self.put(format_args!(" {}\n", Seconds(histogram.sum_us)));
        self.name_and_labels(metric, "_count", labels, None);
        self.put(format_args!(" {count}\n"));
    }

    fn name_and_labels(
        &mut self,
        metric: &Metric,
        suffix: &str,
        values: Labels<'_>,
        bound: Option<std::fmt::Arguments<'_>>,
    ) {
        debug_assert_eq!(metric.labels.len(), values.len());
        self.put(format_args!("{}{suffix}", metric.name));
        let mut opening = '{';
        let labels = metric.labels.iter().zip(values).map(|(l, v)| (*l, *v));
        for (label, value) in labels.chain(metric.fixed) {
            self.put(format_args!("{opening}{label}=\""));
            escape_label(self.out, value);
            self.out.push('"');
            opening = ',';
        }
        if let Some(bound) = bound {
            self.put(format_args!("{opening}le=\"{bound}\""));
            opening = ',';
        }
        if opening == ',' {
            self.out.push('}');
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let written = self.out.write_fmt(text);
        written.expect("a String takes all that is written");
    }
}

/// A family is a run of rows that share their metric's name.
fn families<R: Copy>(
    rows: &[R],
    metric: impl Fn(R) -> &'static Metric,
) -> impl Iterator<Item = &[R]> {
    rows.chunk_by(move |one, next| metric(*one).name == metric(*next).name)
}

/// PSKs are resumed in TLS 1.3 alone, session ids and tickets before it alone.
fn made_handshakes() -> impl Iterator<Item = (HandshakeKind, Version)> {
    [
        (HandshakeKind::Full, Version::Tls12),
        (HandshakeKind::Full, Version::Tls13),
        (HandshakeKind::SessionId, Version::Tls12),
        (HandshakeKind::Ticket, Version::Tls12),
        (HandshakeKind::Psk, Version::Tls13),
        (HandshakeKind::PskCache, Version::Tls13),
    ]
    .into_iter()
}

/// Microseconds, shown as seconds without a rounding error and without closing zeros.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, mut fraction) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let mut digits = 6;
        while fraction % 10 == 0 {
            fraction /= 10;
            digits -= 1;
        }
        write!(f, "{whole}.{fraction:0digits$}")
    }
}

fn escape_help(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

fn escape_label(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::catalogue::metrics;
    use crate::registry::Registry;

    fn page() -> String {
        let registry = Registry::new(2);
        let list = ["192.0.2.1:80".to_owned()];
        let web = registry.service(1, "a \"web\"\\\n", &list);
        web.add(ServiceCounter::BytesUp, 12);
        web.ended(Reason::NotTls);
        web.observe(Histogram::Dial, Duration::from_micros(70));
        web.observe(Histogram::Dial, Duration::from_secs(100));
        registry
            .worker(1)
            .add(WorkerCounter::BusyMicroseconds, 1_250_000);
        let process = Process {
            version: "1.2.3".into(),
            generation: 4,
            certificates: vec![Certificates {
                service: "web".into(),
                certificates: Ends {
                    loaded: 2,
                    expired: 0,
                    listed: vec![Expiry {
                        file: "site.pem".into(),
                        name: "example.com".into(),
                        key: "RSA",
                        time_seconds: 1_900_000_000,
                    }],
                },
                ocsp_responses: Ends::default(),
                crls: Ends {
                    loaded: 3,
                    expired: 1,
                    listed: vec![Expiry {
                        file: "ca.crl".into(),
                        name: "CN=CA".into(),
                        key: "",
                        time_seconds: 1_700_000_000,
                    }],
                },
            }],
            ..Process::default()
        };
        let mut out = String::new();
        write_prometheus(&registry.snapshot(), &process, &mut out);
        out
    }

    fn has(page: &str, line: &str) {
        assert!(page.lines().any(|l| l == line), "no line {line} in\n{page}");
    }

    #[test]
    fn samples_carry_labels_units_and_escapes() {
        let page = page();
        has(
            &page,
            r#"lariat_relayed_bytes_total{service="a \"web\"\\\n",direction="client-to-backend"} 12"#,
        );
        has(
            &page,
            r#"lariat_connections_ended_total{service="a \"web\"\\\n",reason="not-tls",fault="client"} 1"#,
        );
        has(
            &page,
            r#"lariat_worker_busy_seconds_total{worker="1"} 1.25"#,
        );
        has(&page, r#"lariat_build_info{version="1.2.3"} 1"#);
        has(&page, "lariat_config_generation 4");
        has(&page, r#"lariat_reloads_total{result="refused"} 0"#);
        for line in [
            r#"lariat_certificates{service="web"} 2"#,
            r#"lariat_certificates_expired{service="web"} 0"#,
            r#"lariat_certificate_expiry_timestamp_seconds{service="web",file="site.pem",name="example.com",key="RSA"} 1900000000"#,
            r#"lariat_ocsp_responses{service="web"} 0"#,
            r#"lariat_crls{service="web"} 3"#,
            r#"lariat_crls_expired{service="web"} 1"#,
            r#"lariat_crl_expiry_timestamp_seconds{service="web",file="ca.crl",issuer="CN=CA"} 1700000000"#,
        ] {
            has(&page, line);
        }
        assert!(!page.contains("lariat_ocsp_response_expiry_timestamp_seconds{"));
        has(
            &page,
            r#"lariat_server_up{service="a \"web\"\\\n",server="192.0.2.1:80"} 1"#,
        );
    }

    #[test]
    fn histograms_are_cumulative() {
        let page = page();
        let dial = |rest: &str| {
            let name = "lariat_dial_duration_seconds";
            has(
                &page,
                &format!(
                    r#"{name}{}"#,
                    rest.replace("{", r#"{service="a \"web\"\\\n","#)
                ),
            );
        };
        dial(r#"_bucket{le="0.00005"} 0"#);
        dial(r#"_bucket{le="0.0001"} 1"#);
        dial(r#"_bucket{le="60"} 1"#);
        dial(r#"_bucket{le="+Inf"} 2"#);
        has(
            &page,
            r#"lariat_dial_duration_seconds_sum{service="a \"web\"\\\n"} 100.00007"#,
        );
        has(
            &page,
            r#"lariat_dial_duration_seconds_count{service="a \"web\"\\\n"} 2"#,
        );
    }

    #[test]
    fn every_family_stands_once_with_help_and_type() {
        let page = page();
        for metric in metrics() {
            let count = |what: &str| page.matches(&format!("# {what} {} ", metric.name)).count();
            assert_eq!((count("HELP"), count("TYPE")), (1, 1), "{}", metric.name);
        }
    }

    #[test]
    fn no_series_stands_twice_and_every_line_has_a_value() {
        let page = page();
        let mut seen = HashSet::new();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(seen.insert(series), "{series} stands twice");
        }
    }
}
