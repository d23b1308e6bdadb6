//! Makes records by code, with the shapes of real runs. Each call gives the same.

#![allow(dead_code, reason = "each test binary takes the records that it needs")]

use std::collections::BTreeMap;
use std::time::Duration;

use measure::capacity::{CapacityLimit, RatePoint, ReadOffs};
use measure::choice::Kind;
use measure::choice::{Group, Handshake, Signature, Suite, Verify, Versions};
use measure::histogram::Histogram;
use measure::record::{
    CapacitySearch, ClientUsage, HandshakeCounts, Host, Latencies, LoadRecord, LoadSecond,
    LoadThread, PlanStep, PlannedRate, RecordedArrival, RecordedPlan, RecordedRequest,
    RecordedTarget, RecordedTls, RecordingTool, RunEnding, RunWarning, TrafficBytes,
    TransactionCounts,
};
use report::ReportDocument;

/// Returns the report of one record.
pub(crate) fn report_of(record: &LoadRecord) -> ReportDocument {
    report::load::document(&[("run", record)])
}

pub(crate) fn report(records: &[LoadRecord]) -> ReportDocument {
    let named: Vec<_> = records.iter().map(|record| ("run", record)).collect();
    report::load::document(&named)
}

pub(crate) fn empty() -> LoadRecord {
    LoadRecord {
        format: measure::record::FORMAT,
        tool: RecordingTool {
            name: "lariat-lab".to_owned(),
            version: "0.1.0".to_owned(),
            tls: "rustls 0.23.46".to_owned(),
        },
        command: words("lariat-lab load https://127.0.0.1:8443/1k"),
        plan: RecordedPlan {
            tls: Some(offered()),
            requests: Vec::new(),
            request: Some(RecordedRequest {
                weight: 1,
                method: "GET".to_owned(),
                path: "/1k".to_owned(),
                headers: Vec::new(),
                body_bytes: 0,
            }),
            arrival: RecordedArrival::Closed(32),
            clients: 32,
            requests_per_connection: Some(1),
            duration_ns: 10_000_000_000,
            timeout_ns: 10_000_000_000,
            threads: 1,
            ..RecordedPlan::default()
        },
        started: "2026-11-21T23:20:11Z".to_owned(),
        host: Host {
            cpu: "AMD EPYC 7B13".to_owned(),
            cpus: 2,
            memory_bytes: 8 << 30,
            kernel: "Linux 6.8.0".to_owned(),
            hypervisor: Some("KVM".to_owned()),
            load_average: 0.42,
        },
        target: RecordedTarget {
            url: "https://127.0.0.1:8443/1k".to_owned(),
            address: "127.0.0.1:8443".to_owned(),
        },
        ending: RunEnding::Interrupted,
        ..LoadRecord::default()
    }
}

/// Makes a record small enough to read by eye: two transactions.
pub(crate) fn tiny() -> LoadRecord {
    let histogram = |times: [u64; 2]| {
        let mut histogram = Histogram::default();
        for us in times {
            histogram.record(Duration::from_micros(us));
        }
        histogram
    };
    let mut record = empty();
    record.ending = RunEnding::Completed;
    record.elapsed_ns = 1_000_000_000;
    record.totals = TransactionCounts { attempted: 3, succeeded: 2, failed: 1 };
    record.failures = split(1, &["handshake-reset"]);
    record.handshakes.extend(handshakes((Kind::Full, 1.0), record.totals));
    record.traffic =
        TrafficBytes { connections: 3, received_bytes: 4570, sent_bytes: 1260, body_bytes: 2048 };
    record.latencies.insert(
        Kind::Full,
        Latencies {
            handshake: histogram([950, 1120]),
            first_byte: histogram([1210, 1390]),
            total: histogram([1230, 1410]),
        },
    );
    record.seconds = vec![LoadSecond {
        at_s: 0,
        attempted: 3,
        succeeded: 2,
        failed: 1,
        resumed: 0,
        full: 2,
        mean_ns: 1_320_000,
        median_ns: 1_230_000,
        p99_ns: 1_410_000,
        max_ns: 1_410_000,
        open: 0,
    }];
    record.client = ClientUsage {
        cpu_ns: 1_900_000,
        resident_bytes_max: 9 << 20,
        threads: vec![LoadThread { cpu: Some(1), cpu_ns: 1_900_000, lag: histogram([12, 31]) }],
    };
    record.warnings = vec![RunWarning {
        seen: "one of 3 transactions failed: handshake-reset 1".to_owned(),
        hint: "`docs/reference/failures.md` describes each reason".to_owned(),
    }];
    record
}

