//! The record layer of the TLS library, which goes on after the handshake and keeps the keys.
//!
//! Owns the drive of the library's unbuffered interface on an established connection. It is there
//! for those who do not trust `in_place`, and as its touchstone: it copies every byte twice more.

use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus, WriteTraffic,
};
use rustls::{Error, InvalidMessage, SupportedCipherSuite};
use wire::alert;

use crate::options::{Suite, Version};
use crate::record::{
    ContentType, HEADER_BYTES, KeyExhausted, Layout, RecordFault, RecordSealer,
    expansion_bytes_max, record_bytes,
};
use crate::secrets::SendingKeys;
use crate::traffic::kernel::ALERT_LEVEL_FATAL;
use crate::traffic::message::{Incoming, KeyUpdateReader, TrafficFault};

/// Records before a key's limit at which it is changed: those of some batches. The library would
/// change it by itself at the limit, in the midst of data, for which there is no room.
const RECORDS_MARGIN: u64 = 1 << 12;

/// Both directions of an established connection, with the keys in the library's hands.
pub struct Library {
    connection: UnbufferedServerConnection,
    version: Version,
    layout: Layout,
    /// Records of ours that have to go out before more is sealed. The library seals its answer to a
    /// KeyUpdate when it reads it, and uses the next key at once.
    due: Vec<u8>,
    /// Records sealed under the present key.
    sealed: u64,
    sealed_max: u64,
    /// For alerts that the library does not have.
    keys: Option<SendingKeys>,
    /// Records with the beginning of a message, which the library must be shown again before the
    /// rest of it.
    held: Vec<u8>,
    incoming_update: KeyUpdateReader,
    /// After a fault the library must not be asked to read any more: it may hold a part of a
    /// message, and looks for it where it was.
    is_broken: bool,
}

impl RecordSealer for Library {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn seal(&mut self, record: &mut [u8]) -> Result<(), KeyExhausted> {
        assert!(self.due.is_empty(), "what is due goes out first");
        let Layout { head, tail } = self.layout;
        let plain = record[head..record.len() - tail].to_vec();
        match self.write(|writing| writing.encrypt(&plain, record)) {
            Some(Ok(written)) => {
                assert_eq!(written, record.len(), "a record is laid out as ours");
                self.sealed += 1;
                Ok(())
            }
            // At its limit the library has a close_notify ready, as if the stream were whole.
            Some(Err(_)) | None => {
                self.is_broken = true;
                Err(KeyExhausted)
            }
        }
    }
}

impl Library {
    /// Goes on with a handshake that is done; `sealed` = how many records its last key, which is in
    /// `keys`, has sealed.
    ///
    /// `None` if the library agreed on a suite that we do not know.
    pub(crate) fn new(
        connection: UnbufferedServerConnection,
        sealed: u64,
        keys: Option<SendingKeys>,
    ) -> Option<Self> {
        let suite = connection.negotiated_cipher_suite()?;
        let common = match suite {
            SupportedCipherSuite::Tls13(suite) => &suite.common,
            SupportedCipherSuite::Tls12(suite) => &suite.common,
        };
        let known = Suite::from_code(u16::from(common.suite))?;
        Some(Self {
            version: known.version(),
            layout: Layout::of(known.version(), known.cipher()),
            due: Vec::new(),
            held: Vec::new(),
            incoming_update: KeyUpdateReader::default(),
            keys,
            sealed,
            sealed_max: common.confidentiality_limit,
            is_broken: false,
            connection,
        })
    }

    pub(super) fn record_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, TrafficFault> {
        record_bytes(bytes, expansion_bytes_max(self.version)).map_err(TrafficFault::Record)
    }

