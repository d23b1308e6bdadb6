//! The client's side of a handshake, driven as the server's is: a record at a time.
//!
//! Owns what of it went wrong on the server's side.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{CertificateError, ClientConfig, Error, ProtocolVersion};
use rustls_pki_types::ServerName;
use telemetry::outcome::Reason;
use wire::alert;

use crate::context::{self, HandshakeContext, Secrets, Wanted};
use crate::fingerprint::fingerprint_of;
use crate::handshake::driver::append_encoded;
use crate::handshake::{
    Established, HandshakeFault, Step, agreed_by, check_waiting, is_alert, not_encoded,
    traffic_secrets,
};
use crate::options::Version;
use crate::record::{Opener, Sealer, expansion_bytes_max, record_bytes};
use crate::traffic::{Tickets, Traffic};
use crate::verify::{is_chain_fault, is_empty_certificate, signature_fault};

/// The one protocol that a server speaks only if it has selected it (RFC 9113 section 3.2). What
/// else a client may have agreed on is spoken to servers that know nothing of ALPN as well.
pub(super) const HTTP2: &[u8] = b"h2";

/// The client's side of a handshake. Sans-IO: it is fed bytes and gives bytes, and never waits.
pub struct ClientHandshake {
    connection: UnbufferedClientConnection,
    /// Bytes at the front of the input that the library has been shown and has not let go of.
    held: usize,
    /// Whether the client is going to speak HTTP/2, whatever server this is.
    needs_http2: bool,
    secrets: Secrets,
}

impl ClientHandshake {
    pub(super) fn new(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        alpn: Vec<Vec<u8>>,
        needs_http2: bool,
    ) -> Result<Self, HandshakeFault> {
        let connection = UnbufferedClientConnection::new_with_alpn(config, name, alpn);
        Ok(Self {
            needs_http2,
            connection: connection.map_err(|error| HandshakeFault::internal(error.to_string()))?,
            held: 0,
            secrets: Secrets::default(),
        })
    }

    /// Takes what came in and appends what has to go out, also when it fails (an alert). The first
    /// call needs no input.
    ///
    /// Only whole records are looked at. Bytes that were not consumed are to be offered again with
    /// more behind them. After `done`, what was not consumed belongs to [`Traffic`].
    pub fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Step, HandshakeFault> {
        let mut entering = HandshakeContext::default();
        entering.wanted = Wanted::Traffic;
        entering.secrets = std::mem::take(&mut self.secrets);
        let entered = context::enter(entering);
        let step = self.drive(incoming, outgoing);
        self.secrets = entered.leave().secrets;
        step
    }

    /// Ends a handshake that is done.
    pub fn finish(self) -> Result<Established, HandshakeFault> {
        let mut agreed = agreed_by(&self.connection)?;
        let certificate = agreed.client_certificate.take();
        agreed.server_certificate = certificate.map(|der| fingerprint_of(&der));
        if self.needs_http2 && agreed.alpn.as_deref() != Some(HTTP2) {
            return Err(failed(
                "h2 is to be spoken, which the server has not selected by ALPN",
            ));
        }
        let unknown = || HandshakeFault::internal("unknown suite");
        let (secrets, next) = self
            .connection
            .dangerous_into_kernel_connection()
            .map_err(|error| HandshakeFault::internal(error.to_string()))?;
        let (sequence, keys) = &secrets.tx;
        let sealer = Sealer::new(agreed.version, *sequence, keys).ok_or_else(unknown)?;
        let (sequence, keys) = &secrets.rx;
        let opener = Opener::new(agreed.version, *sequence, keys).ok_or_else(unknown)?;
        let Secrets { client, server, .. } = self.secrets;
        let traffic = traffic_secrets(&agreed, client, server)?;
        let tickets = traffic.is_some().then(|| Tickets::new(next));
        let traffic = Traffic::new(agreed.version, sealer, None, opener, traffic, tickets);
        let traffic = Box::new(traffic);
        Ok(Established { traffic, agreed })
    }

