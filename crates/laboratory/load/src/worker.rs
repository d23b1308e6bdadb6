//! Runs one thread of load: its clients, its connections, its clock.
//!
//! Handles the loop. The plan defines transactions and their instants; the connection handles its
//! bytes.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slab::Slab;
use sys::clock::Timer;
use sys::epoll::{Epoll, Event, Events, Interest};

use crate::client_pool::ClientPool;
use crate::connection::{ClientConnection, ConnectionStep, LoadStage};
use crate::failure::{LoadStartFault, TransactionFailure};
use crate::http::RequestMixture;
use crate::plan::{ConnectionEnding, LoadPlan};
use crate::recorder::ThreadRecorder;
use crate::scheduler::{Deadline, Deadlines, DueTransaction, RunClock, Scheduler, ThreadContext};
use crate::transaction::{
    ConnectionSlot, Dialler, NOBODY, Transaction, TransactionVerdict, interest, parts, token,
};

/// Bytes to read at once: four records of the greatest size.
const BUFFER_BYTES: usize = 64 * 1024;

const EVENTS_MAX: usize = 256;

/// Maximum of transactions begun in a row before the next look at events, when the schedule lags.
const STARTS_MAX: usize = 64;

/// Rest of a client whose connection failed, in a closed load: a server that refuses everything
/// must not be flooded with dials.
const FAILED_REST: Duration = Duration::from_millis(10);

/// Time for transactions in progress to finish after a stop.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Tokens of descriptors that are not connections; connections have lesser ones.
const TIMER: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;

pub(crate) struct LoadWorker {
    plan: Arc<LoadPlan>,
    context: ThreadContext,
    clock: RunClock,
    requests: RequestMixture,
    dialler: Dialler,
    pool: ClientPool,
    scheduler: Scheduler,
    /// Transactions in progress.
    busy: usize,
    slots: Slab<ConnectionSlot>,
    serial: u32,
    deadlines: Deadlines,
    /// Connections that were not read to the end, so that others need not wait.
    unread: Vec<(usize, u32)>,
    epoll: Epoll,
    timer: Timer,
    armed_for: Option<Instant>,
    buffer: Vec<u8>,
    recorder: ThreadRecorder,
    /// Whether the pause between warm-up and figures is still to come.
    rests: bool,
    /// Whether the load is ending: no transaction begins; current ones end or time out.
    is_ending: bool,
    /// When transactions in progress are given up after a stop.
    abandons_at: Option<Instant>,
}

impl LoadWorker {
    /// Prepares everything but the clock.
    ///
    /// # Errors
    /// Fails with [`LoadStartFault`].
    pub(crate) fn new(
        plan: &Arc<LoadPlan>,
        context: ThreadContext,
    ) -> Result<Self, LoadStartFault> {
        let (index, threads) = (u32::from(context.index), u32::from(context.threads));
        let pool = ClientPool::of_plan(plan, index, threads);
        let dialler = Dialler::new(plan, &context, pool.len())?;
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        epoll.add(&timer, TIMER, Interest::READ | Interest::EDGE)?;
        let waker = context.waker.as_fd();
        epoll.add(waker, WAKER, Interest::READ | Interest::EDGE)?;
        let scheduler = Scheduler::new(plan, &context);
        Ok(Self {
            requests: RequestMixture::new(plan, context.index),
            recorder: ThreadRecorder::new(plan, context.clone()),
            plan: Arc::clone(plan),
            context,
            clock: RunClock::unstarted(),
            dialler,
            pool,
            scheduler,
            busy: 0,
            slots: Slab::new(),
            serial: 0,
            deadlines: Deadlines::default(),
            unread: Vec::new(),
            epoll,
            timer,
            armed_for: None,
            buffer: vec![0; BUFFER_BYTES],
            rests: plan.has_rest(),
            is_ending: false,
            abandons_at: None,
        })
    }

