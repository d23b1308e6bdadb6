//! Costs of connections: CPU time of a worker in full use, from observations, and how it grows when
//! the worker is less busy.

use measure::choice::Kind;
use measure::planned::{PlannedCost, PlannedFigure};
use measure::record::{HostReport, OperationSpeed, RunWarning};

use crate::PlanFault;
use crate::observation::{self, Observation, mean};
use crate::traffic::{GROUPS, PlannedKey};

/// Larger bodies are costs of bytes as well.
const SMALL_BODY_BYTES: u64 = 4096;

/// The body of the requests that costs of connections include.
const BASE_BODY_BYTES: f64 = 1024.0;

/// An operation that takes longer than a quarter of an hour was not measured.
pub const PER_S_MIN: f64 = 1e-3;

/// From this size on the bytes of a body are a cost that stands out of its connection's.
const LARGE_BODY_BYTES: u64 = 16 << 10;

/// A connection with one request for 1 KiB, or a further request on it, or a byte.
#[derive(Clone, Debug)]
pub struct ConnectionCost {
    pub name: String,
    /// One for each measurement, in µs of CPU time.
    pub samples: Vec<f64>,
    pub source: String,
    pub is_measured: bool,
}

/// The connection that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionKind {
    pub kind: Kind,
    pub is_tls13: bool,
    pub key: PlannedKey,
    pub group: String,
}

/// Speeds of keys on the host that made the records, and of another that is planned for.
#[derive(Clone, Debug, Default)]
pub struct HostSpeeds {
    pub here: Vec<OperationSpeed>,
    pub there: Option<Vec<OperationSpeed>>,
}

/// All that is known of a target.
#[derive(Clone, Debug)]
pub struct TargetCosts {
    pub target: String,
    observations: Vec<Observation>,
    speeds: HostSpeeds,
}

/// CPU time of a worker that is less busy, to that of one in full use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BusyInflation {
    /// How busy, and the factor; in rising order.
    points: Vec<(f64, f64)>,
    pub source: String,
}

impl HostSpeeds {
    /// Rows of all hosts; another host's are what it is planned for.
    pub fn of(mut here: Vec<OperationSpeed>, there: Option<&HostReport>) -> Self {
        here.retain(|row| row.per_s >= PER_S_MIN);
        Self { here, there: there.map(|host| host.speeds.clone()) }
    }

    /// µs of an operation by the library of that name.
    fn us(
        speeds: &[OperationSpeed],
        library: &str,
        operation: &str,
        algorithm: &str,
    ) -> Option<f64> {
        let matching = speeds.iter().filter(|row| {
            row.operation == operation
                && row.algorithm == algorithm
                && row.library.starts_with(library)
        });
        let times: Vec<f64> = matching.map(|row| 1e6 / row.per_s).collect();
        (!times.is_empty()).then(|| mean(&times))
    }

    /// How much longer other work takes there, and how far operations lie apart from that: the
    /// geometric mean of all speeds in common, and the greatest deviation.
    pub fn scale(&self, library: &str) -> Option<(f64, f64)> {
        let there = self.there.as_ref()?;
        let rows = self.here.iter().filter(|row| row.library.starts_with(library));
        let ratios = rows.filter_map(|row| {
            let other = there.iter().find(|other| {
                other.operation == row.operation
                    && other.algorithm == row.algorithm
                    && other.size_bytes == row.size_bytes
                    && other.library.starts_with(library)
            })?;
            Some((row.per_s / other.per_s).ln())
        });
        let ratios: Vec<f64> = ratios.collect();
        if ratios.is_empty() {
            return None;
        }
        let middle = mean(&ratios);
        let apart = ratios.iter().map(|ratio| (ratio - middle).abs()).fold(0.0, f64::max);
        Some((middle.exp(), apart.exp() - 1.0))
    }
}

impl TargetCosts {
    pub fn new(target: &str, observations: &[Observation], speeds: &HostSpeeds) -> Self {
        let own = observations.iter().filter(|one| one.target == target && !one.is_faulty);
        Self {
            target: target.to_owned(),
            observations: own.cloned().collect(),
            speeds: speeds.clone(),
        }
    }

