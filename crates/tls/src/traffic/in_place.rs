//! The record layer that seals and opens where the bytes lie.
//!
//! Owns what a record means after the handshake; how records look is `record`'s, how the keys came
//! to be is `handshake`'s. Holds no buffers.

use rustls::ConnectionTrafficSecrets;
use rustls::kernel::KernelConnection;

use crate::options::Version;
use crate::record::{ContentType, KeyExhausted, Layout, Opener, Seal, Sealer};
use crate::traffic::message::{
    ALERT_CLOSE_NOTIFY, ALERT_DECODE_ERROR, ALERT_NO_RENEGOTIATION, ALERT_UNEXPECTED_MESSAGE,
    ALERT_USER_CANCELED, Incoming, TrafficFault,
};

/// Records in a row that carry no data before the peer is taken for hostile, as in BoringSSL
/// (`kMaxEmptyRecords`, `kMaxKeyUpdates`).
const EMPTY_RECORDS_MAX: u8 = 32;

const ALERT_LEVEL_WARNING: u8 = 1;
const ALERT_LEVEL_FATAL: u8 = 2;

const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const HANDSHAKE_HELLO_REQUEST: u8 = 0;
/// A KeyUpdate without its last byte, `request_update` (RFC 8446 section 4.6.3).
const KEY_UPDATE_HEAD: [u8; 4] = [24, 0, 0, 1];

/// Makes the keys that follow a KeyUpdate.
pub trait NextSecrets: Send {
    /// For sealing.
    fn next_sealing(&mut self) -> Option<ConnectionTrafficSecrets>;
    /// For opening.
    fn next_opening(&mut self) -> Option<ConnectionTrafficSecrets>;
}

impl<Side: Send> NextSecrets for KernelConnection<Side> {
    fn next_sealing(&mut self) -> Option<ConnectionTrafficSecrets> {
        self.update_tx_secret().ok().map(|(_, secrets)| secrets)
    }

    fn next_opening(&mut self) -> Option<ConnectionTrafficSecrets> {
        self.update_rx_secret().ok().map(|(_, secrets)| secrets)
    }
}

/// Both directions of an established connection, with the keys in our own hands.
pub struct InPlace {
    sealer: Sealer,
    opener: Opener,
    /// `None` in TLS 1.2, which has no KeyUpdate.
    secrets: Option<Box<dyn NextSecrets>>,
    version: Version,
    key_update_due: bool,
    refusal_due: bool,
    empty_records: u8,
}

impl Seal for InPlace {
    fn layout(&self) -> Layout {
        self.sealer.layout()
    }

    fn seal(&mut self, record: &mut [u8]) -> Result<(), KeyExhausted> {
        self.sealer.seal(ContentType::ApplicationData, record)?;
        self.key_update_due |= self.secrets.is_some() && self.sealer.is_worn();
        Ok(())
    }
}

impl InPlace {
    /// Joins the two directions; `secrets` is needed in TLS 1.3.
    pub fn new(
        version: Version,
        sealer: Sealer,
        opener: Opener,
        secrets: Box<dyn NextSecrets>,
    ) -> Self {
        let secrets = (version == Version::Tls13).then_some(secrets);
        Self {
            sealer,
            opener,
            secrets,
            version,
            key_update_due: false,
            refusal_due: false,
            empty_records: 0,
        }
    }

    /// The length of the record at the start of `bytes`; `None` = its header is not yet there.
    pub fn record_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, TrafficFault> {
        self.opener
            .record_bytes(bytes)
            .map_err(TrafficFault::Record)
    }

