//! What the supervisor waits for: signals, its threads' news, and the time.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Instant;

use sys::epoll::{Epoll, Events, Interest};
use sys::signal::{Signal, Signals};
use sys::wake::Waker;

use super::child::Heard;
use super::failure::Failure;
use super::reading::Done;
use crate::handover::Answer;
use crate::resolve::Told;

/// Something that happened.
pub(super) enum News {
    Signal(Signal),
    /// What the worker process with that number said.
    Heard(u64, Heard<Answer>),
    /// What the resolver with that number said.
    Resolver(u64, Heard<Told>),
    /// What a configuration came to.
    Read(Result<Done, Failure>),
    /// The log that was asked for by a signal.
    Reopened(Result<Done, Failure>),
}

/// Signals and news, in the order in which they came.
pub(super) struct Inbox {
    signals: Signals,
    letters: Receiver<News>,
    post: Post,
    epoll: Epoll,
    events: Events,
    waiting: VecDeque<News>,
}

/// Where threads leave their news.
#[derive(Clone)]
pub(super) struct Post {
    letters: SyncSender<News>,
    waker: Arc<Waker>,
}

impl Post {
    /// Leaves something, and waits while there is much unread. Nobody reads it once the
    /// supervisor is gone.
    pub(super) fn send(&self, news: News) {
        if self.letters.send(news).is_ok() {
            self.waker.wake();
        }
    }
}

/// Letters not yet read, and read at a time. A worker process that floods us with answers waits,
/// and costs no memory.
const LETTERS_MAX: usize = 64;

/// That a worker process has ended is heard on its channel, after its last words.
const SIGNALS: [Signal; 4] = [
    Signal::Hangup,
    Signal::Interrupt,
    Signal::Terminate,
    Signal::User1,
];

impl Inbox {
    /// From now on signals come here. To be called before the first thread is started.
    pub(super) fn open() -> io::Result<Self> {
        let signals = Signals::new(&SIGNALS)?;
        let waker = Arc::new(Waker::new()?);
        let epoll = Epoll::new()?;
        epoll.add(&signals, 0, Interest::READ)?;
        epoll.add(&*waker, 1, Interest::READ)?;
        let (sender, letters) = mpsc::sync_channel(LETTERS_MAX);
        Ok(Self {
            signals,
            letters,
            post: Post {
                letters: sender,
                waker,
            },
            epoll,
            events: Events::with_capacity(2),
            waiting: VecDeque::new(),
        })
    }

    /// For threads.
    pub(super) fn post(&self) -> Post {
        self.post.clone()
    }

    /// The next thing that happened; `None` = nothing did until then.
    pub(super) fn next(&mut self, until: Option<Instant>) -> io::Result<Option<News>> {
        loop {
            if let Some(news) = self.waiting.pop_front() {
                return Ok(Some(news));
            }
            let now = Instant::now();
            let timeout = until.map(|until| until.saturating_duration_since(now));
            self.epoll.wait(&mut self.events, timeout)?;
            self.collect();
            if self.waiting.is_empty() && until.is_some_and(|until| until <= Instant::now()) {
                return Ok(None);
            }
        }
    }

    /// The next of the news that are wanted; the others stay, in their order. `None` = none came
    /// until then, or too many others did: a worker process that was taken over may send them
    /// without end, and they are kept meanwhile.
    pub(super) fn next_of(
        &mut self,
        until: Instant,
        is_wanted: impl Fn(&News) -> bool,
    ) -> io::Result<Option<News>> {
        let mut others = Vec::new();
        let mut found = None;
        while found.is_none() && others.len() < LETTERS_MAX {
            match self.next(Some(until))? {
                Some(news) if is_wanted(&news) => found = Some(news),
                Some(other) => others.push(other),
                None => break,
            }
        }
        self.put_back(others);
        Ok(found)
    }

    /// Puts news back that somebody took too early, before all others.
    pub(super) fn put_back(&mut self, news: Vec<News>) {
        news.into_iter()
            .rev()
            .for_each(|one| self.waiting.push_front(one));
    }

    fn collect(&mut self) {
        while let Some(signal) = self.signals.next() {
            self.waiting.push_back(News::Signal(signal));
        }
        // Before the letters: one that comes in between wakes us again.
        self.post.waker.drain();
        let before = self.waiting.len();
        self.waiting
            .extend(self.letters.try_iter().take(LETTERS_MAX));
        if self.waiting.len() - before == LETTERS_MAX {
            self.post.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn news_of_threads_come_in_order_and_time_ends_the_wait() {
        // In a thread of its own, whose signals are blocked.
        let test = std::thread::spawn(|| {
            let mut inbox = Inbox::open().unwrap();
            let (post, count) = (inbox.post(), 10 * LETTERS_MAX as u64);
            let send_all = move || (0..count).for_each(|n| post.send(News::Heard(n, Heard::End)));
            std::thread::spawn(send_all);
            for expected in 0..count {
                match inbox.next(None).unwrap() {
                    Some(News::Heard(number, Heard::End)) => assert_eq!(number, expected),
                    _ => panic!("other news"),
                }
            }
            assert!(inbox.next(Some(Instant::now())).unwrap().is_none());
            inbox.put_back(vec![News::Heard(7, Heard::End), News::Heard(8, Heard::End)]);
            assert!(matches!(inbox.next(None).unwrap(), Some(News::Heard(7, _))));
        });
        test.join().unwrap();
    }

    #[test]
    fn who_floods_us_while_others_are_awaited_costs_little_memory() {
        let test = std::thread::spawn(|| {
            let mut inbox = Inbox::open().unwrap();
            let (post, until) = (inbox.post(), Instant::now() + Duration::from_secs(30));
            let is_resolver = |news: &News| matches!(news, News::Resolver(..));
            post.send(News::Heard(0, Heard::End));
            post.send(News::Resolver(1, Heard::End));
            let found = inbox.next_of(until, is_resolver).unwrap();
            assert!(matches!(found, Some(News::Resolver(1, _))));
            let count = 10 * LETTERS_MAX as u64;
            let send_all = move || (1..count).for_each(|n| post.send(News::Heard(n, Heard::End)));
            std::thread::spawn(send_all);
            assert!(inbox.next_of(until, is_resolver).unwrap().is_none());
            assert!(inbox.waiting.len() < 3 * LETTERS_MAX);
            for expected in 0..count {
                match inbox.next(None).unwrap() {
                    Some(News::Heard(number, Heard::End)) => assert_eq!(number, expected),
                    _ => panic!("other news"),
                }
            }
        });
        test.join().unwrap();
    }
}
