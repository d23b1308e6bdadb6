//! Rounds of a run that ends by a rule: which configurations need more of them.
//!
//! Owns the values of main metrics by round, of this run and of the record that it resumes. The
//! rule itself is `measure::until`.

use std::collections::BTreeMap;

use measure::experiment::{Experiment, Measurement, Scenario};

use super::scenario::settings::Planned;

/// The main metric's value in each round, by scenario and configuration.
#[derive(Debug, Default)]
pub(crate) struct MeasuredRounds(BTreeMap<(String, String), BTreeMap<u32, f64>>);

impl MeasuredRounds {
    pub(crate) fn of(record: &Experiment) -> Self {
        let mut rounds = Self::default();
        for measurement in &record.measurements {
            let mut scenarios = record.plan.scenarios.iter();
            if let Some(scenario) = scenarios.find(|one| one.name == measurement.scenario) {
                rounds.add(scenario, measurement);
            }
        }
        rounds
    }

    pub(crate) fn add(&mut self, scenario: &Scenario, measurement: &Measurement) {
        let value = scenario.metrics.first().and_then(|metric| metric.of(measurement));
        if let Some(value) = value {
            let key = (measurement.scenario.clone(), measurement.configuration.clone());
            self.0.entry(key).or_default().insert(measurement.repeat, value);
        }
    }

    /// Whether the targets at one choice of values need no more rounds, each compared with the
    /// first of them. One alone is compared with itself at its level: its own interval counts.
    pub(crate) fn are_enough(&self, scenario: &Scenario, targets: &[&Planned]) -> bool {
        let (Some(rule), Some(metric)) = (scenario.until, scenario.metrics.first()) else {
            return false;
        };
        let values: Vec<_> = targets.iter().map(|planned| self.values(planned)).collect();
        let comparisons: Vec<Vec<(f64, f64)>> = match values.as_slice() {
            [] => return true,
            [alone] => vec![alone.values().map(|value| (*value, 1.0)).collect()],
            [first, others @ ..] => {
                let paired = |other: &BTreeMap<u32, f64>| {
                    let pairs = other.iter();
                    pairs.filter_map(|(round, value)| Some((*value, *first.get(round)?))).collect()
                };
                others.iter().map(paired).collect()
            }
        };
        rule.is_met(*metric, &comparisons)
    }

    fn values(&self, planned: &Planned) -> BTreeMap<u32, f64> {
        let key = (planned.scenario.clone(), planned.configuration.key.clone());
        self.0.get(&key).cloned().unwrap_or_default()
    }
}