    /// Our own programs use AWS-LC, Debian's use OpenSSL.
    pub fn library(&self) -> &'static str {
        if self.target.starts_with("lariat") { "aws-lc" } else { "OpenSSL" }
    }

    /// A connection with one request for 1 KiB.
    ///
    /// # Errors
    /// [`PlanFault::NoCost`] if no record comes near it.
    pub fn connection(&self, wanted: &ConnectionKind) -> Result<ConnectionCost, PlanFault> {
        let found = self.pure(wanted, true).or_else(|| self.of_mix(wanted));
        let found = found.or_else(|| self.pure(wanted, false));
        let found = found.ok_or_else(|| PlanFault::NoCost {
            target: self.target.clone(),
            what: format!("a connection of kind `{}`", wanted.kind.name()),
            remedy: "`lariat-lab run terminate` measures each kind; name its record with --record"
                .to_owned(),
        })?;
        self.adjusted(found, wanted)
    }

    /// Connections that all were of that kind; the nearest ones.
    fn pure(&self, wanted: &ConnectionKind, same_version: bool) -> Option<NearestSamples> {
        let distance = |one: &Observation| {
            let key = wanted.kind == Kind::Full && one.key != Some(wanted.key);
            let group = one.group.as_deref() != Some(wanted.group.as_str());
            (one.is_tls13 != wanted.is_tls13, key, group)
        };
        let kinds = kinds_as_dear_as(wanted.kind);
        let fits = |one: &&Observation| {
            self.is_base(one)
                && kinds.iter().any(|kind| one.is_pure(*kind))
                && (one.is_tls13 == wanted.is_tls13 || !same_version)
                && (wanted.kind != Kind::Full || one.key.is_some())
        };
        let all: Vec<&Observation> = self.observations.iter().filter(fits).collect();
        let least = all.iter().map(|one| distance(one)).min()?;
        Some(NearestSamples::of(all.into_iter().filter(|one| distance(one) == least)))
    }

    /// Full handshakes of a mix of which the resumptions are known by themselves.
    fn of_mix(&self, wanted: &ConnectionKind) -> Option<NearestSamples> {
        if wanted.kind != Kind::Full {
            return None;
        }
        let mixes = self.observations.iter().filter(|one| {
            let full = one.share(Kind::Full);
            let is_mix = (0.1..0.9).contains(&full) && one.is_tls13 == wanted.is_tls13;
            self.is_base(one) && is_mix && one.key.is_some()
        });
        let mixes: Vec<&Observation> = mixes.collect();
        let exact = mixes.iter().any(|one| one.key == Some(wanted.key));
        let mut found = NearestSamples::of(
            mixes.into_iter().filter(|one| !exact || one.key == Some(wanted.key)),
        );
        let first = found.first.as_ref()?;
        let resumed: f64 = 1.0 - first.share(Kind::Full);
        let kind = *first.kinds.keys().find(|kind| kind.is_resumption())?;
        let known = self.pure(&ConnectionKind { kind, ..wanted.clone() }, true)?;
        let known_us = mean(&known.samples);
        for sample in &mut found.samples {
            *sample = (*sample - resumed * known_us) / (1.0 - resumed);
        }
        found.is_measured = false;
        found.source = format!("{} less resumptions of {}", found.source, known.source);
        Some(found)
    }

    /// One request, a worker, its CPU in full use by a closed load.
    fn is_base(&self, one: &Observation) -> bool {
        one.is_request
            && !one.is_kept
            && !one.is_open
            && one.workers == 1
            && one.body_bytes <= SMALL_BODY_BYTES
            && one.scenario != "scale-out"
            && (one.scenario != "object-sizes" || one.body_bytes == BASE_BODY_BYTES as u64)
    }

    /// For another key or group, and on another host.
    fn adjusted(
        &self,
        found: NearestSamples,
        wanted: &ConnectionKind,
    ) -> Result<ConnectionCost, PlanFault> {
        let NearestSamples { mut samples, mut source, mut is_measured, first } = found;
        let first = first.expect("a cost is of one observation at least");
        let (had_key, had_group) = (first.key, first.group.clone());
        let (here, there) = (&self.speeds.here, self.speeds.there.as_ref());
        let is_full = wanted.kind == Kind::Full;
        // TLS 1.2 exchanges no keys when it resumes; TLS 1.3 does (psk_dhe_ke).
        let has_exchange = is_full || wanted.is_tls13;
        let mut shift = 0.0;
        let mut own_there = 0.0;
        let mut own_here = 0.0;
        if let Some(key) = had_key.filter(|_| is_full) {
            let asked = self.signature_us(here, wanted.key);
            if key != wanted.key {
                let (had, asked) = (self.signature_us(here, key)?, asked.clone()?);
                shift += asked - had;
                is_measured = false;
                source += &format!(
                    "; {} by `lariat-lab host` instead of {}",
                    wanted.key.title(),
                    key.title()
                );
            }
            if let (Ok(asked), Some(there)) = (asked, there) {
                own_here += asked;
                own_there += self.signature_us(there, wanted.key)?;
            }
        }
        if let Some(group) = had_group.filter(|_| has_exchange) {
            let asked = self.exchange_us(here, &wanted.group);
            if group != wanted.group {
                let had = self.exchange_us(here, &group)?;
                shift += asked.clone()? - had;
                is_measured = false;
                source += &format!("; {} by `lariat-lab host` instead of {group}", wanted.group);
            }
            if let (Ok(asked), Some(there)) = (asked, there) {
                own_here += asked;
                own_there += self.exchange_us(there, &wanted.group)?;
            }
        }
        if first.is_tls13 != wanted.is_tls13 {
            is_measured = false;
            source += "; of the other version of TLS";
        }
        if let Some((scale, _)) = self.speeds.scale(self.library()) {
            is_measured = false;
            source += "; brought to the other host by its speeds";
            for sample in &mut samples {
                *sample = own_there + (*sample + shift - own_here).max(0.0) * scale;
            }
        } else {
            samples.iter_mut().for_each(|sample| *sample += shift);
        }
        let name = format!("{} handshake, one request", wanted.kind.name());
        Ok(ConnectionCost { name, samples, source, is_measured })
    }

    fn signature_us(&self, speeds: &[OperationSpeed], key: PlannedKey) -> Result<f64, PlanFault> {
        self.speed(speeds, "sign", key.title())
    }

    fn exchange_us(&self, speeds: &[OperationSpeed], group: &str) -> Result<f64, PlanFault> {
        let known = GROUPS.iter().find(|(name, _)| name.eq_ignore_ascii_case(group));
        self.speed(speeds, "agree", known.map_or(group, |(_, title)| title))
    }

    fn speed(
        &self,
        speeds: &[OperationSpeed],
        operation: &str,
        algorithm: &str,
    ) -> Result<f64, PlanFault> {
        let library = self.library();
        HostSpeeds::us(speeds, library, operation, algorithm).ok_or_else(|| PlanFault::NoCost {
            target: self.target.clone(),
            what: format!("`{operation}` with {algorithm} by {library}"),
            remedy: "`lariat-lab host --speeds full --json` on the records' host measures it: \
                     name what it printed with --speeds; or run `keys` and `groups`"
                .to_owned(),
        })
    }

    /// A further request for 1 KiB on a connection that stands.
    pub fn kept_request(&self) -> Option<ConnectionCost> {
        let kept = |one: &&Observation| {
            one.is_kept
                && !one.is_open
                && one.body_bytes <= SMALL_BODY_BYTES
                && one.scenario != "idle"
                && one.workers == 1
        };
        let found = NearestSamples::of(self.observations.iter().filter(kept));
        found.first.as_ref()?;
        let scale = self.speeds.scale(self.library()).map_or(1.0, |(scale, _)| scale);
        Some(ConnectionCost {
            name: "request on a kept connection".to_owned(),
            samples: found.samples.iter().map(|us| us * scale).collect(),
            source: found.source,
            is_measured: scale == 1.0,
        })
    }

    /// µs for a byte of a body, as measured with large ones; else by the cipher's speed, which is
    /// less than all of it.
    pub fn byte(&self) -> Option<ConnectionCost> {
        let name = "byte of a body".to_owned();
        let sized = |one: &&Observation| one.scenario == "object-sizes" && !one.is_kept;
        let sized: Vec<&Observation> = self.observations.iter().filter(sized).collect();
        let most = sized.iter().map(|one| one.body_bytes).max().unwrap_or(0);
        if most >= LARGE_BODY_BYTES {
            let small = sized.iter().filter(|one| one.body_bytes == BASE_BODY_BYTES as u64);
            let small = mean(&small.map(|one| one.cpu_us).collect::<Vec<f64>>());
            let large =
                NearestSamples::of(sized.iter().copied().filter(|one| one.body_bytes == most));
            let bytes = most as f64 - BASE_BODY_BYTES;
            let samples = large.samples.iter().map(|us| (us - small) / bytes).collect();
            return Some(ConnectionCost { name, samples, source: large.source, is_measured: true });
        }
        let seal = HostSpeeds::us(&self.speeds.here, self.library(), "seal", "AES-128-GCM")?;
        Some(ConnectionCost {
            name,
            samples: vec![seal / 16_384.0],
            source: "AES-128-GCM by `lariat-lab host` alone: copies are not in it".to_owned(),
            is_measured: false,
        })
    }

    /// µs that a connection with so many requests for so many bytes takes beside its handshake.
    pub fn requests_us(&self, requests: f64, body_bytes: u64) -> Option<f64> {
        let further = if requests > 1.0 {
            (requests - 1.0) * mean(&self.kept_request()?.samples)
        } else {
            0.0
        };
        let more = body_bytes as f64 - BASE_BODY_BYTES;
        let bytes = if more > 0.0 { requests * more * mean(&self.byte()?.samples) } else { 0.0 };
        Some(further + bytes)
    }

    pub fn inflation(&self) -> BusyInflation {
        BusyInflation::of(self.observations.iter())
    }

    /// The measurement at least load: its response is that of a connection that meets no other.
    pub fn lightest(&self) -> Option<&Observation> {
        let open =
            self.observations.iter().filter(|one| one.is_open && one.scenario == "part-load");
        open.min_by(|a, b| a.busy.total_cmp(&b.busy))
    }

    /// Resident bytes of an idle connection, and where that is from.
    pub fn connection_bytes(&self) -> Option<(f64, String)> {
        let is_idle =
            |one: &&Observation| one.scenario == "idle" && one.measurement.open_connections > 0;
        let idle: Vec<&Observation> = self.observations.iter().filter(is_idle).collect();
        let bytes = |one: &&Observation| {
            let it = &one.measurement;
            let more = it.resident_bytes_loaded.saturating_sub(it.resident_bytes_before);
            more as f64 / it.open_connections as f64
        };
        let all: Vec<f64> = idle.iter().map(bytes).collect();
        Some((mean(&all), idle.first()?.source.clone()))
    }

    /// Resident bytes of the program before any load.
    pub fn program_bytes(&self) -> f64 {
        let before = self.observations.iter().map(|one| one.measurement.resident_bytes_before);
        before.max().unwrap_or(0) as f64
    }

    /// The same connection in records that disagree: each with its mean, where they lie further
    /// apart than a tenth and than their rounds.
    pub fn disagreements(&self) -> Vec<RunWarning> {
        let mut found = Vec::new();
        for kind in [Kind::Full, Kind::Psk, Kind::SessionId, Kind::Ticket] {
            let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
            for one in self.observations.iter().filter(|one| {
                let full_use = one.busy >= 0.9 && !one.is_kept && one.is_request;
                full_use && one.is_pure(kind) && one.key == Some(PlannedKey::P256) && one.is_tls13
            }) {
                match groups.iter_mut().find(|(source, _)| *source == one.source) {
                    Some((_, samples)) => samples.push(one.cpu_us),
                    None => groups.push((one.source.clone(), vec![one.cpu_us])),
                }
            }
            groups.sort_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
            if let [(low, least), .., (high, greatest)] = groups.as_slice() {
                let max = least.iter().copied().fold(0.0, f64::max);
                let min = greatest.iter().copied().fold(f64::INFINITY, f64::min);
                if mean(greatest) > 1.1 * mean(least) && min > max {
                    found.push(RunWarning {
                        seen: format!(
                            "records disagree about {} handshakes of {}: {:.0} µs in {low}, {:.0} \
                             µs in {high}",
                            kind.name(),
                            self.target,
                            mean(least),
                            mean(greatest)
                        ),
                        hint: "were both made on one quiet host? leave out the one that was not, \
                               or measure again"
                            .to_owned(),
                    });
                }
            }
        }
        found
    }
}

