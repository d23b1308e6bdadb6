//! The status document for people: what `lariat status` prints.
//!
//! Pure: rates come from two documents, nothing is asked and no clock is read.

use std::fmt::Write;

use telemetry::catalogue::{
    Breakdown, Histogram, ProcessMetric, ServerCounter, ServerGauge, ServiceCounter, ServiceGauge,
    WorkerCounter, WorkerGauge,
};
use telemetry::counters::Durations;
use telemetry::outcome::{EchResult, HandshakeKind};

use super::document::{
    EchKeyStatus, EchStatus, KeyHolderStatus, KeyLogStatus, KeyProcessStatus, RunState,
    ServerState, ServerStatus, ServiceStatus, StatusDocument, WorkerStatus,
};
use super::paragraphs::{acme_text, cluster_text};
use super::units::{AgeText, Bytes, Count, Date, Latency, Rate, Table, Time};
use crate::status_parts::{KernelTlsStatus, UpgradeStatus};

/// Reasons of failure that are shown per service.
const REASONS_MAX: usize = 5;

/// Characters of a cell: those of a server's name and port, or of a Unix socket's path.
const CELL_CHARACTERS_MAX: usize = 264;

/// The document as text. With an earlier document of the same process it has rates too.
pub(crate) fn render_status_text(now: &StatusDocument, earlier: Option<&StatusDocument>) -> String {
    let past = earlier.and_then(|earlier| EarlierDocument::new(now, earlier));
    let mut out = header(now) + &reloads(now);
    out.extend(now.upgrade.as_ref().map(upgrade));
    out.push_str(&log(now));
    out.extend(now.key_log.as_ref().map(key_log));
    out.extend(now.ech.as_ref().map(|status| ech(status, now.time_ms)));
    out.extend(now.key_process.as_ref().map(key_process));
    out.extend(now.kernel_tls.as_ref().map(kernel_tls));
    for service in &now.services {
        let before = past.as_ref().and_then(|past| past.service(&service.name));
        out.push_str(&service_text(now, service, before));
    }
    if now.services_left_out > 0 {
        let more = now.services_left_out;
        writeln!(out, "\n{more} services more are not shown: there is no room for them").ok();
    }
    out.push_str(&acme_text(now));
    out.extend(now.cluster.as_ref().map(|cluster| cluster_text(cluster, now)));
    out.push_str(&workers_text(now, past.as_ref()));
    out
}

/// An earlier document and how long ago it was.
struct EarlierDocument<'a> {
    document: &'a StatusDocument,
    seconds: f64,
}

/// The same service in an earlier document.
#[derive(Clone, Copy)]
struct EarlierService<'a> {
    service: &'a ServiceStatus,
    seconds: f64,
}

impl<'a> EarlierDocument<'a> {
    /// `None` if it is of another process or of no earlier time, and so gives no rates.
    fn new(now: &StatusDocument, document: &'a StatusDocument) -> Option<Self> {
        let is_same = now.process.start_ms == document.process.start_ms;
        let passed_ms = now.time_ms.saturating_sub(document.time_ms);
        (is_same && passed_ms > 0).then(|| Self { document, seconds: passed_ms as f64 / 1e3 })
    }

    fn service(&self, name: &str) -> Option<EarlierService<'a>> {
        let found = self.document.services.iter().find(|s| s.name == name);
        found.map(|service| EarlierService { service, seconds: self.seconds })
    }
}

impl EarlierService<'_> {
    fn rate(&self, now: u64, then: impl Fn(&ServiceStatus) -> u64) -> f64 {
        now.saturating_sub(then(self.service)) as f64 / self.seconds
    }
}

fn header(now: &StatusDocument) -> String {
    let process = &now.process;
    let state = match process.state {
        RunState::Serving => "serving",
        RunState::Draining => "draining",
    };
    let up_seconds = now.time_ms.saturating_sub(process.start_ms) / 1000;
    let fips = if process.fips { " (FIPS)" } else { "" };
    let mut text = format!(
        "lariat {}{fips} {state} configuration {} for {}, process {} of supervisor {}",
        process.program,
        process.metrics.get(ProcessMetric::Generation),
        AgeText(up_seconds),
        process.pid,
        process.supervisor_pid,
    );
    let restarts = process.metrics.get(ProcessMetric::Restarts);
    if restarts > 0 {
        let plural = if restarts == 1 { "" } else { "s" };
        push(&mut text, format_args!(", {restarts} restart{plural}"));
    }
    text.push('\n');
    if let Some(dying) = &process.dying {
        push(&mut text, format_args!("NOT READY: {dying}\n"));
    }
    if !process.rights.sentence.is_empty() {
        push(&mut text, format_args!("the worker process {}\n", process.rights.sentence));
    }
    text
}

