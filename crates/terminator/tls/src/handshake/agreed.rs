//! What a handshake has agreed on, as far as the TLS library knows.

use rustls::CommonState;

use crate::fingerprint::Fingerprint;
use crate::handshake::fault::HandshakeFault;
use crate::options::{Group, Suite, Version};

#[derive(Clone, Debug, PartialEq)]
pub struct Agreed {
    pub version: Version,
    pub suite: Option<Suite>,
    /// The key exchange group; none where a TLS 1.2 session was resumed.
    pub group: Option<Group>,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// Whether another key share had to be asked for.
    pub retried: bool,
    /// The application protocol (RFC 7301).
    pub alpn: Option<Box<[u8]>>,
    pub client_certificate: Option<Box<[u8]>>,
    /// What stands for the certificate of a server that we connected to.
    pub server_certificate: Option<Fingerprint>,
}

pub(super) fn suite_of(connection: &CommonState) -> Option<Suite> {
    let suite = connection.negotiated_cipher_suite()?;
    Suite::from_code(u16::from(suite.suite()))
}

pub(crate) fn agreed_by(connection: &CommonState) -> Result<Agreed, HandshakeFault> {
    use rustls::HandshakeKind::{FullWithHelloRetryRequest, Resumed};
    use rustls::ProtocolVersion;

    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => Version::Tls13,
        Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
        _ => return Err(HandshakeFault::internal("unknown version")),
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
        server_certificate: None,
    })
}