    pub(super) fn open(
        &mut self,
        record: &[u8],
        plain: &mut [u8],
    ) -> Result<Incoming, TrafficFault> {
        if self.is_broken {
            return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE));
        }
        let mut records = std::mem::take(&mut self.held);
        let newest = records.len();
        records.extend_from_slice(record);
        let opened = self.show(&mut records, newest, plain);
        self.is_broken |= opened.is_err();
        // While one answer waits to go out, the library keeps one for all requests that follow.
        if opened == Ok(Incoming::Control) && self.held.is_empty() && self.due.is_empty() {
            self.collect_answer();
        }
        opened
    }

    /// Shows the library records, of which those before `newest` are held, until it is done.
    fn show(
        &mut self,
        record: &mut [u8],
        newest: usize,
        plain: &mut [u8],
    ) -> Result<Incoming, TrafficFault> {
        let mut incoming = Incoming::Control;
        let mut consumed = 0;
        loop {
            let window = record.get_mut(consumed..).unwrap_or_default();
            let UnbufferedStatus { discard, state, .. } =
                self.connection.process_tls_records(window);
            consumed += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut data)) => {
                    while let Some(opened) = data.next_record() {
                        let payload = opened.map_err(|error| fault_of(&error))?.payload;
                        let place = plain.get_mut(..payload.len());
                        let overflow = TrafficFault::Record(RecordFault::Overflow);
                        place.ok_or(overflow)?.copy_from_slice(payload);
                        incoming = Incoming::Data(payload.len());
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let unexpected = TrafficFault::Message(alert::UNEXPECTED_MESSAGE);
                    append_encoded(&mut data, &mut self.due).map_err(|_| unexpected)?;
                    self.sealed += 1;
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::PeerClosed) => incoming = Incoming::CloseNotify,
                Ok(ConnectionState::WriteTraffic(_) | ConnectionState::Closed) => break,
                Err(Error::AlertReceived(alert)) => {
                    self.is_broken = true;
                    return Ok(Incoming::FatalAlert(alert.into()));
                }
                Err(error) => return Err(fault_of(&error)),
                Ok(_) => return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE)),
            }
        }
        self.held = record.get(consumed..).unwrap_or_default().to_vec();
        if self.held.is_empty() {
            self.incoming_update = KeyUpdateReader::default();
        } else {
            // It may wait for the rest of a KeyUpdate, and for nothing else.
            let content = handshake_content(record.get(newest..).unwrap_or_default());
            let unexpected = TrafficFault::Message(alert::UNEXPECTED_MESSAGE);
            let content = content.filter(|_| self.version == Version::Tls13);
            self.incoming_update.take(content.ok_or(unexpected)?)?;
        }
        Ok(incoming)
    }

    /// Takes the answer to a KeyUpdate, which the library keeps back until data is sealed.
    fn collect_answer(&mut self) {
        if self.version == Version::Tls13 && !self.is_broken {
            // Of data for which there is no space it seals nothing, but lets go of the answer.
            let refused = self.write(|writing| writing.encrypt(&[0], &mut []));
            debug_assert!(matches!(refused, Some(Err(_))), "no record is so short");
            let due_bytes = self.due.len();
            self.collect();
            if self.due.len() > due_bytes {
                self.start_key();
            }
        }
    }

    /// Takes all that the library has to say.
    fn collect(&mut self) {
        while self.connection.wants_write() {
            let state = self.connection.process_tls_records(&mut self.held).state;
            let Ok(ConnectionState::EncodeTlsData(mut data)) = state else {
                return;
            };
            if append_encoded(&mut data, &mut self.due).is_err() {
                return;
            }
            self.sealed += 1;
        }
    }

    /// Does something with the library's sealing half; `None` = it seals no more.
    fn write<T>(
        &mut self,
        act: impl FnOnce(&mut WriteTraffic<'_, ServerConnectionData>) -> T,
    ) -> Option<T> {
        if self.is_broken {
            return None;
        }
        loop {
            match self.connection.process_tls_records(&mut self.held).state {
                Ok(ConnectionState::WriteTraffic(mut writing)) => return Some(act(&mut writing)),
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                _ => return None,
            }
        }
    }

    pub(super) fn is_control_due(&self) -> bool {
        !self.due.is_empty() || self.is_key_limit_reached()
    }

    /// As after so many records that the next one brings the key to its end.
    #[cfg(test)]
    pub(crate) fn approach_key_limit(&mut self) {
        self.sealed = self.sealed_max - RECORDS_MARGIN - 1;
    }

    fn is_key_limit_reached(&self) -> bool {
        self.version == Version::Tls13 && self.sealed >= self.sealed_max - RECORDS_MARGIN
    }

    pub(super) fn seal_control(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        if self.is_key_limit_reached() {
            self.update_key()?;
        }
        self.send_answers(out);
        Ok(())
    }

    /// Appends what is due, and then the one answer that the library kept back meanwhile.
    fn send_answers(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.due);
        self.collect_answer();
        out.append(&mut self.due);
    }

    /// Asks for new keys in both directions: the library knows no other KeyUpdate.
    fn update_key(&mut self) -> Result<(), KeyExhausted> {
        let state = self.connection.process_tls_records(&mut self.held).state;
        let Ok(ConnectionState::WriteTraffic(writing)) = state else {
            return Err(KeyExhausted);
        };
        writing.refresh_traffic_keys().map_err(|_| KeyExhausted)?;
        self.collect();
        self.start_key();
        Ok(())
    }

    /// Takes note that the library has changed the key that it seals with.
    fn start_key(&mut self) {
        self.sealed = 0;
        if let Some(keys) = &mut self.keys {
            keys.update();
        }
    }

    pub(super) fn seal_close_notify(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        self.send_answers(out);
        let refused = self.write(|writing| writing.queue_close_notify(&mut []).is_err());
        refused.ok_or(KeyExhausted)?;
        self.collect();
        out.append(&mut self.due);
        Ok(())
    }

    /// The alert takes the place of the one that the library has ready after a
    /// fault that it found, which may be another than the RFC's.
    pub(super) fn seal_alert(
        &mut self,
        description: u8,
        out: &mut Vec<u8>,
    ) -> Result<(), KeyExhausted> {
        self.send_answers(out);
        let sequence = self.sealed;
        self.collect();
        let librarys = std::mem::take(&mut self.due);
        // The library seals nothing more: it would use this record's number again.
        self.is_broken = true;
        let Some(mut sealer) = self.keys.take().and_then(|keys| keys.sealer(sequence)) else {
            out.extend_from_slice(&librarys);
            return Ok(());
        };
        sealer.append(ContentType::Alert, &[ALERT_LEVEL_FATAL, description], out)
    }
}

