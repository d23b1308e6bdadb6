//! Makes the outcome of a load: its record, and warnings that its figures may show the client or
//! its host instead of the server.

use std::collections::BTreeMap;
use std::time::Duration;

use measure::capacity::RatePoint;
use measure::choice::RecordedEch;
use measure::quantity::{Nanoseconds, RoundedCount, nanoseconds};
use measure::record::{
    self, CapacitySearch, ClientUsage, FORMAT, Host, LoadRecord, LoadSecond, LoadThread, PlanStep,
    PlannedRate, RecordedTarget, RecordingTool, RequestResult, RunEnding, RunWarning,
    TransactionCounts,
};

use crate::ech::EchOption;
use crate::failure::TransactionFailure;
use crate::plan::{
    ArrivalModel, ClientSelection, Handshake, LoadPlan, PlannedRequest, PlannedTls, Stretch,
    Verification, Verify,
};
use crate::speed::version;
use crate::tally::{LoadTally, StepTally};

/// Result of a load; empty by default.
#[derive(Debug, Default)]
pub struct LoadOutcome {
    pub ending: RunEnding,
    pub(crate) elapsed: Duration,
    /// Time from the beginning of the figures until the last success, which may come after the last
    /// begin. Zero without successes.
    pub until_last_success: Duration,
    /// Busy share of the busiest thread's time, 0 to 1, in the busiest run of a series.
    pub busiest: f64,
    pub(crate) tally: LoadTally,
    pub(crate) seconds: Vec<LoadSecond>,
    pub(crate) steps: Vec<PlanStep>,
    pub(crate) threads: Vec<LoadThread>,
}

/// Fields of a record that the load does not know.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub version: String,
    pub command: Vec<String>,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    pub host: Host,
    /// How long the program was stopped, for example by Ctrl-Z.
    pub stood_still: Duration,
}

impl LoadOutcome {
    pub fn totals(&self) -> TransactionCounts {
        self.tally.totals
    }

    /// Returns the transactions of the warm-up that succeeded after its end: no other count
    /// contains the server's work for them after that.
    pub fn carried(&self) -> u64 {
        self.tally.carried
    }

    /// Returns the transactions that succeeded from the end of the warm-up until no more were
    /// begun, whenever they began.
    pub fn ended_in_time(&self) -> u64 {
        self.tally.steps.iter().map(|step| step.ended).sum::<u64>() + self.tally.carried
    }

    /// Returns the run of one rate as a point; the quantile is a share.
    pub(crate) fn point_over(&self, length: Duration, quantile: f64) -> RatePoint {
        match self.tally.steps.first() {
            Some(step) => point(step, length, quantile),
            None => point(&StepTally::default(), length, quantile),
        }
    }

    /// Adds a later run as a separate step.
    pub(crate) fn append(&mut self, next: Self, length: Duration, point: RatePoint) {
        let first = self.seconds.last().map_or(0, |second| second.at_s + 1);
        self.steps.push(PlanStep {
            // The time is that of the seconds, which follow each other.
            from_ns: first * 1_000_000_000,
            length_ns: nanoseconds(length),
            counts: next.tally.totals,
            point,
        });
        self.busiest = self.busiest.max(next.busiest);
        let seconds = without_rest(next.seconds, length).into_iter();
        self.seconds
            .extend(seconds.map(|second| LoadSecond { at_s: first + second.at_s, ..second }));
        self.until_last_success = self.elapsed + next.until_last_success;
        self.elapsed += next.elapsed;
        self.ending = next.ending;
        self.tally.add(LoadTally { steps: Vec::new(), ..next.tally });
        for (index, thread) in next.threads.into_iter().enumerate() {
            match self.threads.get_mut(index) {
                Some(sum) => {
                    sum.cpu_ns += thread.cpu_ns;
                    sum.lag.add(&thread.lag);
                }
                None => self.threads.push(thread),
            }
        }
    }

    pub fn record(
        mut self,
        plan: &LoadPlan,
        frame: Frame,
        capacity: Option<CapacitySearch>,
    ) -> LoadRecord {
        let cpu_ns = self.threads.iter().map(|thread| thread.cpu_ns).sum();
        let warnings =
            warnings(plan, &self.tally, (self.busiest, frame.stood_still), capacity.is_some());
        LoadRecord {
            format: FORMAT,
            tool: RecordingTool {
                name: "lariat-lab".to_owned(),
                version: frame.version,
                tls: tls_library(),
            },
            command: frame.command,
            plan: plan_of_record(plan),
            started: frame.started,
            host: frame.host,
            target: RecordedTarget { url: plan.target.url.clone(), address: plan.target.places() },
            ending: self.ending,
            elapsed_ns: nanoseconds(self.elapsed),
            warm_up: self.tally.warm_up,
            totals: self.tally.totals,
            failures: self.tally.failures_by_name(),
            addresses: addresses(plan, &self.tally),
            requests: requests(plan, &mut self.tally),
            handshakes: self.tally.handshake_rows(),
            traffic: self.tally.traffic,
            latencies: self.tally.latencies,
            failed_after: self.tally.failed_after,
            seconds: self.seconds,
            steps: self.steps,
            capacity,
            client: ClientUsage {
                cpu_ns,
                resident_bytes_max: resident_bytes_max(),
                threads: self.threads,
            },
            warnings,
        }
    }
}

