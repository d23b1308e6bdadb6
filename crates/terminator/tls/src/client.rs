//! The TLS of one service's back: we are the client of its servers.
//!
//! Handles what a server is offered and must prove, the sessions resumed with it, and the faults of
//! a handshake on its side. The handshake is driven like the server's: record by record.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64ct::{Base64, Encoding};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
    UnbufferedClientConnection,
};
use rustls::{CertificateError, ClientConfig, CommonState, Error, NamedGroup};
use rustls_pki_types::ServerName;
use telemetry::outcome::Reason;
use wire::alert;

use crate::certificate::Certificate;
use crate::context::{self, HandshakeContext, SecretListener, Secrets, WantedSecrets};
use crate::handshake::library::{HandshakeDriver, HandshakeSide, agreed_by, version_of};
use crate::handshake::{CompletedHandshake, HandshakeFault, HandshakeStep};
use crate::identity::{fingerprint_of, sha256};
use crate::options::{ClientOptions, ExpectedName, OfferedAlpn, Version};
use crate::policy::{Policy, SuiteOrder};
use crate::probe::{Probe, ProbeFault};
use crate::record::{expansion_bytes_max, record_bytes};
use crate::server::{BuildError, BuildFault, Expiries, Warning, WarningSubject, library_version};
use crate::validity::{Clock, ExpirySummary, Moment, seconds};
use crate::verify::server::ServerVerifier;
use crate::verify::{is_chain_fault, is_empty_certificate, signature_fault};

/// Interval of full handshakes with a server: it renews sessions with each connection, and a
/// certificate verified at the first may be revoked or expired.
const FULL_HANDSHAKE_EVERY: Duration = Duration::from_secs(3600);

/// Number of names of one server whose sessions are kept, if clients choose the name.
const NAMES_PER_SERVER: usize = 64;

/// The TLS of one service's back.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    verifier: Arc<ServerVerifier>,
    own: Option<Arc<Certificate>>,
    servers: Box<[Server]>,
    options: ConnectOptions,
}

/// Options that apply to each connection.
#[derive(Debug)]
struct ConnectOptions {
    name: ExpectedName,
    alpn: OfferedAlpn,
    resumption: bool,
    is_verified: bool,
}

#[derive(Debug)]
struct Server {
    name: ServerName<'static>,
    /// Configuration with the sessions made since that instant.
    current: Mutex<Option<(Instant, Arc<ClientConfig>)>>,
}

/// Facts about the client for which a connection is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnBehalfOf<'a> {
    /// The server name that the client requested.
    pub name: Option<&'a str>,
    /// The protocol negotiated with the client.
    pub alpn: Option<&'a [u8]>,
}

/// Parses the SHA-256 of a public key as curl writes it: `sha256//` and Base64.
pub fn parse_pin(text: &str) -> Option<[u8; 32]> {
    let encoded = text.strip_prefix("sha256//")?;
    Base64::decode_vec(encoded).ok()?.try_into().ok()
}

/// Returns the pin of a certificate of our own.
pub fn pin_of(certificate: &Certificate) -> Option<[u8; 32]> {
    certificate.key.key.public_key().map(|key| sha256(&key))
}

impl Client {
    /// Builds the client for servers at these hosts; `None` is a Unix socket, which has no name.
    ///
    /// # Errors
    /// Fails with the option that cannot be used.
    pub fn build(
        options: &ClientOptions,
        service: &str,
        hosts: &[Option<String>],
        order: &SuiteOrder,
    ) -> Result<(Self, Vec<Warning>), BuildError> {
        let mut concerns = Vec::new();
        Self::assemble(options, hosts, order, &mut concerns)
            .map(|client| (client, Warning::of_all(service, concerns)))
            .map_err(|fault| BuildError { service: service.into(), is_front: false, fault })
    }

