//! The counts as plain values: summed over the workers, and by worker where that says more.
//!
//! Owns the values and their sums, and names each by the catalogue; how they are shown is others'
//! business.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::time::Duration;

use crate::catalogue::{
    BUCKETS_US, Breakdown, Family, HISTOGRAM_SLOTS, Histogram, Row, Scope, Server, Service, Worker,
};

/// All counts at one time. Counters of one worker may be a few events apart from each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The services in use, in the order in which they were first named.
    pub services: Vec<ServiceSnapshot>,
    pub workers: Vec<Counts<Worker>>,
}

/// One service, over all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceSnapshot {
    pub name: String,
    pub counts: Counts<Service>,
    /// The servers in use, in the order in which they were first named.
    pub servers: Vec<ServerSnapshot>,
}

/// One server of one service, over all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerSnapshot {
    pub name: String,
    /// The addresses that some worker dials only if no other is left.
    pub addresses_down: BTreeSet<String>,
    pub counts: Counts<Server>,
}

/// The values of one scope, in the order of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts<S> {
    pub(crate) values: Vec<u64>,
    scope: PhantomData<S>,
}

/// One row with what it has counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    pub family: &'static Family,
    /// The values of the family's labels.
    pub labels: &'static [&'static str],
    /// One number, or the buckets of a histogram and the sum of its durations.
    pub values: &'a [u64],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Durations {
    /// One count a bound of [`BUCKETS_US`], not cumulative, and one for what is longer.
    pub buckets: [u64; BUCKETS_US.len() + 1],
    pub sum_us: u64,
}

impl<S: Scope> Default for Counts<S> {
    fn default() -> Self {
        Self {
            values: vec![0; S::SLOTS],
            scope: PhantomData,
        }
    }
}

impl<S: Scope> Counts<S> {
    /// A counter's or gauge's value.
    pub fn get(&self, row: impl Row<Scope = S>) -> u64 {
        self.values[row.slot()]
    }

    /// Sets what no worker counts.
    pub fn set(&mut self, row: impl Row<Scope = S>, value: u64) {
        self.values[row.slot()] = value;
    }

    /// All rows, family by family.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        let families = S::FAMILIES.iter().copied().flatten();
        let rows = families.flat_map(|family| family.rows.iter().map(move |row| (family, row)));
        let mut rest = &*self.values;
        rows.map(move |(family, labels)| {
            let values;
            (values, rest) = rest.split_at(family.row_slots());
            Sample {
                family,
                labels,
                values,
            }
        })
    }

    /// Fills in all rows: `of` is asked for each value by its family, its row's labels and its
    /// number within the row.
    pub fn from_fn(mut of: impl FnMut(&Family, &[&str], usize) -> u64) -> Self {
        let mut counts = Self::default();
        let rows: Vec<_> = Self::default()
            .samples()
            .map(|sample| (sample.family, sample.labels))
            .collect();
        let mut values = counts.values.iter_mut();
        for (family, labels) in rows {
            for (number, value) in values.by_ref().take(family.row_slots()).enumerate() {
                *value = of(family, labels, number);
            }
        }
        counts
    }
}

impl Counts<Service> {
    /// The rows of a breakdown: their labels' values and their counts.
    pub fn by(&self, breakdown: Breakdown) -> impl Iterator<Item = (&'static [&'static str], u64)> {
        let rows = breakdown.family().rows.iter().copied();
        rows.zip(self.values[breakdown.slot()..].iter().copied())
    }

    pub fn durations(&self, histogram: Histogram) -> Durations {
        Durations::of(&self.values[histogram.slot()..][..HISTOGRAM_SLOTS])
    }
}

impl Durations {
    /// The buckets and the sum of a histogram's [`Sample`].
    pub(crate) fn of(values: &[u64]) -> Self {
        let mut durations = Self::default();
        let (buckets, sum) = values.split_at(BUCKETS_US.len() + 1);
        durations.buckets.copy_from_slice(buckets);
        durations.sum_us = sum[0];
        durations
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        let add = |sum: u64, bucket: &u64| sum.saturating_add(*bucket);
        self.buckets.iter().fold(0, add)
    }

    pub fn add(&mut self, other: &Self) {
        for (sum, bucket) in self.buckets.iter_mut().zip(other.buckets) {
            *sum = sum.saturating_add(bucket);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// The upper bound of the bucket that holds this share (0 to 1) of the durations, `None` while
    /// there are none. What is longer than the last bound counts as the last bound.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut below = 0u64;
        let bounds = self.buckets.iter().zip(BUCKETS_US);
        let found = bounds.into_iter().find(|(bucket, _)| {
            below = below.saturating_add(**bucket);
            below >= rank
        });
        let bound = found.map(|(_, bound)| bound).or(BUCKETS_US.last().copied());
        bound.map(Duration::from_micros).filter(|_| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rise() {
        assert!(BUCKETS_US.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn quantiles_are_bounds_of_the_buckets_that_hold_them() {
        let mut histogram = Durations::default();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.buckets[0] = 9;
        histogram.buckets[4] = 1;
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_micros(50)));
        assert_eq!(histogram.quantile(0.9), Some(Duration::from_micros(50)));
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_micros(1000)));
        histogram.buckets[19] = 1000;
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_secs(60)));
    }

    #[test]
    fn samples_and_their_reverse_agree() {
        let mut next = 0;
        let counts = Counts::<Service>::from_fn(|_, _, _| {
            next += 1;
            next
        });
        let again = Counts::from_fn(|family, labels, number| {
            let mut samples = counts.samples();
            let sample = samples.find(|one| one.family == family && one.labels == labels);
            sample.map_or(0, |one| one.values[number])
        });
        assert_eq!(counts, again);
        assert_eq!(next as usize, Service::SLOTS);
    }
}
