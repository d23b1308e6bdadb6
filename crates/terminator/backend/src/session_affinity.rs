//! Affinity by the session id of TLS 1.2: which server made a session, and so can resume it.
//!
//! Owns the table, which all workers share without a lock: an entry is two words, each written at
//! once, and the first is the key's hash combined with the second. A reader that meets half of a
//! write finds words that do not belong together, and so no entry (Hyatt and Mann 2002, "A lock-less
//! transposition table implementation for parallel search"). What is found is a hint: if it is
//! wrong, or lost, a client makes a full handshake.

use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::server::ServerId;

/// A cache line has four entries. There is one for two of the limit, so that few find no place
/// (by Poisson's law, one in 27 when the table is full).
const PLACES_PER_LINE: usize = 4;
const ENTRIES_PER_LINE: usize = 2;

/// Bytes that the table takes for each entry of its limit.
pub const ENTRY_BYTES: usize = size_of::<Line>() / ENTRIES_PER_LINE;

/// Ticks that an entry lives for. Of 2^16 there are, so that one which nobody displaced and nobody
/// asked for could be taken for a new one only after 512 lifetimes.
const LIFETIME_TICKS: i16 = 64;

const TICK_BITS: u32 = 16;

/// What a table is told at start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// Sessions that it remembers, about; at least 1.
    pub entries_max: usize,
    /// How long, from the last handshake that made or resumed the session.
    pub lifetime: Duration,
}

/// The servers of sessions.
#[derive(Debug)]
pub struct SessionAffinity {
    options: Options,
    lines: Box<[Line]>,
    /// So that nobody can choose ids that fall together.
    secret: u64,
    zero: Instant,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([[AtomicU64; 2]; PLACES_PER_LINE]);

/// Where a session's entry goes, from the best place to the worst.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Place {
    /// It has one.
    Same,
    Free,
    /// Another one's; the oldest comes first.
    Taken {
        age: i16,
    },
}

impl SessionAffinity {
    /// An empty table; times are counted from `zero`.
    pub fn new(options: Options, secret: u64, zero: Instant) -> Self {
        let lines = options.entries_max.div_ceil(ENTRIES_PER_LINE).max(1);
        Self {
            options,
            lines: (0..lines).map(|_| Line::default()).collect(),
            secret,
            zero,
        }
    }

    /// What it was made for.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The server of a session, if it is remembered.
    pub fn find(&self, session_id: &[u8], now: Instant) -> Option<ServerId> {
        let (hash, now) = (self.hash(session_id), self.tick(now));
        let mut entries = self.line(hash).0.iter().map(load);
        let (_, data) = entries.find(|(check, data)| check ^ data == hash && *data != 0)?;
        (age(data, now) <= LIFETIME_TICKS).then(|| ServerId::from_bits(data >> TICK_BITS))
    }

    /// Remembers the server of a session. Whether another session's entry that was still good had
    /// to leave for it.
    pub fn learn(&self, session_id: &[u8], server: ServerId, now: Instant) -> bool {
        let (hash, now) = (self.hash(session_id), self.tick(now));
        let new = server.bits() << TICK_BITS | u64::from(now);
        let judge = |entry: &[AtomicU64; 2]| match load(entry) {
            (check, data) if check ^ data == hash && data != 0 => Place::Same,
            (_, 0) => Place::Free,
            (_, data) if age(data, now) > LIFETIME_TICKS => Place::Free,
            (_, data) => Place::Taken {
                age: -age(data, now),
            },
        };
        let places = self.line(hash).0.iter().map(|entry| (judge(entry), entry));
        let Some((place, [check, data])) = places.min_by_key(|(place, _)| *place) else {
            return false;
        };
        // A line that is only read stays in the caches of all workers.
        if data.load(Relaxed) != new || place != Place::Same {
            data.store(new, Relaxed);
            check.store(hash ^ new, Relaxed);
        }
        matches!(place, Place::Taken { .. })
    }

    fn line(&self, hash: u64) -> &Line {
        let line = (u128::from(hash) * self.lines.len() as u128) >> u64::BITS;
        &self.lines[line as usize]
    }

