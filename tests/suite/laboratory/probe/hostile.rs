//! Malicious servers: they cut, drip, lie about lengths, never end, or write what a terminal or a
//! browser would obey. A probe ends with a finding, and shows their words as words.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::net::sockopt::set_socket_linger;
use suite::prelude::*;
use suite::probe::{BRIEF, BUSY, NOT_PROBED, probe, report, trouble};
use suite::scripted::{answer, read_record, relay, say_for_ever, serve, serve_by_hello};
use testkit::tls_server::TlsServerChoice;

fn node(timeout: &str, address: SocketAddr) -> Value {
    report(timeout, address, &[])["nodes"][0].clone()
}

/// Returns bytes behind their length.
fn vector(length_bytes: usize, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length[4 - length_bytes..], bytes].concat()
}

fn record(kind: u8, fragment: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3], &*vector(2, fragment)].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &*vector(3, body)].concat()
}

/// Makes a TLS 1.2 ServerHello; session id and extensions come with their lengths.
fn server_hello(session_id: &[u8], extensions: &[u8]) -> Vec<u8> {
    server_hello_of([3, 3], session_id, 0, extensions)
}

/// Makes a ServerHello of any version and compression.
fn server_hello_of(version: [u8; 2], id: &[u8], compression: u8, extensions: &[u8]) -> Vec<u8> {
    let chosen = [0xc0, 0x2b, compression];
    let body = [&version, &[7; 32][..], id, &chosen, extensions];
    message(2, &body.concat())
}

/// Makes the flight of a server of TLS 1.2 with this list of certificates, up to its end. Its
/// signature is invalid, which a client that inspects all servers accepts.
fn flight(certificates: &[u8]) -> Vec<u8> {
    flight_after(server_hello(&[0], &[]), certificates)
}

/// Makes such a flight after this hello.
fn flight_after(hello: Vec<u8>, certificates: &[u8]) -> Vec<u8> {
    let share = [&[3, 0, 29], &*vector(1, &[9; 32]), &[4, 3], &vector(2, &[1; 8])].concat();
    let messages =
        [hello, message(11, &vector(3, certificates)), message(12, &share), message(14, &[])];
    let messages = messages.concat();
    messages.chunks(1 << 14).flat_map(|part| record(22, part)).collect()
}

#[test]
fn lies_about_lengths_have_their_reason() {
    let hello = |id: &[u8], extensions: &[u8]| record(22, &server_hello(id, extensions));
    for (what, bytes, words) in [
        ("a session id", hello(&[255, 1], &[]), "ServerHello is cut"),
        ("an extension", hello(&[0], &[0, 6, 0xff, 1, 0xff, 0xff, 0, 0]), "ServerHello is cut"),
        (
            "a message of 16 MiB that never comes",
            record(22, &[2, 0xff, 0xff, 0xff, 3, 3]),
            "was not over within 1 s",
        ),
        (
            "a record of more than any may have",
            [&[22, 3, 3, 0x60, 0][..], &[0; 99]].concat(),
            "claims 24576 bytes",
        ),
        (
            "what follows a record",
            [&record(22, &[2, 0])[..], b"HTTP/1.1 400"].concat(),
            "no record",
        ),
        ("a hello", record(22, &[2, 0, 0, 4, 3, 3, 0, 0]), "ServerHello is cut"),
        ("no hello", record(22, &[11, 0, 0, 0]), "no ServerHello"),
        ("more that does not come", [22, 3, 3, 0, 100, 2, 0].to_vec(), "was not over within 1 s"),
        ("an alert", record(21, &[2, 40]), "handshake_failure"),
    ] {
        let report = report(BRIEF, answer(bytes), &[]);
        let (kind, text) = trouble(&report);
        assert!(text.contains(words), "{what}: {text}");
        let (expected, point) = match words {
            "handshake_failure" => ("refused", "refused"),
            _ if words.ends_with("1 s") => ("timeout", "no-answer"),
            _ => ("malformed", "broken-answer"),
        };
        assert_eq!(kind, expected, "{what}: {text}");
        assert_eq!(report["verdicts"][0]["point"], point, "{what}: {text}");
    }
    for (act, kind, words) in [
        ((|_, _| {}) as fn(&mut TcpStream, &[u8]), "closed", "closed the connection"),
        (|_, _| thread::park(), "timeout", "was not over within 1 s"),
    ] {
        let (found, text) = trouble(&report(BRIEF, serve_by_hello(act), &[]));
        assert_eq!(found, kind, "{text}");
        assert_has(text, words);
    }
}

