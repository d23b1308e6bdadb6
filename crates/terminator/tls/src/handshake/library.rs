//! Drives a handshake of either side through the TLS library's unbuffered interface, which is used
//! nowhere else.
//!
//! Decides which bytes the library sees, handles its output, and extracts the parameters and keys.
//! A side's rules, and the naming of the peer's faults, are in [`HandshakeSide`].

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, ReadEarlyData, UnbufferedStatus,
};
use rustls::{CommonState, Error, ExtractedSecrets, ProtocolVersion};
use wire::alert;

use crate::handshake::fault::HandshakeFault;
use crate::identity::Fingerprint;
use crate::options::{Group, Suite, Version};
use crate::record::{HEADER_BYTES, KeyExhausted, KeyOpener, KeySealer, RECORD_BYTES_MAX};
use crate::secrets::{LoggedSecret, TrafficSecret};
use crate::traffic::{TicketIntake, Traffic, TrafficSecrets};

/// Maximum bytes of an incomplete handshake message: the longest message that the library takes (64
/// KiB), in records of no less than a few bytes.
pub const WAITING_BYTES_MAX: usize = 1 << 17;

pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
/// Type of records of TLS 1.3 whose own type is encrypted.
pub(super) const HIDDEN: u8 = 23;

/// Progress of a handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HandshakeStep {
    /// Number of input bytes that were processed.
    pub consumed: usize,
    /// Whether the handshake is over.
    pub done: bool,
}

/// The part of the library that reads a server's tickets after the handshake.
type TicketState = KernelConnection<ClientConnectionData>;

/// A connection of the library, of either side.
pub(crate) trait LibraryConnection: Sized {
    type Data;

    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8])
    -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn common(&self) -> &CommonState;

    /// Appends all available early data.
    fn read_early(
        data: &mut ReadEarlyData<'_, '_, Self::Data>,
        into: &mut Vec<u8>,
    ) -> Result<(), Error>;

    /// Extracts the secrets and drops the library. A client's state continues to read tickets.
    fn into_secrets(self) -> Result<(ExtractedSecrets, Option<TicketState>), Error>;
}

impl LibraryConnection for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }

    fn common(&self) -> &CommonState {
        self
    }

    fn read_early(
        data: &mut ReadEarlyData<'_, '_, Self::Data>,
        into: &mut Vec<u8>,
    ) -> Result<(), Error> {
        while let Some(record) = data.next_record() {
            into.extend_from_slice(record?.payload);
        }
        Ok(())
    }

    fn into_secrets(self) -> Result<(ExtractedSecrets, Option<TicketState>), Error> {
        let (secrets, _) = self.dangerous_into_kernel_connection()?;
        Ok((secrets, None))
    }
}

impl LibraryConnection for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }

    fn common(&self) -> &CommonState {
        self
    }

    fn read_early(_: &mut ReadEarlyData<'_, '_, Self::Data>, _: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn into_secrets(self) -> Result<(ExtractedSecrets, Option<TicketState>), Error> {
        let (secrets, state) = self.dangerous_into_kernel_connection()?;
        Ok((secrets, Some(state)))
    }
}

/// Rules of one side.
pub(crate) trait HandshakeSide {
    /// Returns the length of the record at the start of `bytes`, if it is complete. A record that
    /// is not allowed now is refused from its header alone, without waiting for the rest.
    fn next_record(
        &mut self,
        library: &CommonState,
        bytes: &mut [u8],
    ) -> Result<Option<usize>, HandshakeFault>;

    /// Reports whether this record is hidden from the library. If the record is not the `first`
    /// unprocessed one, the library holds a part of a message.
    fn passes_over(
        &mut self,
        _library: &CommonState,
        _record: &[u8],
        _is_first: bool,
    ) -> Result<bool, HandshakeFault> {
        Ok(false)
    }

    /// Notes that the library has processed some of its input.
    fn note_taken(&mut self) {}

    /// Reports, when the library needs more input, whether the records shown are finished, although
    /// the library has not discarded them.
    fn drops_shown(&mut self) -> Result<bool, HandshakeFault> {
        Ok(false)
    }

    /// Returns the buffer for early data; `None` = early data is not allowed.
    fn begin_early(&mut self) -> Option<&mut Vec<u8>> {
        None
    }

    /// Notes a record that the library has made.
    fn note_sent(&mut self, _library: &CommonState, _record: &[u8]) {}

    /// Returns the fault of a peer that closes its stream during the handshake.
    fn closed() -> HandshakeFault;

    /// Returns the fault of a peer that sends data during the handshake.
    fn has_data() -> HandshakeFault;

    /// Converts a fault found by the library. Its own alert, if any, is the end of `outgoing`, and
    /// begins at `alert`.
    fn fault_of(
        &mut self,
        library: &CommonState,
        error: &Error,
        alert: Option<usize>,
        outgoing: &mut Vec<u8>,
    ) -> HandshakeFault;
}

