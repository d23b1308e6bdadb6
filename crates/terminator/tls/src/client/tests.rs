//! [`Client`] against the library's own server, in memory.

use std::io::{Read, Write};

use rustls::client::ClientSessionStore;
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion, version};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use telemetry::outcome::Reason;
use testkit::authority::{Authority, KeyUsagePurpose, Trait};
use testkit::leaf::Leaf;

use super::*;
use crate::handshake::CompletedHandshake;
use crate::options::{Group, PemSource, ServerVerification, Suites, Version};
use crate::traffic::{RecordContent, RecordSealer, Traffic};

fn options(root: &Authority) -> ClientOptions {
    ClientOptions {
        verification: Some(ServerVerification {
            authorities: vec![PemSource { place: "ca.pem".to_owned(), pem: root.pem().into() }],
            ..ServerVerification::default()
        }),
        pins: Vec::new(),
        name: ExpectedName::OfServer,
        certificate: None,
        version_min: Version::Tls12,
        version_max: Version::Tls13,
        suites: Suites::Auto,
        groups: Group::ALL.to_vec(),
        alpn: OfferedAlpn::OfClient,
        resumption: true,
        key_log: false,
        certificate_compression: true,
    }
}

fn client(options: &ClientOptions) -> Client {
    let hosts = [Some("app.example".to_owned())];
    let built = Client::build(options, "web", &hosts, &SuiteOrder::default());
    built.expect("options that can be used").0
}

