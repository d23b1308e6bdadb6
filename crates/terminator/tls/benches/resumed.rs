//! `cargo bench -p tls --bench resumed`: bytes and CPU time of a resumed handshake of TLS 1.3 by
//! each value of `resumption.group`, for a client that sends shares of both groups, as browsers do.
//!
//! The server is the product's, the client the TLS library's, on one thread. Instructions of either
//! end alone are counted by `valgrind --tool=callgrind --toggle-collect='*serve*'` (or
//! `'*be_client*'`), with the word `session` or `classical` behind the program, which then makes
//! [`HANDSHAKES`] and ends.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption as ClientResumption,
    Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use sys::cpu::thread_time;
use testkit::authority::Authority;
use testkit::leaf::Key;
use tls::handshake::{Handshake, HandshakeStep};
use tls::options::{CertificateSource, ResumptionGroup, ServerOptions};
use tls::policy::SuiteOrder;
use tls::resumption::{Resumption, ResumptionOptions};
use tls::server::Server;
use wire::client_hello::{self, Peek};

const ROUNDS: usize = 9;
const HANDSHAKES: u32 = 300;

/// Sessions of a client that takes no hint from the group of the last time.
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

/// The two ends, and of each what it has used and sent.
struct Ends {
    server: Server,
    client: Arc<ClientConfig>,
    used: [Duration; 2],
    sent: [usize; 2],
}

impl Ends {
    fn new(group: ResumptionGroup) -> Self {
        let root = Authority::root("bench");
        let leaf = root.leaf(&["localhost"]).key(Key::EcdsaP256).issue();
        let resumption = Arc::new(Resumption::new(&ResumptionOptions::new([7; 32])));
        let source = CertificateSource::whole("site.pem", leaf.pem());
        let options = ServerOptions { resumption_group: group, ..ServerOptions::new(vec![source]) };
        let built = Server::build(&options, "web", &resumption, &SuiteOrder::default());
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(root.pem().as_bytes());
        roots.add(trusted.expect("it is PEM")).expect("it is an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]);
        let builder = builder.expect("it has suites of TLS 1.3").with_root_certificates(roots);
        let mut client = builder.with_no_client_auth();
        let sessions = Arc::new(Sessions(ClientSessionMemoryCache::new(8)));
        client.resumption = ClientResumption::store(sessions);
        let server = built.expect("it can be served").0;
        let mut ends =
            Self { server, client: Arc::new(client), used: [Duration::ZERO; 2], sent: [0; 2] };
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
        let finished = be_client(&mut client, &flight);
        let done = thread_time();
        sent[1] += finished.len();
        let (tickets, is_done) = serve(&mut handshake, finished);
        let ended = thread_time();
        assert!(is_done && !client.is_handshaking());
        sent[0] += flight.len() + tickets.len();
        be_client(&mut client, &tickets);
        self.used[0] += (answered - met) + (ended - done);
        self.used[1] += (met - begun) + (done - answered);
        self.sent = sent;
        let group = client.negotiated_key_exchange_group().map(|group| group.name());
        client.handshake_kind().zip(group).expect("it is done")
    }

    /// The time that server and client have used, in microseconds per handshake.
    fn round(&mut self, group: NamedGroup) -> [f64; 2] {
        self.used = [Duration::ZERO; 2];
        for _ in 0..HANDSHAKES {
            assert_eq!(self.shake_hands(), (HandshakeKind::Resumed, group));
        }
        self.used.map(|used| used.as_secs_f64() * 1e6 / f64::from(HANDSHAKES))
    }
}

/// The server's first answer.
#[inline(never)]
fn serve_hello(server: &Server, hello: Vec<u8>) -> (Handshake, Vec<u8>) {
    let Ok(Peek::Hello(read)) = client_hello::read(&hello) else { panic!("no hello") };
    let config = server.select(&read).expect("what we speak");
    let mut handshake = Handshake::new(config, &read).expect("a handshake");
    drop(read);
    let (flight, _) = serve(&mut handshake, hello);
    (handshake, flight)
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

fn main() {
    let words: Vec<_> = std::env::args().collect();
    let is_told = |word: &str| words.iter().any(|one| one == word);
    let kinds = [
        ("session", ResumptionGroup::Session, NamedGroup::X25519MLKEM768),
        ("classical", ResumptionGroup::Classical, NamedGroup::X25519),
    ];
    if let Some((_, group, agreed)) = kinds.iter().find(|(word, ..)| is_told(word)) {
        Ends::new(*group).round(*agreed);
        return;
    }
    // `cargo test` runs it too, and wants no figures.
    if !is_told("--bench") {
        return;
    }
    println!(
        "{:>10}  {:>9}  {:>9}  {:>12}  {:>12}",
        "group", "server µs", "client", "server bytes", "client"
    );
    let mut kinds = kinds.map(|(word, group, agreed)| (word, Ends::new(group), agreed, Vec::new()));
    for _ in 0..ROUNDS {
        for (_, ends, agreed, rounds) in &mut kinds {
            rounds.push(ends.round(*agreed));
        }
    }
    for (word, ends, _, mut rounds) in kinds {
        rounds.sort_by(|one, other| one[0].total_cmp(&other[0]));
        let [server, client] = rounds[ROUNDS / 2];
        let [by_server, by_client] = ends.sent;
        println!("{word:>10}  {server:>9.1}  {client:>9.1}  {by_server:>12}  {by_client:>12}");
    }
}
