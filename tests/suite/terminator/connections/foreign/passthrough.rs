//! TLS that is passed through, between real clients and real servers.

use rustls::NamedGroup;
use suite::haproxy::Haproxy;
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::stunnel::Stunnel;

fn passing(site: &Site, server: SocketAddr, back: &str) -> Service {
    Service::new(site, server).mode("passthrough").back(back)
}

#[test]
fn curl_and_openssl_reach_the_tls_of_nginx_and_haproxy() {
    let site = Site::new();
    let nginx = Nginx::terminate(&site.path("site.pem"), "ssl_protocols TLSv1.2 TLSv1.3;");
    let haproxy = Haproxy::terminate(&site.path("site.pem"), "");
    for server in [nginx.address, haproxy.address] {
        let service = passing(&site, server, "");
        let lariat = service.start();
        assert_eq!(curl_tls(&site, service.address).run().success(), "ok");
        for version in ["-tls1_2", "-tls1_3"] {
            let arguments = [version, "-verify_return_error", "-servername", "localhost"];
            let finished = s_client(&site, service.address, &arguments);
            assert!(finished.status.success(), "{}", finished.stderr);
        }
        let line = lariat.wait_for_line(&["localhost"]);
        assert!(line["suite"].is_null(), "{line}");
    }
}

#[test]
fn a_proxy_header_before_closed_tls_tells_nginx_the_client() {
    let site = Site::new();
    let address = free_address();
    let nginx = Nginx::terminate_at(address, &site.path("site.pem"), "proxy_protocol", "");
    let service = passing(&site, nginx.address, "send-proxy = 'v2'");
    let _lariat = service.start();
    assert_eq!(curl_tls(&site, service.address).run().success(), "ok");
    let lines = nginx.end();
    assert_eq!(lines[0].field("proxy_protocol_addr"), "127.0.0.1");
    assert_eq!(lines[0].field("server_name"), "localhost");
}

/// Hellos and handshakes that are long or odd come through unchanged.
#[test]
fn odd_handshakes_come_through_to_openssl() {
    let site = Site::new();
    let own = site.authority.client("visitor").write(&site.directory, "own.pem");
    let (ca, own) = (site.ca().display().to_string(), own.display().to_string());
    let asks = ["-Verify", "1", "-verify_return_error", "-CAfile", &ca];
    for (server, client, said) in [
        // A second hello (RFC 8446, 4.1.4).
        (
            &["-tls1_3", "-groups", "P-384"][..],
            &["-groups", "X25519:P-384"][..],
            "ECDH, secp384r1, 384 bits",
        ),
        (&asks, &["-cert", &own, "-tls1_2"], "Verification: OK"),
        (&asks, &["-cert", &own, "-tls1_3"], "Verification: OK"),
        // The server's answer shows that the name was for it.
        (
            &["-servername", "other.example", "-cert2", &own, "-key2", &own],
            &["-servername", "other.example"],
            "CN = visitor",
        ),
    ] {
        let server = SServer::start(&site, "site.pem", &[&["-www"], server].concat());
        let service = passing(&site, server.address, "");
        let _lariat = service.start();
        let finished = s_client(&site, service.address, client);
        finished.assert_stdout(said);
    }
}

/// The client's share of X25519MLKEM768 makes its hello longer than an old buffer, 1.4 KiB.
#[test]
fn post_quantum_hellos_come_through_to_servers_that_know_the_group_and_to_others() {
    let site = Site::new();
    let client = Client::new(&site);
    let echo = Server::start(Behaviour::Echo);
    let inner = Service::new(&site, &echo);
    let _inner = inner.start();
    let stunnel = Stunnel::terminate(&site.path("site.pem"), echo.address(), "curves = P-384");
    for (server, group) in
        [(inner.address, NamedGroup::X25519MLKEM768), (stunnel.address, NamedGroup::secp384r1)]
    {
        let service = passing(&site, server, "");
        let _lariat = service.start();
        let connection = client.echo(service.address);
        assert_eq!(connection.group(), group);
    }
}