    /// Makes the load, from this instant on.
    ///
    /// # Errors
    /// Fails if the kernel refuses to report events.
    pub(crate) fn run(mut self, begin: Instant) -> std::io::Result<ThreadRecorder> {
        self.clock = RunClock::new(&self.plan, begin);
        self.scheduler.start(self.clock);
        self.recorder.start(self.clock);
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            let now = Instant::now();
            self.look_at_clock(now);
            self.give_up_late(now);
            self.read_on();
            self.pool.wake(now);
            let next_start = self.begin_due(now);
            if self.is_ending && self.slots.is_empty() {
                break;
            }
            let wait = self.wait_for(next_start)?;
            self.epoll.wait(&mut events, wait)?;
            for event in events.iter() {
                self.on_event(&event);
            }
        }
        self.recorder.finish();
        Ok(self.recorder)
    }

    /// Ends seconds, begins the figures, and notes that the last transaction has begun.
    fn look_at_clock(&mut self, now: Instant) {
        self.recorder.set_open(self.slots.len() as u64);
        if self.rests && !self.context.common.is_stopped() {
            if now < self.clock.zero || self.busy > 0 {
                return;
            }
            self.rest();
        }
        self.recorder.pass(now);
        let is_stopped = self.context.common.is_stopped();
        let has_begun_all = self.scheduler.is_over(&self.pool);
        let is_past_end = self.clock.is_past_end(now, has_begun_all);
        let is_over = is_stopped || self.context.is_spent() || is_past_end;
        if is_over && !self.is_ending {
            self.is_ending = true;
            self.fail_unbegun(now);
            self.close_idle();
        }
        if is_stopped && now >= *self.abandons_at.get_or_insert(now + STOP_GRACE) {
            self.abandon();
        }
    }

    /// Waits, with no transaction in progress, until the figures are to begin.
    fn rest(&mut self) {
        self.rests = false;
        let zero = self.context.common.rest.wait_until_over();
        self.clock = self.clock.moved_to(zero);
        self.scheduler.start(self.clock);
        self.recorder.start(self.clock);
    }

    /// Reports whether transactions in progress must end before the figures begin.
    fn is_settling(&self, now: Instant) -> bool {
        self.rests && now >= self.clock.zero && !self.context.common.is_stopped()
    }

    /// Fails the due transactions that have not begun.
    fn fail_unbegun(&mut self, now: Instant) {
        for due in self.scheduler.take_unbegun(&mut self.pool, now) {
            if self.context.spend(due >= self.clock.zero) {
                self.recorder.forgo(due, TransactionFailure::ScheduleOverrun);
            }
        }
    }

    /// Begins due transactions. Returns when the next one is due, if that is known.
    fn begin_due(&mut self, now: Instant) -> Option<Instant> {
        if self.is_ending || self.is_settling(now) {
            return None;
        }
        for _ in 0..STARTS_MAX {
            let due = match self.scheduler.take(&mut self.pool, self.busy, now) {
                Ok(due) => due,
                Err(next) => return next,
            };
            if !self.begin_transaction(due) {
                return None;
            }
        }
        Some(now)
    }

    /// Begins a transaction; `false` if none can be begun.
    fn begin_transaction(&mut self, DueTransaction { at: due, client }: DueTransaction) -> bool {
        let is_open_load = self.scheduler.is_open();
        let Some(client) = client else {
            // A client will be free in a closed load.
            if is_open_load && self.context.spend(due >= self.clock.zero) {
                self.recorder.forgo(due, TransactionFailure::ClientsExhausted);
            }
            return is_open_load;
        };
        if !self.context.spend(due >= self.clock.zero) {
            self.pool.give_up(client);
            self.pool.release(client, due, None);
            return false;
        }
        self.recorder.attempt(due);
        if is_open_load {
            self.recorder.lag(due, Instant::now());
        }
        self.busy += 1;
        let request = self.requests.draw();
        match self.pool.client(client).connection {
            Some(key) => self.ask_again(key, due, request),
            None => {
                if let Err(failure) = self.dial(client, (due, request)) {
                    let place = (self.dialler.address_of(client), request);
                    self.recorder.fail(due, place, failure);
                    self.pool.give_up(client);
                    self.release(client, true);
                }
            }
        }
        true
    }

    fn release(&mut self, client: u32, has_failed: bool) {
        self.busy -= 1;
        let now = Instant::now();
        let rests = has_failed && !self.scheduler.is_open();
        let until = rests.then(|| now + FAILED_REST);
        self.pool.release(client, now, until);
    }

    /// Makes another request on a kept connection.
    fn ask_again(&mut self, key: usize, due: Instant, request: usize) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        slot.connection.renew();
        slot.holds_client = true;
        slot.transaction = Some(Transaction::kept((due, request), self.plan.tls.is_some()));
        self.set_deadline(key);
        let step = self.ask(key);
        self.follow(key, step);
    }

    /// Sends the request of an open connection; without one, the work is done.
    fn ask(&mut self, key: usize) -> ConnectionStep {
        let Some(slot) = self.slots.get_mut(key) else {
            return ConnectionStep::Waiting;
        };
        let place = slot.transaction.as_ref().map_or(0, |transaction| transaction.request);
        let Some(request) = self.requests.at(place) else {
            return self.close_unasked(key);
        };
        let is_last = self.pool.is_last_of_connection(slot.client);
        let bytes = request.bytes(is_last);
        slot.connection.ask(bytes, request.to_head, &mut self.recorder.traffic)
    }

    /// Closes a connection without a request. In TLS 1.3 our side of the handshake is over before
    /// the server has judged it, so the transaction continues: the way in which the server ends the
    /// connection tells whether it accepted the handshake.
    fn close_unasked(&mut self, key: usize) -> ConnectionStep {
        match self.plan.ending {
            ConnectionEnding::Reset => ConnectionStep::Replied,
            ConnectionEnding::Close => self.end(key).unwrap_or(ConnectionStep::Waiting),
        }
    }

    /// Opens a new connection for a client.
    fn dial(&mut self, client: u32, work: (Instant, usize)) -> Result<(), TransactionFailure> {
        let (mut connection, transaction) = self.dialler.dial(&self.pool, client, work)?;
        if let Some(request) = self.requests.at(work.1).filter(|_| transaction.sends_early) {
            let is_last = self.pool.is_last_of_connection(client);
            connection.ask_early(request.bytes(is_last), request.to_head);
        }
        self.recorder.traffic.connections += 1;
        let key = self.add(connection, client, transaction)?;
        let traffic = &mut self.recorder.traffic;
        let step = match self.slots.get_mut(key) {
            Some(slot) => slot.connection.start(traffic),
            None => return Ok(()),
        };
        self.follow(key, step);
        Ok(())
    }

    fn add(
        &mut self,
        connection: ClientConnection,
        client: u32,
        transaction: Transaction,
    ) -> Result<usize, TransactionFailure> {
        self.serial = self.serial.wrapping_add(1);
        let entry = self.slots.vacant_entry();
        let key = entry.key();
        let token = token(key, self.serial);
        let slot = ConnectionSlot::new(connection, client, self.serial, transaction);
        let interest = interest(slot.watches_room);
        let watched = self.epoll.add(&slot.connection.fd, token, interest);
        watched.map_err(|_| TransactionFailure::NoDescriptor)?;
        entry.insert(slot);
        self.pool.client_mut(client).connection = Some(key);
        self.set_deadline(key);
        Ok(key)
    }

    fn set_deadline(&mut self, key: usize) {
        let at = Instant::now() + self.plan.timeout;
        if let Some(slot) = self.slots.get_mut(key) {
            slot.deadline = Some(at);
            let serial = slot.serial;
            self.deadlines.push(Deadline { at, key, serial });
        }
    }

    fn on_event(&mut self, event: &Event) {
        match event.token {
            WAKER => return self.context.waker.drain(),
            TIMER => return,
            _ => {}
        }
        let (key, serial) = parts(event.token);
        // A connection that ended earlier in this batch may have left an event behind.
        let Some(slot) = self.slots.get_mut(key).filter(|slot| slot.serial == serial) else {
            return;
        };
        self.dialler.turn_to(slot.client);
        let traffic = &mut self.recorder.traffic;
        let step = slot.connection.on_ready(event, &mut self.buffer, traffic);
        // The next connection's signature would be taken for this one's.
        slot.signature = self.dialler.take_signature().or(slot.signature);
        self.follow(key, step);
    }

    /// Acts on a step, and on the steps that follow from it.
    fn follow(&mut self, key: usize, mut step: ConnectionStep) {
        loop {
            step = match step {
                ConnectionStep::Waiting => return self.watch(key),
                ConnectionStep::Opened => self.opened(key),
                ConnectionStep::Replied => match self.replied(key) {
                    Some(step) => step,
                    None => return,
                },
                ConnectionStep::Over => return self.over(key),
                ConnectionStep::Failed(failure) => {
                    self.fail(key, failure);
                    return self.remove(key, true);
                }
            };
            if step == ConnectionStep::Waiting {
                let Some(slot) = self.slots.get_mut(key) else {
                    return;
                };
                let traffic = &mut self.recorder.traffic;
                step = slot.connection.go_on(&mut self.buffer, traffic);
            }
        }
    }

    /// Ensures that the connection has another event.
    fn watch(&mut self, key: usize) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if slot.connection.may_read {
            self.unread.push((key, slot.serial));
        }
        if slot.connection.is_full && !slot.watches_room {
            let token = token(key, slot.serial);
            // The connection is registered already: only the interest changes.
            let socket = &slot.connection.fd;
            let watched = self.epoll.modify(socket, token, interest(true));
            slot.watches_room = watched.is_ok();
        }
    }

    /// Continues reads that were interrupted for the sake of other connections.
    fn read_on(&mut self) {
        for (key, serial) in std::mem::take(&mut self.unread) {
            let slot = self.slots.get_mut(key);
            if let Some(slot) = slot.filter(|slot| slot.serial == serial) {
                self.dialler.turn_to(slot.client);
                let traffic = &mut self.recorder.traffic;
                let step = slot.connection.go_on(&mut self.buffer, traffic);
                slot.signature = self.dialler.take_signature().or(slot.signature);
                self.follow(key, step);
            }
        }
    }

    fn opened(&mut self, key: usize) -> ConnectionStep {
        let Some(slot) = self.slots.get_mut(key) else {
            return ConnectionStep::Waiting;
        };
        if let Some(transaction) = &mut slot.transaction
            && let Some(negotiated) = transaction.opened(&slot.connection, slot.signature)
        {
            self.recorder.shake_hands(transaction.due, negotiated);
        }
        self.ask(key)
    }

    /// Ends the work: the reply is complete, or there was no request. Returns the next step, if the
    /// connection has more to do.
    fn replied(&mut self, key: usize) -> Option<ConnectionStep> {
        let client = self.slots.get(key)?.client;
        let is_last = self.requests.is_empty() || self.pool.is_last_of_connection(client);
        self.judge(key);
        let slot = self.slots.get_mut(key)?;
        let keeps = !is_last && slot.connection.reply.keeps;
        if keeps && !self.is_ending && !self.pool.is_leaving(client) {
            slot.holds_client = false;
            slot.deadline = None;
            self.release(client, false);
            return Some(ConnectionStep::Waiting);
        }
        let step = self.end(key);
        self.leave(key);
        step
    }

    /// Frees a user who has the reply and need not wait for the connection's end, unless the end
    /// may bring a session.
    fn leave(&mut self, key: usize) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let client = slot.client;
        let needs_more =
            !self.pool.is_leaving(client) && self.dialler.awaits_session(&self.pool, client);
        if self.pool.has_arrivals() && !needs_more {
            slot.client = NOBODY;
            slot.holds_client = false;
            self.pool.disconnect(client);
            self.release(client, false);
        }
    }

    /// Records the outcome of a connection's transaction, if it has one.
    fn judge(&mut self, key: usize) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let Some(transaction) = slot.transaction.take() else {
            return;
        };
        self.pool.count_request(slot.client);
        self.recorder.traffic.body_bytes += slot.connection.reply.body_bytes();
        let verdict = transaction.verdict(&slot.connection, !self.requests.is_empty());
        let place = (self.dialler.address_of(slot.client), transaction.request);
        match verdict {
            TransactionVerdict::Success(timing) => {
                self.recorder.succeed(transaction.due, place, &timing);
            }
            TransactionVerdict::Failure(failure) => {
                self.recorder.fail(transaction.due, place, failure);
                self.pool.give_up(slot.client);
            }
        }
    }

    /// Handles a connection's proper end.
    fn over(&mut self, key: usize) {
        self.judge(key);
        self.remove(key, false);
    }

    /// Ends a connection that has done its work.
    fn end(&mut self, key: usize) -> Option<ConnectionStep> {
        let slot = self.slots.get_mut(key)?;
        let resets = self.plan.ending == ConnectionEnding::Reset;
        if resets && !self.dialler.awaits_session(&self.pool, slot.client) {
            slot.connection.reset(&mut self.recorder.traffic);
            self.over(key);
            return None;
        }
        let step = slot.connection.close(&mut self.recorder.traffic);
        self.set_deadline(key);
        Some(step)
    }

    fn fail(&mut self, key: usize, failure: TransactionFailure) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        if let Some(transaction) = slot.transaction.take() {
            let place = (self.dialler.address_of(slot.client), transaction.request);
            self.recorder.fail(transaction.due, place, failure);
            self.pool.give_up(slot.client);
            self.dialler.begin_anew_if_bereft(&mut self.pool, slot.client);
        }
    }

    fn remove(&mut self, key: usize, has_failed: bool) {
        let Some(slot) = self.slots.try_remove(key) else {
            return;
        };
        if slot.client != NOBODY {
            self.pool.disconnect(slot.client);
        }
        if slot.holds_client {
            self.release(slot.client, has_failed);
        }
    }

    /// Gives up connections that took too long.
    fn give_up_late(&mut self, now: Instant) {
        loop {
            let slots = &self.slots;
            let holds = |deadline: &Deadline| {
                let slot = slots.get(deadline.key);
                slot.is_some_and(|slot| {
                    slot.serial == deadline.serial && slot.deadline == Some(deadline.at)
                })
            };
            let Some(Deadline { key, .. }) = self.deadlines.take(now, holds) else {
                return;
            };
            let Some(slot) = self.slots.get(key) else {
                continue;
            };
            if slot.connection.stage == LoadStage::Closing {
                // The work is done; a server that keeps its end open is no failure.
                self.over(key);
                continue;
            }
            let failure = slot.connection.stage.timeout();
            self.fail(key, failure);
            self.remove(key, true);
        }
    }

    /// Closes kept connections, which have no further use.
    fn close_idle(&mut self) {
        let idle = self.slots.iter().filter(|(_, slot)| slot.is_idle());
        let keys: Vec<_> = idle.map(|(key, _)| key).collect();
        for key in keys {
            if let Some(step) = self.end(key) {
                self.follow(key, step);
            }
        }
    }

    fn abandon(&mut self) {
        let keys: Vec<_> = self.slots.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.fail(key, TransactionFailure::Interrupted);
            self.remove(key, true);
        }
    }

    /// Returns how long to wait for events. The schedule has a separate timer, which is finer.
    fn wait_for(&mut self, next_start: Option<Instant>) -> std::io::Result<Option<Duration>> {
        let now = Instant::now();
        if !self.unread.is_empty() {
            return Ok(Some(Duration::ZERO));
        }
        if let Some(due) = next_start {
            if due <= now {
                return Ok(Some(Duration::ZERO));
            }
            if self.armed_for != Some(due) {
                self.timer.set(due - now)?;
                self.armed_for = Some(due);
            }
        }
        let late = self.deadlines.first();
        if self.is_settling(now) {
            let until = if self.busy == 0 { Some(now) } else { late };
            return Ok(until.map(|at| at.saturating_duration_since(now)));
        }
        let end = if self.is_ending { self.abandons_at } else { Some(self.clock.end) };
        let next_second = Some(self.recorder.next_second());
        let soonest = [late, end, next_second, self.pool.next_rested()].into_iter().flatten().min();
        Ok(soonest.map(|at| at.saturating_duration_since(now)))
    }
}
