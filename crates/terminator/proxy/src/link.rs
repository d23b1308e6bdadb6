//! One connection with its sockets: moves bytes between them and its state machine.
//!
//! Owns the client's socket, what stands behind, and the choice of when to call them; what the
//! bytes mean is `flow`'s.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use flow::actions::Action;
use flow::buffer::Pool;
use flow::connection::Flow;
use telemetry::catalogue::ServiceCounter;
use telemetry::outcome::Reason;

use crate::ages::{Key, Stage};
use crate::back::Back;
use crate::dial::{Dial, Dialled};
use crate::driver::{Driver, FileSent, Received, Socket};
use crate::files::{Desk, FileBack};
use crate::offload::{self, Splice};
use crate::pipes::Pipes;
use crate::service::Service;

/// Bytes that one connection may move before the others have their turn: two reads of 256 KiB
/// and their writes.
const BYTES_PER_TURN: usize = 1 << 20;

/// What a connection needs of its worker.
pub(crate) struct Context<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) pool: &'a mut Pool,
    pub(crate) pipes: &'a mut Pipes,
    pub(crate) desk: &'a Arc<Desk>,
    pub(crate) now: Instant,
}

/// What a connection wants after its turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Turn {
    /// Nothing until the next event.
    Wait,
    /// Another turn, after the others.
    Again,
    /// Nothing any more.
    Over,
}

/// Where a connection that has relayed nothing is listed, by its worker and by its service.
pub(crate) struct Listed {
    pub(crate) stage: Stage,
    pub(crate) of_worker: Key,
    pub(crate) of_service: Key,
}

/// A connection and its sockets.
pub(crate) struct Link {
    pub(crate) flow: Flow,
    pub(crate) service: Rc<Service>,
    pub(crate) listener: Rc<str>,
    pub(crate) dial: Dial,
    pub(crate) front: Socket,
    back: Option<Back>,
    /// The token of the server's socket.
    back_token: u64,
    /// The tick of the one timer that counts.
    pub(crate) timer_tick: u64,
    pub(crate) is_queued: bool,
    /// It is counted among the handshakes under way.
    pub(crate) is_counted_opening: bool,
    /// It is listed among those that have relayed nothing.
    pub(crate) listed: Option<Listed>,
    splice: Splice,
    counted_up: u64,
    counted_down: u64,
    /// Of what is not yet counted, the bytes that went past our buffers.
    passed: u64,
}

impl Link {
    pub(crate) fn new(
        flow: Flow,
        service: Rc<Service>,
        listener: Rc<str>,
        front: Socket,
        back_token: u64,
    ) -> Self {
        Self {
            flow,
            service,
            listener,
            dial: Dial::default(),
            front,
            back: None,
            back_token,
            timer_tick: 0,
            is_queued: false,
            is_counted_opening: true,
            listed: None,
            splice: Splice::default(),
            counted_up: 0,
            counted_down: 0,
            passed: 0,
        }
    }

    /// Takes note of an event on one of the sockets.
    pub(crate) fn note(&mut self, event: &sys::epoll::Event, is_back: bool) {
        match &mut self.back {
            Some(back) if is_back => back.note(event),
            None if is_back => {}
            _ => self.front.note(event),
        }
    }

    /// What stands behind, if it is files.
    pub(crate) fn files(&mut self) -> Option<&mut FileBack> {
        match &mut self.back {
            Some(Back::Files(files)) => Some(files),
            _ => None,
        }
    }

    /// Does all that can be done now.
    pub(crate) fn pump(&mut self, context: &mut Context<'_>) -> Turn {
        self.take_failures(context);
        let mut budget = BYTES_PER_TURN;
        loop {
            let mut moved = self.front_in(context);
            moved += self.back_out(context);
            moved += self.back_in(context);
            moved += self.pass(context);
            moved += self.front_out(context);
            let acted = self.act(context) | self.dial_again(context);
            if self.flow.is_over() {
                return Turn::Over;
            }
            if moved == 0 && !acted {
                break;
            }
            if moved >= budget {
                self.rest(context);
                return Turn::Again;
            }
            budget -= moved;
        }
        self.rest(context);
        Turn::Wait
    }

    /// Takes note of what is awaited until the next turn.
    fn rest(&mut self, context: &Context<'_>) {
        self.watch_writes(context);
        self.count_bytes();
        let has_more = self.flow.is_amid_record();
        if let Some(files) = self.files() {
            files.note_request(has_more, context.now);
        }
    }