/// The kinds of things that expire, each with its name, the numbers loaded and expired, and the
/// seconds until the first expires.
fn ends(service: &ServiceStatus) -> [(&'static str, u64, u64, Option<u64>); 4] {
    use ServiceGauge as Gauge;
    let expiry = &service.expiry;
    let all = [
        (
            "certificates",
            Gauge::Certificates,
            Gauge::CertificatesExpired,
            expiry.certificates_seconds,
        ),
        ("OCSP", Gauge::OcspResponses, Gauge::OcspResponsesExpired, expiry.ocsp_responses_seconds),
        ("authorities", Gauge::Authorities, Gauge::AuthoritiesExpired, expiry.authorities_seconds),
        ("CRL", Gauge::Crls, Gauge::CrlsExpired, expiry.crls_seconds),
    ];
    let get = |gauge| service.metrics.get(gauge);
    all.map(|(name, loaded, expired, first)| (name, get(loaded), get(expired), first))
}

fn reloads(now: &StatusDocument) -> String {
    // Indented: a message cannot pass for a line of ours.
    let indented = |text: &str| text.replace('\n', "\n    ");
    let warned = |text: &Option<String>| {
        let text = text.as_deref().map(indented);
        text.map(|text| format!(" with warnings:\n    {text}")).unwrap_or_default()
    };
    let Some(last) = &now.last_reload else {
        let warnings = warned(&now.process.start_warnings);
        return if warnings.is_empty() { warnings } else { format!("started{warnings}\n") };
    };
    let time = Time(last.time_ms / 1000);
    let count = |metric| now.process.metrics.get(metric);
    let (ok, refused) = (ProcessMetric::ReloadsOk, ProcessMetric::ReloadsRefused);
    let counts = format!("{} ok, {} refused", count(ok), count(refused));
    match &last.refused {
        None => {
            let warnings = warned(&last.warnings);
            format!("reloads: {counts}; the last was taken {time}{warnings}\n")
        }
        Some(message) => {
            let message = indented(message);
            format!("reloads: {counts}; the last was refused {time}: {message}\n")
        }
    }
}

fn upgrade(status: &UpgradeStatus) -> String {
    let UpgradeStatus { since_ms, until_ms, stage, .. } = status;
    let until = until_ms.map(|until| format!(", until {} at the latest", Time(until / 1000)));
    let until = until.unwrap_or_default();
    format!("UPGRADE since {}: {stage}{until}\n", Time(since_ms / 1000))
}

fn log(now: &StatusDocument) -> String {
    let lost = now.process.metrics.get(ProcessMetric::LogBytesUnwritten);
    match &now.log_failure {
        Some(why) => format!("log: cannot be written: {why}; {lost} bytes are lost\n"),
        None if now.log_unopened.is_some() => {
            let why = now.log_unopened.as_deref().unwrap_or_default();
            format!("log: goes to the file before, whose name may be another or gone: {why}\n")
        }
        None if lost > 0 => format!("log: written; {lost} bytes were lost before\n"),
        None => String::new(),
    }
}

fn key_log(status: &KeyLogStatus) -> String {
    let KeyLogStatus { path, services, lines, dropped } = status;
    let services = services.join(", ");
    format!(
        "KEY LOG: secrets of {services} go to {path} (process.key-log): {lines} lines, {dropped} \
         dropped\n"
    )
}

fn ech(EchStatus { public_name, keys }: &EchStatus, now_ms: u64) -> String {
    let is_published = |key: &&EchKeyStatus| {
        let from_now_on = key.published_from_ms.is_none_or(|from| from <= now_ms);
        from_now_on && key.published_until_ms.is_none_or(|until| until > now_ms)
    };
    let mut text = format!("ECH for {public_name}:");
    // Of keys from files all are published.
    if let Some(key) = keys.iter().find(is_published) {
        push(&mut text, format_args!(" {} hellos by configuration {}", key.hellos, key.config));
        if let Some(until) = key.published_until_ms {
            push(&mut text, format_args!(", published until {}", Date(until / 1000)));
        }
    }
    let is_elder = |key: &&EchKeyStatus| key.result != EchResult::Accepted.name();
    for key in keys.iter().filter(is_elder) {
        push(&mut text, format_args!(", {} by {}", key.hellos, key.config));
    }
    text.push('\n');
    text
}

fn key_process(status: &KeyProcessStatus) -> String {
    let KeyProcessStatus { processes, signed, late, failed, waiting_us } = status;
    let mean = waiting_us / (signed + late + failed).max(1);
    let mut text = format!(
        "key process: {signed} signatures, {mean} us of waiting for each; {late} late, {failed} \
         failed\n"
    );
    for one in processes {
        let KeyHolderStatus { keys, count, unopened, .. } = one;
        if let Some(pid) = one.pid {
            push(&mut text, format_args!("  {keys}: pid {pid}, {count} keys\n"));
        }
        if let Some(why) = &one.away {
            let since = Time(one.away_since_ms.unwrap_or(0) / 1000);
            push(&mut text, format_args!("  {keys}: AWAY since {since}: it {why}\n"));
        }
        if *unopened > 0 {
            push(&mut text, format_args!("  {keys}: {unopened} of {count} keys NOT OPENED\n"));
        }
        for why in &one.reasons {
            push(&mut text, format_args!("    {why}\n"));
        }
    }
    text
}

fn kernel_tls(status: &KernelTlsStatus) -> String {
    let word = if status.available { "yes" } else { "no" };
    let mut text = format!("kernel TLS: {word}: {}\n", status.sentence);
    if let Some(remedy) = &status.remedy {
        push(&mut text, format_args!("  hint: {remedy}\n"));
    }
    text
}

fn service_text(
    now: &StatusDocument,
    service: &ServiceStatus,
    before: Option<EarlierService<'_>>,
) -> String {
    let mut text = format!("\nservice {}\n", service.name);
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            push(&mut text, format_args!("  {name:<13} {value}\n"));
        }
    };
    field("listens", service.listeners.join(", "));
    for (name, loaded, expired, first) in ends(service) {
        if loaded > 0 {
            field(name, end(now, loaded, expired, first));
        }
    }
    for why in &service.certificates_skipped {
        field("skipped", why.clone());
    }
    field("connections", connections(service, before));
    field("handshakes", handshakes(service, before));
    field("", kinds(service));
    field("", latency(service));
    field("files", files(service));
    field("bytes", bytes(service, before));
    field("affinity", affinity(service));
    field("server TLS", service.server_tls.clone());
    field("kernel TLS", ktls(service));
    field("", passed(service));
    field("failures", failures(service));
    if !service.servers.is_empty() {
        text.push_str(&servers(&service.servers, now.time_ms));
    }
    text
}

