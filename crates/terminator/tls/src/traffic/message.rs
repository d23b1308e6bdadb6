//! What records come to, in the words of every record layer.

use std::fmt::{self, Display, Formatter};

use wire::alert;

use crate::record::RecordFault;

/// What a record meant.
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

/// Why an established connection cannot go on.
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
}
