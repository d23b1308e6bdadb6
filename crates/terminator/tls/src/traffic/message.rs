//! What records come to, in the words of every record layer.

use std::fmt::{self, Display, Formatter};

use wire::alert;

use crate::record::RecordFault;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Incoming {
    /// So many bytes of application data stand at the start of the plaintext.
    Data(usize),
    /// Nothing for the application; a reply may be due.
    Control,
    /// The peer ended its stream.
    CloseNotify,
    /// The peer gave up, with this alert.
    FatalAlert(u8),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrafficFault {
    /// The peer sent a record that cannot be opened.
    Record(RecordFault),
    /// The peer sent a message that has no place here; the alert to answer with.
    Message(u8),
}

impl TrafficFault {
    /// The alert to answer with.
    pub fn alert(self) -> u8 {
        match self {
            Self::Record(fault) => fault.alert(),
            Self::Message(alert) => alert,
        }
    }
}

impl Display for TrafficFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(fault) => fault.fmt(f)?,
            Self::Message(alert::ILLEGAL_PARAMETER) => {
                f.write_str("a message has a wrong value")?
            }
            Self::Message(alert::DECODE_ERROR) => f.write_str("a message does not parse")?,
            Self::Message(_) => f.write_str("a message or alert that is not allowed here")?,
        }
        write!(f, "; answered with alert {}", alert::label(self.alert()))
    }
}

/// What the client's messages after the handshake come to in TLS 1.3, whose only one is a KeyUpdate
/// (RFC 8446 section 4.6.3). It may come in fragments; how many is bounded by its length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyUpdateReader {
    bytes: [u8; KEY_UPDATE_BYTES],
    count: usize,
}

const KEY_UPDATE_BYTES: usize = 5;

impl KeyUpdateReader {
    /// Whether a part of a message has come, and not the rest.
    pub(crate) fn is_waiting(&self) -> bool {
        self.count > 0
    }

    /// Takes the content of a record. `Some` is a whole KeyUpdate, and whether it asks for one in
    /// return.
    pub(crate) fn take(&mut self, content: &[u8]) -> Result<Option<bool>, TrafficFault> {
        const KEY_UPDATE: u8 = 24;
        const LENGTH: [u8; 3] = [0, 0, 1];
        for (to, from) in self.bytes.iter_mut().skip(self.count).zip(content) {
            *to = *from;
        }
        self.count += content.len();
        // A record without content is none (section 5.4).
        if content.is_empty() || self.bytes[0] != KEY_UPDATE {
            return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE));
        }
        let length = self.bytes.get(1..self.count.min(4)).unwrap_or_default();
        if !LENGTH.starts_with(length) {
            return Err(TrafficFault::Message(alert::DECODE_ERROR));
        }
        // It ends its record, since the next one is under other keys (section 5.1).
        if self.count > KEY_UPDATE_BYTES {
            return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE));
        }
        if self.count < KEY_UPDATE_BYTES {
            return Ok(None);
        }
        self.count = 0;
        match self.bytes[4] {
            0 => Ok(Some(false)),
            1 => Ok(Some(true)),
            _ => Err(TrafficFault::Message(alert::ILLEGAL_PARAMETER)),
        }
    }
}

/// The tickets that a server sends after the handshake in TLS 1.3 (RFC 8446 section 4.6.1). They
/// may come in fragments, and several in a record.
#[derive(Debug, Default)]
pub(crate) struct TicketReader {
    message: Vec<u8>,
}

/// The longest message with a ticket that is waited for, in bytes: that of a server that keeps a
/// client's chain in it has a few thousand.
const TICKET_MESSAGE_BYTES_MAX: usize = 32 << 10;

