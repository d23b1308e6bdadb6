//! Reads the resources that a loaded server used (CPU time, memory, switches, and the whole
//! machine's time), and makes parts of the record and warnings of them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use std::{fs, io};

use load::plan::{ArrivalModel, LoadPlan, Stretch};
use load::run::Stopper;
use measure::capacity::{RatePoint, ReadOffs};
use measure::experiment::DurationSummary;
use measure::histogram::Histogram;
use measure::quantity::nanoseconds;
use measure::record::{BackgroundResult, LoadRecord, LoadSecond, RunWarning, TransactionCounts};

use super::verdict::{Measured, MeasurementFailure};
use crate::process::{CpuReading, ProcessTree};
use crate::targets::form::OutputNumbers;

/// The processes whose CPU time is read.
#[derive(Clone, Debug)]
pub(crate) struct WatchedProcesses {
    pub(crate) server: ProcessTree,
    pub(crate) origin: ProcessTree,
    /// CPUs of server and client.
    pub(crate) cpus: BTreeSet<u16>,
    /// The load in the background, during which the server never rests.
    pub(crate) background: Option<Stopper>,
}

/// CPU time at a moment.
#[derive(Clone, Debug)]
pub(crate) struct TimedReading {
    server: CpuReading,
    /// Number of times that threads of the server went to sleep.
    server_switches: u64,
    origin: CpuReading,
    /// CPU time of this process, which makes the load.
    own: Duration,
    /// CPU time of child processes that have ended.
    ended: Duration,
    machine: MachineTime,
    background: Option<(u64, u64)>,
    at: Instant,
}

/// CPU time between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuUsage {
    pub(crate) server: Duration,
    /// Number of times that the server's threads went to sleep.
    pub(crate) server_switches: u64,
    pub(crate) origin: Duration,
    pub(crate) ended: Duration,
    /// Share of CPU time used by other programs, 0 to 1.
    pub(crate) foreign: f64,
    /// Share of CPU time that the hypervisor gave to others, 0 to 1.
    pub(crate) stolen: f64,
    pub(crate) background: Option<BackgroundResult>,
}

impl WatchedProcesses {
    /// Reads usage when the server is at rest; with a load in the background it reads at once.
    ///
    /// # Errors
    /// Fails if the server does not come to rest.
    pub(crate) fn usage_at_rest(&self) -> Measured<TimedReading> {
        match &self.background {
            None => self.with_others(self.server.cpu_at_rest()?),
            Some(_) => self.usage_now(),
        }
    }

    /// Reads usage now, even if the server is working.
    pub(crate) fn usage_now(&self) -> Measured<TimedReading> {
        self.with_others(self.server.cpu()?)
    }

    fn with_others(&self, server: CpuReading) -> Measured<TimedReading> {
        let own = sys::cpu::process_time(std::process::id())?;
        Ok(TimedReading {
            server,
            server_switches: self.server.switches()?,
            origin: self.origin.cpu()?,
            own,
            ended: sys::cpu::ended_children_time(),
            machine: MachineTime::now(&self.cpus)?,
            background: self.background.as_ref().map(Stopper::done),
            at: Instant::now(),
        })
    }
}

impl TimedReading {
    /// Removes server processes missing in a later reading: their final use is unknown.
    pub(crate) fn forget_ended(&mut self, after: &Self) {
        self.server.forget_ended(&after.server);
    }

    /// Returns the use since `before`.
    ///
    /// # Errors
    /// A process of the server or the origin ended in between: what it used is lost.
    pub(crate) fn since(&self, before: &Self) -> Measured<CpuUsage> {
        let server = self.server.since(&before.server)?;
        let origin = self.origin.since(&before.origin);
        let origin = origin
            .map_err(|fault| MeasurementFailure::Failed(format!("of the origin: {fault}")))?;
        let ended = self.ended.saturating_sub(before.ended);
        let own = self.own.saturating_sub(before.own);
        let machine = self.machine.since(before.machine);
        Ok(CpuUsage {
            server,
            server_switches: self.server_switches.saturating_sub(before.server_switches),
            origin,
            ended,
            foreign: machine.foreign(server + origin + own + ended),
            stolen: machine.stolen(),
            background: self.background.zip(before.background).map(|((bytes, succeeded), then)| {
                BackgroundResult {
                    received_bytes: bytes - then.0,
                    succeeded: Some(succeeded - then.1),
                    elapsed_ns: self.at.saturating_duration_since(before.at).as_nanos() as u64,
                }
            }),
        })
    }
}

impl CpuUsage {
    /// Returns the share of a time in which `cpus` CPUs of the server worked for it, 0 to 1.
    pub(crate) fn server_busy(&self, elapsed: Duration, cpus: usize) -> f64 {
        share(self.server, elapsed * u32::try_from(cpus).unwrap_or(u32::MAX))
    }
}

/// A tick of `/proc/stat` (`USER_HZ`, which is 100 on every platform that we build for).
const TICK: Duration = Duration::from_millis(10);

