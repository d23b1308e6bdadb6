//! The queue from the workers to the session tiers beyond this host's cache, the keys used there,
//! and the circuit breaker that gives up a failing tier and tries it again.
//!
//! A tier can do three things: publish a session, delete it, and fetch it within a time. Workers
//! ask for them here and wait for none; one thread of the control side takes the requests and goes
//! through the tiers in their order: memory (which the worker has searched), peers, store. Handles
//! the queue between them and its limit, and the interface of the cipher that makes stored sessions
//! unreadable and unforgeable; the cryptography is the caller's task.
//!
//! A closed breaker lets all requests through. A number of failures in a row opens it: no request
//! passes for a while, which doubles each time. Then one request is let through, and decides.

use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use telemetry::outcome::SessionTier;
use wire::cluster::KEY_BYTES_MAX;
use zeroize::Zeroizing;

/// Most requests that wait for the control side: what workers of a large host ask for in a tenth of
/// a second. More would be answered too late. Some 5 MB.
const WAITING_MAX: usize = 16 << 10;

/// Callback that receives the tier that had the session. A found session is in the cache by then.
pub type FetchAnswer = Box<dyn FnOnce(SessionTier) + Send>;

pub enum Request {
    /// Gives this session to the tiers.
    Publish {
        key: Key,
        /// Whether it may be resumed only once.
        once: bool,
        /// Value of the cache's entry.
        value: Zeroizing<Vec<u8>>,
        lifetime: Duration,
    },
    /// Deletes a session that may be resumed once and was used up.
    Delete { key: Key },
    /// Brings this session into the cache. The answer is sent in any case.
    Fetch {
        key: Key,
        /// Whether it may be resumed only once.
        once: bool,
        answer: FetchAnswer,
    },
}

/// The queue of requests. While no tier is open it accepts none.
#[derive(Default)]
pub struct Tiers {
    is_open: AtomicBool,
    state: Mutex<TierState>,
    overflows: AtomicU64,
}

#[derive(Default)]
struct TierState {
    waiting: VecDeque<Request>,
    wake: Option<Box<dyn Fn() + Send>>,
}

impl Tiers {
    /// Accepts requests from now on. `wake` is called, on a worker's thread, when the queue stops
    /// being empty.
    pub fn open(&self, wake: impl Fn() + Send + 'static) {
        self.lock().wake = Some(Box::new(wake));
        self.is_open.store(true, Ordering::Release);
    }

    /// Accepts no more requests, and answers the waiting ones.
    pub fn close(&self) {
        self.is_open.store(false, Ordering::Release);
        let mut state = self.lock();
        state.wake = None;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Request::give_up);
    }

    /// Reports whether sessions are shared at all.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Queues a request. If the queue is full, it is counted, and a fetch answered at once.
    pub fn ask(&self, request: Request) {
        let mut state = self.lock();
        if !self.is_open() || state.waiting.len() >= WAITING_MAX {
            drop(state);
            self.overflows.fetch_add(u64::from(self.is_open()), Ordering::Relaxed);
            return request.give_up();
        }
        state.waiting.push_back(request);
        if state.waiting.len() == 1
            && let Some(wake) = &state.wake
        {
            wake();
        }
    }

    /// Takes at most `count_max` requests, oldest first.
    pub fn take(&self, count_max: usize) -> VecDeque<Request> {
        let mut state = self.lock();
        if state.waiting.len() <= count_max {
            return std::mem::take(&mut state.waiting);
        }
        state.waiting.drain(..count_max).collect()
    }

    pub fn has_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Returns the number of requests that found the queue full.
    pub fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, TierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    /// Answers a fetch with "nowhere".
    fn give_up(self) {
        if let Self::Fetch { answer, .. } = self {
            answer(SessionTier::Nowhere);
        }
    }
}

impl Debug for Tiers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiers").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}

/// A session's id, short enough to be copied.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    length: u8,
}

impl Key {
    /// Creates a key of these bytes; `None` if there are none, or more than a session id has.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut key = Self {
            bytes: [0; KEY_BYTES_MAX],
            length: u8::try_from(bytes.len()).ok().filter(|length| *length > 0)?,
        };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// A session that a client offers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Offered {
    pub key: Key,
    /// Whether it may be resumed only once, because it is of TLS 1.3.
    pub once: bool,
}

