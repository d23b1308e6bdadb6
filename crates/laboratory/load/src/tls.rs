//! Speaks TLS as a client, the only part of this crate that makes handshakes: builds library
//! configurations from a plan's TLS, one for each kind of handshake; keeps each client's own
//! sessions; verifies certificates; and reads the actual offer.
//!
//! The library asks its store of sessions by server name, and we have one server and many clients.
//! A thread drives one connection at a time, so the store gets the current client beforehand.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU16, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls12Resumption,
    Tls13ClientSessionValue, WebPkiServerVerifier,
};
use rustls::crypto::{
    CryptoProvider, SupportedKxGroup, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, Error, NamedGroup,
    OtherError, PeerMisbehaved, RootCertStore, SignatureScheme, SupportedCipherSuite,
    SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use wire::certificate_chain;
use wire::client_hello::{HelloProgress, read};

use crate::plan::{
    Group, Handshake, OwnCertificate, PlannedTls, Signature, Suite, Verification, Versions,
};

/// Returns the kind of resumption that the bytes of a hello offer; `Full` if none.
pub(crate) fn offered(hello: &[u8]) -> Handshake {
    let Ok(HelloProgress::Hello(hello)) = read(hello) else {
        return Handshake::Full;
    };
    if hello.psk_identities().next().is_some() {
        return Handshake::Psk;
    }
    if hello.session_ticket().is_some_and(|ticket| !ticket.is_empty()) {
        return Handshake::Ticket;
    }
    // In TLS 1.3 the session ID means nothing, but is sent (RFC 8446, appendix D.4).
    if hello.highest_version() < 0x0304 && !hello.session_id().is_empty() {
        Handshake::SessionId
    } else {
        Handshake::Full
    }
}

/// Reasons why no client can be made from a plan.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TlsFault {
    /// The file for `--ca` has no certificate, or an unreadable one.
    #[error("--ca: {0}")]
    Authority(String),
    /// The client certificate or its key cannot be used.
    #[error("--client-certificate: {0}")]
    ClientCertificate(String),
    /// The name is neither a host name nor an IP address.
    #[error("`{0}` is no server name")]
    ServerName(String),
    /// The library refuses the combination.
    #[error("no such client can be made: {0}")]
    Library(String),
}

#[derive(Debug)]
pub(crate) struct Configurations {
    kinds: Vec<(Handshake, Arc<ClientConfig>)>,
    /// Expected name of the certificate, also sent as SNI.
    pub(crate) name: ServerName<'static>,
    pub(crate) sessions: Arc<ThreadSessions>,
    pub(crate) presented: Arc<PresentedChain>,
}

impl Configurations {
    /// Makes the configurations for a thread with this number of clients.
    ///
    /// # Errors
    /// Fails with [`TlsFault`]: files and names are read here for the first time.
    pub(crate) fn new(tls: &PlannedTls, clients: usize) -> Result<Self, TlsFault> {
        let sessions = Arc::new(ThreadSessions::new(clients));
        let presented = Arc::new(PresentedChain::default());
        let mut kinds = Vec::new();
        for kind in &tls.handshakes {
            if kinds.iter().all(|(known, _)| known != kind) {
                let config = configuration(tls, *kind, &sessions, &presented)?;
                kinds.push((*kind, Arc::new(config)));
            }
        }
        Ok(Self { kinds, name: server_name(tls)?, sessions, presented })
    }

    pub(crate) fn of(&self, kind: Handshake) -> &Arc<ClientConfig> {
        let found = self.kinds.iter().find(|(known, _)| *known == kind);
        &found.expect("every kind of the plan has one").1
    }
}

/// Returns the expected name, without which the library does not work.
pub(crate) fn server_name(tls: &PlannedTls) -> Result<ServerName<'static>, TlsFault> {
    match &tls.server_name {
        Some(name) => {
            ServerName::try_from(name.clone()).map_err(|_| TlsFault::ServerName(name.clone()))
        }
        // The library needs a name in any case; an address is never sent.
        None => Ok(ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into())),
    }
}

