//! The client's side of a handshake, driven as the server's is: a record at a time.
//!
//! Owns what of it went wrong on the server's side.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::{CertificateError, ClientConfig, CommonState, Error};
use rustls_pki_types::ServerName;
use telemetry::outcome::Reason;
use wire::alert;

use crate::context::{self, HandshakeContext, Secrets, WantedSecrets};
use crate::handshake::library::{HandshakeDriver, HandshakeSide, agreed_by, version_of};
use crate::handshake::{Established, HandshakeFault, HandshakeStep};
use crate::options::Version;
use crate::record::{expansion_bytes_max, record_bytes};
use crate::subject::fingerprint_of;
use crate::verify::{is_chain_fault, is_empty_certificate, signature_fault};

/// The one protocol that a server speaks only if it has selected it (RFC 9113 section 3.2). What
/// else a client may have agreed on is spoken to servers that know nothing of ALPN as well.
pub(super) const HTTP2: &[u8] = b"h2";

/// The client's side of a handshake. Sans-IO: it is fed bytes and gives bytes, and never waits.
pub struct ClientHandshake {
    driver: HandshakeDriver<UnbufferedClientConnection, ClientSide>,
    /// Whether the client is going to speak HTTP/2, whatever server this is.
    needs_http2: bool,
    secrets: Secrets,
}

/// The rules for a server's records.
struct ClientSide;

impl ClientHandshake {
    pub(super) fn new(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        alpn: Vec<Vec<u8>>,
        needs_http2: bool,
    ) -> Result<Self, HandshakeFault> {
        let connection = UnbufferedClientConnection::new_with_alpn(config, name, alpn);
        Ok(Self {
            driver: HandshakeDriver::new(connection, ClientSide)?,
            needs_http2,
            secrets: Secrets::default(),
        })
    }

    /// Takes what came in and appends what has to go out, also when it fails (an alert). The first
    /// call needs no input.
    ///
    /// Only whole records are looked at. Bytes that were not consumed are to be offered again with
    /// more behind them. After `done`, what was not consumed belongs to the traffic.
    pub fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<HandshakeStep, HandshakeFault> {
        let mut entering = HandshakeContext::default();
        entering.wanted = WantedSecrets::Traffic;
        entering.secrets = std::mem::take(&mut self.secrets);
        let entered = context::enter(entering);
        let step = self.driver.drive(incoming, outgoing);
        self.secrets = entered.leave().secrets;
        step
    }

    /// Ends a handshake that is done.
    pub fn finish(self) -> Result<Established, HandshakeFault> {
        let mut agreed = agreed_by(self.driver.common())?;
        let certificate = agreed.client_certificate.take();
        agreed.server_certificate = certificate.map(|der| fingerprint_of(&der));
        if self.needs_http2 && agreed.alpn.as_deref() != Some(HTTP2) {
            return Err(failed("h2 is to be spoken, which the server has not selected by ALPN"));
        }
        let Secrets { client, server, .. } = self.secrets;
        let mut traffic = self.driver.into_traffic(&agreed, client, server)?;
        // The kernel seals towards clients alone.
        traffic.forget_kernel_keys();
        Ok(Established { traffic, agreed })
    }
}

impl HandshakeSide for ClientSide {
    fn next_record(
        &mut self,
        library: &CommonState,
        bytes: &mut [u8],
    ) -> Result<Option<usize>, HandshakeFault> {
        let version = version_of(library);
        let expansion = expansion_bytes_max(version.unwrap_or(Version::Tls12));
        let length = record_bytes(bytes, expansion).map_err(|fault| {
            if version.is_none() {
                failed("the server does not speak TLS: its first bytes are no record")
            } else {
                failed(format!("the server's side of the handshake: {fault}"))
            }
        })?;
        Ok(length.filter(|length| *length <= bytes.len()))
    }

    fn closed() -> HandshakeFault {
        failed("the server sent close_notify in the handshake")
    }

    fn has_data() -> HandshakeFault {
        failed("the server sent data in the handshake")
    }

    fn fault_of(
        &mut self,
        _: &CommonState,
        error: &Error,
        alert: Option<usize>,
        outgoing: &mut Vec<u8>,
    ) -> HandshakeFault {
        if alert.is_some() {
            mend_alert(error, outgoing);
        }
        fault_of(error)
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

/// The fault of the server by the library's error.
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
