//! The library's own client against [`Server`], in memory.

mod authorities;
mod choice;
mod clients;
mod compression;
mod resumption;
mod sharing;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::time_provider::TimeProvider;
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, NamedGroup,
    ServerConnection, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use testkit::authority::Authority;
use testkit::leaf::{Key, Leaf};
use wire::client_hello::{self, HelloProgress};

use super::*;
use crate::certificate::KeyKind;
use crate::context::{self, HandshakeContext};
use crate::options::{
    CertificateSource, ClientMode, PemSource, Suites, Tls13Sessions, UnknownName,
};
use crate::resumption::ResumptionOptions;

fn root() -> &'static Authority {
    static ROOT: OnceLock<Authority> = OnceLock::new();
    ROOT.get_or_init(|| Authority::root("test root"))
}

fn source(leaf: &Leaf) -> CertificateSource {
    CertificateSource::whole("site.pem", leaf.pem())
}

fn certificate(names: &[&str], key: Key) -> CertificateSource {
    source(&root().leaf(names).key(key).issue())
}

fn options(certificates: Vec<CertificateSource>) -> ServerOptions {
    ServerOptions::new(certificates)
}

/// Returns options with one certificate of the usual kind.
fn simple() -> ServerOptions {
    options(vec![certificate(&["a.example"], Key::EcdsaP256)])
}

/// Returns options that request client certificates of the root's.
fn verifying(mode: ClientMode) -> ServerOptions {
    let mut options = simple();
    options.client.mode = mode;
    options.client.authorities = vec![pem("ca.pem", root().pem())];
    options
}

fn new_resumption() -> Arc<Resumption> {
    Arc::new(Resumption::new(&ResumptionOptions::new([7; 32])))
}

fn build_as(service: &str, options: &ServerOptions, resumption: &Arc<Resumption>) -> Server {
    let built = Server::build(options, service, resumption, &SuiteOrder::default());
    built.expect("a server").0
}

fn build(options: &ServerOptions) -> Server {
    build_as("web", options, &new_resumption())
}

/// Wall time of a server, set by a test.
#[derive(Debug)]
struct ManualClock(AtomicU64);

impl TimeProvider for ManualClock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = self.0.load(Ordering::Relaxed);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

impl ManualClock {
    fn at(seconds: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(seconds)))
    }

    fn move_to(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    /// Builds a server with this clock; returns its warnings too.
    fn build(self: &Arc<Self>, options: &ServerOptions) -> (Server, Vec<Warning>) {
        let clock = Clock(Arc::clone(self) as _);
        let (resumption, order) = (new_resumption(), SuiteOrder::default());
        Server::build_by(clock, options, "web", &resumption, &order).expect("a server")
    }
}

fn build_error(options: &ServerOptions) -> BuildError {
    Server::build(options, "web", &new_resumption(), &SuiteOrder::default())
        .map(|_| ())
        .expect_err("no server")
}

struct Client {
    name: &'static str,
    provider: CryptoProvider,
    versions: Vec<&'static rustls::SupportedProtocolVersion>,
    schemes: Option<Vec<SignatureScheme>>,
    alpn: Vec<Vec<u8>>,
    identity: Option<Leaf>,
}

fn client(name: &'static str) -> Client {
    Client {
        name,
        provider: aws_lc_rs::default_provider(),
        versions: rustls::ALL_VERSIONS.to_vec(),
        schemes: None,
        alpn: Vec::new(),
        identity: None,
    }
}

impl Client {
    fn tls12(mut self) -> Self {
        self.versions = vec![&rustls::version::TLS12];
        self
    }

    fn suites(mut self, suites: &[Suite]) -> Self {
        let all = aws_lc_rs::ALL_CIPHER_SUITES;
        let find = |suite: &Suite| {
            let found = all.iter().find(|one| u16::from(one.suite()) == suite.code());
            *found.expect("a suite of the library")
        };
        self.provider.cipher_suites = suites.iter().map(find).collect();
        self
    }

    fn groups(mut self, groups: &[Group]) -> Self {
        let all = aws_lc_rs::ALL_KX_GROUPS;
        let find = |group: &Group| {
            let found = all.iter().find(|one| u16::from(one.name()) == group.code());
            *found.expect("a group of the library")
        };
        self.provider.kx_groups = groups.iter().map(find).collect();
        self
    }

    fn schemes(mut self, schemes: &[SignatureScheme]) -> Self {
        self.schemes = Some(schemes.to_vec());
        self
    }

    fn alpn(mut self, protocols: &[&[u8]]) -> Self {
        self.alpn = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        self
    }

    fn identity(mut self, leaf: Leaf) -> Self {
        self.identity = Some(leaf);
        self
    }