/// Makes a record of one second and one client, without noticeable spread.
pub(crate) fn one_second() -> LoadRecord {
    let mut run = Run::new(7, "full");
    run.second(400, 0, 2.5, 2.0);
    run.finish(&[(Kind::Full, 1.0)])
}

/// Makes 30 seconds of kept connections: fast, even, a few of them new.
pub(crate) fn keep_alive() -> LoadRecord {
    let mut run = Run::new(3, "full");
    for _ in 0..30 {
        let attempted = run.noisy(21_400.0, 0.02) as u64;
        let mean_ms = run.noisy(0.43, 0.04);
        run.second(attempted, 0, mean_ms, 3.0);
    }
    run.set("requests-per-connection", "100");
    run.finish(&[(Kind::Kept, 0.99), (Kind::Full, 0.01)])
}

/// Makes one full handshake and three resumptions of a session, of one kind, at a rate.
pub(crate) fn resumed(kind: Kind, seed: u64) -> LoadRecord {
    let mut run = Run::new(seed, kind.name());
    for _ in 0..20 {
        let attempted = run.noisy(2000.0, 0.015) as u64;
        let mean_ms = run.noisy(1.9, 0.08);
        run.second(attempted, u64::from(attempted.is_multiple_of(7)), mean_ms, 4.0);
    }
    run.set("requests-per-session", "4");
    run.finish(&[(Kind::Full, 0.25), (kind, 0.75)])
}

/// Makes a ramp past the capacity, as in Bernat's plots: at 788 per second it gives way.
pub(crate) fn ramp() -> LoadRecord {
    let mut run = Run::new(11, "session-id");
    for second in 0..120 {
        let offered = 10.0 * f64::from(second + 1);
        let over = (offered / 788.0 - 1.0).max(0.0);
        let near = (offered / 788.0).min(1.0);
        let attempted = run.noisy(offered, 0.01) as u64;
        let lost = run.noisy((over * 1.6).min(0.8), 0.2);
        let mean_ms = run.noisy(4.0 + 60.0 * near.powi(24) + 3000.0 * over.min(0.4), 0.25);
        run.second(attempted, (attempted as f64 * lost) as u64, mean_ms, 3.0);
    }
    run.set("requests-per-session", "4");
    run.set("ramp", "10:1200:2m");
    let mut record = run.finish(&[(Kind::Full, 0.25), (Kind::SessionId, 0.75)]);
    record.plan.arrival = RecordedArrival::Open(vec![PlannedRate {
        from_per_s: 10.0,
        to_per_s: 1200.0,
        length_ns: 120_000_000_000,
    }]);
    record.steps = steps_of(&record, 10);
    let points: Vec<RatePoint> = record.steps.iter().map(|step| step.point).collect();
    let read_offs = ReadOffs::of(&points);
    record.capacity = Some(CapacitySearch {
        limit: CapacityLimit::default(),
        precision: 0.05,
        found_per_s: read_offs.few_errors_per_s,
        broken_at_per_s: Some(845.0),
        kept_by_all_per_s: Some(790.0),
        broken_by_all_per_s: Some(880.0),
        read_offs,
    });
    record.failures = split(record.totals.failed, &["timeout", "connect-refused", "reset"]);
    record.warnings = vec![RunWarning {
        seen: "the client's threads were busy for 93 % of the last 30 s".to_owned(),
        hint: "give it more threads with --threads, or another host".to_owned(),
    }];
    record
}

/// Makes a ramp without a search: no steps, only seconds.
pub(crate) fn plain_ramp() -> LoadRecord {
    LoadRecord { steps: Vec::new(), capacity: None, ..ramp() }
}

