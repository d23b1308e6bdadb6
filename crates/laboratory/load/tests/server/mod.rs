//! Serves HTTP over TLS and counts its handshakes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use rustls::crypto::aws_lc_rs;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions};
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use testkit::authority::Authority;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cache {
    All,
    /// Tickets and early data, which needs the stateful kind of PSK.
    EarlyData,
    /// The server gives session IDs, and knows none of them.
    Forgetful,
    None,
}

/// Numbers of handshakes by kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) full: u64,
    pub(crate) resumed: u64,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { full: self.full - before.full, resumed: self.resumed - before.resumed }
    }
}

/// A server on an ephemeral port, with a certificate for `localhost`.
pub(crate) struct Server {
    address: String,
    authority_pem: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    full: AtomicU64,
    resumed: AtomicU64,
    stopped: AtomicBool,
}

impl Server {
    pub(crate) fn start(cache: Cache) -> Self {
        let authority = Authority::root("root");
        let config = Arc::new(config(&authority, cache));
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("loopback").to_string();
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if of_thread.stopped.load(SeqCst) {
                    return;
                }
                let (config, shared) = (Arc::clone(&config), Arc::clone(&of_thread));
                thread::spawn(move || serve(stream.expect("loopback"), config, &shared));
            }
        });
        Self { address, authority_pem: authority.pem().to_owned(), shared }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { full: self.shared.full.load(SeqCst), resumed: self.shared.resumed.load(SeqCst) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, SeqCst);
        let _ = TcpStream::connect(&self.address);
    }
}

fn config(authority: &Authority, cache: Cache) -> ServerConfig {
    let leaf = authority.leaf(&["localhost"]).issue();
    let chain = vec![CertificateDer::from(leaf.certificate_der().to_vec())];
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem().as_bytes()).expect("loopback");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("loopback")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("loopback");
    config.session_storage = match cache {
        Cache::All | Cache::EarlyData => ServerSessionMemoryCache::new(1000),
        Cache::Forgetful => Arc::new(ForgetfulServer),
        Cache::None => Arc::new(NoServerSessionStorage {}),
    };
    match cache {
        Cache::All => config.ticketer = aws_lc_rs::Ticketer::new().expect("loopback"),
        Cache::EarlyData => config.max_early_data_size = 16 * 1024,
        Cache::Forgetful => {}
        Cache::None => config.send_tls13_tickets = 0,
    }
    config
}

#[derive(Debug)]
struct ForgetfulServer;

impl StoresServerSessions for ForgetfulServer {
    fn put(&self, _: Vec<u8>, _: Vec<u8>) -> bool {
        true
    }

    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn can_cache(&self) -> bool {
        true
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, shared: &Shared) {
    let mut tls = ServerConnection::new(config).expect("loopback");
    let mut stream = stream;
    while tls.is_handshaking() {
        if tls.complete_io(&mut stream).is_err() {
            return;
        }
    }
    match tls.handshake_kind() {
        Some(HandshakeKind::Resumed) => shared.resumed.fetch_add(1, SeqCst),
        _ => shared.full.fetch_add(1, SeqCst),
    };
    let mut early = Vec::new();
    if let Some(mut data) = tls.early_data() {
        data.read_to_end(&mut early).expect("loopback");
    }
    let stream = StreamOwned::new(tls, stream);
    let mut reader = BufReader::new(EarlyDataServer(early, stream));
    let mut line = String::new();
    let (mut closes, mut body_bytes) = (false, 0);
    while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
        closes |= line == "Connection: close\r\n";
        if let Some(length) = line.strip_prefix("Content-Length: ") {
            body_bytes = length.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            let mut body = vec![0; std::mem::take(&mut body_bytes)];
            if reader.read_exact(&mut body).is_err() {
                break;
            }
            let mut reply = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n".to_vec();
            reply.resize(reply.len() + 1024, b'x');
            let stream = &mut reader.get_mut().1;
            if stream.write_all(&reply).is_err() || closes {
                break;
            }
        }
        line.clear();
    }
    let stream = &mut reader.get_mut().1;
    stream.conn.send_close_notify();
    let _ = stream.flush();
    // Bytes after the close are to be ignored (RFC 8446, section 6.1).
    let _ = stream.sock.write_all(b"and more");
}

/// Stream of early data, then the rest.
struct EarlyDataServer(Vec<u8>, StreamOwned<ServerConnection, TcpStream>);

impl Read for EarlyDataServer {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.0.is_empty() {
            return self.1.read(buffer);
        }
        let count = self.0.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        Ok(count)
    }
}
