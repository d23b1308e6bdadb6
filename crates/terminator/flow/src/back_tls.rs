//! TLS towards the server: the handshake, then the records on their way.
//!
//! Owns the buffers of that side, each held only while bytes are in it; what follows from what
//! comes is `connection`'s. What goes up is copied once, from the client's records to the server's;
//! what comes down is opened and encrypted again where it lies ([`crate::relay`]).

use tls::client::ClientHandshake;
use tls::handshake::{Agreed, HandshakeFault};
use tls::record::{KeyExhausted, PLAINTEXT_BYTES_MAX, RECORD_BYTES_MAX};
use tls::traffic::{Incoming, RecordSealer, Traffic};

use crate::buffer::{Buffer, Pool, Size};
use crate::conversation::take_all;
use crate::relay::{Down, RelayFault, StreamEnd, keep_rest, room_for_message};

/// One connection to a server.
pub(crate) struct BackTls {
    state: State,
    incoming: Option<Buffer>,
    /// What is not yet sent: a PROXY header, the handshake's messages, records.
    outgoing: Option<Buffer>,
    /// The last read filled its room.
    is_bulk: bool,
    /// TCP's end has come, behind the records that are there.
    is_fin: bool,
    /// How the server's stream ended, once its records are through.
    pub(crate) end: Option<StreamEnd>,
    has_closed: bool,
}

/// Why the server's side of an established connection is over.
pub(crate) enum BackFault {
    /// It cannot be relayed further.
    Relay(RelayFault),
    /// The server's own fatal alert.
    Alert(u8),
}

impl From<RelayFault> for BackFault {
    fn from(fault: RelayFault) -> Self {
        Self::Relay(fault)
    }
}

enum State {
    /// The server has to be asked for TLS first.
    Waiting(Box<ClientHandshake>),
    Handshaking(Box<ClientHandshake>),
    Established(Box<Traffic>),
    /// What waits to be sent is an alert.
    Failed,
}

impl BackTls {
    /// Before the first message, with bytes that go before it.
    pub(crate) fn new(handshake: ClientHandshake, before: &[u8], pool: &mut Pool) -> Self {
        let mut tls = Self {
            state: State::Waiting(Box::new(handshake)),
            incoming: None,
            outgoing: None,
            is_bulk: false,
            is_fin: false,
            end: None,
            has_closed: false,
        };
        tls.append(before, pool);
        tls
    }

