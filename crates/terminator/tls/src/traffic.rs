//! An established TLS connection: application data, alerts and key updates over records, sealed and
//! opened where the bytes lie.
//!
//! Owns what a record means after the handshake; how records look is `record`'s, how the keys came
//! to be is `handshake`'s. Holds no buffers. Its sealing can be handed to the kernel, for good:
//! then it counts what the kernel seals, and says which records the kernel is to be given.

use rustls::ConnectionTrafficSecrets;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use wire::alert;

use crate::options::Version;
pub use crate::record::RecordSealer;
use crate::record::{Allowance, ContentType, KeyExhausted, Layout, Opener, Sealer, parts_of};
use crate::secrets::TrafficSecret;

pub mod kernel;
mod message;
#[cfg(test)]
mod tests;

use kernel::{ALERT_LEVEL_WARNING, ControlRecord, Keys};
pub use message::{Incoming, TrafficFault};
use message::{KeyUpdateReader, TicketReader};

/// The most bytes that [`Traffic::seal_control`] writes: a KeyUpdate and an alert.
pub const CONTROL_BYTES_MAX: usize = 128;

/// Records in a row that carry no data before the peer is taken for hostile, as in BoringSSL
/// (`kMaxEmptyRecords`, `kMaxKeyUpdates`).
const EMPTY_RECORDS_MAX: u8 = 32;

/// Warnings in a connection's life before the peer is taken for hostile, as in BoringSSL
/// (`kMaxWarningAlerts`).
const WARNINGS_MAX: u8 = 4;

const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const HANDSHAKE_HELLO_REQUEST: u8 = 0;

/// Both directions of an established connection, with the keys in our own hands.
pub struct Traffic {
    sending: Sending,
    /// Those in use for sealing, as long as the kernel may want them; after the hand-over, those
    /// that it is to get next.
    sending_keys: Option<ConnectionTrafficSecrets>,
    opener: Opener,
    /// `None` in TLS 1.2, which has no KeyUpdate.
    secrets: Option<Box<TrafficSecrets>>,
    /// `None` where we are the server, and in TLS 1.2, where tickets are of the handshake.
    tickets: Option<Box<Tickets>>,
    version: Version,
    incoming_update: KeyUpdateReader,
    key_update_due: bool,
    refusal_due: bool,
    has_refused: bool,
    empty_records: u8,
    warnings: u8,
}

/// What the keys of TLS 1.3 come from that follow a KeyUpdate.
pub(crate) struct TrafficSecrets {
    pub(crate) sending: TrafficSecret,
    pub(crate) receiving: TrafficSecret,
}

/// The tickets of a server, whose client we are.
pub(crate) struct Tickets {
    /// It keeps them as sessions. `None` = there are enough: it holds the server's certificates and
    /// more, a thousand bytes and often some thousands.
    library: Option<Box<KernelConnection<ClientConnectionData>>>,
    reader: TicketReader,
    are_there: bool,
    data_records: u8,
}

/// Records with data after which no tickets are waited for any more. Servers send them with the end
/// of the handshake; some begin with data before that, to clients that wait for it.
const RECORDS_BEFORE_TICKETS_MAX: u8 = 8;

/// The longest message with a ticket that is kept: servers' own have some hundred bytes, and with a
/// client's chain in them a few thousand.
pub(crate) const TICKET_BYTES_MAX: usize = 8 << 10;

impl Tickets {
    pub(crate) fn new(library: KernelConnection<ClientConnectionData>) -> Self {
        Self {
            library: Some(Box::new(library)),
            reader: TicketReader::default(),
            are_there: false,
            data_records: 0,
        }
    }

    /// Takes those at the front of a record, and returns what follows them.
    fn take<'c>(&mut self, content: &'c [u8]) -> Result<&'c [u8], TrafficFault> {
        let library = &mut self.library;
        self.reader.take(content, |ticket| {
            self.are_there = true;
            let library = library
                .as_mut()
                .filter(|_| ticket.len() <= TICKET_BYTES_MAX);
            library.is_none_or(|library| library.handle_new_session_ticket(ticket).is_ok())
        })
    }

    /// A record with data has come.
    fn note_data(&mut self) {
        self.data_records = self.data_records.saturating_add(1);
        if self.are_there || self.data_records >= RECORDS_BEFORE_TICKETS_MAX {
            self.library = None;
        }
    }
}

enum Sending {
    Ours(Sealer),
    Kernel(Allowance),
}

