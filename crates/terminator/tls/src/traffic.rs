//! Handles an established TLS connection: application data, alerts and key updates over records,
//! which are sealed and opened in place.
//!
//! Gives records their meaning after the handshake. The format of records is in `record`, the
//! derivation of the keys in `handshake`. Holds no buffers. The sealing can be handed to the
//! kernel, for good: then this module counts what the kernel seals, names the records without
//! application data that the kernel must send, and keeps nonces apart when the kernel continues
//! where we stopped. The caller makes the system calls of the hand-over.

use std::fmt::{self, Display, Formatter};

use rustls::ConnectionTrafficSecrets;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
pub use sys::ktls::Keys;
use wire::alert;

use crate::options::{Cipher, Version};
pub use crate::record::RecordSealer;
use crate::record::{
    ContentType, KeyAllowance, KeyExhausted, KeyOpener, KeySealer, NONCE_BYTES, RecordFault,
    RecordLayout, parts_of,
};
use crate::secrets::TrafficSecret;

/// Maximum number of bytes that [`Traffic::seal_control`] writes: a KeyUpdate and an alert.
pub const CONTROL_BYTES_MAX: usize = 128;

/// Maximum number of consecutive records without data before the peer is considered hostile, as in
/// BoringSSL (`kMaxEmptyRecords`, `kMaxKeyUpdates`).
const EMPTY_RECORDS_MAX: u8 = 32;

/// Maximum number of warnings in a connection before the peer is considered hostile, as in
/// BoringSSL (`kMaxWarningAlerts`).
const WARNINGS_MAX: u8 = 4;

const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const HANDSHAKE_HELLO_REQUEST: u8 = 0;

/// Both directions of an established connection, with the keys in this process.
pub struct Traffic {
    sending: Sending,
    /// Keys in use for sealing, as long as the kernel may need them; after the hand-over, the keys
    /// that the kernel gets next.
    sending_keys: Option<Box<ConnectionTrafficSecrets>>,
    opener: KeyOpener,
    /// `None` in TLS 1.2, which has no KeyUpdate.
    secrets: Option<Box<TrafficSecrets>>,
    /// `None` if we are the server, and in TLS 1.2, where the handshake carries the tickets.
    tickets: Option<Box<TicketIntake>>,
    version: Version,
    messages: MessageReader,
    key_update_due: bool,
    refusal_due: bool,
    has_refused: bool,
    empty_records: u8,
    warnings: u8,
}

/// Secrets from which a KeyUpdate of TLS 1.3 derives the next keys.
pub(crate) struct TrafficSecrets {
    pub(crate) sending: TrafficSecret,
    pub(crate) receiving: TrafficSecret,
}

/// Intake of tickets from a server whose client we are.
pub(crate) struct TicketIntake {
    /// Library connection that keeps tickets as sessions. `None` = enough tickets have arrived: the
    /// object holds the server's certificates and more, a thousand bytes and often some thousands.
    library: Option<Box<KernelConnection<ClientConnectionData>>>,
    are_there: bool,
    data_records: u8,
}

/// Number of records with data after which no more tickets are expected. Servers send tickets at
/// the end of the handshake; some send data before that, to clients that wait for it.
const RECORDS_BEFORE_TICKETS_MAX: u8 = 8;

/// Maximum length of a kept message with a ticket: common servers' messages have some hundred
/// bytes, and a few thousand with a client's chain in them.
pub(crate) const TICKET_BYTES_MAX: usize = 8 << 10;

impl TicketIntake {
    pub(crate) fn new(library: KernelConnection<ClientConnectionData>) -> Self {
        Self { library: Some(Box::new(library)), are_there: false, data_records: 0 }
    }

    /// Takes a message without its header; `false` = the message is no valid ticket message.
    fn take(&mut self, ticket: &[u8]) -> bool {
        self.are_there = true;
        let library = self.library.as_mut().filter(|_| ticket.len() <= TICKET_BYTES_MAX);
        library.is_none_or(|library| library.handle_new_session_ticket(ticket).is_ok())
    }

    /// Counts a record with data.
    fn note_data(&mut self) {
        self.data_records = self.data_records.saturating_add(1);
        if self.are_there || self.data_records >= RECORDS_BEFORE_TICKETS_MAX {
            self.library = None;
        }
    }
}

enum Sending {
    Ours(KeySealer),
    Kernel(KeyAllowance),
}

