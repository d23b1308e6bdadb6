//! Metrics: what is measured, its unit, which direction is better, and how it is read of a result.
//!
//! One table for runs of load and for experiments: a report asks here for names, units and values.

use serde::{Deserialize, Serialize};

use crate::capacity::ReadOffs;
use crate::quantity::{Bytes, Count, Nanoseconds};
use crate::record::{Counts, Record, Second};

/// What is measured.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The greatest rate of success with a mean response time under 100 ms.
    #[serde(rename = "under-100-ms")]
    Under100Ms,
    /// The same under 500 ms.
    #[serde(rename = "under-500-ms")]
    Under500Ms,
    /// The greatest with fewer than one error in 10,000.
    FewErrors,
    /// The greatest, whatever it took.
    Peak,
    /// CPU time of the server per operation, in nanoseconds.
    ServerCpu,
    /// How often threads of the server went to sleep, per operation.
    ServerSwitches,
    /// Operations per second: what succeeded.
    Rate,
    /// Bytes of bodies per second.
    Bandwidth,
    /// CPU time of the server per GiB of bodies, in nanoseconds.
    ServerCpuPerGib,
    /// Mean response time, in nanoseconds.
    MeanResponse,
    /// Its 99th percentile, in nanoseconds.
    P99Response,
    /// Failed transactions to attempted ones, 0 to 1.
    ErrorRate,
    /// Operations per second to what the server was measured to be capable of, 0 to 1.
    Goodput,
    /// Resident memory of the server per open connection, in bytes.
    ConnectionMemory,
    /// Transactions that were due, per second.
    AttemptedRate,
    /// Transactions that failed, per second.
    FailedRate,
    /// CPU time of the client per operation, in nanoseconds.
    ClientCpu,
    /// Resident memory of the client at its most, in bytes.
    ClientMemory,
    /// From the start of the server's process to the first reply, in nanoseconds.
    StartTime,
    /// Resident memory of the server before the load, in bytes.
    StartMemory,
    /// Resident memory of the server per session that it stored, in bytes.
    SessionMemory,
    /// How long a reload of the configuration takes, in nanoseconds.
    ReloadTime,
    /// Resident memory of the server at its most while it reloads, in bytes.
    ReloadMemory,
}

/// In which values are shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Events.
    Count,
    /// Events per second.
    PerSecond,
    /// Of nanoseconds: shown in microseconds.
    Microseconds,
    /// Of nanoseconds: shown in milliseconds.
    Milliseconds,
    /// Of bytes per second: shown in MiB/s.
    MebibytesPerSecond,
    /// Of bytes.
    Bytes,
    /// Of bytes: shown in KiB.
    Kibibytes,
    /// Of bytes: shown in MiB.
    Mebibytes,
    /// Of a share from 0 to 1: shown in percent, its differences in percentage points.
    Percent,
}

/// What a metric is read of.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub(crate) elapsed_ns: u64,
    pub(crate) operations: u64,
    pub(crate) counts: Counts,
    pub(crate) body_bytes: u64,
    /// Mean and 99th percentile of the response time, if anything succeeded.
    pub(crate) response_ns: Option<(f64, f64)>,
    pub(crate) server_cpu_ns: Option<u64>,
    pub(crate) server_switches: Option<u64>,
    pub(crate) capacity_per_s: Option<f64>,
    /// Resident memory that the load added to the server, and the connections that were open.
    pub(crate) connection_bytes: Option<(u64, u64)>,
    pub(crate) read_offs: Option<ReadOffs>,
    pub(crate) client_cpu_ns: Option<u64>,
    pub(crate) client_bytes: Option<u64>,
    pub(crate) start_ns: Option<u64>,
    pub(crate) start_bytes: Option<u64>,
    /// Resident memory that the load added to the server, and the sessions that it stored.
    pub(crate) session_bytes: Option<(u64, u64)>,
    /// Nanoseconds that a reload took, and the server's memory at its most.
    pub(crate) reload: Option<(u64, u64)>,
}