/// Returns results by address if there are several, including addresses without any transaction.
fn addresses(plan: &LoadPlan, tally: &LoadTally) -> BTreeMap<String, TransactionCounts> {
    let mut found = BTreeMap::<String, TransactionCounts>::new();
    let addresses = &plan.target.addresses;
    for (place, address) in addresses.iter().enumerate().filter(|_| addresses.len() > 1) {
        let counts = tally.addresses.get(&place).copied().unwrap_or_default();
        *found.entry(address.to_string()).or_default() += counts;
    }
    found
}

/// Returns results by request if there are several, in the order of the plan.
fn requests(plan: &LoadPlan, tally: &mut LoadTally) -> Vec<RequestResult> {
    let several = 0..Some(plan.requests.len()).filter(|count| *count > 1).unwrap_or_default();
    several.map(|place| tally.requests.remove(&place).unwrap_or_default()).collect()
}

fn plan_of_record(plan: &LoadPlan) -> record::RecordedPlan {
    let arrival = match &plan.arrival {
        ArrivalModel::Closed { connections } => record::RecordedArrival::Closed(*connections),
        ArrivalModel::Open { stretches, .. } => {
            let rate = |stretch: &Stretch| PlannedRate {
                from_per_s: stretch.from_per_s,
                to_per_s: stretch.to_per_s,
                length_ns: nanoseconds(stretch.length),
            };
            record::RecordedArrival::Open(stretches.iter().map(rate).collect())
        }
    };
    let clients = plan.clients;
    record::RecordedPlan {
        sources: plan.sources.clone(),
        proxy_header: plan.proxy_header,
        move_sessions: plan.target.moves_sessions,
        tls: plan.tls.as_ref().map(tls_of_record),
        request: match &plan.requests[..] {
            [one] => Some(request_of_record(one)),
            _ => None,
        },
        requests: match &plan.requests[..] {
            [] | [_] => Vec::new(),
            several => several.iter().map(request_of_record).collect(),
        },
        ending: plan.ending,
        arrival,
        spacing: match plan.arrival {
            ArrivalModel::Closed { .. } => None,
            ArrivalModel::Open { spacing, .. } => Some(spacing),
        },
        clients: clients.count,
        client_selection: clients.selection,
        requests_per_session: clients.requests_per_session,
        requests_per_connection: clients.requests_per_connection,
        think_time_ns: nanoseconds(clients.think),
        requests_per_arrival: plan.requests_per_arrival(),
        duration_ns: nanoseconds(plan.duration),
        count_max: plan.count_max,
        warm_up_ns: nanoseconds(plan.warm_up),
        timeout_ns: nanoseconds(plan.timeout),
        threads: plan.threads.count,
        cpus: plan.threads.cpus.clone(),
        seed: plan.seed,
    }
}

fn request_of_record(request: &PlannedRequest) -> record::RecordedRequest {
    record::RecordedRequest {
        method: request.method.clone(),
        path: request.path.clone(),
        headers: request.headers.clone(),
        body_bytes: request.body.len() as u64,
        weight: request.weight,
    }
}

fn tls_of_record(tls: &PlannedTls) -> record::RecordedTls {
    let text = |protocol: &Vec<u8>| String::from_utf8_lossy(protocol).into_owned();
    record::RecordedTls {
        starttls: tls.starttls.map(|dialect| dialect.name().to_owned()),
        versions: tls.versions,
        handshakes: tls.handshakes.clone(),
        suites: tls.suites.clone(),
        groups: tls.groups.clone(),
        signatures: tls.signatures.clone(),
        alpn: tls.alpn.iter().map(text).collect(),
        server_name: tls.server_name.clone(),
        client_certificate: tls.client_certificate.is_some(),
        verify: match tls.verification {
            // Checking certificates byte by byte has no flag.
            Verification::Off | Verification::These(_) => Verify::Off,
            Verification::Signature => Verify::Signature,
            Verification::Authority(_) => Verify::Full,
        },
        tickets: tls.tickets,
        session_ids: tls.session_ids,
        early_data: tls.early_data,
        certificate_compression: tls.certificate_compression,
        ech: tls.ech.as_ref().map(|ech| match ech {
            EchOption::Grease => RecordedEch::Grease,
            EchOption::Configurations(_) => RecordedEch::Configuration,
        }),
    }
}