#[test]
fn what_never_ends_is_left() {
    for (what, before, again, words) in [
        ("alerts", vec![], record(21, &[1, 90]).repeat(9999), "longer than 256 KiB"),
        ("empty records", vec![], record(22, &[]).repeat(9999), "longer than 256 KiB"),
        ("messages", vec![], record(22, &message(99, &[])), "no ServerHello"),
        (
            "certificates",
            record(22, &server_hello(&[0], &[])),
            record(22, &message(11, &[0; 9000])),
            "longer than 256 KiB",
        ),
    ] {
        let address = serve_by_hello(move |stream, _| say_for_ever(stream, &before, &again));
        let (kind, text) = trouble(&report(BUSY, address, &[]));
        assert_eq!(kind, "malformed", "{what}: {text}");
        assert!(text.contains(words), "{what}: {text}");
    }
}

#[test]
fn a_dialog_that_never_ends_or_makes_no_sense_is_left() {
    for (protocol, before, again) in [
        ("smtp", &b""[..], &b"220-hello\r\n"[..]),
        ("smtp", b"220 ", b"xxxxxxxxxxx"),
        ("lmtp", b"220 hi\r\n", b"250-hello\r\n"),
        ("imap", b"* OK hi\r\n", b"* CAPABILITY IMAP4rev1\r\n"),
        ("pop3", b"+OK ", b"xxxxxxxxxxxx"),
        ("ftp", b"220-hi\r\n", b" hello\r\n"),
        ("sieve", b"", b"\"SIEVE\" \"fileinto\"\r\n"),
        ("nntp", b"200 ", b"xxxxxxxxxxxx"),
        ("mysql", b"\xff\xff\xff\0\x0a8.0\0", b"\0\0\0\0\0\0\0"),
        ("postgres", b"", b"xxxxxxxxxxx"),
        ("ldap", b"\x30\x84\x7f\xff\xff\xff\x02\x01\x01", b"\0\0\0\0\0"),
        ("xmpp", b"<?xml version='1.0'?><stream:stream>", b"<a><a><a><a><a>"),
    ] {
        let again = again.repeat(999);
        let address = serve(move |stream| say_for_ever(stream, before, &again));
        let report = report(BUSY, address, &["--starttls", protocol]);
        let (kind, text) = trouble(&report);
        assert_eq!(kind, "no-starttls", "{protocol}: {text}");
        assert_eq!(report["verdicts"][0]["point"], "no-starttls");
    }
}

#[test]
fn what_never_ends_after_a_good_flight_is_left() {
    for again in [record(20, &[1]), record(21, &[1, 90]), record(22, &[])] {
        let again = again.repeat(999);
        let before = flight(&vector(3, &[0x30, 0]));
        let address = serve_by_hello(move |stream, _| say_for_ever(stream, &before, &again));
        let node = node(BUSY, address);
        let clients = node["clients"].as_array().unwrap();
        assert!(!clients.is_empty(), "{node}");
        let said = |client: &Value| client["trouble"]["text"].is_string();
        assert!(clients.iter().all(said), "{node}");
    }
}

#[test]
fn a_flight_that_drips_is_no_longer_waited_for_than_a_silent_server() {
    let bytes = flight(&vector(3, &[0x30, 0]));
    let address = serve_by_hello(move |stream, _| {
        let pace = Some(Duration::from_millis(90));
        stream.set_read_timeout(pace).unwrap();
        for byte in &bytes {
            // The client is silent: the read's timeout sets the pace.
            let _silence = stream.read(&mut [0]);
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
        }
    });
    let (kind, text) = trouble(&report(BRIEF, address, &[]));
    assert_eq!(kind, "timeout", "{text}");
}

#[test]
fn a_tarpit_that_answers_just_in_time_is_left_when_its_time_is_over() {
    let bytes = flight(&vector(3, &[0x30, 0]));
    let address = serve_by_hello(move |stream, _| {
        // The client is silent: the read's timeout sets the pace.
        let pace = Some(Duration::from_millis(90));
        stream.set_read_timeout(pace).unwrap();
        let _silence = stream.read(&mut [0]);
        let _gone = stream.write_all(&bytes);
    });
    let report = report(BUSY, address, &["--max-time", "1s"]);
    let (kind, text) = trouble(&report);
    assert_eq!(kind, "timeout", "{text}");
    assert_has(&text, "the 1 s of --max-time");
    // There are no complaints about points that were not tried.
    let verdicts = report["verdicts"].as_array().unwrap();
    let points: Vec<_> = verdicts.iter().map(|one| &one["point"]).collect();
    assert_eq!(points, ["no-answer"]);
}

