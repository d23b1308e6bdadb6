//! Runs a thread's event loop: readiness, timers, idle clients.
//!
//! Owns its listeners' connections; `connection` serves each. Also burns CPU time in proportion to
//! the thread's use, for a server whose cost exceeds another's by a known share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slab::Slab;
use sys::epoll::{Epoll, Event, Events, Interest, Waker};
use sys::socket;

use super::connection::{Buffers, NextStep, OriginConnection, Totals};

const EVENTS: usize = 256;

/// Connections that are accepted before others have their turn.
const ACCEPTS_MAX: usize = 64;

/// Pause of accepting after the kernel refused a socket, in which others may close.
const PAUSE: Duration = Duration::from_millis(100);

/// How long connections with more to do, downloads among them, delay new requests. Sockets of one
/// host take megabytes at once, and a hundred downloads would fill a tenth of a second.
const TURN: Duration = Duration::from_millis(1);

const WAKER: u64 = u64::MAX;

/// Bit that is set in listeners' tokens and never in connections'.
const LISTENER: u64 = 1 << 63;

pub(super) struct OriginWorker {
    epoll: Epoll,
    /// Each listener, and whether other workers share it.
    listeners: Vec<(Arc<OwnedFd>, bool)>,
    /// Time after which a client that sends no request, or reads nothing, is closed.
    idle_timeout: Duration,
    slots: Slab<OriginSlot>,
    /// Counts connections, so that an event for one does not reach its successor.
    generation: u32,
    /// Tokens of connections that have more to do, each once.
    again: VecDeque<u64>,
    /// Connections accepted in this round; served last, when most have sent their request.
    arrivals: Vec<OwnedFd>,
    /// Due times of delayed replies, with tokens of connections.
    delays: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Time of the next search for idle clients.
    sweep_at: Instant,
    /// Time until which no connection is accepted.
    paused_until: Option<Instant>,
    buffers: Buffers,
    now: Instant,
    warn: fn(&io::Error),
    /// Burns CPU time in addition to the work.
    pub(super) busy_work: Option<BusyWork>,
}

struct OriginSlot {
    generation: u32,
    waits_for_room: bool,
    /// Whether the connection is in the queue of those with more to do.
    is_queued: bool,
    connection: OriginConnection,
}

impl OriginWorker {
    /// Watches the listeners, each with whether other workers share it. `end` is woken to end the
    /// worker.
    pub(super) fn new(
        listeners: Vec<(Arc<OwnedFd>, bool)>,
        end: &Waker,
        idle_timeout: Duration,
        warn: fn(&io::Error),
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(end, WAKER, Interest::READ)?;
        let now = Instant::now();
        let worker = Self {
            epoll,
            sweep_at: now,
            listeners,
            idle_timeout,
            slots: Slab::new(),
            generation: 0,
            again: VecDeque::new(),
            arrivals: Vec::with_capacity(ACCEPTS_MAX),
            delays: BinaryHeap::new(),
            paused_until: None,
            buffers: Buffers::new(),
            now,
            warn,
            busy_work: None,
        };
        worker.watch_listeners()?;
        Ok(worker)
    }

    fn watch_listeners(&self) -> io::Result<()> {
        for (token, (listener, is_shared)) in (LISTENER..).zip(&self.listeners) {
            let interest = if *is_shared { Interest::ACCEPT_SHARED } else { Interest::READ };
            self.epoll.add(&**listener, token, interest)?;
        }
        Ok(())
    }