impl RecordSealer for Traffic {
    fn layout(&self) -> RecordLayout {
        match &self.sending {
            Sending::Ours(sealer) => sealer.layout(),
            Sending::Kernel(_) => RecordLayout::PLAIN,
        }
    }

    fn seal(&mut self, record: &mut [u8]) -> Result<(), KeyExhausted> {
        match &mut self.sending {
            Sending::Ours(sealer) => {
                sealer.seal(ContentType::ApplicationData, record)?;
                self.key_update_due |=
                    self.secrets.is_some() && sealer.allowance().is_key_limit_reached();
                Ok(())
            }
            Sending::Kernel(_) => self.count_passed(record.len()),
        }
    }
}

impl Traffic {
    /// Joins the two directions. TLS 1.3 needs `secrets`, its clients need `tickets`, and a later
    /// hand-over to the kernel needs `sending_keys`.
    pub(crate) fn new(
        version: Version,
        sealer: KeySealer,
        sending_keys: Option<ConnectionTrafficSecrets>,
        opener: KeyOpener,
        secrets: Option<TrafficSecrets>,
        tickets: Option<TicketIntake>,
    ) -> Self {
        Self {
            secrets: secrets.map(Box::new),
            tickets: tickets.map(Box::new),
            sending: Sending::Ours(sealer),
            sending_keys: sending_keys.map(Box::new),
            opener,
            version,
            messages: MessageReader::default(),
            key_update_due: false,
            refusal_due: false,
            has_refused: false,
            empty_records: 0,
            warnings: 0,
        }
    }

    /// Returns the length of the record at the start of `bytes`; `None` = the header is incomplete.
    /// A record that can never be valid is refused from its header alone.
    pub fn record_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, TrafficFault> {
        self.opener.record_bytes(bytes).map_err(TrafficFault::Record)
    }