    fn config(&self) -> (Arc<ClientConfig>, Arc<RecordingVerifier>) {
        let schemes = self
            .schemes
            .clone()
            .unwrap_or_else(|| self.provider.signature_verification_algorithms.supported_schemes());
        let witness =
            Arc::new(RecordingVerifier { schemes: Mutex::new(schemes), ocsp: Mutex::default() });
        let builder = ClientConfig::builder_with_provider(Arc::new(self.provider.clone()))
            .with_protocol_versions(&self.versions)
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&witness) as _);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(leaf) => {
                let key = PemObject::from_pem_slice(leaf.key_pem().as_bytes());
                let pem = leaf.chain_pem();
                let chain =
                    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>();
                builder
                    .with_client_auth_cert(chain.expect("a chain"), key.expect("a key"))
                    .expect("an identity")
            }
        };
        config.alpn_protocols = self.alpn.clone();
        (Arc::new(config), witness)
    }

    /// Makes one handshake as a new client.
    fn connect(&self, server: &Server) -> Result<Outcome, Failure> {
        let (config, witness) = self.config();
        let mut outcome = connect(server, &config, self.name)?;
        outcome.ocsp = witness.ocsp.lock().expect("no panic").clone();
        Ok(outcome)
    }
}

/// Verifier that trusts every chain, checks every signature, and records the stapled response.
#[derive(Debug)]
struct RecordingVerifier {
    schemes: Mutex<Vec<SignatureScheme>>,
    ocsp: Mutex<Vec<u8>>,
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.ocsp.lock().expect("no panic") = ocsp.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.lock().expect("no panic").clone()
    }
}

#[derive(Debug)]
struct Outcome {
    kind: HandshakeKind,
    suite: CipherSuite,
    group: Option<NamedGroup>,
    leaf: Vec<u8>,
    alpn: Option<Vec<u8>>,
    ocsp: Vec<u8>,
}

impl Outcome {
    /// Returns the first name and the kind of the certificate shown.
    fn shows(&self, server: &Server) -> (String, KeyKind) {
        let is_it = |one: &&Arc<Certificate>| one.key.cert[0].as_ref() == self.leaf;
        let shown = server.certificates().iter().find(is_it).expect("one of the server's");
        (shown.names[0].to_string(), shown.kind)
    }
}

#[derive(Debug)]
enum Failure {
    Refused(Refusal),
    Server(rustls::Error),
    Client(rustls::Error),
}

impl Failure {
    fn refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            other => panic!("not refused beforehand: {other:?}"),
        }
    }

    fn server(self) -> rustls::Error {
        match self {
            Self::Server(error) => error,
            Self::Client(error) => panic!("refused by the client: {error}"),
            Self::Refused(refusal) => panic!("refused beforehand: {refusal:?}"),
        }
    }
}

fn client_connection(config: &Arc<ClientConfig>, name: &'static str) -> ClientConnection {
    let name = ServerName::try_from(name).expect("a name");
    ClientConnection::new(Arc::clone(config), name).expect("a client")
}

fn written<Data>(connection: &mut rustls::ConnectionCommon<Data>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes).expect("a vector takes all");
    }
    bytes
}

fn feed<Data>(
    connection: &mut rustls::ConnectionCommon<Data>,
    mut bytes: &[u8],
) -> Result<(), rustls::Error>
where
    Data: rustls::SideData,
{
    while !bytes.is_empty() {
        connection.read_tls(&mut bytes).expect("a slice gives all");
        connection.process_new_packets()?;
    }
    Ok(())
}

fn read_hello(bytes: &[u8]) -> ClientHello<'_> {
    match client_hello::read(bytes) {
        Ok(HelloProgress::Hello(hello)) => hello,
        other => panic!("no hello: {other:?}"),
    }
}

/// Runs a handshake to its end, tickets included.
fn connect(
    server: &Server,
    config: &Arc<ClientConfig>,
    name: &'static str,
) -> Result<Outcome, Failure> {
    let mut client = client_connection(config, name);
    let hello = written(&mut client);
    let selected = server.select(&read_hello(&hello)).map_err(Failure::Refused)?;
    // Resets the context, as the driver of handshakes does before each step.
    drop(context::enter(HandshakeContext::default()));
    let mut served = ServerConnection::new(selected).expect("a connection");
    let mut to_server = hello;
    while !to_server.is_empty() {
        feed(&mut served, &to_server).map_err(Failure::Server)?;
        feed(&mut client, &written(&mut served)).map_err(Failure::Client)?;
        to_server = written(&mut client);
    }
    assert!(!client.is_handshaking() && !served.is_handshaking());
    assert_eq!(client.handshake_kind(), served.handshake_kind());
    Ok(Outcome {
        kind: served.handshake_kind().expect("a kind"),
        suite: served.negotiated_cipher_suite().expect("a suite").suite(),
        group: served.negotiated_key_exchange_group().map(|group| group.name()),
        leaf: client.peer_certificates().map_or(Vec::new(), |chain| chain[0].to_vec()),
        alpn: served.alpn_protocol().map(<[u8]>::to_vec),
        ocsp: Vec::new(),
    })
}

fn pem(place: &str, text: &str) -> PemSource {
    PemSource { place: place.into(), pem: text.into() }
}
