//! What CPUs did, as the kernel counts it for the machine (`/proc/stat`).
//!
//! The count is by the tick, so a share over a second or two is good to a few hundredths.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::Duration;

/// A tick of `/proc/stat` (`USER_HZ`, which is 100 on every platform that we build for).
const TICK: Duration = Duration::from_millis(10);

/// CPU time of some CPUs since they started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Machine {
    pub(crate) busy: Duration,
    /// Given to other guests by the hypervisor.
    pub(crate) stolen: Duration,
    pub(crate) all: Duration,
}

impl Machine {
    pub(crate) fn now(cpus: &BTreeSet<u16>) -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/stat")?, cpus))
    }

    /// proc(5): `cpuN user nice system idle iowait irq softirq steal guest guest_nice`; the time of
    /// guests is part of `user` and `nice`.
    fn parse(stat: &str, cpus: &BTreeSet<u16>) -> Self {
        let mut sum = Self::default();
        for line in stat.lines() {
            let mut words = line.split_whitespace();
            let name = words.next().and_then(|word| word.strip_prefix("cpu"));
            let cpu = name.and_then(|number| number.parse().ok());
            if cpu.is_some_and(|cpu| cpus.contains(&cpu)) {
                let ticks: Vec<u32> = words.map_while(|word| word.parse().ok()).collect();
                sum.add(&ticks);
            }
        }
        sum
    }

    fn add(&mut self, ticks: &[u32]) {
        let of = |fields: &[usize]| {
            let ticks = fields.iter().filter_map(|field| ticks.get(*field)).copied();
            ticks.map(|ticks| TICK * ticks).sum::<Duration>()
        };
        let (busy, stolen) = (of(&[0, 1, 2, 5, 6]), of(&[7]));
        self.busy += busy;
        self.stolen += stolen;
        self.all += busy + stolen + of(&[3, 4]);
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            stolen: self.stolen.saturating_sub(before.stolen),
            all: self.all.saturating_sub(before.all),
        }
    }

    /// The share of all time that was used beyond `ours`, 0 to 1.
    pub(crate) fn foreign(self, ours: Duration) -> f64 {
        share(self.busy.saturating_sub(ours), self.all)
    }

    /// The share of all time that the hypervisor gave to others, 0 to 1.
    pub(crate) fn stolen(self) -> f64 {
        share(self.stolen, self.all)
    }
}

/// 0 to 1; of nothing, 0.
pub(crate) fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() {
        0.0
    } else {
        (part.as_secs_f64() / whole.as_secs_f64()).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 9 9 9\n\
        cpu0 100 10 20 500 50 3 7 40 0 0\n\
        cpu1 1 1 1 1 1 1 1 1 0 0\n\
        cpu12 10 0 0 90 0 0 0 0\n\
        intr 5 6\n";

    #[test]
    fn only_our_cpus_count() {
        let machine = Machine::parse(STAT, &BTreeSet::from([0, 12]));
        assert_eq!(machine.busy, TICK * 150);
        assert_eq!(machine.stolen, TICK * 40);
        assert_eq!(machine.all, TICK * 830);
        assert_eq!(Machine::parse(STAT, &BTreeSet::new()), Machine::default());
    }

    #[test]
    fn what_is_not_ours_is_foreign() {
        let all = Machine::parse(STAT, &BTreeSet::from([0, 12]));
        let one = all.since(Machine::parse(STAT, &BTreeSet::from([0])));
        assert_eq!(one.all, TICK * 100);
        let close = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-9, "{value}");
        close(one.foreign(Duration::ZERO), 0.1);
        close(one.foreign(TICK * 4), 0.06);
        close(one.foreign(TICK * 40), 0.0);
        close(all.stolen(), 40.0 / 830.0);
        close(Machine::default().foreign(TICK), 0.0);
    }

    #[test]
    fn this_machine_counts() {
        let cpus = sys::cpu::allowed_cpus().into_iter().collect();
        assert!(Machine::now(&cpus).unwrap().all > Duration::ZERO);
    }
}
