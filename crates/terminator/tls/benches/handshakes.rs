//! `cargo bench -p tls --bench handshakes`: bytes and CPU time of handshakes of TLS 1.3, both ends
//! in memory and on one thread. A word behind `--` selects one of four tables:
//!
//! - `compressed`: cost of compressed certificates (RFC 8879) for either end of a full handshake.
//!   Rounds of each kind alternate. In the third kind no certificate is compressed, but the client
//!   decompresses as much beside each handshake: this isolates the cost that decompression causes
//!   to the server through their shared memory.
//! - `resumed`: a resumed handshake by each value of `resumption.group`, for a client that sends
//!   shares of both groups, as browsers do.
//! - `after-rest`: what the host adds to a handshake at little load: one after the other, each
//!   after two milliseconds of a loop that touches no memory, and each after two asleep, as between
//!   the events of a server at a tenth of its capacity. The thread is pinned to the first
//!   CPU. How much a server's connections cost more at little load is to be read beside it.
//! - `ech`: what an encrypted hello costs above a plain one, on the first CPU: read as passthrough
//!   reads it, and opened as well, by a key that is there, by each that is looked for, and by none.
//!
//! In the first two tables the server is the product's, the client the TLS library's. `valgrind
//! --tool=callgrind --toggle-collect='*serve*'` (or `'*be_client*'`) counts the instructions of one
//! end alone, with the words `off` or `brotli` and the kind of key, `ecdsa` or `rsa`, or the word
//! `session` or `classical`, as arguments; the program then makes [`HANDSHAKES`] and ends.

use std::hint::black_box;
use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, EchConfig, EchMode,
    Resumption as ClientResumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::compress::{BROTLI_COMPRESSOR, BROTLI_DECOMPRESSOR, CompressionLevel};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, EchConfigListBytes, ServerName};
use sys::cpu::{pin_current_thread, thread_time};
use testkit::authority::Authority;
use testkit::client::ClientChoice;
use testkit::leaf::Key;
use testkit::tls_server::TlsServerChoice;
use tls::ech::{EchKeySource, EchKeys, OpenedHello};
use tls::handshake::{Handshake, HandshakeStep};
use tls::options::{CertificateSource, ResumptionGroup, ServerOptions};
use tls::policy::SuiteOrder;
use tls::resumption::keys::SharedSecret;
use tls::resumption::{Resumption, ResumptionOptions};
use tls::server::Server;
use wire::client_hello::{self, ClientHello, HelloProgress};
use wire::ech::config_list;

const ROUNDS: usize = 9;
const HANDSHAKES: u32 = 300;

/// Words for resumptions, the configured group, and the agreed one.
const RESUMPTIONS: [(&str, ResumptionGroup, NamedGroup); 2] = [
    ("session", ResumptionGroup::Session, NamedGroup::X25519MLKEM768),
    ("classical", ResumptionGroup::Classical, NamedGroup::X25519),
];

/// Session store of a client that takes no hint from the group of the last time.
#[derive(Debug)]
struct Sessions(ClientSessionMemoryCache);

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        Some(NamedGroup::X25519MLKEM768)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, name: ServerName<'static>, session: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(name, session);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(name)
    }
}

/// Both ends, with the time used and bytes sent by each.
struct ExpirySummary {
    server: Server,
    client: Arc<ClientConfig>,
    /// Data that the client decompresses beside each handshake, and its decompressed length.
    beside: Option<(Vec<u8>, usize)>,
    used: [Duration; 2],
    sent: [usize; 2],
}