/// Kinds that take the same CPU time where one was not measured: session ids and tickets of TLS 1.2
/// do (docs/guide/resumption.md).
fn kinds_as_dear_as(kind: Kind) -> Vec<Kind> {
    match kind {
        Kind::SessionId => vec![Kind::SessionId],
        Kind::Ticket => vec![Kind::Ticket, Kind::SessionId],
        kind => vec![kind],
    }
}

/// Samples of the nearest observations.
#[derive(Clone, Debug)]
struct NearestSamples {
    samples: Vec<f64>,
    source: String,
    is_measured: bool,
    first: Option<Observation>,
}

impl NearestSamples {
    fn of<'o>(observations: impl Iterator<Item = &'o Observation>) -> Self {
        let all: Vec<&Observation> = observations.collect();
        let mut sources: Vec<&str> = all.iter().map(|one| one.source.as_str()).collect();
        sources.sort_unstable();
        sources.dedup();
        Self {
            samples: all.iter().map(|one| one.cpu_us).collect(),
            source: sources.join(", "),
            is_measured: true,
            first: all.first().map(|one| (*one).clone()),
        }
    }
}

impl ConnectionCost {
    pub fn mean_us(&self) -> f64 {
        mean(&self.samples)
    }

    pub fn planned(&self, seed: u64) -> PlannedCost {
        let figure = observation::figure(&[&self.samples], seed, |means| Some(means[0]));
        PlannedCost {
            name: self.name.clone(),
            cpu_us: figure.unwrap_or_default(),
            samples: self.samples.len(),
            source: self.source.clone(),
            is_measured: self.is_measured,
        }
    }