    fn hash(&self, session_id: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.secret);
        hasher.write(session_id);
        hasher.finish()
    }

    /// The time as entries have it.
    fn tick(&self, now: Instant) -> u16 {
        let length = (self.options.lifetime / LIFETIME_TICKS as u32).max(Duration::from_millis(1));
        let ticks = now.saturating_duration_since(self.zero).as_nanos() / length.as_nanos();
        ticks as u16
    }
}

fn load(entry: &[AtomicU64; 2]) -> (u64, u64) {
    let [check, data] = entry;
    (check.load(Relaxed), data.load(Relaxed))
}

/// In ticks; below zero if another worker's clock was ahead.
fn age(data: u64, now: u16) -> i16 {
    now.wrapping_sub(data as u16) as i16
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn table(entries_max: usize, now: Instant) -> SessionAffinity {
        let options = Options {
            entries_max,
            lifetime: HOUR,
        };
        SessionAffinity::new(options, 7, now)
    }

    fn server(number: u64) -> ServerId {
        ServerId::from_bits(number)
    }

    fn id(number: u64) -> [u8; 32] {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        id
    }

    #[test]
    fn a_session_has_its_server_for_its_lifetime_from_its_last_use() {
        let now = Instant::now();
        let table = table(100, now);
        assert_eq!(table.find(&id(1), now), None);
        assert!(!table.learn(&id(1), server(5), now));
        assert_eq!(table.find(&id(1), now), Some(server(5)));
        assert_eq!(table.find(&id(2), now), None);
        let later = now + HOUR * 3 / 4;
        assert!(!table.learn(&id(1), server(6), later));
        assert_eq!(table.find(&id(1), later + HOUR * 3 / 4), Some(server(6)));
        assert_eq!(table.find(&id(1), later + HOUR * 5 / 4), None);
        // Half of a write: words that do not belong together.
        let entry = table.line(table.hash(&id(1))).0.iter();
        entry.for_each(|[_, data]| data.store(data.load(Relaxed) ^ 0xff << 20, Relaxed));
        assert_eq!(table.find(&id(1), later), None);
    }

    #[test]
    fn nearly_all_of_a_full_table_are_found_and_the_oldest_leave_first() {
        const ENTRIES: u64 = 10_000;
        let begin = Instant::now();
        let table = table(ENTRIES as usize, begin);
        assert_eq!(size_of_val(&*table.lines), ENTRIES as usize * ENTRY_BYTES);
        let at = |number: u64| begin + HOUR / 2 * u32::from(number >= ENTRIES);
        let displaced = |all: std::ops::Range<u64>| -> usize {
            let learn = |number: &u64| table.learn(&id(*number), server(number % 3), at(*number));
            all.filter(learn).count()
        };
        let found = |all: std::ops::Range<u64>| {
            let now = at(ENTRIES);
            let is_found = |n: &u64| table.find(&id(*n), now) == Some(server(n % 3));
            all.filter(is_found).count() as u64
        };
        let lost = displaced(0..ENTRIES) as u64;
        assert!(lost < ENTRIES / 20, "{lost}");
        assert_eq!(found(0..ENTRIES), ENTRIES - lost);
        displaced(ENTRIES..2 * ENTRIES);
        assert!(found(ENTRIES..2 * ENTRIES) > ENTRIES * 95 / 100);
        // What is too old makes room without being counted.
        let much_later = begin + 9 * HOUR;
        let learn = |number: &u64| table.learn(&id(*number), server(1), much_later);
        assert_eq!((0..100).filter(learn).count(), 0);
    }

    #[test]
    fn workers_that_write_at_once_mix_nothing_up() {
        let now = Instant::now();
        // One line, so that all meet.
        let table = table(1, now);
        std::thread::scope(|scope| {
            for worker in 1..=2 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let number = (round * worker) % 16;
                        table.learn(&id(number), server(number + 1), now);
                        let found = table.find(&id(round % 16), now);
                        assert!(found.is_none_or(|one| one == server(round % 16 + 1)));
                    }
                });
            }
        });
    }
}
