//! The two directions of an established connection: records to plaintext and plaintext to records.
//!
//! Owns the bytes on their way and when more may be read: a direction reads on only after what it
//! read before has been sent, so a slow reader on one side holds back the writer on the other
//! (back-pressure), and a direction never holds more than one buffer of each kind.

use tls::record::{KeyExhausted, Layout, PLAINTEXT_BYTES_MAX};
use tls::traffic::{Incoming, RecordSealer, Traffic, TrafficFault};

use crate::buffer::{Buffer, Pool, RECORDS_LARGE, Size};
use crate::growth::Growth;

/// How a side's stream of bytes ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StreamEnd {
    /// With close_notify.
    CloseNotify,
    /// With TCP's FIN alone.
    Fin,
}

/// What came of the records that were opened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Opened {
    /// Bytes of application data.
    pub(crate) bytes: usize,
    /// Records that carried none.
    pub(crate) controls: u32,
}

/// Why opening stopped for good.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OpenFault {
    /// A record or message that is not allowed.
    Traffic(TrafficFault),
    /// The client's own fatal alert.
    Alert(u8),
}

/// From the client to the server.
#[derive(Debug, Default)]
pub(crate) struct Up {
    /// Records as they came; before the handshake is over, its messages.
    pub(crate) sealed: Option<Buffer>,
    /// What was in them, not yet sent on.
    pub(crate) plain: Option<Buffer>,
    pub(crate) end: Option<StreamEnd>,
    /// The server takes no more: what the client still sends has no reader.
    pub(crate) is_refused: bool,
    is_bulk: bool,
}

/// From the server to the client.
#[derive(Debug, Default)]
pub(crate) struct Down {
    /// Records not yet sent; before the handshake is over, its messages.
    pub(crate) sealed: Option<Buffer>,
    pub(crate) is_ended: bool,
    is_bulk: bool,
    growth: Growth,
}

impl Up {
    /// Where to receive; `None` = not now.
    pub(crate) fn room(&mut self, pool: &mut Pool) -> Option<&mut [u8]> {
        if self.plain.is_some() || self.end.is_some() || self.is_refused {
            return None;
        }
        let is_bulk = self.is_bulk;
        Some(
            self.sealed
                .get_or_insert_with(|| pool.take_for(is_bulk))
                .space(),
        )
    }

    /// Where to receive the handshake: a message of it may be longer than one record, and the large
    /// buffer bounds it.
    pub(crate) fn opening_room(&mut self, pool: &mut Pool) -> &mut [u8] {
        let incoming = self.sealed.get_or_insert_with(|| pool.take(Size::Small));
        if incoming.space().is_empty() {
            incoming.compact();
        }
        if incoming.space().is_empty() && !incoming.is_large() {
            let mut larger = pool.take(Size::Large);
            larger.append(incoming.data());
            pool.give(std::mem::replace(incoming, larger));
        }
        incoming.space()
    }

    /// Where to receive what nobody reads.
    pub(crate) fn dropping_room(&mut self, pool: &mut Pool) -> &mut [u8] {
        let dropped = self.sealed.get_or_insert_with(|| pool.take(Size::Small));
        dropped.consume(dropped.data().len());
        dropped.compact();
        dropped.space()
    }

    /// Takes note of `count` received bytes; whole records are opened by [`Up::open`].
    pub(crate) fn received(&mut self, count: usize) {
        let sealed = self
            .sealed
            .as_mut()
            .expect("bytes were received into this buffer");
        sealed.fill(count);
        self.is_bulk = sealed.space().is_empty();
    }

    /// Opens the whole records that are there.
    pub(crate) fn open(
        &mut self,
        traffic: &mut Traffic,
        pool: &mut Pool,
    ) -> Result<Opened, OpenFault> {
        let mut opened = Opened::default();
        if self.sealed.is_none() || self.end.is_some() {
            return Ok(opened);
        }
        // What was opened before has been sent, or is early data: that waits for a server.
        if let (Some(plain), Some(sealed)) = (&mut self.plain, &self.sealed) {
            plain.reserve(sealed.data().len());
        }
        while self.end.is_none() {
            let sealed = self.sealed.as_mut().expect("checked above");
            let Some(record_bytes) = traffic
                .record_bytes(sealed.data())
                .map_err(OpenFault::Traffic)?
            else {
                break;
            };
            let Some(record) = sealed.data().get(..record_bytes) else {
                break;
            };
            let size = if sealed.is_large() {
                Size::Large
            } else {
                Size::Small
            };
            let plain = self.plain.get_or_insert_with(|| pool.take(size));
            let incoming = traffic
                .open(record, plain.space())
                .map_err(OpenFault::Traffic)?;
            sealed.consume(record_bytes);
            match incoming {
                Incoming::Data(bytes) => {
                    plain.fill(bytes);
                    opened.bytes += bytes;
                }
                Incoming::Control => opened.controls += 1,
                Incoming::CloseNotify => self.end = Some(StreamEnd::CloseNotify),
                Incoming::FatalAlert(alert) => return Err(OpenFault::Alert(alert)),
            }
        }
        pool.give_if_empty(&mut self.plain);
        self.keep_rest(pool);
        Ok(opened)
    }

