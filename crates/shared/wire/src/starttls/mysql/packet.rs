//! Packets of the MySQL protocol: a length of three bytes, a sequence number, a payload.
//!
//! Owns framing and sequence numbers of one peer, and the bytes by which payloads of servers begin.
//! Source: MySQL Internals, "MySQL Packets"; MariaDB Knowledge Base, "0 - Packet".

/// Length (3 bytes, little-endian) and sequence number.
pub(super) const HEADER_BYTES: usize = 4;

/// The server accepted the login (`OK_Packet`).
pub(super) const OK: u8 = 0;
/// An authentication plugin says more (`AuthMoreData`).
pub(super) const MORE_DATA: u8 = 1;
/// The server asks for another factor (`AuthNextFactorRequest`).
pub(super) const NEXT_FACTOR: u8 = 2;
/// The server asks for another plugin (`AuthSwitchRequest`).
pub(super) const SWITCH: u8 = 0xfe;
pub(super) const ERROR: u8 = 0xff;

/// The most bytes of a payload before the login is over. A login carries at most 64 KiB of
/// connection attributes; servers themselves allow `net_buffer_length`, 16 KiB by default.
pub(super) const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// A peer's bytes are no packet that may come now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PacketFault {
    TooLarge,
    /// The number does not follow that of the packet before.
    OutOfOrder,
}

/// The client or the server: what it sent and was not read yet, and the number of the next packet
/// that goes to it or comes from it.
///
/// Packets of both directions are numbered together, so one that we take from one peer and do not
/// send to the other shifts all later numbers.
#[derive(Default)]
pub(super) struct Peer {
    received: Vec<u8>,
    sequence: u8,
}

impl Peer {
    /// Keeps what it sent; a fault once that is more than any packet may have.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), PacketFault> {
        if self.received.len() + bytes.len() > 2 * (HEADER_BYTES + PAYLOAD_BYTES_MAX) {
            return Err(PacketFault::TooLarge);
        }
        self.received.extend_from_slice(bytes);
        Ok(())
    }

    /// The payload of its next packet; `None` = not all of it is here.
    pub(super) fn take(&mut self) -> Result<Option<Vec<u8>>, PacketFault> {
        let Some((length, sequence)) = header(&self.received) else {
            return Ok(None);
        };
        if length > PAYLOAD_BYTES_MAX {
            return Err(PacketFault::TooLarge);
        }
        if sequence != self.sequence {
            return Err(PacketFault::OutOfOrder);
        }
        let end = HEADER_BYTES + length;
        let Some(payload) = self.received.get(HEADER_BYTES..end) else {
            return Ok(None);
        };
        let payload = payload.to_vec();
        self.received.drain(..end);
        self.sequence = self.sequence.wrapping_add(1);
        Ok(Some(payload))
    }

    /// Whether a whole packet is here.
    pub(super) fn has_packet(&self) -> bool {
        let length = header(&self.received).map(|(length, _)| length);
        length.is_some_and(|length| self.received.len() - HEADER_BYTES >= length)
    }

    /// Appends a packet to it with the next number. The payload is no longer than one of
    /// [`Self::take`], or one of ours.
    pub(super) fn put(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        self.write(payload, out);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// The same, but for the last packet.
    pub(super) fn write(&self, payload: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(payload.len()).expect("payloads are bounded");
        out.extend_from_slice(&length.to_le_bytes()[..3]);
        out.push(self.sequence);
        out.extend_from_slice(payload);
    }

    /// Takes the bytes beyond the packets that were taken.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }
}

fn header(bytes: &[u8]) -> Option<(usize, u8)> {
    let &[low, middle, high, sequence] = bytes.first_chunk()?;
    let length = u32::from_le_bytes([low, middle, high, 0]);
    Some((usize::try_from(length).ok()?, sequence))
}
