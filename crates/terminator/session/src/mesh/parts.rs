//! Sessions that come in parts, kept until all parts are there.
//!
//! Handles how much may wait, per sender and in total, and how long. Parts were authenticated, and
//! each datagram is accepted once; the limits guard against a broken peer, or one whose secret was
//! stolen: a thief can make up as many senders as are known at a time.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use wire::cluster::{BODY_BYTES_MAX, ClusterFragment, Message, TAG_BYTES, WHOLE_BYTES_MAX};
use zeroize::Zeroizing;

use crate::tiers::Key;

/// Time that a session waits for its parts, which are sent at once: a client that needs it has
/// asked for it by then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most waiting sessions of one sender: those that overtake each other on the way.
const WAITING_MAX: usize = 64;

/// Most bytes of one sender's waiting parts.
const BYTES_MAX: usize = 256 << 10;

/// Most bytes of all senders' waiting parts: of a hundred hosts that each make a hundred sessions
/// of 4 kB per second, 1 % of whose datagrams are lost, half as much waits.
const ALL_BYTES_MAX: usize = 4 << 20;

/// Notices that wait for the host to take them; more are dropped, because their senders repeat what
/// matters.
pub(super) const NOTICES_MAX: usize = 64;

/// Memory that a waiting session takes beside its parts.
const SESSION_BYTES: usize = 512;

const _: () = assert!(WHOLE_BYTES_MAX <= BYTES_MAX, "one session may always wait");

/// Allocates room for the messages of a datagram. The buffer never grows, so that no unencrypted
/// copy of its content stays behind.
pub(crate) fn empty_body() -> Vec<u8> {
    Vec::with_capacity(BODY_BYTES_MAX + TAG_BYTES)
}

/// Makes the message that brings a session.
pub(crate) fn session<'m>(key: &'m Key, value: &'m [u8], lifetime: Duration) -> Message<'m> {
    Message::Session {
        key: key.bytes(),
        lifetime_s: u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX),
        value,
    }
}

/// A session of which some parts are still missing.
#[derive(Debug)]
struct WaitingSession {
    boot: [u8; 8],
    id: u32,
    begun: Instant,
    parts: Vec<Option<Zeroizing<Vec<u8>>>>,
}

#[derive(Debug, Default)]
struct PartSender {
    waiting: VecDeque<WaitingSession>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct SessionParts {
    senders: BTreeMap<[u8; 8], PartSender>,
    bytes: usize,
    /// Sessions given up since the last call of [`Self::expire`].
    given_up: u64,
}

impl SessionParts {
    /// Takes a part of this boot of a sender. Returns the session, in the form of its message, if
    /// it was the last missing part.
    pub(crate) fn take(
        &mut self,
        (sender, boot): ([u8; 8], [u8; 8]),
        part: &ClusterFragment<'_>,
        now: Instant,
    ) -> Option<Zeroizing<Vec<u8>>> {
        let sender = self.senders.entry(sender).or_default();
        let before = sender.bytes;
        let taken = sender.take(boot, part, now);
        self.given_up += sender.shrink(now);
        self.bytes = self.bytes - before + sender.bytes;
        self.make_room();
        taken
    }

    /// Drops the oldest session of the largest sender: a broken one costs the others nothing.
    fn make_room(&mut self) {
        while self.bytes > ALL_BYTES_MAX {
            let largest = self.senders.values_mut().max_by_key(|one| one.bytes);
            self.bytes -= largest.map_or(self.bytes, |one| one.remove(0));
            self.given_up += 1;
        }
    }

    /// Gives up overdue sessions. Returns how many, including those that made room for others.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        self.senders.retain(|_, sender| {
            self.given_up += sender.shrink(now);
            !sender.waiting.is_empty()
        });
        self.bytes = self.senders.values().map(|sender| sender.bytes).sum();
        std::mem::take(&mut self.given_up)
    }
}

