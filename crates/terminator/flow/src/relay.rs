//! The two directions of an established connection: records to plaintext and plaintext to records.
//!
//! Handles the bytes on their way and when more may be read: a direction reads on only after its
//! earlier bytes have been sent, so a slow reader on one side slows the writer on the other
//! (back-pressure), and a direction never holds more than one buffer of each kind.

use std::time::{Duration, Instant};

use tls::record::{KeyExhausted, OVERHEAD_BYTES_MAX, PLAINTEXT_BYTES_MAX, RecordLayout};
use tls::traffic::{RecordContent, RecordSealer, Traffic, TrafficFault};

use crate::buffer::{Buffer, BufferSize, Inbox, Pool, RECORDS_LARGE};
use crate::record_sizing::{RecordSizing, SHORT_OVERHEAD_BYTES_MAX};

/// Time that tickets wait to be sent together with an answer. It saves a packet of their own, but a
/// client that opens more connections meanwhile does not resume.
const HOLD_MAX: Duration = Duration::from_millis(50);

/// Room that one read takes when it is encrypted.
const RECORD_ROOM: usize = PLAINTEXT_BYTES_MAX + OVERHEAD_BYTES_MAX + SHORT_OVERHEAD_BYTES_MAX;

/// Layout of bytes that are relayed as they come.
pub(crate) const AS_IS: RecordLayout = RecordLayout { head: 0, tail: 0 };

/// Kind of end of a side's stream of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StreamEnd {
    CloseNotify,
    Fin,
    /// TCP's FIN, without TLS of ours that could say more.
    Plain,
}

/// Result of decrypting records.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Decrypted {
    /// Bytes of application data.
    pub(crate) bytes: usize,
    pub(crate) controls: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DecryptFault {
    /// Record or message that is not allowed.
    Traffic(TrafficFault),
    /// Fatal alert of the client.
    Alert(u8),
}

/// A fault that stops the relay of a server's records to the client's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RelayFault {
    /// The server sent a record or message that is not allowed.
    Server(TrafficFault),
    /// The key of the client's records must not be used any more.
    Client(KeyExhausted),
}

impl From<TrafficFault> for RelayFault {
    fn from(fault: TrafficFault) -> Self {
        Self::Server(fault)
    }
}

impl From<KeyExhausted> for RelayFault {
    fn from(exhausted: KeyExhausted) -> Self {
        Self::Client(exhausted)
    }
}

/// Direction from the client to the server.
#[derive(Debug, Default)]
pub(crate) struct ClientToServer {
    /// Records as received; before the end of the handshake, its messages.
    pub(crate) inbox: Inbox,
    /// Plaintext of the records, not yet sent on.
    pub(crate) plain: Option<Buffer>,
    pub(crate) end: Option<StreamEnd>,
    /// Whether the server takes no more: nobody reads what the client still sends.
    pub(crate) is_refused: bool,
}

/// Direction from the server to the client.
#[derive(Debug, Default)]
pub(crate) struct ServerToClient {
    /// Records not yet sent; before the end of the handshake, its messages.
    pub(crate) records: Option<Buffer>,
    /// Time until which the records wait to be sent with others.
    pub(crate) held_until: Option<Instant>,
    pub(crate) is_ended: bool,
    is_bulk: bool,
    sizing: RecordSizing,
}

impl ClientToServer {
    /// Returns room for records, or for a message that may be longer; `None` = nothing is read now.
    pub(crate) fn room(&mut self, is_message: bool, pool: &mut Pool) -> Option<&mut [u8]> {
        if self.plain.is_some() || self.end.is_some() || self.is_refused {
            return None;
        }
        Some(if is_message { self.inbox.message_room(pool) } else { self.inbox.room(pool) })
    }

    /// Takes the received bytes as they are, without TLS of ours. Returns their number.
    pub(crate) fn pass(&mut self) -> usize {
        let Some(bytes) = self.inbox.buffer.take() else {
            return 0;
        };
        let count = bytes.data().len();
        self.plain = Some(bytes);
        count
    }