    /// Adds early data, which the handshake has opened. What no server has taken is held; how much
    /// there can be is bounded by the service's setting.
    pub(crate) fn add_early(&mut self, bytes: &[u8], pool: &mut Pool) {
        if !self.is_refused {
            self.plain
                .get_or_insert_with(|| pool.take(Size::Small))
                .append(bytes);
        }
    }

    /// Takes note that no server takes any more. While the handshake goes on, its bytes are kept.
    pub(crate) fn refuse(&mut self, is_shaking: bool, pool: &mut Pool) {
        self.is_refused = true;
        pool.give_all(&mut self.plain);
        if !is_shaking {
            pool.give_all(&mut self.sealed);
        }
    }

    /// Keeps a record that is not yet whole, in a larger buffer if the client sends in bulk.
    fn keep_rest(&mut self, pool: &mut Pool) {
        if self.end.is_some() {
            // Nothing after close_notify counts (RFC 8446 section 6.1).
            pool.give_all(&mut self.sealed);
        }
        pool.give_if_empty(&mut self.sealed);
        let Some(rest) = &mut self.sealed else { return };
        // A connection that has paused must not keep a large buffer for half a record.
        if self.is_bulk != rest.is_large() {
            let mut fitting = pool.take_for(self.is_bulk);
            fitting.append(rest.data());
            pool.give(std::mem::replace(rest, fitting));
        } else {
            rest.compact();
        }
    }

    /// Says that `count` bytes went to the server.
    pub(crate) fn sent(&mut self, count: usize, pool: &mut Pool) {
        self.plain
            .as_mut()
            .expect("bytes were sent from this buffer")
            .consume(count);
        pool.give_if_empty(&mut self.plain);
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        pool.give_all(&mut self.sealed);
        pool.give_all(&mut self.plain);
    }
}

impl Down {
    /// Where to receive: pieces of a record's plaintext size, to be filled in order with one
    /// vectored read; `None` = not now.
    pub(crate) fn room<'a>(
        &'a mut self,
        layout: Layout,
        pool: &mut Pool,
    ) -> Option<impl Iterator<Item = &'a mut [u8]> + use<'a>> {
        if self.is_ended
            || self
                .sealed
                .as_ref()
                .is_some_and(|sealed| !sealed.is_empty())
        {
            return None;
        }
        let is_bulk = self.is_bulk;
        let sealed = self.sealed.get_or_insert_with(|| pool.take_for(is_bulk));
        let records = if sealed.is_large() { RECORDS_LARGE } else { 1 };
        let pieces = sealed
            .space()
            .chunks_exact_mut(layout.stride())
            .take(records);
        Some(pieces.map(move |record| &mut record[layout.head..][..PLAINTEXT_BYTES_MAX]))
    }

    /// Gives back the room if nothing was received into it.
    pub(crate) fn received_nothing(&mut self, pool: &mut Pool) {
        pool.give_if_empty(&mut self.sealed);
    }

    /// Takes note of a pause: the first records after it are short again.
    pub(crate) fn paused(&mut self) {
        self.growth.restart();
    }

    /// Seals `count` bytes that were received into the room.
    pub(crate) fn received(
        &mut self,
        count: usize,
        seal: &mut impl RecordSealer,
    ) -> Result<(), KeyExhausted> {
        let layout = seal.layout();
        let sealed = self
            .sealed
            .as_mut()
            .expect("bytes were received into this buffer");
        let records = if sealed.is_large() { RECORDS_LARGE } else { 1 };
        // Once a read no longer fills one record, small buffers do.
        self.is_bulk = count >= PLAINTEXT_BYTES_MAX;
        assert!(
            count <= records * PLAINTEXT_BYTES_MAX,
            "no more came than there was room"
        );
        for plain_bytes in self.growth.lay_out(sealed.space(), count, layout) {
            let record_bytes = layout.head + plain_bytes + layout.tail;
            seal.seal(&mut sealed.space()[..record_bytes])?;
            sealed.fill(record_bytes);
        }
        Ok(())
    }

    /// Appends bytes that are ready to be sent: a handshake's, an alert's.
    pub(crate) fn append(&mut self, bytes: &[u8], pool: &mut Pool) {
        if !bytes.is_empty() {
            self.sealed
                .get_or_insert_with(|| pool.take(Size::Small))
                .append(bytes);
        }
    }

    /// Appends a record of ours behind what waits to be sent, if it can be sealed.
    pub(crate) fn say(&mut self, pool: &mut Pool, seal: impl FnOnce(&mut Vec<u8>) -> bool) {
        let mut out = std::mem::take(&mut pool.scratch);
        if seal(&mut out) {
            self.append(&out, pool);
        }
        out.clear();
        pool.scratch = out;
    }

    /// What waits to be sent.
    pub(crate) fn pending(&self) -> &[u8] {
        self.sealed.as_ref().map_or(&[], |sealed| sealed.data())
    }

    /// Says that `count` bytes went to the client.
    pub(crate) fn sent(&mut self, count: usize, pool: &mut Pool) {
        self.sealed
            .as_mut()
            .expect("bytes were sent from this buffer")
            .consume(count);
        pool.give_if_empty(&mut self.sealed);
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        pool.give_all(&mut self.sealed);
    }
}