pub(crate) fn configuration<S: ClientSessionStore + 'static>(
    tls: &PlannedTls,
    kind: Handshake,
    sessions: &Arc<S>,
    presented: &Arc<PresentedChain>,
) -> Result<ClientConfig, TlsFault> {
    let provider = Arc::new(provider(tls));
    let verifier = verifier(tls, &provider, presented)?;
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = match &tls.ech {
        Some(ech) => builder.with_ech(ech.mode().map_err(library)?),
        None => builder.with_protocol_versions(versions(tls.versions, kind)),
    };
    let builder =
        builder.map_err(library)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &tls.client_certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => {
            let (chain, key) = read_certificate(certificate)?;
            let fault = |error: Error| TlsFault::ClientCertificate(error.to_string());
            builder.with_client_auth_cert(chain, key).map_err(fault)?
        }
    };
    config.alpn_protocols.clone_from(&tls.alpn);
    config.enable_sni = tls.server_name.is_some();
    config.enable_early_data = tls.early_data;
    if !tls.certificate_compression {
        config.cert_decompressors.clear();
    }
    config.resumption = resumption(tls, kind, sessions);
    Ok(config)
}

fn library(error: Error) -> TlsFault {
    TlsFault::Library(error.to_string())
}

fn resumption<S: ClientSessionStore + 'static>(
    tls: &PlannedTls,
    kind: Handshake,
    sessions: &Arc<S>,
) -> Resumption {
    let store = || Resumption::store(Arc::clone(sessions) as _);
    match kind {
        Handshake::Full => Resumption::disabled(),
        Handshake::SessionId => store().tls12_resumption(Tls12Resumption::SessionIdOnly),
        Handshake::Any if !tls.tickets => store().tls12_resumption(Tls12Resumption::SessionIdOnly),
        Handshake::Ticket | Handshake::Psk | Handshake::Any => {
            store().tls12_resumption(Tls12Resumption::SessionIdOrTickets)
        }
    }
}

fn versions(asked: Versions, kind: Handshake) -> &'static [&'static SupportedProtocolVersion] {
    static TLS12: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
    static TLS13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
    static BOTH: [&SupportedProtocolVersion; 2] =
        [&rustls::version::TLS13, &rustls::version::TLS12];
    match (kind, asked) {
        (Handshake::SessionId | Handshake::Ticket, _) | (_, Versions::Tls12) => &TLS12,
        (Handshake::Psk, _) | (_, Versions::Tls13) => &TLS13,
        (Handshake::Full | Handshake::Any, Versions::Both) => &BOTH,
    }
}

/// Initializes this thread's random number generator, which takes some 30 ms of CPU and would
/// distort the thread's first handshake. An error is left to that handshake.
pub(crate) fn warm_thread() {
    let _ = aws_lc_rs::default_provider().secure_random.fill(&mut [0; 32]);
}

fn provider(tls: &PlannedTls) -> CryptoProvider {
    CryptoProvider {
        cipher_suites: tls.suites.iter().map(|suite| suite_of(*suite)).collect(),
        kx_groups: tls.groups.iter().map(|group| group_of(*group)).collect(),
        ..aws_lc_rs::default_provider()
    }
}

fn suite_of(suite: Suite) -> SupportedCipherSuite {
    use aws_lc_rs::cipher_suite as known;
    match suite {
        Suite::Aes128Gcm13 => known::TLS13_AES_128_GCM_SHA256,
        Suite::Aes256Gcm13 => known::TLS13_AES_256_GCM_SHA384,
        Suite::ChaCha20Poly130513 => known::TLS13_CHACHA20_POLY1305_SHA256,
        Suite::EcdsaAes128Gcm => known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        Suite::RsaAes128Gcm => known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        Suite::EcdsaAes256Gcm => known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        Suite::RsaAes256Gcm => known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        Suite::EcdsaChaCha20Poly1305 => known::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        Suite::RsaChaCha20Poly1305 => known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    }
}

fn group_of(group: Group) -> &'static dyn SupportedKxGroup {
    use aws_lc_rs::kx_group as known;
    match group {
        Group::X25519 => known::X25519,
        Group::Secp256r1 => known::SECP256R1,
        Group::Secp384r1 => known::SECP384R1,
        Group::X25519MlKem768 => known::X25519MLKEM768,
    }
}

fn scheme_of(signature: Signature) -> SignatureScheme {
    match signature {
        Signature::EcdsaP256 => SignatureScheme::ECDSA_NISTP256_SHA256,
        Signature::EcdsaP384 => SignatureScheme::ECDSA_NISTP384_SHA384,
        Signature::EcdsaP521 => SignatureScheme::ECDSA_NISTP521_SHA512,
        Signature::Ed25519 => SignatureScheme::ED25519,
        Signature::RsaPss256 => SignatureScheme::RSA_PSS_SHA256,
        Signature::RsaPss384 => SignatureScheme::RSA_PSS_SHA384,
        Signature::RsaPss512 => SignatureScheme::RSA_PSS_SHA512,
        Signature::RsaPkcs256 => SignatureScheme::RSA_PKCS1_SHA256,
        Signature::RsaPkcs384 => SignatureScheme::RSA_PKCS1_SHA384,
        Signature::RsaPkcs512 => SignatureScheme::RSA_PKCS1_SHA512,
    }
}