fn server(leaf: &Leaf, versions: &[&'static SupportedProtocolVersion]) -> Arc<ServerConfig> {
    let chain = leaf.chain_pem();
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>();
    let chain = chain.expect("the chain is PEM");
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem().as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key);
    let mut config = config.expect("a certificate with its key");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

fn now() -> Instant {
    #[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
    Instant::now()
}

/// A connection, and the server's bytes received after its handshake.
struct Connected {
    established: CompletedHandshake,
    server: ServerConnection,
    rest: Vec<u8>,
}

fn deliver(mut bytes: &[u8], server: &mut ServerConnection) {
    while !bytes.is_empty() && server.read_tls(&mut bytes).is_ok() {
        let _refused = server.process_new_packets();
    }
}

/// Makes a handshake with the server's bytes cut into pieces of `step` bytes.
fn connect(
    client: &Client,
    config: &Arc<ServerConfig>,
    step: usize,
) -> Result<Connected, HandshakeFault> {
    connect_for(b"http/1.1", client, config, step)
}

/// Makes a handshake for a client that uses this protocol.
fn connect_for(
    alpn: &[u8],
    client: &Client,
    config: &Arc<ServerConfig>,
    step: usize,
) -> Result<Connected, HandshakeFault> {
    let behalf = OnBehalfOf { name: Some("other.example"), alpn: Some(alpn) };
    let mut handshake = client.connect(0, behalf, now())?;
    let mut server = ServerConnection::new(Arc::clone(config)).expect("a server");
    let (mut incoming, mut coming) = (Vec::new(), Vec::new());
    loop {
        let mut outgoing = Vec::new();
        let advanced = handshake.advance(&mut incoming, &mut outgoing);
        deliver(&outgoing, &mut server);
        let advanced = advanced?;
        incoming.drain(..advanced.consumed);
        server.write_tls(&mut coming).expect("memory");
        if advanced.done {
            incoming.append(&mut coming);
            let established = handshake.finish()?;
            return Ok(Connected { established, server, rest: incoming });
        }
        let taken = step.min(coming.len());
        assert!(taken > 0, "nothing more comes");
        incoming.extend(coming.drain(..taken));
    }
}

impl Connected {
    /// Opens all received records; returns their data.
    fn open(&mut self) -> Vec<u8> {
        let (mut data, mut plain) = (Vec::new(), vec![0; 20_000]);
        let traffic: &mut Traffic = &mut self.established.traffic;
        while let Some(bytes) = traffic.record_bytes(&self.rest).expect("a record") {
            let record: Vec<u8> = self.rest.drain(..bytes).collect();
            if let RecordContent::Data(count) = traffic.open(&record, &mut plain).expect("opened") {
                data.extend_from_slice(&plain[..count]);
            }
        }
        data
    }

    /// Sends data in both directions.
    fn exchange(&mut self) {
        self.server.writer().write_all(b"greeting").expect("memory");
        self.server.write_tls(&mut self.rest).expect("memory");
        assert_eq!(self.open(), b"greeting");
        let traffic = &mut self.established.traffic;
        let layout = traffic.layout();
        let mut record = vec![0; layout.head];
        record.extend_from_slice(b"answer");
        record.resize(record.len() + layout.tail, 0);
        traffic.seal(&mut record).expect("sealed");
        deliver(&record, &mut self.server);
        let mut heard = [0; 6];
        self.server.reader().read_exact(&mut heard).expect("data");
        assert_eq!(&heard, b"answer");
    }
}

#[test]
fn handshakes_are_made_however_the_bytes_are_cut_and_resumed() {
    let root = Authority::root("root");
    let leaf = root.leaf(&["app.example"]).issue();
    for (versions, wanted) in
        [([&version::TLS12], Version::Tls12), ([&version::TLS13], Version::Tls13)]
    {
        let (client, server) = (client(&options(&root)), server(&leaf, &versions));
        for (number, step) in [1, 2, 5, 6, 100, 20_000].into_iter().enumerate() {
            let mut connected = connect(&client, &server, step).expect("a handshake");
            connected.exchange();
            let agreed = &connected.established.agreed;
            assert_eq!((agreed.version, agreed.resumed), (wanted, number > 0), "{step}");
            assert_eq!(agreed.alpn.as_deref(), Some(&b"http/1.1"[..]));
            assert_eq!(connected.server.server_name(), Some("app.example"));
        }
        client.forget_sessions(0);
        let again = connect(&client, &server, 20_000).expect("a handshake");
        assert!(!again.established.agreed.resumed);
    }
}

/// Tickets of this length, which hold the session unencrypted.
#[derive(Debug)]
struct LongTicketer(usize);

impl rustls::server::ProducesTickets for LongTicketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        3600
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let length = u16::try_from(plain.len()).ok()?.to_be_bytes();
        let mut ticket = [&length, plain].concat();
        ticket.resize(self.0, 0);
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (length, rest) = ticket.split_first_chunk()?;
        Some(rest[..u16::from_be_bytes(*length).into()].to_vec())
    }
}

#[test]
fn a_ticket_that_is_very_long_is_not_kept() {
    let root = Authority::root("root");
    let leaf = root.leaf(&["app.example"]).issue();
    for (length, is_kept) in [(8000, true), (9000, false)] {
        let client = client(&options(&root));
        let mut config = (*server(&leaf, &[&version::TLS13])).clone();
        config.ticketer = Arc::new(LongTicketer(length));
        let config = Arc::new(config);
        let resumed = || {
            let mut connected = connect(&client, &config, 20_000).expect("a handshake");
            connected.exchange();
            connected.established.agreed.resumed
        };
        assert_eq!([resumed(), resumed()], [false, is_kept], "{length}");
    }
}