    fn assemble(
        options: &ClientOptions,
        hosts: &[Option<String>],
        order: &SuiteOrder,
        concerns: &mut Vec<WarningSubject>,
    ) -> Result<Self, BuildFault> {
        let range = options.version_min..=options.version_max;
        let (policy, found) = Policy::of(range, &options.suites, &options.groups, order)?;
        concerns.extend(found.into_iter().map(WarningSubject::Policy));
        let verifier = ServerVerifier::new(options.verification.as_ref(), &options.pins)?;
        let verifier = Arc::new(verifier);
        let own = options.certificate.as_ref().map(Certificate::shared);
        let own = own.transpose()?.map(|(certificate, _)| certificate);
        let client = Self {
            config: configuration(options, &policy, &verifier, own.as_deref())?,
            verifier,
            own,
            servers: hosts
                .iter()
                .map(|host| Server::new(host.as_deref(), &options.name))
                .collect::<Result<_, _>>()?,
            options: ConnectOptions {
                name: options.name.clone(),
                alpn: options.alpn.clone(),
                resumption: options.resumption,
                is_verified: options.verification.is_some(),
            },
        };
        let now = seconds(Clock::default().now());
        concerns.extend(client.concerns(Moment { since: None, now }));
        Ok(client)
    }

    /// Begins a handshake with a server, by its number among the hosts.
    ///
    /// # Errors
    /// Fails with the library's error.
    pub fn connect(
        &self,
        server: usize,
        client: OnBehalfOf<'_>,
        now: Instant,
    ) -> Result<ClientHandshake, HandshakeFault> {
        let unknown = || HandshakeFault::internal("an unknown server");
        let server = self.servers.get(server).ok_or_else(unknown)?;
        let named = client.name.filter(|_| self.follows_client());
        let named = named.and_then(|name| ServerName::try_from(name.to_owned()).ok());
        let name = named.unwrap_or_else(|| server.name.clone());
        let alpn = match &self.options.alpn {
            OfferedAlpn::OfClient => client.alpn.map(<[u8]>::to_vec).into_iter().collect(),
            OfferedAlpn::Fixed(names) => names.clone(),
        };
        let is_http2 = |name: &[u8]| name == HTTP2;
        let needs_http2 = alpn.iter().any(|name| is_http2(name))
            && (alpn.len() == 1 || client.alpn.is_some_and(is_http2));
        ClientHandshake::new(server.config(self, now), name, alpn, needs_http2)
    }

    /// Prepares a full handshake with a server, for a check. `name` matters only if connections use
    /// the name of their clients.
    ///
    /// # Errors
    /// Fails with [`ProbeFault::NameInvalid`] or the library's error.
    pub fn probe(&self, server: usize, name: Option<&str>) -> Result<Probe, ProbeFault> {
        let server = self.servers.get(server).ok_or(ProbeFault::NameInvalid)?;
        let mut expected = server.name.clone();
        if let Some(name) = name.filter(|_| self.follows_client()) {
            let read = ServerName::try_from(name.to_owned());
            expected = read.map_err(|_| ProbeFault::NameInvalid)?;
        }
        let mut config = self.config.clone();
        if let OfferedAlpn::Fixed(names) = &self.options.alpn {
            config.alpn_protocols.clone_from(names);
        }
        Probe::by(config, expected)
    }

    /// Drops the sessions of a server, so that the next handshake with it is a full one.
    pub fn forget_sessions(&self, server: usize) {
        if let Some(server) = self.servers.get(server) {
            *server.lock() = None;
        }
    }

    /// Reports whether the name that a client requests decides what a server must prove. If so,
    /// failures say nothing about the server.
    pub fn follows_client(&self) -> bool {
        self.options.name == ExpectedName::OfClient
    }

    /// Reports whether servers' certificates are verified.
    pub fn is_verified(&self) -> bool {
        self.options.is_verified
    }

    /// Returns the warnings that arise over time, for the operator of the service of this name.
    pub fn warnings(&self, service: &str, moment: Moment) -> Vec<Warning> {
        Warning::of_all(service, self.concerns(moment).collect())
    }