/// A handshake in progress.
pub(crate) struct HandshakeDriver<C, S> {
    connection: C,
    /// Bytes at the front of the input that the library has seen and not discarded: it remembers
    /// positions in them, so it must see them again, and first.
    held: usize,
    pub(crate) side: S,
}

impl<C: LibraryConnection, S: HandshakeSide> HandshakeDriver<C, S> {
    pub(crate) fn new(connection: Result<C, Error>, side: S) -> Result<Self, HandshakeFault> {
        Ok(Self { connection: connection.map_err(internal)?, held: 0, side })
    }

    pub(crate) fn common(&self) -> &CommonState {
        self.connection.common()
    }

    /// Processes the records, each shown to the library once it is whole, and appends the output.
    pub(crate) fn drive(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<HandshakeStep, HandshakeFault> {
        let mut consumed = 0;
        // The library sees one record more only on request: the last record of the handshake may be
        // followed by application data, which it must never get.
        let mut shown = self.held;
        loop {
            let window = incoming.get_mut(consumed..shown).unwrap_or_default();
            let UnbufferedStatus { discard, state, .. } = self.connection.process(window);
            consumed += discard;
            if discard > 0 {
                self.side.note_taken();
            }
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let start = outgoing.len();
                    append_encoded(&mut data, outgoing).map_err(internal)?;
                    let library = self.connection.common();
                    self.side.note_sent(library, &outgoing[start..]);
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    let done = !self.connection.common().is_handshaking();
                    if !done && self.side.drops_shown()? {
                        consumed = shown;
                    }
                    if done || !self.show_next(incoming, &mut consumed, &mut shown)? {
                        return Ok(HandshakeStep { consumed, done });
                    }
                }
                Ok(ConnectionState::ReadEarlyData(mut data)) => {
                    let early = self.side.begin_early().ok_or_else(S::has_data)?;
                    C::read_early(&mut data, early).map_err(internal)?;
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    return Err(S::closed());
                }
                Ok(_) => return Err(S::has_data()),
                Err(error) => {
                    let rest = incoming.get_mut(consumed..shown).unwrap_or_default();
                    let alert = self.collect_alert(rest, outgoing);
                    let library = self.connection.common();
                    return Err(self.side.fault_of(library, &error, alert, outgoing));
                }
            }
        }
    }

    /// Extends the window by the next record. Returns whether it is whole.
    fn show_next(
        &mut self,
        incoming: &mut [u8],
        consumed: &mut usize,
        shown: &mut usize,
    ) -> Result<bool, HandshakeFault> {
        let library = self.connection.common();
        *shown = (*shown).max(*consumed);
        let rest = incoming.get_mut(*shown..).unwrap_or_default();
        let Some(record_bytes) = self.side.next_record(library, rest)? else {
            self.held = *shown - *consumed;
            check_waiting(incoming.len() - *consumed)?;
            return Ok(false);
        };
        let end = *shown + record_bytes;
        let record = incoming.get(*shown..end).unwrap_or_default();
        let is_first = *shown == *consumed;
        if self.side.passes_over(library, record, is_first)? {
            *consumed = end;
        }
        *shown = end;
        Ok(true)
    }

    /// Collects the library's output after its error, and returns where its alert begins.
    ///
    /// `rest` is the input not discarded: messages behind the faulty one are still in it, and the
    /// library panics if they are gone (a refused Certificate shares one record with the messages
    /// after it).
    fn collect_alert(&mut self, mut rest: &mut [u8], outgoing: &mut Vec<u8>) -> Option<usize> {
        loop {
            let UnbufferedStatus { discard, state, .. } = self.connection.process(rest);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let start = outgoing.len();
                    append_encoded(&mut data, outgoing).ok()?;
                    // On another call, the library would judge the same bytes again.
                    if is_alert(&outgoing[start..]) {
                        return Some(start);
                    }
                    let library = self.connection.common();
                    self.side.note_sent(library, &outgoing[start..]);
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                _ => return None,
            }
            rest = rest.get_mut(discard..).unwrap_or_default();
        }
    }

    /// Reports whether the library can be asked to seal: it must see held bytes again, and no
    /// others.
    pub(crate) fn is_free(&self) -> bool {
        self.held == 0
    }

    /// Seals one record with the library, as long as `record`.
    pub(crate) fn seal(&mut self, plain: &[u8], record: &mut [u8]) -> Result<(), KeyExhausted> {
        let UnbufferedStatus { state, .. } = self.connection.process(&mut []);
        let Ok(ConnectionState::WriteTraffic(mut writing)) = state else {
            return Err(KeyExhausted);
        };
        let written = writing.encrypt(plain, record).map_err(|_| KeyExhausted)?;
        assert_eq!(written, record.len(), "one record is laid out as ours");
        Ok(())
    }

    /// Completes a handshake that is done. In TLS 1.3 the keys that follow a KeyUpdate are derived
    /// from the secrets that were logged for each direction.
    pub(crate) fn into_traffic(
        self,
        agreed: &NegotiatedParameters,
        sending: Option<LoggedSecret>,
        receiving: Option<LoggedSecret>,
    ) -> Result<Box<Traffic>, HandshakeFault> {
        let unknown = || HandshakeFault::internal("unknown suite");
        let next = traffic_secrets(agreed, sending, receiving)?;
        let (secrets, tickets) = self.connection.into_secrets().map_err(internal)?;
        let (sequence, keys) = secrets.tx;
        let sealer = KeySealer::new(agreed.version, sequence, &keys).ok_or_else(unknown)?;
        let (sequence, opening_keys) = &secrets.rx;
        let opener = KeyOpener::new(agreed.version, *sequence, opening_keys).ok_or_else(unknown)?;
        let tickets = tickets.filter(|_| next.is_some()).map(TicketIntake::new);
        let keys = Some(keys);
        let traffic = Traffic::new(agreed.version, sealer, keys, opener, next, tickets);
        Ok(Box::new(traffic))
    }
}

