//! Invalid TLS gets the right alert or close, one reason, and touches nobody else.

use suite::prelude::*;

struct Wall {
    site: Site,
    service: Service,
    lariat: Lariat,
    server: Server,
}

fn wall(more: &str) -> Wall {
    let (site, server, service, lariat) = serve_as(http(), |service| service.more(more));
    Wall { site, service, lariat, server }
}

/// Returns the answer to these bytes, to the end of the stream or its reset.
fn throw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = tcp(address);
    let _closed_early = stream.write_all(bytes);
    let mut answer = Vec::new();
    let end = stream.read_to_end(&mut answer);
    assert!(!end.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "no close");
    answer
}

/// Reports whether the answer is a fatal alert record with this description.
fn is_alert(answer: &[u8], description: u8) -> bool {
    matches!(answer, [0x15, 3, _, 0, 2, 2, what] if *what == description)
}

/// Makes a handshake record that holds a ClientHello of this version without extensions.
fn hello(version: u8) -> Vec<u8> {
    let mut body = vec![3, version];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    let length = body.len() as u8;
    let mut record = vec![0x16, 3, version.min(1), 0, length + 4, 1, 0, 0, length];
    record.extend(body);
    record
}

#[test]
fn each_kind_of_rubbish_has_its_reason() {
    let wall = wall("");
    let cut = &hello(3)[..30];
    let rubbish: &[(&str, &[u8], Option<u8>)] = &[
        ("plain-http", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", None),
        ("not-tls", b"SSH-2.0-OpenSSH_9.2\r\n", None),
        ("version-too-old", &hello(0), Some(70)),
        ("version-too-old", &hello(1), Some(70)),
        ("version-too-old", &hello(2), Some(70)),
        ("version-too-old", b"\x80\x2e\x01\0\x02\0\x15\0\0\0\x10\x07\0\xc0\x03", None),
        ("hello-malformed", b"\x16\x03\x01\0\x05\x01\0\0\x01\x03", Some(50)),
        ("hello-too-large", b"\x16\x03\x01\x40\0\x01\xff\xff\xff", None),
    ];
    for (reason, bytes, alert) in rubbish {
        let before = wall.lariat.sum(ENDED, &[("reason", reason)]);
        let answer = throw(wall.service.address, bytes);
        if let Some(alert) = alert {
            assert!(is_alert(&answer, *alert), "{reason}: {answer:?}");
        }
        wall.lariat.wait_for_metric(ENDED, &[("reason", reason)], before + 1.0);
    }
    let mut leaver = TcpStream::connect(wall.service.address).unwrap();
    leaver.write_all(cut).unwrap();
    drop(leaver);
    wall.lariat.wait_for_reason("client-disconnected", 1);
    assert_eq!(wall.server.connections().len(), 0, "nobody was dialled for any of them");
    assert_eq!(curl_tls(&wall.site, wall.service.address).run().success(), "hello");
}

const ENDED: &str = "lariat_connections_ended_total";

#[test]
fn a_slow_client_is_ended_by_the_handshake_limit() {
    let wall = wall("timeouts = { handshake = '200ms' }");
    let mut slow = TcpStream::connect(wall.service.address).unwrap();
    slow.write_all(&hello(3)[..10]).unwrap();
    wall.lariat.wait_for_reason("handshake-timeout", 1);
    let _closed_or_reset = slow.read_to_end(&mut Vec::new());
}

#[test]
fn a_silent_connection_is_ended_by_the_idle_limit() {
    let wall = wall("timeouts = { idle = '200ms' }");
    let mut silent = Client::new(&wall.site).connect(wall.service.address);
    let _ended = silent.read_to_end();
    drop(silent);
    wall.lariat.wait_for_reason("idle-timeout", 1);
}

#[test]
fn each_cut_of_a_hello_is_survived() {
    let wall = wall("");
    let hello = hello(3);
    for length in 0..hello.len() {
        let mut stream = TcpStream::connect(wall.service.address).unwrap();
        stream.write_all(&hello[..length]).unwrap();
    }
    let count = hello.len() as f64;
    wall.lariat.wait_for_metric(ENDED, &[], count);
    assert_eq!(curl_tls(&wall.site, wall.service.address).run().success(), "hello");
}
