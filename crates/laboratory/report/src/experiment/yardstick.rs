//! What is told of a reading: its figures, and what can be read off a rising load.

use measure::capacity::ReadOffs;
use measure::experiment::{Figure, Reading, Scenario};
use measure::quantity::Count;

/// What is told of a reading.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Yardstick {
    /// The greatest rate with a mean response time under 100 ms.
    Under100,
    /// The same under 500 ms.
    Under500,
    /// The greatest with fewer than one error in 10,000.
    FewErrors,
    /// The greatest, whatever it took.
    Peak,
    /// A figure.
    Of(Figure),
}

/// The four of a rising load, the headline of the founding method first.
const READ_OFFS: [Yardstick; 4] = [
    Yardstick::Under100,
    Yardstick::Under500,
    Yardstick::FewErrors,
    Yardstick::Peak,
];

/// What a scenario tells of each of its cells, the main one first.
pub(crate) fn yardsticks(scenario: &Scenario, is_ramp: bool) -> Vec<Yardstick> {
    let figures = scenario.figures.iter().copied().map(Yardstick::Of);
    if !is_ramp {
        return figures.collect();
    }
    // A rate over all of a rising load says what was offered, not what could be served.
    let told = figures.filter(|it| !matches!(it, Yardstick::Of(Figure::Rate)));
    READ_OFFS.into_iter().chain(told).collect()
}

impl Yardstick {
    /// Of a reading, in the unit of the record; `None` where it has nothing to tell.
    pub(crate) fn of(self, reading: &Reading) -> Option<f64> {
        let read = |of: fn(&ReadOffs) -> Option<f64>| reading.read_offs.as_ref().and_then(of);
        let value = match self {
            Self::Under100 => read(|it| it.under_100_ms_per_s),
            Self::Under500 => read(|it| it.under_500_ms_per_s),
            Self::FewErrors => read(|it| it.few_errors_per_s),
            Self::Peak => read(|it| it.peak_per_s),
            Self::Of(figure) => figure.of(reading),
        };
        value.filter(|value| value.is_finite())
    }

    /// Whether less is better.
    pub(crate) fn is_cost(self) -> bool {
        matches!(self, Self::Of(figure) if figure.is_cost())
    }

    /// Whether it is a share of a whole, of which differences are told in points.
    pub(crate) fn is_share(self) -> bool {
        matches!(self, Self::Of(Figure::Loss | Figure::Goodput))
    }

    /// Whether it says something of the server only if the server was what limited a closed load:
    /// rates, and response times, which are connections by rate.
    pub(crate) fn depends_on_load(self) -> bool {
        use Figure::{Bandwidth, MeanResponse, P99Response, Rate};
        matches!(
            self,
            Self::Of(Rate | Bandwidth | MeanResponse | P99Response)
        )
    }