    /// Decrypts the complete records.
    pub(crate) fn decrypt(
        &mut self,
        traffic: &mut Traffic,
        pool: &mut Pool,
    ) -> Result<Decrypted, DecryptFault> {
        let mut decrypted = Decrypted::default();
        let Some(records) = self.inbox.buffer.as_mut().filter(|_| self.end.is_none()) else {
            return Ok(decrypted);
        };
        // Bytes decrypted before have been sent, or are early data that waits for a server.
        if let Some(plain) = &mut self.plain {
            plain.reserve(records.data().len());
        }
        while self.end.is_none() {
            let Some(record_bytes) =
                traffic.record_bytes(records.data()).map_err(DecryptFault::Traffic)?
            else {
                break;
            };
            let Some(record) = records.data().get(..record_bytes) else {
                break;
            };
            let size = if records.is_large() { BufferSize::Large } else { BufferSize::Small };
            let plain = self.plain.get_or_insert_with(|| pool.take(size));
            let incoming = traffic.open(record, plain.space()).map_err(DecryptFault::Traffic)?;
            records.consume(record_bytes);
            match incoming {
                RecordContent::Data(bytes) => {
                    plain.fill(bytes);
                    decrypted.bytes += bytes;
                }
                RecordContent::Control => decrypted.controls += 1,
                RecordContent::CloseNotify => self.end = Some(StreamEnd::CloseNotify),
                RecordContent::FatalAlert(alert) => return Err(DecryptFault::Alert(alert)),
            }
        }
        pool.give_if_empty(&mut self.plain);
        if self.end.is_some() {
            // Data after close_notify is ignored (RFC 8446 section 6.1).
            pool.give_all(&mut self.inbox.buffer);
        }
        self.inbox.keep_rest(pool);
        Ok(decrypted)
    }

    /// Adds early data, which the handshake has decrypted. It is held until a server takes it; the
    /// service's setting limits its size.
    pub(crate) fn add_early(&mut self, bytes: &[u8], pool: &mut Pool) {
        if !self.is_refused {
            self.plain.get_or_insert_with(|| pool.take(BufferSize::Small)).append(bytes);
        }
    }

    /// Returns the number of bytes that no server has been sent yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.plain.as_ref().map_or(0, |plain| plain.data().len())
    }

    /// Notes that the server takes no more. While the handshake goes on, its bytes are kept.
    pub(crate) fn refuse(&mut self, is_shaking: bool, pool: &mut Pool) {
        self.is_refused = true;
        pool.give_all(&mut self.plain);
        if !is_shaking {
            pool.give_all(&mut self.inbox.buffer);
        }
    }

    /// Notes that `count` bytes went to the server.
    pub(crate) fn sent(&mut self, count: usize, pool: &mut Pool) {
        self.plain.as_mut().expect("bytes were sent from this buffer").consume(count);
        pool.give_if_empty(&mut self.plain);
    }

    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        pool.give_all(&mut self.inbox.buffer);
        pool.give_all(&mut self.plain);
    }
}

fn seal_laid_out(
    records: &mut Buffer,
    sizing: &mut RecordSizing,
    count: usize,
    layout: RecordLayout,
    seal: &mut impl RecordSealer,
) -> Result<(), KeyExhausted> {
    for plain_bytes in sizing.lay_out(records.space(), count, layout) {
        let record_bytes = layout.head + plain_bytes + layout.tail;
        seal.seal(&mut records.space()[..record_bytes])?;
        records.fill(record_bytes);
    }
    Ok(())
}

