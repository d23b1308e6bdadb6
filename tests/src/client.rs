//! A TLS client for what curl and openssl cannot be told: half-closes, pauses, resumption.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::client::{Resumption, Tls12Resumption};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use testkit::leaf::Leaf;

use crate::patience::PATIENCE;
use crate::site::Site;

/// Makes connections that share one memory of sessions.
#[derive(Clone, Debug)]
pub struct Client(Arc<ClientConfig>);

impl Client {
    /// Trusts the site's root and speaks TLS 1.3.
    pub fn new(site: &Site) -> Self {
        Self::with(site, &TLS13, None)
    }

    /// Trusts the site's root and speaks TLS 1.2.
    pub fn tls12(site: &Site) -> Self {
        Self::with(site, &TLS12, None)
    }

    /// Trusts the site's root and offers nothing but one suite, by its number in IANA's registry.
    pub fn with_suite(site: &Site, suite: u16) -> Self {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider
            .cipher_suites
            .retain(|one| u16::from(one.suite()) == suite);
        let version = provider.cipher_suites.first().expect("a known suite");
        let version: &'static _ = match version.version().version {
            rustls::ProtocolVersion::TLSv1_3 => &TLS13,
            _ => &TLS12,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .expect("the suite is of that version");
        let builder = builder.with_root_certificates(roots(site));
        Self(Arc::new(builder.with_no_client_auth()))
    }

    /// Trusts the site's root, speaks TLS 1.2 and wants no tickets.
    pub fn without_tickets(site: &Site) -> Self {
        let mut config = (*Self::tls12(site).0).clone();
        config.resumption =
            Resumption::in_memory_sessions(16).tls12_resumption(Tls12Resumption::SessionIdOnly);
        Self(Arc::new(config))
    }

    /// Speaks TLS 1.3 and shows a certificate.
    pub fn showing(site: &Site, leaf: &Leaf) -> Self {
        Self::with(site, &TLS13, Some(leaf))
    }

    fn with(site: &Site, version: &'static SupportedProtocolVersion, leaf: Option<&Leaf>) -> Self {
        let builder = ClientConfig::builder_with_protocol_versions(&[version]);
        let builder = builder.with_root_certificates(roots(site));
        let mut config = match leaf {
            None => builder.with_no_client_auth(),
            Some(leaf) => {
                let key = PrivateKeyDer::from_pem_slice(leaf.key_pem().as_bytes());
                let chain = CertificateDer::pem_slice_iter(leaf.chain_pem().as_bytes())
                    .collect::<Result<_, _>>()
                    .expect("the kit's chains are well-formed");
                let key = key.expect("the kit's keys are well-formed");
                builder
                    .with_client_auth_cert(chain, key)
                    .expect("key and certificate match")
            }
        };
        config.resumption = Resumption::in_memory_sessions(16);
        Self(Arc::new(config))
    }

    /// Connects as `localhost` and finishes the handshake.
    pub fn connect(&self, address: SocketAddr) -> Connection {
        self.try_connect(address).expect("the handshake succeeds")
    }

    /// Connects as `localhost` and finishes the handshake.
    pub fn try_connect(&self, address: SocketAddr) -> io::Result<Connection> {
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").expect("a valid name");
        let tls = ClientConnection::new(Arc::clone(&self.0), name).expect("a valid client");
        let mut stream = StreamOwned::new(tls, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Connection(stream))
    }

    /// A connection on which a byte went to a server that echoes, and came back.
    pub fn echo(&self, address: SocketAddr) -> Connection {
        let mut connection = self.connect(address);
        connection.send(b"x");
        assert_eq!(connection.receive(1), b"x");
        connection
    }

    /// One connection to its end, so that the client has its tickets: which handshake it was. The
    /// server echoes.
    pub fn visit(&self, address: SocketAddr) -> HandshakeKind {
        let mut connection = self.connect(address);
        connection.send(b"x");
        connection.end();
        let echo = connection.read_to_end().expect("a clean end");
        assert!(echo.ends_with(b"x"), "{echo:?}");
        connection.kind()
    }
}

fn roots(site: &Site) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let ca = fs::read(site.ca()).expect("the site has a root");
    roots
        .add(certificate(&ca))
        .expect("the root is well-formed");
    roots
}

fn certificate(pem: &[u8]) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem).expect("the kit's certificates are well-formed")
}

/// A TLS connection whose handshake is over.
#[derive(Debug)]
pub struct Connection(StreamOwned<ClientConnection, TcpStream>);

impl Connection {
    /// Sends these bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the connection is open");
        self.0.flush().expect("the connection is open");
    }

    /// Receives exactly that many bytes.
    pub fn receive(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0
            .read_exact(&mut bytes)
            .expect("the server sends that much");
        bytes
    }

    /// Sends close_notify and keeps reading: a half-close.
    pub fn end(&mut self) {
        self.try_end().expect("the connection is open");
    }

    /// The same.
    pub fn try_end(&mut self) -> io::Result<()> {
        self.0.conn.send_close_notify();
        self.0.flush()
    }

    /// Reads to the server's close_notify.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads to the server's close_notify, behind what was received before.
    pub fn read_on(&mut self, received: &mut Vec<u8>) -> io::Result<usize> {
        self.0.read_to_end(received)
    }

    /// Reads, behind what was received before, to an end that does not look finished.
    pub fn read_to_cut(&mut self, received: &mut Vec<u8>) {
        let end = self.read_on(received).expect_err("not the whole");
        let is_cut = matches!(
            end.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
        );
        assert!(is_cut, "{end}");
    }

    /// Receives a head of HTTP and as many bytes as its `Content-Length` says.
    pub fn response(&mut self) -> (String, Vec<u8>) {
        let head = self.head();
        let length = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(name, value)| name.eq_ignore_ascii_case("content-length").then_some(value));
        let length = length.unwrap_or_else(|| panic!("no length: {head}"));
        let length = length.parse().expect("a length is a number");
        let body = self.receive(length);
        (head, body)
    }

    /// Receives a head of HTTP alone.
    pub fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.receive(1));
        }
        String::from_utf8(head).expect("heads are ASCII")
    }

    /// Changes our keys and has the server change its own: KeyUpdate (RFC 8446 section 4.6.3).
    pub fn change_keys(&mut self) {
        let changed = self.0.conn.refresh_traffic_keys();
        changed.expect("TLS 1.3 after the handshake");
        self.0.flush().expect("the connection is open");
    }

    /// Whether the handshake was full or resumed.
    pub fn kind(&self) -> HandshakeKind {
        self.0.conn.handshake_kind().expect("the handshake is over")
    }

    /// The TCP socket beneath.
    pub fn socket(&self) -> &TcpStream {
        &self.0.sock
    }
}

/// For tests in which a connection may break.
impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