/// CPU time of some CPUs since they started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct MachineTime {
    pub(crate) busy: Duration,
    /// Time that the hypervisor gave to other guests.
    pub(crate) stolen: Duration,
    pub(crate) all: Duration,
}

impl MachineTime {
    pub(crate) fn now(cpus: &BTreeSet<u16>) -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/stat")?, cpus))
    }

    /// Parses proc(5): `cpuN user nice system idle iowait irq softirq steal guest guest_nice`; the
    /// time of guests is part of `user` and `nice`.
    fn parse(stat: &str, cpus: &BTreeSet<u16>) -> Self {
        let mut sum = Self::default();
        for line in stat.lines() {
            let mut words = line.split_whitespace();
            let name = words.next().and_then(|word| word.strip_prefix("cpu"));
            let cpu = name.and_then(|number| number.parse().ok());
            if cpu.is_some_and(|cpu| cpus.contains(&cpu)) {
                let ticks: Vec<u32> = words.map_while(|word| word.parse().ok()).collect();
                sum.add(&ticks);
            }
        }
        sum
    }

    fn add(&mut self, ticks: &[u32]) {
        let of = |fields: &[usize]| {
            let ticks = fields.iter().filter_map(|field| ticks.get(*field)).copied();
            ticks.map(|ticks| TICK * ticks).sum::<Duration>()
        };
        let (busy, stolen) = (of(&[0, 1, 2, 5, 6]), of(&[7]));
        self.busy += busy;
        self.stolen += stolen;
        self.all += busy + stolen + of(&[3, 4]);
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            stolen: self.stolen.saturating_sub(before.stolen),
            all: self.all.saturating_sub(before.all),
        }
    }

    /// Returns the share of all time that was used beyond `ours`, 0 to 1.
    pub(crate) fn foreign(self, ours: Duration) -> f64 {
        share(self.busy.saturating_sub(ours), self.all)
    }

    /// Returns the share of all time that the hypervisor gave to others, 0 to 1.
    pub(crate) fn stolen(self) -> f64 {
        share(self.stolen, self.all)
    }
}