    /// Returns the next second after `now` (Unix seconds) at which the warnings may change.
    pub fn next_change(&self, now: i64) -> Option<i64> {
        let trust = self.verifier.chains().map(|chains| chains.next_change(now));
        let own = self.own.as_ref().map(|own| own.next_change(now));
        trust.into_iter().chain(own).flatten().min()
    }

    /// Returns when the certificates, authorities and lists in use end, at `now` (Unix seconds).
    pub fn expiries(&self, now: i64) -> Expiries {
        let own = self.own.iter().map(|own| own.expiry(own.validity));
        let trust = self.verifier.chains().map(|chains| chains.ends(now));
        let (authorities, lists) = trust.unwrap_or_default();
        Expiries {
            certificates: ExpirySummary::of(own, now),
            staples: ExpirySummary::default(),
            authorities,
            lists,
            skipped: Vec::new(),
        }
    }

    fn concerns(&self, moment: Moment) -> impl Iterator<Item = WarningSubject> {
        let trust = self.verifier.chains().into_iter();
        let trust = trust.flat_map(move |chains| chains.concerns(moment));
        let own = self.own.iter().flat_map(move |own| {
            own.concerns(moment).map(|concern| WarningSubject::OwnCertificate {
                place: own.place.to_string(),
                concern,
            })
        });
        trust.map(WarningSubject::VerifyServers).chain(own)
    }
}

impl Server {
    fn new(host: Option<&str>, expected: &ExpectedName) -> Result<Self, BuildFault> {
        const NAMELESS: &str = "127.0.0.1";
        let name = match expected {
            ExpectedName::Fixed(name) => name,
            ExpectedName::OfServer | ExpectedName::OfClient => host.unwrap_or(NAMELESS),
        };
        let fault = |_| BuildFault::ServerName(name.to_owned());
        Ok(Self {
            name: ServerName::try_from(name.to_owned()).map_err(fault)?,
            current: Mutex::new(None),
        })
    }

    /// Returns the configuration with the server's sessions. These belong to this configuration
    /// alone: to one verification, certificate and policy.
    fn config(&self, client: &Client, now: Instant) -> Arc<ClientConfig> {
        let mut current = self.lock();
        if let Some((since, config)) = &*current
            && now.saturating_duration_since(*since) < FULL_HANDSHAKE_EVERY
        {
            return Arc::clone(config);
        }
        let mut config = client.config.clone();
        if client.options.resumption {
            let names = if client.follows_client() { NAMES_PER_SERVER } else { 1 };
            config.resumption = Resumption::store(Arc::new(ServerSessions::new(names)));
        }
        let config = Arc::new(config);
        *current = Some((now, Arc::clone(&config)));
        config
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Arc<ClientConfig>)>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn configuration(
    options: &ClientOptions,
    policy: &Policy,
    verifier: &Arc<ServerVerifier>,
    own: Option<&Certificate>,
) -> Result<ClientConfig, BuildFault> {
    let versions: Vec<_> = policy.versions().iter().copied().map(library_version).collect();
    let builder = ClientConfig::builder_with_provider(Arc::new(policy.client_provider()))
        .with_protocol_versions(&versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(verifier) as _);
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(Arc::new(
            rustls::sign::SingleCertAndKey::from(Arc::clone(&own.key)),
        )),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.enable_secret_extraction = true;
    config.enable_early_data = false;
    if !options.certificate_compression {
        config.cert_decompressors.clear();
        config.cert_compressors.clear();
    }
    config.key_log = Arc::new(SecretListener { logs: options.key_log });
    Ok(config)
}

/// Reports whether a certificate can be for this name: a host name or an IP address.
pub fn is_server_name(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// Number of TLS 1.3 tickets kept for a name: each resumes once (RFC 8446, appendix C.4), so that
/// as many connections may begin before new tickets arrive. Each takes some 1 KiB.
const TICKETS_PER_NAME: usize = 256;

/// Number of tickets kept for all names of one server. A ticket has [`TICKET_BYTES_MAX`] at most,
/// and may be the only one that holds its server's chain (64 KiB, the longest message of a
/// handshake): some 36 MiB for a hostile server, and half of one for others.
///
/// [`TICKET_BYTES_MAX`]: crate::traffic::TICKET_BYTES_MAX
const TICKETS_PER_SERVER: usize = 512;

/// Sessions with one server, by the server name requested.
///
/// The library has such a store, of 8 tickets a name: a ninth connection that begins before the
/// first has ended would make a full handshake.
#[derive(Debug)]
struct ServerSessions {
    names_max: usize,
    names: Mutex<HashMap<ServerName<'static>, KeptSessions>>,
}

#[derive(Debug, Default)]
struct KeptSessions {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl ServerSessions {
    /// Creates a store for at most this number of names; beyond it, names are forgotten.
    pub(super) fn new(names_max: usize) -> Self {
        Self { names_max, names: Mutex::default() }
    }

    /// Changes the sessions kept for a name.
    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut KeptSessions)) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= self.names_max
            && !names.contains_key(&name)
            && let Some(other) = names.keys().next().cloned()
        {
            names.remove(&other);
        }
        change(names.entry(name).or_default());
    }

