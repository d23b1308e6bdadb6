//! Every fault of a server has a reason of its own in the record, and the load goes on.

use std::io;

use suite::lab::command;
use suite::load::{Loaded, Record};
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::scripted::{read_record, relay};

const SUCCESS: i32 = 0;
const FRUITLESS: i32 = 4;

/// Runs six transactions of two clients.
fn six(address: SocketAddr, flags: &str) -> Loaded {
    Load::of(address).args("--count 6").args(flags).run()
}

/// Returns the only reason for which all six failed.
fn reason(address: SocketAddr, flags: &str) -> String {
    let loaded = six(address, flags);
    assert_eq!(loaded.finished.code(), FRUITLESS, "{:?}", loaded.finished);
    let record = loaded.record();
    assert_eq!(record.totals(), [6, 0, 6], "{record:?}");
    assert_eq!(record.at("/ending"), "completed");
    let reason = record.reason();
    // The summary shows the reason too.
    assert!(loaded.finished.stdout.contains(&reason), "{loaded:?}");
    reason
}

fn address_of(server: &Server) -> SocketAddr {
    server.address().parse().unwrap()
}

#[test]
fn shakes_no_hands() {
    assert_eq!(reason(free_address(), ""), "connect-refused");
    let http = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    for (behaviour, flags, wanted) in [
        (Behaviour::Reset, "", "handshake-reset"),
        (Behaviour::Speak(Vec::new()), "", "handshake-closed"),
        (Behaviour::Hang, "--timeout 100ms", "handshake-timeout"),
        (Behaviour::Swallow, "--timeout 100ms", "handshake-timeout"),
        (Behaviour::Greet(b"220 mail.example ESMTP\r\n".to_vec()), "", "not-tls"),
        (Behaviour::Greet(http.to_vec()), "", "not-tls"),
        (Behaviour::Greet(vec![0; 64]), "", "not-tls"),
    ] {
        let server = Server::start(behaviour.clone());
        assert_eq!(reason(address_of(&server), flags), wanted, "{behaviour:?}");
    }
}

#[test]
fn gives_no_whole_answer() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort".to_vec();
    for (behaviour, flags, wanted) in [
        (Behaviour::Swallow, "--timeout 1s", "reply-timeout"),
        (Behaviour::Echo, "", "reply-malformed"),
        (Behaviour::Speak(cut), "", "reply-closed"),
    ] {
        let (_site, _server, service, _lariat) = serve(behaviour);
        assert_eq!(reason(service.address, flags), wanted);
    }
}

#[test]
fn nobody_accepts() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The queue takes one connection or two; the kernel answers no others, and nobody accepts.
    rustix::net::listen(&listener, 0).unwrap();
    let load = Load::alone(listener.local_addr().unwrap())
        .args("--connections 6 --count 6 --timeout 200ms")
        .run();
    assert_eq!(load.finished.code(), FRUITLESS, "{:?}", load.finished);
    let failures = load.record().failures();
    let [dialled, shaken] = ["connect-timeout", "handshake-timeout"]
        .map(|reason| failures.get(reason).copied().unwrap_or_default());
    assert_eq!(dialled + shaken, 6, "{failures:?}");
    assert!(dialled >= 3 && shaken >= 1, "{failures:?}");
}

#[test]
fn our_own_host_has_no_descriptor() {
    let server = Server::start(Behaviour::Swallow);
    let mut shell = Command::new("sh");
    // The load raises its limit as far as it may.
    shell.args(["-c", "ulimit -n 24; exec \"$0\" \"$@\""]);
    shell.arg(command().get_program());
    let url = format!("https://{}/", server.address());
    let load = Load::by(shell)
        .arg(url)
        .args("--connections 40 --count 40 --timeout 300ms --threads 1 --cpus none")
        .run();
    let record = load.record();
    let failures = record.failures();
    assert!(failures["no-descriptor"] >= 16, "{failures:?}");
    assert!(failures["handshake-timeout"] >= 4, "{failures:?}");
    assert!(record.at("/warnings").to_string().contains("ulimit -n"));
}