/// Shows only the beginning, because a session id of TLS 1.3 is sensitive.
impl Debug for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Key(")?;
        for byte in self.bytes().iter().take(4) {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("..)")
    }
}

/// Authenticated encryption under one key.
pub trait ValueCipher: Debug + Send + Sync {
    /// Encrypts `bytes` in place, and binds them to `additional`. `None` on failure; the bytes may
    /// be anything then.
    fn seal(&self, additional: &[u8], bytes: &mut [u8]) -> Option<Sealed>;

    /// Decrypts `bytes` in place. `false` if the bytes, the seal or `additional` do not match; the
    /// bytes may be anything then. Their capacity has room for a tag behind them.
    fn open(&self, additional: &[u8], sealed: Sealed, bytes: &mut Vec<u8>) -> bool;
}

/// Nonce and tag that are needed, beside the key, to open sealed bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sealed {
    /// Unique to this value under the key.
    pub nonce: [u8; 12],
    pub tag: [u8; 16],
}

/// First pause of an open breaker.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause: an operator who has repaired the store waits no longer.
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// Time without failure after which the pauses begin anew with the shortest.
const SOUND: Duration = Duration::from_secs(60);

/// A circuit breaker.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: BreakerState,
    failures: u32,
    failures_max: u32,
    /// Last pause, and its beginning.
    last: Option<(Duration, Instant)>,
}

#[derive(Clone, Copy, Debug)]
enum BreakerState {
    Closed,
    Open {
        until: Instant,
    },
    /// One request is on its way.
    HalfOpen,
}

impl Breaker {
    /// Creates a closed breaker, which opens after `failures_max` failures in a row.
    pub fn new(failures_max: u32) -> Self {
        Self { state: BreakerState::Closed, failures: 0, failures_max, last: None }
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.state, BreakerState::Closed)
    }

    /// Returns when one request may be tried; `None` if it is closed, or one is on its way.
    pub fn due(&self) -> Option<Instant> {
        match self.state {
            BreakerState::Open { until } => Some(until),
            BreakerState::Closed | BreakerState::HalfOpen => None,
        }
    }

    /// Reports whether a request goes through. When a pause is over, one does.
    pub fn lets_through(&mut self, now: Instant) -> bool {
        match self.state {
            BreakerState::Closed => true,
            BreakerState::Open { until } if until <= now => {
                self.state = BreakerState::HalfOpen;
                true
            }
            BreakerState::Open { .. } | BreakerState::HalfOpen => false,
        }
    }

    /// Notes a success. Returns whether the breaker closes.
    pub fn succeeded(&mut self) -> bool {
        self.failures = 0;
        let was_closed = self.is_closed();
        self.state = BreakerState::Closed;
        !was_closed
    }

    /// Notes a failure. Returns whether the closed breaker opens.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        match self.state {
            BreakerState::Closed if self.failures >= self.failures_max => self.open(now),
            BreakerState::HalfOpen => {
                self.open(now);
                false
            }
            // Requests that were on their way when it opened fail as well.
            BreakerState::Closed | BreakerState::Open { .. } => false,
        }
    }

    /// Opens the breaker, because nothing can go through. Returns whether it was closed.
    pub fn open(&mut self, now: Instant) -> bool {
        let was_closed = self.is_closed();
        let recent =
            self.last.filter(|(pause, at)| now.saturating_duration_since(*at) < *pause + SOUND);
        let pause = recent.map_or(PAUSE_MIN, |(pause, _)| (pause * 2).min(PAUSE_MAX));
        self.last = Some((pause, now));
        self.state = BreakerState::Open { until: now + pause };
        was_closed
    }
}

#[cfg(test)]
pub(crate) mod weak_cipher {
    //! A cipher for tests: it detects accidental changes, and hides little.

