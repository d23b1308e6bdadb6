//! Events that the supervisor waits for: signals, its threads' news, and the time.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use sys::epoll::{Epoll, Events, Interest, Waker};
use sys::peer::Process;
use sys::signal::{self, Signal, Signals};

use super::child::ChildEvent;
use super::failure::Failure;
use super::reading::ReaderResult;
use super::upgrade::check::CheckNews;
use crate::acme_process::AcmeReply;
use crate::handover::Answer;
use crate::held_keys::KeyReply;
use crate::resolve::Reply;
use crate::watcher::{ChangedFiles, Stamps};

pub(super) enum Event {
    Signal(Signal),
    Ordered(u64),
    Heard(u64, ChildEvent<Answer>),
    Resolver(u64, ChildEvent<Reply>),
    Check(u64, CheckNews),
    /// The outcome of reading a configuration, and the files that were looked at.
    Read(Result<ReaderResult, Failure>, Option<Stamps>),
    Watched(u64, ChildEvent<ChangedFiles>),
    /// The log at that path, which was asked for by a signal.
    Reopened(PathBuf, Result<ReaderResult, Failure>),
    Acme(u64, ChildEvent<AcmeReply>),
    AcmeStored(Result<ReaderResult, Failure>),
    /// A certificate has been read for another host: its name and kind of key.
    AcmeLoaded(String, String, Result<ReaderResult, Failure>),
    Keys(u64, ChildEvent<KeyReply>),
    /// That of a challenge of that number: whether it was to put a record into the DNS.
    HookEnded(u64, bool, Result<ReaderResult, Failure>),
}

pub(super) struct EventQueue {
    signals: Signals,
    queue: Receiver<QueuedEvent>,
    sender: EventSender,
    epoll: Epoll,
    events: Events,
    waiting: VecDeque<QueuedEvent>,
    /// Events that came before a time that is over, and are heard before that is said.
    before_end: Option<usize>,
}

/// An event with the place that it holds in its source's turn, if a thread has left it.
struct QueuedEvent {
    event: Event,
    _place: Option<SourcePlace>,
}

/// The way of one source's events here, and of those that it is cloned for.
#[derive(Clone)]
pub(super) struct EventSender {
    queue: SyncSender<QueuedEvent>,
    waker: Arc<Waker>,
    turn: Arc<SourceTurn>,
}

/// Whether a source has left something that is not yet taken.
#[derive(Default)]
struct SourceTurn {
    has_left: Mutex<bool>,
    is_taken: Condvar,
}

struct SourcePlace(Arc<SourceTurn>);

impl SourceTurn {
    fn take(turn: &Arc<Self>) -> SourcePlace {
        let has_left = turn.has_left.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = turn.is_taken.wait_while(has_left, |has_left| *has_left);
        *waited.unwrap_or_else(PoisonError::into_inner) = true;
        SourcePlace(Arc::clone(turn))
    }
}

impl Drop for SourcePlace {
    fn drop(&mut self) {
        *self.0.has_left.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.is_taken.notify_one();
    }
}

impl EventSender {
    /// Leaves something when what the same source has left before is taken: so a process that
    /// floods us waits with all but its next two messages, each of limited size, and no other
    /// source waits for it. Nobody reads it once the supervisor is gone. Not to be called by
    /// the thread that takes the events; that has [`EventQueue::push`].
    pub(super) fn send(&self, event: Event) {
        self.has_sent(event);
    }

    /// Sends; `false` = the supervisor is gone.
    fn has_sent(&self, event: Event) -> bool {
        let place = Some(SourceTurn::take(&self.turn));
        let is_sent = self.queue.send(QueuedEvent { event, _place: place }).is_ok();
        if is_sent {
            self.waker.wake();
        }
        is_sent
    }
}

