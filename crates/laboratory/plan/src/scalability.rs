//! Cores: N. J. Gunther's universal scalability law ("Guerrilla Capacity Planning", 2007).
//!
//! `C(n) = n / (1 + σ (n − 1) + κ n (n − 1))`: σ is the share that cannot be done side by side, κ
//! the cost of agreeing. Workers here share no lock on the way of a connection, so κ is only fitted
//! from three numbers of cores on.

use crate::observation::Observation;
use crate::resample::mean;

/// The coefficients, and how many numbers of cores they rest on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreScaling {
    pub contention: f64,
    pub coherence: f64,
    pub measured_cores: u32,
}

impl CoreScaling {
    /// As many cores of one worker's speed.
    pub fn effective(self, cores: u32) -> f64 {
        let n = f64::from(cores);
        n / (1.0 + self.contention * (n - 1.0) + self.coherence * n * (n - 1.0))
    }

    /// Fitted to the rates of `cores` (those of the target), by least squares of `n/C(n) − 1`,
    /// which is linear in both coefficients; `None` without two numbers of cores.
    pub fn fit(observations: &[Observation], target: &str) -> Option<Self> {
        let of_target = observations.iter().filter(|one| {
            one.scenario == "cores" && one.target == target && !one.measurement.noise.is_shared
        });
        let of_target: Vec<&Observation> = of_target.collect();
        let rate = |one: &Observation| {
            one.measurement.counts.succeeded as f64 / one.measurement.elapsed_ns.max(1) as f64
        };
        let same = |a: &Observation, b: &Observation| {
            let name =
                |one: &Observation| one.configuration.split(" cores=").next().map(str::to_owned);
            name(a) == name(b)
        };
        let mut points = Vec::new();
        for one in of_target.iter().filter(|one| one.workers > 1) {
            let alone: Vec<f64> = of_target
                .iter()
                .filter(|other| other.workers == 1 && same(other, one))
                .map(|other| rate(other))
                .collect();
            if !alone.is_empty() {
                points.push((f64::from(one.workers), rate(one) / mean(&alone)));
            }
        }
        Self::of_points(&points)
    }

    /// From pairs of cores (more than one) and rates relative to one core.
    fn of_points(points: &[(f64, f64)]) -> Option<Self> {
        let most = points.iter().map(|point| point.0).fold(0.0, f64::max);
        if most < 2.0 {
            return None;
        }
        let has_three = points.iter().any(|point| point.0 < most);
        let (mut aa, mut ab, mut bb, mut ay, mut by) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (n, gain) in points {
            let (a, b, y) = (n - 1.0, n * (n - 1.0), n / gain - 1.0);
            (aa, ab, bb) = (aa + a * a, ab + a * b, bb + b * b);
            (ay, by) = (ay + a * y, by + b * y);
        }
        let determinant = aa * bb - ab * ab;
        let alone = (ay / aa).max(0.0);
        let (contention, coherence) = if has_three && determinant.abs() > 1e-12 {
            ((ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant)
        } else {
            (alone, 0.0)
        };
        // No core makes the others faster: a negative coefficient is noise.
        let (contention, coherence) = match (contention < 0.0, coherence < 0.0) {
            (false, false) => (contention, coherence),
            (true, _) => (0.0, (by / bb).max(0.0)),
            (_, true) => (alone, 0.0),
        };
        Some(Self { contention, coherence, measured_cores: most as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_are_found_again() {
        let truth = CoreScaling { contention: 0.03, coherence: 0.002, measured_cores: 8 };
        let points = [2u32, 4, 8].map(|n| (f64::from(n), truth.effective(n)));
        let found = CoreScaling::of_points(&points).unwrap();
        assert!((found.contention - 0.03).abs() < 1e-9, "{found:?}");
        assert!((found.coherence - 0.002).abs() < 1e-9, "{found:?}");
        let two = CoreScaling::of_points(&[(2.0, 1.9)]).unwrap();
        assert!((two.effective(2) - 1.9).abs() < 1e-9 && two.coherence == 0.0);
        assert_eq!(CoreScaling::of_points(&[]), None);
        assert_eq!(CoreScaling::of_points(&[(2.0, 2.1)]).unwrap().effective(4), 4.0);
    }
}