/// Returns a share, 0 to 1; 0 if `whole` is 0.
pub(crate) fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { (part.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}

pub(crate) fn handshake_durations(record: &LoadRecord) -> DurationSummary {
    let mut sum = Histogram::default();
    for latencies in record.latencies.values() {
        sum.add(&latencies.handshake);
    }
    DurationSummary::from(&sum)
}

/// Returns the stretches of an open load; empty for a closed one.
fn stretches(plan: &LoadPlan) -> &[Stretch] {
    match &plan.arrival {
        ArrivalModel::Open { stretches, .. } => stretches,
        ArrivalModel::Closed { .. } => &[],
    }
}

pub(crate) fn offered_per_s(plan: &LoadPlan) -> Option<f64> {
    stretches(plan).first().filter(|_| !changes(stretches(plan))).map(|stretch| stretch.from_per_s)
}

pub(crate) fn counts(of: OutputNumbers) -> TransactionCounts {
    TransactionCounts {
        attempted: of.operations + of.failed,
        succeeded: of.operations,
        failed: of.failed,
    }
}

/// Summarizes a program's response times: our own readings, and the percentile that it printed.
pub(crate) fn called(seen: &Histogram, counted: OutputNumbers) -> DurationSummary {
    let seen = DurationSummary::from(seen);
    match counted.p95 {
        None => seen,
        Some(p95) => DurationSummary { p95_ns: nanoseconds(p95), ..seen },
    }
}

/// Returns the seconds if the rate changes or the server has an event; otherwise none.
pub(crate) fn seconds(plan: &LoadPlan, record: &LoadRecord, has_event: bool) -> Vec<LoadSecond> {
    let is_kept = has_event || changes(stretches(plan));
    if is_kept { record.seconds.clone() } else { Vec::new() }
}

/// Returns read-offs of a changing rate: a point for each step, or for each whole second of a ramp.
pub(crate) fn read_offs(plan: &LoadPlan, record: &LoadRecord) -> Option<ReadOffs> {
    if !changes(stretches(plan)) {
        return None;
    }
    let points: Vec<_> = if record.steps.is_empty() {
        let whole = record.seconds.iter();
        whole.take_while(|second| second.at_s < plan.duration.as_secs()).map(point).collect()
    } else {
        record.steps.iter().map(|step| step.point).collect()
    };
    Some(ReadOffs::of(&points))
}

fn changes(stretches: &[Stretch]) -> bool {
    let is_ramp = |stretch: &Stretch| stretch.from_per_s != stretch.to_per_s;
    stretches.len() > 1 || stretches.iter().any(is_ramp)
}

/// Makes a point of the transactions that ended in a second, whenever they were begun.
fn point(second: &LoadSecond) -> RatePoint {
    let ended = second.succeeded + second.failed;
    RatePoint {
        offered_per_s: second.attempted as f64,
        succeeded_per_s: second.succeeded as f64,
        error_rate: second.failed as f64 / ended.max(1) as f64,
        mean_ns: second.mean_ns as f64,
        quantile_ns: second.p99_ns as f64,
    }
}

/// Share of busy time from which CPUs count as saturated.
const BUSY_MIN: f64 = 0.9;

#[derive(Clone, Copy)]
pub(crate) struct MeasuredCapacity {
    /// Successful transactions per second.
    pub(crate) per_s: f64,
    /// Share of the time in which the server's CPUs worked for it.
    pub(crate) server_busy: f64,
}

/// Warns if the load left the server idle, because it then does not measure the capacity.
pub(crate) fn of_capacity(found: MeasuredCapacity) -> Option<RunWarning> {
    (found.server_busy < BUSY_MIN).then(|| RunWarning {
        seen: format!(
            "while it was found out what the server can do, it worked for {:.0} % of the time: it \
             can do more than that",
            found.server_busy * 100.0
        ),
        hint: "what is offered, and goodput, are multiples of too little: leave the host to the \
               run, and give the load more CPUs (`--client-cpus`)"
            .to_owned(),
    })
}

/// Warns if load and origin limit the rate; they share CPUs, so neither alone need be busy.
/// `client` is CPU time of both, `server_busy` the share of the time in which the server worked.
pub(crate) fn of_client(
    client: Duration,
    elapsed: Duration,
    cpus: usize,
    server_busy: f64,
) -> Option<RunWarning> {
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    let client_busy = share(client, elapsed * cpus);
    let is_limit = client_busy >= BUSY_MIN && server_busy < BUSY_MIN;
    is_limit.then(|| RunWarning {
        seen: format!(
            "load and origin kept their CPUs busy for {:.0} % of the time, the server its own for \
             {:.0} %: they may limit the rate",
            client_busy * 100.0,
            server_busy * 100.0
        ),
        hint:
            "CPU time per operation is valid all the same; to compare rates, give them more CPUs \
               (`--client-cpus`)"
                .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 9 9 9\n\
        cpu0 100 10 20 500 50 3 7 40 0 0\n\
        cpu1 1 1 1 1 1 1 1 1 0 0\n\
        cpu12 10 0 0 90 0 0 0 0\n\
        intr 5 6\n";

    #[test]
    fn only_our_cpus_count() {
        let machine = MachineTime::parse(STAT, &BTreeSet::from([0, 12]));
        assert_eq!(machine.busy, TICK * 150);
        assert_eq!(machine.stolen, TICK * 40);
        assert_eq!(machine.all, TICK * 830);
        assert_eq!(MachineTime::parse(STAT, &BTreeSet::new()), MachineTime::default());
    }

    #[test]
    fn what_is_not_ours_is_foreign() {
        let all = MachineTime::parse(STAT, &BTreeSet::from([0, 12]));
        let one = all.since(MachineTime::parse(STAT, &BTreeSet::from([0])));
        assert_eq!(one.all, TICK * 100);
        let close = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-9, "{value}");
        close(one.foreign(Duration::ZERO), 0.1);
        close(one.foreign(TICK * 4), 0.06);
        close(one.foreign(TICK * 40), 0.0);
        close(all.stolen(), 40.0 / 830.0);
        close(MachineTime::default().foreign(TICK), 0.0);
    }

    #[test]
    fn a_second_is_a_point() {
        let second = LoadSecond {
            attempted: 500,
            succeeded: 90,
            failed: 10,
            mean_ns: 7,
            p99_ns: 9,
            ..LoadSecond::default()
        };
        let point = point(&second);
        assert_eq!(point.offered_per_s, 500.0);
        assert_eq!((point.succeeded_per_s, point.error_rate), (90.0, 0.1));
        assert_eq!((point.mean_ns, point.quantile_ns), (7.0, 9.0));
    }

    #[test]
    fn only_rates_that_change_have_series() {
        let stretch =
            |from_per_s, to_per_s| Stretch { length: Duration::from_secs(1), from_per_s, to_per_s };
        assert!(!changes(&[stretch(5.0, 5.0)]));
        assert!(changes(&[stretch(5.0, 6.0)]));
        assert!(changes(&[stretch(5.0, 5.0), stretch(6.0, 6.0)]));
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_has_nothing_left_is_the_limit() {
        let told = of_client(SECOND * 19 / 10, SECOND, 2, 0.6).unwrap();
        assert!(told.seen.contains("95 %") && told.seen.contains("60 %"));
        assert_eq!(of_client(SECOND * 19 / 10, SECOND, 2, 0.95), None);
        assert_eq!(of_client(SECOND, SECOND, 2, 0.6), None);
    }

    #[test]
    fn a_capacity_is_of_a_server_that_had_no_rest() {
        let found = |server_busy| MeasuredCapacity { per_s: 100.0, server_busy };
        assert_eq!(of_capacity(found(0.95)), None);
        assert!(of_capacity(found(0.5)).unwrap().seen.contains("50 %"));
    }
}
