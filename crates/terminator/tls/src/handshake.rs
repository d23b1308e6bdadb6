//! A handshake as bytes in and bytes out: the seam behind which the TLS library stands.
//!
//! Owns the drive of the library's unbuffered interface: which records it is shown, and that a
//! fault is answered with an alert. Which certificate and which parameters a client gets is decided
//! before, in `server`.

mod agreed;
pub(crate) mod driver;
mod fault;

use std::mem;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, ReadEarlyData, UnbufferedStatus};
use telemetry::outcome::{Reason, ResumptionMiss};
use wire::alert;
use wire::client_hello::ClientHello;

pub use agreed::Agreed;
pub(crate) use agreed::agreed_by;
use agreed::suite_of;
use driver::append_encoded;
pub use fault::HandshakeFault;
use fault::LibraryAlert;

use crate::context::{self, HandshakeContext, LookupResult, Wanted};
use crate::early::{RecordClass, Skipper};
use crate::hidden_name::HiddenName;
use crate::options::Version;
use crate::record::{
    ContentType, HEADER_BYTES, KeyExhausted, Layout, Opener, PLAINTEXT_BYTES_MAX, RECORD_BYTES_MAX,
    RecordSealer, Sealer, expansion_bytes_max,
};
use crate::secrets::{Secret, SendingKeys, TrafficSecret};
use crate::traffic::{Traffic, TrafficSecrets};

/// The most bytes of a handshake that wait for more: those of the longest message that the library
/// takes (64 KiB), in records of no less than a few bytes.
pub const WAITING_BYTES_MAX: usize = 1 << 17;

/// How far a handshake got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Whether the handshake is over.
    pub done: bool,
}

pub struct Established {
    pub traffic: Box<Traffic>,
    pub agreed: Agreed,
}

/// The server's side of a handshake. Sans-IO: it is fed bytes and gives bytes, and never waits.
///
/// Once early data has come, it also encrypts what answers it, before the handshake is done.
pub struct Handshake {
    connection: UnbufferedServerConnection,
    /// Bytes at the front of the input that the library has been shown and has not let go of: it
    /// remembers places in them, so it must be shown them again, and first.
    held: usize,
    /// What the library's callbacks must know of it.
    context: HandshakeContext,
    /// Early data that nobody has taken.
    early: Vec<u8>,
    has_early: bool,
    /// While early data that was offered may have to be skipped.
    skipper: Option<Skipper>,
    /// Records that were sealed under our present key, once it is the last of the handshake.
    sealed: u64,
    /// The secret of our records, once it is known, and that of the client's.
    secret: Option<Secret>,
    client_secret: Option<Secret>,
    server_random: [u8; RANDOM_BYTES],
    /// Whether what we send is sealed.
    is_sealing: bool,
    /// Whether the client has sent a ChangeCipherSpec.
    has_client_changed: bool,
}

const RANDOM_BYTES: usize = 32;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// Of records of TLS 1.3 whose type is encrypted.
const HIDDEN: u8 = 23;

impl Handshake {
    /// Begins; the first bytes fed are those of this hello.
    pub fn new(config: Arc<ServerConfig>, hello: &ClientHello<'_>) -> Result<Self, HandshakeFault> {
        let connection = UnbufferedServerConnection::new(config)
            .map_err(|error| HandshakeFault::internal(error.to_string()))?;
        Ok(Self {
            sealed: 0,
            secret: None,
            client_secret: None,
            server_random: [0; RANDOM_BYTES],
            is_sealing: false,
            has_client_changed: false,
            connection,
            held: 0,
            context: HandshakeContext::of(hello),
            early: Vec::new(),
            has_early: false,
            skipper: hello.offers_early_data().then(Skipper::new),
        })
    }

    /// Takes what came in and appends what has to go out, also when it fails (an alert).
    ///
    /// Only whole records are looked at. Bytes that were not consumed are to be offered again with
    /// more behind them. After `done`, what was not consumed belongs to [`Traffic`].
    pub fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Step, HandshakeFault> {
        let mut entering = mem::take(&mut self.context);
        entering.wanted = match self.skipper {
            Some(_) => Wanted::All,
            None => Wanted::Traffic,
        };
        if entering.hidden.is_some() && !self.is_sealing {
            entering.hidden = HiddenName::hide_in(incoming).or(entering.hidden);
        }
        let entered = context::enter(entering);
        let step = self.drive(incoming, outgoing);
        self.take_secrets();
        self.context = entered.leave();
        if self.is_full() {
            // A session was found and did not fit.
            self.context.resumed = None;
        }
        if let Err(HandshakeFault {
            alert: Some(alert), ..
        }) = step
        {
            self.append_alert(alert, outgoing);
        }
        step
    }