    /// Opens one whole record into the start of `plain`, which is at least as long as the record.
    pub fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<RecordContent, TrafficFault> {
        let (kind, bytes) = self.opener.open(record, plain).map_err(TrafficFault::Record)?;
        if self.messages.is_waiting() && kind != ContentType::Handshake {
            // No record may come between a message's fragments (RFC 8446 section 5.1).
            return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE));
        }
        if kind == ContentType::ApplicationData && bytes > 0 {
            self.empty_records = 0;
            self.tickets.iter_mut().for_each(|one| one.note_data());
            return Ok(RecordContent::Data(bytes));
        }
        self.empty_records += 1;
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE));
        }
        let content = plain.get(..bytes).unwrap_or_default();
        match kind {
            ContentType::ApplicationData => Ok(RecordContent::Control),
            ContentType::Alert => self.take_alert(content),
            ContentType::Handshake => self.take_handshake(content),
            ContentType::ChangeCipherSpec => Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE)),
        }
    }

    fn take_alert(&mut self, content: &[u8]) -> Result<RecordContent, TrafficFault> {
        let (level, description) = match content {
            [level, description] => (*level, *description),
            // RFC 8446 section 5.4.
            [] => return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE)),
            _ => return Err(TrafficFault::Message(alert::DECODE_ERROR)),
        };
        match (level, description) {
            // The level is irrelevant (RFC 8446 section 6).
            (_, alert::CLOSE_NOTIFY) => Ok(RecordContent::CloseNotify),
            (ALERT_LEVEL_WARNING, alert::USER_CANCELED) => self.take_warning(),
            // TLS 1.3 knows no warnings beyond these two (RFC 8446 section 6).
            (ALERT_LEVEL_WARNING, _) if self.version == Version::Tls12 => self.take_warning(),
            _ => Ok(RecordContent::FatalAlert(description)),
        }
    }

    fn take_warning(&mut self) -> Result<RecordContent, TrafficFault> {
        self.warnings += 1;
        if self.warnings > WARNINGS_MAX {
            return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE));
        }
        Ok(RecordContent::Control)
    }

    fn take_handshake(&mut self, content: &[u8]) -> Result<RecordContent, TrafficFault> {
        let unexpected = TrafficFault::Message(alert::UNEXPECTED_MESSAGE);
        let Some(secrets) = &mut self.secrets else {
            // Renegotiation is refused with a warning (RFC 5246 section 7.2.2), once.
            return match content.first() {
                Some(&HANDSHAKE_CLIENT_HELLO | &HANDSHAKE_HELLO_REQUEST) if !self.has_refused => {
                    self.has_refused = true;
                    self.refusal_due = true;
                    Ok(RecordContent::Control)
                }
                _ => Err(unexpected),
            };
        };
        let mut take_ticket =
            self.tickets.as_mut().map(|tickets| |ticket: &[u8]| tickets.take(ticket));
        let take_ticket = take_ticket.as_mut().map(|take| take as TicketTaker<'_>);
        let Some(wants_reply) = self.messages.take(content, take_ticket)? else {
            return Ok(RecordContent::Control);
        };
        secrets.receiving.update();
        let next = secrets.receiving.keys();
        self.opener = KeyOpener::new(self.version, 0, &next).ok_or(unexpected)?;
        self.key_update_due |= wants_reply;
        Ok(RecordContent::Control)
    }

    /// Reports whether further tickets are kept.
    #[cfg(test)]
    pub(crate) fn keeps_tickets(&self) -> bool {
        let tickets = self.tickets.as_ref();
        tickets.is_some_and(|tickets| tickets.library.is_some())
    }

    /// Sets the key so that one more record makes a KeyUpdate due, if we encrypt.
    #[cfg(test)]
    pub(crate) fn approach_key_limit(&mut self) {
        if let Sending::Ours(sealer) = &mut self.sending {
            sealer.approach_key_limit();
        }
    }

    /// Reports whether a control record must be sent before more data is sealed.
    pub fn is_control_due(&self) -> bool {
        self.key_update_due || self.refusal_due
    }

    /// Appends the due control records: at most [`CONTROL_BYTES_MAX`] bytes.
    pub fn seal_control(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        while let Some(record) = self.take_control() {
            self.append(&record, out)?;
            if record.is_key_update() {
                self.change_keys()?;
            }
        }
        Ok(())
    }

    /// Returns the next control record that is due.
    fn take_control(&mut self) -> Option<ControlRecord> {
        if std::mem::take(&mut self.key_update_due) {
            return Some(ControlRecord::key_update());
        }
        std::mem::take(&mut self.refusal_due)
            .then(|| ControlRecord::warning(alert::NO_RENEGOTIATION))
    }

    fn next_sealing(&mut self) -> Result<ConnectionTrafficSecrets, KeyExhausted> {
        let secrets = self.secrets.as_mut().ok_or(KeyExhausted)?;
        secrets.sending.update();
        Ok(secrets.sending.keys())
    }

    fn change_keys(&mut self) -> Result<(), KeyExhausted> {
        let next = self.next_sealing()?;
        let sealer = KeySealer::new(self.version, 0, &next).ok_or(KeyExhausted)?;
        self.sending = Sending::Ours(sealer);
        self.sending_keys = self.sending_keys.take().map(|_| Box::new(next));
        Ok(())
    }

    pub fn seal_close_notify(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        self.append(&ControlRecord::close_notify(), out)
    }

    /// Appends a fatal alert; no record is sealed after it.
    pub fn seal_alert(&mut self, description: u8, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        self.append(&ControlRecord::fatal(description), out)
    }

    fn append(&mut self, record: &ControlRecord, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        let Sending::Ours(sealer) = &mut self.sending else {
            // The kernel gets the record with its type instead.
            return Err(KeyExhausted);
        };
        sealer.append(record.content_type(), record.content(), out)
    }

    /// Returns the keys to hand to the kernel, so that it encrypts from now on: those in use, or
    /// after the hand-over those that follow a KeyUpdate. `None` = there are no keys, or no kernel
    /// knows the cipher.
    pub fn kernel_keys(&self) -> Option<Keys<'_>> {
        let sequence = match &self.sending {
            Sending::Ours(sealer) => sealer.sequence(),
            Sending::Kernel(_) => 0,
        };
        keys_of(self.version, sequence, self.sending_keys.as_ref()?)
    }

    /// Drops the keys that the kernel will not be asked to take.
    pub fn forget_kernel_keys(&mut self) {
        self.sending_keys = None;
    }

    /// Records that the kernel has taken [`Self::kernel_keys`]. From now on sealing leaves
    /// plaintext, and control records go through [`Self::kernel_control`].
    pub fn hand_over(&mut self) {
        let unused = Sending::Kernel(KeyAllowance::NONE);
        self.sending =
            match (std::mem::replace(&mut self.sending, unused), self.sending_keys.take()) {
                (Sending::Ours(sealer), _) => Sending::Kernel(sealer.into_allowance()),
                (Sending::Kernel(allowance), keys) => {
                    let next = keys.as_deref().and_then(parts_of);
                    Sending::Kernel(
                        next.map_or(allowance, |(cipher, ..)| KeyAllowance::fresh(cipher)),
                    )
                }
            };
    }

    /// Counts plaintext that was given to the kernel without our buffers.
    pub fn count_passed(&mut self, bytes: usize) -> Result<(), KeyExhausted> {
        let Sending::Kernel(allowance) = &mut self.sending else {
            return Err(KeyExhausted);
        };
        allowance.spend(bytes)?;
        self.key_update_due |= self.secrets.is_some() && allowance.is_key_limit_reached();
        Ok(())
    }

    /// Reports whether the kernel needs a new key before it may send more data.
    pub fn is_kernel_key_due(&self) -> bool {
        self.key_update_due && matches!(self.sending, Sending::Kernel(_))
    }

    /// Returns the next due control record where the kernel encrypts. After a KeyUpdate the kernel
    /// must get [`Self::kernel_keys`] before anything else.
    ///
    /// # Errors
    /// Fails if there are no further keys.
    pub fn kernel_control(&mut self) -> Result<Option<ControlRecord>, KeyExhausted> {
        let record = self.take_control();
        if record.is_some_and(|record| record.is_key_update()) {
            self.sending_keys = Some(Box::new(self.next_sealing()?));
        }
        Ok(record)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecordContent {
    /// Number of bytes of application data at the start of the plaintext.
    Data(usize),
    /// A message that is not for the application; a reply may be due.
    Control,
    /// The peer ended its stream.
    CloseNotify,
    /// The peer ended the connection with this alert.
    FatalAlert(u8),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrafficFault {
    /// The peer sent a record that cannot be opened.
    Record(RecordFault),
    /// The peer sent a message that is not allowed here; the value is the alert to answer with.
    Message(u8),
}

impl TrafficFault {
    /// Returns the alert to answer with.
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

/// Reader of a peer's messages after the handshake in TLS 1.3: a KeyUpdate (RFC 8446 section
/// 4.6.3), the only message that a client sends, and the tickets of a server (section 4.6.1).
/// Messages may be fragmented, and a record may hold several.
#[derive(Debug, Default)]
pub(crate) struct MessageReader {
    /// Bytes of the incomplete message received so far.
    message: Vec<u8>,
}

/// Callback that takes a ticket message without its header and reports whether it is valid.
type TicketTaker<'t> = &'t mut dyn FnMut(&[u8]) -> bool;

/// Maximum length in bytes of a ticket message that is assembled: a message with a client's chain
/// in it has a few thousand.
const TICKET_MESSAGE_BYTES_MAX: usize = 32 << 10;

impl MessageReader {
    /// Reports whether a message is incomplete.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.message.is_empty()
    }

    /// Takes a record's content. Returns whether a KeyUpdate at its end asks for a reply; `None` =
    /// there is no KeyUpdate. If `take_ticket` is `None`, tickets are not allowed.
    pub(crate) fn take(
        &mut self,
        mut content: &[u8],
        mut take_ticket: Option<TicketTaker<'_>>,
    ) -> Result<Option<bool>, TrafficFault> {
        const NEW_SESSION_TICKET: u8 = 4;
        const KEY_UPDATE: u8 = 24;
        const KEY_UPDATE_LENGTH: [u8; 3] = [0, 0, 1];
        const HEADER_BYTES: usize = 4;
        let fault = |alert| Err(TrafficFault::Message(alert));
        if content.is_empty() {
            return fault(alert::UNEXPECTED_MESSAGE);
        }
        while let Some(&kind) = self.message.first().or_else(|| content.first()) {
            let is_update = kind == KEY_UPDATE;
            if !is_update && (kind != NEW_SESSION_TICKET || take_ticket.is_none()) {
                return fault(alert::UNEXPECTED_MESSAGE);
            }
            self.fill(HEADER_BYTES, &mut content);
            let known = self.message.get(1..self.message.len().min(HEADER_BYTES));
            if is_update && !KEY_UPDATE_LENGTH.starts_with(known.unwrap_or_default()) {
                return fault(alert::DECODE_ERROR);
            }
            let Some(&[_, high, middle, low]) = self.message.first_chunk() else {
                break;
            };
            let end = HEADER_BYTES + u32::from_be_bytes([0, high, middle, low]) as usize;
            if end == HEADER_BYTES || end > TICKET_MESSAGE_BYTES_MAX {
                return fault(alert::DECODE_ERROR);
            }
            self.fill(end, &mut content);
            if self.message.len() < end {
                break;
            }
            let message = std::mem::take(&mut self.message);
            if is_update {
                return match (content, message[HEADER_BYTES]) {
                    ([], wants_reply @ 0..=1) => Ok(Some(wants_reply == 1)),
                    ([], _) => fault(alert::ILLEGAL_PARAMETER),
                    _ => fault(alert::UNEXPECTED_MESSAGE),
                };
            }
            if !take_ticket.as_mut().is_some_and(|take| take(&message[HEADER_BYTES..])) {
                return fault(alert::DECODE_ERROR);
            }
        }
        Ok(None)
    }

    /// Moves content to the message until the message has `bytes` bytes, or the content ends.
    fn fill(&mut self, bytes: usize, content: &mut &[u8]) {
        let missing = bytes.saturating_sub(self.message.len()).min(content.len());
        let (part, rest) = content.split_at(missing);
        self.message.extend_from_slice(part);
        *content = rest;
    }
}

pub(crate) const ALERT_LEVEL_WARNING: u8 = 1;
pub(crate) const ALERT_LEVEL_FATAL: u8 = 2;

/// A KeyUpdate that requests no KeyUpdate in return (RFC 8446 section 4.6.3).
pub(crate) const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

const SALT_BYTES: usize = 4;

/// Returns the keys with which the kernel seals records from this sequence number on. `None` = no
/// kernel knows the cipher.
pub(crate) fn keys_of(
    version: Version,
    sequence: u64,
    secrets: &ConnectionTrafficSecrets,
) -> Option<Keys<'_>> {
    let (cipher, key, mut iv) = parts_of(secrets)?;
    if version == Version::Tls12 && cipher != Cipher::ChaCha20Poly1305 {
        start_counting(&mut iv, sequence);
    }
    Some(Keys { version, cipher, key, iv, sequence })
}

/// Sets the nonce from which the kernel counts with AES-GCM in TLS 1.2.
///
/// The library and we made nonces by *combining* the vector's last 64 bits with the sequence number
/// (exclusive or); the kernel *counts up* from the nonce that it gets. If it continued from ours,
/// it would sooner or later repeat one, and a nonce used twice breaks AES-GCM. So the kernel's
/// first nonce has the highest bit inverted. No sequence number reaches that bit, because a key
/// seals less than 2^35 records (`record`'s limit of blocks): our nonces always keep our bit and
/// the kernel's never get it. The other bits are the sequence number, so that two hand-overs of one
/// key, if they ever happened, would not repeat nonces either.
fn start_counting(iv: &mut [u8; NONCE_BYTES], sequence: u64) {
    const HIGHEST: u64 = 1 << 63;
    let (_, explicit) = iv.split_at_mut(SALT_BYTES);
    let ours = explicit.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let start = !ours & HIGHEST | sequence & !HIGHEST;
    explicit.copy_from_slice(&start.to_be_bytes());
}

/// A record without application data, whose type the kernel must be given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ControlRecord {
    kind: ContentType,
    content: [u8; KEY_UPDATE.len()],
    bytes: usize,
}

