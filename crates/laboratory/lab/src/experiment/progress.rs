//! What is said while a run goes on: a line a reading, and how long it will still take.

use std::time::{Duration, Instant};

use measure::experiment::Measurement;
use measure::metric::{Metric, Unit};

use crate::console::Console;
use crate::measurement::missed::Missed;
use crate::scenario::cell::CellPlan;

/// How far a run is.
#[derive(Debug)]
pub(crate) struct Progress {
    console: Console,
    is_quiet: bool,
    total: usize,
    done: usize,
    /// What is still to come, by the plan.
    left: Duration,
    /// What has been done, by the plan, and how long that took.
    planned: Duration,
    begun: Instant,
}

impl Progress {
    /// Of a run with so many readings to come, which will take so long.
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

    /// A reading was made.
    pub(crate) fn read(&mut self, cell: &CellPlan, metrics: &[Metric], reading: &Measurement) {
        let told = metrics
            .iter()
            .take(2)
            .filter_map(|metric| tell(*metric, reading));
        let told: Vec<_> = told.collect();
        self.step(cell);
        if !self.is_quiet {
            self.say(cell, &told.join(", "));
        }
    }

    /// One could not be made. Said even to those who want quiet.
    pub(crate) fn missed(&mut self, cell: &CellPlan, missed: &Missed) {
        self.step(cell);
        let (way, why) = match missed {
            Missed::Failed(why) => ("failed", why.as_str()),
            Missed::Void(why) => ("void", why.as_str()),
            Missed::Interrupted => return,
        };
        self.say(cell, &format!("{way}: {why}"));
    }

    fn step(&mut self, cell: &CellPlan) {
        self.done += 1;
        self.left = self.left.saturating_sub(cell.estimate());
        self.planned += cell.estimate();
    }

    fn say(&self, cell: &CellPlan, what: &str) {
        let width = self.total.to_string().len();
        let key = cell.cell.key.trim_start_matches("target=");
        let left = minutes(self.time_left());
        self.console.say(format_args!(
            "[{:>width$}/{}, {left}] {}: {key}: {what}",
            self.done, self.total, cell.scenario
        ));
    }

    /// By the plan, and by how much longer than planned it took so far.
    fn time_left(&self) -> Duration {
        match self.planned.is_zero() {
            true => self.left,
            false => {
                let factor = self.begun.elapsed().as_secs_f64() / self.planned.as_secs_f64();
                self.left.mul_f64(factor.clamp(0.1, 10.0))
            }
        }
    }
}

/// `4 s left`, `12 min left`.
fn minutes(left: Duration) -> String {
    match left.as_secs() {
        0 => "done".to_owned(),
        seconds @ 1..=90 => format!("{seconds} s left"),
        seconds => format!("{} min left", (seconds + 30) / 60),
    }
}

fn tell(metric: Metric, reading: &Measurement) -> Option<String> {
    let value = metric.fitted(metric.of(reading)?);
    let unit = if metric.unit() == Unit::PerSecond {
        "/s"
    } else {
        ""
    };
    Some(format!("{} {value}{unit}", metric.head()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_told_in_the_unit_that_fits() {
        assert_eq!(minutes(Duration::from_millis(400)), "done");
        assert_eq!(minutes(Duration::from_secs(90)), "90 s left");
        assert_eq!(minutes(Duration::from_secs(91)), "2 min left");
        assert_eq!(minutes(Duration::from_secs(3599)), "60 min left");
    }
}