impl TicketReader {
    /// Whether a part of a message has come, and not the rest.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.message.is_empty()
    }

    /// Takes the tickets at the front of a record's content, and returns what follows them. `each`
    /// gets a message without its header, and says whether it is one.
    pub(crate) fn take<'c>(
        &mut self,
        mut content: &'c [u8],
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<&'c [u8], TrafficFault> {
        const NEW_SESSION_TICKET: u8 = 4;
        const HEADER_BYTES: usize = 4;
        while let Some(kind) = self.message.first().or_else(|| content.first()) {
            if *kind != NEW_SESSION_TICKET {
                break;
            }
            let wanted = match self.message.first_chunk::<HEADER_BYTES>() {
                None => HEADER_BYTES,
                Some(&[_, high, middle, low]) => {
                    HEADER_BYTES + u32::from_be_bytes([0, high, middle, low]) as usize
                }
            };
            let is_empty = self.message.len() == wanted;
            if is_empty || wanted > TICKET_MESSAGE_BYTES_MAX {
                return Err(TrafficFault::Message(alert::DECODE_ERROR));
            }
            let missing = (wanted - self.message.len()).min(content.len());
            let (part, rest) = content.split_at(missing);
            self.message.extend_from_slice(part);
            content = rest;
            if wanted == HEADER_BYTES && self.message.len() == wanted {
                continue;
            }
            if self.message.len() < wanted {
                break;
            }
            if !each(&self.message[HEADER_BYTES..]) {
                return Err(TrafficFault::Message(alert::DECODE_ERROR));
            }
            self.message = Vec::new();
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_update_is_read_at_any_split() {
        for (value, wants_reply) in [(0, false), (1, true)] {
            let message = [24, 0, 0, 1, value];
            for split in 1..=5 {
                let mut reader = KeyUpdateReader::default();
                let (head, tail) = message.split_at(split);
                let first = reader.take(head);
                if tail.is_empty() {
                    assert_eq!(first, Ok(Some(wants_reply)));
                } else {
                    assert_eq!(first, Ok(None));
                    assert!(reader.is_waiting());
                    assert_eq!(reader.take(tail), Ok(Some(wants_reply)));
                }
                assert!(!reader.is_waiting());
            }
        }
    }

    #[test]
    fn what_is_no_key_update_has_its_alert() {
        for (content, wanted) in [
            (&[][..], alert::UNEXPECTED_MESSAGE),
            (&[4], alert::UNEXPECTED_MESSAGE),
            (&[24, 0, 0, 0], alert::DECODE_ERROR),
            (&[24, 0, 0, 2, 0, 0], alert::DECODE_ERROR),
            (&[24, 0, 0, 1, 0, 24], alert::UNEXPECTED_MESSAGE),
            (&[24, 0, 0, 1, 2], alert::ILLEGAL_PARAMETER),
            (&[24, 0, 0, 1, 255], alert::ILLEGAL_PARAMETER),
        ] {
            let fault = KeyUpdateReader::default().take(content).unwrap_err();
            assert_eq!(fault.alert(), wanted, "{content:?}");
        }
    }

    #[test]
    fn tickets_are_read_at_any_split_and_together() {
        let two = [4, 0, 0, 3, 1, 2, 3, 4, 0, 0, 1, 9];
        for split in 0..=two.len() {
            let (mut reader, mut seen) = (TicketReader::default(), Vec::new());
            let mut take = |part: &[u8]| {
                let rest = reader.take(part, |ticket| {
                    seen.push(ticket.to_vec());
                    true
                });
                assert_eq!(rest, Ok(&[][..]));
                reader.is_waiting()
            };
            take(&two[..split]);
            assert!(!take(&two[split..]), "{split}");
            assert_eq!(seen, [vec![1, 2, 3], vec![9]], "{split}");
        }
    }

    #[test]
    fn what_follows_tickets_is_left_and_bad_ones_are_refused() {
        let mut reader = TicketReader::default();
        let rest = reader.take(&[4, 0, 0, 1, 7, 24, 0, 0, 1, 0], |_| true);
        assert_eq!(rest, Ok(&[24, 0, 0, 1, 0][..]));
        assert_eq!(reader.take(&[24, 0], |_| false), Ok(&[24, 0][..]));
        let refused = Err(TrafficFault::Message(alert::DECODE_ERROR));
        assert_eq!(reader.take(&[4, 0, 0, 1, 7], |_| false), refused);
        let mut reader = TicketReader::default();
        assert_eq!(reader.take(&[4, 1, 0, 0, 7], |_| true), refused);
        let mut reader = TicketReader::default();
        assert_eq!(
            reader.take(&[4, 0, 0, 0], |_| true),
            refused,
            "an empty one"
        );
    }
}