/// Appends what the library has ready.
pub(crate) fn append_encoded<Side>(
    data: &mut EncodeTlsData<'_, Side>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let start = out.len();
    // The library tells the size by refusing an empty space.
    let size = match data.encode(&mut []) {
        Ok(written) => written,
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        Err(EncodeError::AlreadyEncoded) => 0,
    };
    out.resize(start + size, 0);
    match data.encode(&mut out[start..]) {
        Ok(_) | Err(EncodeError::AlreadyEncoded) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What is in a record of TLS 1.3 with handshake messages, which the library has opened where it
/// lies (RFC 8446 section 5.2); `None` = it has not.
fn handshake_content(record: &[u8]) -> Option<&[u8]> {
    let Layout { tail, .. } = Layout::TLS13;
    let inner = record.get(HEADER_BYTES..record.len().checked_sub(tail - 1)?)?;
    let end = inner.iter().rposition(|byte| *byte != 0)?;
    (inner[end] == ContentType::Handshake.code()).then(|| &inner[..end])
}

fn fault_of(error: &Error) -> TrafficFault {
    match error {
        Error::DecryptError => TrafficFault::Record(RecordFault::BadMac),
        Error::PeerSentOversizedRecord => TrafficFault::Record(RecordFault::Overflow),
        Error::InvalidMessage(InvalidMessage::InvalidKeyUpdate) => {
            TrafficFault::Message(alert::ILLEGAL_PARAMETER)
        }
        // An alert without content (RFC 8446 section 5.4).
        Error::InvalidMessage(
            InvalidMessage::MissingData("AlertLevel") | InvalidMessage::InvalidEmptyPayload,
        ) => TrafficFault::Message(alert::UNEXPECTED_MESSAGE),
        Error::InvalidMessage(_) => TrafficFault::Message(alert::DECODE_ERROR),
        _ => TrafficFault::Message(alert::UNEXPECTED_MESSAGE),
    }
}
