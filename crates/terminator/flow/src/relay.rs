//! The two directions of an established connection: records to plaintext and plaintext to records.
//!
//! Owns the bytes on their way and when more may be read: a direction reads on only after what it
//! read before has been sent, so a slow reader on one side holds back the writer on the other
//! (back-pressure), and a direction never holds more than one buffer of each kind.

use std::time::{Duration, Instant};

use tls::record::{KeyExhausted, OVERHEAD_BYTES_MAX, PLAINTEXT_BYTES_MAX, RecordLayout};
use tls::traffic::{RecordContent, RecordSealer, Traffic, TrafficFault};

use crate::buffer::{Buffer, BufferSize, Inbox, Pool, RECORDS_LARGE};
use crate::record_sizing::{RecordSizing, SHORT_OVERHEAD_BYTES_MAX};

/// How long tickets wait for an answer to be sent with. It saves a packet of their own, and a
/// client that opens more connections meanwhile does not resume.
const HOLD_MAX: Duration = Duration::from_millis(50);

/// The room that one read takes when it is encrypted.
const RECORD_ROOM: usize = PLAINTEXT_BYTES_MAX + OVERHEAD_BYTES_MAX + SHORT_OVERHEAD_BYTES_MAX;

/// The layout of bytes that are relayed as they come.
pub(crate) const AS_IS: RecordLayout = RecordLayout { head: 0, tail: 0 };

/// How a side's stream of bytes ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StreamEnd {
    CloseNotify,
    Fin,
    /// With TCP's FIN, where no TLS of ours could say more.
    Plain,
}

/// The result of decrypting records.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Decrypted {
    /// Bytes of application data.
    pub(crate) bytes: usize,
    pub(crate) controls: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DecryptFault {
    /// A record or message that is not allowed.
    Traffic(TrafficFault),
    /// The client's own fatal alert.
    Alert(u8),
}

/// The fault after which nothing more can be relayed from a server's records to the client's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RelayFault {
    /// The server sent a record or message that is not allowed.
    Server(TrafficFault),
    /// The key that the client's records are sealed with may not be used any more.
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

/// From the client to the server.
#[derive(Debug, Default)]
pub(crate) struct Up {
    /// Records as they came; before the handshake is over, its messages.
    pub(crate) inbox: Inbox,
    /// The plaintext of the records, not yet sent on.
    pub(crate) plain: Option<Buffer>,
    pub(crate) end: Option<StreamEnd>,
    /// The server takes no more: what the client still sends has no reader.
    pub(crate) is_refused: bool,
}

/// From the server to the client.
#[derive(Debug, Default)]
pub(crate) struct Down {
    /// Records not yet sent; before the handshake is over, its messages.
    pub(crate) records: Option<Buffer>,
    /// They wait for others to be sent with, no longer than this.
    pub(crate) held_until: Option<Instant>,
    pub(crate) is_ended: bool,
    is_bulk: bool,
    sizing: RecordSizing,
}

impl Up {
    /// The room for records, or for a message that may be longer; `None` = nothing is read now.
    pub(crate) fn room(&mut self, is_message: bool, pool: &mut Pool) -> Option<&mut [u8]> {
        if self.plain.is_some() || self.end.is_some() || self.is_refused {
            return None;
        }
        Some(if is_message { self.inbox.message_room(pool) } else { self.inbox.room(pool) })
    }

    /// Takes what has come as it is: there is no TLS of ours around it. Returns the bytes.
    pub(crate) fn pass(&mut self) -> usize {
        let Some(bytes) = self.inbox.buffer.take() else {
            return 0;
        };
        let count = bytes.data().len();
        self.plain = Some(bytes);
        count
    }

    /// Opens the whole records that are there.
    pub(crate) fn decrypt(
        &mut self,
        traffic: &mut Traffic,
        pool: &mut Pool,
    ) -> Result<Decrypted, DecryptFault> {
        let mut decrypted = Decrypted::default();
        let Some(records) = self.inbox.buffer.as_mut().filter(|_| self.end.is_none()) else {
            return Ok(decrypted);
        };
        // What was decrypted before has been sent, or is early data: that waits for a server.
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
            // Nothing after close_notify counts (RFC 8446 section 6.1).
            pool.give_all(&mut self.inbox.buffer);
        }
        self.inbox.keep_rest(pool);
        Ok(decrypted)
    }

    /// Adds early data, which the handshake has decrypted. What no server has taken is held; how
    /// much there can be is bounded by the service's setting.
    pub(crate) fn add_early(&mut self, bytes: &[u8], pool: &mut Pool) {
        if !self.is_refused {
            self.plain.get_or_insert_with(|| pool.take(BufferSize::Small)).append(bytes);
        }
    }

    /// Bytes that no server has been sent yet.
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

impl Down {
    /// The room for plaintext: pieces of a record's size, to be filled in order with one
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

    /// No record carries more than this.
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
        // Once a read no longer fills one record, small buffers do.
        self.is_bulk = count >= PLAINTEXT_BYTES_MAX;
        self.held_until = None;
        assert!(count <= count_max * PLAINTEXT_BYTES_MAX, "no more came than there was room");
        seal_laid_out(records, &mut self.sizing, count, layout, seal)
    }

    /// Opens the whole records of a server that are there and find room, and seals what they carry
    /// where it lies; the bytes of it, and the first thing in them that is no data.
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
            // What is opened is no longer than its record.
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

    /// Whether the last read was of at least a full record.
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

    /// Appends bytes of the server's that were in hands of our own, sealed.
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
            // Without a record of its own for the first bytes after a pause: a reply is short.
            let record_bytes = layout.head + part.len() + layout.tail;
            records.reserve(record_bytes);
            let record = &mut records.space()[..record_bytes];
            record[layout.head..][..part.len()].copy_from_slice(part);
            seal.seal(record)?;
            records.fill(record_bytes);
        }
        Ok(())
    }

    /// Keeps what waits for a moment, to be sent with what follows, if a full record finds room
    /// behind it.
    pub(crate) fn hold(&mut self, now: Instant) {
        let has_room = |records: &mut Buffer| records.space().len() >= RECORD_ROOM;
        if !self.is_sent() && self.records.as_mut().is_some_and(has_room) {
            self.held_until = Some(now + HOLD_MAX);
        }
    }

    pub(crate) fn release(&mut self) {
        self.held_until = None;
    }

    /// Appends a record of ours behind what waits to be sent, if it can be records.
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

    /// Whether nothing waits, held or not.
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
