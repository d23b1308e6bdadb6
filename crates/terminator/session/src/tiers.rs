//! The way from the workers to where sessions lie beyond this host's cache.
//!
//! A tier can do three things: publish a session, delete it, and fetch it within a time. Workers
//! ask for them here and wait for none; one thread of the control side takes the requests and
//! goes through the tiers in their order: memory (which the worker has looked into), peers, store.
//! Owns the queue between them and its bound.

use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use telemetry::outcome::SessionTier;
use zeroize::Zeroizing;

use crate::key::Key;

/// Requests that wait for the control side: what workers of a large host ask for in a tenth of a
/// second. More would be answered too late. Some 5 MB.
const WAITING_MAX: usize = 16 << 10;

/// Is told where a session was found. A session that was found is in the cache by then.
pub type FetchAnswer = Box<dyn FnOnce(SessionTier) + Send>;

pub enum Request {
    /// Give this session to the tiers.
    Publish {
        key: Key,
        /// Whether it may be resumed once only.
        once: bool,
        /// The entry of the cache.
        value: Zeroizing<Vec<u8>>,
        lifetime: Duration,
    },
    /// A session that may be resumed once was used up.
    Delete { key: Key },
    /// Bring this session into the cache. It is answered in any case.
    Fetch {
        key: Key,
        /// Whether it may be resumed once only.
        once: bool,
        answer: FetchAnswer,
    },
}

/// The queue of requests. While no tier is open it takes none.
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
    /// Takes requests from now on. `wake` is called, on a worker's thread, when there are some
    /// after there were none.
    pub fn open(&self, wake: impl Fn() + Send + 'static) {
        self.lock().wake = Some(Box::new(wake));
        self.is_open.store(true, Ordering::Release);
    }

    /// Takes none any more, and answers those that wait.
    pub fn close(&self) {
        self.is_open.store(false, Ordering::Release);
        let mut state = self.lock();
        state.wake = None;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Request::give_up);
    }

    /// Whether sessions are shared at all.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Asks for it. What cannot wait as well is counted, and a fetch answered at once.
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

    /// Requests that found the queue full.
    pub fn overflows(&self) -> u64 {
        self.overflows.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, TierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    /// Who waits for an answer gets one.
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

#[cfg(test)]
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
}
