//! What is printed during a run: a line per measurement, and how long the run will still take.

use std::time::{Duration, Instant};

use measure::experiment::Measurement;
use measure::metric::{Metric, Unit};

use crate::console::Console;
use crate::measurement::failure::Failure;
use crate::scenario::planned::Planned;

/// How far a run has come.
#[derive(Debug)]
pub(crate) struct Progress {
    console: Console,
    is_quiet: bool,
    total: usize,
    done: usize,
    /// How long the rest takes, by the plan.
    left: Duration,
    /// How long what was done takes by the plan, and when it began.
    planned: Duration,
    begun: Instant,
}

impl Progress {
    /// Of a run with `total` measurements to make, which will take `left`.
    pub(crate) fn new(console: Console, is_quiet: bool, total: usize, left: Duration) -> Self {
        Self {
            console,
            is_quiet,
            total,
            done: 0,
            left,
            planned: Duration::ZERO,
            begun: Instant::now(),
        }
    }

    pub(crate) fn measured(
        &mut self,
        planned: &Planned,
        metrics: &[Metric],
        measurement: &Measurement,
    ) {
        self.step(planned);
        if !self.is_quiet {
            let metrics = metrics.iter().take(2);
            let values = metrics.filter_map(|metric| value(*metric, measurement));
            self.say(planned, &values.collect::<Vec<_>>().join(", "));
        }
    }

    /// Printed even if quiet was asked for.
    pub(crate) fn failed(&mut self, planned: &Planned, failure: &Failure) {
        self.step(planned);
        let kind = match failure {
            Failure::Void(_) => "void",
            _ => "failed",
        };
        self.say(planned, &format!("{kind}: {}", failure.why()));
    }

    fn step(&mut self, planned: &Planned) {
        self.done += 1;
        self.left = self.left.saturating_sub(planned.estimate());
        self.planned += planned.estimate();
    }

    fn say(&self, planned: &Planned, what: &str) {
        let width = self.total.to_string().len();
        let key = planned.configuration.key.trim_start_matches("target=");
        let left = self.time_left();
        self.console.say(format_args!(
            "[{:>width$}/{}, {left}] {}: {key}: {what}",
            self.done, self.total, planned.scenario
        ));
    }

    /// By the plan, and by how much longer than planned it took so far.
    fn time_left(&self) -> String {
        let mut left = self.left;
        if !self.planned.is_zero() {
            let factor = self.begun.elapsed().as_secs_f64() / self.planned.as_secs_f64();
            left = left.mul_f64(factor.clamp(0.1, 10.0));
        }
        match left.as_secs() {
            0 => "done".to_owned(),
            _ => format!("{} left", minutes(left)),
        }
    }
}

pub(crate) fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..=90 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

fn value(metric: Metric, measurement: &Measurement) -> Option<String> {
    let value = metric.fitted(metric.of(measurement)?);
    let is_rate = metric.unit() == Unit::PerSecond;
    let unit = if is_rate { "/s" } else { "" };
    Some(format!("{} {value}{unit}", metric.head()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        for (seconds, text) in [(0, "0 s"), (90, "90 s"), (91, "2 min"), (3599, "60 min")] {
            assert_eq!(minutes(Duration::from_secs(seconds)), text);
        }
    }
}