/// Makes a record of impossible numbers: none, infinite, or as great as can be.
pub(crate) fn broken() -> LoadRecord {
    let mut record = ramp();
    record.host.load_average = f64::NAN;
    record.steps[0].point.offered_per_s = f64::INFINITY;
    record.steps[1].point.mean_ns = f64::NAN;
    record.steps[2].point.succeeded_per_s = f64::NEG_INFINITY;
    record.steps[3].point.error_rate = f64::NAN;
    record.seconds[5].mean_ns = u64::MAX;
    record.seconds[6].attempted = u64::MAX;
    record.seconds[7].at_s = u64::MAX;
    record.handshakes[0].count = u64::MAX;
    record.handshakes[1].count = u64::MAX;
    record.totals.attempted = u64::MAX;
    record.client.cpu_ns = u64::MAX;
    record.elapsed_ns = u64::MAX;
    if let Some(capacity) = &mut record.capacity {
        capacity.found_per_s = Some(f64::NAN);
        capacity.read_offs.peak_per_s = Some(f64::INFINITY);
    }
    record
}

/// Makes a server that fails in the middle and returns, with seconds without any success.
pub(crate) fn failing() -> LoadRecord {
    let mut run = Run::new(5, "psk");
    for second in 0..40 {
        let is_down = (15..22).contains(&second);
        let attempted = run.noisy(500.0, 0.02) as u64;
        let mean_ms = run.noisy(6.0, 0.2);
        run.second(attempted, if is_down { attempted } else { 0 }, mean_ms, 3.0);
    }
    let mut record = run.finish(&[(Kind::Full, 0.1), (Kind::Psk, 0.9)]);
    record.failures = split(record.totals.failed, &["connect-refused", "reset", "handshake"]);
    record
}

/// Makes every second of a long run, with a spike that must not be lost.
pub(crate) fn long(seconds: u32) -> LoadRecord {
    let mut run = Run::new(9, "full");
    for second in 0..seconds {
        let attempted = run.noisy(1000.0, 0.05) as u64;
        let mean_ms = run.noisy(3.0, 0.1);
        run.second(attempted, if second == seconds / 2 { 777 } else { 0 }, mean_ms, 2.0);
    }
    run.finish(&[(Kind::Full, 1.0)])
}

fn offered() -> RecordedTls {
    RecordedTls {
        versions: Versions::Both,
        handshakes: vec![Handshake::Full],
        suites: vec![Suite::Aes128Gcm13],
        groups: vec![Group::X25519],
        signatures: vec![Signature::EcdsaP256],
        alpn: Vec::new(),
        server_name: None,
        client_certificate: false,
        verify: Verify::Off,
        tickets: true,
        session_ids: true,
        early_data: false,
        certificate_compression: false,
        ech: None,
        starttls: None,
    }
}

/// Makes a record whose every string tries to inject a script, a colour or a second cell.
pub(crate) fn hostile() -> LoadRecord {
    let evil = "\"><script>alert('x')</script>&amp;\u{1b}[31m\u{202e}";
    let mut record = failing();
    let (host, tool) = (&mut record.host, &mut record.tool);
    for text in [
        &mut record.target.address,
        &mut record.started,
        &mut host.cpu,
        &mut host.kernel,
        &mut tool.name,
        &mut tool.version,
        &mut tool.tls,
    ] {
        evil.clone_into(text);
    }
    host.hypervisor = Some(evil.to_owned());
    record.target.url = format!("https://host/{evil}");
    record.command.push(evil.to_owned());
    let request = record.plan.request.as_mut().expect("it asks");
    request.path = evil.to_owned();
    request.headers = vec![(evil.to_owned(), evil.to_owned())];
    record.failures.insert(evil.to_owned(), 3);
    for row in &mut record.handshakes {
        row.version = evil.to_owned();
        row.suite = evil.to_owned();
        row.group = Some(evil.to_owned());
        row.signature = Some(evil.to_owned());
        row.alpn = Some(evil.to_owned());
    }
    record.steps = steps_of(&record, 4);
    record.capacity = Some(CapacitySearch {
        limit: CapacityLimit {
            quantile_below_ns: Some((0.99, 5_000_000)),
            ..CapacityLimit::default()
        },
        precision: 0.05,
        found_per_s: Some(1.0),
        broken_at_per_s: None,
        kept_by_all_per_s: None,
        broken_by_all_per_s: None,
        read_offs: ReadOffs::default(),
    });
    record.warnings = vec![RunWarning { seen: evil.to_owned(), hint: evil.to_owned() }];
    record
}

