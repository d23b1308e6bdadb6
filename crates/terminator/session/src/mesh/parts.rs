//! Sessions that come in parts, until all of them are there.
//!
//! Owns how much of a sender's may wait, and how long. What is here was authenticated, and each
//! datagram comes once; the bounds hold for a peer that is broken, or has lost its secret.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use wire::cluster::{Message, Part, WHOLE_BYTES_MAX};
use zeroize::Zeroizing;

/// How long a session waits for its parts, which are sent at once: by then a client that needs it
/// has asked for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sessions of one sender that wait: those that overtake each other on the way.
const WAITING_MAX: usize = 64;

/// Bytes of one sender's parts that wait.
const BYTES_MAX: usize = 256 << 10;

const _: () = assert!(WHOLE_BYTES_MAX <= BYTES_MAX, "one session may always wait");

/// A session of which not all parts are there.
#[derive(Debug)]
struct Waiting {
    boot: [u8; 8],
    id: u32,
    begun: Instant,
    parts: Vec<Option<Zeroizing<Vec<u8>>>>,
}

/// Those of one sender, the oldest first.
#[derive(Debug, Default)]
struct Sender {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

/// Those of all senders.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    senders: BTreeMap<[u8; 8], Sender>,
    /// Sessions that were given up, since they were last asked for.
    given_up: u64,
}

impl Parts {
    /// Takes a part of that boot of a sender. The session, in the form of its message, if it was
    /// the last one.
    pub(crate) fn take(
        &mut self,
        (sender, boot): ([u8; 8], [u8; 8]),
        part: &Part<'_>,
        now: Instant,
    ) -> Option<Zeroizing<Vec<u8>>> {
        let senders = self.senders.entry(sender).or_default();
        let taken = senders.take(boot, part, now);
        self.given_up += senders.shrink(now);
        taken
    }

    /// Gives up what waits for too long: how many sessions, with those that made room for others.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        self.senders.retain(|_, sender| {
            self.given_up += sender.shrink(now);
            !sender.waiting.is_empty()
        });
        std::mem::take(&mut self.given_up)
    }
}

impl Sender {
    fn take(&mut self, boot: [u8; 8], part: &Part<'_>, now: Instant) -> Option<Zeroizing<Vec<u8>>> {
        let is_it = |one: &Waiting| (one.boot, one.id) == (boot, part.id);
        let place = self.waiting.iter().position(is_it).unwrap_or_else(|| {
            self.waiting.push_back(Waiting {
                boot,
                id: part.id,
                begun: now,
                parts: vec![None; part.count.into()],
            });
            self.waiting.len() - 1
        });
        // Of parts that contradict each other the first counts: then the session is of no form,
        // or is given up.
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

    /// Gives up the oldest, until no limit is passed; how many.
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

    fn remove(&mut self, place: usize) {
        if let Some(one) = self.waiting.remove(place) {
            self.bytes -= one.bytes();
        }
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.parts.iter().flatten().map(|part| part.len()).sum()
    }

    /// All parts, one behind the other, in memory that is not grown: no copy stays behind.
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

/// A message that is too long for a datagram, to be cut. `None` = it is too long for that as well.
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

    fn part(id: u32, index: u8, count: u8, bytes: &[u8]) -> Part<'_> {
        Part {
            id,
            index,
            count,
            bytes,
        }
    }

    #[test]
    fn parts_come_in_any_order_among_those_of_others() {
        let (mut parts, now) = (Parts::default(), Instant::now());
        let other_boot = (NAME.0, [3; 8]);
        let mut take = |name, part| parts.take(name, &part, now).map(|whole| whole.to_vec());
        assert_eq!(take(NAME, part(1, 2, 3, b"c")), None);
        assert_eq!(take(other_boot, part(1, 0, 2, b"x")), None);
        assert_eq!(take(NAME, part(2, 1, 2, b"z")), None);
        assert_eq!(take(NAME, part(1, 0, 3, b"a")), None);
        assert_eq!(take(NAME, part(1, 0, 3, b"A")), None, "the first counts");
        assert_eq!(
            take(NAME, part(1, 5, 9, b"f")),
            None,
            "it has no such place"
        );
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
        let (mut parts, now) = (Parts::default(), Instant::now());
        let ids = WAITING_MAX as u32 + 10;
        let take = |parts: &mut Parts, id, bytes: &[u8], now| {
            assert!(parts.take(NAME, &part(id, 0, 2, bytes), now).is_none());
        };
        (0..ids).for_each(|id| take(&mut parts, id, b"x", now));
        assert_eq!(parts.senders[&NAME.0].waiting.len(), WAITING_MAX);
        assert_eq!(parts.expire(now), 10);
        take(&mut parts, ids, b"x", now + PATIENCE);
        assert_eq!(
            parts.senders[&NAME.0].waiting.len(),
            1,
            "the others are old"
        );
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

    proptest! {
        /// Whatever a peer sends.
        #[test]
        fn the_bytes_are_counted(
            steps in vec((0u32..4, 0u8..5, 2u8..6, 1usize..9, 0u64..400), 1..200),
        ) {
            let (mut parts, mut now) = (Parts::default(), Instant::now());
            for (id, index, count, bytes, ms) in steps {
                now += Duration::from_millis(ms);
                let bytes = vec![7; bytes];
                if let Some(whole) = parts.take(NAME, &part(id, index, count, &bytes), now) {
                    prop_assert!(whole.len() <= 5 * 8);
                }
                let sender = &parts.senders[&NAME.0];
                let counted: usize = sender.waiting.iter().map(Waiting::bytes).sum();
                prop_assert_eq!(sender.bytes, counted);
            }
            parts.expire(now + PATIENCE);
            prop_assert!(parts.senders.is_empty());
        }
    }
}