    /// Why a session that the client offered is not resumed; `None` = it offered none, or it is.
    /// Known from the hello on, and of handshakes that fail as well.
    pub fn miss(&self) -> Option<ResumptionMiss> {
        let is_resumed = self.connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        match self.context.lookup {
            _ if is_resumed => None,
            LookupResult::Nothing => None,
            LookupResult::Session => Some(ResumptionMiss::Mismatch),
            LookupResult::Miss(miss) => Some(miss),
        }
    }

    /// Appends the early data (RFC 8446 section 2.3) that has come since this was last asked. All
    /// of it comes before the handshake is done. Each session gives it once, so it is no replay of
    /// what came before; that it will not be sent again is known only when the handshake is done.
    pub fn take_early_data(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.early);
    }

    /// What was agreed on, as far as it is known: all of it, once early data has come.
    ///
    /// # Errors
    /// Nothing is agreed on yet.
    pub fn agreed(&self) -> Result<Agreed, HandshakeFault> {
        agreed_by(&self.connection)
    }

    /// Whether application data can be encrypted now, before the handshake is done (RFC 8446
    /// section 2.3 and appendix E.5: the session says who the client is).
    pub fn can_seal(&self) -> bool {
        // What it holds it must be shown again, and nothing else.
        self.has_early && self.held == 0
    }

    /// Ends a handshake that is done.
    pub fn finish(self) -> Result<Established, HandshakeFault> {
        let agreed = agreed_by(&self.connection)?;
        let unknown = || HandshakeFault::internal("unknown suite");
        let next = traffic_secrets(&agreed, self.secret, self.client_secret)?;
        let (secrets, _) = self
            .connection
            .dangerous_into_kernel_connection()
            .map_err(|error| HandshakeFault::internal(error.to_string()))?;
        let (sequence, keys) = secrets.tx;
        let sealer = Sealer::new(agreed.version, sequence, &keys).ok_or_else(unknown)?;
        let (sequence, opening_keys) = &secrets.rx;
        let opener = Opener::new(agreed.version, *sequence, opening_keys).ok_or_else(unknown)?;
        let traffic = Traffic::new(agreed.version, sealer, Some(keys), opener, next, None);
        let traffic = Box::new(traffic);
        Ok(Established { traffic, agreed })
    }

    /// Takes what the library has to say after its error. An alert is held back if it can be read:
    /// it may have to be another.
    ///
    /// `rest` is what it has not let go of: messages behind the one at fault still wait in it, and
    /// the library panics if they are gone (a Certificate that is refused comes in one record with
    /// what follows it).
    fn collect_alert(&mut self, mut rest: &mut [u8], outgoing: &mut Vec<u8>) -> LibraryAlert {
        loop {
            let UnbufferedStatus { discard, state, .. } = self.connection.process_tls_records(rest);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let start = outgoing.len();
                    if append_encoded(&mut data, outgoing).is_err() {
                        return LibraryAlert::Missing;
                    }
                    // Asked once more, the library would judge the same bytes a second time.
                    if is_alert(&outgoing[start..]) {
                        return self.hold_back(start, outgoing);
                    }
                    self.note_sent(&outgoing[start..]);
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                _ => return LibraryAlert::Missing,
            }
            rest = rest.get_mut(discard..).unwrap_or_default();
        }
    }

    fn fault_of(
        &mut self,
        error: &rustls::Error,
        rest: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> HandshakeFault {
        self.take_secrets();
        let said = self.collect_alert(rest, outgoing);
        HandshakeFault::of(error, said, self.version())
    }

    fn hold_back(&self, start: usize, outgoing: &mut Vec<u8>) -> LibraryAlert {
        let record = outgoing.get(start..).unwrap_or_default();
        let description = match record {
            &[ALERT, .., description] if !self.is_sealing => Some(description),
            _ => self.sending_keys().and_then(|keys| {
                let mut plain = vec![0; record.len()];
                let opened = keys.opener(self.sealed)?.open(record, &mut plain);
                (opened == Ok((ContentType::Alert, 2))).then(|| plain[1])
            }),
        };
        match description {
            None => LibraryAlert::Sent,
            Some(description) => {
                outgoing.truncate(start);
                LibraryAlert::HeldBack(description)
            }
        }
    }

    /// What our records are sealed with, if the handshake has come to its last key.
    fn sending_keys(&self) -> Option<SendingKeys> {
        let suite = suite_of(&self.connection)?;
        SendingKeys::new(suite, self.secret.as_ref()?, &self.server_random)
    }

    /// Appends a fatal alert, sealed if it must be. None goes out under the key of our handshake
    /// messages in TLS 1.3: nothing of a client's is read while it is in use.
    fn append_alert(&self, description: u8, outgoing: &mut Vec<u8>) {
        const FATAL: u8 = 2;
        if !self.is_sealing {
            return outgoing.extend_from_slice(&alert::alert_record(description));
        }
        let sealer = self
            .sending_keys()
            .and_then(|keys| keys.sealer(self.sealed));
        if let Some(mut sealer) = sealer {
            let content = [FATAL, description];
            let start = outgoing.len();
            if sealer
                .append(ContentType::Alert, &content, outgoing)
                .is_err()
            {
                outgoing.truncate(start);
            }
        }
    }

    /// Takes note of a record that the library has made.
    fn note_sent(&mut self, record: &[u8]) {
        const SERVER_HELLO: u8 = 2;
        const RANDOM_AT: usize = HEADER_BYTES + 4 + 2;
        let is_tls12 = self.version() == Some(Version::Tls12);
        match record.first() {
            Some(&CHANGE_CIPHER_SPEC) => self.is_sealing |= is_tls12,
            Some(&HIDDEN) if self.connection.is_handshaking() => self.is_sealing = true,
            // Tickets.
            Some(&HIDDEN) => self.sealed += 1,
            Some(_) if self.is_sealing => self.sealed += 1,
            Some(&HANDSHAKE) if record.get(HEADER_BYTES) == Some(&SERVER_HELLO) => {
                let random = record.get(RANDOM_AT..).and_then(|rest| rest.first_chunk());
                self.server_random = *random.unwrap_or(&self.server_random);
            }
            Some(_) | None => {}
        }
    }

    fn version(&self) -> Option<Version> {
        match self.connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => Some(Version::Tls13),
            Some(rustls::ProtocolVersion::TLSv1_2) => Some(Version::Tls12),
            _ => None,
        }
    }

    /// Takes up the secrets that the library has logged.
    fn take_secrets(&mut self) {
        let secrets = context::with(|context| mem::take(&mut context.secrets));
        if let Some(skipper) = &mut self.skipper {
            skipper.learn(suite_of(&self.connection), &secrets);
        }
        self.secret = secrets.server.or_else(|| self.secret.take());
        self.client_secret = secrets.client.or_else(|| self.client_secret.take());
    }

    /// Works through the records, each shown to the library once it is whole.
    fn drive(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Step, HandshakeFault> {
        let mut consumed = 0;
        // The library sees one record more only when it asks: what follows the last record of the
        // handshake is application data, which it must never get.
        let mut shown = self.held;
        // What the last record shown is if it is early data: the library makes nothing of it if
        // early data is refused.
        let mut early = None;
        loop {
            let window = incoming.get_mut(consumed..shown).unwrap_or_default();
            let UnbufferedStatus { discard, state, .. } =
                self.connection.process_tls_records(window);
            consumed += discard;
            if discard > 0 && early.take().is_some() {
                // It was accepted, and is the library's from here on.
                self.skipper = None;
            }
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let start = outgoing.len();
                    append_encoded(&mut data, outgoing).map_err(not_encoded)?;
                    self.note_sent(&outgoing[start..]);
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    if !self.connection.is_handshaking() {
                        return Ok(Step {
                            consumed,
                            done: true,
                        });
                    }
                    if let Some(class) = early.take() {
                        self.refuse_early(class)?;
                        consumed = shown;
                    }
                    shown = shown.max(consumed);
                    let rest = incoming.get_mut(shown..).unwrap_or_default();
                    let Some(record_bytes) = self.next_record(rest)? else {
                        self.held = shown - consumed;
                        check_waiting(incoming.len() - consumed)?;
                        return Ok(Step {
                            consumed,
                            done: false,
                        });
                    };
                    let end = shown + record_bytes;
                    match self.classify(incoming.get(shown..end).unwrap_or_default())? {
                        RecordClass::Handshake => {}
                        // Within a message that the library holds there can be none.
                        _ if shown > consumed => {}
                        _ if self.is_early_refused() => consumed = end,
                        class => early = Some(class),
                    }
                    shown = end;
                }
                Ok(ConnectionState::ReadEarlyData(mut data)) => {
                    collect(&mut data, &mut self.early)?;
                    self.has_early = true;
                    self.skipper = None;
                    early = None;
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    return Err(HandshakeFault::closed());
                }
                Ok(_) => return Err(unexpected("data in a handshake".into())),
                Err(error) => {
                    let rest = incoming.get_mut(consumed..shown).unwrap_or_default();
                    return Err(self.fault_of(&error, rest, outgoing));
                }
            }
        }
    }
}