/// A run under construction.
struct Run {
    chance: u64,
    seconds: Vec<LoadSecond>,
    total: Histogram,
    flags: Vec<[String; 2]>,
}

impl Run {
    fn new(seed: u64, handshake: &str) -> Self {
        Self {
            chance: seed,
            seconds: Vec::new(),
            total: Histogram::default(),
            flags: vec![["--handshake".to_owned(), handshake.to_owned()]],
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.flags.push([format!("--{name}"), value.to_owned()]);
    }

    /// Returns a number from 0 to 1 (splitmix64).
    fn share(&mut self) -> f64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the value with random noise.
    fn noisy(&mut self, value: f64, noise: f64) -> f64 {
        let sum: f64 = (0..4).map(|_| self.share() - 0.5).sum();
        (value * (1.0 + noise * sum * 1.7)).max(0.0)
    }

    /// Adds a second, in which the slowest transactions take `skew` times the mean.
    fn second(&mut self, attempted: u64, failed: u64, mean_ms: f64, skew: f64) {
        let succeeded = attempted.saturating_sub(failed);
        let mut of_second = Histogram::default();
        for _ in 0..succeeded.min(200) {
            // Exponential above a minimum, like a queue's waiting times.
            let waited = -(1.0 - self.share()).ln() * (skew / 6.0);
            let ms = mean_ms * (1.0 - skew / 6.0 + waited);
            of_second.record(Duration::from_secs_f64(ms.max(0.02) / 1e3));
        }
        self.seconds.push(LoadSecond {
            at_s: self.seconds.len() as u64,
            attempted,
            succeeded,
            failed,
            mean_ns: of_second.mean_ns() as u64,
            median_ns: of_second.quantile_ns(0.5),
            p99_ns: of_second.quantile_ns(0.99),
            max_ns: of_second.max_ns(),
            open: 50,
            ..LoadSecond::default()
        });
        self.total.add(&of_second);
    }

    fn finish(mut self, kinds: &[(Kind, f64)]) -> LoadRecord {
        let sum = |of: fn(&LoadSecond) -> u64| self.seconds.iter().map(of).sum::<u64>();
        let totals = TransactionCounts {
            attempted: sum(|second| second.attempted),
            succeeded: sum(|second| second.succeeded),
            failed: sum(|second| second.failed),
        };
        for second in &mut self.seconds {
            for (kind, share) in kinds.iter().filter(|(kind, _)| kind.is_handshake()) {
                let count = (second.succeeded as f64 * share).round() as u64;
                if kind.is_resumption() { second.resumed += count } else { second.full += count }
            }
        }
        let elapsed_ns = self.seconds.len() as u64 * 1_000_000_000;
        let mut record = empty();
        record.command.extend(self.flags.into_iter().flatten());
        // Each run has a different record.
        let seed = self.chance % 1000;
        record.command.extend(["--record".to_owned(), format!("{seed}.json")]);
        record.ending = RunEnding::Completed;
        record.elapsed_ns = elapsed_ns;
        record.totals = totals;
        let mean: f64 = kinds.iter().map(|(kind, share)| cost(*kind) * share).sum();
        record.latencies =
            kinds.iter().map(|kind| latencies(*kind, &self.total, cost(kind.0) / mean)).collect();
        record.handshakes = kinds.iter().filter_map(|kind| handshakes(*kind, totals)).collect();
        record.traffic = TrafficBytes {
            connections: record.handshakes.iter().map(|row| row.count).sum(),
            received_bytes: totals.succeeded * 2300,
            sent_bytes: totals.attempted * 640,
            body_bytes: totals.succeeded * 1024,
        };
        record.failures = split(totals.failed, &["timeout"]);
        record.client = client(totals.attempted, elapsed_ns);
        record.seconds = self.seconds;
        record
    }
}

/// Returns the histogram with its times and counts multiplied.
fn scaled(histogram: &Histogram, time: f64, count: f64) -> Histogram {
    let mut scaled = Histogram::default();
    for (ns, of_it) in histogram.buckets() {
        for _ in 0..(of_it as f64 * count).ceil() as u64 {
            scaled.record(Duration::from_nanos((ns as f64 * time) as u64));
        }
    }
    scaled
}

/// Returns how long a transaction takes, compared with others.
fn cost(kind: Kind) -> f64 {
    match kind {
        Kind::Full => 1.6,
        Kind::SessionId => 0.7,
        Kind::Ticket => 0.8,
        Kind::Psk => 0.9,
        Kind::Kept | Kind::Plain => 0.4,
    }
}

fn latencies((kind, share): (Kind, f64), total: &Histogram, factor: f64) -> (Kind, Latencies) {
    let handshake =
        if kind.is_handshake() { scaled(total, factor * 0.6, share) } else { Histogram::default() };
    let latencies = Latencies {
        handshake,
        first_byte: scaled(total, factor * 0.96, share),
        total: scaled(total, factor, share),
    };
    (kind, latencies)
}

fn handshakes((kind, share): (Kind, f64), totals: TransactionCounts) -> Option<HandshakeCounts> {
    let is_13 = matches!(kind, Kind::Full | Kind::Psk);
    let (version, suite) = if is_13 {
        ("TLSv1.3", "TLS_AES_128_GCM_SHA256")
    } else {
        ("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    };
    kind.is_handshake().then(|| HandshakeCounts {
        kind,
        version: version.to_owned(),
        suite: suite.to_owned(),
        group: is_13.then(|| "x25519".to_owned()),
        signature: (kind == Kind::Full).then(|| "ecdsa_secp256r1_sha256".to_owned()),
        alpn: None,
        retried: false,
        early_data_accepted: None,
        ech: None,
        count: (totals.succeeded as f64 * share).round() as u64,
    })
}

fn client(attempted: u64, elapsed_ns: u64) -> ClientUsage {
    let mut lag = Histogram::default();
    for transaction in 0..attempted.min(1000) {
        lag.record(Duration::from_micros(20 + transaction % 70));
    }
    ClientUsage {
        cpu_ns: attempted * 31_000,
        resident_bytes_max: 23 << 20,
        threads: vec![LoadThread {
            cpu: Some(1),
            cpu_ns: (attempted * 30_500).min(elapsed_ns),
            lag,
        }],
    }
}

fn steps_of(record: &LoadRecord, length_s: usize) -> Vec<PlanStep> {
    let chunks = record.seconds.chunks(length_s).enumerate();
    let step = |(index, seconds): (usize, &[LoadSecond])| {
        let sum = |of: fn(&LoadSecond) -> u64| seconds.iter().map(of).sum::<u64>();
        let (attempted, succeeded) = (sum(|s| s.attempted), sum(|s| s.succeeded));
        let length = seconds.len() as f64;
        let weighted: u64 = seconds.iter().map(|s| s.mean_ns * s.succeeded).sum();
        PlanStep {
            from_ns: (index * length_s) as u64 * 1_000_000_000,
            length_ns: seconds.len() as u64 * 1_000_000_000,
            counts: TransactionCounts { attempted, succeeded, failed: attempted - succeeded },
            point: RatePoint {
                offered_per_s: attempted as f64 / length,
                succeeded_per_s: succeeded as f64 / length,
                error_rate: 1.0 - succeeded as f64 / attempted as f64,
                mean_ns: weighted as f64 / succeeded.max(1) as f64,
                quantile_ns: sum(|s| s.p99_ns) as f64 / length,
            },
        }
    };
    chunks.map(step).collect()
}

/// Splits a count into shares, the first the greatest.
fn split(count: u64, reasons: &[&str]) -> BTreeMap<String, u64> {
    let mut left = count;
    let mut failures = BTreeMap::new();
    for (index, reason) in reasons.iter().enumerate() {
        let part = if index + 1 == reasons.len() { left } else { left * 3 / 4 };
        left -= part;
        if part > 0 {
            failures.insert((*reason).to_owned(), part);
        }
    }
    failures
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
