//! A handshake as bytes in and bytes out: the seam behind which the TLS library stands.
//!
//! Owns the drive of the library's unbuffered interface and the translation of its faults. Which
//! certificate and which parameters a client gets is decided before, in `server`.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, ReadEarlyData, UnbufferedStatus};

use crate::early::{Skipper, Sort, want_secrets};
use crate::options::{Group, Suite, Version};
use crate::record::{HEADER_BYTES, KeyExhausted, Layout, Opener, RECORD_BYTES_MAX, Seal, Sealer};
use crate::resumption::{Bond, Miss, Sight, bond, set_bond, take_sight};
use crate::traffic::Traffic;
use crate::traffic::in_place::InPlace;
use crate::traffic::library::{Library, append_encoded};
use crate::verify::{ClientCertificateFault, take_refusal};

/// One side of a handshake. Sans-IO: it is fed bytes and gives bytes, and never waits.
///
/// Once early data has come, it also seals what answers it, before the handshake is done.
pub trait Handshake: Seal + Send {
    /// Takes what came in and appends what has to go out, also when it fails (an alert).
    ///
    /// Only whole records are looked at. Bytes that were not consumed are to be offered again with
    /// more behind them. After `done`, what was not consumed belongs to [`Traffic`].
    fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Step, HandshakeFault>;

    /// Why a session that the client offered is not resumed; `None` = it offered none, or it is.
    /// Known from the hello on, and of handshakes that fail as well.
    fn miss(&self) -> Option<Miss>;

    /// Appends the early data (RFC 8446 section 2.3) that has come since this was last asked. All
    /// of it comes before the handshake is done. Each session gives it once, so it is no replay of
    /// what came before; that it will not be sent again is known only when the handshake is done.
    fn take_early_data(&mut self, out: &mut Vec<u8>);

    /// What was agreed on, as far as it is known: all of it, once early data has come.
    ///
    /// # Errors
    /// Nothing is agreed on yet.
    fn agreed(&self) -> Result<Agreed, HandshakeFault>;

    /// Whether application data can be sealed now, before the handshake is done (RFC 8446 section
    /// 2.3 and appendix E.5: the session says who the client is).
    fn can_seal(&self) -> bool;

    /// Ends a handshake that is done.
    fn finish(self: Box<Self>) -> Result<Established, HandshakeFault>;
}

/// How far a handshake got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Whether the handshake is over.
    pub done: bool,
}

/// What a finished handshake leaves.
pub struct Established {
    /// The connection itself.
    pub traffic: Traffic,
    /// What was agreed.
    pub agreed: Agreed,
}

/// What client and server agreed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreed {
    /// The version.
    pub version: Version,
    /// The suite.
    pub suite: Option<Suite>,
    /// The key exchange group; none where a TLS 1.2 session was resumed.
    pub group: Option<Group>,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// Whether the client had to be asked for another key share.
    pub retried: bool,
    /// The application protocol (RFC 7301).
    pub alpn: Option<Box<[u8]>>,
    /// The client's certificate, DER.
    pub client_certificate: Option<Box<[u8]>>,
}

/// Why a handshake failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HandshakeFault {
    /// The kind, for counting.
    pub kind: FaultKind,
    /// The library's words, for the log.
    pub detail: String,
}

/// Kinds of failure, each with a guilty side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultKind {
    /// The client sent a fatal alert.
    Alert,
    /// A client certificate is required and none came.
    CertificateMissing,
    /// The client's certificate did not verify.
    CertificateRefused(ClientCertificateFault),
    /// The client closed its stream.
    Closed,
    /// A fault of ours.
    Internal,
    /// Nothing in common: version, suite, group, scheme or protocol.
    NothingShared,
    /// A record did not decrypt.
    RecordInvalid,
    /// The client broke the protocol.
    Violation,
}

/// The server's side of a handshake.
pub struct ServerHandshake {
    connection: UnbufferedServerConnection,
    /// Bytes at the front of the input that the library has been shown and has not let go of: it
    /// remembers places in them, so it must be shown them again, and first.
    held: usize,
    /// What the last look-up of an offered session came to.
    sight: Sight,
    /// What its tickets must know.
    bond: Bond,
    /// Early data that nobody has taken.
    early: Vec<u8>,
    has_early: bool,
    /// While early data that was offered may have to be skipped.
    skipper: Option<Skipper>,
    /// Records of application data that it has sealed.
    sealed: u64,
    /// Whether the configuration lets go of the keys, for our own record layer.
    gives_keys: bool,
}

impl ServerHandshake {
    /// Begins; the first bytes fed are those of a ClientHello that offers early data or does not.
    pub fn new(config: Arc<ServerConfig>, offers_early_data: bool) -> Result<Self, HandshakeFault> {
        let gives_keys = config.enable_secret_extraction;
        let connection = UnbufferedServerConnection::new(config).map_err(fault_of)?;
        Ok(Self {
            gives_keys,
            sealed: 0,
            connection,
            held: 0,
            sight: Sight::Nothing,
            bond: Bond::default(),
            early: Vec::new(),
            has_early: false,
            skipper: offers_early_data.then(Skipper::new),
        })
    }

