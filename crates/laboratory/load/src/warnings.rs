//! Warnings that figures may show the client or its host, not the server.

use std::time::Duration;

use measure::quantity::{Count, Nanoseconds};
use measure::record::Warning;

use crate::failure::Failure;
use crate::plan::{ClientSelection, Handshake, Plan};
use crate::tally::Tally;

/// A thread that is busy for this share of the time is the limit itself.
const BUSY_MAX: f64 = 0.85;

/// One in a hundred transactions may begin this late.
const LAG_MAX: Duration = Duration::from_millis(5);

/// With fewer, the 99th percentile is one transaction.
const TRANSACTIONS_MIN: u64 = 100;

/// What makes the figures doubtful, with the remedy.
///
/// `busiest` is the share of the time that the busiest thread was busy. A search loads its server
/// beyond what it can do, and means to.
pub(crate) fn warnings(plan: &Plan, tally: &Tally, busiest: f64, is_search: bool) -> Vec<Warning> {
    if let Some(warning) = fruitless(tally) {
        // All else would be about figures that there are none of.
        return vec![warning];
    }
    let mut warnings = Vec::new();
    warnings.extend(busy(plan, busiest));
    warnings.extend(lag(tally));
    warnings.extend(failures(tally, is_search));
    warnings.extend(too_many_clients(plan, tally));
    warnings.extend(few(tally));
    warnings
}

/// Nothing succeeded: why, in the words of the table of reasons.
fn fruitless(tally: &Tally) -> Option<Warning> {
    let (reason, count) = tally.failures.iter().max_by_key(|(_, count)| **count)?;
    (tally.totals.succeeded == 0).then(|| Warning {
        seen: format!(
            "nothing succeeded: {} {}",
            reason.name(),
            Count(*count as f64)
        ),
        hint: reason.meaning().to_owned(),
    })
}

fn busy(plan: &Plan, busiest: f64) -> Option<Warning> {
    (busiest > BUSY_MAX).then(|| Warning {
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

fn lag(tally: &Tally) -> Option<Warning> {
    let late_ns = tally.lag.quantile_ns(0.99);
    (u128::from(late_ns) > LAG_MAX.as_nanos()).then(|| Warning {
        seen: format!(
            "one transaction in a hundred began {} or more after its planned instant",
            Nanoseconds(late_ns as f64)
        ),
        hint: "response times count from the planned instant, so they hold; but the load had not \
               the CPU to keep its schedule: more `--threads`, other `--cpus`, or a lower rate"
            .to_owned(),
    })
}

fn failures(tally: &Tally, is_search: bool) -> Vec<Warning> {
    let count = |failure| tally.failures.get(&failure).copied().unwrap_or(0);
    let mut warnings = Vec::new();
    let mut warn = |failure, seen: &str, hint: &str| {
        let count = count(failure);
        if count > 0 {
            warnings.push(Warning {
                seen: format!("{} {seen}", Count(count as f64)),
                hint: hint.to_owned(),
            });
        }
    };
    warn(
        Failure::NoLocalPort,
        "dials found no local port free",
        "add addresses of this host with `--source`, keep connections open with \
         `--requests-per-connection`, or see net.ipv4.ip_local_port_range and tcp_tw_reuse",
    );
    warn(
        Failure::NoDescriptor,
        "dials found no file descriptor free",
        "raise the limit (`ulimit -n`), or use fewer clients",
    );
    warn(
        Failure::ScheduleOverrun,
        "transactions were left out: the load had not the CPU to begin them",
        "more `--threads`, other `--cpus`, or a lower rate",
    );
    if !is_search {
        warn(
            Failure::ClientsExhausted,
            "transactions could not begin: every client was busy",
            "the server is slower than the rate; or, if it answers slowly by design, give more \
             `--clients`",
        );
    }
    warnings
}

/// The first handshake of each client is full: with many of them it is the only one.
fn too_many_clients(plan: &Plan, tally: &Tally) -> Option<Warning> {
    let resumes = |kind: &Handshake| *kind != Handshake::Full;
    let tls = plan.tls.as_ref()?;
    let transactions = tally.warm_up.attempted + tally.totals.attempted;
    let clients = u64::from(plan.clients.count);
    // With session arrivals every client is new.
    let all_take_part = plan.clients.selection == ClientSelection::RoundRobin
        && plan.requests_per_arrival().is_none();
    let is_too_many =
        all_take_part && tls.handshakes.iter().any(resumes) && transactions < 2 * clients;
    is_too_many.then(|| Warning {
        seen: format!(
            "{} clients made {} transactions, and the first handshake of each client is full: few \
             or none could resume",
            Count(clients as f64),
            Count(transactions as f64)
        ),
        hint: "fewer `--clients`, or a longer `--duration`".to_owned(),
    })
}

fn few(tally: &Tally) -> Option<Warning> {
    let succeeded = tally.totals.succeeded;
    (succeeded < TRANSACTIONS_MIN && tally.totals.attempted > 0).then(|| Warning {
        seen: match succeeded {
            1 => "only one transaction succeeded".to_owned(),
            _ => format!("only {} transactions succeeded", Count(succeeded as f64)),
        },
        hint: "percentiles of so few say little: a longer `--duration`".to_owned(),
    })
}