fn end(now: &StatusDocument, loaded: u64, expired: u64, first: Option<u64>) -> String {
    let Some(first) = first else {
        return loaded.to_string();
    };
    let date = Date(first);
    match first.checked_sub(now.time_ms / 1000) {
        Some(left) => format!("{loaded}, the first expires {date} (in {})", AgeText(left)),
        None => format!("{loaded}, {expired} EXPIRED, the first {date}"),
    }
}

fn connections(service: &ServiceStatus, before: Option<EarlierService<'_>>) -> String {
    let accepted = |one: &ServiceStatus| one.metrics.get(ServiceCounter::ConnectionsAccepted);
    let rate = before.map(|b| b.rate(accepted(service), accepted));
    let open = Count(service.metrics.get(ServiceGauge::ConnectionsOpen));
    let accepted = Count(accepted(service));
    let waiting = match service.metrics.get(ServiceGauge::Queued) {
        0 => String::new(),
        waiting => format!(", {} wait for a server", Count(waiting)),
    };
    format!("{open} open, {accepted} accepted{}{waiting}", per_second(rate))
}

fn handshakes(service: &ServiceStatus, before: Option<EarlierService<'_>>) -> String {
    let rate = before.map(|b| b.rate(service.handshakes(), ServiceStatus::handshakes));
    let in_progress = Count(service.metrics.get(ServiceGauge::HandshakesInProgress));
    let finished = Count(service.handshakes());
    format!("{in_progress} in progress, {finished} finished{}", per_second(rate))
}