    /// In names of files, ids and sheets.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Under100 => "under-100-ms",
            Self::Under500 => "under-500-ms",
            Self::FewErrors => "few-errors",
            Self::Peak => "peak",
            Self::Of(Figure::ServerCpu) => "server-cpu",
            Self::Of(Figure::Rate) => "rate",
            Self::Of(Figure::Bandwidth) => "bandwidth",
            Self::Of(Figure::ServerCpuPerGib) => "server-cpu-per-gib",
            Self::Of(Figure::MeanResponse) => "mean-response",
            Self::Of(Figure::P99Response) => "p99-response",
            Self::Of(Figure::Loss) => "loss",
            Self::Of(Figure::Goodput) => "goodput",
            Self::Of(Figure::ConnectionMemory) => "connection-memory",
        }
    }

    /// For people, without its unit. `operation` is the scenario's, in plural.
    pub(crate) fn title(self, operation: &str) -> String {
        match self {
            Self::Under100 => "TPS, mean under 100 ms".to_owned(),
            Self::Under500 => "TPS, mean under 500 ms".to_owned(),
            Self::FewErrors => "TPS, errors under 0.01 %".to_owned(),
            Self::Peak => "TPS at the peak".to_owned(),
            Self::Of(Figure::ServerCpu) => format!("server CPU {}", each(operation)),
            Self::Of(Figure::Rate) => "succeeded a second".to_owned(),
            Self::Of(Figure::Bandwidth) => "bandwidth".to_owned(),
            Self::Of(Figure::ServerCpuPerGib) => "server CPU a GiB".to_owned(),
            Self::Of(Figure::MeanResponse) => "mean response".to_owned(),
            Self::Of(Figure::P99Response) => "p99 response".to_owned(),
            Self::Of(Figure::Loss) => "failed".to_owned(),
            Self::Of(Figure::Goodput) => "goodput of capacity".to_owned(),
            Self::Of(Figure::ConnectionMemory) => "memory a connection".to_owned(),
        }
    }

    /// At the head of a narrow column.
    pub(crate) fn head(self) -> String {
        let name = match self {
            Self::Under100 => "under 100 ms",
            Self::Under500 => "under 500 ms",
            Self::FewErrors => "few errors",
            Self::Peak => "peak",
            Self::Of(Figure::ServerCpu | Figure::ServerCpuPerGib) => "CPU",
            Self::Of(Figure::Rate) => "rate",
            Self::Of(Figure::Bandwidth) => "bandwidth",
            Self::Of(Figure::MeanResponse) => "mean",
            Self::Of(Figure::P99Response) => "p99",
            Self::Of(Figure::Loss) => "failed",
            Self::Of(Figure::Goodput) => "goodput",
            Self::Of(Figure::ConnectionMemory) => "memory",
        };
        format!("{name}, {}", self.unit())
            .trim_end_matches(", ")
            .to_owned()
    }

    /// In which it is shown.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Of(Figure::ServerCpu) => "µs",
            Self::Of(Figure::Bandwidth) => "MiB/s",
            Self::Of(Figure::ServerCpuPerGib | Figure::MeanResponse | Figure::P99Response) => "ms",
            Self::Of(Figure::Loss | Figure::Goodput) => "%",
            Self::Of(Figure::ConnectionMemory) => "KiB",
            Self::Of(Figure::Rate) => "/s",
            Self::Under100 | Self::Under500 | Self::FewErrors | Self::Peak => "/s",
        }
    }

    /// The unit of its differences.
    pub(crate) fn points(self) -> &'static str {
        match self.is_share() {
            true => "points",
            false => self.unit(),
        }
    }

    /// A value of the record in the unit in which it is shown.
    pub(crate) fn scaled(self, value: f64) -> f64 {
        match self {
            Self::Of(Figure::ServerCpu) => value / 1e3,
            Self::Of(Figure::Bandwidth) => value / f64::from(1 << 20),
            Self::Of(Figure::ServerCpuPerGib | Figure::MeanResponse | Figure::P99Response) => {
                value / 1e6
            }
            Self::Of(Figure::Loss | Figure::Goodput) => value * 100.0,
            Self::Of(Figure::ConnectionMemory) => value / 1024.0,
            _ => value,
        }
    }

    /// A value of the record with three digits, without its unit.
    pub(crate) fn shown(self, value: f64) -> String {
        let scaled = self.scaled(value);
        // More digits of whole things than were measured would be shown.
        let is_whole = matches!(self.unit(), "/s") && scaled.abs() >= 100.0;
        let scaled = if is_whole { scaled.round() } else { scaled };
        match scaled.abs() {
            // A share under a hundredth of a percent is not none.
            least if least > 0.0 && least < 0.01 => format!("{scaled:.4}"),
            _ => Count(scaled).to_string(),
        }
    }

    /// The same with its unit.
    pub(crate) fn told(self, value: f64) -> String {
        match self.unit() {
            "/s" => format!("{}/s", self.shown(value)),
            unit => format!("{} {unit}", self.shown(value)),
        }
    }
}

/// `requests` as `a request`.
fn each(operation: &str) -> String {
    let Some(one) = operation.strip_suffix('s') else {
        return format!("for {operation}");
    };
    let article = match one.starts_with(['a', 'e', 'i', 'o']) {
        true => "an",
        false => "a",
    };
    format!("{article} {one}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_fixed_units() {
        let cpu = Yardstick::Of(Figure::ServerCpu);
        assert_eq!(cpu.told(12_340.0), "12.3 µs");
        assert_eq!(cpu.told(1_234_000.0), "1234 µs");
        assert_eq!(
            Yardstick::Of(Figure::Rate).told(12_345.6),
            "12\u{202f}346/s"
        );
        assert_eq!(Yardstick::Of(Figure::Bandwidth).told(5.0e8), "477 MiB/s");
        assert_eq!(Yardstick::Of(Figure::Loss).told(0.000_02), "0.0020 %");
        assert_eq!(Yardstick::Of(Figure::Loss).told(0.0), "0 %");
    }

    #[test]
    fn an_operation_is_told_in_singular() {
        let cpu = Yardstick::Of(Figure::ServerCpu);
        assert_eq!(cpu.title("requests"), "server CPU a request");
        assert_eq!(cpu.title("operations"), "server CPU an operation");
        assert_eq!(cpu.title("work"), "server CPU for work");
    }
}
