//! Facts of a connection, filled in as it goes on: the source of the log, the metrics, and the
//! PROXY header that a server gets before the client's first byte.
//!
//! Handles the header's choice of fields, and that no stream is opened without it;
//! `wire::proxy_header` handles its form.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use telemetry::outcome::{
    EarlyData, EchResult, HandshakeKind, Reason, ResumptionMiss, SessionTier,
};
use tls::handshake::NegotiatedParameters;
use tls::identity::{self, Fingerprint};
use tls::options::Version;
use wire::proxy_header::{Addresses, ClientTls, HeaderTooLong, HeaderV2, kind, write_v1};
use wire::server_session::SessionId;

use crate::options::{CertificateForm, ProxyTlvs, SendProxy};

/// Addresses of the client's connection; `None` is a Unix socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    pub source: Option<SocketAddr>,
    /// Address that the client connected to.
    pub destination: Option<SocketAddr>,
}

/// Algorithms of the certificate that a client was shown.
#[derive(Clone, Debug)]
pub struct CertificateAlgorithms {
    /// Signature algorithm of its issuer: `RSA-SHA256`.
    pub signature: Cow<'static, str>,
    /// Kind of its key: `RSA2048`, `EC256`.
    pub key: Cow<'static, str>,
}

/// A session of TLS 1.2 in a handshake that is passed through.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PassingSession {
    /// The client's ticket, or else its session id.
    pub offered: Option<SessionId>,
    /// Whether the id is mostly random: TLS 1.3 is offered too, and no ticket (RFC 8446, D.4).
    pub may_be_random: bool,
    /// Session id of the hello, which a server that accepts the ticket repeats (RFC 5077, 3.4).
    pub id: Option<SessionId>,
    /// Session that the client may offer next, as the server has agreed.
    pub agreed: Option<SessionId>,
}

#[derive(Debug)]
pub struct ConnectionFacts {
    /// Number of the connection in the log and in PP2_TYPE_UNIQUE_ID.
    pub id: u64,
    pub accepted: Instant,
    /// Addresses of the client, from the PROXY header if one was accepted, else from the socket.
    pub route: Route,
    /// Received PROXY header, kept while it is to be passed on.
    pub proxy_header: Option<Box<[u8]>>,
    /// Whether a PROXY header was accepted.
    pub has_proxy_header: bool,
    /// Name that the client asked for.
    pub server_name: Option<Box<str>>,
    /// Bytes in the place of the name that are no name, for the log.
    pub other_name: Option<Box<str>>,
    /// JA4 fingerprint of the client's hello, if it is configured.
    pub ja4: Option<Box<str>>,
    /// The only protocol (RFC 7301) that a client in passthrough offers: the server's choice is
    /// known if there is no other.
    pub only_protocol: Option<Box<[u8]>>,
    /// Session of TLS 1.2, if TLS is passed through and the session matters.
    pub passing_session: Option<Box<PassingSession>>,
    /// Fingerprint of the certificate that the client is shown, if it is compared with the
    /// server's.
    pub shown_certificate: Option<Fingerprint>,
    /// Algorithms of the server certificate, if the PROXY header shows them. Boxed, because few
    /// services do that.
    pub certificate: Option<Box<CertificateAlgorithms>>,
    pub agreed: Option<NegotiatedParameters>,
    pub handshake: Option<HandshakeKind>,
    /// Reason why the session that the client offered was not resumed.
    pub resumption_miss: Option<ResumptionMiss>,
    /// Place where the session was found that the client offered and this host did not have.
    pub session_tier: Option<SessionTier>,
    /// Result of an encrypted hello, if the client offered one and keys are configured.
    pub ech: Option<EchResult>,
    /// Result of early data, if the client offered any.
    pub early_data: Option<EarlyData>,
    /// Number of bytes, from the first, that may be early data: a limit, until the handshake's end.
    pub early_bytes_max: Option<u32>,
    /// Time of the first byte.
    pub first_byte: Option<Instant>,
    /// Time of the handshake's end.
    pub established: Option<Instant>,
    /// Index, in the options, of the server that was dialled last.
    pub server: Option<usize>,
    /// Parameters of the TLS with the server.
    pub back_agreed: Option<NegotiatedParameters>,
    /// Time at which a server was connected, and its TLS handshake over.
    pub connected: Option<Instant>,
    /// Application bytes from the client to the server.
    pub bytes_up: u64,
    /// Application bytes from the server to the client.
    pub bytes_down: u64,
    /// Number of KeyUpdate and other control records answered.
    pub key_updates: u32,
    /// Whether the client could have asked for TLS, and is relayed in plaintext.
    pub declined_tls: bool,
    /// Whether the kernel encrypts what is sent to the client.
    pub offloaded: bool,
}

