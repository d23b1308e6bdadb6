//! The facts of a connection, filled in as it goes on; the log, the metrics and the PROXY
//! header are made from it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use telemetry::outcome::{
    EarlyData, EchResult, HandshakeKind, Reason, ResumptionMiss, SessionTier,
};
use tls::handshake::Agreed;
use tls::subject::Fingerprint;
use wire::server_session::SessionId;

/// The addresses of the client's connection; `None` is a Unix socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    pub source: Option<SocketAddr>,
    /// The address it connected to.
    pub destination: Option<SocketAddr>,
}

/// The algorithms of the certificate that a client was shown.
#[derive(Clone, Debug)]
pub struct CertificateAlgorithms {
    /// How its issuer signed it: `RSA-SHA256`.
    pub signature: Cow<'static, str>,
    /// The kind of key: `RSA2048`, `EC256`.
    pub key: Cow<'static, str>,
}

/// The session of TLS 1.2 in a handshake that passes by.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PassingSession {
    /// The client's ticket, or else its session id.
    pub offered: Option<SessionId>,
    /// It offers TLS 1.3 as well, and no ticket: then the id is mostly random (RFC 8446, D.4).
    pub may_be_random: bool,
    /// The session id of its hello, which a server that takes the ticket repeats (RFC 5077, 3.4).
    pub id: Option<SessionId>,
    /// The session that the client may offer next, as the server has agreed.
    pub agreed: Option<SessionId>,
}

#[derive(Debug)]
pub struct Facts {
    /// The number in the log and in PP2_TYPE_UNIQUE_ID.
    pub id: u64,
    pub accepted: Instant,
    /// The addresses of the client, by the PROXY header if one was accepted, else by the socket.
    pub route: Route,
    /// The PROXY header as it came, kept while it is to be passed on.
    pub proxy_header: Option<Box<[u8]>>,
    /// Whether a PROXY header was accepted.
    pub has_proxy_header: bool,
    /// The name that the client asked for.
    pub server_name: Option<Box<str>>,
    /// The bytes in the place of the name, if they are none, for the log.
    pub other_name: Option<Box<str>>,
    /// The JA4 fingerprint of the client's hello, where it is asked for.
    pub ja4: Option<Box<str>>,
    /// The only protocol (RFC 7301) that the client offers, where its TLS stays closed: what the
    /// server will choose is known if there is no other.
    pub only_protocol: Option<Box<[u8]>>,
    /// Sessions of TLS 1.2, where TLS stays closed and they matter.
    pub passing_session: Option<Box<PassingSession>>,
    /// The fingerprint of the certificate that the client is shown, where it is compared with that
    /// of the server.
    pub shown_certificate: Option<Fingerprint>,
    /// The server certificate's algorithms, if the PROXY header shows them. Boxed, because few
    /// services have it show them.
    pub certificate: Option<Box<CertificateAlgorithms>>,
    pub agreed: Option<Agreed>,
    pub handshake: Option<HandshakeKind>,
    /// The reason why the session that the client offered was not resumed.
    pub resumption_miss: Option<ResumptionMiss>,
    /// The place where the session was found that the client offered and this host did not have.
    pub session_tier: Option<SessionTier>,
    /// The fate of an encrypted hello, if the client offered one where they are opened.
    pub ech: Option<EchResult>,
    /// The fate of early data, if the client offered any.
    pub early_data: Option<EarlyData>,
    /// How many bytes, from the first, may be early data: at most, while the handshake goes on.
    pub early_bytes_max: Option<u32>,
    /// When the first byte came.
    pub first_byte: Option<Instant>,
    /// When the handshake was over.
    pub established: Option<Instant>,
    /// The server that was dialled last, by its index in the options.
    pub server: Option<usize>,
    /// The parameters that the handshake with the server agreed on.
    pub back_agreed: Option<Agreed>,
    /// When a server was connected, and its TLS handshake over.
    pub connected: Option<Instant>,
    /// Application bytes from the client to the server.
    pub bytes_up: u64,
    /// Application bytes from the server to the client.
    pub bytes_down: u64,
    /// KeyUpdate and other control records answered.
    pub key_updates: u32,
    /// Whether the client could have asked for TLS, and is relayed in plaintext.
    pub declined_tls: bool,
    /// Whether the kernel encrypts what is sent to the client.
    pub offloaded: bool,
}

impl Facts {
    /// The facts of a connection that has just been accepted.
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

    /// From the first byte to the handshake's end.
    pub fn handshake_time(&self) -> Option<Duration> {
        Some(self.established?.saturating_duration_since(self.first_byte?))
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ending {
    pub reason: Reason,
    pub detail: Option<Box<str>>,
}

impl Ending {
    pub fn new(reason: Reason) -> Self {
        Self { reason, detail: None }
    }

    pub fn with(reason: Reason, detail: impl Into<Box<str>>) -> Self {
        Self { reason, detail: Some(detail.into()) }
    }
}
