//! One connection, from accept to close: the state machine that owns no socket and reads no clock.
//!
//! It is told what came in (`handle_*`, `*_received`, `*_sent`, `*_ended`, `*_failed`), is asked
//! what it wants (`*_room`, `*_pending`, `poll_action`, `deadline`), and gives the same answers
//! however the bytes were cut. Where bytes come from and go to is the caller's.

use std::rc::Rc;
use std::time::Instant;

use telemetry::outcome::{EarlyData, HandshakeKind, Reason};
use tls::handshake::Established;
use tls::traffic::{RecordSealer, Traffic};
use wire::alert;

use crate::actions::{Action, Actions};
use crate::announce;
use crate::buffer::{Buffer, Pool};
use crate::facts::{Ending, Facts};
use crate::growth::PAUSE;
use crate::offload::Offloading;
use crate::opening::{self, Opening};
use crate::options::Settings;
use crate::relay::{Down, OpenFault, StreamEnd, Up};
use crate::stage::{Postponed, Stage, first_end};

mod offload;

/// How many bytes a client may still send that has been sent an alert.
const PARTING_BYTES_MAX: usize = 256 << 10;

/// A connection.
pub struct Flow {
    settings: Rc<Settings>,
    stage: Stage,
    /// Until the handshake is over. With early data the next stages begin before that.
    opening: Option<Opening>,
    postponed: Option<Postponed>,
    traffic: Option<Box<Traffic>>,
    up: Up,
    down: Down,
    offloading: Offloading,
    /// What the server gets before the client's first byte.
    preamble: Vec<u8>,
    facts: Facts,
    ending: Option<Ending>,
    actions: Actions,
    /// The client's TCP stream has ended: nothing more will come, and nobody need be waited for.
    is_front_ended: bool,
    last_byte: Instant,
}

impl Flow {
    /// A connection that has just been accepted.
    pub fn new(settings: Rc<Settings>, expects_proxy_header: bool, facts: Facts) -> Self {
        let last_byte = facts.accepted;
        Self {
            settings,
            stage: Stage::Opening,
            opening: Some(Opening::new(expects_proxy_header)),
            postponed: None,
            traffic: None,
            up: Up::default(),
            down: Down::default(),
            offloading: Offloading::default(),
            preamble: Vec::new(),
            facts,
            ending: None,
            actions: Actions::default(),
            is_front_ended: false,
            last_byte,
        }
    }

    /// What is known so far.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// How it ended; `None` while it has not.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Whether the handshake is not yet over.
    pub fn is_opening(&self) -> bool {
        self.opening.is_some()
    }

    /// Whether the client's hello was answered.
    pub fn is_answered(&self) -> bool {
        let opening = self.opening.as_ref();
        opening.is_none_or(|opening| matches!(opening, Opening::Handshake(_)))
    }