impl ServerToClient {
    /// Returns room for plaintext: pieces of a record's size, to be filled in order with one
    /// vectored read; `None` = not now.
    pub(crate) fn room<'a>(
        &'a mut self,
        layout: RecordLayout,
        pool: &mut Pool,
    ) -> Option<impl Iterator<Item = &'a mut [u8]> + use<'a>> {
        if self.is_ended || !self.pending().is_empty() {
            return None;
        }
        let is_bulk = self.is_bulk;
        let records = self.records.get_or_insert_with(|| pool.take_for(is_bulk));
        let is_limited = self.sizing.limit.is_some();
        let is_bulk = records.is_large() && !is_limited;
        let count_max = if is_bulk { RECORDS_LARGE } else { 1 };
        let pieces = records.space().chunks_exact_mut(layout.stride()).take(count_max);
        Some(pieces.map(move |record| &mut record[layout.head..][..PLAINTEXT_BYTES_MAX]))
    }

    /// Limits the plaintext of each record.
    pub(crate) fn limit_records(&mut self, plain_bytes_max: Option<usize>) {
        self.sizing.limit = plain_bytes_max;
    }

    /// Notes a pause: the first records after it are short again.
    pub(crate) fn paused(&mut self) {
        self.sizing.restart();
    }

    /// Seals `count` bytes that were received into the room.
    pub(crate) fn received(
        &mut self,
        count: usize,
        seal: &mut impl RecordSealer,
    ) -> Result<(), KeyExhausted> {
        let layout = seal.layout();
        let records = self.records.as_mut().expect("bytes were received into this buffer");
        let count_max = if records.is_large() { RECORDS_LARGE } else { 1 };
        // Small buffers are enough once a read no longer fills one record.
        self.is_bulk = count >= PLAINTEXT_BYTES_MAX;
        self.held_until = None;
        assert!(count <= count_max * PLAINTEXT_BYTES_MAX, "no more came than there was room");
        seal_laid_out(records, &mut self.sizing, count, layout, seal)
    }

    /// Decrypts a server's complete records as far as there is room, and seals their content in
    /// place. Returns the bytes of it, and the first content that is no data.
    pub(crate) fn relay(
        &mut self,
        incoming: &mut Buffer,
        opener: &mut Traffic,
        seal: &mut impl RecordSealer,
        pool: &mut Pool,
    ) -> Result<(usize, Option<RecordContent>), RelayFault> {
        let layout = seal.layout();
        let mut data_bytes = 0;
        if !self.pending().is_empty() {
            return Ok((0, None));
        }
        while let Some(bytes) = opener.record_bytes(incoming.data())? {
            let Some(record) = incoming.data().get(..bytes) else {
                break;
            };
            let is_bulk = incoming.is_large();
            let records = self.records.get_or_insert_with(|| pool.take_for(is_bulk));
            // Opened data is no longer than its record.
            if records.space().len() < RECORD_ROOM.max(layout.head + bytes) {
                self.held_until = None;
                break;
            }
            let opened = opener.open(record, &mut records.space()[layout.head..])?;
            incoming.consume(bytes);
            match opened {
                RecordContent::Data(count) => {
                    data_bytes += count;
                    seal_laid_out(records, &mut self.sizing, count, layout, seal)?;
                }
                RecordContent::Control => {}
                other => return Ok((data_bytes, Some(other))),
            }
        }
        self.held_until.take_if(|_| data_bytes > 0);
        pool.give_if_empty(&mut self.records);
        Ok((data_bytes, None))
    }

    /// Takes `count` bytes that were received into the room as they are, and returns them.
    pub(crate) fn received_as_is(&mut self, count: usize) -> &[u8] {
        let records = self.records.as_mut();
        let records = records.expect("bytes were received into this buffer");
        records.fill(count);
        self.is_bulk = count >= PLAINTEXT_BYTES_MAX;
        let all = records.data();
        &all[all.len() - count..]
    }

    /// Reports whether the last read was of at least a full record.
    pub(crate) fn is_bulk(&self) -> bool {
        self.is_bulk
    }

    /// Appends bytes that are ready to be sent: a handshake's, an alert's.
    pub(crate) fn append(&mut self, bytes: &[u8], pool: &mut Pool) {
        if !bytes.is_empty() {
            self.release();
            self.records.get_or_insert_with(|| pool.take(BufferSize::Small)).append(bytes);
        }
    }

    /// Appends bytes of the server that were in buffers of our own, sealed.
    pub(crate) fn append_data(
        &mut self,
        bytes: &[u8],
        seal: &mut impl RecordSealer,
        pool: &mut Pool,
    ) -> Result<(), KeyExhausted> {
        let layout = seal.layout();
        for part in bytes.chunks(self.sizing.limit.unwrap_or(PLAINTEXT_BYTES_MAX)) {
            self.release();
            let records = self.records.get_or_insert_with(|| pool.take(BufferSize::Small));
            // The first bytes after a pause get no record of their own, because a reply is short.
            let record_bytes = layout.head + part.len() + layout.tail;
            records.reserve(record_bytes);
            let record = &mut records.space()[..record_bytes];
            record[layout.head..][..part.len()].copy_from_slice(part);
            seal.seal(record)?;
            records.fill(record_bytes);
        }
        Ok(())
    }

    /// Holds waiting bytes for a moment, to be sent with later ones, if a full record has room
    /// behind them.
    pub(crate) fn hold(&mut self, now: Instant) {
        let has_room = |records: &mut Buffer| records.space().len() >= RECORD_ROOM;
        if !self.is_sent() && self.records.as_mut().is_some_and(has_room) {
            self.held_until = Some(now + HOLD_MAX);
        }
    }

    pub(crate) fn release(&mut self) {
        self.held_until = None;
    }

    /// Appends a record of ours behind the waiting bytes.
    pub(crate) fn append_record(
        &mut self,
        pool: &mut Pool,
        seal: impl FnOnce(&mut Vec<u8>) -> bool,
    ) {
        let mut out = std::mem::take(&mut pool.scratch);
        if seal(&mut out) {
            self.append(&out, pool);
        }
        out.clear();
        pool.scratch = out;
    }

    pub(crate) fn pending(&self) -> &[u8] {
        let records = self.records.as_ref().filter(|_| self.held_until.is_none());
        records.map_or(&[], |records| records.data())
    }

    /// Reports whether nothing waits, held or not.
    pub(crate) fn is_sent(&self) -> bool {
        self.records.as_ref().is_none_or(Buffer::is_empty)
    }

    /// Notes that `count` bytes went to the client.
    pub(crate) fn sent(&mut self, count: usize, pool: &mut Pool) {
        self.records.as_mut().expect("bytes were sent from this buffer").consume(count);
        pool.give_if_empty(&mut self.records);
    }

    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.release();
        pool.give_all(&mut self.records);
    }
}
