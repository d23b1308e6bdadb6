//! The server's end: its dialog, its handshake, then its records, or its bytes as they come.
//!
//! Handles the buffers of that end, each held only while bytes are in it; `connection` decides what
//! follows from the received bytes. Bytes to the server are copied once, from the client's records
//! to the server's; bytes to the client are decrypted and encrypted in place ([`crate::relay`]).

use tls::client::ClientHandshake;
use tls::handshake::{HandshakeFault, NegotiatedParameters};
use tls::record::{KeyExhausted, PLAINTEXT_BYTES_MAX};
use tls::traffic::{RecordContent, RecordSealer, Traffic};
use wire::tunnel::{Tunnel, TunnelDialog, TunnelFault, TunnelStep};

use crate::buffer::{Buffer, BufferSize, Inbox, Pool};
use crate::facts::ConnectionEnd;
use crate::relay::{RelayFault, ServerToClient, StreamEnd};
use crate::state::EndState;

/// The end towards the server, connected or not.
#[derive(Default)]
pub(crate) struct BackEnd {
    pub(crate) state: EndState<Box<ClientHandshake>>,
    pub(crate) inbox: Inbox,
    /// Bytes to be sent: a PROXY header, the handshake's messages, records.
    outgoing: Option<Buffer>,
    /// Rest of the PROXY header; it goes before the client's bytes, in the same way as they do.
    pub(crate) header: Vec<u8>,
    /// Whether TCP's end has come, behind the records that are there.
    is_fin: bool,
    /// End of the server's stream of records, once they are relayed.
    pub(crate) end: Option<StreamEnd>,
    has_closed: bool,
    /// Reason for giving up the connected server.
    pub(crate) fault: Option<ConnectionEnd>,
}

/// A fault that ends the server's side of an established connection.
pub(crate) enum BackFault {
    /// A fault that stops the relay.
    Relay(RelayFault),
    /// Fatal alert of the server.
    Alert(u8),
}

impl From<RelayFault> for BackFault {
    fn from(fault: RelayFault) -> Self {
        Self::Relay(fault)
    }
}

impl BackEnd {
    /// Prepares TLS with the connected server. `before` goes before the first message, `header`
    /// inside of TLS.
    pub(crate) fn prepare(
        &mut self,
        handshake: ClientHandshake,
        before: &[u8],
        header: Vec<u8>,
        pool: &mut Pool,
    ) {
        self.state = EndState::Dialog(Box::new(handshake));
        self.header = header;
        self.append(before, pool);
    }

    /// Asks the connected proxy for the server.
    pub(crate) fn begin_tunnel(&mut self, tunnel: &Tunnel, pool: &mut Pool) {
        let (dialog, first) = TunnelDialog::begin(tunnel);
        self.state = EndState::Tunnel(Box::new(dialog));
        self.append(&first, pool);
    }

    /// Processes the proxy's answer. Returns whether the server is connected behind it now.
    ///
    /// # Errors
    /// Fails with [`TunnelFault`] if the proxy refuses or breaks the protocol.
    pub(crate) fn advance_tunnel(
        &mut self,
        tunnel: &Tunnel,
        pool: &mut Pool,
    ) -> Result<bool, TunnelFault> {
        let bytes = pool.take_all(&mut self.inbox.buffer);
        let EndState::Tunnel(dialog) = &mut self.state else {
            return Ok(false);
        };
        match dialog.received(&bytes, tunnel)? {
            TunnelStep::More => return Ok(false),
            TunnelStep::Send(bytes) => {
                self.append(&bytes, pool);
                return Ok(false);
            }
            TunnelStep::Up if self.outgoing.is_some() => return Err(TunnelFault::TooEarly),
            TunnelStep::Up => self.state = EndState::Plain,
        }
        Ok(true)
    }

    /// Forgets the server. Returns the reason if it was given up.
    pub(crate) fn reset(&mut self, pool: &mut Pool) -> Option<ConnectionEnd> {
        pool.give_all(&mut self.inbox.buffer);
        pool.give_all(&mut self.outgoing);
        let header = std::mem::take(&mut self.header);
        let last = std::mem::take(self);
        self.header = header;
        last.fault
    }

    /// Relays the received records as far as possible. Returns the number of bytes they carried.
    ///
    /// # Errors
    /// Returns the fault in the records, or the server's fatal alert.
    pub(crate) fn relay(
        &mut self,
        down: &mut ServerToClient,
        seal: &mut impl RecordSealer,
        pool: &mut Pool,
    ) -> Result<usize, BackFault> {
        let Some(traffic) = self.state.traffic_mut() else {
            return Ok(0);
        };
        let Some(incoming) = self.inbox.buffer.as_mut().filter(|_| self.end.is_none()) else {
            return Ok(0);
        };
        let (bytes, last) = down.relay(incoming, traffic, seal, pool)?;
        match last {
            Some(RecordContent::CloseNotify) => {
                // Data after close_notify is ignored (RFC 8446 section 6.1).
                pool.give_all(&mut self.inbox.buffer);
                self.end = Some(StreamEnd::CloseNotify);
            }
            Some(RecordContent::FatalAlert(alert)) => return Err(BackFault::Alert(alert)),
            _ if has_whole_record(traffic, incoming) => {}
            _ => {
                self.inbox.keep_rest(pool);
                self.end = self.is_fin.then_some(StreamEnd::Fin);
            }
        }
        Ok(bytes)
    }