    /// When it wants to be looked at again, if nothing happens before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let of_back = self.back.as_ref().and_then(Back::deadline);
        let others = of_back.into_iter().chain(self.dial.retries_at());
        self.flow.deadline().into_iter().chain(others).min()
    }

    /// How far it has come, as long as it has relayed nothing.
    pub(crate) fn stage(&self) -> Option<Stage> {
        let facts = self.flow.facts();
        match self.flow.is_opening() {
            true if self.flow.is_answered() => Some(Stage::Answered),
            true => Some(Stage::Silent),
            false => (facts.bytes_up == 0 && facts.bytes_down == 0).then_some(Stage::Unused),
        }
    }

    /// Takes note that the deadline has passed.
    pub(crate) fn time_out(&mut self, now: Instant, pool: &mut Pool) {
        if let Some(back) = &mut self.back {
            back.time_out(now);
        }
        self.flow.handle_timeout(now, pool);
    }

    /// A client that has reset its connection costs no more cryptography and no dial.
    fn take_failures(&mut self, context: &mut Context<'_>) {
        if self.front.has_failed() {
            self.front.take_error();
            self.flow.front_failed(context.pool);
        }
        let Some(back) = self.back.as_mut().filter(|_| !self.flow.is_over()) else {
            return;
        };
        if self.dial.is_under_way() {
            if back.has_failed() || back.is_writable() {
                let error = if back.has_failed() {
                    back.take_error()
                } else {
                    None
                };
                self.dial_answered(error, context);
            }
        } else if back.has_failed() {
            back.break_off();
            self.flow.back_refused(context.pool);
        }
    }

    fn front_in(&mut self, context: &mut Context<'_>) -> usize {
        if !self.front.is_readable() {
            return 0;
        }
        let Some(room) = self.flow.front_room(context.pool) else {
            return 0;
        };
        let received = self.front.receive(room);
        let count = match received {
            Received::Bytes(count) | Received::Last(count) => {
                self.flow.front_received(count, context.now, context.pool);
                count
            }
            Received::Nothing | Received::End | Received::Failed => {
                self.flow.front_received_nothing(context.pool);
                0
            }
        };
        match received {
            Received::Last(_) | Received::End => self.flow.front_ended(context.pool),
            Received::Failed => self.flow.front_failed(context.pool),
            Received::Bytes(_) | Received::Nothing => {}
        }
        count
    }

    fn back_in(&mut self, context: &mut Context<'_>) -> usize {
        let Some(back) = self.back.as_mut().filter(|back| back.is_readable()) else {
            return 0;
        };
        let (is_passing, passing_from) = match back {
            Back::Server(_) => {
                let can_pass = self.flow.can_pass();
                let has_pipe = self.splice.is_holding();
                (
                    has_pipe || can_pass && self.splice.is_ready(context.pipes),
                    None,
                )
            }
            Back::Files(files) => {
                let bytes = files.stretch().map(|stretch| stretch.bytes);
                bytes
                    .into_iter()
                    .for_each(|bytes| self.flow.expect_bytes(bytes));
                let from = self.flow.passes_from();
                (
                    bytes.zip(from).is_some_and(|(bytes, from)| bytes >= from),
                    from,
                )
            }
        };
        if is_passing {
            return 0;
        }
        let Some(mut room) = self.flow.back_room(context.pool) else {
            return 0;
        };
        let received = back.receive(&mut room, passing_from);
        drop(room);
        let is_deaf = back.is_deaf_at_end();
        let fault = back.fault();
        let failure = fault.unwrap_or(Reason::FileFailed);
        let cost = back.take_cost();
        let is_server = matches!(back, Back::Server(_));
        let count = match received {
            Received::Bytes(count) | Received::Last(count) => {
                self.flow.back_received(count, context.now, context.pool);
                count
            }
            Received::Nothing | Received::End | Received::Failed => {
                self.flow.back_received_nothing(context.pool);
                0
            }
        };
        match received {
            Received::Last(_) | Received::End => {
                self.flow.back_ends_for(fault);
                self.flow.back_ended(context.pool);
                if is_deaf {
                    self.flow.back_refused(context.pool);
                }
            }
            Received::Failed if is_server => self.flow.back_failed(context.now, context.pool),
            // What was promised of a file cannot be had: the stream must not look finished.
            Received::Failed => self.flow.cut(failure, context.pool),
            Received::Bytes(_) | Received::Nothing => {}
        }
        count + cost
    }

    fn front_out(&mut self, context: &mut Context<'_>) -> usize {
        if !self.front.is_writable() {
            return 0;
        }
        let pending = self.flow.front_pending();
        if pending.is_empty() {
            return self.record_out(context);
        }
        // A response's head shares its record with the file behind it.
        let has_more =
            self.flow.is_offloaded() && self.back.as_mut().is_some_and(Back::has_cached_stretch);
        let sent = match has_more {
            true => self.front.send_more(pending),
            false => self.front.send(pending),
        };
        match sent {
            Some(0) => 0,
            Some(count) => {
                self.flow.front_sent(count, context.now, context.pool);
                count
            }
            None => {
                self.flow.front_failed(context.pool);
                0
            }
        }
    }

    /// Sends what the kernel has to be told apart from data.
    fn record_out(&mut self, context: &mut Context<'_>) -> usize {
        let Some(record) = self.flow.front_record() else {
            return 0;
        };
        let count = record.content().len();
        match self.front.send_record(record.kind(), record.content()) {
            Some(true) => {
                self.flow.front_record_sent(context.now, context.pool);
                count
            }
            Some(false) => 0,
            None => {
                self.flow.front_failed(context.pool);
                0
            }
        }
    }

    /// Moves bytes from what stands behind to the client past our buffers, where the kernel seals.
    fn pass(&mut self, context: &mut Context<'_>) -> usize {
        if !self.flow.can_pass() {
            return 0;
        }
        match &self.back {
            Some(Back::Server(_)) => self.pass_spliced(context),
            Some(Back::Files(_)) => self.pass_file(context),
            None => 0,
        }
    }

    fn pass_file(&mut self, context: &mut Context<'_>) -> usize {
        let Some(Back::Files(files)) = &mut self.back else {
            return 0;
        };
        if files.stretch().is_none() || !self.front.is_writable() {
            return 0;
        }
        let count = files.cached_bytes();
        let Some(stretch) = files.stretch().filter(|_| count > 0) else {
            // It waits, or there is another way to go on.
            return usize::from(!files.is_waiting());
        };
        let sent = self.front.send_file(stretch.file, stretch.offset, count);
        match sent {
            FileSent::Bytes(0) => return 0,
            FileSent::Bytes(count) => {
                files.stretch_sent(count);
                self.passed += count as u64;
                self.service
                    .counters
                    .add(ServiceCounter::SentBySendfile, count as u64);
                self.flow.front_passed(count, context.now, context.pool);
                return count;
            }
            FileSent::NoFile => files.stretch_failed(),
            FileSent::Unfit => files.stretch_unfit(),
            FileSent::Failed => self.flow.front_failed(context.pool),
        }
        // There is another way to go on.
        1
    }

    fn pass_spliced(&mut self, context: &mut Context<'_>) -> usize {
        let Some(Back::Server(back)) = &mut self.back else {
            return 0;
        };
        let mut received = Received::Nothing;
        if back.is_readable() {
            received = self.splice.receive(back);
        }
        let mut moved = match received {
            Received::Bytes(count) | Received::Last(count) => count,
            Received::Nothing | Received::End | Received::Failed => 0,
        };
        if self.splice.is_holding() && self.front.is_writable() {
            match self.splice.send(&mut self.front) {
                Some(count) => {
                    moved += count;
                    self.passed += count as u64;
                    self.service
                        .counters
                        .add(ServiceCounter::SentBySplice, count as u64);
                    self.flow.front_passed(count, context.now, context.pool);
                }
                None => self.flow.front_failed(context.pool),
            }
        }
        if !self.splice.is_holding() && !back.is_readable() {
            self.splice.let_go(context.pipes);
        }
        match received {
            Received::Last(_) | Received::End => self.flow.back_ended(context.pool),
            Received::Failed => self.flow.back_failed(context.now, context.pool),
            Received::Bytes(_) | Received::Nothing => {}
        }
        moved
    }

    fn back_out(&mut self, context: &mut Context<'_>) -> usize {
        let Some(back) = self.back.as_mut().filter(|back| back.is_writable()) else {
            return 0;
        };
        let pending = self.flow.back_pending();
        if pending == [&[], &[]] {
            return 0;
        }
        match back.send(pending) {
            Some(0) => 0,
            Some(count) => {
                self.flow.back_sent(count, context.now, context.pool);
                count
            }
            None => {
                back.break_off();
                self.flow.back_refused(context.pool);
                0
            }
        }
    }

    /// Does what the state machine asks for; says whether there was anything.
    fn act(&mut self, context: &mut Context<'_>) -> bool {
        let mut acted = false;
        while let Some(action) = self.flow.poll_action() {
            acted = true;
            match action {
                Action::Dial => self.dial(context),
                Action::Redial => {
                    self.back = None;
                    match self.dial.timed_out(&self.service, context.now) {
                        None => self.dial(context),
                        Some(busy) => self.flow.dial_failed(busy, context.now, context.pool),
                    }
                }
                Action::Offload => self.offload(context),
                Action::Rekey => {
                    let counters = &self.service.counters;
                    offload::rekey(&mut self.flow, &self.front, counters, context.pool);
                }
                Action::ShutdownBack => self.with_back(Back::end),
                Action::ShutdownFront => self.front.end(),
                Action::ResetBack => self.with_back(|back| back.reset_on_close()),
                Action::CloseBack => self.close_back(context),
                Action::Close => {
                    self.count_bytes();
                    self.close_back(context);
                }
            }
        }
        acted
    }

    fn with_back(&mut self, act: impl FnOnce(&mut Back)) {
        if let Some(back) = &mut self.back {
            act(back);
        }
    }

    fn offload(&mut self, context: &mut Context<'_>) {
        // What was sent before went another way.
        self.count_bytes();
        let ability = self.service.plan.offload.as_ref();
        let counters = &self.service.counters;
        offload::offload(&mut self.flow, &self.front, ability, counters, context.pool);
    }

    fn close_back(&mut self, context: &mut Context<'_>) {
        self.splice.let_go(context.pipes);
        self.back = None;
        self.dial.closed(&self.service);
    }

    /// Files need no dial.
    fn dial(&mut self, context: &mut Context<'_>) {
        match &self.service.plan.files {
            Some(files) => {
                let counters = &self.service.counters;
                let files = FileBack::new(files, counters, context.desk, self.back_token);
                self.back = Some(Back::Files(Box::new(files)));
                self.flow.dial_connected(Instant::now(), context.pool);
            }
            None => self.dial_server(context),
        }
    }

    fn dial_server(&mut self, context: &mut Context<'_>) {
        let dialled = self.dial.start(
            &self.service,
            context.driver,
            self.back_token,
            self.flow.facts(),
        );
        match dialled {
            Dialled::Connected(socket) => {
                self.back = Some(Back::Server(socket));
                self.flow.dial_restarted(self.dial.started());
                self.connected(context);
            }
            Dialled::UnderWay(socket) => {
                self.back = Some(Back::Server(socket));
                self.flow.dial_restarted(self.dial.started());
            }
            Dialled::Later => {}
            Dialled::Exhausted(ending) => {
                self.flow.dial_failed(ending, context.now, context.pool);
            }
        }
    }

    /// Dials once more if the servers were only busy, and it is time; says whether it did.
    fn dial_again(&mut self, context: &mut Context<'_>) -> bool {
        let is_due = self.dial.retries_at().is_some_and(|at| at <= context.now);
        if is_due {
            self.dial_server(context);
        }
        is_due
    }

    /// The server being dialled has answered.
    fn dial_answered(&mut self, error: Option<std::io::Error>, context: &mut Context<'_>) {
        match error {
            None => self.connected(context),
            Some(error) => {
                self.back = None;
                match self.dial.failed(&self.service, &error, context.now) {
                    Ok(()) => self.dial(context),
                    Err(ending) => self.flow.dial_failed(ending, context.now, context.pool),
                }
            }
        }
    }

    fn connected(&mut self, context: &mut Context<'_>) {
        // The turn's own instant may lie before the dial began.
        let now = Instant::now();
        self.dial.succeeded(&self.service, now);
        self.flow.dial_connected(now, context.pool);
    }

    fn watch_writes(&mut self, context: &Context<'_>) {
        if !self.front.is_writable() {
            context.driver.watch_writes(&mut self.front);
        }
        if let Some(back) = &mut self.back {
            back.watch_writes(context.driver);
        }
    }

    /// Tells the counters what has been relayed since they were last told.
    fn count_bytes(&mut self) {
        let facts = self.flow.facts();
        let up = facts.bytes_up - self.counted_up;
        let down = facts.bytes_down - self.counted_down;
        if up == 0 && down == 0 {
            return;
        }
        self.counted_up = facts.bytes_up;
        self.counted_down = facts.bytes_down;
        self.service.counters.add(ServiceCounter::BytesUp, up);
        self.service.counters.add(ServiceCounter::BytesDown, down);
        let through_us = down - std::mem::take(&mut self.passed);
        let path = match facts.offloaded {
            true => ServiceCounter::SentToKernel,
            false => ServiceCounter::SentByUserSpace,
        };
        self.service.counters.add(path, through_us);
        self.dial.count_bytes(&self.service, up, down);
    }
}

#[cfg(test)]
mod tests;