impl ConnectionFacts {
    /// Creates the facts of a connection that has just been accepted.
    pub fn new(id: u64, route: Route, now: Instant) -> Self {
        Self {
            id,
            accepted: now,
            route,
            proxy_header: None,
            has_proxy_header: false,
            server_name: None,
            other_name: None,
            ja4: None,
            only_protocol: None,
            passing_session: None,
            shown_certificate: None,
            certificate: None,
            agreed: None,
            handshake: None,
            resumption_miss: None,
            session_tier: None,
            ech: None,
            early_data: None,
            early_bytes_max: None,
            first_byte: None,
            established: None,
            server: None,
            back_agreed: None,
            connected: None,
            bytes_up: 0,
            bytes_down: 0,
            key_updates: 0,
            declined_tls: false,
            offloaded: false,
        }
    }

    /// Returns the time from the first byte to the handshake's end.
    pub fn handshake_time(&self) -> Option<Duration> {
        Some(self.established?.saturating_duration_since(self.first_byte?))
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConnectionEnd {
    pub reason: Reason,
    pub detail: Option<Box<str>>,
}

impl ConnectionEnd {
    pub fn new(reason: Reason) -> Self {
        Self { reason, detail: None }
    }

    pub fn with(reason: Reason, detail: impl Into<Box<str>>) -> Self {
        Self { reason, detail: Some(detail.into()) }
    }
}

/// Returns the PROXY header that this service sends; empty if it sends none.
///
/// # Errors
/// Fails if the header cannot be made. The connection must not reach a server without it: the
/// server would read a header from the client's first bytes, which can then claim anything.
pub(crate) fn header(send: &SendProxy, facts: &ConnectionFacts) -> Result<Vec<u8>, ConnectionEnd> {
    let mut out = Vec::new();
    match send {
        SendProxy::Off => {}
        SendProxy::Pass => {
            let header = facts.proxy_header.as_deref();
            out.extend_from_slice(header.ok_or_else(missing_header)?);
        }
        SendProxy::V1 => write_v1(&addresses(facts.route), &mut out),
        SendProxy::V2(tlvs) => write_v2(tlvs, facts, &mut out)
            .map_err(|error| ConnectionEnd::with(Reason::ProxyHeaderTooLong, error.to_string()))?,
    }
    Ok(out)
}

/// Returns the ending of a client that may not send the header that the service passes on.
pub(crate) fn missing_header() -> ConnectionEnd {
    ConnectionEnd::new(Reason::ProxyHeaderMissing)
}

fn addresses(route: Route) -> Addresses<'static> {
    match (route.source, route.destination) {
        (Some(source), Some(destination)) => Addresses::tcp(source, destination),
        _ => Addresses::Unknown,
    }
}

fn write_v2(
    tlvs: &ProxyTlvs,
    facts: &ConnectionFacts,
    out: &mut Vec<u8>,
) -> Result<(), HeaderTooLong> {
    let agreed = facts.agreed.as_ref();
    let der = agreed.and_then(|agreed| agreed.client_certificate.as_deref());
    let common_name = der.filter(|_| tlvs.ssl).and_then(identity::common_name);
    let pem = match (tlvs.client_certificate, der) {
        (Some(CertificateForm::Pem), Some(der)) => Some(identity::pem(der).ok_or(HeaderTooLong)?),
        _ => None,
    };
    let id = format!("{:016x}", facts.id);
    let early_bytes_max = facts.early_bytes_max.map(u32::to_be_bytes);
    let early = early_bytes_max.as_ref().map(|bytes| (kind::EARLY_DATA, &bytes[..]));
    let ja4 = facts.ja4.as_ref().filter(|_| tlvs.ja4).map(|one| (kind::JA4, one.as_bytes()));
    let others: Vec<_> = early.into_iter().chain(ja4).collect();
    let header = HeaderV2 {
        addresses: addresses(facts.route),
        alpn: agreed
            .map_or(facts.only_protocol.as_deref(), |one| one.alpn.as_deref())
            .filter(|_| tlvs.alpn),
        authority: facts.server_name.as_deref().filter(|_| tlvs.authority),
        unique_id: tlvs.unique_id.then_some(id.as_bytes()),
        tls: agreed
            .filter(|_| tlvs.ssl)
            .map(|agreed| client_tls(agreed, facts, common_name.as_deref())),
        client_certificate: match tlvs.client_certificate {
            Some(CertificateForm::Der) => der,
            Some(CertificateForm::Pem) => pem.as_deref().map(str::as_bytes),
            None => None,
        },
        others: &others,
        checksum: tlvs.crc32c,
        ..HeaderV2::default()
    };
    header.write(out)
}

fn client_tls<'a>(
    agreed: &NegotiatedParameters,
    facts: &'a ConnectionFacts,
    common_name: Option<&'a str>,
) -> ClientTls<'a> {
    let has_certificate = agreed.client_certificate.is_some();
    let certificate = facts.certificate.as_ref();
    ClientTls {
        version: match agreed.version {
            Version::Tls12 => "TLSv1.2",
            Version::Tls13 => "TLSv1.3",
        },
        cipher: agreed.suite.map(|suite| suite.openssl_name()),
        certificate_on_connection: has_certificate && !agreed.resumed,
        certificate_in_session: has_certificate,
        // A certificate that does not verify ends the handshake, so that a present one did.
        verify: u32::from(!has_certificate),
        common_name,
        signature_algorithm: certificate.map(|one| &*one.signature),
        key_algorithm: certificate.map(|one| &*one.key),
        group: agreed.group.map(|group| group.name()),
        signature_scheme: None,
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use std::time::Instant;

    use testkit::authority::Authority;

    use super::*;

    const TLVS: ProxyTlvs = ProxyTlvs {
        alpn: false,
        authority: true,
        ssl: true,
        crc32c: true,
        unique_id: false,
        ja4: false,
        client_certificate: None,
    };

    fn facts(common_name_bytes: usize) -> ConnectionFacts {
        let leaf = Authority::root("club").client(&"n".repeat(common_name_bytes));
        let route = Route { source: None, destination: None };
        let mut facts = ConnectionFacts::new(1, route, Instant::now());
        facts.agreed = Some(NegotiatedParameters {
            version: Version::Tls13,
            suite: None,
            group: None,
            resumed: false,
            retried: false,
            alpn: None,
            client_certificate: Some(leaf.certificate_der().into()),
            server_certificate: None,
        });
        facts
    }

    #[test]
    fn a_header_that_cannot_be_made_whole_is_not_made() {
        let with = |client_certificate| SendProxy::V2(ProxyTlvs { client_certificate, ..TLVS });
        let pem = with(Some(CertificateForm::Pem));
        for (send, name_bytes, is_made) in [
            (with(None), 1000, true),
            (with(None), 65_600, false),
            (pem.clone(), 1000, true),
            (pem, 50_000, false),
        ] {
            let made = header(&send, &facts(name_bytes));
            let reason = made.as_ref().err().map(|ending| ending.reason);
            let wanted = (!is_made).then_some(Reason::ProxyHeaderTooLong);
            assert_eq!(reason, wanted, "{send:?} {name_bytes}");
        }
    }

    #[test]
    fn where_none_has_come_none_can_be_passed_on() {
        let reason = header(&SendProxy::Pass, &facts(1)).map_err(|ending| ending.reason);
        assert_eq!(reason, Err(Reason::ProxyHeaderMissing));
    }
}
