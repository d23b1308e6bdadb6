//! A TLS server in memory: bytes in, bytes out, no socket. The TLS library's own server.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection};

use crate::authority::Authority;
use crate::client::{SMALL_RECORD_BYTES, trusting};
use crate::leaf::Leaf;

/// A server's TLS settings, with the sessions of its clients.
#[derive(Clone)]
pub struct TlsServerChoice(Arc<ServerConfig>);

impl TlsServerChoice {
    /// Makes a server for one version, with this certificate.
    pub fn new(leaf: &Leaf, is_tls13: bool) -> Self {
        Self::build(leaf, is_tls13, aws_lc_rs::default_provider(), None)
    }

    /// Makes a server for clients with certificates of this authority, who have to send a second
    /// hello with a share of another group.
    pub fn demanding(leaf: &Leaf, is_tls13: bool, authority: &Authority) -> Self {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups = vec![aws_lc_rs::kx_group::SECP384R1];
        Self::build(leaf, is_tls13, provider, Some(authority))
    }

    fn build(
        leaf: &Leaf,
        is_tls13: bool,
        provider: CryptoProvider,
        clients: Option<&Authority>,
    ) -> Self {
        let provider = Arc::new(provider);
        let version = if is_tls13 { &rustls::version::TLS13 } else { &rustls::version::TLS12 };
        let chain = vec![CertificateDer::from(leaf.certificate_der().to_vec())];
        let key = PrivateKeyDer::from_pem_slice(leaf.key_pem().as_bytes());
        let verifier = match clients {
            Some(authority) => WebPkiClientVerifier::builder_with_provider(
                Arc::new(trusting(authority.pem())),
                Arc::clone(&provider),
            )
            .build()
            .expect("an authority"),
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("the suites fit the version")
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key.expect("the key is PEM"))
            .expect("the key is the certificate's");
        Self(Arc::new(config))
    }

    /// Returns a copy with records so small that each message needs several.
    pub fn in_small_records(&self) -> Self {
        let mut config = ServerConfig::clone(&self.0);
        config.max_fragment_size = Some(SMALL_RECORD_BYTES);
        Self(Arc::new(config))
    }

    /// Returns the server's end of a new connection.
    pub fn accept(&self) -> TlsServer {
        let mut connection = ServerConnection::new(Arc::clone(&self.0)).expect("it is complete");
        connection.set_buffer_limit(None);
        TlsServer { connection, has_closed: false }
    }
}

/// A server's end of a connection.
pub struct TlsServer {
    connection: ServerConnection,
    has_closed: bool,
}

impl TlsServer {
    /// Takes bytes from the wire. The error is the server's complaint about the client.
    pub fn hear(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        while !bytes.is_empty() {
            let read = self.connection.read_tls(&mut bytes);
            read.map_err(|error| said(&error))?;
            let state = self.connection.process_new_packets();
            let state = state.map_err(|error| said(&error))?;
            let mut chunk = vec![0; state.plaintext_bytes_to_read()];
            let read = self.connection.reader().read_exact(&mut chunk);
            read.map_err(|error| said(&error))?;
            plain.extend_from_slice(&chunk);
        }
        Ok(())
    }

    /// Takes bytes from the wire; returns their plaintext.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        let heard = self.hear(bytes, &mut plain);
        heard.expect("the client speaks TLS");
        plain
    }

    /// Reports whether the handshake goes on.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Reports whether the version is TLS 1.3, once it is agreed on.
    pub fn is_tls13(&self) -> bool {
        self.connection.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3)
    }

    /// Reports whether the client has sent close_notify.
    pub fn is_closed_by_client(&mut self) -> bool {
        // No bytes to read: the stream's end, or none yet.
        matches!(self.connection.reader().read(&mut [0]), Ok(0))
    }

    /// Queues application data.
    pub fn send(&mut self, plain: &[u8]) {
        self.connection.writer().write_all(plain).expect("memory");
    }

    /// Changes the keys of both sides (TLS 1.3).
    pub fn change_keys(&mut self) {
        self.connection.refresh_traffic_keys().expect("TLS 1.3");
    }

    pub fn close(&mut self) {
        if !std::mem::replace(&mut self.has_closed, true) {
            self.connection.send_close_notify();
        }
    }

    pub fn take_wire(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut wire).expect("memory");
        }
        wire
    }
}