impl From<&Record> for Results {
    fn from(record: &Record) -> Self {
        let total = record.total_latency();
        Self {
            elapsed_ns: record.elapsed_ns,
            operations: record.totals.succeeded,
            counts: record.totals,
            body_bytes: record.traffic.body_bytes,
            response_ns: (!total.is_empty())
                .then(|| (total.mean_ns(), total.quantile_ns(0.99) as f64)),
            read_offs: record.capacity.as_ref().map(|capacity| capacity.read_offs),
            ..Self::default()
        }
    }
}

impl Results {
    fn per_second(&self, count: u64) -> Option<f64> {
        ratio(count as f64, self.elapsed_ns as f64 / 1e9)
    }
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

/// What is 0 was not measured.
fn measured(value: Option<u64>) -> Option<f64> {
    value.filter(|value| *value > 0).map(|value| value as f64)
}

/// A row of the table.
struct Row {
    metric: Metric,
    /// In records and ids; for people, where `{}` is the operation in singular; at the head of a
    /// narrow column.
    names: [&'static str; 3],
    unit: Unit,
    is_less_better: bool,
    of: fn(&Results) -> Option<f64>,
}

const LESS: bool = true;
const MORE: bool = false;

const TABLE: [Row; 23] = {
    use Metric::*;
    use Unit::*;
    [
        Row {
            metric: Under100Ms,
            names: ["under-100-ms", "TPS, mean under 100 ms", "under 100 ms"],
            unit: PerSecond,
            is_less_better: MORE,
            of: |it| it.read_offs?.under_100_ms_per_s,
        },
        Row {
            metric: Under500Ms,
            names: ["under-500-ms", "TPS, mean under 500 ms", "under 500 ms"],
            unit: PerSecond,
            is_less_better: MORE,
            of: |it| it.read_offs?.under_500_ms_per_s,
        },
        Row {
            metric: FewErrors,
            names: ["few-errors", "TPS, errors under 0.01 %", "few errors"],
            unit: PerSecond,
            is_less_better: MORE,
            of: |it| it.read_offs?.few_errors_per_s,
        },
        Row {
            metric: Peak,
            names: ["peak", "TPS at the peak", "peak"],
            unit: PerSecond,
            is_less_better: MORE,
            of: |it| it.read_offs?.peak_per_s,
        },
        Row {
            metric: ServerCpu,
            names: ["server-cpu", "server CPU per {}", "CPU"],
            unit: Microseconds,
            is_less_better: LESS,
            of: |it| ratio(it.server_cpu_ns? as f64, it.operations as f64),
        },
        Row {
            metric: ServerSwitches,
            names: ["server-switches", "switches per {}", "switches"],
            unit: Count,
            is_less_better: LESS,
            of: |it| ratio(it.server_switches? as f64, it.operations as f64),
        },
        Row {
            metric: Rate,
            names: ["rate", "succeeded per second", "rate"],
            unit: PerSecond,
            is_less_better: MORE,
            of: |it| it.per_second(it.operations),
        },
        Row {
            metric: Bandwidth,
            names: ["bandwidth", "bandwidth", "bandwidth"],
            unit: MebibytesPerSecond,
            is_less_better: MORE,
            of: |it| it.per_second(it.body_bytes),
        },
        Row {
            metric: ServerCpuPerGib,
            names: ["server-cpu-per-gib", "server CPU per GiB", "CPU"],
            unit: Milliseconds,
            is_less_better: LESS,
            of: |it| ratio(it.server_cpu_ns? as f64, it.body_bytes as f64 / GIB),
        },
        Row {
            metric: MeanResponse,
            names: ["mean-response", "mean response", "mean"],
            unit: Milliseconds,
            is_less_better: LESS,
            of: |it| Some(it.response_ns?.0),
        },
        Row {
            metric: P99Response,
            names: ["p99-response", "p99 response", "p99"],
            unit: Milliseconds,
            is_less_better: LESS,
            of: |it| Some(it.response_ns?.1),
        },
        Row {
            metric: ErrorRate,
            names: ["error-rate", "error rate", "errors"],
            unit: Percent,
            is_less_better: LESS,
            of: |it| ratio(it.counts.failed as f64, it.counts.attempted as f64),
        },
        Row {
            metric: Goodput,
            names: ["goodput", "goodput of capacity", "goodput"],
            unit: Percent,
            is_less_better: MORE,
            of: |it| ratio(it.per_second(it.operations)?, it.capacity_per_s?),
        },
        Row {
            metric: ConnectionMemory,
            names: ["connection-memory", "memory per connection", "memory"],
            unit: Kibibytes,
            is_less_better: LESS,
            of: |it| {
                it.connection_bytes
                    .and_then(|(more, open)| ratio(more as f64, open as f64))
            },
        },
        Row {
            metric: AttemptedRate,
            names: ["attempted-rate", "attempted per second", "attempted"],
            unit: PerSecond,
            is_less_better: MORE,
            of: |it| it.per_second(it.counts.attempted),
        },
        Row {
            metric: FailedRate,
            names: ["failed-rate", "failed per second", "failed"],
            unit: PerSecond,
            is_less_better: LESS,
            of: |it| it.per_second(it.counts.failed),
        },
        Row {
            metric: ClientCpu,
            names: ["client-cpu", "client CPU per {}", "CPU"],
            unit: Microseconds,
            is_less_better: LESS,
            of: |it| ratio(it.client_cpu_ns? as f64, it.operations as f64),
        },
        Row {
            metric: ClientMemory,
            names: ["client-memory", "client memory at its most", "memory"],
            unit: Mebibytes,
            is_less_better: LESS,
            of: |it| measured(it.client_bytes),
        },
        Row {
            metric: StartTime,
            names: ["start-time", "start to first reply", "start"],
            unit: Milliseconds,
            is_less_better: LESS,
            of: |it| measured(it.start_ns),
        },
        Row {
            metric: StartMemory,
            names: ["start-memory", "memory after the start", "memory"],
            unit: Mebibytes,
            is_less_better: LESS,
            of: |it| measured(it.start_bytes),
        },
        Row {
            metric: SessionMemory,
            names: ["session-memory", "memory per session", "memory"],
            unit: Bytes,
            is_less_better: LESS,
            of: |it| {
                it.session_bytes
                    .and_then(|(more, count)| ratio(more as f64, count as f64))
            },
        },
        Row {
            metric: ReloadTime,
            names: ["reload-time", "time of a reload", "reload"],
            unit: Milliseconds,
            is_less_better: LESS,
            of: |it| Some(it.reload?.0 as f64),
        },
        Row {
            metric: ReloadMemory,
            names: [
                "reload-memory",
                "memory in a reload at its most",
                "reload memory",
            ],
            unit: Mebibytes,
            is_less_better: LESS,
            of: |it| Some(it.reload?.1 as f64),
        },
    ]
};

const GIB: f64 = (1_u64 << 30) as f64;

impl Metric {
    fn row(self) -> &'static Row {
        let mut rows = TABLE.iter();
        rows.find(|row| row.metric == self)
            .expect("each metric has a row")
    }