impl Handshake {
    /// How long the record is that `bytes` begin with, if all of it is there. One that may not come
    /// now is refused from its header alone: it is not waited for.
    fn next_record(&mut self, bytes: &mut [u8]) -> Result<Option<usize>, HandshakeFault> {
        let kind = match bytes.first() {
            None => return Ok(None),
            Some(kind @ CHANGE_CIPHER_SPEC..=HIDDEN) => *kind,
            Some(other) => return Err(unexpected(format!("a record of type {other}"))),
        };
        let version = self.version();
        // Once both sides have their keys all messages are encrypted (RFC 8446 section 2).
        let is_hidden = version == Some(Version::Tls13) && self.secret.is_some();
        if kind == HANDSHAKE && is_hidden {
            return Err(unexpected(
                "a handshake message that is not encrypted".into(),
            ));
        }
        let Some(&[.., high, low]) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length == 0 && kind != HIDDEN {
            return Err(unexpected("a record without content".into()));
        }
        let is_encrypted = kind == HIDDEN || self.has_client_changed;
        let expansion = version
            .filter(|_| is_encrypted)
            .map_or(0, expansion_bytes_max);
        if length > PLAINTEXT_BYTES_MAX + expansion {
            let detail = "a record is longer than TLS allows";
            let alert = Some(alert::RECORD_OVERFLOW);
            return Err(HandshakeFault::new(Reason::RecordInvalid, detail, alert));
        }
        let record_bytes = HEADER_BYTES + length;
        if record_bytes > bytes.len() {
            return Ok(None);
        }
        if kind == CHANGE_CIPHER_SPEC && version == Some(Version::Tls12) {
            if self.has_client_changed {
                return Err(unexpected("a second ChangeCipherSpec".into()));
            }
            self.has_client_changed = true;
        }
        // RFC 8446 section 5.1: to be ignored. The library does not, and no transcript has it.
        if let (false, Some(sent)) = (is_encrypted, bytes.get_mut(1..3)) {
            sent.copy_from_slice(&[3, 3]);
        }
        Ok(Some(record_bytes))
    }