/// Returns the standard name of a scheme, as in the plan.
pub(crate) fn scheme_name(scheme: SignatureScheme) -> String {
    let known = Signature::ALL.iter().find(|known| scheme_of(**known) == scheme);
    match known {
        Some(known) => known.name().to_owned(),
        None => format!("{:#06x}", u16::from(scheme)),
    }
}

/// Returns the standard name: the library sets its own prefix for TLS 1.3.
pub(crate) fn suite_name(suite: CipherSuite) -> String {
    let name = suite.as_str().map_or_else(|| format!("{suite:?}"), str::to_owned);
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name,
    }
}

/// Returns the name as in flags.
pub(crate) fn group_name(group: NamedGroup) -> String {
    match group {
        NamedGroup::X25519 => "x25519".to_owned(),
        other => other.as_str().map_or_else(|| format!("{other:?}"), str::to_owned),
    }
}

fn verifier(
    tls: &PlannedTls,
    provider: &Arc<CryptoProvider>,
    presented: &Arc<PresentedChain>,
) -> Result<PlanVerifier, TlsFault> {
    let check = match &tls.verification {
        Verification::Off => ChainCheck::Off,
        Verification::These(pem) => {
            ChainCheck::These(certificates(pem).map_err(TlsFault::Authority)?)
        }
        Verification::Signature => ChainCheck::Signature,
        Verification::Authority(pem) => ChainCheck::Chain(chain_verifier(pem, provider)?),
    };
    Ok(PlanVerifier {
        check,
        offered: tls.signatures.iter().map(|known| scheme_of(*known)).collect(),
        algorithms: provider.signature_verification_algorithms,
        presented: Arc::clone(presented),
    })
}

/// Returns the certificates of a PEM file, or the fault of the file.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err("there is no certificate in it".to_owned()),
        all => all.map_err(|error| error.to_string()),
    }
}

