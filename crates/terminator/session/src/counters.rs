//! Counts of a shard and of all of them.

use std::iter::Sum;

/// What a store holds and has done since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Entries held, expired ones that nobody has noticed among them.
    pub entries: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Lookups that found their entry.
    pub hits: u64,
    /// Lookups whose entry could not be opened: somebody changed it.
    pub misses_damaged: u64,
    /// Lookups whose entry was too old.
    pub misses_expired: u64,
    /// Lookups of a key that is not here: never was, was evicted, or was swept away.
    pub misses_unknown: u64,
    /// Entries that left before their time, to make room.
    pub evictions: u64,
    /// Puts refused: a key or a value too large.
    pub refusals: u64,
    /// Entries that an earlier process left and that were taken over.
    pub recovered: u64,
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            entries: sum.entries + one.entries,
            bytes: sum.bytes + one.bytes,
            hits: sum.hits + one.hits,
            misses_damaged: sum.misses_damaged + one.misses_damaged,
            misses_expired: sum.misses_expired + one.misses_expired,
            misses_unknown: sum.misses_unknown + one.misses_unknown,
            evictions: sum.evictions + one.evictions,
            refusals: sum.refusals + one.refusals,
            recovered: sum.recovered + one.recovered,
        })
    }
}