/// How the finished handshakes were made, and the share that was resumed.
fn kinds(service: &ServiceStatus) -> String {
    let finished = service.handshakes();
    if finished == 0 {
        return String::new();
    }
    let count = |kind: HandshakeKind| {
        let made = service.metrics.by(Breakdown::Handshakes);
        let of_kind = made.filter(|(labels, _)| labels.first() == Some(&kind.name()));
        of_kind.fold(0u64, |sum, (_, count)| sum.saturating_add(count))
    };
    let kinds = HandshakeKind::ALL.iter().filter(|kind| count(**kind) > 0);
    let kinds: Vec<_> =
        kinds.map(|kind| format!("{} {}", kind.name(), Count(count(*kind)))).collect();
    let resumed = finished.saturating_sub(count(HandshakeKind::Full));
    let resumed = 100.0 * resumed as f64 / finished as f64;
    format!("{}; {resumed:.1} % resumed", kinds.join(", "))
}

fn latency(service: &ServiceStatus) -> String {
    let mut all = Durations::default();
    for kind in HandshakeKind::ALL {
        all.add(&service.metrics.durations(Histogram::of_handshake(*kind)));
    }
    let quantiles = [("half", 0.5), ("99 %", 0.99)].into_iter();
    let texts = quantiles.filter_map(|(name, share)| {
        let us = u64::try_from(all.quantile(share)?.as_micros()).ok()?;
        Some(format!("{name} within {}", Latency(us)))
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn bytes(service: &ServiceStatus, before: Option<EarlierService<'_>>) -> String {
    let directions = [("up", ServiceCounter::BytesUp), ("down", ServiceCounter::BytesDown)];
    let texts = directions.map(|(name, counter)| {
        let now = service.metrics.get(counter);
        let rate = before.map(|b| b.rate(now, |one| one.metrics.get(counter)));
        let rate = rate.map(|rate| format!(" ({}/s)", Bytes(rate)));
        format!("{} {name}{}", Bytes(now as f64), rate.unwrap_or_default())
    });
    texts.join(", ")
}

/// How many of the clients that offered a session came to its server.
fn affinity(service: &ServiceStatus) -> String {
    let rows = [
        ("kept", ServiceCounter::AffinityKept),
        ("moved", ServiceCounter::AffinityMoved),
        ("unknown", ServiceCounter::AffinityUnknown),
    ];
    let rows = rows.map(|(name, row)| (name, service.metrics.get(row)));
    let texts = rows.iter().filter(|(_, count)| *count > 0);
    let texts: Vec<_> = texts.map(|(name, count)| format!("{} {name}", Count(*count))).collect();
    texts.join(", ")
}

fn files(service: &ServiceStatus) -> String {
    if !service.serves_files {
        return String::new();
    }
    let count = |row| Count(service.metrics.get(row));
    format!(
        "responses 2xx {}, 3xx {}, 4xx {}, 5xx {}",
        count(ServiceCounter::FilesFound),
        count(ServiceCounter::FilesElsewhere),
        count(ServiceCounter::FilesRefused),
        count(ServiceCounter::FilesFailed),
    )
}

/// How many connections the kernel encrypts for, and why not more.
fn ktls(service: &ServiceStatus) -> String {
    let mode = service.ktls.as_ref().map_or("off", |ktls| &ktls.mode);
    let connections = service.metrics.get(ServiceCounter::Offloads);
    if mode == "off" && connections == 0 {
        return String::new();
    }
    let open = Count(service.metrics.get(ServiceGauge::Offloaded));
    let mut text = format!("{mode}: {open} open, {} handed over", Count(connections));
    let rekeys = service.metrics.get(ServiceCounter::Rekeys);
    if rekeys > 0 {
        push(&mut text, format_args!(", {} keys changed", Count(rekeys)));
    }
    for (reason, count) in service.metrics.by(Breakdown::OffloadRefusals) {
        if count > 0 {
            push(&mut text, format_args!(", {} not ({})", Count(count), reason.join(" ")));
        }
    }
    text
}

/// Bytes that went down encrypted by the kernel, by their path.
fn passed(service: &ServiceStatus) -> String {
    let sent = [
        ServiceCounter::SentBySendfile,
        ServiceCounter::SentBySplice,
        ServiceCounter::SentToKernel,
        ServiceCounter::SentByUserSpace,
    ];
    let sent = sent.map(|row| Bytes(service.metrics.get(row) as f64));
    match sent {
        [Bytes(0.0), Bytes(0.0), Bytes(0.0), _] => String::new(),
        [sendfile, splice, send, others] => format!(
            "{sendfile} by sendfile, {splice} by splice, {send} by send; {others} encrypted in \
             user space"
        ),
    }
}

fn failures(service: &ServiceStatus) -> String {
    let ended = service.metrics.by(Breakdown::Ended);
    let mut faults: Vec<_> = ended
        .filter_map(|(labels, count)| match labels {
            [reason, fault] if *fault != "none" && count > 0 => Some((*reason, count)),
            _ => None,
        })
        .collect();
    faults.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
    let (shown, others) = faults.split_at(faults.len().min(REASONS_MAX));
    let others = others.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let others = (others > 0).then_some(("others", others));
    let shown = shown.iter().copied().chain(others);
    let mut texts: Vec<_> =
        shown.map(|(reason, count)| format!("{reason} {}", Count(count))).collect();
    if texts.is_empty() && service.metrics.get(ServiceCounter::ConnectionsAccepted) > 0 {
        texts.push("none".into());
    }
    texts.join(", ")
}

fn servers(servers: &[ServerStatus], time_ms: u64) -> String {
    let mut table =
        Table::new(&["<SERVER", "<STATE", ">OPEN", ">DIALS", ">FAILED", ">UP", ">DOWN", "<NOTE"]);
    for server in servers {
        let state = match server.state {
            _ if server.disabled => "disabled",
            ServerState::Down if server.weight_ordered == Some(0) => "weight 0",
            ServerState::Up => "up",
            ServerState::Partly => "partly up",
            ServerState::Down => "DOWN",
        };
        table.row(vec![
            shortened(&server.name),
            state.into(),
            Count(server.metrics.get(ServerGauge::ConnectionsOpen)).to_string(),
            Count(server.metrics.get(ServerCounter::Dials)).to_string(),
            Count(server.dials_failed()).to_string(),
            Bytes(server.metrics.get(ServerCounter::BytesUp) as f64).to_string(),
            Bytes(server.metrics.get(ServerCounter::BytesDown) as f64).to_string(),
            note(server, time_ms),
        ]);
    }
    table.to_string()
}

/// The reason why it is not up, and for how long.
fn note(server: &ServerStatus, time_ms: u64) -> String {
    let note = server.note.as_deref().map(shortened).unwrap_or_default();
    match server.since_ms {
        Some(since_ms) if server.state != ServerState::Up => {
            let age = AgeText(time_ms.saturating_sub(since_ms) / 1000);
            format!("for {age}: {note}")
        }
        _ => note,
    }
}

/// A cell: all others of its column are as wide.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(CELL_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn workers_text(now: &StatusDocument, past: Option<&EarlierDocument<'_>>) -> String {
    let mut table = Table::new(&[">WORKER", ">CPU", ">OPEN", ">BUSY", ">EVENTS"]);
    for (index, worker) in now.workers.iter().enumerate() {
        let before = past.and_then(|past| past.document.workers.get(index));
        let seconds = past.map_or(0.0, |past| past.seconds);
        table.row(vec![
            index.to_string(),
            worker.cpu.map_or_else(|| "any".into(), |cpu| cpu.to_string()),
            Count(worker.metrics.get(WorkerGauge::ConnectionsOpen)).to_string(),
            busy(worker, before, seconds, now),
            Count(worker.metrics.get(WorkerCounter::Events)).to_string(),
        ]);
    }
    format!("\n{table}")
}

/// The share of the time between the two documents, or else since the start.
fn busy(
    worker: &WorkerStatus,
    before: Option<&WorkerStatus>,
    seconds: f64,
    now: &StatusDocument,
) -> String {
    let busy = |worker: &WorkerStatus| worker.metrics.get(WorkerCounter::BusyMicroseconds);
    let (busy_us, of_us) = match before {
        Some(before) => (busy(worker).saturating_sub(busy(before)), seconds * 1e6),
        None => {
            let up_ms = now.time_ms.saturating_sub(now.process.start_ms);
            (busy(worker), up_ms.max(1) as f64 * 1e3)
        }
    };
    format!("{:.0} %", (100.0 * busy_us as f64 / of_us).min(100.0))
}

fn per_second(rate: Option<f64>) -> String {
    rate.map(|rate| format!(" ({}/s)", Rate(rate))).unwrap_or_default()
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("a String takes all that is written");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> serde_json::Value {
        let failures = json!({ "refused": 2, "tls": 1 });
        let server = |name: &str, state: &str, note: Option<&str>| {
            json!({
                "name": name, "state": state, "note": note,
                "metrics": {
                    "server_connections_open": 12, "dials": 4321, "dial_failures": failures,
                    "server_bytes": { "client-to-backend": 2048, "backend-to-client": 3 << 20 },
                },
            })
        };
        let ended = json!({
            "client-closed": { "none": 4000 }, "not-tls": { "client": 3 },
            "backend-refused": { "backend": 40 },
        });
        let sent = json!({
            "sendfile": 4u64 << 30, "splice": 0, "kernel": 512 << 20, "user-space": 512 << 20,
        });
        // All took more than 1 ms and up to 2 ms.
        let mut buckets = [0; 20];
        buckets[5] = 4000;
        json!({
            "name": "web", "listeners": ["[::]:443", "unix:/run/web"], "serves_files": true,
            "ktls": { "mode": "auto", "min_bytes": 131_072 },
            "expiry": { "certificates_seconds": 86_400 * 20_000, "crls_seconds": 0 },
            "metrics": {
                "certificates": 3, "crls": 2, "crls_expired": 1,
                "connections_accepted": 4400, "connections_open": 24, "connections_ended": ended,
                "handshakes_in_progress": 1,
                "handshakes": { "full": { "TLSv1.2": 1000 }, "psk": { "TLSv1.3": 3000 } },
                "handshake_duration_us": { "full": { "buckets": buckets, "sum_us": 0 } },
                "relayed_bytes": { "client-to-backend": 1024, "backend-to-client": 5u64 << 30 },
                "sent_bytes": sent,
                "ktls_connections": 120, "ktls_connections_open": 7, "ktls_refusals": { "suite": 2 },
                "affinity_connections": { "kept": 1800, "moved": 3, "unknown": 40 },
                "file_responses": { "2xx": 1300, "4xx": 4 },
            },
            "servers": [
                server("10.0.0.3:80", "up", None),
                server("unix:/run/app.sock", "down", Some("connection refused")),
            ],
        })
    }

    fn document() -> StatusDocument {
        let rights = json!({
            "sentence": "runs as user 65534, group 65534; it can open no file",
            "files": "full", "tcp_ports": "off", "system_calls": "full",
        });
        let document = json!({
            "version": 2, "time_ms": 86_400_000u64 * 19_990,
            "process": {
                "program": "0.1.0", "state": "serving", "pid": 12, "supervisor_pid": 11,
                "start_ms": 86_400_000u64 * 19_990 - 100_000, "supervisor_start_ms": 0,
                "rights": rights,
                "metrics": {
                    "config_generation": 2, "reloads": { "ok": 1, "refused": 1 },
                    "log_lost_bytes": 4096,
                },
            },
            "last_reload": { "time_ms": 951_827_696_000u64, "refused": "no such file" },
            "upgrade": {
                "since_ms": 951_827_696_000u64, "until_ms": 951_827_706_000u64, "pid": 7,
                "stage": "/a (pid 7) is to say which version it is",
            },
            "log_failure": "No space left on device",
            "key_log": { "path": "/k", "services": ["web", "db"], "lines": 5, "dropped": 1 },
            "ech": { "public_name": "front.example", "keys": [
                {
                    "config": 9, "published_from_ms": 86_400_000u64 * 19_985,
                    "published_until_ms": 86_400_000u64 * 19_992, "result": "accepted",
                    "hellos": 70,
                },
                {
                    "config": 8, "published_from_ms": 86_400_000u64 * 19_978,
                    "published_until_ms": 86_400_000u64 * 19_985,
                    "result": "accepted-one-older", "hellos": 3,
                },
                {
                    "config": 10, "published_from_ms": 86_400_000u64 * 19_992,
                    "published_until_ms": 86_400_000u64 * 19_999, "result": "accepted",
                    "hellos": 70,
                },
            ] },
            "workers": [{
                "cpu": 0,
                "metrics": {
                    "worker_connections_open": 24, "worker_busy_us": 50_000_000,
                    "worker_events": 99_000,
                },
            }],
            "services": [service()],
            "kernel_tls": {
                "available": false, "sentence": "its module is not loaded",
                "remedy": "`modprobe tls` as root", "rekeys": false,
            },
            "bounds_us": [],
        });
        StatusDocument::from_json(document.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn one_document_gives_totals() {
        let expected = "\
lariat 0.1.0 serving configuration 2 for 1 min 40 s, process 12 of supervisor 11
the worker process runs as user 65534, group 65534; it can open no file
reloads: 1 ok, 1 refused; the last was refused 2000-02-29 12:34:56 UTC: no such file
UPGRADE since 2000-02-29 12:34:56 UTC: /a (pid 7) is to say which version it is, until \
2000-02-29 12:35:06 UTC at the latest
log: cannot be written: No space left on device; 4096 bytes are lost
KEY LOG: secrets of web, db go to /k (process.key-log): 5 lines, 1 dropped
ECH for front.example: 70 hellos by configuration 9, published until 2024-09-26, 3 by 8
kernel TLS: no: its module is not loaded
  hint: `modprobe tls` as root

service web
  listens       [::]:443, unix:/run/web
  certificates  3, the first expires 2024-10-04 (in 10 d 0 h)
  CRL           2, 1 EXPIRED, the first 1970-01-01
  connections   24 open, 4 400 accepted
  handshakes    1 in progress, 4 000 finished
                full 1 000, psk 3 000; 75.0 % resumed
                half within 2 ms, 99 % within 2 ms
  files         responses 2xx 1 300, 3xx 0, 4xx 4, 5xx 0
  bytes         1.0 KiB up, 5.0 GiB down
  affinity      1 800 kept, 3 moved, 40 unknown
  kernel TLS    auto: 7 open, 120 handed over, 2 not (suite)
                4.0 GiB by sendfile, 0 B by splice, 512 MiB by send; 512 MiB encrypted in user space
  failures      backend-refused 40, not-tls 3
  SERVER              STATE  OPEN  DIALS  FAILED       UP     DOWN  NOTE
  10.0.0.3:80         up       12  4 321       3  2.0 KiB  3.0 MiB
  unix:/run/app.sock  DOWN     12  4 321       3  2.0 KiB  3.0 MiB  connection refused

  WORKER  CPU  OPEN  BUSY  EVENTS
       0    0    24  50 %  99 000
";
        assert_eq!(render_status_text(&document(), None), expected);
    }

    #[test]
    fn two_documents_give_rates() {
        let (earlier, mut now) = (document(), document());
        now.time_ms += 2000;
        let (busy, down) = (WorkerCounter::BusyMicroseconds, ServiceCounter::BytesDown);
        now.workers[0].metrics.set(busy, 50_500_000);
        let counts = &mut now.services[0].metrics;
        counts.set(ServiceCounter::ConnectionsAccepted, 4500);
        counts.set(down, (5 << 30) + (4 << 20));
        let text = render_status_text(&now, Some(&earlier));
        for part in [
            "24 open, 4 500 accepted (50/s)",
            "4 000 finished (0/s)",
            "1.0 KiB up (0 B/s), 5.0 GiB down (2.0 MiB/s)",
            "24  25 %",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }

    #[test]
    fn a_document_of_another_process_gives_no_rates() {
        let (mut earlier, mut now) = (document(), document());
        now.time_ms += 2000;
        earlier.process.start_ms -= 1;
        let text = render_status_text(&now, Some(&earlier));
        assert!(!text.contains("/s)"), "{text}");
    }
}
