//! The PROXY header that a trusted peer sends: accepted, passed on, or refused.

use suite::haproxy::Haproxy;
use suite::prelude::*;
use suite::proxy_header::ProxyHeader;

fn trusting(site: &Site, server: &Server) -> Service {
    Service::new(site, server).front("accept-proxy = ['127.0.0.0/8']")
}

#[test]
fn haproxy_sends_both_versions() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = trusting(&site, &server).back("send-proxy = 'v2'");
    let lariat = service.start();
    for (count, how) in [(1, "send-proxy"), (2, "send-proxy-v2")] {
        let haproxy = Haproxy::send_proxy(service.address, how);
        assert_eq!(curl_tls(&site, haproxy.address).run().success(), "hello", "{how}");
        let seen = server.wait_for_end(count);
        let header = ProxyHeader::read(&seen.bytes).unwrap();
        let (client, front) = header.addresses.unwrap();
        assert_eq!(front, haproxy.address, "{how}: what the client had connected to");
        lariat.wait_for_line(&[&client.to_string()]);
    }
}

#[test]
fn a_header_passes_through_byte_for_byte() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = trusting(&site, &server).back("send-proxy = 'pass'");
    let _lariat = service.start();
    let haproxy = Haproxy::send_proxy(service.address, "send-proxy");
    assert_eq!(curl_tls(&site, haproxy.address).run().success(), "hello");
    let header = ProxyHeader::read(&server.wait_for_end(1).bytes).unwrap();
    assert_eq!(header.version, 1);
    assert_eq!(header.addresses.unwrap().1, haproxy.address);
}

#[test]
fn a_header_of_a_stranger_a_malformed_one_and_a_second_one_are_refused() {
    let header = &b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"[..];
    let twice = [header, header].concat();
    let malformed: [&[u8]; 4] = [
        &twice,
        b"PROXY TCP4 192.0.2.1 nonsense 1 2\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c............",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 no header before the hello",
    ];
    for (trusted, all, reason) in [
        ("192.0.2.0/24", &[header][..], "proxy-header-untrusted"),
        ("127.0.0.0/8", &malformed, "proxy-header-malformed"),
    ] {
        let front = format!("accept-proxy = ['{trusted}']");
        let (_site, _server, service, lariat) = serve_as(Behaviour::Echo, |one| one.front(&front));
        for (bytes, count) in all.iter().zip(1..) {
            let mut stream = tcp(service.address);
            stream.write_all(bytes).unwrap();
            let _closed_or_reset = stream.read_to_end(&mut Vec::new());
            drop(stream);
            lariat.wait_for_reason(reason, count);
        }
        if all.len() > 1 {
            lariat.wait_for_line(&[reason, "a second one follows"]);
        }
    }
}

/// The server takes the first bytes for the header, so that a client without one could forge it.
#[test]
fn where_headers_are_passed_on_a_client_that_may_send_none_reaches_no_server() {
    let (site, server, service, lariat) = serve_as(Behaviour::Swallow, |service| {
        service.front("accept-proxy = ['192.0.2.0/24']").back("send-proxy = 'pass'")
    });
    assert!(Client::new(&site).try_connect(service.address).is_err());
    lariat.wait_for_reason("proxy-header-missing", 1);
    assert!(server.connections().is_empty());
}