    fn drive(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<Step, HandshakeFault> {
        let mut consumed = 0;
        // The library sees one record more only when it asks: what follows the last record of the
        // handshake is ours.
        let mut shown = self.held;
        loop {
            let window = incoming.get_mut(consumed..shown).unwrap_or_default();
            let UnbufferedStatus { discard, state, .. } =
                self.connection.process_tls_records(window);
            consumed += discard;
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append_encoded(&mut data, outgoing).map_err(not_encoded)?;
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    let done = !self.connection.is_handshaking();
                    shown = shown.max(consumed);
                    let rest = incoming.get(shown..).unwrap_or_default();
                    let next = if done { None } else { self.next_record(rest)? };
                    let Some(record_bytes) = next else {
                        self.held = shown - consumed;
                        check_waiting(incoming.len() - consumed)?;
                        return Ok(Step { consumed, done });
                    };
                    shown += record_bytes;
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    return Err(failed("the server sent close_notify in the handshake"));
                }
                Ok(_) => return Err(failed("the server sent data in the handshake")),
                Err(error) => {
                    let rest = incoming.get_mut(consumed..shown).unwrap_or_default();
                    self.collect_alert(rest, outgoing);
                    mend_alert(&error, outgoing);
                    return Err(fault_of(&error));
                }
            }
        }
    }

    /// How long the record is that `bytes` begin with, if all of it is there.
    fn next_record(&self, bytes: &[u8]) -> Result<Option<usize>, HandshakeFault> {
        let is_tls13 = self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let version = if is_tls13 {
            Version::Tls13
        } else {
            Version::Tls12
        };
        let length = record_bytes(bytes, expansion_bytes_max(version));
        let is_first = self.connection.protocol_version().is_none();
        let length = length.map_err(|fault| {
            if is_first {
                failed("the server does not speak TLS: its first bytes are no record")
            } else {
                failed(format!("the server's side of the handshake: {fault}"))
            }
        })?;
        Ok(length.filter(|length| *length <= bytes.len()))
    }

    /// Appends the alert that the library has for its error; see the server's side.
    fn collect_alert(&mut self, mut rest: &mut [u8], outgoing: &mut Vec<u8>) {
        loop {
            let UnbufferedStatus { discard, state, .. } = self.connection.process_tls_records(rest);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let start = outgoing.len();
                    let encoded = append_encoded(&mut data, outgoing);
                    if encoded.is_err() || is_alert(&outgoing[start..]) {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                _ => return,
            }
            rest = rest.get_mut(discard..).unwrap_or_default();
        }
    }
}

/// The library has no alert of its own for an empty certificate. That of TLS 1.3 is encrypted, and
/// stays `handshake_failure`.
fn mend_alert(error: &Error, outgoing: &mut [u8]) {
    if is_empty_certificate(error)
        && let Some([21, _, _, 0, 2, _, description]) = outgoing.last_chunk_mut::<7>()
    {
        *description = alert::DECODE_ERROR;
    }
}

fn failed(detail: impl Into<String>) -> HandshakeFault {
    HandshakeFault::new(Reason::ServerTlsFailed, detail, None)
}

/// What the library's error says about the server.
fn fault_of(error: &Error) -> HandshakeFault {
    let refused = context::with(|context| context.refusal.take());
    if let Some(what) = signature_fault(error).filter(|_| refused.is_none()) {
        return failed(format!("the server's proof of its key {what}"));
    }
    let refused =
        |reason| HandshakeFault::new(reason, refused.unwrap_or_else(|| error.to_string()), None);
    let Error::InvalidCertificate(fault) = error else {
        return match error {
            Error::AlertReceived(description) => {
                let label = alert::label((*description).into());
                failed(format!("the server sent alert {label}"))
            }
            Error::InvalidCertRevocationList(_) => refused(Reason::ServerCertificateUntrusted),
            error if is_empty_certificate(error) => refused(Reason::ServerTlsFailed),
            error => failed(format!("the handshake with the server failed: {error}")),
        };
    };
    let reason = match fault {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => Reason::ServerCertificateExpired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Reason::ServerCertificateName
        }
        CertificateError::Revoked => Reason::ServerCertificateRevoked,
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => Reason::CrlExpired,
        fault if is_chain_fault(fault) => Reason::ServerChainLimit,
        _ => Reason::ServerCertificateUntrusted,
    };
    refused(reason)
}