#[test]
fn a_server_fills_no_memory_with_tickets_for_many_names() {
    let root = Authority::root("root");
    let names = ["a.example", "b.example", "c.example", "d.example"];
    let leaf = root.leaf(&names).issue();
    let mut config = (*server(&leaf, &[&version::TLS13])).clone();
    config.send_tls13_tickets = 300;
    let server = Arc::new(config);
    let sessions = Arc::new(ServerSessions::new(64));
    let mut config = client(&options(&root)).config;
    config.resumption = Resumption::store(Arc::clone(&sessions) as _);
    let config = Arc::new(config);
    let names = names.map(|name| ServerName::try_from(name).expect("a name"));
    for name in &names {
        let mut connection =
            rustls::ClientConnection::new(Arc::clone(&config), name.clone()).expect("a client");
        let mut server = ServerConnection::new(Arc::clone(&server)).expect("a server");
        while connection.wants_write() || server.wants_write() {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            connection.write_tls(&mut up).expect("memory");
            deliver(&up, &mut server);
            server.write_tls(&mut down).expect("memory");
            let mut down = &down[..];
            while !down.is_empty() {
                connection.read_tls(&mut down).expect("memory");
                connection.process_new_packets().expect("a handshake");
            }
        }
    }
    let taken = |name| std::iter::from_fn(|| sessions.take_tls13_ticket(name)).count();
    let left: Vec<_> = names.iter().map(taken).collect();
    assert_eq!(left.iter().sum::<usize>(), 512, "{left:?}");
    assert!(left.iter().all(|count| *count > 100), "{left:?}");
}

/// The library's state is large, and is dropped once it has done its part.
#[test]
fn the_librarys_state_goes_with_the_tickets_or_with_data_and_keys_change_all_the_same() {
    let root = Authority::root("root");
    let leaf = root.leaf(&["app.example"]).issue();
    let keeps = |connected: &Connected| connected.established.traffic.keeps_tickets();
    for (tickets, exchanges) in [(0, 8), (1, 1), (4, 1)] {
        let client = client(&options(&root));
        let mut server = server(&leaf, &[&version::TLS13]);
        Arc::make_mut(&mut server).send_tls13_tickets = tickets;
        let mut connected = connect(&client, &server, 20_000).expect("a handshake");
        for _ in 0..exchanges {
            assert!(keeps(&connected), "{tickets}");
            connected.exchange();
        }
        assert!(!keeps(&connected), "{tickets}");
        for _ in 0..3 {
            connected.server.refresh_traffic_keys().expect("TLS 1.3");
            connected.exchange();
        }
        for made in 0..2 {
            let again = connect(&client, &server, 20_000).expect("a handshake");
            assert_eq!(again.established.agreed.resumed, tickets > made, "{tickets}");
        }
    }
}

#[test]
fn http2_is_spoken_to_no_server_that_has_not_selected_it() {
    let root = Authority::root("root");
    let leaf = root.leaf(&["app.example"]).issue();
    let fixed = |names: &[&str]| {
        let names = names.iter().map(|name| name.as_bytes().to_vec());
        OfferedAlpn::Fixed(names.collect())
    };
    let both = fixed(&["h2", "http/1.1"]);
    for (offered, client_speaks, selected, expected) in [
        (OfferedAlpn::OfClient, "h2", vec!["h2"], true),
        (OfferedAlpn::OfClient, "h2", vec![], false),
        (OfferedAlpn::OfClient, "http/1.1", vec![], true),
        (OfferedAlpn::OfClient, "imap", vec![], true),
        (both.clone(), "h2", vec!["http/1.1"], false),
        (both, "http/1.1", vec!["http/1.1"], true),
        (fixed(&["h2"]), "http/1.1", vec![], false),
        (fixed(&[]), "h2", vec![], true),
    ] {
        let client = client(&ClientOptions { alpn: offered.clone(), ..options(&root) });
        for version in [&version::TLS12, &version::TLS13] {
            let mut config = ServerConfig::clone(&server(&leaf, &[version]));
            let selected = selected.iter().map(|name| name.as_bytes().to_vec());
            config.alpn_protocols = selected.collect();
            let config = Arc::new(config);
            let connected = connect_for(client_speaks.as_bytes(), &client, &config, 20_000);
            let fault = connected.err().map(|fault| fault.reason);
            let reason = (!expected).then_some(Reason::ServerTlsFailed);
            assert_eq!(fault, reason, "{offered:?} {client_speaks}");
        }
    }
}