#[test]
fn answers_with_an_error() {
    let site = Site::new();
    let nginx = Nginx::terminate(
        &site.path("site.pem"),
        "error_page 405 =503 @out; limit_rate 0; location = /out { return 503; }",
    );
    let url = format!("https://localhost:{}/out", nginx.address.port());
    let record = Load::bare().arg(url).args("--threads 1 --connections 2 --count 6").run().record();
    assert_eq!(record.failures()["status-503"], 6);
}

/// Starts a relay that breaks the server's first record of that type.
fn breaks_records(server: SocketAddr, record_type: u8, change: fn(&mut Vec<u8>)) -> SocketAddr {
    relay(server, move |server, client| -> io::Result<()> {
        let mut is_broken = false;
        loop {
            let mut record = read_record(server)?;
            if record[0] == record_type && !is_broken {
                is_broken = true;
                change(&mut record);
            }
            client.write_all(&record)?;
        }
    })
}

#[test]
fn breaks_the_record_layer() {
    const HANDSHAKE: u8 = 22;
    const APPLICATION_DATA: u8 = 23;
    let site = Site::new();
    let nginx = Nginx::terminate(&site.path("site.pem"), "ssl_protocols TLSv1.2 TLSv1.3;");
    let flip: fn(&mut Vec<u8>) = |record| *record.last_mut().unwrap() ^= 1;
    let lengthen: fn(&mut Vec<u8>) = |record| record[3] = 0xff;
    for (version, record_type, change, wanted) in [
        // The first encrypted flight, and the reply.
        ("1.3", APPLICATION_DATA, flip, "bad-record"),
        ("1.2", APPLICATION_DATA, flip, "bad-record"),
        // Longer than any record may be (RFC 8446, section 5.2).
        ("1.2", APPLICATION_DATA, lengthen, "bad-record"),
        // Earlier records were TLS: the server's hello is no hello.
        ("1.2", HANDSHAKE, |record| record[5] = 99, "protocol-violation"),
    ] {
        let address = breaks_records(nginx.address, record_type, change);
        let reason = reason(address, &format!("--tls {version}"));
        assert_eq!(reason, wanted, "{version} {record_type}");
    }
}

/// Starts nginx with a certificate for `localhost` that was issued like this.
fn nginx_with(site: &Site, certificate: PathBuf) -> Nginx {
    assert!(fs::exists(&certificate).unwrap(), "{site:?}");
    Nginx::terminate(&certificate, "")
}

#[test]
fn shows_a_certificate_that_does_not_hold() {
    let site = Site::new();
    let directory = &site.directory;
    let expired = site.authority.leaf(&["localhost"]).expired().issue();
    let foreign = Authority::root("another").leaf(&["localhost"]).issue();
    let hostile = Authority::root("x").leaf(&["localhost"]).issue_costly();
    let good = nginx_with(&site, site.path("site.pem"));
    let hostile = nginx_with(&site, hostile.write(directory, "hostile.pem"));
    let expired = nginx_with(&site, expired.write(directory, "expired.pem"));
    let foreign = nginx_with(&site, foreign.write(directory, "foreign.pem"));
    let ca = site.ca();
    let trusting = format!("--ca {}", ca.display());
    let elsewhere = format!("{trusting} --server-name elsewhere.example");
    for (nginx, flags, wanted) in [
        (&good, &elsewhere, "certificate-name"),
        (&expired, &trusting, "certificate-time"),
        (&foreign, &trusting, "certificate-issuer"),
        (&hostile, &trusting, "certificate-chain"),
    ] {
        assert_eq!(reason(nginx.address, flags), wanted);
        // A client that does not ask does not care.
        assert_eq!(six(nginx.address, "").record().totals(), [6, 6, 0]);
    }
    assert_eq!(six(good.address, &trusting).record().totals(), [6, 6, 0]);
}

#[test]
fn refuses_with_an_alert() {
    let site = Site::new();
    let nginx = Nginx::terminate(&site.path("site.pem"), "ssl_protocols TLSv1.2;");
    assert_eq!(reason(nginx.address, "--tls 1.3"), "alert-protocol_version");
}