    /// Whether nothing is left but to close.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// The next thing to be done, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.take()
    }

    /// When [`Flow::handle_timeout`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let timeouts = &self.settings.timeouts;
        let of_stage = self
            .stage
            .deadline(timeouts, self.last_byte, self.down.is_ended);
        of_stage.into_iter().chain(self.handshake_deadline()).min()
    }

    fn handshake_deadline(&self) -> Option<Instant> {
        let limit = self.settings.timeouts.handshake;
        self.opening.as_ref().map(|_| self.facts.accepted + limit)
    }

    /// Takes note that the deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant, pool: &mut Pool) {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        if self.handshake_deadline().is_some_and(|end| end <= now) {
            return self.stop(Ending::new(Reason::HandshakeTimeout), pool);
        }
        match self.stage {
            Stage::Dialling { .. } => {
                self.stage = Stage::Dialling { since: now };
                self.actions.add(Action::Redial);
            }
            // No close_notify: nobody knows whether the server had said all that it had to say.
            Stage::Relaying => self.part(Ending::new(Reason::IdleTimeout), now, pool),
            Stage::Parting { .. } => self.finish(pool),
            Stage::Opening | Stage::Over => {}
        }
    }

    /// Ends the connection for a reason of the host's: a drain deadline, a limit.
    pub fn cut(&mut self, reason: Reason, pool: &mut Pool) {
        if !self.is_over() {
            self.stop(Ending::new(reason), pool);
        }
    }

    // The client's side.

    /// Where to receive from the client; `None` = not now.
    pub fn front_room(&mut self, pool: &mut Pool) -> Option<&mut [u8]> {
        if self.opening.is_some() {
            return Some(self.up.opening_room(pool));
        }
        match &self.stage {
            Stage::Dialling { .. } | Stage::Relaying => self.up.room(pool),
            Stage::Parting { .. } => Some(self.up.dropping_room(pool)),
            Stage::Opening | Stage::Over => None,
        }
    }

    /// Takes note of `count` bytes that were received into the room.
    pub fn front_received(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.note_pause(now);
        self.last_byte = now;
        if self.opening.is_some() {
            let incoming = self.up.sealed.as_mut().expect("the room was given");
            incoming.fill(count);
            self.facts.first_byte.get_or_insert(now);
            return self.advance_opening(now, pool);
        }
        match &mut self.stage {
            Stage::Dialling { .. } | Stage::Relaying => {
                self.up.received(count);
                self.open_records(now, pool);
            }
            Stage::Parting { dropped, .. } => {
                *dropped += count;
                if *dropped > PARTING_BYTES_MAX {
                    self.finish(pool);
                }
            }
            Stage::Opening | Stage::Over => {}
        }
    }

    /// Whether a part of a record has come, and its rest is awaited.
    pub fn is_amid_record(&self) -> bool {
        self.up.sealed.is_some()
    }

    /// Takes note that nothing was received into the room.
    pub fn front_received_nothing(&mut self, pool: &mut Pool) {
        pool.give_if_empty(&mut self.up.sealed);
    }

    /// Takes note that the client's TCP stream has ended.
    pub fn front_ended(&mut self, pool: &mut Pool) {
        self.is_front_ended = true;
        if self.opening.is_some() {
            return self.stop(Ending::new(Reason::ClientDisconnected), pool);
        }
        match self.stage {
            Stage::Dialling { .. } | Stage::Relaying => {
                self.up.end.get_or_insert(StreamEnd::Fin);
                pool.give_all(&mut self.up.sealed);
                self.settle(pool);
            }
            Stage::Parting { .. } => self.settle(pool),
            Stage::Opening | Stage::Over => {}
        }
    }

    /// Takes note that the client's connection is broken.
    pub fn front_failed(&mut self, pool: &mut Pool) {
        match self.stage {
            Stage::Opening | Stage::Dialling { .. } | Stage::Relaying => {
                let reason = match (self.up.end, self.down.is_ended) {
                    (_, true) => Reason::BackendClosed,
                    (Some(StreamEnd::CloseNotify), false) => Reason::ClientClosed,
                    _ => Reason::ClientReset,
                };
                self.stop(Ending::new(reason), pool);
            }
            Stage::Parting { .. } => self.finish(pool),
            Stage::Over => {}
        }
    }

    /// What waits to be sent to the client.
    pub fn front_pending(&self) -> &[u8] {
        self.down.pending()
    }

    /// Takes note of `count` bytes that were sent to the client.
    pub fn front_sent(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.last_byte = now;
        self.down.sent(count, pool);
        self.settle(pool);
    }

    // The server's side.

    /// Takes note that a server is connected.
    pub fn dial_connected(&mut self, now: Instant, pool: &mut Pool) {
        if !matches!(self.stage, Stage::Dialling { .. }) {
            return;
        }
        self.facts.connected = Some(now);
        self.last_byte = now;
        match announce::header(&self.settings.send_proxy, &self.facts) {
            Ok(header) => {
                self.preamble = header;
                self.stage = Stage::Relaying;
                self.settle(pool);
            }
            // A server that waits for the header would take the client's first bytes for it.
            Err(ending) => self.dial_failed(ending, now, pool),
        }
    }

    /// Takes note that another server is being dialled.
    pub fn dial_restarted(&mut self, now: Instant) {
        if let Stage::Dialling { since } = &mut self.stage {
            *since = now;
        }
    }

    /// Takes note that no server can serve the connection: none could be connected, for the reason
    /// that the last one gave, or it cannot be told about the client what it was promised.
    pub fn dial_failed(&mut self, ending: Ending, now: Instant, pool: &mut Pool) {
        if self.opening.is_some() {
            // The client cannot be told before the handshake's end.
            self.postponed = Some(Postponed::BackFailure(ending));
            self.drop_back();
            self.stage = Stage::Relaying;
            return self.back_refused(pool);
        }
        self.say_alert(alert::INTERNAL_ERROR, pool);
        self.part(ending, now, pool);
    }

    /// Where to receive from the server: pieces to be filled in order by one vectored read;
    /// `None` = not now.
    pub fn back_room<'a>(
        &'a mut self,
        pool: &mut Pool,
    ) -> Option<impl Iterator<Item = &'a mut [u8]> + use<'a>> {
        let Stage::Relaying = self.stage else {
            return None;
        };
        if self.postponed.is_some() || self.offloading.holds_back() {
            return None;
        }
        let layout = match &self.traffic {
            Some(traffic) => traffic.layout(),
            None => self.opening.as_ref()?.layout()?,
        };
        self.down.room(layout, pool)
    }

    /// Takes note of `count` bytes that were received into the room.
    pub fn back_received(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.note_pause(now);
        let handshake = self.opening.as_mut().and_then(Opening::sealing);
        let sealed = match (&mut self.traffic, handshake) {
            (Some(traffic), _) => self.down.received(count, &mut **traffic),
            (None, Some(handshake)) => self.down.received(count, handshake),
            (None, None) => return,
        };
        self.last_byte = now;
        self.facts.bytes_down += count as u64;
        self.note_stretch(count);
        if sealed.is_err() {
            self.stop_exhausted(now, pool);
        }
    }

    /// Takes note that nothing was received into the room.
    pub fn back_received_nothing(&mut self, pool: &mut Pool) {
        self.down.received_nothing(pool);
    }

    /// Takes note that the server's stream has ended: the client is told by close_notify.
    pub fn back_ended(&mut self, pool: &mut Pool) {
        if matches!(self.stage, Stage::Relaying) && !self.down.is_ended {
            self.down.received_nothing(pool);
            if self.opening.is_some() {
                self.postponed.get_or_insert(Postponed::BackEnd);
                return;
            }
            self.say_goodbye(pool);
            self.down.is_ended = true;
            self.note_ending();
            self.settle(pool);
        }
    }

    /// Takes note of why what stands behind is about to end its stream, where that is not its own
    /// doing.
    pub fn back_ends_for(&mut self, reason: Option<Reason>) {
        self.ending = self.ending.take().or_else(|| reason.map(Ending::new));
    }

    /// Takes note that the server takes no more bytes. What it has sent is still to be received: a
    /// server that refuses an upload answers first and resets then.
    pub fn back_refused(&mut self, pool: &mut Pool) {
        if matches!(self.stage, Stage::Relaying) {
            self.up.refuse(self.opening.is_some(), pool);
            self.preamble = Vec::new();
            self.settle(pool);
        }
    }

    /// Takes note that the server's connection is broken and nothing more can be received.
    ///
    /// The client must not take what it got for the whole: it is sent what there is, and then the
    /// end of TCP without close_notify.
    pub fn back_failed(&mut self, now: Instant, pool: &mut Pool) {
        let Stage::Relaying = self.stage else { return };
        if self.down.is_ended || self.postponed.is_some() {
            // It had said all that it wanted to say.
            self.back_refused(pool);
            return;
        }
        let ending = Ending::new(Reason::BackendReset);
        if self.opening.is_some() {
            // A handshake that breaks makes the client try again what the server may have done.
            self.postponed = Some(Postponed::BackFailure(ending));
            return self.back_refused(pool);
        }
        self.part(ending, now, pool);
    }

    /// What waits to be sent to the server: two pieces, in order.
    pub fn back_pending(&self) -> [&[u8]; 2] {
        let Stage::Relaying = self.stage else {
            return [&[], &[]];
        };
        [
            &self.preamble,
            self.up.plain.as_ref().map_or(&[], Buffer::data),
        ]
    }

    /// Takes note of `count` bytes that were sent to the server.
    pub fn back_sent(&mut self, count: usize, now: Instant, pool: &mut Pool) {
        self.last_byte = now;
        let announced = count.min(self.preamble.len());
        if announced > 0 {
            self.preamble.drain(..announced);
            if self.preamble.is_empty() {
                self.preamble = Vec::new();
            }
        }
        if count > announced {
            self.up.sent(count - announced, pool);
        }
        self.settle(pool);
    }

    // Within.

    fn advance_opening(&mut self, now: Instant, pool: &mut Pool) {
        let (Some(opening), Some(incoming)) = (&mut self.opening, &mut self.up.sealed) else {
            return;
        };
        let mut out = std::mem::take(&mut pool.scratch);
        let mut early = Vec::new();
        let (settings, facts) = (&self.settings, &mut self.facts);
        let progress = opening.advance(incoming, settings, facts, &mut out, &mut early);
        self.down.append(&out, pool);
        out.clear();
        pool.scratch = out;
        if !early.is_empty() && progress.is_ok() {
            let goes_on = matches!(progress, Ok(None));
            self.take_early(&early, goes_on, now, pool);
        }
        match progress {
            Ok(None) => pool.give_if_empty(&mut self.up.sealed),
            Ok(Some(established)) => self.establish(established, now, pool),
            Err(ending) => self.part(ending, now, pool),
        }
    }

    /// Early data goes to a server as it comes: the connection is dialled with the first of it.
    fn take_early(&mut self, early: &[u8], goes_on: bool, now: Instant, pool: &mut Pool) {
        self.facts.early_data = Some(EarlyData::Accepted);
        self.facts.bytes_up += early.len() as u64;
        self.up.add_early(early, pool);
        if goes_on && matches!(self.stage, Stage::Opening) {
            self.facts.early_bytes_max = Some(opening::early_bytes_max(&self.settings));
            self.facts.agreed = self.opening.as_ref().and_then(Opening::agreed);
            self.facts.kind = self.kind();
            self.begin_dial(now);
        }
        self.settle(pool);
    }

    fn note_pause(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last_byte) >= PAUSE {
            self.down.paused();
        }
    }

    fn begin_dial(&mut self, now: Instant) {
        self.stage = Stage::Dialling { since: now };
        self.actions.add(Action::Dial);
    }

    /// The kind of the handshake, once it is known.
    fn kind(&self) -> Option<HandshakeKind> {
        let agreed = self.facts.agreed.as_ref()?;
        Some(opening::kind_of(agreed, self.facts.kind, &self.settings))
    }

    /// Closes the server's connection: by a reset unless it has been sent the client's whole stream
    /// with its end, since a stream that was cut, also after early data, must not look finished.
    fn drop_back(&mut self) {
        if self.up.end.is_none() || !self.is_up_sent() {
            self.actions.add(Action::ResetBack);
        }
        self.actions.add(Action::CloseBack);
    }

    /// Whether all that has come for the server has been sent to it.
    fn is_up_sent(&self) -> bool {
        self.preamble.is_empty() && self.up.plain.is_none()
    }

    fn establish(&mut self, established: Established, now: Instant, pool: &mut Pool) {
        self.opening = None;
        self.facts.agreed = Some(established.agreed);
        self.facts.kind = self.kind();
        self.facts.established = Some(now);
        if self.facts.early_data == Some(EarlyData::Accepted) {
            // All that has come up to now: the limit keeps it small.
            self.facts.early_bytes_max = u32::try_from(self.facts.bytes_up).ok();
        }
        self.traffic = Some(established.traffic);
        self.consider_kernel();
        if matches!(self.stage, Stage::Opening) {
            self.begin_dial(now);
        }
        self.open_records(now, pool);
        if !matches!(self.stage, Stage::Dialling { .. } | Stage::Relaying) {
            return;
        }
        match self.postponed.take() {
            None => {}
            Some(Postponed::BackEnd) => self.back_ended(pool),
            Some(Postponed::BackFailure(ending)) => self.dial_failed(ending, now, pool),
        }
    }

    fn open_records(&mut self, now: Instant, pool: &mut Pool) {
        let Some(traffic) = &mut self.traffic else {
            return;
        };
        match self.up.open(traffic, pool) {
            Ok(opened) => {
                self.facts.bytes_up += opened.bytes as u64;
                self.facts.key_updates += opened.controls;
                self.settle(pool);
            }
            Err(OpenFault::Alert(alert)) => {
                let detail = format!("the client sent alert {}", alert::label(alert));
                self.stop(Ending::with(Reason::ClientAlert, detail), pool);
            }
            Err(OpenFault::Traffic(fault)) => {
                self.say_alert(fault.alert(), pool);
                let reason = match fault {
                    tls::traffic::TrafficFault::Record(_) => Reason::RecordInvalid,
                    tls::traffic::TrafficFault::Message(_) => Reason::ProtocolViolation,
                };
                self.part(Ending::with(reason, fault.to_string()), now, pool);
            }
        }
    }

    /// Looks whether what has just happened makes the next step due.
    fn settle(&mut self, pool: &mut Pool) {
        match self.stage {
            Stage::Relaying | Stage::Dialling { .. } => self.settle_relay(pool),
            Stage::Parting { .. } if self.is_front_done() => {
                if self.is_front_ended {
                    self.finish(pool);
                } else {
                    self.actions.add(Action::ShutdownFront);
                }
            }
            _ => {}
        }
    }

    fn settle_relay(&mut self, pool: &mut Pool) {
        self.send_control(pool);
        self.note_ending();
        self.ask_kernel();
        let Stage::Relaying = self.stage else { return };
        let down_is_sent = self.is_front_done();
        let up_is_done = self.up.is_refused || self.up.end.is_some() && self.is_up_sent();
        let down_is_done = self.down.is_ended && down_is_sent;
        if up_is_done && down_is_done && self.up.is_refused && !self.is_front_ended {
            // Closing with the client's bytes unread would reset it under the server's last ones.
            let ending = self.ending.take();
            let ending = ending.unwrap_or_else(|| Ending::new(Reason::BackendClosed));
            self.part(ending, self.last_byte, pool);
        } else if up_is_done && down_is_done {
            self.finish(pool);
        } else if up_is_done && !self.up.is_refused {
            self.actions.add_once(Action::ShutdownBack);
        } else if down_is_done {
            self.actions.add_once(Action::ShutdownFront);
        }
    }

    fn note_ending(&mut self) {
        if self.ending.is_none() {
            self.ending = first_end(self.up.end, self.down.is_ended).map(Ending::new);
        }
    }

    /// Ends with last bytes to the client.
    fn part(&mut self, ending: Ending, now: Instant, pool: &mut Pool) {
        self.ending = Some(ending);
        self.drop_back();
        self.opening = None;
        self.up.clear(pool);
        self.preamble = Vec::new();
        self.actions.cancel_dials();
        self.stage = Stage::parting(now);
        self.settle(pool);
    }

    /// Ends at once.
    fn stop(&mut self, ending: Ending, pool: &mut Pool) {
        self.ending = Some(ending);
        self.finish(pool);
    }

    fn finish(&mut self, pool: &mut Pool) {
        if !matches!(self.stage, Stage::Parting { .. }) {
            self.drop_back();
        }
        self.up.clear(pool);
        self.down.clear(pool);
        self.offloading.records.clear();
        self.traffic = None;
        self.opening = None;
        self.stage = Stage::Over;
        self.actions.cancel_dials();
        self.actions.add(Action::Close);
    }
}