#[test]
fn what_was_not_tried_in_time_is_no_refusal() {
    let count = AtomicUsize::new(0);
    let address = serve_by_hello(move |stream, _| {
        if count.fetch_add(1, Relaxed) == 0 {
            let _gone = stream.write_all(&record(21, &[2, 40]));
        }
        let _end = stream.read(&mut [0; 4096]);
    });
    let (kind, text) = trouble(&report(BUSY, address, &["--max-time", "1s"]));
    assert_eq!(kind, "timeout", "{text}");
    assert_has(&text, "the 1 s of --max-time");
}

#[test]
fn what_older_versions_need_is_found_to_be_missing() {
    const RENEGOTIATION_INFO: [u8; 7] = [0, 5, 0xff, 1, 0, 1, 0];
    let points = |compression: u8, extensions: &'static [u8], has_fallback: bool| {
        let address = serve_by_hello(move |stream, hello| {
            // In the version that the client names; an older client has no session id.
            let version = [hello[9], hello[10]];
            let suites_end = 46 + usize::from(u16::from_be_bytes([hello[44], hello[45]]));
            let is_fallback = hello[43] == 0 && hello[suites_end - 2..suites_end] == [0x56, 0];
            let bytes = if is_fallback && has_fallback {
                record(21, &[2, 86])
            } else {
                let hello = server_hello_of(version, &[0], compression, extensions);
                flight_after(hello, &vector(3, &[0x30, 0]))
            };
            let _gone = stream.write_all(&bytes);
            let _end = stream.read(&mut [0; 4096]);
        });
        let report = report(BUSY, address, &[]);
        let all = report["verdicts"].as_array().unwrap().iter();
        let all: Vec<_> = all.map(|one| one["point"].as_str().unwrap()).collect();
        assert!(all.contains(&"old-versions"), "{all:?}");
        ["insecure-renegotiation", "compression", "fallback-ignored"]
            .map(|point| all.contains(&point))
    };
    assert_eq!(points(0, &RENEGOTIATION_INFO, true), [false; 3]);
    assert_eq!(points(0, &[], true), [true, false, false]);
    assert_eq!(points(1, &RENEGOTIATION_INFO, true), [false, true, false]);
    assert_eq!(points(0, &RENEGOTIATION_INFO, false), [false, false, true]);
}

#[test]
fn a_change_of_ciphers_that_comes_too_early_is_tried_and_heartbeats_are_named() {
    let points = |is_wrong: bool| {
        let extensions: &[u8] = if is_wrong { &[0, 5, 0, 15, 0, 1, 1] } else { &[] };
        let flight = flight_after(server_hello(&[0], extensions), &vector(3, &[0x30, 0]));
        let address = serve_by_hello(move |stream, _| {
            let _gone = stream.write_all(&flight);
            // A correct server complains of the first; the other decrypts the second.
            let wanted = if is_wrong { 2 } else { 1 };
            let changes = (0..wanted).all(|_| read_record(stream).is_ok_and(|it| it[0] == 20));
            let alert = if is_wrong { 20 } else { 10 };
            if changes {
                let _gone = stream.write_all(&record(21, &[2, alert]));
            }
        });
        let report = report(BUSY, address, &[]);
        let all = report["verdicts"].as_array().unwrap().iter();
        let all: Vec<_> = all.map(|one| one["point"].as_str().unwrap()).collect();
        ["early-change", "heartbeat"].map(|point| all.contains(&point))
    };
    assert_eq!(points(true), [true, true]);
    assert_eq!(points(false), [false, false]);
}

/// Relays connections to a server, and resets each after this number of the server's bytes.
fn cutting(server: SocketAddr, after: u64) -> SocketAddr {
    relay(server, move |server, client| {
        let _gone = std::io::copy(&mut server.take(after), client);
        set_socket_linger(client, Some(Duration::ZERO))
    })
}