    /// Whether the handshake goes on, or is to be begun.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Waiting(_) | State::Handshaking(_))
    }

    /// Whether it is to be begun.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    pub(crate) fn begin(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Failed) {
            State::Waiting(handshake) => State::Handshaking(handshake),
            other => other,
        };
    }

    pub(crate) fn take_plaintext(&mut self, pool: &mut Pool) -> Vec<u8> {
        take_all(&mut self.incoming, pool)
    }

    /// Relays what can be of the records that have come; how many bytes they carried.
    ///
    /// # Errors
    /// What is wrong with them, or how the server gave up.
    pub(crate) fn relay(
        &mut self,
        down: &mut Down,
        seal: &mut impl RecordSealer,
        pool: &mut Pool,
    ) -> Result<usize, BackFault> {
        let State::Established(traffic) = &mut self.state else {
            return Ok(0);
        };
        let Some(incoming) = self.incoming.as_mut().filter(|_| self.end.is_none()) else {
            return Ok(0);
        };
        let (bytes, last) = down.relay(incoming, traffic, seal, pool)?;
        match last {
            Some(Incoming::CloseNotify) => {
                // Nothing after it counts (RFC 8446 section 6.1).
                pool.give_all(&mut self.incoming);
                self.end = Some(StreamEnd::CloseNotify);
            }
            Some(Incoming::FatalAlert(alert)) => return Err(BackFault::Alert(alert)),
            _ if has_whole_record(traffic, incoming) => {}
            _ => {
                keep_rest(&mut self.incoming, self.is_bulk, pool);
                self.end = self.is_fin.then_some(StreamEnd::Fin);
            }
        }
        Ok(bytes)
    }

    /// Notes the end of TCP's stream.
    pub(crate) fn finish(&mut self) {
        self.is_fin = true;
        if self.incoming.is_none() {
            self.end.get_or_insert(StreamEnd::Fin);
        }
    }

    /// Takes no more; what waits is still to be sent.
    pub(crate) fn fail(&mut self) {
        self.state = State::Failed;
    }

    pub(crate) fn room(&mut self, pool: &mut Pool) -> &mut [u8] {
        if self.is_handshaking() {
            return room_for_message(&mut self.incoming, pool);
        }
        let is_bulk = self.is_bulk;
        self.incoming
            .get_or_insert_with(|| pool.take_for(is_bulk))
            .space()
    }

    /// Notes `count` received bytes.
    pub(crate) fn received(&mut self, count: usize) {
        let incoming = self.incoming.as_mut();
        let incoming = incoming.expect("bytes were received into this buffer");
        incoming.fill(count);
        self.is_bulk = incoming.space().is_empty();
    }

    /// Goes on with the handshake; what was agreed on, once it is done.
    pub(crate) fn advance(&mut self, pool: &mut Pool) -> Result<Option<Agreed>, HandshakeFault> {
        let State::Handshaking(handshake) = &mut self.state else {
            return Ok(None);
        };
        let mut out = std::mem::take(&mut pool.scratch);
        let incoming = self.incoming.as_mut();
        let step = handshake.advance(incoming.map_or(&mut [], Buffer::data_mut), &mut out);
        self.append(&out, pool);
        out.clear();
        pool.scratch = out;
        let step = step.inspect_err(|_| self.state = State::Failed)?;
        if let Some(incoming) = &mut self.incoming {
            incoming.consume(step.consumed);
        }
        pool.give_if_empty(&mut self.incoming);
        if !step.done {
            return Ok(None);
        }
        let State::Handshaking(handshake) = std::mem::replace(&mut self.state, State::Failed)
        else {
            return Ok(None);
        };
        let established = handshake.finish()?;
        self.state = State::Established(established.traffic);
        Ok(Some(established.agreed))
    }

    /// Has these bytes be sent as they are.
    pub(crate) fn append(&mut self, bytes: &[u8], pool: &mut Pool) {
        if !bytes.is_empty() {
            self.outgoing
                .get_or_insert_with(|| pool.take(Size::Small))
                .append(bytes);
        }
    }

    /// Seals what is there for the server, once all before it has been sent: an answer that is due,
    /// the PROXY header, the client's bytes, and close_notify if that is how they end.
    pub(crate) fn seal(
        &mut self,
        header: &mut Vec<u8>,
        plain: &mut Option<Buffer>,
        end: Option<StreamEnd>,
        pool: &mut Pool,
    ) -> Result<(), KeyExhausted> {
        let State::Established(traffic) = &mut self.state else {
            return Ok(());
        };
        let ends = is_whole(end) && !self.has_closed;
        let has_data = !header.is_empty() || plain.is_some();
        let is_due = has_data || ends || traffic.is_control_due();
        if self.outgoing.is_some() || !is_due {
            return Ok(());
        }
        let is_large = plain.as_ref().is_some_and(Buffer::is_large);
        let size = if is_large { Size::Large } else { Size::Small };
        let out = self.outgoing.insert(pool.take(size));
        let mut scratch = std::mem::take(&mut pool.scratch);
        if traffic.is_control_due() {
            traffic.seal_control(&mut scratch)?;
            out.append(&scratch);
            scratch.clear();
        }
        let sealed = seal_data(traffic, header, out)?;
        header.drain(..sealed);
        if let Some(data) = plain.as_mut().filter(|_| header.is_empty()) {
            let sealed = seal_data(traffic, data.data(), out)?;
            data.consume(sealed);
        }
        pool.give_if_empty(plain);
        if ends && header.is_empty() && plain.is_none() {
            self.has_closed = true;
            traffic.seal_close_notify(&mut scratch)?;
            out.append(&scratch);
            scratch.clear();
        }
        pool.scratch = scratch;
        pool.give_if_empty(&mut self.outgoing);
        Ok(())
    }

    pub(crate) fn pending(&self) -> &[u8] {
        self.outgoing.as_ref().map_or(&[], Buffer::data)
    }

    /// Whether the client's stream with this end has been sent, if all of it was sealed.
    pub(crate) fn is_sent(&self, end: Option<StreamEnd>) -> bool {
        let is_closed = !is_whole(end) || self.has_closed;
        is_closed && self.outgoing.is_none()
    }

    /// Notes that `count` bytes went to the server.
    pub(crate) fn sent(&mut self, count: usize, pool: &mut Pool) {
        let outgoing = self.outgoing.as_mut();
        outgoing
            .expect("bytes were sent from this buffer")
            .consume(count);
        pool.give_if_empty(&mut self.outgoing);
    }

    /// The server takes no more.
    pub(crate) fn refuse(&mut self, pool: &mut Pool) {
        pool.give_all(&mut self.outgoing);
    }

    /// Keeps what waits for a client that takes nothing in as little as it needs.
    pub(crate) fn shrink(&mut self, pool: &mut Pool) {
        let is_rest = |incoming: &Buffer| incoming.data().len() <= RECORD_BYTES_MAX;
        if self.incoming.as_ref().is_some_and(is_rest) {
            keep_rest(&mut self.incoming, false, pool);
        }
    }

    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        pool.give_all(&mut self.incoming);
        pool.give_all(&mut self.outgoing);
    }
}

/// Whether the client has said that nothing is missing.
fn is_whole(end: Option<StreamEnd>) -> bool {
    matches!(end, Some(StreamEnd::CloseNotify | StreamEnd::Plain))
}

fn has_whole_record(traffic: &Traffic, incoming: &Buffer) -> bool {
    let length = traffic.record_bytes(incoming.data());
    matches!(length, Ok(Some(length)) if length <= incoming.data().len())
}

/// Seals records of full size and one that is not, as many as there is room for; returns how many
/// of the bytes they carry.
fn seal_data(traffic: &mut Traffic, bytes: &[u8], out: &mut Buffer) -> Result<usize, KeyExhausted> {
    let layout = traffic.layout();
    let mut sealed = 0;
    for part in bytes.chunks(PLAINTEXT_BYTES_MAX) {
        let record_bytes = layout.head + part.len() + layout.tail;
        let Some(record) = out.space().get_mut(..record_bytes) else {
            break;
        };
        record[layout.head..][..part.len()].copy_from_slice(part);
        traffic.seal(record)?;
        out.fill(record_bytes);
        sealed += part.len();
    }
    Ok(sealed)
}
