//! A TLS client for what curl and openssl cannot do: half-closes, pauses, resumption.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustls::{ClientConnection, HandshakeKind, NamedGroup, StreamOwned};
use testkit::client::ClientChoice;
use testkit::leaf::Leaf;

use crate::patience::PATIENCE;
use crate::site::Site;

/// Opens a connection without TLS, with the tests' read timeout.
pub fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("any time");
    stream
}

/// Makes connections that share their sessions.
#[derive(Clone, Debug)]
pub struct Client(ClientChoice);

impl Client {
    /// Makes a client that trusts the site's root and speaks TLS 1.3.
    pub fn new(site: &Site) -> Self {
        Self::with(site, true, &[])
    }

    /// Makes a client that trusts the site's root and speaks TLS 1.2.
    pub fn tls12(site: &Site) -> Self {
        Self::with(site, false, &[])
    }

    pub fn of_each_version(site: &Site) -> [Self; 2] {
        [Self::tls12(site), Self::new(site)]
    }

    /// Makes a client that trusts the site's root and offers only one suite, by its IANA number.
    pub fn with_suite(site: &Site, suite: u16) -> Self {
        // Numbers of TLS 1.3 suites begin so (RFC 8446, appendix B.4).
        Self::with(site, suite >> 8 == 0x13, &[suite])
    }

    /// Makes a client that trusts the site's root, speaks TLS 1.2 and wants no tickets.
    pub fn without_tickets(site: &Site) -> Self {
        Self(Self::tls12(site).0.without_tickets())
    }

    /// Makes a client that speaks TLS 1.3 and shows a certificate.
    pub fn showing(site: &Site, leaf: &Leaf) -> Self {
        Self(Self::new(site).0.showing(leaf, leaf))
    }

    /// Makes a client without tickets that shows a certificate.
    pub fn without_tickets_showing(site: &Site, leaf: &Leaf) -> Self {
        Self(Self::tls12(site).0.without_tickets().showing(leaf, leaf))
    }

    fn with(site: &Site, is_tls13: bool, suites: &[u16]) -> Self {
        let root = fs::read_to_string(site.ca()).expect("the site has a root");
        Self(ClientChoice::new(&root, is_tls13, suites))
    }

    pub fn connect(&self, address: SocketAddr) -> Connection {
        self.try_connect(address).expect("the handshake succeeds")
    }

    pub fn try_connect(&self, address: SocketAddr) -> io::Result<Connection> {
        self.over(TcpStream::connect(address)?)
    }

    /// Performs a handshake over an open connection, on which something was sent before.
    pub fn over(&self, socket: TcpStream) -> io::Result<Connection> {
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_nodelay(true)?;
        let mut stream = StreamOwned::new(self.0.connection("localhost"), socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Connection(stream))
    }

    /// Connects, sends a byte to a server that echoes, and receives it.
    pub fn echo(&self, address: SocketAddr) -> Connection {
        let mut connection = self.connect(address);
        connection.echo();
        connection
    }

    /// Makes one connection to a server that echoes, to its end, so that the client has its
    /// tickets; returns the kind of handshake.
    pub fn visit(&self, address: SocketAddr) -> HandshakeKind {
        let mut connection = self.connect(address);
        connection.send(b"x");
        connection.end();
        let echo = connection.read_to_end().expect("a clean end");
        assert!(echo.ends_with(b"x"), "{echo:?}");
        connection.kind()
    }
}

#[derive(Debug)]
pub struct Connection(StreamOwned<ClientConnection, TcpStream>);

impl Connection {
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the connection is open");
        self.0.flush().expect("the connection is open");
    }

    /// Sends a byte to a server that echoes, and receives it.
    pub fn echo(&mut self) {
        self.send(b"x");
        assert_eq!(self.receive(1), b"x");
    }

    pub fn receive(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).expect("the server sends that much");
        bytes
    }

    /// Sends close_notify and keeps reading: a half-close.
    pub fn end(&mut self) {
        self.try_end().expect("the connection is open");
    }

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

    /// Ends the connection, and checks that the server does so and sends nothing more.
    pub fn finish(&mut self) {
        self.end();
        assert_eq!(self.read_to_end().expect("a clean end"), b"");
    }

    /// Reads to the server's close_notify, behind what was received before.
    pub fn read_on(&mut self, received: &mut Vec<u8>) -> io::Result<usize> {
        self.0.read_to_end(received)
    }

    /// Reads, behind what was received before, to an end that does not look finished.
    pub fn read_to_cut(&mut self, received: &mut Vec<u8>) {
        let end = self.read_on(received).expect_err("not the whole");
        let is_cut =
            matches!(end.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
        assert!(is_cut, "{end}");
    }

    /// Asks for a path (without the slash in front).
    pub fn ask(&mut self, path: &str) {
        self.ask_with(path, "");
    }

    /// Asks with more fields of the request, each with its end of line.
    pub fn ask_with(&mut self, path: &str, fields: &str) {
        let head = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        self.send(head.as_bytes());
    }

    /// Asks for a path and receives the body of the response.
    pub fn fetch(&mut self, path: &str) -> Vec<u8> {
        self.ask(path);
        self.response().1
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

    pub fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.receive(1));
        }
        String::from_utf8(head).expect("heads are ASCII")
    }

    /// Changes our keys and makes the server change its own: KeyUpdate (RFC 8446 section 4.6.3).
    pub fn change_keys(&mut self) {
        let changed = self.0.conn.refresh_traffic_keys();
        changed.expect("TLS 1.3 after the handshake");
        self.0.flush().expect("the connection is open");
    }

    /// Changes the keys of both directions, and sends these bytes in the same packet.
    pub fn send_behind_new_keys(&mut self, bytes: &[u8]) {
        let changed = self.0.conn.refresh_traffic_keys();
        changed.expect("TLS 1.3 after the handshake");
        self.0.conn.writer().write_all(bytes).expect("there is room");
        let mut packet = Vec::new();
        while self.0.conn.wants_write() {
            self.0.conn.write_tls(&mut packet).expect("memory takes it");
        }
        self.0.sock.write_all(&packet).expect("the connection is open");
    }

    pub fn kind(&self) -> HandshakeKind {
        self.0.conn.handshake_kind().expect("the handshake is over")
    }

    pub fn group(&self) -> NamedGroup {
        let group = self.0.conn.negotiated_key_exchange_group();
        group.expect("the handshake is over").name()
    }

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
