//! How much of one connection's bulk may move at once: as much as this host moves in a moment.
//!
//! With AES instructions that is more than a turn's bytes anyway. Where the processor or the kernel
//! has none, the same bytes take tens of milliseconds, which every other connection of the worker
//! would wait for.

use std::time::Duration;

use crate::connection::BYTES_PER_TURN;

/// How long one connection's bytes, or one call for them, may keep the others waiting.
const TIME: Duration = Duration::from_micros(1500);

/// With fewer bytes calls cost more than what they move, and no connection would count as bulk.
pub(crate) const BYTES_MIN: usize = 128 << 10;
const _: () = assert!(BYTES_MIN >= BYTES_PER_TURN[0]);

/// Above what a turn (`BYTES_PER_TURN`) and a call (`PASS_BYTES_MAX`) may move.
const BYTES_MAX: usize = 4 << 20;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { bytes: BYTES_MAX }
    }
}

impl Pace {
    /// Bytes that one connection may move at once.
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// Notes a turn that moved at least [`BYTES_MIN`]. A worker that was interrupted looks slow, so
    /// one turn changes little.
    pub(crate) fn note(&mut self, moved: usize, took: Duration) {
        let in_time = moved as u128 * TIME.as_nanos() / took.as_nanos().max(1);
        let in_time = usize::try_from(in_time).unwrap_or(BYTES_MAX);
        let bytes = in_time.clamp(self.bytes / 2, self.bytes * 2);
        self.bytes = bytes.clamp(BYTES_MIN, BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_host_moves_less_at_once_and_a_fast_one_all_it_may() {
        let mut pace = Pace::default();
        for _ in 0..10 {
            pace.note(1 << 20, Duration::from_millis(5));
        }
        assert_eq!(pace.bytes(), (1 << 20) * 3 / 10);
        pace.note(1 << 20, Duration::from_secs(1));
        assert_eq!(pace.bytes(), (1 << 20) * 3 / 20, "one turn changes little");
        for _ in 0..10 {
            pace.note(BYTES_MIN, Duration::from_secs(1));
        }
        assert_eq!(pace.bytes(), BYTES_MIN);
        for _ in 0..10 {
            pace.note(BYTES_MIN, Duration::ZERO);
        }
        assert_eq!(pace.bytes(), BYTES_MAX);
    }
}
