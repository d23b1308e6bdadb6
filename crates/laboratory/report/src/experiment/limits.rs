//! What readings can be judged by: whether a figure tells of the server or of what loaded it, and
//! whether the machine was left alone meanwhile.

use measure::experiment::Reading;

use super::study::Entry;
use super::yardstick::Yardstick;

/// A server that was busy for less of the time was not what limited a closed load.
pub(crate) const BUSY_MIN: f64 = 0.85;

/// Of a reading during which a larger share of CPU time went elsewhere nothing is judged.
pub(crate) const FOREIGN_JUDGED_MAX: f64 = 0.2;

/// Whether the machine did so little else that the reading can be judged.
pub(crate) fn is_quiet(reading: &Reading) -> bool {
    reading.noise.foreign <= FOREIGN_JUDGED_MAX
}

/// Whether a cell's figure tells of what loaded the server rather than of the server: a rate or
/// response time of a closed load that shared the server's CPUs, or left them idle.
pub(crate) fn tells_of_load(entry: &Entry<'_>, yardstick: Yardstick) -> bool {
    let is_shared = entry
        .readings
        .values()
        .any(|reading| is_closed(reading) && reading.noise.is_shared);
    yardstick.depends_on_load() && (is_shared || busy(entry).is_some_and(|busy| busy < BUSY_MIN))
}

/// The share of time that the server's CPUs were busy, the median of what is known; open load
/// leaves a server idle by intent.
pub(crate) fn busy(entry: &Entry<'_>) -> Option<f64> {
    let closed = entry
        .readings
        .values()
        .filter(|reading| is_closed(reading) && !reading.noise.is_shared);
    let mut shares: Vec<f64> = closed.map(|reading| reading.noise.server_busy).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied()
}

fn is_closed(reading: &Reading) -> bool {
    reading.offered_per_s.is_none() && reading.seconds.is_empty()
}