    fn classify(&mut self, record: &[u8]) -> Result<RecordClass, HandshakeFault> {
        self.take_secrets();
        let is_over = match record.first() {
            // A second hello follows all early data (RFC 8446 section 4.2.10).
            Some(&HANDSHAKE) => self.is_retried(),
            // TLS 1.2 has none (appendix D.3).
            _ => self.version() == Some(Version::Tls12),
        };
        if is_over {
            self.skipper = None;
        }
        let Some(skipper) = self.skipper.as_mut() else {
            return Ok(RecordClass::Handshake);
        };
        if record.first() != Some(&HIDDEN) {
            return Ok(RecordClass::Handshake);
        }
        match skipper.judge(record) {
            RecordClass::Handshake => {
                self.skipper = None;
                Ok(RecordClass::Handshake)
            }
            class @ (RecordClass::Early | RecordClass::EarlyMessage) => Ok(class),
            RecordClass::TooMuch => Err(HandshakeFault::violation(
                alert::UNEXPECTED_MESSAGE,
                "more early data than anybody takes",
            )),
        }
    }

    fn is_retried(&self) -> bool {
        use rustls::HandshakeKind::FullWithHelloRetryRequest;
        self.connection.handshake_kind() == Some(FullWithHelloRetryRequest)
    }

