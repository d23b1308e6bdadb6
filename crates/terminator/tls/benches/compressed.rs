//! `cargo bench -p tls --bench compressed`: what compressed certificates (RFC 8879) cost either end
//! of a full handshake of TLS 1.3, in CPU time, on one thread.
//!
//! The server is the product's, the client the TLS library's. Rounds of each kind alternate. In the
//! third kind no certificate is compressed, but the client unpacks as much beside each handshake:
//! so what unpacking costs the server by the memory that both share is told apart.
//! Instructions of either end alone are counted by `valgrind --tool=callgrind
//! --toggle-collect='*serve*'` (or `'*be_client*'`), with the words `off` or `brotli` and the kind
//! of key, `ecdsa` or `rsa`, behind the program, which then makes [`HANDSHAKES`] and ends.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption as ClientResumption;
use rustls::compress::{BROTLI_COMPRESSOR, BROTLI_DECOMPRESSOR, CompressionLevel};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sys::cpu::thread_time;
use testkit::authority::Authority;
use testkit::leaf::Key;
use tls::handshake::{Handshake, HandshakeStep};
use tls::options::{CertificateSource, ServerOptions};
use tls::policy::SuiteOrder;
use tls::resumption::{Resumption, ResumptionOptions};
use tls::server::Server;
use wire::client_hello::{self, Peek};

const ROUNDS: usize = 9;
const HANDSHAKES: u32 = 300;

/// The two ends, and what they have used.
struct Ends {
    server: Server,
    client: Arc<ClientConfig>,
    /// Unpacked by the client for each handshake, and so many bytes then.
    beside: Option<(Vec<u8>, usize)>,
    used: [Duration; 2],
}

impl Ends {
    fn new(key: Key, decompresses: bool) -> Self {
        let root = Authority::root("bench");
        let leaf = root.intermediate("issuing").leaf(&["localhost"]).key(key).issue();
        let source = CertificateSource::whole("site.pem", leaf.pem());
        let resumption = Arc::new(Resumption::new(&ResumptionOptions::new([7; 32])));
        let options = ServerOptions::new(vec![source]);
        let built = Server::build(&options, "web", &resumption, &SuiteOrder::default());
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(root.pem().as_bytes());
        roots.add(trusted.expect("it is PEM")).expect("it is an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]);
        let builder = builder.expect("it has suites of TLS 1.3").with_root_certificates(roots);
        let mut client = builder.with_no_client_auth();
        client.resumption = ClientResumption::disabled();
        client.cert_decompressors = if decompresses { vec![BROTLI_DECOMPRESSOR] } else { vec![] };
        let server = built.expect("it can be served").0;
        Self { server, client: Arc::new(client), beside: None, used: [Duration::ZERO; 2] }
    }

    /// Without compression, but with as much to unpack beside it.
    fn unpacking_beside(key: Key) -> Self {
        let mut ends = Self::new(key, false);
        let chain = &ends.server.certificates()[0].key.cert;
        let bytes: Vec<u8> = chain.iter().flat_map(|one| one.to_vec()).collect();
        let length = bytes.len();
        let packed = BROTLI_COMPRESSOR.compress(bytes, CompressionLevel::Interactive);
        ends.beside = Some((packed.expect("it can be packed"), length));
        ends
    }

    /// Makes one handshake.
    fn shake_hands(&mut self) {
        let begun = thread_time();
        let name = "localhost".try_into().expect("it is a name");
        let client = ClientConnection::new(Arc::clone(&self.client), name);
        let mut client = client.expect("it has a configuration");
        let hello = be_client(&mut client, &[]);
        let met = thread_time();
        let mut handshake = self.accept(&hello);
        let (flight, _) = serve(&mut handshake, hello);
        let answered = thread_time();
        if let Some((packed, length)) = &self.beside {
            let unpacked = BROTLI_DECOMPRESSOR.decompress(packed, &mut vec![0; *length]);
            unpacked.expect("it was packed");
        }
        let finished = be_client(&mut client, &flight);
        let done = thread_time();
        let (tickets, is_done) = serve(&mut handshake, finished);
        let ended = thread_time();
        assert!(is_done && !client.is_handshaking() && !tickets.is_empty());
        self.used[0] += (answered - met) + (ended - done);
        self.used[1] += (met - begun) + (done - answered);
    }

    fn accept(&self, hello: &[u8]) -> Handshake {
        let Ok(Peek::Hello(read)) = client_hello::read(hello) else { panic!("no hello") };
        let config = self.server.select(&read).expect("what we speak");
        Handshake::new(config, &read).expect("a handshake")
    }

    /// The time that server and client have used, in microseconds per handshake.
    fn round(&mut self) -> [f64; 2] {
        self.used = [Duration::ZERO; 2];
        (0..HANDSHAKES).for_each(|_| self.shake_hands());
        self.used.map(|used| used.as_secs_f64() * 1e6 / f64::from(HANDSHAKES))
    }
}

/// The server's side: its answer, and whether the handshake is done.
#[inline(never)]
fn serve(handshake: &mut Handshake, mut incoming: Vec<u8>) -> (Vec<u8>, bool) {
    let mut outgoing = Vec::new();
    let mut consumed = 0;
    loop {
        let step = handshake.advance(&mut incoming[consumed..], &mut outgoing);
        let HandshakeStep { consumed: more, done, .. } = step.expect("a client's");
        consumed += more;
        if done || more == 0 || consumed == incoming.len() {
            return (outgoing, done);
        }
    }
}

/// The client's side: its answer.
#[inline(never)]
fn be_client(client: &mut ClientConnection, mut incoming: &[u8]) -> Vec<u8> {
    while !incoming.is_empty() {
        client.read_tls(&mut incoming).expect("it is in memory");
        client.process_new_packets().expect("a server's");
    }
    let mut outgoing = Cursor::new(Vec::new());
    while client.wants_write() {
        client.write_tls(&mut outgoing).expect("it is in memory");
    }
    outgoing.into_inner()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let words: Vec<_> = std::env::args().collect();
    let is_told = |word: &str| words.iter().any(|one| one == word);
    if is_told("off") || is_told("brotli") {
        let key = if is_told("rsa") { Key::Rsa2048 } else { Key::EcdsaP256 };
        Ends::new(key, is_told("brotli")).round();
        return;
    }
    // `cargo test` runs it too, and wants no figures.
    if !is_told("--bench") {
        return;
    }
    println!("{:>46}  {:>8}  {:>8}", "µs of CPU time per handshake:", "server", "client");
    for (name, key) in [("ECDSA P-256", Key::EcdsaP256), ("RSA 2048", Key::Rsa2048)] {
        let kinds = [
            ("not compressed", Ends::new(key, false)),
            ("compressed", Ends::new(key, true)),
            ("not, as much unpacked beside", Ends::unpacking_beside(key)),
        ];
        let mut kinds = kinds.map(|(kind, ends)| (kind, ends, Vec::new(), Vec::new()));
        for _ in 0..ROUNDS {
            for (_, ends, servers, clients) in &mut kinds {
                let [server, client] = ends.round();
                servers.push(server);
                clients.push(client);
            }
        }
        for (kind, _, servers, clients) in kinds {
            let [server, client] = [servers, clients].map(median);
            println!("{name:<12} {kind:<32}  {server:>8.1}  {client:>8.1}");
        }
    }
}