#[test]
fn an_hour_after_the_first_handshake_comes_a_full_one() {
    let root = Authority::root("root");
    let client = client(&options(&root));
    let start = now();
    let config = |after| client.servers[0].config(&client, start + after);
    let first = config(Duration::ZERO);
    let almost = FULL_HANDSHAKE_EVERY - Duration::from_secs(1);
    assert!(Arc::ptr_eq(&first, &config(almost)));
    assert!(!Arc::ptr_eq(&first, &config(FULL_HANDSHAKE_EVERY)));
}

#[test]
fn each_refusal_has_its_reason_and_sends_an_alert() {
    let (root, stranger) = (Authority::root("root"), Authority::root("stranger"));
    let mut pinned = options(&root);
    pinned.pins = vec![[7; 32]];
    let mut follows = options(&root);
    follows.name = ExpectedName::OfClient;
    let good = || root.leaf(&["app.example"]).issue();
    let usual = || options(&root);
    for (leaf, options, reason) in [
        (root.leaf(&["app.example"]).expired().issue(), usual(), Reason::ServerCertificateExpired),
        (root.leaf(&["b.example"]).issue(), usual(), Reason::ServerCertificateName),
        (stranger.leaf(&["app.example"]).issue(), usual(), Reason::ServerCertificateUntrusted),
        (root.client("app.example"), usual(), Reason::ServerCertificateUntrusted),
        (good(), pinned, Reason::ServerCertificateUntrusted),
        (good(), follows, Reason::ServerCertificateName),
    ] {
        for versions in [[&version::TLS12], [&version::TLS13]] {
            let refused = connect(&client(&options), &server(&leaf, &versions), 20_000);
            let fault = refused.map(|_| ()).expect_err("a refusal");
            assert_eq!(fault.reason, reason, "{fault}");
        }
    }
}

/// Returns the refusal of servers with this certificate by clients that trust those authorities,
/// the same in both versions.
fn refusal(leaf: &Leaf, authority: &Authority) -> Option<(Reason, String)> {
    let [older, newer] = [[&version::TLS12], [&version::TLS13]].map(|versions| {
        let client = client(&options(authority));
        let connected = connect(&client, &server(leaf, &versions), 20_000);
        connected.err().map(|fault| (fault.reason, fault.detail))
    });
    assert_eq!(older, newer);
    newer
}

/// RFC 8446 section 4.4.2.2, RFC 5246 section 7.4.2.
#[test]
fn a_servers_own_certificate_has_to_be_for_signatures() {
    use KeyUsagePurpose::{CrlSign, DigitalSignature, KeyEncipherment};
    let root = Authority::root("root");
    for (usage, is_taken) in [
        (&[][..], true),
        (&[KeyEncipherment, DigitalSignature], true),
        (&[KeyEncipherment], false),
        (&[CrlSign], false),
    ] {
        let leaf = root.leaf(&["app.example"]).key_usage(usage).issue();
        let refused = refusal(&leaf, &root);
        assert_eq!(refused.is_none(), is_taken, "{usage:?}: {refused:?}");
        if let Some((reason, detail)) = refused {
            assert_eq!(reason, Reason::ServerCertificateUntrusted);
            assert!(detail.contains("no digitalSignature"), "{detail}");
        }
    }
}

#[test]
fn a_servers_own_certificate_in_ca_is_judged_by_name_and_time() {
    let past = Trait::Valid(1_704_067_200, 1_735_689_600);
    for traits in [vec![], vec![Trait::EndEntity]] {
        let own =
            |name, more: &[Trait]| Authority::root_with("own", &[name], &[&traits, more].concat());
        let good = own("app.example", &[]);
        assert_eq!(refusal(&good.as_leaf(), &good), None);
        let other = own("b.example", &[]);
        let reason = |one: &Authority| refusal(&one.as_leaf(), one).map(|(reason, _)| reason);
        assert_eq!(reason(&other), Some(Reason::ServerCertificateName));
        let expired = own("app.example", &[past]);
        assert_eq!(reason(&expired), Some(Reason::ServerCertificateExpired));
        // A certificate of the same names, with another key.
        let stranger = own("app.example", &[]);
        assert!(refusal(&stranger.as_leaf(), &good).is_some());
        let issued = refusal(&good.leaf(&["app.example"]).issue(), &good);
        let untrusted = issued.map(|(reason, _)| reason);
        let expected = Some(Reason::ServerCertificateUntrusted);
        assert_eq!(untrusted, expected.filter(|_| !traits.is_empty()));
    }
}

