//! Moves bytes between a connection's sockets and its state machine.
//!
//! Handles the client's socket and the back, and when to call them. `flow` interprets the bytes.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::options::Balance;
use flow::buffer::Pool;
use flow::connection::Flow;
use flow::events::{Action, Event, ReceiveResult};
use telemetry::catalogue::ServiceCounter;
use telemetry::outcome::Reason;

use crate::back::Back;
use crate::descriptors::Pipes;
use crate::dial::Dial;
use crate::displaceable::{DisplaceableKey, DisplaceableStage};
use crate::driver::{Driver, FileSent, Socket};
use crate::files::{FileBack, FileContext};
use crate::ktls_send::Splice;
use crate::places::Calls;
use crate::schedule::{Class, HANDSHAKE_MAX};
use crate::service::{Service, SharedServices};
use crate::slow_client::SlowClient;
use crate::sources::{SourcePlace, WorkerSources};
use crate::{back, ktls_send};

mod steps;

/// Bytes, received and sent, that a connection may move before the others have their turn: 128 KiB.
/// A connection that moves as much is bulk from then on, and may move two reads of 256 KiB and
/// their writes. At most one step more is moved, so no debt is kept.
pub(crate) const BYTES_PER_TURN: [usize; 2] = [128 << 10, 1 << 20];

pub(crate) struct Context<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) pool: &'a mut Pool,
    pub(crate) pipes: &'a mut Pipes,
    pub(crate) file_context: &'a Arc<FileContext>,
    pub(crate) sources: &'a Rc<WorkerSources>,
    pub(crate) calls: &'a Calls,
    pub(crate) now: Instant,
    /// Whether the next answer is the last.
    pub(crate) is_draining: bool,
    /// Bytes that may move at once, of those that we encrypt and that the kernel encrypts.
    pub(crate) bulk_bytes: [usize; 2],
    /// Bytes moved in this turn.
    pub(crate) moved: usize,
}

/// Delay until a peer that may still take what the kernel holds for it is checked again, after it
/// should have ended as idle.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NextTurn {
    Wait,
    /// The connection needs a further turn, after the others.
    Again,
    Over,
}

/// Entries of a connection that has relayed nothing, in its worker's and its service's lists.
pub(crate) struct DisplaceableEntry {
    pub(crate) stage: DisplaceableStage,
    pub(crate) of_worker: DisplaceableKey,
    pub(crate) of_service: DisplaceableKey,
}

pub(crate) struct Connection {
    pub(crate) flow: Flow,
    pub(crate) service: Rc<Service>,
    /// Services among which the hello chooses; until then `service` stands for them all.
    pub(crate) shared: Option<Rc<SharedServices>>,
    /// Whether the hello has come and a service can be chosen.
    pub(crate) is_to_be_routed: bool,
    pub(crate) listener: Rc<str>,
    pub(crate) source: Option<SourcePlace>,
    pub(crate) dial: Dial,
    pub(crate) front: Socket,
    back: Option<Back>,
    back_token: u64,
    /// Tick of the only timer that counts.
    pub(crate) timer_tick: u64,
    pub(crate) is_queued: bool,
    /// Time at which it began to linger (`lingering`); a connection lingers at most once.
    pub(crate) lingers_since: Option<Instant>,
    is_bulk: bool,
    /// Whether the connection counts among the handshakes in progress.
    pub(crate) is_counted_handshaking: bool,
    /// Entries in the lists of connections that have relayed nothing.
    pub(crate) listed: Option<DisplaceableEntry>,
    splice: Splice,
    slow_client: SlowClient,
    /// Time at which the kernel begins to probe the server.
    keep_alive_at: Option<Instant>,
    counted_up: u64,
    counted_down: u64,
    /// Bytes that bypassed our buffers and are not yet counted.
    passed: u64,
}

