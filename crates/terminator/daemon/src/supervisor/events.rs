//! Events that the supervisor waits for: signals, its threads' news, and the time.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Instant;

use sys::epoll::{Epoll, Events, Interest};
use sys::peer::Process;
use sys::signal::{self, Signal, Signals};
use sys::wake::Waker;

use super::child::Heard;
use super::failure::Failure;
use super::reading::Done;
use super::upgrade::check::CheckNews;
use crate::acme_process::AcmeReply;
use crate::handover::Answer;
use crate::held_keys::KeyReply;
use crate::resolve::Reply;
use crate::watcher::{Changed, Stamps};

pub(super) enum Event {
    Signal(Signal),
    Ordered(u64),
    Heard(u64, Heard<Answer>),
    Resolver(u64, Heard<Reply>),
    Check(u64, CheckNews),
    /// The outcome of reading a configuration, and the files that were looked at.
    Read(Result<Done, Failure>, Option<Stamps>),
    Watched(u64, Heard<Changed>),
    /// The log at that path, which was asked for by a signal.
    Reopened(PathBuf, Result<Done, Failure>),
    Acme(u64, Heard<AcmeReply>),
    AcmeStored(Result<Done, Failure>),
    /// A certificate has been read for another host: its name and kind of key.
    AcmeLoaded(String, String, Result<Done, Failure>),
    Keys(u64, Heard<KeyReply>),
    /// That of a challenge of that number: whether it was to put a record into the DNS.
    HookEnded(u64, bool, Result<Done, Failure>),
}

pub(super) struct EventQueue {
    signals: Signals,
    queue: Receiver<Event>,
    sender: EventSender,
    epoll: Epoll,
    events: Events,
    waiting: VecDeque<Event>,
}

#[derive(Clone)]
pub(super) struct EventSender {
    queue: SyncSender<Event>,
    waker: Arc<Waker>,
}

impl EventSender {
    /// Leaves something, and waits while there is much unread. Nobody reads it once the
    /// supervisor is gone.
    pub(super) fn send(&self, news: Event) {
        if self.queue.send(news).is_ok() {
            self.waker.wake();
        }
    }
}

/// Letters not yet read, and read at a time. A worker process that floods us with answers waits,
/// and costs no memory.
const QUEUE_MAX: usize = 64;

/// That a worker process has ended is heard on its channel, after its last words, which SIGCHLD
/// bounds.
const SIGNALS: [Signal; 7] = [
    Signal::Child,
    Signal::Hangup,
    Signal::Interrupt,
    Signal::Order,
    Signal::Terminate,
    Signal::User1,
    Signal::User2,
];

impl EventQueue {
    /// From now on signals come here. To be called before the first thread is started.
    pub(super) fn open() -> io::Result<Self> {
        let signals = Signals::new(&SIGNALS)?;
        let waker = Arc::new(Waker::new()?);
        let epoll = Epoll::new()?;
        epoll.add(&signals, 0, Interest::READ)?;
        epoll.add(&*waker, 1, Interest::READ)?;
        let (sender, queue) = mpsc::sync_channel(QUEUE_MAX);
        Ok(Self {
            signals,
            queue,
            sender: EventSender { queue: sender, waker },
            epoll,
            events: Events::with_capacity(2),
            waiting: VecDeque::new(),
        })
    }

    pub(super) fn sender(&self) -> EventSender {
        self.sender.clone()
    }

    /// The next thing that happened; `None` = nothing did until then.
    pub(super) fn next(&mut self, until: Option<Instant>) -> io::Result<Option<Event>> {
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
    /// until then, or too many others did: one in an attacker's hands may send them
    /// without end, and they are kept meanwhile.
    pub(super) fn next_of(
        &mut self,
        until: Instant,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> io::Result<Option<Event>> {
        let mut others = Vec::new();
        let mut found = None;
        while found.is_none() && others.len() < QUEUE_MAX {
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
    pub(super) fn put_back(&mut self, news: Vec<Event>) {
        news.into_iter().rev().for_each(|one| self.waiting.push_front(one));
    }

    /// Sends this process the signals once more that have been read and are not yet news. They are
    /// blocked, and so wait for the next program.
    pub(super) fn send_signals_again(&mut self) {
        self.collect();
        let own = std::process::id();
        for news in self.waiting.drain(..) {
            // The process is there, and its own.
            let _ = match news {
                Event::Signal(signal) => signal::send(own, signal),
                Event::Ordered(number) => Process::of(own).and_then(|own| own.order(number)),
                _ => Ok(()),
            };
        }
    }

    /// This program is told to stop before it serves in the place of another, which hears it again.
    pub(super) fn told_to_stop(&mut self) -> Failure {
        self.send_signals_again();
        Failure::Upgrade("it was told to stop".to_owned())
    }

    fn collect(&mut self) {
        while let Some((signal, number)) = self.signals.next() {
            self.waiting.push_back(match signal {
                Signal::Order => Event::Ordered(number),
                signal => Event::Signal(signal),
            });
        }
        // Before the queue: one that comes in between wakes us again.
        self.sender.waker.drain();
        let before = self.waiting.len();
        self.waiting.extend(self.queue.try_iter().take(QUEUE_MAX));
        if self.waiting.len() - before == QUEUE_MAX {
            self.sender.waker.wake();
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
            let mut events = EventQueue::open().unwrap();
            let (sender, count) = (events.sender(), 10 * QUEUE_MAX as u64);
            let send_all =
                move || (0..count).for_each(|n| sender.send(Event::Heard(n, Heard::End)));
            std::thread::spawn(send_all);
            for expected in 0..count {
                match events.next(None).unwrap() {
                    Some(Event::Heard(number, Heard::End)) => assert_eq!(number, expected),
                    _ => panic!("other news"),
                }
            }
            assert!(events.next(Some(Instant::now())).unwrap().is_none());
            events.put_back(vec![Event::Heard(7, Heard::End), Event::Heard(8, Heard::End)]);
            assert!(matches!(events.next(None).unwrap(), Some(Event::Heard(7, _))));
        });
        test.join().unwrap();
    }

    #[test]
    fn a_flood_while_another_event_is_awaited_costs_little_memory() {
        let test = std::thread::spawn(|| {
            let mut events = EventQueue::open().unwrap();
            let (sender, until) = (events.sender(), Instant::now() + Duration::from_secs(30));
            let is_resolver = |news: &Event| matches!(news, Event::Resolver(..));
            sender.send(Event::Heard(0, Heard::End));
            sender.send(Event::Resolver(1, Heard::End));
            let found = events.next_of(until, is_resolver).unwrap();
            assert!(matches!(found, Some(Event::Resolver(1, _))));
            let count = 10 * QUEUE_MAX as u64;
            let send_all =
                move || (1..count).for_each(|n| sender.send(Event::Heard(n, Heard::End)));
            std::thread::spawn(send_all);
            assert!(events.next_of(until, is_resolver).unwrap().is_none());
            assert!(events.waiting.len() < 3 * QUEUE_MAX);
            for expected in 0..count {
                match events.next(None).unwrap() {
                    Some(Event::Heard(number, Heard::End)) => assert_eq!(number, expected),
                    _ => panic!("other news"),
                }
            }
        });
        test.join().unwrap();
    }
}
