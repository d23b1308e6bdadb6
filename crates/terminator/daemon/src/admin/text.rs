//! The status document for people: what `lariat status` prints.
//!
//! Pure: rates come from two documents, nothing is asked and no clock is read.

use std::fmt::Write;

use super::display::{Age, Align, Bytes, Count, Date, Latency, Rate, Table, Time};
use super::document::{
    CertificateStatus, HistogramStatus, RunState, ServerState, ServerStatus, ServiceStatus,
    StatusDocument, WorkerStatus,
};

/// Reasons of failure that are shown, a service.
const REASONS_MAX: usize = 5;

/// Characters of a cell: those of a server's name and port, or of a Unix socket's path.
const CELL_CHARACTERS_MAX: usize = 264;

/// The document as text. With an earlier document of the same process it has rates too.
pub(crate) fn render_status_text(now: &StatusDocument, earlier: Option<&StatusDocument>) -> String {
    let past = earlier.and_then(|earlier| Past::new(now, earlier));
    let mut out = String::new();
    for part in [header(now), reloads(now), log(now), kernel_tls(now)] {
        out.push_str(&part);
    }
    for service in &now.services {
        let before = past.as_ref().and_then(|past| past.service(&service.name));
        out.push_str(&service_text(now, service, before));
    }
    out.push_str(&workers_text(now, past.as_ref()));
    out
}

/// An earlier document and how long ago it was.
struct Past<'a> {
    document: &'a StatusDocument,
    seconds: f64,
}

/// The same service in an earlier document.
#[derive(Clone, Copy)]
struct Before<'a> {
    service: &'a ServiceStatus,
    seconds: f64,
}

impl<'a> Past<'a> {
    /// `None` if it is of another process or of no earlier time, and so gives no rates.
    fn new(now: &StatusDocument, document: &'a StatusDocument) -> Option<Self> {
        let is_same = now.process.start_ms == document.process.start_ms;
        let passed_ms = now.time_ms.saturating_sub(document.time_ms);
        (is_same && passed_ms > 0).then(|| Self {
            document,
            seconds: passed_ms as f64 / 1e3,
        })
    }

    fn service(&self, name: &str) -> Option<Before<'a>> {
        let found = self.document.services.iter().find(|s| s.name == name);
        found.map(|service| Before {
            service,
            seconds: self.seconds,
        })
    }
}

impl Before<'_> {
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
    let mut text = format!(
        "lariat {} {state} plan {} for {}, process {} of supervisor {}",
        process.program,
        process.generation,
        Age(up_seconds),
        process.pid,
        process.supervisor_pid,
    );
    if process.restarts > 0 {
        let plural = if process.restarts == 1 { "" } else { "s" };
        push(
            &mut text,
            format_args!(", {} restart{plural}", process.restarts),
        );
    }
    text.push('\n');
    if !process.rights.sentence.is_empty() {
        push(
            &mut text,
            format_args!("the worker process {}\n", process.rights.sentence),
        );
    }
    text
}

/// What is past its end in the plan that is served: the reload may have been meant to renew it.
pub(crate) fn expired(document: &StatusDocument) -> Vec<String> {
    let of_service = document.services.iter().flat_map(|service| {
        let counts = [
            ("certificates", &service.certificates),
            ("OCSP responses", &service.ocsp_responses),
            ("revocation lists", &service.crls),
        ];
        counts.map(|(what, status)| (&service.name, what, status))
    });
    of_service
        .filter(|(_, _, status)| status.expired > 0)
        .map(|(name, what, status)| {
            let (expired, loaded) = (status.expired, status.loaded);
            format!(
                "service \"{name}\": {expired} of {loaded} {what} expired; lariat's standard error names the file"
            )
        })
        .collect()
}

fn reloads(now: &StatusDocument) -> String {
    let Some(last) = &now.reload.last else {
        return String::new();
    };
    let time = Time(last.time_ms / 1000);
    let counts = format!("{} ok, {} refused", now.reload.ok, now.reload.refused);
    match &last.refused {
        None => format!("reloads: {counts}; the last was taken {time}\n"),
        Some(message) => {
            // Indented: a message cannot pass for a line of ours.
            let message = message.replace('\n', "\n    ");
            format!("reloads: {counts}; the last was refused {time}: {message}\n")
        }
    }
}