#[test]
fn a_chain_that_would_cost_seconds_is_not_looked_at() {
    let root = Authority::root("root");
    let flat: String = (0..150).map(|_| Authority::forged("x", "x", &[])).collect();
    let hostile = Authority::root("x").leaf(&["app.example"]).issue();
    let (reason, detail) = refusal(&hostile.above(&flat), &root).expect("refused");
    assert_eq!(reason, Reason::ServerChainLimit);
    assert!(detail.starts_with("of 150 certificates"), "{detail}");
}

#[test]
fn an_empty_certificate_of_a_servers_is_named() {
    const EMPTY: &str = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
    let root = Authority::root("root");
    let leaf = root.leaf(&["app.example"]).issue().above(EMPTY);
    let (reason, detail) = refusal(&leaf, &root).expect("refused");
    assert_eq!(reason, Reason::ServerTlsFailed);
    assert!(detail.starts_with("certificate 2 of the chain is empty"), "{detail}");
    let config = server(&leaf, &[&version::TLS12]);
    let mut tls12 = ServerConnection::new(config).expect("a server");
    let client = client(&options(&root));
    let mut handshake = client.connect(0, OnBehalfOf::default(), now()).expect("begun");
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    handshake.advance(&mut incoming, &mut outgoing).expect("a hello");
    deliver(&outgoing, &mut tls12);
    tls12.write_tls(&mut incoming).expect("memory");
    outgoing.clear();
    handshake.advance(&mut incoming, &mut outgoing).expect_err("refused");
    assert_eq!(outgoing.last(), Some(&alert::DECODE_ERROR));
}

#[test]
fn what_is_no_tls_is_said_and_nothing_panics() {
    let root = Authority::root("root");
    let client = client(&options(&root));
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"220 mail.example ESMTP\r\n",
        &[21, 3, 3, 0, 2, 2, 40],
        &[22, 3, 3, 0xff, 0xff],
        &[22, 3, 3, 0, 4, 0, 0, 0, 0],
        &[23, 3, 3, 0, 1, 0],
        &[0; 64],
    ] {
        let mut handshake = client.connect(0, OnBehalfOf::default(), now()).expect("begun");
        let mut incoming = bytes.to_vec();
        let fault = handshake.advance(&mut incoming, &mut Vec::new());
        let fault = fault.expect_err("no handshake");
        assert_eq!(fault.reason, Reason::ServerTlsFailed, "{fault}");
    }
}

#[test]
fn pins_are_written_as_curl_writes_them() {
    let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    assert_eq!(parse_pin(pin).map(|pin| pin[..3].to_vec()), Some(vec![0xe3, 0xb0, 0xc4]));
    for bad in ["", "sha256//", "sha256//AAAA", &pin[8..], &pin[..51]] {
        assert_eq!(parse_pin(bad), None, "{bad}");
    }
}

fn name(number: usize) -> ServerName<'static> {
    ServerName::try_from(format!("n{number}.example")).expect("a name")
}

#[test]
fn clients_cannot_fill_it_with_names() {
    let sessions = ServerSessions::new(3);
    for number in 0..100 {
        sessions.set_kx_hint(name(number), NamedGroup::X25519);
    }
    let kept = (0..100).filter(|number| sessions.kx_hint(&name(*number)).is_some());
    assert_eq!(kept.count(), 3);
    assert!(sessions.kx_hint(&name(99)).is_some(), "the last is there");
}
