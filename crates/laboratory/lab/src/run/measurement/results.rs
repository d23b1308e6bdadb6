//! From an outcome to the results in the record, and warnings about them.

use std::time::Duration;

use load::plan::{ArrivalModel, LoadPlan, Stretch};
use measure::capacity::{RatePoint, ReadOffs};
use measure::experiment::DurationSummary;
use measure::histogram::Histogram;
use measure::quantity::nanoseconds;
use measure::record::{LoadRecord, RunWarning, Second, TransactionCounts};

use super::usage::share;
use crate::targets::form::OutputNumbers;

pub(crate) fn handshake_durations(record: &LoadRecord) -> DurationSummary {
    let mut sum = Histogram::default();
    for latencies in record.latencies.values() {
        sum.add(&latencies.handshake);
    }
    DurationSummary::from(&sum)
}

/// The stretches of an open load; none of a closed one.
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

/// Response times of a program's load: those that we saw, and what it printed of the others.
pub(crate) fn called(seen: &Histogram, counted: OutputNumbers) -> DurationSummary {
    let seen = DurationSummary::from(seen);
    match counted.p95 {
        None => seen,
        Some(p95) => DurationSummary { p95_ns: nanoseconds(p95), ..seen },
    }
}

/// Second by second, where the rate changes or something happens to the server; else nothing.
pub(crate) fn seconds(plan: &LoadPlan, record: &LoadRecord, has_event: bool) -> Vec<Second> {
    let is_kept = has_event || changes(stretches(plan));
    if is_kept { record.seconds.clone() } else { Vec::new() }
}

/// Read-offs of rates that rise: of steps, a point each; of a ramp, a point for each whole second
/// of it.
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

/// The transactions that ended in a second, whenever they were begun.
fn point(second: &Second) -> RatePoint {
    let ended = second.succeeded + second.failed;
    RatePoint {
        offered_per_s: second.attempted as f64,
        succeeded_per_s: second.succeeded as f64,
        error_rate: second.failed as f64 / ended.max(1) as f64,
        mean_ns: second.mean_ns as f64,
        quantile_ns: second.p99_ns as f64,
    }
}

/// CPUs that work for this share of the time have nothing left.
const BUSY_MIN: f64 = 0.9;

#[derive(Clone, Copy)]
pub(crate) struct MeasuredCapacity {
    /// Transactions that succeeded a second.
    pub(crate) per_s: f64,
    /// The share of the time that its CPUs worked for it.
    pub(crate) server_busy: f64,
}

/// A load that leaves the server idle does not measure its capacity.
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

/// Load and origin have the same CPUs: none of the two need be busy for both to be the limit.
/// `client` is what both used, `server_busy` the share of the time that the server worked.
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

    #[test]
    fn a_second_is_a_point() {
        let second = Second {
            attempted: 500,
            succeeded: 90,
            failed: 10,
            mean_ns: 7,
            p99_ns: 9,
            ..Second::default()
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
}

#[cfg(test)]
mod warnings_tests {
    use super::*;

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
