//! Counts the transactions of a thread.
//!
//! A tally's size depends on the number of seconds and kinds, not of transactions.

use std::collections::BTreeMap;
use std::time::Duration;

use measure::choice::{EchOutcome, Kind};
use measure::histogram::Histogram;
use measure::merge::add_all;
use measure::record::{
    HandshakeCounts, Latencies, LoadSecond, RequestResult, TrafficBytes, TransactionCounts,
};
use rustls::{CipherSuite, NamedGroup, ProtocolVersion, SignatureScheme};

use crate::failure::TransactionFailure;
use crate::tls::{group_name, scheme_name, suite_name};

/// Result of a handshake, as seen by the client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Negotiated {
    pub(crate) kind: Kind,
    pub(crate) version: Option<ProtocolVersion>,
    pub(crate) suite: Option<CipherSuite>,
    pub(crate) group: Option<NamedGroup>,
    pub(crate) signature: Option<SignatureScheme>,
    pub(crate) alpn: Option<Vec<u8>>,
    pub(crate) retried: bool,
    pub(crate) early_data_accepted: Option<bool>,
    pub(crate) ech: Option<EchOutcome>,
}

/// Durations of a successful transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionTiming {
    pub(crate) kind: Kind,
    /// `None` if there was no handshake.
    pub(crate) handshake: Option<Duration>,
    /// `None` without a request.
    pub(crate) first_byte: Option<Duration>,
    pub(crate) total: Duration,
}

/// Counts of a thread, or of all of them.
#[derive(Debug, Default)]
pub(crate) struct LoadTally {
    pub(crate) warm_up: TransactionCounts,
    /// Transactions of the warm-up that succeeded after its end.
    pub(crate) carried: u64,
    pub(crate) totals: TransactionCounts,
    pub(crate) failures: BTreeMap<TransactionFailure, u64>,
    /// Ended transactions, by the index of their address.
    pub(crate) addresses: BTreeMap<usize, TransactionCounts>,
    /// Ended transactions, by the index of their request, if there are several.
    pub(crate) requests: BTreeMap<usize, RequestResult>,
    /// Counts by outcome; a list, because searching a handful is cheaper than a table.
    pub(crate) handshakes: Vec<(Negotiated, u64)>,
    pub(crate) traffic: TrafficBytes,
    pub(crate) latencies: BTreeMap<Kind, Latencies>,
    pub(crate) failed_after: Histogram,
    pub(crate) lag: Histogram,
    pub(crate) steps: Vec<StepTally>,
}

/// Transactions planned in one stretch.
#[derive(Debug, Default)]
pub(crate) struct StepTally {
    pub(crate) counts: TransactionCounts,
    /// Successes that ended in the stretch, whenever they were planned.
    pub(crate) ended: u64,
    pub(crate) total: Histogram,
}

/// Counts of a thread in one second.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SecondTally {
    pub(crate) attempted: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) handshakes: BTreeMap<Kind, u64>,
    pub(crate) open: u64,
    pub(crate) total: Histogram,
    pub(crate) failures: BTreeMap<TransactionFailure, u64>,
}

impl LoadTally {
    /// Makes a tally of `steps` stretches.
    pub(crate) fn new(steps: usize) -> Self {
        Self { steps: (0..steps).map(|_| StepTally::default()).collect(), ..Self::default() }
    }

    /// Counts a success that belongs to the figures.
    pub(crate) fn succeed(&mut self, timing: &TransactionTiming, step: Option<usize>) {
        self.totals.succeeded += 1;
        let latencies = self.latencies.entry(timing.kind).or_default();
        if let Some(duration) = timing.handshake {
            latencies.handshake.record(duration);
        }
        if let Some(duration) = timing.first_byte {
            latencies.first_byte.record(duration);
        }
        latencies.total.record(timing.total);
        if let Some(step) = step.and_then(|step| self.steps.get_mut(step)) {
            step.counts.succeeded += 1;
            step.total.record(timing.total);
        }
    }

    /// Counts a failure that belongs to the figures.
    pub(crate) fn fail(&mut self, failure: TransactionFailure, step: Option<usize>) {
        self.totals.failed += 1;
        *self.failures.entry(failure).or_default() += 1;
        if let Some(step) = step.and_then(|step| self.steps.get_mut(step)) {
            step.counts.failed += 1;
        }
    }

    pub(crate) fn shake_hands(&mut self, negotiated: Negotiated) {
        self.add_handshakes(negotiated, 1);
    }

    fn add_handshakes(&mut self, negotiated: Negotiated, more: u64) {
        let known = self.handshakes.iter_mut().find(|(key, _)| *key == negotiated);
        match known {
            Some((_, count)) => *count += more,
            None => self.handshakes.push((negotiated, more)),
        }
    }

    /// Adds the counts of another thread, or another run; its steps are the same or later.
    pub(crate) fn add(&mut self, other: Self) {
        self.warm_up += other.warm_up;
        self.carried += other.carried;
        self.totals += other.totals;
        add_all(&mut self.failures, &other.failures);
        add_all(&mut self.addresses, &other.addresses);
        for (request, result) in other.requests {
            *self.requests.entry(request).or_default() += &result;
        }
        for (negotiated, count) in other.handshakes {
            self.add_handshakes(negotiated, count);
        }
        self.traffic += other.traffic;
        for (kind, latencies) in other.latencies {
            *self.latencies.entry(kind).or_default() += &latencies;
        }
        self.failed_after.add(&other.failed_after);
        self.lag.add(&other.lag);
        for (index, step) in other.steps.into_iter().enumerate() {
            match self.steps.get_mut(index) {
                Some(sum) => {
                    sum.counts += step.counts;
                    sum.ended += step.ended;
                    sum.total.add(&step.total);
                }
                None => self.steps.push(step),
            }
        }
    }

