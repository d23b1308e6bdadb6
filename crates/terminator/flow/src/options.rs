//! Options of a connection: the PROXY header to servers, time limits, kernel TLS.

use std::sync::Arc;
use std::time::Duration;

use static_files::challenge::HttpChallenges;
use tls::client::Client;
use tls::ech::EchKeys;
use tls::options::{Cipher, Tls13Sessions, Version};
use tls::resumption::PassingSessions;
use tls::server::Server;
use wire::starttls::{Dialect, HostNames, Policy, StarttlsSides};
use wire::tunnel::Tunnel;

#[derive(Clone, Debug)]
pub struct Settings {
    pub front: Front,
    /// PROXY header sent to servers.
    pub send_proxy: SendProxy,
    /// Whether the client's hello is fingerprinted (JA4).
    pub ja4: bool,
    /// Whether some clients must send a PROXY header, so that no others may.
    pub accepts_proxy: bool,
    /// Registry of TLS 1.2 sessions made in passthrough; `None` = they do not matter.
    pub passing_sessions: Option<PassingSessions>,
    /// Keys that open encrypted hellos, with [`Front::Shared`]; `None` = they stay closed.
    pub ech: Option<Arc<EchKeys>>,
    /// TLS towards servers; `None` = they get plaintext.
    pub back_tls: Option<ServerTls>,
    /// Host that proxies, configured as servers, are asked for; `None` = they are the servers.
    pub tunnel: Option<Arc<Tunnel>>,
    /// Conversation before TLS; `None` = there is none.
    pub starttls: Option<Starttls>,
    /// Time limits of each part.
    pub timeouts: Timeouts,
    /// Encryption of long data by the kernel; `None` = never.
    pub offload: Option<Offload>,
}

/// Protocol that begins in plaintext, and the sides that ask for TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Starttls {
    pub dialect: Dialect,
    /// Clients, servers or both. Clients need [`Front::Terminate`], servers `back_tls`.
    pub sides: StarttlsSides,
    /// Name of the servers, for dialects that send it to them.
    pub server_name: Option<String>,
    /// Name of this host that mail servers get ([`HostNames::own`]).
    pub own_name: String,
}

impl Starttls {
    /// Returns the names that the dialog sends.
    pub fn names(&self) -> HostNames<'_> {
        HostNames { own: &self.own_name, server: self.server_name.as_deref() }
    }

    /// Reports whether clients without TLS may send passwords that a server wants under TLS.
    pub fn needs_password_key(&self) -> bool {
        let is_plain = self.sides.front != Some(Policy::Required);
        self.dialect == Dialect::Mysql && self.sides.back && is_plain
    }
}

#[derive(Clone, Debug)]
pub enum Front {
    Terminate(Arc<Server>),
    /// TLS passthrough: the server gets the client's records as they came.
    Passthrough,
    /// No TLS: the client's bytes go to the server from the first one on, unless an authority asks
    /// for one of these answers.
    Plain(HttpChallenges),
    /// The hello selects one of several services. The limits are common to all of them.
    Shared,
}

impl Settings {
    /// Returns where sessions of TLS 1.3 are kept.
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
    /// The offer to servers, and the authentication that is demanded of them.
    pub client: Arc<Client>,
    /// Whether the PROXY header goes inside of TLS; else before it.
    pub header_inside: bool,
}

/// Ciphers that the kernel can use, and the length from which it is asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Offload {
    /// Length, in bytes, from which the kernel is asked if the length is known before.
    pub from: u64,
    pub taken: Vec<(Version, Cipher)>,
    /// Whether the kernel can take the key that follows a KeyUpdate. If not, a connection ends when
    /// its client asks for one.
    pub rekeys: bool,
}

/// Factor on [`Offload::from`] for the bytes that must have come in one go if the total length is
/// unknown.
///
/// A response of a known length has its whole length still to come; a relayed stream may end with
/// its next byte, and the price of the hand-over (three system calls, and the kernel's setup of a
/// cipher) would be lost. A stream that has gone on for long tends to go on for as long.
const RELAY_FACTOR: u64 = 8;

impl Offload {
    /// Reports whether the kernel can encrypt with this version and cipher.
    pub fn takes(&self, version: Version, cipher: Cipher) -> bool {
        self.taken.contains(&(version, cipher))
    }

    /// Returns the bytes in one go from which the kernel is asked if the length is unknown.
    pub fn relay_from(&self) -> u64 {
        self.from.saturating_mul(RELAY_FACTOR)
    }
}

/// The PROXY header sent to servers.
#[derive(Clone, Debug, PartialEq)]
pub enum SendProxy {
    Off,
    /// The received header, byte for byte; needs `accept_proxy`.
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

/// Form of a certificate in a TLV.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CertificateForm {
    Der,
    Pem,
}

/// Time limits of the parts of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// Time from accept to the handshake's end, with any PROXY header and conversation before it,
    /// and with a login of MySQL behind it.
    pub handshake: Duration,
    /// One dial of one server, with its TLS handshake.
    pub dial: Duration,
    /// Time from a server's connection to its answers before TLS: its greeting, and its answer to
    /// the request for TLS.
    pub greeting: Duration,
    /// Time without a byte either way.
    pub idle: Duration,
    /// Time from accept to the end of the connection; `None` = as long as both sides want.
    pub lifetime: Option<Duration>,
}