    /// Serves until `end` is woken.
    pub(super) fn run(mut self) -> io::Result<Totals> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            self.epoll.wait(&mut events, self.patience())?;
            self.now = Instant::now();
            for event in events.iter() {
                match event.token {
                    WAKER => return Ok(self.buffers.output.totals),
                    token if token & LISTENER != 0 => self.accept(token)?,
                    _ => self.ready(event),
                }
            }
            self.resume()?;
            self.fire_delays();
            self.go_on();
            self.welcome_all()?;
            self.sweep();
            if let Some(busy_work) = &mut self.busy_work {
                busy_work.burn();
            }
        }
    }

    /// Returns how long epoll may wait.
    fn patience(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let delay = self.delays.peek().map(|Reverse((at, _))| *at);
        let sweep = (!self.slots.is_empty()).then_some(self.sweep_at);
        let next = [delay, sweep, self.paused_until].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn accept(&mut self, token: u64) -> io::Result<()> {
        let index = (token & !LISTENER) as usize;
        for _ in 0..ACCEPTS_MAX {
            match socket::accept(&*self.listeners[index].0) {
                Ok((socket, _)) => self.arrivals.push(socket),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return self.pause(&error),
            }
        }
        Ok(())
    }

    fn welcome_all(&mut self) -> io::Result<()> {
        let mut arrivals = mem::take(&mut self.arrivals);
        for socket in arrivals.drain(..) {
            self.welcome(socket)?;
        }
        self.arrivals = arrivals;
        Ok(())
    }

    /// Serves a new client at once if it has asked; one that is done then is never watched.
    fn welcome(&mut self, socket: OwnedFd) -> io::Result<()> {
        self.buffers.output.totals.connections += 1;
        let mut connection = OriginConnection::new(socket, self.now);
        let next = connection.advance(&mut self.buffers, self.now);
        if next == NextStep::Close {
            return Ok(());
        }
        if self.slots.is_empty() {
            self.sweep_at = self.now + self.sweep_interval();
        }
        self.generation = (self.generation + 1) & (u32::MAX >> 1);
        let slot = OriginSlot {
            generation: self.generation,
            waits_for_room: next == NextStep::WaitForRoom,
            is_queued: false,
            connection,
        };
        let interest = slot.interest();
        let key = self.slots.insert(slot);
        let token = u64::from(self.generation) << 32 | key as u64;
        let connection = &self.slots[key].connection;
        if let Err(error) = self.epoll.add(connection, token, interest) {
            self.slots.remove(key);
            return self.pause(&error);
        }
        self.follow(token, next);
        Ok(())
    }

    fn pause(&mut self, error: &io::Error) -> io::Result<()> {
        (self.warn)(error);
        if self.paused_until.is_none() {
            for (listener, _) in &self.listeners {
                self.epoll.remove(&**listener)?;
            }
        }
        self.paused_until = Some(self.now + PAUSE);
        Ok(())
    }

    fn resume(&mut self) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| until <= self.now) {
            self.paused_until = None;
            self.watch_listeners()?;
        }
        Ok(())
    }

    #[inline]
    fn ready(&mut self, event: Event) {
        let Some(slot) = slot(&mut self.slots, event.token) else {
            return;
        };
        if event.error || event.hung_up {
            // No client is left to receive a reply.
            self.slots.remove(key_of(event.token));
            return;
        }
        if event.readable || event.read_closed {
            slot.connection.note_readable(event.read_closed);
        }
        if slot.connection.download.is_some() {
            self.queue(event.token);
        } else {
            self.advance(event.token);
        }
    }

    fn queue(&mut self, token: u64) {
        if let Some(slot) = slot(&mut self.slots, token)
            && !mem::replace(&mut slot.is_queued, true)
        {
            self.again.push_back(token);
        }
    }

    #[inline]
    fn advance(&mut self, token: u64) {
        if let Some(slot) = slot(&mut self.slots, token) {
            let next = slot.connection.advance(&mut self.buffers, self.now);
            self.follow(token, next);
        }
    }

    #[inline]
    fn follow(&mut self, token: u64, next: NextStep) {
        match next {
            NextStep::Wait => {}
            NextStep::WaitForRoom => self.watch_room(token),
            NextStep::Wake(at) => self.delays.push(Reverse((at, token))),
            NextStep::Again => self.queue(token),
            NextStep::Close => drop(self.slots.remove(key_of(token))),
        }
    }

    /// Watches for room from the first time that the socket was full.
    fn watch_room(&mut self, token: u64) {
        let Some(slot) = slot(&mut self.slots, token) else {
            return;
        };
        if mem::replace(&mut slot.waits_for_room, true) {
            return;
        }
        let watched = self.epoll.modify(&slot.connection, token, slot.interest());
        if watched.is_err() {
            self.slots.remove(key_of(token));
        }
    }

    fn fire_delays(&mut self) {
        while let Some(Reverse((at, token))) = self.delays.peek().copied()
            && at <= self.now
        {
            self.delays.pop();
            self.advance(token);
        }
    }

    fn go_on(&mut self) {
        let mut now = self.now;
        let until = now + TURN;
        while now < until
            && let Some(token) = self.again.pop_front()
        {
            if let Some(slot) = slot(&mut self.slots, token) {
                slot.is_queued = false;
                self.advance(token);
            }
            now = Instant::now();
        }
    }

    fn sweep(&mut self) {
        if self.now < self.sweep_at {
            return;
        }
        self.sweep_at = self.now + self.sweep_interval();
        let (now, idle_timeout) = (self.now, self.idle_timeout);
        self.slots.retain(|_, slot| !slot.connection.is_overdue(now, idle_timeout));
    }

    /// Closes idle clients at most an eighth of their time late; a search costs almost nothing.
    fn sweep_interval(&self) -> Duration {
        let eighth = self.idle_timeout / 8;
        eighth.clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

impl OriginSlot {
    fn interest(&self) -> Interest {
        if self.waits_for_room {
            Interest::READ | Interest::WRITE | Interest::EDGE
        } else {
            Interest::READ | Interest::EDGE
        }
    }
}

fn key_of(token: u64) -> usize {
    (token & u64::from(u32::MAX)) as usize
}

/// Returns the slot of a token, unless its connection is gone.
#[inline]
fn slot(slots: &mut Slab<OriginSlot>, token: u64) -> Option<&mut OriginSlot> {
    let slot = slots.get_mut(key_of(token))?;
    (u64::from(slot.generation) == token >> 32).then_some(slot)
}

/// State of the burning of CPU time by the calling thread.
#[derive(Debug)]
pub(super) struct BusyWork {
    share: f64,
    /// The thread's CPU time when the last burn ended.
    seen: Duration,
    /// CPU time to burn, in nanoseconds; below 0 if the last burn overshot by a clock reading.
    owed_ns: f64,
}

impl BusyWork {
    pub(super) fn new(share: f64) -> Self {
        Self { share, seen: Duration::ZERO, owed_ns: 0.0 }
    }

    /// Burns CPU time for the work since the last call.
    pub(super) fn burn(&mut self) {
        let begun = sys::cpu::thread_time();
        let worked = begun.saturating_sub(self.seen);
        self.owed_ns += worked.as_nanos() as f64 * self.share;
        self.seen = begun;
        while self.owed_ns > 0.0 {
            let now = sys::cpu::thread_time();
            self.owed_ns -= now.saturating_sub(self.seen).as_nanos() as f64;
            self.seen = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured by the thread's own clock, however busy the host is.
    #[test]
    fn what_is_burnt_is_in_proportion() {
        let mut busy_work = BusyWork::new(0.5);
        busy_work.burn();
        let begun = sys::cpu::thread_time();
        let mut worked = Duration::ZERO;
        while worked < Duration::from_millis(20) {
            let from = sys::cpu::thread_time();
            while sys::cpu::thread_time() - from < Duration::from_micros(200) {}
            worked += sys::cpu::thread_time() - from;
            busy_work.burn();
        }
        let all = (sys::cpu::thread_time() - begun).as_secs_f64() / worked.as_secs_f64();
        assert!((1.45..1.6).contains(&all), "{all}");
    }
}
