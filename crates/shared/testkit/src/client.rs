//! A TLS client in memory: bytes in, bytes out, no socket.
//!
//! Tests of the state machine talk to it. It is the TLS library's own client, so that foreign code
//! judges what we encrypt.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::{Resumption, Tls12Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion,
};

use crate::leaf::Leaf;

/// Smallest length of records that the TLS library accepts.
pub(crate) const SMALL_RECORD_BYTES: usize = 32;

/// A client's offers and trust; the clients of one choice share their sessions.
#[derive(Clone, Debug)]
pub struct ClientChoice(Arc<ClientConfig>);

impl ClientChoice {
    /// Trusts one authority; offers one version with these cipher suites, or all if none is given.
    pub fn new(authority_pem: &str, is_tls13: bool, suites: &[u16]) -> Self {
        let roots = trusting(authority_pem);
        let mut provider = aws_lc_rs::default_provider();
        let wanted = |suite: CipherSuite| suites.is_empty() || suites.contains(&suite.into());
        provider.cipher_suites.retain(|suite| wanted(suite.suite()));
        Self(Arc::new(config(provider, is_tls13, roots)))
    }

    /// Returns a copy that cuts every message into small records.
    pub fn in_small_records(&self) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.max_fragment_size = Some(SMALL_RECORD_BYTES);
        Self(Arc::new(config))
    }

    /// Returns a copy that offers an application protocol; sessions are shared.
    pub fn offering(&self, protocol: &[u8]) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.alpn_protocols = vec![protocol.to_vec()];
        Self(Arc::new(config))
    }

    /// Returns a copy that sends early data where a session allows it; sessions are shared.
    pub fn with_early_data(&self) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.enable_early_data = true;
        Self(Arc::new(config))
    }

    /// Returns a copy that shows one certificate and signs with the key of another, or the same.
    pub fn showing(&self, shown: &Leaf, signing: &Leaf) -> Self {
        let chain = shown.chain_pem();
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes());
        let chain = chain.collect::<Result<_, _>>().expect("the chain is PEM");
        let key = PrivateKeyDer::from_pem_slice(signing.key_pem().as_bytes());
        let key = aws_lc_rs::sign::any_supported_type(&key.expect("the key is PEM"));
        let certified = CertifiedKey::new(chain, key.expect("the library knows its kind"));
        let mut config = ClientConfig::clone(&self.0);
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        Self(Arc::new(config))
    }

    /// Returns a copy with sessions of its own, in TLS 1.2 by session id alone.
    pub fn without_tickets(&self) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.resumption =
            Resumption::in_memory_sessions(16).tls12_resumption(Tls12Resumption::SessionIdOnly);
        Self(Arc::new(config))
    }

    pub(crate) fn config(&self) -> &ClientConfig {
        &self.0
    }

    pub fn connect(&self, name: &str) -> Client {
        Client(self.connection(name))
    }

    /// Returns the library's own connection, for a client with a socket.
    pub fn connection(&self, name: &str) -> ClientConnection {
        let name = ServerName::try_from(name.to_owned()).expect("a DNS name");
        let connection = ClientConnection::new(Arc::clone(&self.0), name);
        connection.expect("the configuration is complete")
    }
}

/// Makes a root store that trusts one authority.
pub(crate) fn trusting(authority_pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority_pem.as_bytes());
    roots.add(root.expect("the authority is PEM")).expect("the authority is a certificate");
    roots
}

fn config(provider: CryptoProvider, is_tls13: bool, roots: RootCertStore) -> ClientConfig {
    let versions: &[&SupportedProtocolVersion] =
        if is_tls13 { &[&rustls::version::TLS13] } else { &[&rustls::version::TLS12] };
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .expect("the suites fit the version")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A client's end of a connection.
pub struct Client(ClientConnection);

impl Client {
    /// Takes bytes from the wire. The error is the client's complaint about the server.
    pub fn receive(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        while !bytes.is_empty() {
            self.0.read_tls(&mut bytes).map_err(|error| error.to_string())?;
            let state = self.0.process_new_packets().map_err(|error| error.to_string())?;
            let mut chunk = vec![0; state.plaintext_bytes_to_read()];
            self.0.reader().read_exact(&mut chunk).map_err(|error| error.to_string())?;
            plain.extend_from_slice(&chunk);
        }
        Ok(())
    }

    /// Queues application data.
    pub fn send(&mut self, plain: &[u8]) {
        self.0.set_buffer_limit(None);
        self.0.writer().write_all(plain).expect("the buffer has no limit");
    }

    /// Sends early data, before the first byte is taken from the wire; returns how much of it may
    /// be sent: none without a session that allows it.
    pub fn send_early(&mut self, plain: &[u8]) -> usize {
        let early = self.0.early_data();
        early.map_or(0, |mut early| early.write(plain).expect("the buffer has no limit"))
    }

    pub fn is_early_taken(&self) -> bool {
        self.0.is_early_data_accepted()
    }

    /// Asks for new keys in both directions (RFC 8446 section 4.6.3).
    pub fn update_keys(&mut self) -> Result<(), String> {
        self.0.refresh_traffic_keys().map_err(|error| error.to_string())
    }

    pub fn close(&mut self) {
        self.0.send_close_notify();
    }

    pub fn take_wire(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut wire).expect("a Vec takes all");
        }
        wire
    }

    pub fn is_established(&self) -> bool {
        !self.0.is_handshaking()
    }

    pub fn is_resumed(&self) -> bool {
        self.0.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// Reports whether the server's close_notify has come.
    pub fn is_closed_by_server(&mut self) -> bool {
        let state = self.0.process_new_packets();
        state.is_ok_and(|state| state.peer_has_closed())
    }
}
