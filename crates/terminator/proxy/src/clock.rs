//! The time of a worker's loop. A simulation gives its thread a clock of its own.

use std::time::{Duration, Instant};

pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// The clock of a thread that simulates.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
        /// Time that passes with each reading of the clock.
        static STEP: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    pub(crate) fn now() -> Option<Instant> {
        let now = NOW.get()? + STEP.get();
        NOW.set(Some(now));
        Some(now)
    }

    pub(crate) fn set(now: Instant) {
        NOW.set(Some(now));
    }

    pub(crate) fn set_step(step: Duration) {
        STEP.set(step);
    }

    pub(crate) fn end() {
        NOW.set(None);
    }
}

pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Ticks in one turn of the wheel: 51.2 s. A longer deadline is checked once a turn.
const SLOTS: usize = 1024;

/// Deadlines by the tick in which they fall.
pub(crate) struct Timers {
    start: Instant,
    ticks: u64,
    slots: Vec<Vec<(u64, u64)>>,
    /// Bitmap of the slots that have entries.
    occupied: [u64; SLOTS / 64],
}

impl Timers {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            start: now,
            ticks: 0,
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; SLOTS / 64],
        }
    }

    /// Returns the tick at which a timer for `deadline` fires, at most a turn from now.
    pub(crate) fn tick_of(&self, deadline: Instant) -> u64 {
        let since_start = deadline.saturating_duration_since(self.start).as_nanos();
        let tick = (since_start / TICK.as_nanos()) as u64 + 1;
        tick.clamp(self.ticks + 1, self.ticks + SLOTS as u64 - 1)
    }

    /// Sets a timer for `owner` at a tick from [`Timers::tick_of`].
    pub(crate) fn set(&mut self, tick: u64, owner: u64) {
        let slot = (tick % SLOTS as u64) as usize;
        self.slots[slot].push((owner, tick));
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Returns the time until the next timer fires; `None` = no timer is set.
    pub(crate) fn next(&self, now: Instant) -> Option<Duration> {
        let first = (self.ticks + 1) as usize % SLOTS;
        let distance = self.first_occupied(first)?;
        let at = self.start + TICK * u32::try_from(self.ticks + 1 + distance).unwrap_or(u32::MAX);
        Some(at.saturating_duration_since(now))
    }

    /// Takes one of the timers that fire next, with its tick.
    pub(crate) fn pop_next(&mut self) -> Option<(u64, u64)> {
        let first = (self.ticks + 1) as usize % SLOTS;
        let slot = (first + self.first_occupied(first)? as usize) % SLOTS;
        let entry = self.slots[slot].pop();
        if self.slots[slot].is_empty() {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        entry
    }

    /// Returns how many slots after `first`, around the wheel, the first occupied one is.
    fn first_occupied(&self, first: usize) -> Option<u64> {
        let words = self.occupied.len();
        for step in 0..=words {
            let index = (first / 64 + step) % words;
            let mut word = self.occupied[index];
            if step == 0 {
                word &= !0 << (first % 64);
            } else if step == words {
                word &= !(!0 << (first % 64));
            }
            if word != 0 {
                let slot = index * 64 + word.trailing_zeros() as usize;
                return Some(((slot + SLOTS - first) % SLOTS) as u64);
            }
        }
        None
    }

    /// Moves to `now` and appends the owners of the timers that fired, with their ticks.
    pub(crate) fn fire(&mut self, now: Instant, fired: &mut Vec<(u64, u64)>) {
        let since_start = now.saturating_duration_since(self.start).as_nanos();
        let target = (since_start / TICK.as_nanos()) as u64;
        // After a long sleep every slot is due, once.
        let first = (self.ticks + 1).max(target.saturating_sub(SLOTS as u64 - 1));
        for tick in first..=target {
            let slot = (tick % SLOTS as u64) as usize;
            self.occupied[slot / 64] &= !(1 << (slot % 64));
            fired.append(&mut self.slots[slot]);
        }
        self.ticks = self.ticks.max(target);
    }
}

#[cfg(test)]
mod timers_tests {
    use super::*;

    fn fired_at(timers: &mut Timers, now: Instant) -> Vec<u64> {
        let mut fired = Vec::new();
        timers.fire(now, &mut fired);
        fired.into_iter().map(|(owner, _)| owner).collect()
    }

    #[test]
    fn a_timer_fires_after_its_deadline_and_not_before() {
        let start = Instant::now();
        let mut timers = Timers::new(start);
        for (owner, ms) in [(1, 0), (2, 49), (3, 120), (4, 900)] {
            let tick = timers.tick_of(start + Duration::from_millis(ms));
            timers.set(tick, owner);
        }
        assert_eq!(timers.next(start), Some(TICK));
        assert_eq!(fired_at(&mut timers, start + TICK / 2), []);
        assert_eq!(fired_at(&mut timers, start + TICK), [1, 2]);
        assert_eq!(timers.next(start + TICK), Some(TICK * 2));
        assert_eq!(fired_at(&mut timers, start + TICK * 3), [3]);
        assert_eq!(fired_at(&mut timers, start + TICK * 30), [4]);
        assert_eq!(timers.next(start), None);
    }

    #[test]
    fn a_far_deadline_is_looked_at_once_a_turn() {
        let start = Instant::now();
        let mut timers = Timers::new(start);
        let tick = timers.tick_of(start + Duration::from_secs(3600));
        assert_eq!(tick, SLOTS as u64 - 1);
        timers.set(tick, 7);
        assert_eq!(timers.next(start), Some(TICK * (SLOTS as u32 - 1)));
        let mut fired = Vec::new();
        timers.fire(start + Duration::from_secs(600), &mut fired);
        assert_eq!(fired, [(7, tick)], "under the tick that it was set for, however late");
    }

    #[test]
    fn timers_that_are_taken_out_do_not_fire() {
        let start = Instant::now();
        let mut timers = Timers::new(start);
        let deadline = start + Duration::from_millis(120);
        let tick = timers.tick_of(deadline);
        for owner in [1, 2] {
            timers.set(tick, owner);
        }
        timers.set(timers.tick_of(start + Duration::from_millis(400)), 3);
        assert_eq!(timers.pop_next(), Some((2, tick)));
        assert_eq!(timers.pop_next(), Some((1, tick)));
        assert_eq!(timers.next(start), Some(TICK * 9));
        assert_eq!(fired_at(&mut timers, start + TICK * 9), [3]);
        assert_eq!(timers.pop_next(), None);
    }

    #[test]
    fn the_next_timer_is_found_around_the_wheel() {
        let start = Instant::now();
        let mut timers = Timers::new(start);
        let mut now = start;
        for step in 0..3000u64 {
            let deadline = now + TICK * (1 + (step * 37 % 1000) as u32);
            let tick = timers.tick_of(deadline);
            timers.set(tick, step);
            now += timers.next(now).unwrap();
            let fired = fired_at(&mut timers, now);
            assert_eq!(fired, [step], "at step {step}");
        }
    }
}