    /// Looks at the sessions kept for a name, if there are any.
    fn look<T>(
        &self,
        name: &ServerName<'_>,
        look: impl FnOnce(&mut KeptSessions) -> Option<T>,
    ) -> Option<T> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        look(names.get_mut(&name.to_owned())?)
    }
}

impl ClientSessionStore for ServerSessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.change(name, |kept| kept.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.look(name, |kept| kept.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.change(name, |kept| kept.tls12 = Some(session));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.look(name, |kept| kept.tls12.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.look(name, |kept| kept.tls12.take());
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.change(name, |kept| {
            if kept.tls13.len() == TICKETS_PER_NAME {
                kept.tls13.pop_front();
            }
            kept.tls13.push_back(ticket);
        });
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.values().map(|kept| kept.tls13.len()).sum::<usize>() > TICKETS_PER_SERVER {
            let most = names.values_mut().max_by_key(|kept| kept.tls13.len());
            most.and_then(|kept| kept.tls13.pop_front());
        }
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // The newest ticket is valid for the longest.
        self.look(name, |kept| kept.tls13.pop_back())
    }
}

/// The one protocol that a server speaks only if it has selected it (RFC 9113 section 3.2). Any
/// other protocol agreed with a client is also spoken to servers without ALPN.
const HTTP2: &[u8] = b"h2";

/// Client's side of a handshake. Sans-IO: takes bytes and returns bytes, and never waits.
pub struct ClientHandshake {
    driver: HandshakeDriver<UnbufferedClientConnection, ClientSide>,
    /// Whether the client will speak HTTP/2, whatever this server selects.
    needs_http2: bool,
    secrets: Secrets,
}

/// Rules for a server's records.
struct ClientSide;

impl ClientHandshake {
    fn new(
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

    /// Takes received bytes and appends the bytes to send, also when it fails (an alert). The first
    /// call needs no input.
    ///
    /// Only whole records are processed. The caller offers bytes that were not consumed again, with
    /// more behind them. After `done`, bytes that were not consumed belong to the traffic.
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

    /// Completes a handshake that is done.
    pub fn finish(self) -> Result<CompletedHandshake, HandshakeFault> {
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
        Ok(CompletedHandshake { traffic, agreed })
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

/// Corrects the alert for an empty certificate, because the library has none of its own. The alert
/// of TLS 1.3 is encrypted, and stays `handshake_failure`.
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

/// Converts the library's error into the fault of the server.
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

#[cfg(test)]
mod tests;