impl ControlRecord {
    fn new(kind: ContentType, content: &[u8]) -> Self {
        let mut room = [0; KEY_UPDATE.len()];
        room[..content.len()].copy_from_slice(content);
        Self { kind, content: room, bytes: content.len() }
    }

    /// Returns the close_notify that ends our stream.
    pub fn close_notify() -> Self {
        let content = [ALERT_LEVEL_WARNING, alert::CLOSE_NOTIFY];
        Self::new(ContentType::Alert, &content)
    }

    pub fn fatal(description: u8) -> Self {
        Self::new(ContentType::Alert, &[ALERT_LEVEL_FATAL, description])
    }

    pub(crate) fn warning(description: u8) -> Self {
        Self::new(ContentType::Alert, &[ALERT_LEVEL_WARNING, description])
    }

    pub(crate) fn key_update() -> Self {
        Self::new(ContentType::Handshake, &KEY_UPDATE)
    }

    /// Reports whether everything sent after this record is under the next key.
    pub fn is_key_update(&self) -> bool {
        self.kind == ContentType::Handshake
    }

    pub(crate) fn content_type(&self) -> ContentType {
        self.kind
    }

    /// Returns the type's number (RFC 8446 section 5.1).
    pub fn kind(&self) -> u8 {
        self.kind.code()
    }

    pub fn content(&self) -> &[u8] {
        &self.content[..self.bytes]
    }
}

#[cfg(test)]
mod tests;
