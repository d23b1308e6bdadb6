//! Keeps the counts of services in each of the last seconds, for the status page.
//!
//! Handles the differences of snapshots and their limits; the caller decides when to take a
//! snapshot. Only values that a chart shows are kept, and of those only nonzero ones.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::catalogue::{Family, MetricType, Scope, Service};
use crate::counters::Counts;
use crate::registry::CounterChanges;

/// Time between two snapshots.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Number of intervals kept: ten minutes.
pub const INTERVALS_MAX: usize = 600;

/// Most bytes that the intervals may take. A busy service takes some 300 in each, so with very many
/// of them less than ten minutes are kept.
pub const BYTES_MAX: usize = 16 << 20;

/// Families that are kept.
const FAMILIES: [&str; 8] = [
    "lariat_connections_accepted_total",
    "lariat_connections_open",
    "lariat_connections_ended_total",
    "lariat_handshakes_in_progress",
    "lariat_handshakes_total",
    "lariat_handshake_duration_seconds",
    "lariat_queue_connections",
    "lariat_relayed_bytes_total",
];

/// The last intervals, the oldest first.
#[derive(Debug, Default)]
pub struct History {
    intervals: VecDeque<Interval>,
    bytes: usize,
    /// Counts of services when they last changed; `None` before the first interval.
    last: Option<HashMap<Arc<str>, Counted>>,
}

#[derive(Debug)]
struct Interval {
    end_ms: u64,
    duration_ms: u64,
    services: Vec<(Arc<str>, Counted)>,
}

/// Nonzero values, with their slots.
type Counted = Box<[(u16, u64)]>;

/// Counts of an interval: the rise of counters and durations, and the peaks of gauges.
#[derive(Debug)]
pub struct IntervalCounts {
    /// End of the interval, in milliseconds since the epoch.
    pub end_ms: u64,
    pub duration_ms: u64,
    pub counts: Counts<Service>,
}

#[derive(Debug)]
pub struct HistoryInterval {
    pub end_ms: u64,
    pub duration_ms: u64,
    pub services: Vec<(Arc<str>, Counts<Service>)>,
}

impl History {
    /// Adds an interval of this length that ended at this time (milliseconds since the epoch), with
    /// its changes.
    ///
    /// The first call only starts counting, and so does the first one that contains a service which
    /// was absent at the end of the interval before.
    pub fn add(&mut self, end_ms: u64, duration: Duration, changes: &CounterChanges) {
        let is_first = self.last.is_none();
        let last = self.last.get_or_insert_default();
        for name in &changes.gone {
            last.remove(&**name);
        }
        let mut services = Vec::new();
        for service in &changes.services {
            let now = kept(&service.counts);
            let before = last.remove_entry(&*service.name);
            let (name, before) = before.unzip();
            let name = name.unwrap_or_else(|| service.name.as_str().into());
            let risen = before.map(|before| risen(&before, &now));
            let risen = risen.filter(|risen| !risen.is_empty());
            services.extend(risen.map(|risen| (Arc::clone(&name), risen)));
            last.insert(name, now);
        }
        if is_first {
            return;
        }
        self.push(Interval {
            end_ms,
            duration_ms: duration.as_millis().try_into().unwrap_or(u64::MAX),
            services,
        });
    }

    /// Returns all intervals, the oldest first.
    pub fn recorded(&self) -> impl DoubleEndedIterator<Item = HistoryInterval> {
        self.intervals.iter().map(|interval| {
            let services = interval.services.iter();
            let services = services.map(|(name, counted)| {
                let mut counts = Counts::default();
                for (slot, value) in counted {
                    counts.values[usize::from(*slot)] = *value;
                }
                (Arc::clone(name), counts)
            });
            HistoryInterval {
                end_ms: interval.end_ms,
                duration_ms: interval.duration_ms,
                services: services.collect(),
            }
        })
    }

    /// Replaces all intervals by these, the oldest first; counting continues.
    pub fn replace(&mut self, intervals: impl IntoIterator<Item = HistoryInterval>) {
        self.intervals.clear();
        self.bytes = 0;
        for recorded in intervals {
            let services = recorded.services.into_iter();
            let services = services.map(|(name, counts)| (name, kept(&counts)));
            self.push(Interval {
                end_ms: recorded.end_ms,
                duration_ms: recorded.duration_ms,
                services: services.collect(),
            });
        }
    }