    /// Whether it is known that no session is resumed.
    fn is_full(&self) -> bool {
        let kind = self.connection.handshake_kind();
        kind.is_some_and(|kind| kind != rustls::HandshakeKind::Resumed)
    }

    /// Whether it is known that early data is refused: it is where no session is resumed.
    fn is_early_refused(&self) -> bool {
        self.is_full() || self.skipper.as_ref().is_some_and(|one| one.is_refused)
    }

    /// The library has made nothing of a record of early data.
    fn refuse_early(&mut self, class: RecordClass) -> Result<(), HandshakeFault> {
        if class == RecordClass::EarlyMessage {
            // It may have kept a part of a message, and panics if that is gone. No client sends
            // one: EndOfEarlyData has four bytes.
            let detail = "a part of a message among early data";
            return Err(HandshakeFault::violation(alert::UNEXPECTED_MESSAGE, detail));
        }
        if let Some(skipper) = &mut self.skipper {
            skipper.is_refused = true;
        }
        Ok(())
    }
}

/// Early data is of TLS 1.3 alone. The library copies; what comes so early is little.
impl RecordSealer for Handshake {
    fn layout(&self) -> Layout {
        Layout::TLS13
    }

    fn seal(&mut self, record: &mut [u8]) -> Result<(), KeyExhausted> {
        let Layout { head, tail } = self.layout();
        let plain = record[head..record.len() - tail].to_vec();
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
        let Ok(ConnectionState::WriteTraffic(mut writing)) = state else {
            return Err(KeyExhausted);
        };
        let written = writing.encrypt(&plain, record).map_err(|_| KeyExhausted)?;
        assert_eq!(written, record.len(), "one record is laid out as ours");
        self.sealed += 1;
        Ok(())
    }
}

/// Where the keys of TLS 1.3 after a KeyUpdate come from, by what was logged of either side.
pub(crate) fn traffic_secrets(
    agreed: &Agreed,
    sending: Option<Secret>,
    receiving: Option<Secret>,
) -> Result<Option<TrafficSecrets>, HandshakeFault> {
    if agreed.version != Version::Tls13 {
        return Ok(None);
    }
    let of = |secret: Option<Secret>| Some(TrafficSecret::new(agreed.suite?, secret?));
    let both = of(sending).zip(of(receiving));
    let missing = || HandshakeFault::internal("no secret was logged");
    let (sending, receiving) = both.ok_or_else(missing)?;
    Ok(Some(TrafficSecrets { sending, receiving }))
}

fn unexpected(detail: String) -> HandshakeFault {
    HandshakeFault::violation(alert::UNEXPECTED_MESSAGE, detail)
}

/// A peer must not make us hold any number of bytes by records of a byte each.
pub(crate) fn check_waiting(waiting_bytes: usize) -> Result<(), HandshakeFault> {
    if waiting_bytes > WAITING_BYTES_MAX - RECORD_BYTES_MAX {
        let detail = "a handshake message in too many records";
        return Err(HandshakeFault::violation(alert::DECODE_ERROR, detail));
    }
    Ok(())
}

/// Whether a record of ours is an alert: by its type, or in TLS 1.3, which hides the type, by its
/// length, which no other message has.
pub(crate) fn is_alert(record: &[u8]) -> bool {
    const HIDDEN_ALERT_BYTES: usize = HEADER_BYTES + 2 + 1 + 16;
    match record.first() {
        Some(&ALERT) => true,
        Some(&HIDDEN) => record.len() == HIDDEN_ALERT_BYTES,
        _ => false,
    }
}

/// Takes all early data that is there.
fn collect(
    data: &mut ReadEarlyData<'_, '_, ServerConnectionData>,
    early: &mut Vec<u8>,
) -> Result<(), HandshakeFault> {
    while let Some(record) = data.next_record() {
        let record = record.map_err(|error| HandshakeFault::internal(error.to_string()))?;
        early.extend_from_slice(record.payload);
    }
    Ok(())
}

pub(crate) fn not_encoded(error: EncodeError) -> HandshakeFault {
    HandshakeFault::internal(error.to_string())
}
