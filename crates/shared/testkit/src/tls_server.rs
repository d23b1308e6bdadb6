//! A TLS server in memory: bytes in, bytes out, no socket. It is the TLS library's own.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::leaf::Leaf;

/// A server's end of a connection.
pub struct TlsServer {
    connection: ServerConnection,
    has_closed: bool,
}

impl TlsServer {
    /// Of one version, with this certificate.
    pub fn new(leaf: &Leaf, is_tls13: bool) -> Self {
        let version = if is_tls13 {
            &rustls::version::TLS13
        } else {
            &rustls::version::TLS12
        };
        let chain = vec![CertificateDer::from(leaf.certificate_der().to_vec())];
        let key = PrivateKeyDer::from_pem_slice(leaf.key_pem().as_bytes());
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[version])
            .expect("the suites fit the version")
            .with_no_client_auth()
            .with_single_cert(chain, key.expect("the key is PEM"))
            .expect("the key is the certificate's");
        let mut connection = ServerConnection::new(Arc::new(config)).expect("it is complete");
        connection.set_buffer_limit(None);
        Self {
            connection,
            has_closed: false,
        }
    }

    /// Takes bytes from the wire; what was in them.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes).expect("memory");
            let state = self.connection.process_new_packets();
            let state = state.expect("the client speaks TLS");
            let mut chunk = vec![0; state.plaintext_bytes_to_read()];
            let read = self.connection.reader().read_exact(&mut chunk);
            read.expect("so much is there");
            plain.extend_from_slice(&chunk);
        }
        plain
    }

    /// Whether the handshake goes on.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the client has sent close_notify.
    pub fn is_closed_by_client(&mut self) -> bool {
        // Nothing to read is the end, or nothing yet.
        matches!(self.connection.reader().read(&mut [0]), Ok(0))
    }

    /// Puts application data behind what was put before.
    pub fn send(&mut self, plain: &[u8]) {
        self.connection.writer().write_all(plain).expect("memory");
    }

    /// Changes the keys of both sides (TLS 1.3).
    pub fn change_keys(&mut self) {
        self.connection.refresh_traffic_keys().expect("TLS 1.3");
    }

    /// Sends close_notify, once.
    pub fn close(&mut self) {
        if !std::mem::replace(&mut self.has_closed, true) {
            self.connection.send_close_notify();
        }
    }

    /// What goes onto the wire.
    pub fn take_wire(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut wire).expect("memory");
        }
        wire
    }
}