    /// Appends the alert that the library has queued after a fault.
    ///
    /// `rest` is what it has not let go of: messages behind the one at fault still wait in it, and
    /// the library panics if they are gone (a Certificate that is refused comes in one record with
    /// what follows it).
    fn collect_alert(&mut self, mut rest: &mut [u8], outgoing: &mut Vec<u8>) {
        loop {
            let UnbufferedStatus { discard, state, .. } = self.connection.process_tls_records(rest);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let start = outgoing.len();
                    let is_taken = append_encoded(&mut data, outgoing).is_ok();
                    // Asked once more, the library would judge the same bytes a second time.
                    if !is_taken || is_alert(outgoing.get(start..).unwrap_or_default()) {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                _ => return,
            }
            rest = rest.get_mut(discard..).unwrap_or_default();
        }
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
                    append_encoded(&mut data, outgoing).map_err(not_encoded)?
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    if !self.connection.is_handshaking() {
                        return Ok(Step {
                            consumed,
                            done: true,
                        });
                    }
                    if let Some(sort) = early.take() {
                        self.refuse_early(sort)?;
                        consumed = shown;
                    }
                    shown = shown.max(consumed);
                    let Some(end) = record_end(incoming, shown)? else {
                        self.held = shown - consumed;
                        return Ok(Step {
                            consumed,
                            done: false,
                        });
                    };
                    match self.sort(incoming.get(shown..end).unwrap_or_default())? {
                        Sort::Handshake => {}
                        // Within a message that the library holds there can be none.
                        _ if shown > consumed => {}
                        _ if self.is_early_refused() => consumed = end,
                        sort => early = Some(sort),
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
                    return Err(HandshakeFault::new(FaultKind::Closed, "close_notify"));
                }
                Ok(_) => {
                    let detail = "data in a handshake";
                    return Err(HandshakeFault::new(FaultKind::Violation, detail));
                }
                Err(error) => {
                    let rest = incoming.get_mut(consumed..shown).unwrap_or_default();
                    self.collect_alert(rest, outgoing);
                    return Err(fault_of(error));
                }
            }
        }
    }
}

impl ServerHandshake {
    /// What the next record is.
    fn sort(&mut self, record: &[u8]) -> Result<Sort, HandshakeFault> {
        const HIDDEN: u8 = 23;
        let suite = suite_of(&self.connection);
        let Some(skipper) = self.skipper.as_mut() else {
            return Ok(Sort::Handshake);
        };
        if record.first() != Some(&HIDDEN) {
            return Ok(Sort::Handshake);
        }
        match skipper.judge(record, suite) {
            Sort::Handshake => {
                self.skipper = None;
                Ok(Sort::Handshake)
            }
            sort @ (Sort::Early | Sort::EarlyMessage) => Ok(sort),
            Sort::TooMuch => Err(HandshakeFault::new(
                FaultKind::Violation,
                "more early data than anybody takes",
            )),
        }
    }

    /// Whether it is known that early data is refused: it is where no session is resumed.
    fn is_early_refused(&self) -> bool {
        let kind = self.connection.handshake_kind();
        let is_full = kind.is_some_and(|kind| kind != rustls::HandshakeKind::Resumed);
        is_full || self.skipper.as_ref().is_some_and(|one| one.is_refused)
    }

    /// The library has made nothing of a record of early data.
    fn refuse_early(&mut self, sort: Sort) -> Result<(), HandshakeFault> {
        if sort == Sort::EarlyMessage {
            // It may have kept a part of a message, and panics if that is gone. No client sends
            // one: EndOfEarlyData has four bytes.
            let detail = "a part of a message among early data";
            return Err(HandshakeFault::new(FaultKind::Violation, detail));
        }
        if let Some(skipper) = &mut self.skipper {
            skipper.is_refused = true;
        }
        Ok(())
    }

    fn bond_now(&self) -> Bond {
        match self.connection.handshake_kind() {
            Some(rustls::HandshakeKind::Resumed) | None => bond(),
            // A session was found and did not fit.
            Some(_) => bond().in_full(),
        }
    }
}

impl Handshake for ServerHandshake {
    fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Step, HandshakeFault> {
        // Whatever this thread has noted before was another connection's.
        take_sight();
        set_bond(self.bond);
        want_secrets(self.skipper.is_some());
        let step = self.drive(incoming, outgoing);
        self.bond = self.bond_now();
        if let Some(skipper) = &mut self.skipper {
            skipper.learn(suite_of(&self.connection));
        }
        match take_sight() {
            Sight::Nothing => {}
            seen => self.sight = seen,
        }
        step
    }

    fn miss(&self) -> Option<Miss> {
        let is_resumed = self.connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        match self.sight {
            _ if is_resumed => None,
            Sight::Nothing => None,
            Sight::Session => Some(Miss::Mismatch),
            Sight::Miss(miss) => Some(miss),
        }
    }