    /// Of a run or measurement, in the unit of the record; `None` where it has no such result.
    #[must_use]
    pub fn of(self, results: impl Into<Results>) -> Option<f64> {
        (self.row().of)(&results.into()).filter(|value| value.is_finite())
    }

    /// Of one second of a run; `None` where a second has no such result.
    #[must_use]
    pub fn of_second(self, second: &Second) -> Option<f64> {
        let time = |ns: u64| (second.succeeded > 0).then_some(ns as f64);
        match self {
            Self::Rate => Some(second.succeeded as f64),
            Self::AttemptedRate => Some(second.attempted as f64),
            Self::FailedRate => Some(second.failed as f64),
            Self::MeanResponse => time(second.mean_ns),
            Self::P99Response => time(second.p99_ns),
            _ => None,
        }
    }

    /// In records, names of files, ids and sheets.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.row().names[0]
    }

    /// For people, without its unit. `operation` is the scenario's, in plural.
    #[must_use]
    pub fn title(self, operation: &str) -> String {
        let one = operation.strip_suffix('s').unwrap_or(operation);
        self.row().names[1].replace("{}", one)
    }

    /// At the head of a narrow column, without its unit.
    #[must_use]
    pub fn head(self) -> &'static str {
        self.row().names[2]
    }

    /// In which it is shown.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.row().unit
    }

    /// Whether a smaller value is the better one.
    #[must_use]
    pub fn is_less_better(self) -> bool {
        self.row().is_less_better
    }

    /// Whether it is a share of a whole, whose differences are percentage points.
    #[must_use]
    pub fn is_share(self) -> bool {
        self.unit() == Unit::Percent
    }

    /// Whether it says something of the server only if the server was what limited a closed load:
    /// rates, and response times, which are connections by rate.
    #[must_use]
    pub fn depends_on_load(self) -> bool {
        use Metric::{Bandwidth, MeanResponse, P99Response, Rate};
        matches!(self, Rate | Bandwidth | MeanResponse | P99Response)
    }

    /// A value of the record in the unit in which it is shown.
    #[must_use]
    pub fn scaled(self, value: f64) -> f64 {
        match self.unit() {
            Unit::Count | Unit::PerSecond | Unit::Bytes => value,
            Unit::Microseconds => value / 1e3,
            Unit::Milliseconds => value / 1e6,
            Unit::MebibytesPerSecond => value / f64::from(1 << 20),
            Unit::Kibibytes => value / 1024.0,
            Unit::Mebibytes => value / f64::from(1 << 20),
            Unit::Percent => value * 100.0,
        }
    }

    /// A value of the record with three digits, without its unit.
    #[must_use]
    pub fn number(self, value: f64) -> String {
        let scaled = self.scaled(value);
        // More digits of whole things than were measured would be shown.
        let is_whole = self.unit() == Unit::PerSecond && scaled.abs() >= 100.0;
        let scaled = if is_whole { scaled.round() } else { scaled };
        match scaled.abs() {
            // A share under a hundredth of a percent is not none.
            least if least > 0.0 && least < 0.01 => format!("{scaled:.4}"),
            _ => Count(scaled).to_string(),
        }
    }

    /// The same with its unit.
    #[must_use]
    pub fn amount(self, value: f64) -> String {
        let unit = self.unit().name();
        let gap = if matches!(unit, "" | "/s") { "" } else { " " };
        format!("{}{gap}{unit}", self.number(value))
    }

    /// A value with the unit that fits its size, as `8.05 ms`: for one value alone. Rates stand
    /// without a unit.
    #[must_use]
    pub fn fitted(self, value: f64) -> String {
        match self.unit() {
            Unit::PerSecond if (value - value.round()).abs() < 0.005 => {
                Count(value.round()).to_string()
            }
            Unit::Count | Unit::PerSecond => Count(value).to_string(),
            Unit::Microseconds | Unit::Milliseconds => Nanoseconds(value).to_string(),
            Unit::MebibytesPerSecond => format!("{}/s", Bytes(value as u64)),
            Unit::Bytes | Unit::Kibibytes | Unit::Mebibytes => Bytes(value as u64).to_string(),
            Unit::Percent => self.amount(value),
        }
    }
}

impl Unit {
    /// As it stands behind a value.
    #[must_use]
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

    /// That of differences.
    #[must_use]
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
    fn every_metric_has_the_id_of_its_record() {
        for row in &TABLE {
            let id = serde_json::to_string(&row.metric).unwrap();
            assert_eq!(id, format!("\"{}\"", row.metric.id()));
        }
    }

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
    fn an_operation_is_named_in_singular() {
        assert_eq!(
            Metric::ServerCpu.title("requests"),
            "server CPU per request"
        );
        assert_eq!(Metric::ServerCpu.title("work"), "server CPU per work");
    }
}
