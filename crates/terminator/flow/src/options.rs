//! The options of a connection: the PROXY header to servers, time limits, kernel TLS.

use std::sync::Arc;
use std::time::Duration;

use static_files::challenge::HttpChallenges;
use tls::client::Client;
use tls::ech::EchKeys;
use tls::options::{Cipher, Tls13Sessions, Version};
use tls::resumption::PassingSessions;
use tls::server::Server;
use wire::starttls::{Dialect, HostNames, Policy, Sides};
use wire::tunnel::Tunnel;

#[derive(Clone, Debug)]
pub struct Settings {
    pub front: Front,
    /// The PROXY header that servers get.
    pub send_proxy: SendProxy,
    /// Whether the client's hello is fingerprinted (JA4).
    pub ja4: bool,
    /// Whether some clients are to send a PROXY header, so that no others may.
    pub accepts_proxy: bool,
    /// Who has the sessions of TLS 1.2 that are made while TLS stays closed; `None` = that does not
    /// matter.
    pub passing_sessions: Option<PassingSessions>,
    /// The keys that open encrypted hellos, with [`Front::Shared`]; `None` = they stay closed.
    pub ech: Option<Arc<EchKeys>>,
    /// How TLS is originated towards servers; `None` = they get plaintext.
    pub back_tls: Option<ServerTls>,
    /// The host that servers, which are proxies, are asked for; `None` = they are the servers.
    pub tunnel: Option<Arc<Tunnel>>,
    /// The conversation before TLS; `None` = there is none.
    pub starttls: Option<Starttls>,
    /// How long each part may take.
    pub timeouts: Timeouts,
    /// Whether the kernel may encrypt what is long; `None` = never.
    pub offload: Option<Offload>,
}

/// The sides that begin in plaintext and ask for TLS, and the protocol.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Starttls {
    pub dialect: Dialect,
    /// Clients, servers or both. Clients need [`Front::Terminate`], servers `back_tls`.
    pub sides: Sides,
    /// The name that servers go by, where a dialect tells them one.
    pub server_name: Option<String>,
    /// The name that mail servers are told of this host ([`HostNames::own`]).
    pub own_name: String,
}

impl Starttls {
    /// The names that are said.
    pub fn names(&self) -> HostNames<'_> {
        HostNames { own: &self.own_name, server: self.server_name.as_deref() }
    }

    /// Whether clients without TLS may send passwords that a server wants under TLS.
    pub fn needs_password_key(&self) -> bool {
        let is_plain = self.sides.front != Some(Policy::Required);
        self.dialect == Dialect::Mysql && self.sides.back && is_plain
    }
}

#[derive(Clone, Debug)]
pub enum Front {
    Terminate(Arc<Server>),
    /// It stays closed: the server gets the client's records as they came.
    Passthrough,
    /// No TLS: the client's bytes go to the server from the first one on, unless an authority asks
    /// for one of these answers.
    Plain(HttpChallenges),
    /// The hello decides which of several services it is for. The limits are those of all of them.
    Shared,
}

impl Settings {
    /// The place of sessions of TLS 1.3.
    pub(crate) fn tls13_sessions(&self) -> Tls13Sessions {
        match &self.front {
            Front::Terminate(server) => server.tls13_sessions(),
            Front::Passthrough | Front::Plain(_) | Front::Shared => Tls13Sessions::Tickets,
        }
    }
}

/// TLS towards the servers of a service.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// The offer to servers, and the proof that is asked of them.
    pub client: Arc<Client>,
    /// Whether the PROXY header goes inside of TLS; else before it.
    pub header_inside: bool,
}

/// The ciphers that the kernel can use, and the length from which it is asked to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offload {
    /// From which length on it is asked where the length is known before, in bytes.
    pub from: u64,
    pub taken: Vec<(Version, Cipher)>,
    /// Whether it can be given the key that follows a KeyUpdate. If not, a connection ends when its
    /// client asks for one.
    pub rekeys: bool,
}

/// How much more must have come in one go than [`Offload::from`] where nobody knows how much will
/// follow.
///
/// A response of a known length has the whole of it still before it; a stream that is relayed may
/// end with its next byte, and the price of the hand-over (three system calls, and the kernel's own
/// setting up of a cipher) would be lost. What has gone on for long tends to go on for as long.
const RELAY_FACTOR: u64 = 8;

impl Offload {
    /// Whether the kernel can encrypt that.
    pub fn takes(&self, version: Version, cipher: Cipher) -> bool {
        self.taken.contains(&(version, cipher))
    }

    /// From how many bytes in one go on it is asked where the length is not known.
    pub fn relay_from(&self) -> u64 {
        self.from.saturating_mul(RELAY_FACTOR)
    }
}

/// The PROXY header sent to servers.
#[derive(Clone, Debug, PartialEq)]
pub enum SendProxy {
    Off,
    /// The incoming header as it came, byte for byte; needs `accept_proxy`.
    Pass,
    V1,
    /// Version 2, binary, with these TLVs.
    V2(ProxyTlvs),
}

/// The TLVs of a version 2 header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProxyTlvs {
    pub alpn: bool,
    pub authority: bool,
    /// PP2_TYPE_SSL with version, cipher, client CN, verify result, signature and key algorithm.
    pub ssl: bool,
    pub crc32c: bool,
    /// PP2_TYPE_UNIQUE_ID: the connection id of our log.
    pub unique_id: bool,
    /// The JA4 fingerprint of the client's hello in TLV 0xe2.
    pub ja4: bool,
    /// The client's certificate in TLV 0xe0, as hitch sends it.
    pub client_certificate: Option<CertificateForm>,
}

/// How a certificate is written into a TLV.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CertificateForm {
    Der,
    Pem,
}

/// How long each part of a connection may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// From accept to the handshake's end, with any PROXY header and conversation before it, and
    /// with a login of MySQL behind it.
    pub handshake: Duration,
    /// One dial of one server, with its TLS handshake.
    pub dial: Duration,
    /// From a server's connection to what it says before TLS: its greeting, and its answer to the
    /// request for TLS.
    pub greeting: Duration,
    /// No byte either way.
    pub idle: Duration,
    /// From accept to the end of the connection; `None` = as long as both sides want.
    pub lifetime: Option<Duration>,
}