    fn take_early_data(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.early);
    }

    fn agreed(&self) -> Result<Agreed, HandshakeFault> {
        agreed_by(&self.connection)
    }

    fn can_seal(&self) -> bool {
        // What it holds it must be shown again, and nothing else.
        self.has_early && self.held == 0
    }

    fn finish(self: Box<Self>) -> Result<Established, HandshakeFault> {
        let agreed = agreed_by(&self.connection)?;
        let unknown = || HandshakeFault::new(FaultKind::Internal, "unknown suite");
        if !self.gives_keys {
            let layer = Library::new(self.connection, self.sealed).ok_or_else(unknown)?;
            let traffic = Traffic::Library(Box::new(layer));
            return Ok(Established { traffic, agreed });
        }
        let (secrets, next) = self
            .connection
            .dangerous_into_kernel_connection()
            .map_err(fault_of)?;
        let (sequence, keys) = secrets.tx;
        let sealer = Sealer::new(agreed.version, sequence, &keys).ok_or_else(unknown)?;
        let (sequence, opening_keys) = &secrets.rx;
        let opener = Opener::new(agreed.version, *sequence, opening_keys).ok_or_else(unknown)?;
        let layer = InPlace::new(agreed.version, sealer, Some(keys), opener, Box::new(next));
        let traffic = Traffic::InPlace(layer);
        Ok(Established { traffic, agreed })
    }
}

/// Early data is of TLS 1.3 alone. The library copies; what comes so early is little.
impl Seal for ServerHandshake {
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

impl HandshakeFault {
    fn new(kind: FaultKind, detail: &str) -> Self {
        Self {
            kind,
            detail: detail.to_owned(),
        }
    }
}

/// Where the record that starts at `start` ends, if all of it is there. One that is longer than
/// TLS allows is refused from its header: it is not waited for.
fn record_end(bytes: &[u8], start: usize) -> Result<Option<usize>, HandshakeFault> {
    let rest = bytes.get(start..).unwrap_or_default();
    let Some(&[_, _, _, high, low]) = rest.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let record_bytes = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if record_bytes > RECORD_BYTES_MAX {
        let detail = "a record longer than TLS allows";
        return Err(HandshakeFault::new(FaultKind::RecordInvalid, detail));
    }
    Ok((record_bytes <= rest.len()).then_some(start + record_bytes))
}

/// Whether a record of ours is an alert: by its type, or in TLS 1.3, which hides the type, by its
/// length, which no other message has.
fn is_alert(record: &[u8]) -> bool {
    const ALERT: u8 = 21;
    const HIDDEN: u8 = 23;
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
        early.extend_from_slice(record.map_err(fault_of)?.payload);
    }
    Ok(())
}

fn not_encoded(error: EncodeError) -> HandshakeFault {
    HandshakeFault::new(FaultKind::Internal, &error.to_string())
}

fn suite_of(connection: &UnbufferedServerConnection) -> Option<Suite> {
    let suite = connection.negotiated_cipher_suite()?;
    Suite::from_code(u16::from(suite.suite()))
}

fn agreed_by(connection: &UnbufferedServerConnection) -> Result<Agreed, HandshakeFault> {
    use rustls::HandshakeKind::{FullWithHelloRetryRequest, Resumed};
    use rustls::ProtocolVersion;

    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => Version::Tls13,
        Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
        _ => return Err(HandshakeFault::new(FaultKind::Internal, "unknown version")),
    };
    let group = connection
        .negotiated_key_exchange_group()
        .map(|group| u16::from(group.name()));
    let kind = connection.handshake_kind();
    let chain = connection.peer_certificates();
    Ok(Agreed {
        version,
        suite: suite_of(connection),
        group: group.and_then(Group::from_code),
        resumed: matches!(kind, Some(Resumed)),
        retried: matches!(kind, Some(FullWithHelloRetryRequest)),
        alpn: connection.alpn_protocol().map(Into::into),
        client_certificate: chain
            .and_then(|chain| chain.first())
            .map(|leaf| leaf[..].into()),
    })
}

fn fault_of(error: rustls::Error) -> HandshakeFault {
    use rustls::Error;

    if let Some(fault) = ClientCertificateFault::of(&error) {
        return HandshakeFault {
            kind: FaultKind::CertificateRefused(fault),
            detail: take_refusal().unwrap_or_else(|| error.to_string()),
        };
    }
    let kind = match &error {
        Error::AlertReceived(_) => FaultKind::Alert,
        Error::NoCertificatesPresented => FaultKind::CertificateMissing,
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => FaultKind::NothingShared,
        Error::DecryptError | Error::PeerSentOversizedRecord => FaultKind::RecordInvalid,
        Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::InvalidMessage(_)
        | Error::PeerMisbehaved(_) => FaultKind::Violation,
        _ => FaultKind::Internal,
    };
    HandshakeFault {
        kind,
        detail: error.to_string(),
    }
}