#[test]
fn a_connection_that_breaks_at_any_stage_is_a_finding() {
    let site = Site::new();
    let server = Server::start(Behaviour::Http("ok".into()));
    let service = Service::new(&site, &server);
    let _lariat = service.start();
    // No byte, a record's head, a cut ServerHello, and on through certificates to tickets.
    for after in [0, 1, 5, 40, 90, 200, 600, 900, 1200, 1500, 2500] {
        let node = node(BUSY, cutting(service.address, after));
        let kind = node["trouble"]["kind"].as_str().unwrap_or_default();
        // A connection that is reset at once may never have been connected for us.
        let expected = if after == 0 { &["closed", "connect"][..] } else { &["closed"] };
        assert!(after > 40 || expected.contains(&kind), "{after}: {node}");
    }
}

/// Relays connections to a server of TLS 1.2, and keeps its alerts back.
fn without_alerts(server: SocketAddr) -> SocketAddr {
    relay(server, |server, client| {
        while let Ok(record) = read_record(server) {
            if record[0] != 21 {
                let _gone = client.write_all(&record);
            }
        }
        client.shutdown(Shutdown::Write)
    })
}

#[test]
fn a_reply_that_never_ends_is_left() {
    let site = Site::new();
    let behind = serve_by_hello(|stream, request| {
        let head = "HTTP/1.1 200 OK\r\n".to_owned() + &"X-Header: x\r\n".repeat(9999);
        // Most connections of a probe bring no request.
        let mut is_wanted = !request.is_empty();
        while is_wanted {
            is_wanted = stream.write_all(head.as_bytes()).is_ok();
        }
    });
    let service = Service::new(&site, behind);
    let _lariat = service.start();
    let node = node(BUSY, service.address);
    let exchange = &node["exchange"];
    assert_eq!(exchange["reply"], "HTTP/1.1 200 OK", "{node}");
    assert_eq!(exchange["end"], "open", "{node}");
}

#[test]
fn an_end_without_close_notify_is_advice() {
    let site = Site::new();
    let reply = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok";
    let server = Server::start(Behaviour::Speak(reply.to_vec()));
    let service = Service::new(&site, &server).tls("versions = ['1.2']");
    let _lariat = service.start();
    for (address, end) in
        [(service.address, "close-notify"), (without_alerts(service.address), "truncated")]
    {
        let report = report(BUSY, address, &[]);
        assert_eq!(report["nodes"][0]["exchange"]["end"], end, "{report}");
        let verdicts = report["verdicts"].as_array().unwrap().iter();
        let said = verdicts.filter(|one| one["point"] == "no-close-notify");
        assert_eq!(said.count(), usize::from(end == "truncated"), "{report}");
    }
}

#[test]
fn certificates_that_are_none_and_a_hundred_of_them_are_seen() {
    let site = Site::new();
    // Cut, of a wrong length, nested without end, and a hundred.
    let good = site.leaf(&["localhost"]).certificate_der().to_vec();
    let nested: Vec<u8> = [0x30, 0x80].repeat(4000);
    for chain in [
        vec![good[..good.len() / 2].to_vec()],
        vec![[&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &good[4..]].concat()],
        vec![nested],
        vec![good.clone(); 100],
        vec![vec![0x30; 60_000]],
        vec![vec![0x30, 2, 2, 0]],
    ] {
        let list: Vec<u8> = chain.iter().flat_map(|one| vector(3, one)).collect();
        let report = report(BRIEF, answer(flight(&list)), &[]);
        let node = &report["nodes"][0];
        // Hand-made hellos see a version; no client gets through.
        assert_eq!(node["versions"][1]["spoken"], true, "{node}");
        let clients = node["clients"].as_array().unwrap();
        assert!(!clients.is_empty(), "{node}");
        assert!(clients.iter().all(|one| one["trouble"]["text"].is_string()), "{node}");
        let seen = &report["verdicts"][0]["seen"];
        assert_has(seen.to_string(), "no kind of client gets a handshake");
    }
    let mut chain = site.leaf(&["localhost"]).pem();
    for _ in 0..100 {
        chain += site.authority.pem();
    }
    site.write("long.pem", chain);
    let server = SServer::start(&site, "long.pem", &["-www"]);
    let node = node(BUSY, server.address);
    let certificate = &node["clients"][0]["certificate"];
    let chain = certificate["chain"].as_array().unwrap();
    assert!(chain.len() > 100, "{node}");
}