fn chain_verifier(
    pem: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsFault> {
    let fault = |error: &dyn std::fmt::Display| TlsFault::Authority(error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem).map_err(TlsFault::Authority)? {
        roots.add(certificate).map_err(|error| fault(&error))?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| fault(&error))
}

type CertificateWithKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read_certificate(certificate: &OwnCertificate) -> Result<CertificateWithKey, TlsFault> {
    let fault = TlsFault::ClientCertificate;
    let chain = certificates(&certificate.chain_pem);
    let chain = chain.map_err(|error| fault(format!("the chain: {error}")))?;
    let key = PrivateKeyDer::from_pem_slice(&certificate.key_pem);
    Ok((chain, key.map_err(|error| fault(format!("the key: {error}")))?))
}

/// Maximum of TLS 1.3 tickets that a client keeps: servers give two or three a handshake, and each
/// is used once; the newest are worth most.
const TICKETS_MAX: usize = 4;

/// Sessions of one thread's clients. The lock is always free, because only that thread takes it.
#[derive(Debug)]
pub(crate) struct ThreadSessions {
    turn: AtomicUsize,
    clients: Mutex<Vec<KeptSession>>,
}

#[derive(Debug, Default)]
struct KeptSession {
    tls12: Option<Box<Tls12ClientSessionValue>>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl ThreadSessions {
    /// Makes room for the sessions of `clients` clients, which have no session yet.
    pub(crate) fn new(clients: usize) -> Self {
        let clients = (0..clients).map(|_| KeptSession::default()).collect();
        Self { turn: AtomicUsize::new(0), clients: Mutex::new(clients) }
    }

    /// Makes the library's calls from now on concern this client.
    #[inline]
    pub(crate) fn turn_to(&self, client: usize) {
        self.turn.store(client, Relaxed);
    }

    /// Reports whether a client has anything to offer.
    pub(crate) fn has_any(&self, client: usize) -> bool {
        let clients = self.lock();
        let kept = clients.get(client);
        kept.is_some_and(|kept| kept.tls12.is_some() || !kept.tls13.is_empty())
    }

    /// Drops all sessions of a client.
    pub(crate) fn forget(&self, client: usize) {
        if let Some(kept) = self.lock().get_mut(client) {
            *kept = KeptSession::default();
        }
    }

    /// Returns the current client's TLS 1.2 session.
    pub(crate) fn tls12(&self) -> Option<Tls12ClientSessionValue> {
        self.with(|kept| kept.tls12.as_deref().cloned()).flatten()
    }

    pub(crate) fn keep_tls12(&self, session: Tls12ClientSessionValue) {
        self.with(|kept| kept.tls12 = Some(Box::new(session)));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<KeptSession>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&mut KeptSession) -> T) -> Option<T> {
        self.lock().get_mut(self.turn.load(Relaxed)).map(act)
    }
}

impl ClientSessionStore for ThreadSessions {
    // The key share is always the first group of the plan: a hint would change it.
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.keep_tls12(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.tls12()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.with(|kept| kept.tls12 = None);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.with(|kept| {
            if kept.tls13.len() == TICKETS_MAX {
                kept.tls13.pop_front();
            }
            kept.tls13.push_back(ticket);
        });
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.with(|kept| kept.tls13.pop_back()).flatten()
    }
}

/// Chain that a server last presented to a thread, whose connections take turns.
#[derive(Debug, Default)]
pub(crate) struct PresentedChain {
    scheme: AtomicU16,
    /// `None` if staples are not kept.
    staple: Option<Mutex<Vec<u8>>>,
}

impl PresentedChain {
    /// Makes a store that keeps staples as well.
    pub(crate) fn with_staple() -> Self {
        Self { staple: Some(Mutex::default()), ..Self::default() }
    }

    /// Returns the scheme since the last call, if there was a signature.
    #[inline]
    pub(crate) fn take_scheme(&self) -> Option<SignatureScheme> {
        match self.scheme.swap(0, Relaxed) {
            0 => None,
            number => Some(SignatureScheme::from(number)),
        }
    }

    /// Returns the stapled OCSP response since the last call; empty if there was none.
    pub(crate) fn take_staple(&self) -> Vec<u8> {
        self.staple_slot().map_or_else(Vec::new, |mut slot| mem::take(&mut *slot))
    }

    fn staple_slot(&self) -> Option<MutexGuard<'_, Vec<u8>>> {
        Some(self.staple.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug)]
enum ChainCheck {
    Off,
    /// Checks that the certificate is one of these, byte by byte.
    These(Vec<CertificateDer<'static>>),
    /// Checks that the server has the key of its certificate.
    Signature,
    /// Checks the key, the chain, the name and the time.
    Chain(Arc<WebPkiServerVerifier>),
}

/// Returns the part of a server's chain for the library: the search for a path takes seconds if the
/// server has made it expensive.
///
/// # Errors
/// Fails if the chain is too large.
pub(crate) fn bounded<'c>(
    leaf: &CertificateDer<'_>,
    others: &'c [CertificateDer<'_>],
) -> Result<Vec<CertificateDer<'c>>, Error> {
    let others: Vec<&[u8]> = others.iter().map(AsRef::as_ref).collect();
    let found = certificate_chain::intermediates(leaf, &others);
    let found = found.map_err(|fault| CertificateError::Other(OtherError(Arc::new(fault))))?;
    Ok(found.into_iter().map(CertificateDer::from).collect())
}

/// Verifier that follows the plan, and offers the schemes of the plan.
#[derive(Debug)]
struct PlanVerifier {
    pub(crate) check: ChainCheck,
    pub(crate) offered: Vec<SignatureScheme>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
    pub(crate) presented: Arc<PresentedChain>,
}

impl PlanVerifier {
    /// Judges the scheme of the server's signature, which must be an offered one (RFC 8446, section
    /// 4.4.3).
    fn judge(
        &self,
        scheme: SignatureScheme,
        verify: impl FnOnce() -> Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.presented.scheme.store(u16::from(scheme), Relaxed);
        if !self.offered.contains(&scheme) {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        }
        match self.check {
            ChainCheck::Off | ChainCheck::These(_) => Ok(HandshakeSignatureValid::assertion()),
            ChainCheck::Signature | ChainCheck::Chain(_) => verify(),
        }
    }
}

impl ServerCertVerifier for PlanVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(mut slot) = self.presented.staple_slot() {
            *slot = ocsp.to_vec();
        }
        match &self.check {
            ChainCheck::Off | ChainCheck::Signature => Ok(ServerCertVerified::assertion()),
            ChainCheck::These(known) if known.contains(leaf) => Ok(ServerCertVerified::assertion()),
            ChainCheck::These(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
            ChainCheck::Chain(chain) => {
                let intermediates = bounded(leaf, intermediates)?;
                chain.verify_server_cert(leaf, &intermediates, name, ocsp, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verify = || verify_tls12_signature(message, leaf, signed, &self.algorithms);
        self.judge(signed.scheme, verify)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verify = || verify_tls13_signature(message, leaf, signed, &self.algorithms);
        self.judge(signed.scheme, verify)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.offered.clone()
    }
}
