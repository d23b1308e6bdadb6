//! Simulates the tail of a worker's response times, by discrete events.
//!
//! A worker is a queue of its own: `SO_REUSEPORT` assigns it connections at random. A connection
//! visits it several times (hello, request, reply), and waits each time for earlier visits. Demands
//! are measured; their variance is taken from the responses of a worker that was hardly busy. If
//! the client was one busy thread, as in a laboratory, it is a queue as well.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use measure::histogram::Histogram;
use measure::measurement::DurationSummary;
use measure::random::SplitMix;

/// Visits of a connection to its worker: its hello, its request, the server's reply.
const VISITS: u32 = 3;

/// Connections of a simulation: their p99 varies by some 3 %.
const CONNECTIONS: usize = 40_000;

/// Variation of durations, as multiples of their mean at shares of all.
#[derive(Clone, Debug, PartialEq)]
pub struct DurationShape {
    points: Vec<(f64, f64)>,
}

/// One worker and its clients.
#[derive(Clone, Debug)]
pub struct WorkerQueue {
    pub arrivals_per_s: f64,
    /// CPU time of each kind of connection, with its share of all.
    pub demands_s: Vec<(f64, f64)>,
    pub shape: DurationShape,
    /// Time of a connection outside of servers: the network, and clients of their own.
    pub elsewhere_s: f64,
    /// CPU time of a connection at the one client that makes all of them; 0 if each has its own.
    pub client_s: f64,
}

impl DurationShape {
    /// Makes all durations equal.
    pub fn constant() -> Self {
        Self { points: vec![(0.0, 1.0), (1.0, 1.0)] }
    }

    /// Derives the shape from quantiles of responses. The least is as far below the median as the
    /// 90th percentile is above, and at least a fifth of the median.
    pub fn of(response: &DurationSummary) -> Self {
        let median = response.p50_ns as f64;
        if response.count == 0 || median == 0.0 {
            return Self::constant();
        }
        let least = (2.0 * median - response.p90_ns as f64).max(median / 5.0);
        let mut points = vec![
            (0.0, least),
            (0.5, median),
            (0.9, response.p90_ns as f64),
            (0.99, response.p99_ns as f64),
            (0.999, response.p999_ns as f64),
            (1.0, response.max_ns as f64),
        ];
        let pairs = points.windows(2);
        let mean: f64 =
            pairs.map(|pair| (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1)).sum();
        points.iter_mut().for_each(|point| point.1 /= mean);
        Self { points }
    }

    fn draw(&self, random: &mut SplitMix) -> f64 {
        let share = random.share();
        let next = self.points.iter().position(|point| point.0 >= share);
        let next = next.unwrap_or(self.points.len() - 1).max(1);
        let (left, right) = (self.points[next - 1], self.points[next]);
        left.1 + (right.1 - left.1) * (share - left.0) / (right.0 - left.0)
    }
}

/// Arrival of a connection at a station: nanosecond, connection, step of its way.
type Visit = Reverse<(u64, usize, u32)>;

impl WorkerQueue {
    /// Returns the CPU time per second, at the given demands.
    pub fn work(&self) -> f64 {
        let mean: f64 = self.demands_s.iter().map(|(share, demand)| share * demand).sum();
        self.arrivals_per_s * mean
    }

    /// Simulates response times of connections that arrive at random.
    pub fn responses(&self, seed: u64) -> Histogram {
        let mut random = SplitMix { state: seed };
        let mut visits: BinaryHeap<Visit> = BinaryHeap::new();
        let mut began = Vec::with_capacity(CONNECTIONS);
        let mut demands = Vec::with_capacity(CONNECTIONS);
        let mut now = 0.0;
        for connection in 0..CONNECTIONS {
            now += random.exponential() / self.arrivals_per_s;
            let at = (now * 1e9) as u64;
            began.push(at);
            let factor = self.shape.draw(&mut random);
            demands.push((self.demand(&mut random) * factor, self.elsewhere_s * factor));
            visits.push(Reverse((at, connection, 0)));
        }
        let mut all = Histogram::default();
        // Next free instants of the worker and of the client.
        let mut free = [0u64; 2];
        while let Some(Reverse((at, connection, step))) = visits.pop() {
            let (server_s, elsewhere_s) = demands[connection];
            let is_client = step % 2 == 0;
            let own = if is_client { self.client_s } else { server_s };
            let station = &mut free[usize::from(is_client)];
            let ns = (own / f64::from(VISITS) * 1e9) as u64;
            let start = if is_client && self.client_s == 0.0 { at } else { at.max(*station) };
            *station = start.saturating_add(ns);
            let away = if is_client { 0.0 } else { elsewhere_s / f64::from(VISITS) };
            let done = station.saturating_add((away * 1e9) as u64);
            if step + 1 < 2 * VISITS {
                visits.push(Reverse((done, connection, step + 1)));
            } else {
                all.record(Duration::from_nanos(done.saturating_sub(began[connection])));
            }
        }
        all
    }

    fn demand(&self, random: &mut SplitMix) -> f64 {
        let mut left = random.share();
        for (share, demand) in &self.demands_s {
            left -= share;
            if left <= 0.0 {
                return *demand;
            }
        }
        self.demands_s.last().map_or(0.0, |last| last.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(busy: f64, shape: DurationShape) -> WorkerQueue {
        WorkerQueue {
            arrivals_per_s: busy / 0.001,
            demands_s: vec![(1.0, 0.001)],
            shape,
            elsewhere_s: 0.0,
            client_s: 0.0,
        }
    }

    /// Pollaczek and Khinchine: with constant demands D a visit waits ρ D / (2 (1 − ρ)) on average.
    /// Visits that follow each other at once wait like one queue that takes turns, so the sum of
    /// three lies between one visit's wait and three times that.
    #[test]
    fn waits_are_those_of_the_formula() {
        for busy in [0.3, 0.6, 0.8] {
            let mean = queue(busy, DurationShape::constant()).responses(3).mean_ns() / 1e6;
            let wait = busy / (2.0 * (1.0 - busy));
            assert!(mean > 1.0 + wait * 0.9 && mean < 1.0 + 3.0 * wait, "{busy}: {mean}");
        }
    }

    #[test]
    fn nobody_waits_at_a_worker_that_rests_and_tails_grow_with_load() {
        let idle = queue(0.001, DurationShape::constant()).responses(3);
        assert!((idle.quantile_ns(0.9) as f64 / 1e6 - 1.0).abs() < 0.01);
        let p99 = |busy| queue(busy, DurationShape::constant()).responses(3).quantile_ns(0.99);
        assert!(p99(0.3) < p99(0.6) && p99(0.6) < p99(0.9));
    }

    #[test]
    fn shapes_have_mean_one_and_keep_their_tail() {
        let summary = DurationSummary {
            count: 10,
            p50_ns: 100,
            p90_ns: 150,
            p99_ns: 400,
            p999_ns: 900,
            max_ns: 1000,
            ..DurationSummary::default()
        };
        let shape = DurationShape::of(&summary);
        let mut random = SplitMix { state: 5 };
        let drawn: Vec<f64> = (0..50_000).map(|_| shape.draw(&mut random)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!(drawn.iter().copied().fold(0.0, f64::max) > 3.5);
    }
}