/// A library would search for a path among them for seconds.
#[test]
fn a_chain_made_to_cost_seconds_is_a_finding() {
    let site = Site::new();
    let hostile = Authority::root("x").leaf(&["localhost"]).issue_costly();
    hostile.write(&site.directory, "hostile.pem");
    let server = SServer::start(&site, "hostile.pem", &["-www"]);
    let ca = site.ca().display().to_string();
    let report = report(BUSY, server.address, &["--ca", &ca]);
    let certificate = &report["nodes"][0]["clients"][0]["certificate"];
    assert_eq!(certificate["chain_state"], "too-long", "{certificate}");
    let verdicts = report["verdicts"].as_array().unwrap();
    let broken = verdicts.iter().find(|one| one["point"] == "chain-broken");
    let words = "142 certificates were sent, and more than six of them lead on";
    assert!(broken.is_some_and(|one| one.to_string().contains(words)), "{report}");
}

/// The record fails behind the client's own close_notify.
#[test]
fn a_record_that_cannot_be_read_at_the_end_of_a_visit_is_no_trouble() {
    let site = Site::new();
    let leaf = site.leaf(&["localhost"]);
    for is_tls13 in [true, false] {
        let choice = TlsServerChoice::new(&leaf, is_tls13);
        let address = serve(move |stream| {
            let (mut server, mut chunk) = (choice.accept(), [0; 4096]);
            while server.is_handshaking() {
                let count = stream.read(&mut chunk).unwrap_or_default();
                let is_heard = server.hear(&chunk[..count], &mut Vec::new()).is_ok();
                let is_sent = stream.write_all(&server.take_wire()).is_ok();
                if count == 0 || !is_heard || !is_sent {
                    return;
                }
            }
            let _gone = stream.write_all(&record(23, &[0; 40]));
            let _end = stream.read_to_end(&mut Vec::new());
        });
        let probed = probe(BRIEF, address, &[]);
        assert!(!probed.stderr.contains("panicked"), "{}", probed.stderr);
        probed.ended(&[0]);
    }
}

/// Controls and tags that a terminal and a browser would obey.
const SPELL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J<script>alert(1)<img src=x onerror=a>";

fn assert_harmless(what: &str, text: &str) {
    let obeyed = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(obeyed), "{what}: {text:?}");
}

fn assert_harmless_page(text: &str) {
    assert_harmless("page", text);
    for tag in ["<script>alert", "<img src=x"] {
        assert!(!text.contains(tag), "{tag}: {text}");
    }
}

#[test]
fn words_of_servers_stay_words() {
    let site = Site::new();
    let leaf = site.authority.leaf(&["localhost", SPELL]);
    leaf.common_name(SPELL).issue().write(&site.directory, "evil.pem");
    let server = SServer::start(&site, "evil.pem", &["-www"]);
    let reply = format!("HTTP/1.1 200 {SPELL}\r\nConnection: close\r\n\r\n");
    let behind = Server::start(Behaviour::Speak(reply.into_bytes()));
    let service = Service::new(&site, &behind);
    let _lariat = service.start();
    let banner = serve_by_hello(|stream, _| {
        let _gone = stream.write_all(format!("554 {SPELL}\r\n").as_bytes());
    });
    let page = site.path("page.html");
    for (address, flags) in [
        (server.address, &[][..]),
        (service.address, &[]),
        (banner, &["--starttls", "smtp", "--greeting-timeout", "10ms"]),
        (banner, &[]),
    ] {
        let text = probe(BRIEF, address, flags);
        assert_harmless("text", &text.stdout);
        assert_harmless("messages", &text.stderr);
        let json = probe(BRIEF, address, &[flags, &["--json"]].concat());
        assert_harmless("JSON", &json.stdout);
        let probed = probe(BRIEF, address, &[flags, &["-o", page.to_str().unwrap()]].concat());
        probed.ended(&[0, NOT_PROBED]);
        assert_harmless_page(&fs::read_to_string(&page).unwrap());
    }
    let expect = site.write("expect.toml", "certificate.names = ['localhost']");
    let unmet = probe(BRIEF, server.address, &["--expect", expect.to_str().unwrap()]);
    assert_eq!(unmet.code(), 7, "{unmet:?}");
    assert_harmless("what is not as expected", &unmet.stderr);
    let list = site.write("sites.txt", format!("{}\n", server.address));
    let mut survey = lab::command();
    survey.arg("survey").arg(&list).arg("-o").arg(&page);
    run(&mut survey).ended(&[0, NOT_PROBED, 6]);
    assert_harmless_page(&fs::read_to_string(&page).unwrap());
}