impl PartSender {
    fn take(
        &mut self,
        boot: [u8; 8],
        part: &ClusterFragment<'_>,
        now: Instant,
    ) -> Option<Zeroizing<Vec<u8>>> {
        let is_it = |one: &WaitingSession| (one.boot, one.id) == (boot, part.id);
        let place = self.waiting.iter().position(is_it).unwrap_or_else(|| {
            self.waiting.push_back(WaitingSession {
                boot,
                id: part.id,
                begun: now,
                parts: vec![None; part.count.into()],
            });
            self.bytes += SESSION_BYTES;
            self.waiting.len() - 1
        });
        // If parts contradict each other, the first counts: the session is then malformed, or is
        // given up.
        let free = self.waiting[place].parts.get_mut(usize::from(part.index))?;
        if free.is_some() {
            return None;
        }
        *free = Some(part.bytes.to_vec().into());
        self.bytes += part.bytes.len();
        let whole = self.waiting[place].whole()?;
        self.remove(place);
        Some(whole)
    }

    /// Gives up the oldest sessions until no limit is exceeded. Returns how many.
    fn shrink(&mut self, now: Instant) -> u64 {
        let mut count = 0;
        while let Some(oldest) = self.waiting.front() {
            let is_old = now.saturating_duration_since(oldest.begun) >= PATIENCE;
            if !is_old && self.waiting.len() <= WAITING_MAX && self.bytes <= BYTES_MAX {
                break;
            }
            self.remove(0);
            count += 1;
        }
        count
    }

    /// Removes a session, and returns the bytes that this freed.
    fn remove(&mut self, place: usize) -> usize {
        let bytes = self.waiting.remove(place).map_or(0, |one| one.bytes());
        self.bytes -= bytes;
        bytes
    }
}

impl WaitingSession {
    fn bytes(&self) -> usize {
        let parts = self.parts.iter().flatten().map(|part| part.len());
        SESSION_BYTES + parts.sum::<usize>()
    }

    /// Joins all parts in memory that is not grown, so that no copy stays behind.
    fn whole(&self) -> Option<Zeroizing<Vec<u8>>> {
        if self.parts.iter().any(Option::is_none) {
            return None;
        }
        let mut whole = Zeroizing::new(Vec::with_capacity(self.bytes()));
        let parts = self.parts.iter().flatten();
        parts.for_each(|part| whole.extend_from_slice(part));
        Some(whole)
    }
}