impl RecordSealer for Traffic {
    fn layout(&self) -> Layout {
        match &self.sending {
            Sending::Ours(sealer) => sealer.layout(),
            Sending::Kernel(_) => Layout::PLAIN,
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
    /// Joins the two directions; `secrets` is needed in TLS 1.3, `tickets` by its clients, and
    /// `sending_keys` if the kernel may ever be handed the sealing.
    pub(crate) fn new(
        version: Version,
        sealer: Sealer,
        sending_keys: Option<ConnectionTrafficSecrets>,
        opener: Opener,
        secrets: Option<TrafficSecrets>,
        tickets: Option<Tickets>,
    ) -> Self {
        Self {
            secrets: secrets.map(Box::new),
            tickets: tickets.map(Box::new),
            sending: Sending::Ours(sealer),
            sending_keys,
            opener,
            version,
            incoming_update: KeyUpdateReader::default(),
            key_update_due: false,
            refusal_due: false,
            has_refused: false,
            empty_records: 0,
            warnings: 0,
        }
    }

    /// The length of the record at the start of `bytes`; `None` = its header is not yet there. A
    /// record that can never be valid is refused from its header alone.
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
        let tickets = self.tickets.as_ref();
        let has_ticket = tickets.is_some_and(|tickets| tickets.reader.is_waiting());
        let is_waiting = has_ticket || self.incoming_update.is_waiting();
        if is_waiting && kind != ContentType::Handshake {
            // Nothing comes between a message's fragments (RFC 8446 section 5.1).
            return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE));
        }
        if kind == ContentType::ApplicationData && bytes > 0 {
            self.empty_records = 0;
            self.tickets.iter_mut().for_each(|one| one.note_data());
            return Ok(Incoming::Data(bytes));
        }
        self.empty_records += 1;
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE));
        }
        let content = plain.get(..bytes).unwrap_or_default();
        match kind {
            ContentType::ApplicationData => Ok(Incoming::Control),
            ContentType::Alert => self.take_alert(content),
            ContentType::Handshake => self.take_handshake(content),
            ContentType::ChangeCipherSpec => Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE)),
        }
    }

    fn take_alert(&mut self, content: &[u8]) -> Result<Incoming, TrafficFault> {
        let (level, description) = match content {
            [level, description] => (*level, *description),
            // RFC 8446 section 5.4.
            [] => return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE)),
            _ => return Err(TrafficFault::Message(alert::DECODE_ERROR)),
        };
        match (level, description) {
            // The level says nothing (RFC 8446 section 6).
            (_, alert::CLOSE_NOTIFY) => Ok(Incoming::CloseNotify),
            (ALERT_LEVEL_WARNING, alert::USER_CANCELED) => self.take_warning(),
            // TLS 1.3 knows no warnings beyond these two (RFC 8446 section 6).
            (ALERT_LEVEL_WARNING, _) if self.version == Version::Tls12 => self.take_warning(),
            _ => Ok(Incoming::FatalAlert(description)),
        }
    }

    fn take_warning(&mut self) -> Result<Incoming, TrafficFault> {
        self.warnings += 1;
        if self.warnings > WARNINGS_MAX {
            return Err(TrafficFault::Message(alert::UNEXPECTED_MESSAGE));
        }
        Ok(Incoming::Control)
    }

    fn take_handshake(&mut self, content: &[u8]) -> Result<Incoming, TrafficFault> {
        let unexpected = TrafficFault::Message(alert::UNEXPECTED_MESSAGE);
        let Some(secrets) = &mut self.secrets else {
            // Renegotiation is refused with a warning (RFC 5246 section 7.2.2), once.
            return match content.first() {
                Some(&HANDSHAKE_CLIENT_HELLO | &HANDSHAKE_HELLO_REQUEST) if !self.has_refused => {
                    self.has_refused = true;
                    self.refusal_due = true;
                    Ok(Incoming::Control)
                }
                _ => Err(unexpected),
            };
        };
        let is_update = self.incoming_update.is_waiting();
        let rest = match &mut self.tickets {
            Some(tickets) if !is_update => tickets.take(content)?,
            _ => content,
        };
        if rest.is_empty() && !content.is_empty() {
            return Ok(Incoming::Control);
        }
        let Some(wants_reply) = self.incoming_update.take(rest)? else {
            return Ok(Incoming::Control);
        };
        secrets.receiving.update();
        let next = secrets.receiving.keys();
        self.opener = Opener::new(self.version, 0, &next).ok_or(unexpected)?;
        self.key_update_due |= wants_reply;
        Ok(Incoming::Control)
    }

    /// Whether tickets that come are kept.
    #[cfg(test)]
    pub(crate) fn keeps_tickets(&self) -> bool {
        let tickets = self.tickets.as_ref();
        tickets.is_some_and(|tickets| tickets.library.is_some())
    }

    /// As after so many records that the next one brings the key to its end.
    #[cfg(test)]
    pub(crate) fn approach_key_limit(&mut self) {
        if let Sending::Ours(sealer) = &mut self.sending {
            sealer.approach_key_limit();
        }
    }

    /// Whether a record of ours has to go out before more data is sealed.
    pub fn is_control_due(&self) -> bool {
        self.key_update_due || self.refusal_due
    }

    /// Appends the records that are due: at most [`CONTROL_BYTES_MAX`] bytes.
    pub fn seal_control(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        while let Some(record) = self.take_control() {
            self.append(&record, out)?;
            if record.is_key_update() {
                self.change_keys()?;
            }
        }
        Ok(())
    }

    /// The next record that is due.
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
        let sealer = Sealer::new(self.version, 0, &next).ok_or(KeyExhausted)?;
        self.sending = Sending::Ours(sealer);
        self.sending_keys = self.sending_keys.take().map(|_| next);
        Ok(())
    }

    pub fn seal_close_notify(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        self.append(&ControlRecord::close_notify(), out)
    }

    /// Appends a fatal alert; the last record that is sealed.
    pub fn seal_alert(&mut self, description: u8, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        self.append(&ControlRecord::fatal(description), out)
    }

    fn append(&mut self, record: &ControlRecord, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        let Sending::Ours(sealer) = &mut self.sending else {
            // The kernel is given it with its type.
            return Err(KeyExhausted);
        };
        sealer.append(record.content_type(), record.content(), out)
    }

    /// The keys to hand to the kernel, so that it encrypts from now on: those in use, or after the
    /// hand-over those that follow a KeyUpdate. `None` = there are none, or no kernel knows the
    /// cipher.
    pub fn kernel_keys(&self) -> Option<Keys<'_>> {
        let sequence = match &self.sending {
            Sending::Ours(sealer) => sealer.sequence(),
            Sending::Kernel(_) => 0,
        };
        kernel::keys_of(self.version, sequence, self.sending_keys.as_ref()?)
    }

    /// Drops the keys that the kernel will not be asked to take.
    pub fn forget_kernel_keys(&mut self) {
        self.sending_keys = None;
    }

    /// Takes note that the kernel has got [`Self::kernel_keys`]. What is sealed is plaintext now,
    /// and control records go by [`Self::kernel_control`].
    pub fn hand_over(&mut self) {
        let unused = Sending::Kernel(Allowance::NONE);
        self.sending = match (
            std::mem::replace(&mut self.sending, unused),
            self.sending_keys.take(),
        ) {
            (Sending::Ours(sealer), _) => Sending::Kernel(sealer.into_allowance()),
            (Sending::Kernel(allowance), keys) => {
                let next = keys.as_ref().and_then(parts_of);
                Sending::Kernel(next.map_or(allowance, |(cipher, ..)| Allowance::fresh(cipher)))
            }
        };
    }

    /// Counts plaintext that the kernel was given to seal, past our buffers.
    pub fn count_passed(&mut self, bytes: usize) -> Result<(), KeyExhausted> {
        let Sending::Kernel(allowance) = &mut self.sending else {
            return Err(KeyExhausted);
        };
        allowance.spend(bytes)?;
        self.key_update_due |= self.secrets.is_some() && allowance.is_key_limit_reached();
        Ok(())
    }

    /// Whether the kernel needs a new key before it may send more data.
    pub fn is_kernel_key_due(&self) -> bool {
        self.key_update_due && matches!(self.sending, Sending::Kernel(_))
    }

    /// The next record that is due where the kernel encrypts. Behind a KeyUpdate the kernel must be
    /// given [`Self::kernel_keys`] before anything else.
    ///
    /// # Errors
    /// There are no further keys.
    pub fn kernel_control(&mut self) -> Result<Option<ControlRecord>, KeyExhausted> {
        let record = self.take_control();
        if record.is_some_and(|record| record.is_key_update()) {
            self.sending_keys = Some(self.next_sealing()?);
        }
        Ok(record)
    }
}