    pub(crate) fn failures_by_name(&self) -> BTreeMap<String, u64> {
        by_name(&self.failures)
    }

    /// Returns handshakes for a record, the most frequent first.
    pub(crate) fn handshake_rows(&self) -> Vec<HandshakeCounts> {
        let mut rows: Vec<_> =
            self.handshakes.iter().map(|(key, count)| row(key, *count)).collect();
        rows.sort_by(|a, b| {
            b.count.cmp(&a.count).then(a.kind.cmp(&b.kind)).then_with(|| a.suite.cmp(&b.suite))
        });
        rows
    }
}

impl SecondTally {
    /// Adds another thread's counts of the same second.
    pub(crate) fn add(&mut self, other: Self) {
        self.attempted += other.attempted;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        add_all(&mut self.handshakes, &other.handshakes);
        self.open += other.open;
        self.total.add(&other.total);
        add_all(&mut self.failures, &other.failures);
    }

    pub(crate) fn second(&self, at_s: u64) -> LoadSecond {
        let (resumed, full): (Vec<_>, Vec<_>) =
            self.handshakes.iter().partition(|(kind, _)| kind.is_resumption());
        let sum = |rows: Vec<(&Kind, &u64)>| rows.into_iter().map(|(_, count)| count).sum();
        LoadSecond {
            at_s,
            attempted: self.attempted,
            succeeded: self.succeeded,
            failed: self.failed,
            resumed: sum(resumed),
            full: sum(full),
            mean_ns: self.total.mean_ns() as u64,
            median_ns: self.total.quantile_ns(0.5),
            p99_ns: self.total.quantile_ns(0.99),
            max_ns: self.total.max_ns(),
            open: self.open,
        }
    }

    pub(crate) fn failures_by_name(&self) -> BTreeMap<String, u64> {
        by_name(&self.failures)
    }
}

fn by_name(failures: &BTreeMap<TransactionFailure, u64>) -> BTreeMap<String, u64> {
    failures.iter().map(|(failure, count)| (failure.name().into_owned(), *count)).collect()
}

fn row(key: &Negotiated, count: u64) -> HandshakeCounts {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    HandshakeCounts {
        kind: key.kind,
        version: match key.version {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2".to_owned(),
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3".to_owned(),
            other => format!("{other:?}"),
        },
        suite: key.suite.map(suite_name).unwrap_or_default(),
        group: key.group.map(group_name),
        signature: key.signature.map(scheme_name),
        alpn: key.alpn.as_ref().map(text),
        retried: key.retried,
        early_data_accepted: key.early_data_accepted,
        ech: key.ech,
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(kind: Kind) -> Negotiated {
        Negotiated {
            kind,
            version: Some(ProtocolVersion::TLSv1_3),
            suite: Some(CipherSuite::TLS13_AES_128_GCM_SHA256),
            group: Some(NamedGroup::X25519),
            signature: Some(SignatureScheme::ECDSA_NISTP256_SHA256),
            alpn: Some(b"h2".to_vec()),
            retried: false,
            early_data_accepted: None,
            ech: None,
        }
    }

    #[test]
    fn sums_are_of_both() {
        let mut sum = LoadTally::new(1);
        let timing = TransactionTiming {
            kind: Kind::Full,
            handshake: Some(Duration::from_millis(2)),
            first_byte: None,
            total: Duration::from_millis(3),
        };
        sum.succeed(&timing, Some(0));
        sum.shake_hands(negotiated(Kind::Full));
        let mut other = LoadTally::new(2);
        other.fail(TransactionFailure::NotTls, Some(1));
        other.succeed(&timing, Some(0));
        other.shake_hands(negotiated(Kind::Full));
        other.shake_hands(negotiated(Kind::Psk));
        sum.add(other);
        assert_eq!((sum.totals.succeeded, sum.totals.failed), (2, 1));
        assert_eq!(sum.latencies[&Kind::Full].handshake.count(), 2);
        assert_eq!((sum.steps[0].counts.succeeded, sum.steps[1].counts.failed), (2, 1));
        assert_eq!(sum.failures_by_name()["not-tls"], 1);
        let rows = sum.handshake_rows();
        assert_eq!((rows[0].kind, rows[0].count), (Kind::Full, 2));
        assert_eq!((rows[1].kind, rows[1].count), (Kind::Psk, 1));
    }

    #[test]
    fn names_are_the_standard_ones() {
        let row = row(&negotiated(Kind::Full), 1);
        assert_eq!(row.version, "TLSv1.3");
        assert_eq!(row.suite, "TLS_AES_128_GCM_SHA256");
        assert_eq!(row.group.as_deref(), Some("x25519"));
        assert_eq!(row.signature.as_deref(), Some("ecdsa_secp256r1_sha256"));
        assert_eq!(group_name(NamedGroup::X25519MLKEM768), "X25519MLKEM768");
        assert_eq!(group_name(NamedGroup::secp256r1), "secp256r1");
    }
}