    /// Opens one whole record into the start of `plain`, which is at least as long.
    pub fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<Incoming, TrafficFault> {
        let (kind, bytes) = self
            .opener
            .open(record, plain)
            .map_err(TrafficFault::Record)?;
        if kind == ContentType::ApplicationData && bytes > 0 {
            self.empty_records = 0;
            return Ok(Incoming::Data(bytes));
        }
        self.empty_records += 1;
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(TrafficFault::Message(ALERT_UNEXPECTED_MESSAGE));
        }
        let content = plain.get(..bytes).unwrap_or_default();
        match kind {
            ContentType::ApplicationData => Ok(Incoming::Control),
            ContentType::Alert => self.take_alert(content),
            ContentType::Handshake => self.take_handshake(content),
            ContentType::ChangeCipherSpec => Err(TrafficFault::Message(ALERT_UNEXPECTED_MESSAGE)),
        }
    }

    fn take_alert(&self, content: &[u8]) -> Result<Incoming, TrafficFault> {
        let &[level, description] = content else {
            return Err(TrafficFault::Message(ALERT_DECODE_ERROR));
        };
        match (level, description) {
            (_, ALERT_CLOSE_NOTIFY) => Ok(Incoming::CloseNotify),
            (_, ALERT_USER_CANCELED) => Ok(Incoming::Control),
            // TLS 1.3 knows no warnings beyond these two (RFC 8446 section 6).
            (ALERT_LEVEL_WARNING, _) if self.version == Version::Tls12 => Ok(Incoming::Control),
            _ => Ok(Incoming::FatalAlert(description)),
        }
    }

    fn take_handshake(&mut self, content: &[u8]) -> Result<Incoming, TrafficFault> {
        let unexpected = TrafficFault::Message(ALERT_UNEXPECTED_MESSAGE);
        let Some(secrets) = &mut self.secrets else {
            // Renegotiation is refused with a warning (RFC 5246 section 7.2.2).
            return match content.first() {
                Some(&HANDSHAKE_CLIENT_HELLO | &HANDSHAKE_HELLO_REQUEST) if !self.refusal_due => {
                    self.refusal_due = true;
                    Ok(Incoming::Control)
                }
                _ => Err(unexpected),
            };
        };
        // A KeyUpdate ends its record, since the next one is under other keys (section 5.1).
        let wants_reply = match content.strip_prefix(&KEY_UPDATE_HEAD) {
            Some([0]) => false,
            Some([1]) => true,
            Some(_) => return Err(TrafficFault::Message(ALERT_DECODE_ERROR)),
            None => return Err(unexpected),
        };
        let next = secrets.next_opening().ok_or(unexpected)?;
        self.opener = Opener::new(self.version, 0, &next).ok_or(unexpected)?;
        self.key_update_due |= wants_reply;
        Ok(Incoming::Control)
    }

    /// Whether a record of ours has to go out before more data is sealed.
    pub fn is_control_due(&self) -> bool {
        self.key_update_due || self.refusal_due
    }

    /// Appends the records that are due: at most [`CONTROL_BYTES_MAX`] bytes.
    pub fn seal_control(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        if std::mem::take(&mut self.key_update_due) {
            let mut message = [0; KEY_UPDATE_HEAD.len() + 1];
            message[..KEY_UPDATE_HEAD.len()].copy_from_slice(&KEY_UPDATE_HEAD);
            self.append(ContentType::Handshake, &message, out)?;
            let next = self
                .secrets
                .as_mut()
                .and_then(|s| s.next_sealing())
                .ok_or(KeyExhausted)?;
            self.sealer = Sealer::new(self.version, 0, &next).ok_or(KeyExhausted)?;
        }
        if std::mem::take(&mut self.refusal_due) {
            let alert = [ALERT_LEVEL_WARNING, ALERT_NO_RENEGOTIATION];
            self.append(ContentType::Alert, &alert, out)?;
        }
        Ok(())
    }

    /// Appends close_notify.
    pub fn seal_close_notify(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        self.append(
            ContentType::Alert,
            &[ALERT_LEVEL_WARNING, ALERT_CLOSE_NOTIFY],
            out,
        )
    }

    /// Appends a fatal alert.
    pub fn seal_alert(&mut self, description: u8, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        self.append(ContentType::Alert, &[ALERT_LEVEL_FATAL, description], out)
    }

    fn append(
        &mut self,
        kind: ContentType,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), KeyExhausted> {
        let Layout { head, tail } = self.sealer.layout();
        let start = out.len();
        out.resize(start + head, 0);
        out.extend_from_slice(content);
        out.resize(out.len() + tail, 0);
        self.sealer.seal(kind, &mut out[start..])
    }
}