/// Serializes a message that is too long for a datagram, to be cut. `None` if it is too long.
pub(crate) fn whole(message: &Message<'_>) -> Option<Zeroizing<Vec<u8>>> {
    let mut whole = Zeroizing::new(Vec::with_capacity(message.bytes()));
    message.write_whole(&mut whole).then_some(whole)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use wire::cluster::{PART_BYTES_MAX, PARTS_MAX};

    use super::*;

    const NAME: ([u8; 8], [u8; 8]) = ([1; 8], [2; 8]);

    fn part(id: u32, index: u8, count: u8, bytes: &[u8]) -> ClusterFragment<'_> {
        ClusterFragment { id, index, count, bytes }
    }

    #[test]
    fn parts_come_in_any_order_among_those_of_others() {
        let (mut parts, now) = (SessionParts::default(), Instant::now());
        let other_boot = (NAME.0, [3; 8]);
        let mut take = |name, part| parts.take(name, &part, now).map(|whole| whole.to_vec());
        assert_eq!(take(NAME, part(1, 2, 3, b"c")), None);
        assert_eq!(take(other_boot, part(1, 0, 2, b"x")), None);
        assert_eq!(take(NAME, part(2, 1, 2, b"z")), None);
        assert_eq!(take(NAME, part(1, 0, 3, b"a")), None);
        assert_eq!(take(NAME, part(1, 0, 3, b"A")), None, "the first counts");
        assert_eq!(take(NAME, part(1, 5, 9, b"f")), None, "it has no such place");
        let whole = take(NAME, part(1, 1, 3, b"b"));
        assert_eq!(whole.as_deref(), Some(&b"abc"[..]));
        let whole = take(other_boot, part(1, 1, 2, b"y"));
        assert_eq!(whole.as_deref(), Some(&b"xy"[..]));
        assert_eq!(parts.expire(now), 0);
        assert_eq!(parts.expire(now + PATIENCE), 1, "one was never complete");
        assert!(parts.senders.is_empty());
    }

    #[test]
    fn what_waits_is_bounded_in_number_in_bytes_and_in_time() {
        let (mut parts, now) = (SessionParts::default(), Instant::now());
        let ids = WAITING_MAX as u32 + 10;
        let take = |parts: &mut SessionParts, id, bytes: &[u8], now| {
            assert!(parts.take(NAME, &part(id, 0, 2, bytes), now).is_none());
        };
        (0..ids).for_each(|id| take(&mut parts, id, b"x", now));
        assert_eq!(parts.senders[&NAME.0].waiting.len(), WAITING_MAX);
        assert_eq!(parts.expire(now), 10);
        take(&mut parts, ids, b"x", now + PATIENCE);
        assert_eq!(parts.senders[&NAME.0].waiting.len(), 1, "the others are old");
        assert_eq!(parts.expire(now), WAITING_MAX as u64);
        let long = [0; PART_BYTES_MAX];
        for id in 0..40 {
            for index in 0..PARTS_MAX - 1 {
                let part = part(id, index, PARTS_MAX, &long);
                assert!(parts.take(NAME, &part, now).is_none());
            }
        }
        let sender = &parts.senders[&NAME.0];
        assert!(sender.bytes <= BYTES_MAX && sender.waiting.len() >= 10);
    }

    /// Somebody with the secret makes up one sender after the other.
    #[test]
    fn what_waits_of_all_senders_is_bounded_and_the_largest_give_way() {
        let (mut parts, now) = (SessionParts::default(), Instant::now());
        let name = |sender: u32| {
            let mut bytes = [9; 8];
            bytes[..4].copy_from_slice(&sender.to_be_bytes());
            (bytes, [2; 8])
        };
        let first = |parts: &mut SessionParts| parts.take(NAME, &part(7, 0, 2, b"x"), now);
        assert_eq!(first(&mut parts), None);
        let (long, senders) = ([0; PART_BYTES_MAX], 500);
        let mut sent = 0;
        for sender in 0..senders {
            for id in 0..10 {
                for index in 0..PARTS_MAX - 1 {
                    let taken = parts.take(name(sender), &part(id, index, PARTS_MAX, &long), now);
                    assert_eq!(taken, None);
                    sent += PART_BYTES_MAX;
                }
                assert!(parts.bytes <= ALL_BYTES_MAX);
            }
        }
        assert!(sent > 10 * ALL_BYTES_MAX && parts.bytes > ALL_BYTES_MAX * 9 / 10);
        let whole = parts.take(NAME, &part(7, 1, 2, b"y"), now).unwrap();
        assert_eq!(whole.as_slice(), b"xy", "it took little");
        let waiting: usize = parts.senders.values().map(|one| one.waiting.len()).sum();
        let given_up = parts.expire(now);
        assert_eq!(given_up, u64::from(senders) * 10 - waiting as u64);
        assert_eq!(parts.expire(now + PATIENCE), waiting as u64);
        assert_eq!((parts.bytes, parts.senders.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn the_bytes_are_counted(
            steps in vec((0u32..4, 0u8..5, 2u8..6, 1usize..9, 0u64..400), 1..200),
        ) {
            let (mut parts, mut now) = (SessionParts::default(), Instant::now());
            for (id, index, count, bytes, ms) in steps {
                now += Duration::from_millis(ms);
                let bytes = vec![7; bytes];
                if let Some(whole) = parts.take(NAME, &part(id, index, count, &bytes), now) {
                    prop_assert!(whole.len() <= 5 * 8);
                }
                let sender = &parts.senders[&NAME.0];
                let counted: usize = sender.waiting.iter().map(WaitingSession::bytes).sum();
                prop_assert_eq!((sender.bytes, parts.bytes), (counted, counted));
            }
            parts.expire(now + PATIENCE);
            prop_assert!(parts.senders.is_empty());
        }
    }
}