/// Sources that wait at a time, and signals kept beside them: there are far fewer processes and
/// threads.
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
            sender: EventSender { queue: sender, waker, turn: Arc::default() },
            epoll,
            events: Events::with_capacity(2),
            waiting: VecDeque::new(),
            before_end: None,
        })
    }

    /// The way here for one more source.
    pub(super) fn sender(&self) -> EventSender {
        EventSender { turn: Arc::default(), ..self.sender.clone() }
    }

    /// The next thing that happened. `None` = the time is over, and what came before has been
    /// heard: whatever comes without end does not put it off.
    pub(super) fn next(&mut self, until: Option<Instant>) -> io::Result<Option<Event>> {
        Ok(self.next_queued(until)?.map(|queued| queued.event))
    }

    fn next_queued(&mut self, until: Option<Instant>) -> io::Result<Option<QueuedEvent>> {
        loop {
            if self.is_over(until) {
                return Ok(None);
            }
            if let Some(queued) = self.waiting.pop_front() {
                return Ok(Some(queued));
            }
            let now = Instant::now();
            let timeout = until.map(|until| until.saturating_duration_since(now));
            self.epoll.wait(&mut self.events, timeout)?;
            self.collect();
        }
    }

    /// Whether the time is over and what had come by then was taken.
    fn is_over(&mut self, until: Option<Instant>) -> bool {
        if until.is_none_or(|until| until > Instant::now()) {
            self.before_end = None;
            return false;
        }
        if self.before_end.is_none() {
            self.collect();
        }
        let left = self.before_end.unwrap_or(self.waiting.len());
        self.before_end = left.checked_sub(1);
        left == 0
    }

    /// The next of the news that are wanted; the others stay, in their order, and their sources
    /// wait. `None` = none came until then, or too many signals did.
    pub(super) fn next_of(
        &mut self,
        until: Instant,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> io::Result<Option<Event>> {
        let mut others = Vec::new();
        let mut found = None;
        while found.is_none() && others.len() < 2 * QUEUE_MAX {
            match self.next_queued(Some(until))? {
                Some(queued) if is_wanted(&queued.event) => found = Some(queued.event),
                Some(other) => others.push(other),
                None => break,
            }
        }
        others.into_iter().rev().for_each(|one| self.waiting.push_front(one));
        Ok(found)
    }

    /// Puts an event back that somebody took too early, before all others.
    pub(super) fn put_back(&mut self, event: Event) {
        self.waiting.push_front(QueuedEvent { event, _place: None });
    }

    /// Leaves an event behind all others.
    pub(super) fn push(&mut self, event: Event) {
        self.waiting.push_back(QueuedEvent { event, _place: None });
    }

    /// Sends this process the signals once more that have been read and are not yet news. They are
    /// blocked, and so wait for the next program.
    pub(super) fn send_signals_again(&mut self) {
        self.collect();
        let own = std::process::id();
        for queued in self.waiting.drain(..) {
            // The process is there, and its own.
            let _ = match queued.event {
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
            self.push(match signal {
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
                move || (0..count).for_each(|n| sender.send(Event::Heard(n, ChildEvent::End)));
            std::thread::spawn(send_all);
            for expected in 0..count {
                match events.next(None).unwrap() {
                    Some(Event::Heard(number, ChildEvent::End)) => assert_eq!(number, expected),
                    _ => panic!("other news"),
                }
            }
            assert!(events.next(Some(Instant::now())).unwrap().is_none());
            events.push(Event::Heard(8, ChildEvent::End));
            events.put_back(Event::Heard(7, ChildEvent::End));
            assert!(matches!(events.next(None).unwrap(), Some(Event::Heard(7, _))));
            assert!(matches!(events.next(None).unwrap(), Some(Event::Heard(8, _))));
        });
        test.join().unwrap();
    }

    /// A source that leaves the end of one process after the other, until nobody takes them.
    fn flood(events: &EventQueue) {
        let sender = events.sender();
        let is_heard = move |number: &u64| sender.has_sent(Event::Heard(*number, ChildEvent::End));
        std::thread::spawn(move || (0..).take_while(is_heard).count());
    }

    #[test]
    fn a_flood_while_another_event_is_awaited_costs_little_memory() {
        let test = std::thread::spawn(|| {
            let mut events = EventQueue::open().unwrap();
            let is_resolver = |news: &Event| matches!(news, Event::Resolver(..));
            (0..3).for_each(|_| flood(&events));
            let sender = events.sender();
            let answer = move || {
                (0..3).for_each(|number| sender.send(Event::Resolver(number, ChildEvent::End)))
            };
            std::thread::spawn(answer);
            for expected in 0..3 {
                let until = Instant::now() + Duration::from_secs(30);
                let found = events.next_of(until, is_resolver).unwrap();
                assert!(matches!(found, Some(Event::Resolver(number, _)) if number == expected));
                assert!(events.waiting.len() <= 4, "one of each source");
            }
            let now = Instant::now();
            assert!(events.next_of(now, is_resolver).unwrap().is_none());
        });
        test.join().unwrap();
    }

    #[test]
    fn a_flood_puts_off_no_deadline_and_what_came_before_it_is_heard_first() {
        let test = std::thread::spawn(|| {
            let mut events = EventQueue::open().unwrap();
            flood(&events);
            // The flood has begun.
            events.next(None).unwrap();
            events.push(Event::Resolver(1, ChildEvent::End));
            let (over, mut heard) = (Some(Instant::now()), 0);
            for _ in 0..10 {
                let mut taken = 0;
                while let Some(news) = events.next(over).unwrap() {
                    heard += usize::from(matches!(news, Event::Resolver(..)));
                    taken += 1;
                    assert!(taken < QUEUE_MAX, "the time is over");
                }
                assert_eq!(heard, 1);
            }
        });
        test.join().unwrap();
    }
}
