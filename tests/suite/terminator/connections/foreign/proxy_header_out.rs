//! The PROXY header that servers get, as read by haproxy, by nginx and by our own reader.

use suite::haproxy::Haproxy;
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::proxy_header::ProxyHeader;

/// Returns an HTTP server's answer through lariat, which sends this kind of header.
fn answer_through(address: SocketAddr, send_proxy: &str) -> String {
    let site = Site::new();
    let service = Service::new(&site, address).back(&format!("send-proxy = {send_proxy}"));
    let _lariat = service.start();
    let curl = curl_tls(&site, service.address);
    let port = service.address.port();
    curl.run().success().replace(&port.to_string(), "FRONT").trim().to_owned()
}

#[test]
fn nginx_reads_versions_1_and_2() {
    let nginx = Nginx::start("proxy_protocol", "$proxy_protocol_addr $proxy_protocol_server_port");
    assert_eq!(answer_through(nginx.address, "'v1'"), "127.0.0.1 FRONT");
    assert_eq!(answer_through(nginx.address, "'v2'"), "127.0.0.1 FRONT");
}

#[test]
fn haproxy_reads_version_2_with_authority_and_unique_id() {
    let body = "%[src] %[dst_port] %[fc_pp_authority] %[fc_pp_unique_id,length]";
    let haproxy = Haproxy::receive_proxy(body);
    let answer = answer_through(haproxy.address, "{ version = 'v2', unique-id = true }");
    let words: Vec<&str> = answer.split(' ').collect();
    assert_eq!(words[..3], ["127.0.0.1", "FRONT", "localhost"], "{answer}");
    assert!(words[3].parse::<u32>().is_ok_and(|length| length > 0), "{answer}");
}

#[test]
fn version_2_carries_tls_alpn_checksum_and_the_client_certificate() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Swallow));
    let ca = site.ca();
    let member = site.authority.client("member");
    let service = Service::new(&site, &server)
        .tls(&format!("client-certificates = {{ mode = 'optional', ca = [{ca:?}] }}"))
        .back("send-proxy = { version = 'v2', crc32c = true, client-certificate = 'der' }");
    let _lariat = service.start();
    let mut connection = Client::showing(&site, &member).connect(service.address);
    let client = connection.socket().local_addr().unwrap();
    connection.send(b"after");
    connection.end();
    let header = ProxyHeader::read(&server.wait_for_end(1).bytes).unwrap();
    assert_eq!(header.addresses, Some((client, service.address)));
    assert_eq!(header.rest, b"after");
    assert!(header.checksum_is_right());
    assert_eq!(header.tlv(0x02), Some(&b"localhost"[..]), "PP2_TYPE_AUTHORITY");
    assert_eq!(header.tlv(0xe0), Some(member.certificate_der()), "the client's certificate");
    let ssl = header.ssl();
    assert_eq!((ssl.client, ssl.verify), (0b111, 0));
    assert_eq!(ssl.text(0x21).as_deref(), Some("TLSv1.3"), "PP2_SUBTYPE_SSL_VERSION");
    assert_eq!(ssl.text(0x22).as_deref(), Some("member"), "PP2_SUBTYPE_SSL_CN");
    assert!(ssl.text(0x23).is_some_and(|suite| suite.contains("TLS_")), "PP2_SUBTYPE_SSL_CIPHER");
    assert!(ssl.text(0x24).is_some(), "PP2_SUBTYPE_SSL_SIG_ALG");
    assert!(ssl.text(0x25).is_some(), "PP2_SUBTYPE_SSL_KEY_ALG");
}

/// One client has one fingerprint, whatever it asks for, and another client has another.
#[test]
fn servers_and_the_log_are_told_the_fingerprint_of_the_client() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Swallow));
    let service = Service::new(&site, &server)
        .front("ja4 = true")
        .back("send-proxy = { version = 'v2', ja4 = true }");
    let lariat = Lariat::start(&service.toml());
    let fingerprint = |number: usize, options: &[&str]| {
        drop(s_client(&site, service.address, options));
        let header = ProxyHeader::read(&server.wait_for_end(number).bytes).unwrap();
        String::from_utf8(header.tlv(0xe2).expect("the fingerprint").to_vec()).unwrap()
    };
    let first = fingerprint(1, &["-servername", "localhost"]);
    assert_eq!(first, fingerprint(2, &["-servername", "other.example"]));
    let other = fingerprint(3, &["-servername", "localhost", "-tls1_2", "-alpn", "h2"]);
    assert!(first.starts_with("t13d") && first.len() == 36, "{first}");
    assert!(other.starts_with("t12d") && other.contains("h2_"), "{other}");
    for one in [first, other] {
        lariat.wait_for_line(&[&format!("\"ja4\":\"{one}\"")]);
    }
}