fn log(now: &StatusDocument) -> String {
    let lost = now.log.lost_bytes;
    match &now.log.failure {
        Some(why) => format!("log: cannot be written: {why}; {lost} bytes are lost\n"),
        None if lost > 0 => format!("log: written; {lost} bytes were lost before\n"),
        None => String::new(),
    }
}

fn kernel_tls(now: &StatusDocument) -> String {
    let Some(kernel_tls) = &now.kernel_tls else {
        return String::new();
    };
    let word = if kernel_tls.available { "yes" } else { "no" };
    let mut text = format!("kernel TLS: {word}: {}\n", kernel_tls.sentence);
    if let Some(remedy) = &kernel_tls.remedy {
        push(&mut text, format_args!("  hint: {remedy}\n"));
    }
    text
}

fn service_text(
    now: &StatusDocument,
    service: &ServiceStatus,
    before: Option<Before<'_>>,
) -> String {
    let mut text = format!("\nservice {}\n", service.name);
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            push(&mut text, format_args!("  {name:<13} {value}\n"));
        }
    };
    field("listens", service.listeners.join(", "));
    field("certificates", ends(now, &service.certificates));
    let others = [("OCSP", &service.ocsp_responses), ("CRL", &service.crls)];
    for (name, one) in others.into_iter().filter(|(_, one)| one.loaded > 0) {
        field(name, ends(now, one));
    }
    field("connections", connections(service, before));
    field("handshakes", handshakes(service, before));
    field("", kinds(service));
    field("", latency(now, service));
    field("files", files(service));
    field("bytes", bytes(service, before));
    field("kernel TLS", ktls(service));
    field("", passed(service));
    field("failures", failures(service));
    if !service.servers.is_empty() {
        text.push_str(&servers(&service.servers));
    }
    text
}

fn ends(now: &StatusDocument, ends: &CertificateStatus) -> String {
    let loaded = ends.loaded;
    let Some(expiry) = ends.expiry_seconds else {
        return loaded.to_string();
    };
    let now_seconds = now.time_ms / 1000;
    match expiry.checked_sub(now_seconds) {
        Some(left) => format!(
            "{loaded}, the first expires {} (in {})",
            Date(expiry),
            Age(left)
        ),
        None => format!(
            "{loaded}, {} EXPIRED, the first {}",
            ends.expired,
            Date(expiry)
        ),
    }
}

fn connections(service: &ServiceStatus, before: Option<Before<'_>>) -> String {
    let counts = &service.connections;
    let rate = before.map(|b| b.rate(counts.accepted, |s| s.connections.accepted));
    let (open, accepted) = (Count(counts.open), Count(counts.accepted));
    format!("{open} open, {accepted} accepted{}", per_second(rate))
}

fn handshakes(service: &ServiceStatus, before: Option<Before<'_>>) -> String {
    let handshakes = &service.handshakes;
    let finished = handshakes.finished();
    let rate = before.map(|b| b.rate(finished, |s| s.handshakes.finished()));
    let (in_progress, count) = (Count(handshakes.in_progress), Count(finished));
    format!(
        "{in_progress} in progress, {count} finished{}",
        per_second(rate)
    )
}

/// How the finished handshakes were made, and the share that was resumed.
fn kinds(service: &ServiceStatus) -> String {
    let finished = service.handshakes.finished();
    if finished == 0 {
        return String::new();
    }
    let kinds = service
        .handshakes
        .kinds
        .iter()
        .filter(|(_, kind)| kind.count > 0);
    let kinds: Vec<_> = kinds
        .map(|(name, kind)| format!("{name} {}", Count(kind.count)))
        .collect();
    let full = service
        .handshakes
        .kinds
        .get("full")
        .map_or(0, |kind| kind.count);
    let resumed = 100.0 * finished.saturating_sub(full) as f64 / finished as f64;
    format!("{}; {resumed:.1} % resumed", kinds.join(", "))
}

