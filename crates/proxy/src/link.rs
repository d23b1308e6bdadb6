//! One connection with its sockets: moves bytes between them and its state machine.
//!
//! Owns the two sockets and the choice of when to call them; what the bytes mean is `flow`'s.

use std::io::IoSliceMut;
use std::rc::Rc;
use std::time::Instant;

use flow::actions::Action;
use flow::buffer::Pool;
use flow::connection::Flow;
use telemetry::catalogue::ServiceCounter;

use crate::dial::{Dial, Dialled};
use crate::driver::{Driver, PIECES_MAX, Received, Socket};
use crate::service::Service;

/// Bytes that one connection may move before the others have their turn: two reads of 256 KiB
/// and their writes.
const BYTES_PER_TURN: usize = 1 << 20;

/// What a connection needs of its worker.
pub(crate) struct Context<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) pool: &'a mut Pool,
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

/// A connection and its sockets.
pub(crate) struct Link {
    pub(crate) flow: Flow,
    pub(crate) service: Rc<Service>,
    pub(crate) listener: Rc<str>,
    pub(crate) dial: Dial,
    pub(crate) front: Socket,
    back: Option<Socket>,
    /// The token of the server's socket.
    back_token: u64,
    /// The tick of the one timer that counts.
    pub(crate) timer_tick: u64,
    pub(crate) is_queued: bool,
    /// It is counted among the handshakes under way.
    pub(crate) is_counted_opening: bool,
    counted_up: u64,
    counted_down: u64,
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
            counted_up: 0,
            counted_down: 0,
        }
    }

    /// Takes note of an event on one of the sockets.
    pub(crate) fn note(&mut self, event: &sys::epoll::Event, is_back: bool) {
        let socket = if is_back {
            self.back.as_mut()
        } else {
            Some(&mut self.front)
        };
        if let Some(socket) = socket {
            socket.note(event);
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
            moved += self.front_out(context);
            let acted = self.act(context);
            if self.flow.is_over() {
                return Turn::Over;
            }
            if moved == 0 && !acted {
                break;
            }
            if moved >= budget {
                self.watch_writes(context);
                self.count_bytes();
                return Turn::Again;
            }
            budget -= moved;
        }
        self.watch_writes(context);
        self.count_bytes();
        Turn::Wait
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
        let Some(mut room) = self.flow.back_room(context.pool) else {
            return 0;
        };
        let received = receive_pieces(back, &mut room);
        drop(room);
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
            Received::Last(_) | Received::End => self.flow.back_ended(context.pool),
            Received::Failed => self.flow.back_failed(context.now, context.pool),
            Received::Bytes(_) | Received::Nothing => {}
        }
        count
    }

    fn front_out(&mut self, context: &mut Context<'_>) -> usize {
        let pending = self.flow.front_pending();
        if pending.is_empty() || !self.front.is_writable() {
            return 0;
        }
        match self.front.send(pending) {
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

    fn back_out(&mut self, context: &mut Context<'_>) -> usize {
        let Some(back) = self.back.as_mut().filter(|back| back.is_writable()) else {
            return 0;
        };
        let sent = match self.flow.back_pending() {
            [[], []] => return 0,
            [piece, []] | [[], piece] => back.send(piece),
            pieces => back.send_pieces(pieces),
        };
        match sent {
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
                    self.dial.timed_out(&self.service, context.now);
                    self.dial(context);
                }
                Action::ShutdownBack => self.with_back(Socket::end),
                Action::ShutdownFront => self.front.end(),
                Action::ResetBack => self.with_back(Socket::reset_on_close),
                Action::CloseBack => self.close_back(),
                Action::Close => {
                    self.count_bytes();
                    self.close_back();
                }
            }
        }
        acted
    }

    fn with_back(&self, act: impl FnOnce(&Socket)) {
        if let Some(back) = &self.back {
            act(back);
        }
    }

    fn close_back(&mut self) {
        self.back = None;
        self.dial.closed(&self.service);
    }

    fn dial(&mut self, context: &mut Context<'_>) {
        let dialled = self.dial.start(
            &self.service,
            context.driver,
            self.back_token,
            self.flow.facts(),
        );
        match dialled {
            Dialled::Connected(socket) => {
                self.back = Some(socket);
                self.flow.dial_restarted(self.dial.started());
                self.connected(context);
            }
            Dialled::UnderWay(socket) => {
                self.back = Some(socket);
                self.flow.dial_restarted(self.dial.started());
            }
            Dialled::Exhausted(ending) => {
                self.flow.dial_failed(ending, context.now, context.pool);
            }
        }
    }

    /// The server being dialled has answered.
    fn dial_answered(&mut self, error: Option<std::io::Error>, context: &mut Context<'_>) {
        match error {
            None => self.connected(context),
            Some(error) => {
                self.back = None;
                self.dial.failed(&self.service, &error, context.now);
                self.dial(context);
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
        if let Some(back) = self.back.as_mut().filter(|back| !back.is_writable()) {
            context.driver.watch_writes(back);
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
        self.dial.count_bytes(&self.service, up, down);
    }
}

/// Fills as many pieces as there are with one call.
fn receive_pieces<'a>(
    socket: &mut Socket,
    pieces: &mut impl Iterator<Item = &'a mut [u8]>,
) -> Received {
    let first = pieces.next().unwrap_or_default();
    let Some(second) = pieces.next() else {
        return socket.receive(first);
    };
    let mut count = 0;
    let mut all = [first, second].into_iter().chain(pieces);
    let mut slices: [IoSliceMut<'a>; PIECES_MAX] = std::array::from_fn(|_| {
        let piece = all.next();
        count += usize::from(piece.is_some());
        IoSliceMut::new(piece.unwrap_or_default())
    });
    socket.receive_pieces(&mut slices[..count])
}