/// Runs six transactions of two clients; only the first of each succeeds, resuming nothing.
fn unresumed(address: SocketAddr, handshake: &str) -> Record {
    let loaded = six(address, &format!("--handshake {handshake}"));
    assert_eq!(loaded.finished.code(), SUCCESS, "{:?}", loaded.finished);
    let record = loaded.record();
    assert_eq!(record.totals(), [6, 2, 4], "{handshake}: {record:?}");
    assert_eq!(record.kinds(), [6, 0, 0, 0], "{handshake}");
    record
}

#[test]
fn offers_no_resumption() {
    let site = Site::new();
    let nginx = Nginx::terminate(
        &site.path("site.pem"),
        "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache off; ssl_session_tickets off;",
    );
    for (handshake, wanted) in [
        ("session-id", "resumption-not-offered"),
        ("ticket", "resumption-not-offered"),
        // Without stateless tickets OpenSSL sends tickets that it must look up, even if it has no
        // cache for them (RFC 8446, section 4.6.1, allows both).
        ("psk", "resumption-declined"),
    ] {
        let reason = unresumed(nginx.address, handshake).reason();
        assert_eq!(reason, wanted, "{handshake}");
    }
    let server = Server::start(http());
    let service = Service::new(&site, &server).tls("resumption = false");
    let _lariat = service.start();
    for handshake in ["session-id", "ticket", "psk"] {
        let reason = unresumed(service.address, handshake).reason();
        assert_eq!(reason, "resumption-not-offered", "{handshake}");
    }
}

#[test]
fn offers_sessions_and_forgets_them() {
    let site = Site::new();
    // nginx's default: it sends ids, for the sake of compatibility, and keeps no session.
    let nginx = Nginx::terminate(&site.path("site.pem"), "ssl_session_cache none;");
    let record = unresumed(nginx.address, "session-id");
    assert_eq!(record.reason(), "resumption-declined");
}

#[test]
fn dies_and_comes_back() {
    let site = Site::new();
    let (address, certificate) = (free_address(), site.path("site.pem"));
    let versions = "ssl_protocols TLSv1.2 TLSv1.3;";
    let start = || Nginx::terminate_at(address, &certificate, "", versions);
    let nginx = start();
    let mut load =
        Load::alone(address).args("--rate 50 --duration 1h --clients 10 --handshake psk").start();
    let resumed = |nginx: &Nginx| {
        let log = nginx.log();
        let lines = log.iter().filter(|line| line.field("session_reused") == "r");
        (lines.count() >= 10).then_some(())
    };
    until("resumed sessions", || resumed(&nginx));
    // Killed: its connections break, and nobody listens.
    drop(nginx);
    until_true("failures in the line of a second", || {
        load.assert_running();
        load.stderr().contains("connect-refused")
    });
    let nginx = start();
    until("resumed sessions again", || resumed(&nginx));
    load.signal(Signal::INT);
    let loaded = load.wait();
    assert_eq!(loaded.finished.code(), SUCCESS, "{:?}", loaded.finished);
    let record = loaded.record();
    let (succeeded, failed) = (record.seconds("succeeded"), record.seconds("failed"));
    let first_failure = failed.iter().position(|count| *count > 0).unwrap();
    let last_success = succeeded.iter().rposition(|count| *count > 0).unwrap();
    assert!(succeeded[..=first_failure].iter().sum::<u64>() > 9);
    assert!(last_success >= first_failure, "{record:?}");
    assert!(record.totals()[1] >= 20, "{record:?}");
    let failures = record.failures();
    assert!(failures["connect-refused"] > 0, "{failures:?}");
    // Sessions went with the connections that offered them: the server owes none for these. The
    // others were forgotten, once each.
    assert!(!failures.contains_key("resumption-not-offered"), "{failures:?}");
    let declined = failures.get("resumption-declined");
    assert!(declined.is_none_or(|count| *count <= 10), "{failures:?}");
}