/// Of all kinds of handshake together.
fn latency(now: &StatusDocument, service: &ServiceStatus) -> String {
    let mut sum = vec![0u64; now.bounds_us.len() + 1];
    for kind in service.handshakes.kinds.values() {
        add(&mut sum, &kind.duration);
    }
    let quantiles = [("half", 0.5), ("99 %", 0.99)].map(|(name, share)| {
        quantile_us(&now.bounds_us, &sum, share).map(|us| format!("{name} within {}", Latency(us)))
    });
    quantiles
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

fn add(sum: &mut [u64], histogram: &HistogramStatus) {
    for (sum, bucket) in sum.iter_mut().zip(&histogram.buckets) {
        *sum = sum.saturating_add(*bucket);
    }
}

/// The bound below which this share lies; the last bound stands for what is longer.
fn quantile_us(bounds_us: &[u64], buckets: &[u64], share: f64) -> Option<u64> {
    let count = total(buckets);
    let rank = (count as f64 * share).ceil() as u64;
    let mut below = 0u64;
    let found = bounds_us.iter().zip(buckets).find(|(_, bucket)| {
        below = below.saturating_add(**bucket);
        below >= rank
    });
    let bound = found
        .map(|(bound, _)| *bound)
        .or_else(|| bounds_us.last().copied());
    bound.filter(|_| count > 0)
}

/// Together; the counts are others', so that even their sum may be too large.
fn total<'a>(counts: impl IntoIterator<Item = &'a u64>) -> u64 {
    counts
        .into_iter()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

fn bytes(service: &ServiceStatus, before: Option<Before<'_>>) -> String {
    let side = |name: &str, now: u64, then: fn(&ServiceStatus) -> u64| {
        let rate = before.map(|b| format!(" ({}/s)", Bytes(b.rate(now, then))));
        format!("{} {name}{}", Bytes(now as f64), rate.unwrap_or_default())
    };
    let up = side("up", service.bytes.up, |s| s.bytes.up);
    let down = side("down", service.bytes.down, |s| s.bytes.down);
    format!("{up}, {down}")
}

fn files(service: &ServiceStatus) -> String {
    let Some(files) = service.files else {
        return String::new();
    };
    let classes = [
        ("2xx", files.found),
        ("3xx", files.elsewhere),
        ("4xx", files.refused),
        ("5xx", files.failed),
    ];
    let counts = classes.map(|(class, count)| format!("{class} {}", Count(count)));
    format!("responses {}", counts.join(", "))
}

/// How many connections the kernel seals for, and why not more.
fn ktls(service: &ServiceStatus) -> String {
    let ktls = &service.ktls;
    let mode = ktls.mode.as_deref().unwrap_or("off");
    if mode == "off" && ktls.connections == 0 {
        return String::new();
    }
    let (open, connections) = (Count(ktls.open), Count(ktls.connections));
    let mut text = format!("{mode}: {open} open, {connections} handed over");
    if ktls.rekeys > 0 {
        push(
            &mut text,
            format_args!(", {} keys changed", Count(ktls.rekeys)),
        );
    }
    for (reason, count) in &ktls.refused {
        push(
            &mut text,
            format_args!(", {} not ({reason})", Count(*count)),
        );
    }
    text
}

/// What went down sealed by the kernel, by its way.
fn passed(service: &ServiceStatus) -> String {
    let sent = &service.bytes.sent;
    if [sent.sendfile, sent.splice, sent.kernel] == [0; 3] {
        return String::new();
    }
    let ways = [
        ("sendfile", sent.sendfile),
        ("splice", sent.splice),
        ("send", sent.kernel),
    ];
    let by_kernel = ways.map(|(way, bytes)| format!("{} by {way}", Bytes(bytes as f64)));
    let ours = Bytes(sent.user_space as f64);
    format!("{}; {ours} encrypted in user space", by_kernel.join(", "))
}

/// The most frequent first.
fn failures(service: &ServiceStatus) -> String {
    let ended = service.connections.ended.iter();
    let mut faults: Vec<_> = ended.filter(|(_, ended)| ended.fault != "none").collect();
    faults.sort_by_key(|(_, ended)| std::cmp::Reverse(ended.count));
    let shown = faults.iter().take(REASONS_MAX);
    let mut texts: Vec<_> = shown
        .map(|(reason, e)| format!("{reason} {}", Count(e.count)))
        .collect();
    let rest = total(
        faults
            .iter()
            .skip(REASONS_MAX)
            .map(|(_, ended)| &ended.count),
    );
    if rest > 0 {
        texts.push(format!("others {}", Count(rest)));
    }
    if texts.is_empty() && service.connections.accepted > 0 {
        texts.push("none".into());
    }
    texts.join(", ")
}

fn servers(servers: &[ServerStatus]) -> String {
    let mut table = Table::new(&[
        ("SERVER", Align::Left),
        ("STATE", Align::Left),
        ("OPEN", Align::Right),
        ("DIALS", Align::Right),
        ("FAILED", Align::Right),
        ("UP", Align::Right),
        ("DOWN", Align::Right),
        ("NOTE", Align::Left),
    ]);
    for server in servers {
        let state = match server.state {
            ServerState::Up => "up",
            ServerState::Partly => "partly up",
            ServerState::Down => "DOWN",
        };
        table.row(vec![
            shortened(&server.name),
            state.into(),
            Count(server.connections_open).to_string(),
            Count(server.dials).to_string(),
            Count(server.dials_failed()).to_string(),
            Bytes(server.bytes_up as f64).to_string(),
            Bytes(server.bytes_down as f64).to_string(),
            server.note.as_deref().map(shortened).unwrap_or_default(),
        ]);
    }
    table.to_string()
}

/// A cell: all others of its column are as wide.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(CELL_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn workers_text(now: &StatusDocument, past: Option<&Past<'_>>) -> String {
    let mut table = Table::new(&[
        ("WORKER", Align::Right),
        ("CPU", Align::Right),
        ("OPEN", Align::Right),
        ("BUSY", Align::Right),
        ("EVENTS", Align::Right),
    ]);
    for (index, worker) in now.workers.iter().enumerate() {
        let before = past.and_then(|past| past.document.workers.get(index));
        let seconds = past.map_or(0.0, |past| past.seconds);
        table.row(vec![
            index.to_string(),
            worker
                .cpu
                .map_or_else(|| "any".into(), |cpu| cpu.to_string()),
            Count(worker.connections_open).to_string(),
            busy(worker, before, seconds, now),
            Count(worker.events).to_string(),
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
    let (busy_us, of_us) = match before {
        Some(before) => (worker.busy_us.saturating_sub(before.busy_us), seconds * 1e6),
        None => {
            let up_ms = now.time_ms.saturating_sub(now.process.start_ms);
            (worker.busy_us, up_ms.max(1) as f64 * 1e3)
        }
    };
    format!("{:.0} %", (100.0 * busy_us as f64 / of_us).min(100.0))
}

fn per_second(rate: Option<f64>) -> String {
    rate.map(|rate| format!(" ({}/s)", Rate(rate)))
        .unwrap_or_default()
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more)
        .expect("a String takes all that is written");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::document::{
        ByteStatus, ConnectionStatus, DialStatus, EndedStatus, FilesStatus, HandshakeStatus,
        KernelTlsStatus, KindStatus, KtlsStatus, LastReload, LogStatus, ProcessStatus,
        ReloadStatus, RightsStatus, SentStatus, SessionStatus, VERSION,
    };
    use super::*;

    fn server(name: &str, state: ServerState, note: Option<&str>) -> ServerStatus {
        ServerStatus {
            name: name.into(),
            state,
            workers_up: 0,
            note: note.map(Into::into),
            connections_open: 12,
            dials: 4321,
            dials_refused: 2,
            dials_timed_out: 1,
            dials_unreachable: 0,
            went_down: 0,
            bytes_up: 2048,
            bytes_down: 3 << 20,
        }
    }

    fn kind(count: u64) -> KindStatus {
        let duration = HistogramStatus {
            buckets: vec![0, count, 0],
            sum_us: 0,
        };
        KindStatus { count, duration }
    }

    fn bytes_of_service() -> ByteStatus {
        ByteStatus {
            up: 1024,
            down: 5 << 30,
            sent: SentStatus {
                sendfile: 4 << 30,
                splice: 0,
                kernel: 512 << 20,
                user_space: 512 << 20,
            },
        }
    }

    fn service() -> ServiceStatus {
        let ended = |fault: &str, count| EndedStatus {
            fault: fault.into(),
            count,
        };
        ServiceStatus {
            name: "web".into(),
            listeners: vec!["[::]:443".into(), "unix:/run/web".into()],
            certificates: CertificateStatus {
                loaded: 3,
                expired: 0,
                expiry_seconds: Some(86_400 * 20_000),
            },
            ocsp_responses: CertificateStatus::default(),
            crls: CertificateStatus {
                loaded: 2,
                expired: 1,
                expiry_seconds: Some(0),
            },
            connections: ConnectionStatus {
                accepted: 4400,
                open: 24,
                ended: BTreeMap::from([
                    ("client-closed".into(), ended("none", 4000)),
                    ("not-tls".into(), ended("client", 3)),
                    ("backend-refused".into(), ended("backend", 40)),
                ]),
                duration: HistogramStatus::default(),
            },
            handshakes: HandshakeStatus {
                in_progress: 1,
                kinds: BTreeMap::from([("full".into(), kind(1000)), ("psk".into(), kind(3000))]),
                versions: BTreeMap::new(),
                misses: BTreeMap::new(),
                early_data: BTreeMap::new(),
                suites: BTreeMap::new(),
                groups: BTreeMap::new(),
                hello_retry_requests: 0,
                key_updates: 0,
            },
            bytes: bytes_of_service(),
            ktls: KtlsStatus {
                mode: Some("auto".into()),
                from_bytes: Some(131_072),
                connections: 120,
                open: 7,
                rekeys: 0,
                refused: BTreeMap::from([("suite".into(), 2)]),
            },
            files: Some(FilesStatus {
                found: 1300,
                refused: 4,
                ..FilesStatus::default()
            }),
            dials: DialStatus {
                retries: 0,
                duration: HistogramStatus::default(),
            },
            servers: vec![
                server("10.0.0.3:80", ServerState::Up, None),
                server(
                    "unix:/run/app.sock",
                    ServerState::Down,
                    Some("connection refused"),
                ),
            ],
            log_lines_suppressed: 0,
        }
    }

    fn document() -> StatusDocument {
        StatusDocument {
            version: VERSION,
            time_ms: 86_400_000 * 19_990,
            process: ProcessStatus {
                program: "0.1.0".into(),
                state: RunState::Serving,
                pid: 12,
                supervisor_pid: 11,
                start_ms: 86_400_000 * 19_990 - 100_000,
                supervisor_start_ms: 0,
                restarts: 0,
                generation: 2,
                rights: RightsStatus {
                    sentence: "runs as user 65534, group 65534; it can open no file".into(),
                    ..RightsStatus::default()
                },
            },
            log: LogStatus {
                lost_bytes: 4096,
                failure: Some("No space left on device".into()),
            },
            reload: ReloadStatus {
                ok: 1,
                refused: 1,
                last: Some(LastReload {
                    time_ms: 951_827_696_000,
                    refused: Some("no such file".into()),
                }),
            },
            workers: vec![WorkerStatus {
                cpu: Some(0),
                connections_open: 24,
                busy_us: 50_000_000,
                loop_iterations: 1,
                events: 99_000,
                accept_errors: 0,
                buffers_in_use: 0,
                buffers_pooled: 0,
            }],
            services: vec![service()],
            kernel_tls: Some(KernelTlsStatus {
                available: false,
                sentence: "its module is not loaded".into(),
                remedy: Some("`modprobe tls` as root".into()),
                rekeys: false,
            }),
            sessions: SessionStatus::default(),
            bounds_us: vec![1000, 2000],
        }
    }

    #[test]
    fn one_document_gives_totals() {
        let expected = "\
lariat 0.1.0 serving plan 2 for 1 min 40 s, process 12 of supervisor 11
the worker process runs as user 65534, group 65534; it can open no file
reloads: 1 ok, 1 refused; the last was refused 2000-02-29 12:34:56 UTC: no such file
log: cannot be written: No space left on device; 4096 bytes are lost
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
        now.workers[0].busy_us += 500_000;
        now.services[0].connections.accepted += 100;
        now.services[0].bytes.down += 4 << 20;
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

    #[test]
    fn an_expired_certificate_stands_out() {
        let mut now = document();
        now.services[0].certificates.expiry_seconds = Some(0);
        now.services[0].certificates.expired = 1;
        let text = render_status_text(&now, None);
        assert!(
            text.contains("3, 1 EXPIRED, the first 1970-01-01"),
            "{text}"
        );
        let said = expired(&now);
        let certificates =
            "service \"web\": 1 of 3 certificates expired; lariat's standard error names the file";
        assert_eq!(said.first().map(String::as_str), Some(certificates));
        assert_eq!(said.len(), 1 + expired(&document()).len());
    }
}
