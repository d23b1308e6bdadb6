//! Times until the kernel probes a silent peer. The times differ, so that connections that began
//! together are not probed together.
//!
//! Linux lets long timers expire in bursts, each of all that are due within some seconds, and what
//! a burst sends beyond a queue on its way is lost (`net.core.netdev_max_backlog`, 1,000 packets).

use std::time::Duration;

/// Divisor of the time by which the times differ: enough to tell a hundred thousand connections
/// apart, and no lost peer is noticed later than configured.
const PARTS: u64 = 5;

/// Connections that a listener accepts between two changes of their inherited time, because a
/// system call for each of them would cost more than the probes.
const CONNECTIONS_MAX: usize = 64;

/// Returns a time up to a fifth less than `idle`, in whole seconds as the kernel has them.
/// Consecutive numbers have times far apart; number 0 gets the whole time.
pub(crate) fn spread(idle: Duration, number: u32) -> Duration {
    /// 2^32 divided by the golden ratio (D. E. Knuth, *The Art of Computer Programming*, volume 3,
    /// section 6.4).
    const STEP: u32 = 0x9e37_79b9;
    let seconds = idle.as_secs();
    let choices = seconds / PARTS + 1;
    let less = (u64::from(number.wrapping_mul(STEP)) * choices) >> 32;
    Duration::from_secs(seconds - less)
}

/// The keepalive time that accepted connections inherit from their listener.
#[derive(Debug, Default)]
pub(crate) struct InheritedKeepalive {
    accepted: usize,
    changes: u32,
}

impl InheritedKeepalive {
    /// Notes up to `accepted` new connections; returns the next ones' time, if it changes.
    pub(crate) fn next(&mut self, accepted: usize, idle: Option<Duration>) -> Option<Duration> {
        let idle = idle.filter(|idle| idle.as_secs() >= PARTS)?;
        self.accepted += accepted;
        if self.accepted < CONNECTIONS_MAX {
            return None;
        }
        self.accepted = 0;
        self.changes = self.changes.wrapping_add(1);
        Some(spread(idle, self.changes))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn times_differ_by_a_fifth_and_none_is_longer() {
        let mut counts = BTreeMap::<_, usize>::new();
        for number in 0..2500 {
            *counts.entry(spread(Duration::from_secs(120), number).as_secs()).or_default() += 1;
        }
        assert!(counts.keys().copied().eq(96..=120), "{counts:?}");
        assert!(counts.values().all(|count| (90..=110).contains(count)), "{counts:?}");
        assert_eq!(spread(Duration::from_secs(120), 0), Duration::from_secs(120));
        // A few connections are far apart as well.
        let few: Vec<_> = (0..5).map(|one| spread(Duration::from_secs(1000), one)).collect();
        let near = |one: &Duration| {
            few.iter().filter(|other| one.abs_diff(**other).as_secs() < 20).count()
        };
        assert!(few.iter().all(|one| near(one) == 1), "{few:?}");
        for short in [0, 1, 4] {
            assert_eq!(spread(Duration::from_secs(short), 7), Duration::from_secs(short));
        }
    }

    #[test]
    fn a_listener_changes_it_once_for_many_connections() {
        let idle = Some(Duration::from_secs(120));
        let mut listener = InheritedKeepalive::default();
        let times: Vec<_> = (0..640).filter_map(|_| listener.next(1, idle)).collect();
        assert_eq!(times.len(), 10);
        assert!(times.iter().all(|time| (96..120).contains(&time.as_secs())), "{times:?}");
        for never in [None, Some(Duration::from_secs(4))] {
            assert_eq!(InheritedKeepalive::default().next(1000, never), None);
        }
    }
}