/// Returns the libraries that make the handshakes, with their versions.
pub fn tls_library() -> String {
    format!("rustls {}, aws-lc-rs {}", version("rustls"), version("aws-lc-rs"))
}

/// Seconds in which transactions were begun. What ended after them is counted in the last one:
/// between two runs of a series there is no time that belongs to either.
fn without_rest(mut seconds: Vec<LoadSecond>, length: Duration) -> Vec<LoadSecond> {
    let whole = length.as_secs_f64().ceil().max(1.0) as usize;
    let rest = seconds.split_off(whole.min(seconds.len()));
    let Some(last) = seconds.last_mut() else {
        return seconds;
    };
    for second in rest {
        // Numbers of connections that were open at different times do not add up.
        last.open = 0;
        *last += second;
    }
    seconds
}

/// Returns the steps of a plan with several rates.
pub(crate) fn steps(arrival: &ArrivalModel, tally: &LoadTally) -> Vec<PlanStep> {
    let ArrivalModel::Open { stretches, .. } = arrival else {
        return Vec::new();
    };
    if stretches.len() < 2 {
        return Vec::new();
    }
    let mut from = Duration::ZERO;
    let steps = stretches.iter().zip(&tally.steps).map(|(stretch, step)| {
        let begun = from;
        from += stretch.length;
        PlanStep {
            from_ns: nanoseconds(begun),
            length_ns: nanoseconds(stretch.length),
            counts: step.counts,
            point: RatePoint {
                offered_per_s: stretch.from_per_s,
                ..point(step, stretch.length, 0.99)
            },
        }
    });
    steps.collect()
}

fn point(step: &StepTally, length: Duration, quantile: f64) -> RatePoint {
    let seconds = length.as_secs_f64().max(1e-9);
    let TransactionCounts { attempted, failed, .. } = step.counts;
    RatePoint {
        offered_per_s: attempted as f64 / seconds,
        // Later ends are no goodput of this rate.
        succeeded_per_s: step.ended as f64 / seconds,
        error_rate: failed as f64 / (attempted.max(1)) as f64,
        mean_ns: step.total.mean_ns(),
        quantile_ns: step.total.quantile_ns(quantile) as f64,
    }
}

/// Returns the greatest resident memory of this process; 0 if the kernel does not report it.
fn resident_bytes_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Busy share at which a thread is the limit itself.
const BUSY_MAX: f64 = 0.85;

/// Maximum lag of the 99th percentile.
const LAG_MAX: Duration = Duration::from_millis(5);

/// Minimum of transactions, because with fewer the 99th percentile is a single one.
const TRANSACTIONS_MIN: u64 = 100;

/// Returns warnings that make the figures doubtful, with the remedy.
///
/// `busiest` is the busy share of the busiest thread's time. A search overloads its server
/// intentionally. A load whose program was stopped was late for that reason, whatever the CPU and
/// the server did.
pub(crate) fn warnings(
    plan: &LoadPlan,
    tally: &LoadTally,
    (busiest, stood_still): (f64, Duration),
    is_search: bool,
) -> Vec<RunWarning> {
    let mut warnings: Vec<_> = interrupted_by_stop(stood_still).into_iter().collect();
    if let Some(warning) = fruitless(tally) {
        // All other warnings would be about missing figures.
        warnings.push(warning);
        return warnings;
    }
    let may_be_late = !warnings.is_empty();
    warnings.extend(busy(plan, busiest));
    warnings.extend(lag(tally).filter(|_| !may_be_late));
    warnings.extend(failures(tally, |failure| match failure {
        TransactionFailure::ScheduleOverrun => may_be_late,
        TransactionFailure::ClientsExhausted => may_be_late || is_search,
        _ => false,
    }));
    warnings.extend(too_many_clients(plan, tally));
    warnings.extend(few(tally));
    warnings
}

/// Returns the warning about a load whose program was stopped for this long; `None` if it was not.
pub fn interrupted_by_stop(stood_still: Duration) -> Option<RunWarning> {
    (!stood_still.is_zero()).then(|| RunWarning {
        seen: format!(
            "the load was stopped for {}, and did nothing meanwhile",
            Nanoseconds(nanoseconds(stood_still) as f64)
        ),
        hint: "what was due then began late or not at all, which says nothing of the server: \
               repeat the load without Ctrl-Z or SIGSTOP"
            .to_owned(),
    })
}