impl ExpirySummary {
    fn new(key: Key, group: ResumptionGroup, choose: impl FnOnce(&mut ClientConfig)) -> Self {
        let root = Authority::root("bench");
        let leaf = root.intermediate("issuing").leaf(&["localhost"]).key(key).issue();
        let source = CertificateSource::whole("site.pem", leaf.pem());
        let resumption = Arc::new(Resumption::new(&ResumptionOptions::new([7; 32])));
        let options = ServerOptions { resumption_group: group, ..ServerOptions::new(vec![source]) };
        let built = Server::build(&options, "web", &resumption, &SuiteOrder::default());
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(root.pem().as_bytes());
        roots.add(trusted.expect("it is PEM")).expect("it is an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]);
        let builder = builder.expect("it has suites of TLS 1.3").with_root_certificates(roots);
        let mut client = builder.with_no_client_auth();
        choose(&mut client);
        let (server, client) = (built.expect("it can be served").0, Arc::new(client));
        Self { server, client, beside: None, used: [Duration::ZERO; 2], sent: [0; 2] }
    }

    /// Prepares full handshakes, with or without compressed certificates.
    fn full(key: Key, decompresses: bool) -> Self {
        Self::new(key, ResumptionGroup::Session, |client| {
            client.resumption = ClientResumption::disabled();
            client.cert_decompressors =
                if decompresses { vec![BROTLI_DECOMPRESSOR] } else { vec![] };
        })
    }

    /// Prepares handshakes without compression, but with as much to decompress beside them.
    fn unpacking_beside(key: Key) -> Self {
        let mut ends = Self::full(key, false);
        let chain = &ends.server.certificates()[0].key.cert;
        let bytes: Vec<u8> = chain.iter().flat_map(|one| one.to_vec()).collect();
        let length = bytes.len();
        let packed = BROTLI_COMPRESSOR.compress(bytes, CompressionLevel::Interactive);
        ends.beside = Some((packed.expect("it can be packed"), length));
        ends
    }

    fn resuming(group: ResumptionGroup) -> Self {
        let mut ends = Self::new(Key::EcdsaP256, group, |client| {
            let sessions = Arc::new(Sessions(ClientSessionMemoryCache::new(8)));
            client.resumption = ClientResumption::store(sessions);
        });
        let first = ends.shake_hands();
        assert_eq!(first, (HandshakeKind::Full, NamedGroup::X25519MLKEM768));
        ends
    }

    /// Makes one handshake.
    fn shake_hands(&mut self) -> (HandshakeKind, NamedGroup) {
        let name = "localhost".try_into().expect("it is a name");
        let begun = thread_time();
        let client = ClientConnection::new(Arc::clone(&self.client), name);
        let mut client = client.expect("it has a configuration");
        let hello = be_client(&mut client, &[]);
        let met = thread_time();
        let mut sent = [0, hello.len()];
        let (mut handshake, flight) = serve_hello(&self.server, hello);
        let answered = thread_time();
        if let Some((packed, length)) = &self.beside {
            let unpacked = BROTLI_DECOMPRESSOR.decompress(packed, &mut vec![0; *length]);
            unpacked.expect("it was packed");
        }
        let finished = be_client(&mut client, &flight);
        let done = thread_time();
        sent[1] += finished.len();
        let (tickets, is_done) = serve(&mut handshake, finished);
        let ended = thread_time();
        assert!(is_done && !client.is_handshaking() && !tickets.is_empty());
        sent[0] += flight.len() + tickets.len();
        be_client(&mut client, &tickets);
        self.used[0] += (answered - met) + (ended - done);
        self.used[1] += (met - begun) + (done - answered);
        self.sent = sent;
        let group = client.negotiated_key_exchange_group().map(|group| group.name());
        client.handshake_kind().zip(group).expect("it is done")
    }

    /// Returns the time used by server and client, in microseconds per handshake.
    fn round(&mut self, kind: HandshakeKind, group: NamedGroup) -> [f64; 2] {
        self.used = [Duration::ZERO; 2];
        for _ in 0..HANDSHAKES {
            assert_eq!(self.shake_hands(), (kind, group));
        }
        self.used.map(|used| used.as_secs_f64() * 1e6 / f64::from(HANDSHAKES))
    }

    fn full_round(&mut self) -> [f64; 2] {
        self.round(HandshakeKind::Full, NamedGroup::X25519MLKEM768)
    }
}

/// Returns the server's first answer.
#[inline(never)]
fn serve_hello(server: &Server, hello: Vec<u8>) -> (Handshake, Vec<u8>) {
    let Ok(HelloProgress::Hello(read)) = client_hello::read(&hello) else { panic!("no hello") };
    let config = server.select(&read).expect("what we speak");
    let mut handshake = Handshake::new(config, &read).expect("a handshake");
    drop(read);
    let (flight, _) = serve(&mut handshake, hello);
    (handshake, flight)
}

/// Runs the server's side: returns its answer, and whether the handshake is done.
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

/// Runs the client's side: returns its answer.
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

fn main() {
    let words: Vec<_> = std::env::args().collect();
    let is_told = |word: &str| words.iter().any(|one| one == word);
    if is_told("off") || is_told("brotli") {
        let key = if is_told("rsa") { Key::Rsa2048 } else { Key::EcdsaP256 };
        ExpirySummary::full(key, is_told("brotli")).full_round();
        return;
    }
    if let Some((_, group, agreed)) = RESUMPTIONS.iter().find(|(word, ..)| is_told(word)) {
        ExpirySummary::resuming(*group).round(HandshakeKind::Resumed, *agreed);
        return;
    }
    // `cargo test` also runs this, and needs no figures.
    if !is_told("--bench") {
        return;
    }
    let tables: [(&str, fn()); 4] = [
        ("compressed", compressed),
        ("resumed", resumed),
        ("after-rest", after_rest),
        ("ech", ech),
    ];
    let tells_none = tables.iter().all(|(word, _)| !is_told(word));
    for (_, table) in tables.iter().filter(|(word, _)| tells_none || is_told(word)) {
        table();
    }
}

/// Returns the median round, by the server's time.
fn median(mut rounds: Vec<[f64; 2]>) -> [f64; 2] {
    rounds.sort_by(|one, other| one[0].total_cmp(&other[0]));
    rounds[rounds.len() / 2]
}

fn compressed() {
    println!("{:>46}  {:>8}  {:>8}", "µs of CPU time per handshake:", "server", "client");
    for (name, key) in [("ECDSA P-256", Key::EcdsaP256), ("RSA 2048", Key::Rsa2048)] {
        let kinds = [
            ("not compressed", ExpirySummary::full(key, false)),
            ("compressed", ExpirySummary::full(key, true)),
            ("not, as much unpacked beside", ExpirySummary::unpacking_beside(key)),
        ];
        let mut kinds = kinds.map(|(kind, ends)| (kind, ends, Vec::new()));
        for _ in 0..ROUNDS {
            for (_, ends, rounds) in &mut kinds {
                rounds.push(ends.full_round());
            }
        }
        for (kind, _, rounds) in kinds {
            let [server, client] = median(rounds);
            println!("{name:<12} {kind:<32}  {server:>8.1}  {client:>8.1}");
        }
    }
}

fn resumed() {
    println!(
        "{:>10}  {:>9}  {:>9}  {:>12}  {:>12}",
        "group", "server µs", "client", "server bytes", "client"
    );
    let mut kinds = RESUMPTIONS
        .map(|(word, group, agreed)| (word, ExpirySummary::resuming(group), agreed, Vec::new()));
    for _ in 0..ROUNDS {
        for (_, ends, agreed, rounds) in &mut kinds {
            rounds.push(ends.round(HandshakeKind::Resumed, *agreed));
        }
    }
    for (word, ends, _, rounds) in kinds {
        let [server, client] = median(rounds);
        let [by_server, by_client] = ends.sent;
        println!("{word:>10}  {server:>9.1}  {client:>9.1}  {by_server:>12}  {by_client:>12}");
    }
}

fn after_rest() {
    const GAP: Duration = Duration::from_millis(2);
    pin_current_thread(0).expect("there is a first CPU");
    let authority = Authority::root("bench");
    let server = TlsServerChoice::new(&authority.leaf(&["localhost"]).issue(), true);
    let client = ClientChoice::new(authority.pem(), true, &[]).without_tickets();
    let handshake = || {
        let (mut client, mut server) = (client.connect("localhost"), server.accept());
        while !client.is_established() || server.is_handshaking() {
            let mut plain = Vec::new();
            let to_server = client.take_wire();
            server.hear(&to_server, &mut plain).expect("it is a client's");
            let to_client = server.take_wire();
            client.receive(&to_client, &mut plain).expect("it is a server's");
        }
    };
    let spin = || {
        let begun = Instant::now();
        while begun.elapsed() < GAP {
            std::hint::spin_loop();
        }
    };
    let gaps: [(&str, &dyn Fn()); 3] = [
        ("one after the other", &|| {}),
        ("after 2 ms of spinning", &spin),
        ("after 2 ms asleep", &|| std::thread::sleep(GAP)),
    ];
    println!("CPU time of a handshake, both ends, least to greatest of {ROUNDS} rounds");
    let mut figures = vec![Vec::new(); gaps.len()];
    for _ in 0..ROUNDS {
        for ((_, gap), figures) in gaps.iter().zip(&mut figures) {
            let mut used = Duration::ZERO;
            for _ in 0..HANDSHAKES {
                gap();
                let before = thread_time();
                handshake();
                used += thread_time() - before;
            }
            figures.push(used / HANDSHAKES);
        }
    }
    for ((name, _), mut figures) in gaps.iter().zip(figures) {
        figures.sort();
        println!("{name:24} {figures:.1?}");
    }
}

fn ech() {
    const HELLOS: u32 = 5000;
    pin_current_thread(0).expect("there is a first CPU");
    let (ours, others) = (ech_keys(1), ech_keys(2));
    let opened = ech_hello(&ours);
    let cases: [(&str, &dyn Fn()); 3] = [
        ("read, as of a plain hello", &|| {
            black_box(read_whole(&opened).server_name());
        }),
        ("read and opened", &|| {
            let hello = read_whole(&opened);
            assert!(matches!(black_box(ours.open(&hello)), OpenedHello::Accepted(_)));
        }),
        ("read and not opened (GREASE with a number that is there)", &|| {
            let hello = read_whole(&opened);
            assert!(matches!(black_box(others.open(&hello)), OpenedHello::Rejected(_)));
        }),
    ];
    println!("CPU time of a hello of {} bytes, least to greatest of {ROUNDS} rounds", opened.len());
    for (name, act) in cases {
        let mut figures: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let before = thread_time();
                (0..HELLOS).for_each(|_| act());
                (thread_time() - before) / HELLOS
            })
            .collect();
        figures.sort();
        println!("{name}: {:?} to {:?}", figures[0], figures[ROUNDS - 1]);
    }
}

fn ech_keys(byte: u8) -> EchKeys {
    let secrets = vec![SharedSecret::read("s", vec![byte; 32]).expect("it is long enough")];
    let source = EchKeySource::Derived { secrets, rotate_seconds: 7 * 86_400 };
    EchKeys::new("front.example", source)
}

/// Returns the records of a client that encrypts for these keys.
fn ech_hello(keys: &EchKeys) -> Vec<u8> {
    let list = config_list(&keys.published().0);
    let list = EchConfigListBytes::from(list);
    let config = EchConfig::new(list, aws_lc_rs::hpke::ALL_SUPPORTED_SUITES);
    let mode = EchMode::from(config.expect("the client has its cipher"));
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_ech(mode)
        .expect("the client speaks TLS 1.3")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "hidden.example".try_into().expect("it is a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("it is a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("memory takes everything");
    hello
}

fn read_whole(bytes: &[u8]) -> ClientHello<'_> {
    match client_hello::read(bytes) {
        Ok(HelloProgress::Hello(hello)) => hello,
        _ => unreachable!("it is a whole hello"),
    }
}