    fn push(&mut self, interval: Interval) {
        self.bytes += interval.bytes();
        self.intervals.push_back(interval);
        while self.intervals.len() > INTERVALS_MAX || self.bytes > BYTES_MAX {
            let oldest = self.intervals.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
    }

    /// Returns the intervals that ended after this time, of one service or of all.
    ///
    /// Peaks of several services, like those of several workers, are added, though they may not
    /// have occurred at the same time.
    pub fn intervals(
        &self,
        after_ms: u64,
        service: Option<&str>,
    ) -> impl Iterator<Item = IntervalCounts> {
        let later = self.intervals.iter().filter(move |one| one.end_ms > after_ms);
        later.map(move |interval| {
            let mut counts = Counts::default();
            let services = interval.services.iter();
            let chosen = services.filter(|(name, _)| service.is_none_or(|one| one == &**name));
            for (slot, value) in chosen.flat_map(|(_, counted)| counted) {
                let sum: &mut u64 = &mut counts.values[usize::from(*slot)];
                *sum = sum.saturating_add(*value);
            }
            IntervalCounts { end_ms: interval.end_ms, duration_ms: interval.duration_ms, counts }
        })
    }
}

impl Interval {
    /// Returns the memory of the interval, without the allocator's overhead.
    fn bytes(&self) -> usize {
        let of_services = self.services.iter().map(|(_, counted)| size_of_val(&**counted));
        let heads = self.services.len() * size_of::<(Arc<str>, Counted)>();
        size_of::<Self>() + heads + of_services.sum::<usize>()
    }
}

/// Returns the part of these counts that is kept.
fn kept(counts: &Counts<Service>) -> Counted {
    let values = counts.values.iter().zip(&*KEPT_SLOTS).zip(0u16..);
    let kept = values.filter(|((value, kind), _)| **value > 0 && kind.is_some());
    kept.map(|((value, _), slot)| (slot, *value)).collect()
}

/// Returns the rise of counters and durations, and gauges unchanged.
fn risen(before: &Counted, now: &Counted) -> Counted {
    let rises = now.iter().map(|(slot, value)| match KEPT_SLOTS[usize::from(*slot)] {
        Some(MetricType::Counter | MetricType::Histogram) => {
            let at = before.binary_search_by_key(slot, |(slot, _)| *slot);
            let before = at.map_or(0, |at| before[at].1);
            (*slot, value.saturating_sub(before))
        }
        Some(MetricType::Gauge) | None => (*slot, *value),
    });
    rises.filter(|(_, value)| *value > 0).collect()
}

/// Kind of the family for each slot of a service; `None` if it is not kept.
static KEPT_SLOTS: LazyLock<Vec<Option<MetricType>>> = LazyLock::new(|| {
    let families = Service::FAMILIES.iter().copied().flatten();
    let slots = families.flat_map(|family: &Family| {
        let kind = FAMILIES.contains(&family.name).then_some(family.kind);
        std::iter::repeat_n(kind, family.rows.len() * family.row_slots())
    });
    slots.collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Breakdown, Histogram, ServiceCounter, ServiceGauge, families};
    use crate::outcome::Reason;
    use crate::registry::Registry;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn all_families_kept_are_in_the_catalogue() {
        let known = |name: &&str| families().any(|(_, family)| family.name == *name);
        assert!(FAMILIES.iter().all(known));
        assert_eq!(KEPT_SLOTS.len(), Service::SLOTS);
    }

    #[test]
    fn an_interval_has_what_was_counted_in_it() {
        let registry = Registry::new(2);
        let [web, mail] =
            [(0, "web"), (1, "mail")].map(|(worker, name)| registry.service(worker, name, &[]));
        web.add(ServiceCounter::ConnectionsAccepted, 5);
        let mut history = History::default();
        history.add(1000, SECOND, &registry.changes());

        web.add(ServiceCounter::ConnectionsAccepted, 2);
        web.ended(Reason::NotTls);
        web.observe(Histogram::HandshakeFull, Duration::from_micros(60));
        web.add(ServiceCounter::LogLinesSuppressed, 9);
        mail.raise(ServiceGauge::ConnectionsOpen);
        history.add(2000, SECOND, &registry.changes());
        history.add(3500, SECOND * 3 / 2, &registry.changes());

        let one = |service, end_ms| {
            assert_eq!(history.intervals(0, service).count(), 2);
            let mut all = history.intervals(0, service);
            all.find(|interval| interval.end_ms == end_ms).unwrap()
        };
        let accepted = |one: &IntervalCounts| one.counts.get(ServiceCounter::ConnectionsAccepted);
        let second = one(Some("web"), 2000);
        assert_eq!(accepted(&second), 2);
        assert_eq!(second.counts.durations(Histogram::HandshakeFull).buckets[1], 1);
        let ended = second.counts.by(Breakdown::Ended);
        let ended: Vec<_> = ended.filter(|(_, count)| *count > 0).collect();
        assert_eq!(ended, [(&["not-tls", "client"][..], 1)]);
        assert_eq!(second.counts.get(ServiceCounter::LogLinesSuppressed), 0);
        let open = |one: &IntervalCounts| one.counts.get(ServiceGauge::ConnectionsOpen);
        assert_eq!((open(&second), open(&one(None, 2000))), (0, 1));
        let third = one(None, 3500);
        assert_eq!((accepted(&third), open(&third), third.duration_ms), (0, 1, 1500));
        assert_eq!(history.intervals(2000, None).count(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let registry = Registry::new(1);
        let services: Vec<_> =
            (0..200).map(|number| registry.service(0, &format!("service {number}"), &[])).collect();
        let mut history = History::default();
        let mut ends = 0..;
        let mut step = |history: &mut History| {
            for service in &services {
                Reason::ALL.iter().for_each(|reason| service.ended(*reason));
            }
            history.add(ends.next().unwrap(), SECOND, &registry.changes());
        };
        while history.bytes < BYTES_MAX - 500_000 {
            step(&mut history);
        }
        let full = history.intervals.len();
        assert!(full < INTERVALS_MAX);
        (0..20).for_each(|_| step(&mut history));
        assert!(history.bytes <= BYTES_MAX && history.intervals.len() <= full + 3);
        let sum: usize = history.intervals.iter().map(Interval::bytes).sum();
        assert_eq!(sum, history.bytes);

        let mut idle = History::default();
        (0..2 * INTERVALS_MAX as u64)
            .for_each(|end| idle.add(end, SECOND, &CounterChanges::default()));
        assert_eq!(idle.intervals.len(), INTERVALS_MAX);
        assert_eq!(idle.intervals[0].end_ms, INTERVALS_MAX as u64);
    }
}