    /// The figure that `reckon` makes of the means of several costs.
    pub fn combined(
        costs: &[&Self],
        seed: u64,
        reckon: impl Fn(&[f64]) -> Option<f64>,
    ) -> Option<PlannedFigure> {
        let groups: Vec<&[f64]> = costs.iter().map(|cost| cost.samples.as_slice()).collect();
        observation::figure(&groups, seed, reckon)
    }
}

impl BusyInflation {
    /// From open loads of one scenario, each configuration to the busiest one.
    pub fn of<'o>(observations: impl Iterator<Item = &'o Observation>) -> Self {
        let mut groups: Vec<(String, Vec<f64>, Vec<f64>)> = Vec::new();
        let mut source = String::new();
        for one in observations.filter(|one| one.is_open && one.scenario == "part-load") {
            if source.is_empty() {
                source = one.source.split(" offered=").next().unwrap_or_default().to_owned();
            }
            match groups.iter_mut().find(|group| group.0 == one.configuration) {
                Some((_, busy, cpu)) => (busy.push(one.busy), cpu.push(one.cpu_us)).1,
                None => groups.push((one.configuration.clone(), vec![one.busy], vec![one.cpu_us])),
            }
        }
        let points = groups.iter().map(|(_, busy, cpu)| (mean(busy), mean(cpu)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(full_use) = points.last().map(|point| point.1) else {
            return Self::default();
        };
        points.iter_mut().for_each(|point| point.1 /= full_use);
        Self { points, source }
    }

    pub fn is_known(&self) -> bool {
        self.points.len() > 1
    }

    /// Between the points by a straight line, beyond them as the last one.
    pub fn factor(&self, busy: f64) -> f64 {
        let Some(next) = self.points.iter().position(|point| point.0 >= busy) else {
            return self.points.last().map_or(1.0, |point| point.1);
        };
        let right = self.points[next];
        let Some(left) = next.checked_sub(1).map(|place| self.points[place]) else {
            return right.1;
        };
        left.1 + (right.1 - left.1) * (busy - left.0) / (right.0 - left.0)
    }

    /// How busy a worker is that is offered `work`: seconds of CPU time per second, as if it were
    /// in full use. The utilisation law, its demand a function of the utilisation: P. J. Denning
    /// and J. P. Buzen, "The operational analysis of queueing network models", 1978.
    pub fn busy(&self, work: f64) -> f64 {
        /// Halvings; more do not change what is shown.
        const HALVINGS: usize = 40;
        if work >= 1.0 {
            return work;
        }
        let (mut below, mut above) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(below, above);
            if middle / self.factor(middle) < work {
                below = middle;
            } else {
                above = middle;
            }
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_less_busy_pays_more_for_each() {
        let points = vec![(0.2, 1.6), (0.6, 1.3), (1.0, 1.0)];
        let inflation = BusyInflation { points, source: String::new() };
        assert!((inflation.factor(0.4) - 1.45).abs() < 1e-9);
        assert!((inflation.factor(0.1) - 1.6).abs() < 1e-9);
        let busy = inflation.busy(0.4);
        assert!((busy / inflation.factor(busy) - 0.4).abs() < 1e-6, "{busy}");
        assert!(inflation.busy(1.5) > 1.0);
        assert!((BusyInflation::default().busy(0.5) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn another_host_is_as_fast_as_its_operations_on_average() {
        let row = |per_s| OperationSpeed {
            library: "aws-lc-rs 1".to_owned(),
            operation: "sign".to_owned(),
            algorithm: "P-256".to_owned(),
            size_bytes: None,
            per_s,
        };
        let there = HostReport { speeds: vec![row(100.0)], ..HostReport::default() };
        let speeds = HostSpeeds::of(vec![row(200.0)], Some(&there));
        let (scale, apart) = speeds.scale("aws-lc").unwrap();
        assert!((scale - 2.0).abs() < 1e-9 && apart < 1e-9);
        assert_eq!(speeds.scale("OpenSSL"), None);
    }
}
