//! Bytes that a server sends without a pause are passed to the client by the kernel.

use suite::kernel::{Bench, pattern};
use suite::nginx::Nginx;
use suite::prelude::*;

/// Long enough to be handed over.
const LONG: usize = 8 << 20;

#[test]
fn an_end_passes_and_the_other_direction_goes_on() {
    let server = Server::start(Behaviour::Speak(pattern(LONG)));
    let bench = Bench::relay(&server, |service| service);
    for (count, client) in [1, 2].into_iter().zip(Client::of_each_version(&bench.site)) {
        let mut connection = client.connect(bench.service.address);
        let got = connection.read_to_end().unwrap();
        assert!(got == pattern(LONG), "all of it, then close_notify");
        connection.send(b"but wait");
        connection.end();
        let seen = server.wait_for_end(count);
        assert_eq!((seen.bytes.as_slice(), seen.failed), (&b"but wait"[..], false));
    }
    bench.lariat.wait_for_reason("backend-closed", 2);
    bench.wait_for_end_of(2);
    assert!(bench.sent("splice") > LONG as f64);
}

#[test]
fn a_client_that_reads_late_gets_all_and_the_end() {
    // More than the queues of both connections hold.
    let body = pattern(4 * LONG);
    let server = Server::start(Behaviour::Speak(body.clone()));
    let bench = Bench::relay(&server, |service| service);
    for (count, client) in [1, 2].into_iter().zip(Client::of_each_version(&bench.site)) {
        let mut connection = client.connect(bench.service.address);
        bench.wait_for_taken(count);
        assert!(connection.read_to_end().unwrap() == body);
    }
    bench.wait_for_end_of(2);
}

#[test]
fn an_answer_comes_after_the_clients_end() {
    let server = Server::start(Behaviour::ReplyAfterEnd(pattern(LONG)));
    let bench = Bench::relay(&server, |service| service);
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        connection.send(b"question");
        connection.end();
        assert!(connection.read_to_end().unwrap() == pattern(LONG));
    }
    bench.lariat.wait_for_reason("client-closed", 2);
    bench.wait_for_end_of(2);
}

#[test]
fn uploads_flow_while_the_kernel_sends() {
    let server = Server::start(Behaviour::Greet(pattern(LONG)));
    let bench = Bench::relay(&server, |service| service);
    let upload = pattern(4 << 20);
    for (count, client) in [1, 2].into_iter().zip(Client::of_each_version(&bench.site)) {
        let mut connection = client.connect(bench.service.address);
        let mut got = Vec::new();
        for piece in upload.chunks(64 << 10) {
            connection.send(piece);
            got.extend(connection.receive(128 << 10));
        }
        connection.end();
        connection.read_on(&mut got).unwrap();
        assert!(got == [pattern(LONG), upload.clone()].concat());
        assert!(server.wait_for_end(count).bytes == upload);
    }
    bench.wait_for_end_of(2);
}

#[test]
fn small_exchanges_are_ours_however_many() {
    let server = Server::start(Behaviour::Echo);
    let bench = Bench::relay(&server, |service| service);
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        for _ in 0..200 {
            connection.send(&[7; 5000]);
            assert_eq!(connection.receive(5000), [7; 5000]);
        }
    }
    bench.wait_for_end_of(0);
    assert_eq!(bench.sent("user-space"), 2.0 * 200.0 * 5000.0);
}

/// Starts a server that sends this many bytes and closes with a byte unread, which resets.
fn resetting_server(sends: usize) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 1]).unwrap();
            assert_eq!(stream.peek(&mut [0]).unwrap(), 1, "more is unread");
            stream.write_all(&pattern(sends)).unwrap();
        }
    };
    (address, thread::spawn(serve))
}

#[test]
fn a_servers_reset_is_no_clean_end() {
    let (server, resetting) = resetting_server(LONG);
    let bench = Bench::relay(server, |service| service);
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        connection.send(b"xx");
        let mut got = Vec::new();
        connection.read_to_cut(&mut got);
        // Bytes not yet read when the reset comes are lost, as on any connection.
        assert!(got == pattern(LONG)[..got.len()], "nothing but a beginning");
    }
    resetting.join().unwrap();
    bench.lariat.wait_for_reason("backend-reset", 2);
    bench.wait_for_end_of(2);
}

/// nginx as the client lets the kernel encrypt, and with TLS 1.2 also decrypt.
#[test]
fn nginx_with_the_kernels_tls_gets_the_same_bytes() {
    let server = Server::start(Behaviour::Http(pattern(LONG)));
    let bench = Bench::relay(&server, |service| service);
    for (count, protocol) in [(1, "TLSv1.2"), (2, "TLSv1.3")] {
        let directives =
            format!("proxy_ssl_protocols {protocol}; proxy_ssl_conf_command Options KTLS;");
        let nginx = Nginx::forward(bench.service.address, &bench.site.ca(), &directives);
        let got = curl().url(&format!("http://{}/", nginx.address)).bytes();
        assert!(got == pattern(LONG), "{protocol}");
        assert_eq!(bench.counts().taken, 2 * count, "nginx's and ours");
    }
    let taken = "lariat_ktls_connections_total";
    assert_eq!(bench.lariat.sum(taken, &[]), 2.0);
}
