//! What one connection is told: how it presents itself to a server, how long its parts may take.

use std::sync::Arc;
use std::time::Duration;

use tls::server::Server;

/// What all connections of a service share.
#[derive(Clone)]
pub struct Settings {
    /// How TLS is taken off.
    pub tls: Arc<Server>,
    /// What a server is told about the client.
    pub send_proxy: SendProxy,
    /// How long each part may take.
    pub timeouts: Timeouts,
}

/// The PROXY header sent to servers.
#[derive(Clone, Debug, PartialEq)]
pub enum SendProxy {
    /// None.
    Off,
    /// The incoming header as it came, byte for byte; needs `accept_proxy`.
    Pass,
    /// Version 1, text.
    V1,
    /// Version 2, binary, with these TLVs.
    V2(ProxyTlvs),
}

/// Which TLVs a version 2 header carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProxyTlvs {
    /// PP2_TYPE_ALPN.
    pub alpn: bool,
    /// PP2_TYPE_AUTHORITY: the server name.
    pub authority: bool,
    /// PP2_TYPE_SSL with version, cipher, client CN, verify result, signature and key algorithm.
    pub ssl: bool,
    /// PP2_TYPE_CRC32C.
    pub crc32c: bool,
    /// PP2_TYPE_UNIQUE_ID: the connection id of our log.
    pub unique_id: bool,
    /// The client's certificate in TLV 0xe0, as hitch sends it.
    pub client_certificate: Option<CertificateForm>,
}

/// How a certificate is written into a TLV.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CertificateForm {
    /// DER.
    Der,
    /// PEM.
    Pem,
}

/// How long each part of a connection may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// From accept to the handshake's end, with any PROXY header before it.
    pub handshake: Duration,
    /// One dial of one server.
    pub dial: Duration,
    /// No byte either way.
    pub idle: Duration,
}
