//! A handshake as bytes in and bytes out: the seam behind which the TLS library stands.
//!
//! Owns the drive of the library's unbuffered interface and the translation of its faults. Which
//! certificate and which parameters a client gets is decided before, in `server`.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};

use crate::options::{Group, Suite, Version};
use crate::record::{HEADER_BYTES, Opener, RECORD_BYTES_MAX, Sealer};
use crate::resumption::{Miss, Sight, authenticated, set_authenticated, take_sight};
use crate::traffic::Traffic;

/// One side of a handshake. Sans-IO: it is fed bytes and gives bytes, and never waits.
pub trait Handshake: Send {
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
    CertificateRefused,
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
    /// When its client was authenticated, if that was before this handshake.
    authenticated: Option<u64>,
}

impl ServerHandshake {
    /// Begins; the first bytes fed are the ClientHello's.
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, HandshakeFault> {
        let connection = UnbufferedServerConnection::new(config).map_err(fault_of)?;
        Ok(Self {
            connection,
            held: 0,
            sight: Sight::Nothing,
            authenticated: None,
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
                    let is_taken = encode(&mut data, outgoing).is_ok();
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
        loop {
            let window = incoming.get_mut(consumed..shown).unwrap_or_default();
            let UnbufferedStatus { discard, state, .. } =
                self.connection.process_tls_records(window);
            consumed += discard;
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outgoing)?,
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    if !self.connection.is_handshaking() {
                        return Ok(Step {
                            consumed,
                            done: true,
                        });
                    }
                    shown = shown.max(consumed);
                    let Some(end) = record_end(incoming, shown)? else {
                        self.held = shown - consumed;
                        return Ok(Step {
                            consumed,
                            done: false,
                        });
                    };
                    shown = end;
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    return Err(HandshakeFault::new(FaultKind::Closed, "close_notify"));
                }
                Ok(_) => {
                    return Err(HandshakeFault::new(
                        FaultKind::Violation,
                        "data in a handshake",
                    ));
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

impl Handshake for ServerHandshake {
    fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Step, HandshakeFault> {
        // Whatever this thread has noted before was another connection's.
        take_sight();
        set_authenticated(self.authenticated);
        let step = self.drive(incoming, outgoing);
        self.authenticated = authenticated();
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

    fn finish(self: Box<Self>) -> Result<Established, HandshakeFault> {
        let agreed = agreed_by(&self.connection)?;
        let (secrets, next) = self
            .connection
            .dangerous_into_kernel_connection()
            .map_err(fault_of)?;
        let unknown = || HandshakeFault::new(FaultKind::Internal, "unknown suite");
        let (sequence, keys) = &secrets.tx;
        let sealer = Sealer::new(agreed.version, *sequence, keys).ok_or_else(unknown)?;
        let (sequence, keys) = &secrets.rx;
        let opener = Opener::new(agreed.version, *sequence, keys).ok_or_else(unknown)?;
        let traffic = Traffic::new(agreed.version, sealer, opener, Box::new(next));
        Ok(Established { traffic, agreed })
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

fn encode<Side>(
    data: &mut EncodeTlsData<'_, Side>,
    outgoing: &mut Vec<u8>,
) -> Result<(), HandshakeFault> {
    let start = outgoing.len();
    // The library tells the size by refusing an empty space.
    let size = match data.encode(&mut []) {
        Ok(written) => written,
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        Err(EncodeError::AlreadyEncoded) => 0,
    };
    outgoing.resize(start + size, 0);
    match data.encode(&mut outgoing[start..]) {
        Ok(_) | Err(EncodeError::AlreadyEncoded) => Ok(()),
        Err(error) => Err(HandshakeFault::new(FaultKind::Internal, &error.to_string())),
    }
}

fn agreed_by(connection: &UnbufferedServerConnection) -> Result<Agreed, HandshakeFault> {
    use rustls::HandshakeKind::{FullWithHelloRetryRequest, Resumed};
    use rustls::ProtocolVersion;

    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => Version::Tls13,
        Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
        _ => return Err(HandshakeFault::new(FaultKind::Internal, "unknown version")),
    };
    let suite = connection
        .negotiated_cipher_suite()
        .map(|suite| u16::from(suite.suite()));
    let group = connection
        .negotiated_key_exchange_group()
        .map(|group| u16::from(group.name()));
    let kind = connection.handshake_kind();
    let chain = connection.peer_certificates();
    Ok(Agreed {
        version,
        suite: suite.and_then(Suite::from_code),
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

    let kind = match &error {
        Error::AlertReceived(_) => FaultKind::Alert,
        Error::NoCertificatesPresented => FaultKind::CertificateMissing,
        Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => {
            FaultKind::CertificateRefused
        }
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