    use crate::tiers::{Sealed, ValueCipher};
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug, Default)]
    pub(crate) struct WeakCipher(AtomicU64);

    fn digest(additional: &[u8], nonce: [u8; 12], bytes: &[u8]) -> [u8; 16] {
        let mut hasher = DefaultHasher::new();
        (additional, nonce, bytes).hash(&mut hasher);
        u128::from(hasher.finish()).to_be_bytes()
    }

    fn mask(bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte ^= 0xa5);
    }

    impl ValueCipher for WeakCipher {
        fn seal(&self, additional: &[u8], bytes: &mut [u8]) -> Option<Sealed> {
            let mut nonce = [0; 12];
            let count = self.0.fetch_add(1, Ordering::Relaxed);
            nonce[4..].copy_from_slice(&count.to_be_bytes());
            mask(bytes);
            let tag = digest(additional, nonce, bytes);
            Some(Sealed { nonce, tag })
        }

        fn open(&self, additional: &[u8], sealed: Sealed, bytes: &mut Vec<u8>) -> bool {
            let is_whole = digest(additional, sealed.nonce, bytes) == sealed.tag;
            mask(bytes);
            is_whole
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn key() -> Key {
        Key::new(&[7; 32]).expect("32 bytes are a key")
    }

    fn fetch(answers: &Arc<AtomicUsize>) -> Request {
        let answers = Arc::clone(answers);
        let answer = move |tier| {
            assert_eq!(tier, SessionTier::Nowhere);
            answers.fetch_add(1, Ordering::Relaxed);
        };
        Request::Fetch { key: key(), once: false, answer: Box::new(answer) }
    }

    #[test]
    fn requests_wait_in_order_wake_once_and_a_fetch_is_always_answered() {
        let (answers, wakes) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let tiers = Tiers::default();
        tiers.ask(fetch(&answers));
        assert_eq!(answers.load(Ordering::Relaxed), 1, "nobody is there");
        let counted = Arc::clone(&wakes);
        tiers.open(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        tiers.ask(Request::Delete { key: key() });
        tiers.ask(fetch(&answers));
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        assert!(matches!(tiers.take(1)[0], Request::Delete { .. }));
        tiers.close();
        assert_eq!(answers.load(Ordering::Relaxed), 2);
        assert!(tiers.take(9).is_empty());
    }

    #[test]
    fn the_queue_is_bounded_and_what_it_refuses_is_counted() {
        let answers = Arc::<AtomicUsize>::default();
        let tiers = Tiers::default();
        tiers.open(|| {});
        for _ in 0..WAITING_MAX {
            tiers.ask(Request::Delete { key: key() });
        }
        tiers.ask(fetch(&answers));
        assert_eq!((answers.load(Ordering::Relaxed), tiers.overflows()), (1, 1));
        assert_eq!(tiers.take(usize::MAX).len(), WAITING_MAX);
    }

    #[test]
    fn failures_in_a_row_open_it_and_one_request_decides_when_it_closes() {
        let start = Instant::now();
        let mut breaker = Breaker::new(3);
        assert!(!breaker.failed(start) && !breaker.failed(start));
        assert!(!breaker.succeeded(), "it was closed");
        assert!(!breaker.failed(start) && !breaker.failed(start));
        assert!(breaker.lets_through(start));
        assert!(breaker.failed(start), "the third in a row");
        assert!(!breaker.failed(start), "it was on its way");
        assert!(!breaker.lets_through(start));
        let due = breaker.due().unwrap();
        assert_eq!(due, start + PAUSE_MIN);
        assert!(breaker.lets_through(due), "one");
        assert!(!breaker.lets_through(due), "and no other");
        assert!(breaker.succeeded() && breaker.is_closed());
    }

    #[test]
    fn each_pause_is_twice_the_last_one_until_all_was_well_for_a_minute() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(3);
        assert!(breaker.open(now), "that is news");
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let due = breaker.due().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
            assert!(breaker.lets_through(now));
            assert!(!breaker.failed(now), "that is none");
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
        now = breaker.due().unwrap();
        assert!(breaker.lets_through(now) && breaker.succeeded());
        assert!(breaker.open(now));
        assert_eq!(breaker.due(), Some(now + PAUSE_MAX), "it flaps");
        now = breaker.due().unwrap() + SOUND;
        assert!(breaker.lets_through(now) && breaker.succeeded());
        assert!(breaker.open(now));
        assert_eq!(breaker.due(), Some(now + PAUSE_MIN));
    }
}
