//! Bytes that are relayed as they come: plain TCP, and TLS that is passed through.

use suite::prelude::*;
use suite::process::status_line;
use suite::proxy_header::ProxyHeader;
use suite::scripted::{self, hello, names, vector};

fn serve_plain(behaviour: Behaviour, front: &str) -> (Server, SocketAddr, Lariat) {
    let (_site, server, service, lariat) =
        serve_as(behaviour, |service| service.mode("off").front(front));
    (server, service.address, lariat)
}

#[test]
fn plain_tcp_is_relayed_both_ways_and_logged_without_tls() {
    let (_server, address, lariat) = serve_plain(Behaviour::Echo, "");
    let mut stream = tcp(address);
    let bytes: Vec<u8> = (0..3_000_000u32).map(|number| number as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let expected = bytes.clone();
    let sending = thread::spawn(move || {
        writer.write_all(&bytes).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    sending.join().unwrap();
    assert!(got == expected, "{} bytes", got.len());
    let line = lariat.wait_for_line(&["client-closed"]);
    assert_eq!(line["bytes_up"], 3_000_000);
    assert_eq!(line["bytes_down"], 3_000_000);
    for field in ["version", "suite", "handshake", "sni"] {
        assert!(line[field].is_null(), "{line}");
    }
}

#[test]
fn a_plain_server_may_speak_before_its_client() {
    let (_server, address, lariat) = serve_plain(Behaviour::Greet(b"220 ready".to_vec()), "");
    let mut stream = tcp(address);
    let mut greeting = [0; 9];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"220 ready");
    drop(stream);
    lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    lariat.wait_for_metric("lariat_handshakes_in_progress", &[], 0.0);
}

#[test]
fn bulk_of_a_plain_server_goes_past_our_buffers() {
    static BODY: [u8; 8 << 20] = [b'b'; 8 << 20];
    let (_server, address, lariat) = serve_plain(Behaviour::Speak(BODY.to_vec()), "");
    let mut got = Vec::new();
    tcp(address).read_to_end(&mut got).unwrap();
    assert!(got == BODY, "{} bytes", got.len());
    let labels = [("path", "splice")];
    lariat.wait_for_reason("backend-closed", 1);
    let spliced = lariat.sum("lariat_sent_bytes_total", &labels);
    assert!(spliced > 0.0, "none was spliced");
}

#[test]
fn a_reset_of_either_side_is_a_reset_for_the_other() {
    let (_server, address, lariat) = serve_plain(Behaviour::Reset, "");
    let mut stream = tcp(address);
    stream.write_all(b"x").unwrap();
    let end = stream.read(&mut [0]).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    lariat.wait_for_reason("backend-reset", 1);
}

#[test]
fn a_plain_client_behind_a_proxy_header_is_admitted_first() {
    let front = "accept-proxy = ['127.0.0.0/8']\ndeny = ['192.0.2.0/24']";
    let (server, address, lariat) = serve_plain(Behaviour::Echo, front);
    let mut stream = tcp(address);
    stream.write_all(b"PROXY TCP4 198.51.100.7 198.51.100.8 1 2\r\nhello").unwrap();
    let mut echo = [0; 5];
    stream.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"hello");
    drop(stream);
    let mut denied = tcp(address);
    denied.write_all(b"PROXY TCP4 192.0.2.7 198.51.100.8 1 2\r\nhello").unwrap();
    denied.read(&mut [0]).unwrap_err();
    lariat.wait_for_reason("source-denied", 1);
    assert_eq!(server.connections().len(), 1);
    lariat.wait_for_line(&["198.51.100.7", "client-closed"]);
}

#[test]
fn a_passthrough_server_that_is_down_is_a_reset_with_its_reason() {
    let site = Site::new();
    let service = Service::new(&site, free_address()).mode("passthrough");
    let lariat = service.start();
    let error = Client::new(&site).try_connect(service.address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    let line = lariat.wait_for_line(&["backend-refused"]);
    assert_eq!(line["sni"], "localhost");
    assert!(line["suite"].is_null(), "{line}");
}

#[test]
fn a_passthrough_server_gets_name_and_protocol_and_the_hello_as_it_came() {
    let (_site, server, service, _lariat) = serve_as(Behaviour::Swallow, |service| {
        service.mode("passthrough").back("send-proxy = 'v2'")
    });
    for (count, (offered, told)) in (1..).zip([
        (&[][..], None),
        (&["postgresql"], Some(&b"postgresql"[..])),
        // The server's choice among them is not known.
        (&["h2", "http/1.1"], None),
    ]) {
        let mut stream = tcp(service.address);
        let hello = hello(&names(&[b"localhost"]), &offering(offered));
        // Every byte in a segment of its own, as far as the kernel allows.
        stream.set_nodelay(true).unwrap();
        for byte in &hello {
            stream.write_all(&[*byte]).unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        let seen = server.wait_for_end(count);
        let header = ProxyHeader::read(&seen.bytes).unwrap();
        assert_eq!(header.rest, hello);
        assert_eq!(header.tlv(0x02), Some(&b"localhost"[..]));
        assert_eq!(header.tlv(0x01), told, "{offered:?}");
        assert_eq!(header.tlv(0x20), None, "nothing is known of its TLS");
    }
}

/// Makes an extension that offers these application protocols; without any, no extension.
fn offering(protocols: &[&str]) -> Vec<u8> {
    let each = |name: &&str| [&[name.len() as u8][..], name.as_bytes()].concat();
    let list: Vec<u8> = protocols.iter().flat_map(each).collect();
    if list.is_empty() { list } else { [&[0, 16][..], &vector(&vector(&list))].concat() }
}

#[test]
fn what_a_plain_client_sends_with_its_proxy_header_and_its_end_is_relayed() {
    let front = "accept-proxy = ['127.0.0.0/8']";
    let (server, address, _lariat) = serve_plain(Behaviour::Echo, front);
    // Header, data and end are there when the connection is accepted, or come in one read.
    for _ in 0..20 {
        let mut stream = tcp(address);
        rustix::net::sockopt::set_tcp_cork(&stream, true).unwrap();
        stream.write_all(b"PROXY TCP4 198.51.100.7 198.51.100.8 1 2\r\nhello").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut echo = Vec::new();
        stream.read_to_end(&mut echo).unwrap();
        assert_eq!(echo, b"hello");
    }
    assert_eq!(server.connections().len(), 20);
}

#[test]
fn urgent_data_holds_up_nothing_that_is_behind_it() {
    let (_server, address, lariat) = serve_plain(Behaviour::Echo, "");
    let mut stream = tcp(address);
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    let worker_process = lariat.worker_process();
    kill_process(worker_process, Signal::STOP).unwrap();
    until("it to stop", || status_line(worker_process, "State").starts_with('T').then_some(()));
    stream.write_all(b"before").unwrap();
    rustix::net::send(&stream, b"!", rustix::net::SendFlags::OOB).unwrap();
    stream.write_all(b"behind").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    kill_process(worker_process, Signal::CONT).unwrap();
    let mut echo = Vec::new();
    stream.read_to_end(&mut echo).unwrap();
    assert_eq!(echo, b"beforebehind");
}

#[test]
fn a_header_of_a_client_that_may_send_none_ends_the_connection() {
    let front = "accept-proxy = ['192.0.2.0/24']";
    let (server, address, lariat) = serve_plain(Behaviour::Echo, front);
    let mut plain = tcp(address);
    for piece in ["P", "RO is no header"] {
        plain.write_all(piece.as_bytes()).unwrap();
    }
    let mut echo = [0; 16];
    plain.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"PRO is no header");
    let mut short = tcp(address);
    short.write_all(b"PROX").unwrap();
    short.shutdown(Shutdown::Write).unwrap();
    let mut echo = Vec::new();
    short.read_to_end(&mut echo).unwrap();
    assert_eq!(echo, b"PROX");
    for pieces in [["PROXY ", "TCP4 198.51.100.7 198.51.100.8 1 2\r\n"], ["PRO", "XY T"]] {
        let mut forger = tcp(address);
        for piece in pieces {
            // The first may have ended it.
            let _reset = forger.write_all(piece.as_bytes());
        }
        // A write that failed by the reset leaves the end to the read.
        assert!(matches!(forger.read(&mut [0]), Ok(0) | Err(_)));
    }
    lariat.wait_for_reason("proxy-header-untrusted", 2);
    let heard = server.connections();
    assert!(heard.iter().all(|one| !one.bytes.starts_with(b"PROXY")));
}

#[test]
fn what_a_plain_server_sends_behind_urgent_data_is_relayed_by_the_kernel_or_us() {
    static BODY: [u8; 4 << 20] = [b'b'; 4 << 20];
    let server = scripted::serve(|stream| {
        stream.write_all(&BODY).unwrap();
        rustix::net::send(&*stream, b"!", rustix::net::SendFlags::OOB).unwrap();
        stream.write_all(b"behind").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let _end = stream.read(&mut [0]);
    });
    let service = Service::new(&Site::new(), server).mode("off");
    let lariat = service.start();
    let mut got = Vec::new();
    tcp(service.address).read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), BODY.len() + 6);
    assert!(got.ends_with(b"behind"));
    lariat.wait_for_reason("backend-closed", 1);
    let spliced = lariat.sum("lariat_sent_bytes_total", &[("path", "splice")]);
    assert!(spliced > 0.0, "none was spliced");
}