    /// Notes the end of TCP's stream.
    pub(crate) fn finish(&mut self) {
        self.is_fin = true;
        if self.inbox.buffer.is_none() {
            self.end.get_or_insert(StreamEnd::Fin);
        }
    }

    /// Stops reading from a server with TLS; bytes that wait are still sent.
    pub(crate) fn give_up(&mut self, ending: ConnectionEnd) {
        if !self.state.is_plain() {
            self.state = EndState::Closed;
        }
        self.fault = Some(ending);
    }

    /// Returns room for bytes not relayed as they come: records, messages, a dialog's words.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> &mut [u8] {
        if let EndState::Tunnel(dialog) = &self.state {
            // Bytes behind the proxy's last word come from the server.
            let room = self.inbox.message_room(pool);
            let count = room.len().min(dialog.wants());
            return &mut room[..count];
        }
        if self.state.is_opening() || self.state.is_plain() {
            return self.inbox.message_room(pool);
        }
        self.inbox.room(pool)
    }

    /// Continues the handshake. Returns the agreed parameters once it is done.
    pub(crate) fn advance(
        &mut self,
        pool: &mut Pool,
    ) -> Result<Option<NegotiatedParameters>, HandshakeFault> {
        let EndState::Handshaking(handshake) = &mut self.state else {
            return Ok(None);
        };
        let mut out = std::mem::take(&mut pool.scratch);
        let incoming = self.inbox.buffer.as_mut();
        let step = handshake.advance(incoming.map_or(&mut [], Buffer::data_mut), &mut out);
        self.append(&out, pool);
        out.clear();
        pool.scratch = out;
        let step = step.inspect_err(|_| self.state = EndState::Closed)?;
        self.inbox.consume(step.consumed, pool);
        if !step.done {
            return Ok(None);
        }
        let EndState::Handshaking(handshake) = std::mem::replace(&mut self.state, EndState::Closed)
        else {
            return Ok(None);
        };
        let established = handshake.finish()?;
        self.state = EndState::Tls(established.traffic);
        Ok(Some(established.agreed))
    }

    /// Sends these bytes as they are, behind those that wait.
    pub(crate) fn append(&mut self, bytes: &[u8], pool: &mut Pool) {
        if !bytes.is_empty() {
            self.outgoing.get_or_insert_with(|| pool.take(BufferSize::Small)).append(bytes);
        }
    }

    /// Seals data for the server, once all earlier bytes have been sent: an answer that is due, the
    /// PROXY header, the client's bytes, and close_notify if they end with one.
    pub(crate) fn seal(
        &mut self,
        plain: &mut Option<Buffer>,
        end: Option<StreamEnd>,
        pool: &mut Pool,
    ) -> Result<(), KeyExhausted> {
        let Some(traffic) = self.state.traffic_mut() else {
            return Ok(());
        };
        let ends = is_whole(end) && !self.has_closed;
        let has_data = !self.header.is_empty() || plain.is_some();
        let is_due = has_data || ends || traffic.is_control_due();
        if self.outgoing.is_some() || !is_due {
            return Ok(());
        }
        let is_large = plain.as_ref().is_some_and(Buffer::is_large);
        let size = if is_large { BufferSize::Large } else { BufferSize::Small };
        let out = self.outgoing.insert(pool.take(size));
        let mut scratch = std::mem::take(&mut pool.scratch);
        if traffic.is_control_due() {
            traffic.seal_control(&mut scratch)?;
            out.append(&scratch);
            scratch.clear();
        }
        let sealed = seal_data(traffic, &self.header, out)?;
        self.header.drain(..sealed);
        if let Some(data) = plain.as_mut().filter(|_| self.header.is_empty()) {
            let sealed = seal_data(traffic, data.data(), out)?;
            data.consume(sealed);
        }
        pool.give_if_empty(plain);
        if ends && self.header.is_empty() && plain.is_none() {
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

    /// Reports whether the client's stream with this end has been sent, if all of it was sealed.
    pub(crate) fn is_sent(&self, end: Option<StreamEnd>) -> bool {
        let is_closed = self.state.is_plain() || !is_whole(end) || self.has_closed;
        is_closed && self.header.is_empty() && self.outgoing.is_none()
    }

    /// Notes that `count` bytes went to the server. Returns how many of them were the client's,
    /// unchanged.
    pub(crate) fn sent(&mut self, count: usize, pool: &mut Pool) -> usize {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.consume(count);
            pool.give_if_empty(&mut self.outgoing);
            return 0;
        }
        let of_header = count.min(self.header.len());
        if of_header > 0 {
            self.header.drain(..of_header);
            if self.header.is_empty() {
                self.header = Vec::new();
            }
        }
        count - of_header
    }

    /// Drops what waits, because the server takes no more.
    pub(crate) fn refuse(&mut self, pool: &mut Pool) {
        self.header = Vec::new();
        pool.give_all(&mut self.outgoing);
    }
}

/// Reports whether the client has ended its stream properly.
fn is_whole(end: Option<StreamEnd>) -> bool {
    matches!(end, Some(StreamEnd::CloseNotify | StreamEnd::Plain))
}

fn has_whole_record(traffic: &Traffic, incoming: &Buffer) -> bool {
    let length = traffic.record_bytes(incoming.data());
    matches!(length, Ok(Some(length)) if length <= incoming.data().len())
}

/// Seals records of full size and one shorter record, as far as there is room. Returns how many of
/// the bytes they carry.
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