impl Connection {
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
            shared: None,
            is_to_be_routed: false,
            listener,
            source: None,
            dial: Dial::default(),
            front,
            back: None,
            back_token,
            timer_tick: 0,
            is_queued: false,
            lingers_since: None,
            is_bulk: false,
            is_counted_handshaking: true,
            listed: None,
            splice: Splice::default(),
            slow_client: SlowClient::default(),
            keep_alive_at: None,
            counted_up: 0,
            counted_down: 0,
            passed: 0,
        }
    }

    /// Notes an event on one of the sockets.
    pub(crate) fn note(&mut self, event: &sys::epoll::Event, is_back: bool) {
        match &mut self.back {
            Some(back) if is_back => back.note(event),
            None if is_back => {}
            _ => self.front.note(event),
        }
    }

    /// Returns the back, if it is files.
    pub(crate) fn files(&mut self) -> Option<&mut FileBack> {
        match &mut self.back {
            Some(Back::Files(files)) => Some(files),
            _ => None,
        }
    }

    /// Does everything that is possible now.
    pub(crate) fn pump(&mut self, context: &mut Context<'_>) -> NextTurn {
        self.take_failures(context);
        let budget = BYTES_PER_TURN[usize::from(self.is_bulk)];
        loop {
            let mut moved = self.front_in(context);
            moved += self.back_out(context);
            moved += self.back_in(context);
            moved += self.front_out(context);
            let acted = self.dial_again(context) | self.race(context) | self.act(context);
            if self.flow.is_over() {
                return NextTurn::Over;
            }
            context.moved += moved;
            let is_done = moved == 0 && !acted;
            if is_done || context.moved >= budget.min(self.bulk_bytes(context)) {
                self.is_bulk = context.moved >= BYTES_PER_TURN[0];
                self.end_turn(context);
                return if is_done { NextTurn::Wait } else { NextTurn::Again };
            }
        }
    }

    /// Returns how many bytes of this connection may move at once.
    fn bulk_bytes(&self, context: &Context<'_>) -> usize {
        context.bulk_bytes[usize::from(self.flow.is_offloaded())]
    }

    /// Returns the class in which the connection is scheduled.
    pub(crate) fn class(&self) -> Class {
        if !self.flow.is_answered() {
            Class::Newcomer
        } else if self.flow.is_handshaking() {
            Class::Answered
        } else if self.is_bulk {
            Class::Bulk
        } else {
            Class::Small
        }
    }

    /// Arranges the events and timers to wait for until the next turn.
    fn end_turn(&mut self, context: &mut Context<'_>) {
        self.watch_writes(context);
        if !self.front.is_writable() {
            self.flow.note_stalled(context.pool);
        }
        self.count_bytes();
        let has_more = self.flow.is_amid_record();
        if let Some(files) = self.files() {
            files.note_request(has_more, context.now);
        }
        self.watch_client(context.now);
    }

    /// Returns when the connection needs a turn, if nothing happens before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let of_back = self.back.as_ref().and_then(Back::deadline);
        let (of_dial, of_client) = (self.dial.retries_at(), self.slow_client.deadline());
        let of_server = self.keep_alive_at;
        let of_race = self.dial.race_due(&self.service);
        let of_flow = self.flow.deadline();
        let all = [of_flow, of_back, of_dial, of_race, of_client, of_server];
        all.into_iter().flatten().min()
    }

    /// Reports whether only the end of a client that answers soon is left to come, and the
    /// connection takes up nothing that others wait for or are judged by.
    pub(crate) fn may_linger(&self) -> bool {
        let plan = &self.service.plan;
        let is_counted = self.source.is_some()
            || plan.is_limited
            || plan.pool.balance == Balance::LeastConnections;
        let is_quick = || {
            let handshake = self.flow.facts().handshake_time();
            handshake.is_some_and(|time| time <= HANDSHAKE_MAX)
        };
        self.lingers_since.is_none()
            && self.flow.awaits_clients_end()
            && !self.flow.is_amid_record()
            && !is_counted
            && is_quick()
    }

    /// Returns the stage of a connection that has relayed nothing.
    pub(crate) fn stage(&self) -> Option<DisplaceableStage> {
        if !self.flow.is_answered() {
            Some(DisplaceableStage::Silent)
        } else if self.flow.is_handshaking() {
            Some(DisplaceableStage::Answered)
        } else {
            self.flow.is_unused().then_some(DisplaceableStage::Unused)
        }
    }

    /// Handles that the deadline may have passed.
    pub(crate) fn time_out(&mut self, now: Instant, pool: &mut Pool) {
        self.keep_alive(now);
        if let Some(back) = &mut self.back {
            back.time_out(now);
        }
        if self.is_too_slow(now) {
            // Without a reset the kernel would go on offering what it holds.
            self.front.reset_on_close();
            let event = Event::Stopped(Reason::ClientTooSlow);
            return self.flow.handle(event, now, pool);
        }
        if self.flow.is_idle(now) {
            match self.takes() {
                Some(true) => self.flow.extend_idle(now, None),
                Some(false) => {}
                None => self.flow.extend_idle(now, Some(LOOK_AGAIN_AFTER)),
            }
        }
        let files = self.files();
        let is_answering = files.is_some_and(|files| files.is_readable() || files.is_waiting());
        self.flow.note_answering(is_answering || self.splice.is_holding());
        self.flow.handle(Event::Timeout, now, pool);
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        self.flow.handle(event, context.now, context.pool);
    }

    fn front_in(&mut self, context: &mut Context<'_>) -> usize {
        if !self.front.is_readable() {
            return 0;
        }
        let Some(room) = self.flow.front_room(context.pool) else {
            return 0;
        };
        let received = self.front.receive(room);
        self.handle(Event::FrontReceived(received), context);
        received.bytes()
    }

    /// Moves bytes from the back to the client: through our buffers, or past them where the kernel
    /// encrypts. The choice between the two is made only here.
    fn back_in(&mut self, context: &mut Context<'_>) -> usize {
        match &mut self.back {
            Some(Back::Server(_)) => self.server_in(context),
            Some(Back::Files(_)) => self.files_in(context),
            None => 0,
        }
    }

    fn server_in(&mut self, context: &mut Context<'_>) -> usize {
        let Some(Back::Server(server)) = &mut self.back else {
            return 0;
        };
        let can_pass = self.flow.can_pass();
        let may_splice = || can_pass && server.can_fill();
        if self.splice.is_holding() || may_splice() && self.splice.is_ready(context.pipes) {
            return if can_pass { self.splice(context) } else { 0 };
        }
        if !server.is_readable() {
            return 0;
        }
        let Some(mut room) = self.flow.back_room(context.pool) else {
            return 0;
        };
        let received = back::receive_pieces(server, &mut room);
        drop(room);
        self.handle(Event::BackReceived(received), context);
        if self.flow.take_action(Action::NoteSession) {
            self.note_session();
        }
        received.bytes()
    }

    fn note_session(&self) {
        self.dial.learn_session(&self.service, self.flow.facts());
    }

    fn files_in(&mut self, context: &mut Context<'_>) -> usize {
        let Some(Back::Files(files)) = &mut self.back else {
            return 0;
        };
        if !files.is_readable() {
            return 0;
        }
        let next_bytes = files.range().map(|range| range.bytes);
        if let Some(bytes) = next_bytes {
            let expected = Event::BackExpected(bytes);
            self.flow.handle(expected, context.now, context.pool);
        }
        let passes_from = self.flow.passes_from();
        let mut both = next_bytes.into_iter().zip(passes_from);
        if both.any(|(bytes, from)| bytes >= from) {
            let can_pass = self.flow.can_pass();
            return if can_pass { self.send_file(context) } else { 0 };
        }
        let Some(mut room) = self.flow.back_room(context.pool) else {
            return 0;
        };
        let received = files.receive(&mut room, passes_from);
        drop(room);
        let cost = files.take_cost();
        let fault = files.fault();
        let takes_requests = !files.is_asked();
        match received {
            // The promised part of a file is not available: the stream must not look finished.
            ReceiveResult::Failed => {
                let reason = fault.unwrap_or(Reason::FileFailed);
                self.handle(Event::Stopped(reason), context);
            }
            ReceiveResult::Last(_) | ReceiveResult::End => {
                let reason = fault.unwrap_or(Reason::FilesFinished);
                self.handle(Event::BackEndReason(reason), context);
                self.handle(Event::BackReceived(received), context);
                // After its own end the back reads nothing, though the client may still send.
                if takes_requests {
                    self.handle(Event::BackRefused, context);
                }
            }
            ReceiveResult::Bytes(_) | ReceiveResult::Nothing => {
                self.handle(Event::BackReceived(received), context);
            }
        }
        received.bytes() + cost
    }

    fn front_out(&mut self, context: &mut Context<'_>) -> usize {
        if !self.front.is_writable() {
            return 0;
        }
        let pending = self.flow.front_pending();
        if pending.is_empty() {
            return self.record_out(context);
        }
        // A head shares its record with the file behind it, and close_notify its packet with FIN.
        let has_more = self.flow.is_last()
            || self.flow.is_offloaded() && self.back.as_mut().is_some_and(Back::has_cached_range);
        let sent = if has_more { self.front.send_more(pending) } else { self.front.send(pending) };
        self.front_sent(sent, Event::FrontSent, context)
    }

    /// Handles that bytes were sent to the client, or that its connection is broken.
    fn front_sent(
        &mut self,
        sent: Option<usize>,
        event: fn(usize) -> Event,
        context: &mut Context<'_>,
    ) -> usize {
        match sent {
            Some(0) => {}
            Some(count) => self.handle(event(count), context),
            None => self.handle(Event::FrontFailed, context),
        }
        sent.unwrap_or(0)
    }

    /// Sends a record that carries no data; the kernel encrypts it.
    fn record_out(&mut self, context: &mut Context<'_>) -> usize {
        let Some(record) = self.flow.front_record() else {
            return 0;
        };
        let count = record.content().len();
        let is_sent = self.front.send_record(record.kind(), record.content());
        let sent = is_sent.map(|is_sent| if is_sent { count } else { 0 });
        self.front_sent(sent, |_| Event::FrontRecordSent, context)
    }

    fn send_file(&mut self, context: &mut Context<'_>) -> usize {
        let bulk_bytes = self.bulk_bytes(context);
        let Some(Back::Files(files)) = &mut self.back else {
            return 0;
        };
        if !self.front.is_writable() {
            return 0;
        }
        let count = files.cached_bytes().min(bulk_bytes);
        let Some(range) = files.range().filter(|_| count > 0) else {
            // A thread is asked, or another way of sending is left.
            return usize::from(!files.is_waiting());
        };
        match self.front.send_file(range.file, range.offset, count) {
            FileSent::Bytes(0) => return 0,
            FileSent::Bytes(count) => {
                files.range_sent(count);
                self.count_passed(count, ServiceCounter::SentBySendfile);
                self.handle(Event::FrontPassed(count), context);
                return count;
            }
            FileSent::NoFile => files.range_failed(),
            FileSent::Unfit => files.range_unfit(),
            FileSent::Failed => self.handle(Event::FrontFailed, context),
        }
        // The file is sent in a different way.
        1
    }

    fn splice(&mut self, context: &mut Context<'_>) -> usize {
        let Some(Back::Server(server)) = &mut self.back else {
            return 0;
        };
        let received =
            if server.can_fill() { self.splice.receive(server) } else { ReceiveResult::Nothing };
        let is_readable = server.can_fill();
        let mut moved = received.bytes();
        if self.splice.is_holding() && self.front.is_writable() {
            let sent = self.splice.send(&mut self.front);
            self.count_passed(sent.unwrap_or(0), ServiceCounter::SentBySplice);
            moved += self.front_sent(sent, Event::FrontPassed, context);
        }
        if !self.splice.is_holding() && !is_readable {
            self.splice.release(context.pipes);
        }
        // The bytes themselves have not come into our buffers.
        let end = match received {
            ReceiveResult::Last(_) => ReceiveResult::End,
            ReceiveResult::Bytes(_) => ReceiveResult::Nothing,
            other => other,
        };
        self.handle(Event::BackReceived(end), context);
        if moved == 0 && !is_readable && !self.splice.is_holding() {
            // Bytes behind a mark of urgent data come through our buffers.
            return self.server_in(context);
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
        let sent = back.send(pending);
        if let Back::Files(files) = back
            && context.is_draining
        {
            files.finish_if_asked();
        }
        match sent {
            Some(0) => {}
            Some(count) => self.handle(Event::BackSent(count), context),
            None => {
                back.break_off();
                self.handle(Event::BackRefused, context);
            }
        }
        sent.unwrap_or(0)
    }

    /// Performs the actions that the state machine asks for; returns whether it asked for any.
    fn act(&mut self, context: &mut Context<'_>) -> bool {
        let mut acted = false;
        while let Some(action) = self.flow.poll_action() {
            acted = true;
            match action {
                Action::Admit => self.admit(context),
                Action::Route => self.is_to_be_routed = true,
                Action::FetchSession => self.fetch_session(context),
                Action::Dial if self.dial.is_under_way() => {}
                Action::Dial => self.dial(context),
                Action::Redial => {
                    let failed = self.give_server_up(context);
                    match failed {
                        None => self.dial(context),
                        Some(ending) => self.handle(Event::DialFailed(ending), context),
                    }
                }
                Action::DialNext => {
                    self.close_back(context);
                    if let Some(source) = &self.source {
                        source.count_again(context.now);
                    }
                    self.dial(context);
                }
                Action::Acknowledge => self.front.acknowledge(),
                Action::NoteBackReady => self.dial.succeeded(&self.service, context.now),
                Action::NoteSession => self.note_session(),
                Action::Offload => {
                    // Bytes sent before went another way.
                    self.count_bytes();
                    let is_taken = ktls_send::offload(&self.flow, &self.front, &self.service);
                    self.handle(Event::KernelAnswered(is_taken), context);
                }
                Action::Rekey => {
                    let is_taken = ktls_send::rekey(&self.flow, &self.front, &self.service);
                    self.handle(Event::KernelAnswered(is_taken), context);
                }
                Action::ShutdownBack => self.with_back(Back::end),
                Action::ShutdownFront => self.front.end(),
                Action::ResetBack => self.with_back(|back| back.reset_on_close()),
                Action::CloseBack => self.close_back(context),
                Action::ResetFront => self.front.reset_on_close(),
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

    fn close_back(&mut self, context: &mut Context<'_>) {
        self.splice.release(context.pipes);
        self.back = None;
        self.keep_alive_at = None;
        self.dial.closed(&self.service);
    }

    fn watch_writes(&mut self, context: &Context<'_>) {
        if !self.front.is_writable() {
            context.driver.watch_writes(&mut self.front);
        }
        if let Some(back) = &mut self.back {
            back.watch_writes(context.driver);
        }
    }
}