/// Appends the output that the library has ready.
fn append_encoded<Data>(
    data: &mut EncodeTlsData<'_, Data>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let start = out.len();
    // The library reports the size by refusing an empty buffer.
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

fn traffic_secrets(
    agreed: &NegotiatedParameters,
    sending: Option<LoggedSecret>,
    receiving: Option<LoggedSecret>,
) -> Result<Option<TrafficSecrets>, HandshakeFault> {
    if agreed.version != Version::Tls13 {
        return Ok(None);
    }
    let of = |secret: Option<LoggedSecret>| TrafficSecret::new(agreed.suite?, &secret?);
    let both = of(sending).zip(of(receiving));
    let missing = || HandshakeFault::internal("no secret was logged");
    let (sending, receiving) = both.ok_or_else(missing)?;
    Ok(Some(TrafficSecrets { sending, receiving }))
}

/// Limits the waiting bytes, because a peer may send records of a byte each.
fn check_waiting(waiting_bytes: usize) -> Result<(), HandshakeFault> {
    if waiting_bytes > WAITING_BYTES_MAX - RECORD_BYTES_MAX {
        let detail = "a handshake message in too many records";
        return Err(HandshakeFault::violation(alert::DECODE_ERROR, detail));
    }
    Ok(())
}

/// Reports whether a record of ours is an alert: by its type, or in TLS 1.3, which hides the type,
/// by its length, which no other message has.
fn is_alert(record: &[u8]) -> bool {
    const HIDDEN_ALERT_BYTES: usize = HEADER_BYTES + 2 + 1 + 16;
    match record.first() {
        Some(&ALERT) => true,
        Some(&HIDDEN) => record.len() == HIDDEN_ALERT_BYTES,
        _ => false,
    }
}

fn internal(error: impl ToString) -> HandshakeFault {
    HandshakeFault::internal(error.to_string())
}

/// Parameters agreed on in a handshake, as far as the library knows them.
#[derive(Clone, Debug, PartialEq)]
pub struct NegotiatedParameters {
    pub version: Version,
    pub suite: Option<Suite>,
    /// Key exchange group; `None` if a TLS 1.2 session was resumed.
    pub group: Option<Group>,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// Whether another key share was requested.
    pub retried: bool,
    /// Application protocol (RFC 7301).
    pub alpn: Option<Box<[u8]>>,
    pub client_certificate: Option<Box<[u8]>>,
    /// Fingerprint of the certificate of a server that we connected to.
    pub server_certificate: Option<Fingerprint>,
}

pub(crate) fn version_of(connection: &CommonState) -> Option<Version> {
    match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => Some(Version::Tls13),
        Some(ProtocolVersion::TLSv1_2) => Some(Version::Tls12),
        _ => None,
    }
}

pub(super) fn suite_of(connection: &CommonState) -> Option<Suite> {
    let suite = connection.negotiated_cipher_suite()?;
    Suite::from_code(u16::from(suite.suite()))
}

pub(crate) fn agreed_by(connection: &CommonState) -> Result<NegotiatedParameters, HandshakeFault> {
    use rustls::HandshakeKind::{FullWithHelloRetryRequest, Resumed};

    let unknown = || HandshakeFault::internal("unknown version");
    let version = version_of(connection).ok_or_else(unknown)?;
    let group = connection.negotiated_key_exchange_group().map(|group| u16::from(group.name()));
    let kind = connection.handshake_kind();
    let chain = connection.peer_certificates();
    Ok(NegotiatedParameters {
        version,
        suite: suite_of(connection),
        group: group.and_then(Group::from_code),
        resumed: matches!(kind, Some(Resumed)),
        retried: matches!(kind, Some(FullWithHelloRetryRequest)),
        alpn: connection.alpn_protocol().map(Into::into),
        client_certificate: chain.and_then(|chain| chain.first()).map(|leaf| leaf[..].into()),
        server_certificate: None,
    })
}
