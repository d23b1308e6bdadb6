//! Defines metrics: name, unit, which direction is better, and how to read the value of a result.
//!
//! Loads and experiments share one table: a report asks here for names, units and values.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::measurement::{DurationSummary, Measurement};
use crate::quantity::{ByteCount, Nanoseconds, RoundedCount};
use crate::record::LoadSecond;

/// Unit in which values are shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricUnit {
    Count,
    PerSecond,
    Microseconds,
    Milliseconds,
    /// Bytes per second, shown in MiB/s.
    MebibytesPerSecond,
    Bytes,
    /// Bytes, shown in KiB.
    Kibibytes,
    /// Bytes, shown in MiB.
    Mebibytes,
    /// A share from 0 to 1, shown in percent, its differences in percentage points.
    Percent,
}

/// Counts full and resumed handshakes in these seconds; `None` if there was none.
fn handshakes(seconds: &[LoadSecond]) -> Option<[u64; 2]> {
    let sum = |of: fn(&LoadSecond) -> u64| seconds.iter().map(of).fold(0, u64::saturating_add);
    let both = [sum(|second| second.full), sum(|second| second.resumed)];
    (both != [0, 0]).then_some(both)
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

/// Returns `None` for zero, which means not measured.
fn measured(value: u64) -> Option<f64> {
    (value > 0).then_some(value as f64)
}

fn per_second(it: &Measurement, count: u64) -> Option<f64> {
    ratio(count as f64, it.elapsed_ns as f64 / 1e9)
}

fn response(it: &Measurement, of: fn(&DurationSummary) -> u64) -> Option<f64> {
    (it.response.count > 0).then(|| of(&it.response) as f64)
}

/// Returns resident memory that the load added to the server, in bytes.
fn memory_added(it: &Measurement) -> f64 {
    it.resident_bytes_loaded.saturating_sub(it.resident_bytes_before) as f64
}

struct MetricRow {
    names: [&'static str; 3],
    unit: MetricUnit,
    is_less_better: bool,
    of: fn(&Measurement) -> Option<f64>,
}

const LESS: bool = true;
const MORE: bool = false;

/// Defines the metrics and their table: name in records and ids; name for people, where `{}` is the
/// operation in singular; heading of a narrow column; unit; which direction is better; value.
macro_rules! metrics {
    ($($(#[$doc:meta])+ $metric:ident: [$id:literal, $title:literal, $head:literal],
        $unit:ident, $better:ident, $of:expr;)+) => {
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        pub enum Metric {
            $($(#[$doc])+ #[serde(rename = $id)] $metric,)+
        }

        /// Rows in the order of [`Metric`].
        const TABLE: &[MetricRow] = &[$(MetricRow {
            names: [$id, $title, $head],
            unit: MetricUnit::$unit,
            is_less_better: $better,
            of: $of,
        },)+];
    };
}

metrics! {
    /// Greatest rate of success with a mean response time under 100 ms and an error rate under 0.1
    /// %.
    Under100MsFewLost: ["under-100-ms-few-lost", "TPS, mean under 100 ms, errors under 0.1 %",
        "100 ms, 0.1 %"], PerSecond, MORE, |it| it.read_offs?.under_100_ms_few_lost_per_s;
    /// Greatest rate of success with a mean response time under 100 ms, whatever fails.
    Under100Ms: ["under-100-ms", "TPS, mean under 100 ms", "under 100 ms"], PerSecond, MORE,
        |it| it.read_offs?.under_100_ms_per_s;
    /// Greatest rate of success with a mean response time under 500 ms, whatever fails.
    Under500Ms: ["under-500-ms", "TPS, mean under 500 ms", "under 500 ms"], PerSecond, MORE,
        |it| it.read_offs?.under_500_ms_per_s;
    /// Greatest rate of success with fewer than one error in 10,000.
    FewErrors: ["few-errors", "TPS, errors under 0.01 %", "few errors"], PerSecond, MORE,
        |it| it.read_offs?.few_errors_per_s;
    /// Greatest rate of success, whatever the response time.
    Peak: ["peak", "TPS at the peak", "peak"], PerSecond, MORE,
        |it| it.read_offs?.peak_per_s;
    /// CPU time of the server per operation, in nanoseconds.
    ServerCpu: ["server-cpu", "server CPU per {}", "CPU"], Microseconds, LESS,
        |it| ratio(it.server_cpu_ns as f64, it.operations as f64);
    /// How often threads of the server went to sleep, per operation.
    ServerSwitches: ["server-switches", "switches per {}", "switches"], Count, LESS,
        |it| ratio(it.server_switches? as f64, it.operations as f64);
    /// Successful operations per second.
    Rate: ["rate", "succeeded per second", "rate"], PerSecond, MORE,
        |it| per_second(it, it.operations);
    /// Bytes of bodies per second.
    Bandwidth: ["bandwidth", "bandwidth", "bandwidth"], MebibytesPerSecond, MORE,
        |it| per_second(it, it.traffic.body_bytes);
    /// CPU time of the server per GiB of bodies, in nanoseconds.
    ServerCpuPerGib: ["server-cpu-per-gib", "server CPU per GiB", "CPU"], Milliseconds, LESS,
        |it| ratio(it.server_cpu_ns as f64, it.traffic.body_bytes as f64 / GIB);
    /// Mean response time, in nanoseconds.
    MeanResponse: ["mean-response", "mean response", "mean"], Milliseconds, LESS,
        |it| response(it, |all| all.mean_ns);
    /// Median response time, in nanoseconds.
    P50Response: ["p50-response", "median response", "p50"], Milliseconds, LESS,
        |it| response(it, |all| all.p50_ns);
    /// The 95th percentile of the response time, in nanoseconds.
    P95Response: ["p95-response", "p95 response", "p95"], Milliseconds, LESS,
        |it| measured(it.response.p95_ns);
    /// The 99th percentile of the response time, in nanoseconds.
    P99Response: ["p99-response", "p99 response", "p99"], Milliseconds, LESS,
        |it| response(it, |all| all.p99_ns);
    /// The 99.9th percentile of the response time, in nanoseconds.
    P999Response: ["p99.9-response", "p99.9 response", "p99.9"], Milliseconds, LESS,
        |it| response(it, |all| all.p999_ns);
    /// Bytes per second that clients in the background received.
    BackgroundBandwidth: ["background-bandwidth", "bandwidth in the background", "background"],
        MebibytesPerSecond, MORE,
        |it| ratio(it.background?.received_bytes as f64, it.background?.elapsed_ns as f64 / 1e9);
    /// Successful transactions per second in the background; excludes downloads without end.
    BackgroundRate: ["background-rate", "succeeded per second in the background", "background"],
        PerSecond, MORE,
        |it| ratio(it.background?.succeeded.filter(|count| *count > 0)? as f64,
            it.background?.elapsed_ns as f64 / 1e9);
    /// CPU time of the server divided by the time measured; 2 for two CPUs in full use.
    ServerBusy: ["server-busy", "server CPUs in use", "CPU"], Percent, LESS,
        |it| ratio(it.server_cpu_ns as f64, it.elapsed_ns as f64);
    /// Failed transactions divided by attempted ones, 0 to 1.
    ErrorRate: ["error-rate", "error rate", "errors"], Percent, LESS,
        |it| ratio(it.counts.failed as f64, it.counts.attempted as f64);
    /// Operations per second divided by the server's measured capacity, 0 to 1.
    Goodput: ["goodput", "goodput of capacity", "goodput"], Percent, MORE,
        |it| ratio(it.goodput_per_s?, it.capacity_per_s?);
    /// Resident memory of the server per open connection, in bytes.
    ConnectionMemory: ["connection-memory", "memory per connection", "memory"], Kibibytes, LESS,
        |it| ratio(memory_added(it), it.open_connections as f64);
    /// Transactions that were due, per second.
    AttemptedRate: ["attempted-rate", "attempted per second", "attempted"], PerSecond, MORE,
        |it| per_second(it, it.counts.attempted);
    /// Transactions that failed, per second.
    FailedRate: ["failed-rate", "failed per second", "failed"], PerSecond, LESS,
        |it| per_second(it, it.counts.failed);
    /// Handshakes that resumed a session divided by all, 0 to 1.
    Resumed: ["resumed", "handshakes that resumed", "resumed"], Percent, MORE,
        |it| {
            let [full, resumed] = handshakes(&it.seconds)?;
            ratio(resumed as f64, (full + resumed) as f64)
        };
    /// Full handshakes per second.
    FullHandshakes: ["full-handshakes", "full handshakes per second", "full"], PerSecond, LESS,
        |it| per_second(it, handshakes(&it.seconds)?[0]);
    /// CPU time of the client per operation, in nanoseconds.
    ClientCpu: ["client-cpu", "client CPU per {}", "CPU"], Microseconds, LESS,
        |it| ratio(it.client_cpu_ns as f64, it.operations as f64);
    /// Peak resident memory of the client, in bytes.
    ClientMemory: ["client-memory", "client memory at its most", "memory"], Mebibytes, LESS,
        |it| measured(it.client_resident_bytes_max);
    /// Time from the start of the server's process to the first reply, in nanoseconds.
    StartTime: ["start-time", "start to first reply", "start"], Milliseconds, LESS,
        |it| measured(it.start_ns);
    /// Resident memory of the server before the load, in bytes.
    StartMemory: ["start-memory", "memory after the start", "memory"], Mebibytes, LESS,
        |it| measured(it.resident_bytes_before);
    /// Resident memory of the server per session that it stored, in bytes.
    SessionMemory: ["session-memory", "memory per session", "memory"], Bytes, LESS,
        |it| ratio(memory_added(it), it.full_handshakes as f64);
    /// Duration of a reload of the configuration, in nanoseconds.
    ReloadTime: ["reload-time", "time of a reload", "reload"], Milliseconds, LESS,
        |it| Some(it.reload?.took_ns as f64);
    /// Peak resident memory of the server while it reloads, in bytes.
    ReloadMemory: ["reload-memory", "memory in a reload at its most", "reload memory"],
        Mebibytes, LESS, |it| Some(it.reload?.resident_bytes_max as f64);
}

const GIB: f64 = (1_u64 << 30) as f64;

impl Metric {
    fn row(self) -> &'static MetricRow {
        &TABLE[self as usize]
    }

    /// Returns the metric of a load or measurement, in the unit of the record; `None` if it has no
    /// such result.
    pub fn of<'m>(self, results: impl Into<Cow<'m, Measurement>>) -> Option<f64> {
        (self.row().of)(&results.into()).filter(|value| value.is_finite())
    }

    /// Returns the metric of one second of a run; `None` if a second has no such result.
    pub fn of_second(self, second: &LoadSecond) -> Option<f64> {
        let time = |ns: u64| (second.succeeded > 0).then_some(ns as f64);
        match self {
            Self::Rate => Some(second.succeeded as f64),
            Self::AttemptedRate => Some(second.attempted as f64),
            Self::FailedRate => Some(second.failed as f64),
            Self::FullHandshakes => Some(second.full as f64),
            Self::Resumed => ratio(second.resumed as f64, (second.full + second.resumed) as f64),
            Self::MeanResponse => time(second.mean_ns),
            Self::P99Response => time(second.p99_ns),
            _ => None,
        }
    }

    /// Returns the name in records, names of files, ids and sheets.
    pub fn id(self) -> &'static str {
        self.row().names[0]
    }

    /// Returns the name for people, without its unit. `operation` is the scenario's, in plural.
    pub fn title(self, operation: &str) -> String {
        let one = match operation.strip_suffix("ies") {
            Some(stem) => format!("{stem}y"),
            None => operation.strip_suffix('s').unwrap_or(operation).to_owned(),
        };
        self.row().names[1].replace("{}", &one)
    }

    /// Returns the heading of a narrow column, without its unit.
    pub fn head(self) -> &'static str {
        self.row().names[2]
    }

    pub fn unit(self) -> MetricUnit {
        self.row().unit
    }

    pub fn is_less_better(self) -> bool {
        self.row().is_less_better
    }

    /// Reports whether the metric is a share of a whole, whose differences are percentage points.
    pub fn is_share(self) -> bool {
        self.unit() == MetricUnit::Percent
    }

    /// Reports whether the metric describes the server only if the server limited a closed load:
    /// rates, and response times, which are connections divided by rate.
    pub fn depends_on_load(self) -> bool {
        use Metric::{Bandwidth, MeanResponse, P95Response, P99Response, Rate};
        matches!(self, Rate | Bandwidth | MeanResponse | P95Response | P99Response)
    }

    /// Converts a value of the record to the unit in which it is shown.
    pub fn scaled(self, value: f64) -> f64 {
        match self.unit() {
            MetricUnit::Count | MetricUnit::PerSecond | MetricUnit::Bytes => value,
            MetricUnit::Microseconds => value / 1e3,
            MetricUnit::Milliseconds => value / 1e6,
            MetricUnit::MebibytesPerSecond => value / f64::from(1 << 20),
            MetricUnit::Kibibytes => value / 1024.0,
            MetricUnit::Mebibytes => value / f64::from(1 << 20),
            MetricUnit::Percent => value * 100.0,
        }
    }

    /// Formats a value of the record with three digits, without its unit.
    pub fn number(self, value: f64) -> String {
        let scaled = self.scaled(value);
        // Counts of whole things would show more digits than were measured.
        let is_whole = self.unit() == MetricUnit::PerSecond && scaled.abs() >= 100.0;
        let scaled = if is_whole { scaled.round() } else { scaled };
        match scaled.abs() {
            // A share under a hundredth of a percent is not zero.
            least if least > 0.0 && least < 0.01 => format!("{scaled:.4}"),
            _ => RoundedCount(scaled).to_string(),
        }
    }

    pub fn amount(self, value: f64) -> String {
        let unit = self.unit().name();
        let gap = if matches!(unit, "" | "/s") { "" } else { " " };
        format!("{}{gap}{unit}", self.number(value))
    }

    /// Formats a value with the unit that fits its size, as `8.05 ms`: for one value alone. Rates
    /// have no unit.
    pub fn fitted(self, value: f64) -> String {
        match self.unit() {
            MetricUnit::PerSecond if (value - value.round()).abs() < 0.005 => {
                RoundedCount(value.round()).to_string()
            }
            MetricUnit::Count | MetricUnit::PerSecond => RoundedCount(value).to_string(),
            MetricUnit::Microseconds | MetricUnit::Milliseconds => Nanoseconds(value).to_string(),
            MetricUnit::MebibytesPerSecond => format!("{}/s", ByteCount(value as u64)),
            MetricUnit::Bytes | MetricUnit::Kibibytes | MetricUnit::Mebibytes => {
                ByteCount(value as u64).to_string()
            }
            MetricUnit::Percent => self.amount(value),
        }
    }
}

impl MetricUnit {
    /// Returns the text of the unit behind a value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::PerSecond => "/s",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::MebibytesPerSecond => "MiB/s",
            Self::Bytes => "B",
            Self::Kibibytes => "KiB",
            Self::Mebibytes => "MiB",
            Self::Percent => "%",
        }
    }

    pub fn of_differences(self) -> &'static str {
        match self {
            Self::Percent => "points",
            unit => unit.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_fixed_units() {
        let cpu = Metric::ServerCpu;
        assert_eq!(cpu.amount(12_340.0), "12.3 µs");
        assert_eq!(cpu.amount(1_234_000.0), "1234 µs");
        assert_eq!(cpu.fitted(1_234_000.0), "1.23 ms");
        assert_eq!(Metric::Rate.amount(12_345.6), "12\u{202f}346/s");
        assert_eq!(Metric::Bandwidth.amount(5.0e8), "477 MiB/s");
        assert_eq!(Metric::ErrorRate.amount(0.000_02), "0.0020 %");
        assert_eq!(Metric::ErrorRate.amount(0.0), "0 %");
    }

    #[test]
    fn handshakes_are_counted_of_seconds_that_are_known() {
        let second = |full, resumed| LoadSecond { full, resumed, ..LoadSecond::default() };
        let of = |metric: Metric, seconds: &[LoadSecond]| {
            metric.of(&Measurement {
                elapsed_ns: 2_000_000_000,
                seconds: seconds.to_vec(),
                ..Measurement::default()
            })
        };
        let seconds = [second(30, 0), second(10, 120)];
        assert_eq!(of(Metric::Resumed, &seconds), Some(0.75));
        assert_eq!(of(Metric::FullHandshakes, &seconds), Some(20.0));
        assert_eq!(of(Metric::Resumed, &[]), None);
        assert_eq!(Metric::Resumed.of_second(&seconds[0]), Some(0.0));
        assert_eq!(Metric::Resumed.of_second(&second(0, 0)), None);
        assert_eq!(Metric::FullHandshakes.of_second(&seconds[1]), Some(10.0));
    }

    #[test]
    fn an_operation_is_named_in_singular() {
        assert_eq!(Metric::ServerCpu.title("requests"), "server CPU per request");
        assert_eq!(Metric::ServerCpu.title("work"), "server CPU per work");
        assert_eq!(Metric::ServerCpu.title("queries"), "server CPU per query");
    }
}