/// Returns the warning that all transactions failed, in the words of the table of reasons.
fn fruitless(tally: &LoadTally) -> Option<RunWarning> {
    let (reason, count) = tally.failures.iter().max_by_key(|(_, count)| **count)?;
    (tally.totals.succeeded == 0).then(|| RunWarning {
        seen: format!("nothing succeeded: {} {}", reason.name(), RoundedCount(*count as f64)),
        hint: reason.meaning().to_owned(),
    })
}

fn busy(plan: &LoadPlan, busiest: f64) -> Option<RunWarning> {
    (busiest > BUSY_MAX).then(|| RunWarning {
        seen: format!(
            "a thread of the load was busy for {:.0} % of the time: the client may be the limit, \
             not the server",
            busiest.min(1.0) * 100.0
        ),
        hint: format!(
            "more threads (`--threads {}`) on CPUs that the server does not use, a second host, \
             or a lower rate",
            plan.threads.count + 1
        ),
    })
}

fn lag(tally: &LoadTally) -> Option<RunWarning> {
    let late_ns = tally.lag.quantile_ns(0.99);
    (u128::from(late_ns) > LAG_MAX.as_nanos()).then(|| RunWarning {
        seen: format!(
            "one transaction in a hundred began {} or more after its planned instant",
            Nanoseconds(late_ns as f64)
        ),
        hint: "response times count from the planned instant, so they hold; but the load had not \
               the CPU to keep its schedule: more `--threads`, other `--cpus`, or a lower rate"
            .to_owned(),
    })
}

/// Failures caused by the client's host rather than by the server, with the symptom and a hint.
const OWN_FAILURES: [(TransactionFailure, &str, &str); 4] = [
    (
        TransactionFailure::NoLocalPort,
        "dials found no local port free",
        "add addresses of this host with `--source`, keep connections open with \
         `--requests-per-connection`, or see net.ipv4.ip_local_port_range and tcp_tw_reuse",
    ),
    (
        TransactionFailure::NoDescriptor,
        "dials found no file descriptor free",
        "raise the limit (`ulimit -n`), or use fewer clients",
    ),
    (
        TransactionFailure::ScheduleOverrun,
        "transactions were left out: the load had not the CPU to begin them",
        "more `--threads`, other `--cpus`, or a lower rate",
    ),
    (
        TransactionFailure::ClientsExhausted,
        "transactions could not begin: every client was busy",
        "the server is slower than the rate; or, if it answers slowly by design, give more \
         `--clients`",
    ),
];

fn failures(
    tally: &LoadTally,
    is_left_out: impl Fn(TransactionFailure) -> bool,
) -> Vec<RunWarning> {
    let rows = OWN_FAILURES.into_iter().filter(|row| !is_left_out(row.0));
    let warning = |(failure, seen, hint): (_, &str, &str)| {
        let count = tally.failures.get(&failure)?;
        let seen = format!("{} {seen}", RoundedCount(*count as f64));
        Some(RunWarning { seen, hint: hint.to_owned() })
    };
    rows.filter_map(warning).collect()
}

/// Warns of too many clients: if they are many, the full first handshake of each is the only one.
fn too_many_clients(plan: &LoadPlan, tally: &LoadTally) -> Option<RunWarning> {
    let resumes = |kind: &Handshake| *kind != Handshake::Full;
    let tls = plan.tls.as_ref()?;
    let transactions = tally.warm_up.attempted + tally.totals.attempted;
    let clients = u64::from(plan.clients.count);
    // All clients are new with session arrivals. If sessions end, clients that have one take turns
    // with one that has none: further ones do not participate until they are needed.
    let all_take_part = plan.clients.selection == ClientSelection::RoundRobin
        && plan.clients.requests_per_session.is_none()
        && plan.requests_per_arrival().is_none();
    let is_too_many =
        all_take_part && tls.handshakes.iter().any(resumes) && transactions < 2 * clients;
    is_too_many.then(|| RunWarning {
        seen: format!(
            "{} clients made {} transactions, and the first handshake of each client is full: few \
             or none could resume",
            RoundedCount(clients as f64),
            RoundedCount(transactions as f64)
        ),
        hint: "fewer `--clients`, or a longer `--duration`".to_owned(),
    })
}

fn few(tally: &LoadTally) -> Option<RunWarning> {
    let succeeded = tally.totals.succeeded;
    (succeeded < TRANSACTIONS_MIN && tally.totals.attempted > 0).then(|| RunWarning {
        seen: match succeeded {
            1 => "only one transaction succeeded".to_owned(),
            _ => format!("only {} transactions succeeded", RoundedCount(succeeded as f64)),
        },
        hint: "percentiles of so few say little: a longer `--duration`".to_owned(),
    })
}
