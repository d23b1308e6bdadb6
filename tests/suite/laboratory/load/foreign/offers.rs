//! Offers of a client before, in and after the handshake: as asked, and as the server saw them.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use suite::haproxy::Haproxy;
use suite::load::Record;
use suite::nginx::{Line, Nginx};
use suite::prelude::*;

fn nginx(site: &Site, directives: &str) -> Nginx {
    Nginx::terminate(
        &site.path("site.pem"),
        &format!("ssl_protocols TLSv1.2 TLSv1.3; {directives}"),
    )
}

/// Runs four transactions with these flags; returns also what nginx saw of them.
fn four(nginx: Nginx, flags: &str) -> (Record, Vec<Line>) {
    let load = Load::of(nginx.address).args("--count 4").args(flags);
    let record = load.record();
    assert_eq!(record.totals(), [4, 4, 0], "{record:?}");
    let log = nginx.end();
    assert_eq!(log.len(), 4, "{log:?}");
    (record, log)
}

/// Returns the only value that a field has in all lines.
fn seen<'a>(log: &'a [Line], field: &str) -> &'a str {
    let values: BTreeSet<_> = log.iter().map(|line| line.field(field)).collect();
    assert_eq!(values.len(), 1, "{values:?}");
    values.first().unwrap()
}

#[test]
fn handshakes_alone_end_by_reset_or_properly() {
    let site = Site::new();
    let server = Server::start(http());
    for (flags, reason, kinds) in [
        ("--close reset", "client-reset", [10, 0, 0, 0]),
        ("--close notify", "client-closed", [10, 0, 0, 0]),
        ("--handshake psk", "client-closed", [2, 0, 0, 8]),
    ] {
        let service = Service::new(&site, &server);
        let lariat = service.start();
        let record = Load::of(service.address).args("--no-request --count 10").args(flags).record();
        assert_eq!(record.totals(), [10, 10, 0], "{flags}");
        assert_eq!(record.kinds(), kinds, "{flags}");
        assert_eq!(record.number("/traffic/body_bytes"), 0);
        lariat.wait_for_reason(reason, 10);
    }
}

#[test]
fn a_proxy_header_comes_before_the_tls() {
    let site = Site::new();
    let certificate = site.path("site.pem");
    for version in ["v1", "v2"] {
        let flags = format!("--send-proxy {version} --source 127.0.0.7");
        let nginx = Nginx::terminate_at(free_address(), &certificate, "proxy_protocol", "");
        let (_, log) = four(nginx, &flags);
        assert_eq!(seen(&log, "proxy_protocol_addr"), "127.0.0.7", "{version}");

        let haproxy = Haproxy::terminate(&certificate, "accept-proxy");
        let load = Load::of(haproxy.address).args("--count 4").args(&flags);
        assert_eq!(load.record().totals(), [4, 4, 0], "{version}");
    }
    // A server that expects one treats its absence as a fault.
    let nginx = Nginx::terminate_at(free_address(), &certificate, "proxy_protocol", "");
    let load = Load::of(nginx.address).args("--count 4").run();
    assert_eq!(load.record().totals(), [4, 0, 4]);
}

#[test]
fn a_client_certificate_is_shown_if_it_is_asked_for() {
    let site = Site::new();
    let ca = site.ca();
    let client = site.authority.client("load").write(&site.directory, "client.pem");
    let asks = format!("ssl_verify_client on; ssl_client_certificate {};", ca.display());
    for version in ["1.2", "1.3"] {
        let flags = format!("--tls {version} --client-certificate {}", client.display());
        let (_, log) = four(nginx(&site, &asks), &flags);
        assert_eq!(seen(&log, "client_verify"), "SUCCESS", "{version}");
        let (_, log) = four(nginx(&site, ""), &flags);
        assert_eq!(seen(&log, "client_verify"), "NONE", "{version}");
    }
    // nginx answers 400 to clients without a certificate.
    let nginx = nginx(&site, &asks);
    let record = Load::of(nginx.address).args("--count 4").run().record();
    assert_eq!(record.failures()["status-400"], 4);
}

#[test]
fn the_first_request_goes_with_the_hello_where_the_server_lets_it() {
    let site = Site::new();
    // The second request of a connection gives nginx time for a ticket: it may answer early data
    // and close before the handshake is over, which is when tickets are sent.
    let flags = "--connections 1 --count 8 --requests-per-connection 2 --handshake psk \
                 --early-data";
    let willing = nginx(&site, "ssl_early_data on; ssl_session_cache shared:s:1m;");
    let record = Load::alone(willing.address).args(flags).record();
    assert_eq!(record.totals(), [8, 8, 0]);
    assert_eq!(record.kinds(), [1, 0, 0, 3]);
    let rows = record.list("/handshakes").iter();
    let early = rows.filter(|row| row["early_data_accepted"] == true);
    let early: u64 = early.map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(early, 3, "{record:?}");
    let unwilling = nginx(&site, "");
    let record = Load::alone(unwilling.address).args(flags).record();
    // The second request of each connection succeeds.
    assert_eq!(record.totals(), [8, 5, 3]);
    assert_eq!(record.reason(), "early-data-rejected");
}

#[test]
fn a_server_can_be_reached_by_a_socket_or_over_ipv6() {
    let site = Site::new();
    let path = site.path("nginx.sock");
    let nginx = nginx(&site, &format!("listen unix:{} ssl;", path.display()));
    let load = Load::bare().arg("https://localhost/").args("--count 4 --connections 2");
    let record = load.args(&format!("--connect unix:{}", path.display())).record();
    assert_eq!(record.totals(), [4, 4, 0]);
    assert_eq!(nginx.end().len(), 4);
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, free_address().port()));
    let nginx = Nginx::terminate_at(address, &site.path("site.pem"), "", "");
    let load = Load::bare().arg(format!("https://{address}/"));
    let record = load.args("--count 4 --connections 2").record();
    assert_eq!(record.totals(), [4, 4, 0]);
    assert_eq!(nginx.end().len(), 4);
}

#[test]
fn versions_suites_and_groups_are_those_that_were_asked_for() {
    let site = Site::new();
    // Names as the record has them, and as OpenSSL has them.
    let ecdsa_aes_256 = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    let [p256, p384] = [["secp256r1", "prime256v1"], ["secp384r1", "secp384r1"]];
    for (flags, version, [suite, cipher], [group, curve]) in [
        (
            // In TLS 1.2 the groups are also those of the certificate's key (RFC 8422, 5.1.1).
            "--tls 1.2 --groups secp384r1,secp256r1",
            "TLSv1.2",
            [ecdsa_aes_256, "ECDHE-ECDSA-AES256-GCM-SHA384"],
            p384,
        ),
        ("--groups secp256r1", "TLSv1.3", ["TLS_AES_128_GCM_SHA256"; 2], p256),
        (
            "--tls 1.3 --groups x25519",
            "TLSv1.3",
            ["TLS_CHACHA20_POLY1305_SHA256"; 2],
            ["x25519", "X25519"],
        ),
    ] {
        let (record, log) = four(nginx(&site, ""), &format!("{flags} --suites {suite}"));
        let logged = ["protocol", "cipher", "curve"].map(|field| seen(&log, field));
        assert_eq!(logged, [version, cipher, curve], "{flags}");
        let recorded = ["version", "suite", "group"].map(|field| record.negotiated(field));
        assert_eq!(recorded, [version, suite, group], "{flags}");
        assert_eq!(record.negotiated("retried"), "false");
    }
}

#[test]
fn a_group_that_the_server_does_not_know_costs_a_second_hello() {
    let site = Site::new();
    // The hybrid is younger than Debian's OpenSSL.
    let flags = "--groups X25519MLKEM768,secp256r1";
    let (record, log) = four(nginx(&site, "ssl_ecdh_curve prime256v1;"), flags);
    assert_eq!(seen(&log, "curve"), "prime256v1");
    assert_eq!(record.negotiated("group"), "secp256r1");
    assert_eq!(record.negotiated("retried"), "true");
    let server = Server::start(http());
    let service = Service::new(&site, &server);
    let _lariat = service.start();
    let load = Load::of(service.address).args("--count 4").args(flags);
    let record = load.record();
    assert_eq!(record.negotiated("group"), "X25519MLKEM768");
    assert_eq!(record.negotiated("retried"), "false");
}

#[test]
fn a_client_can_be_without_rsa_or_without_ecdsa() {
    let site = Site::new();
    let leaf = |key| site.authority.leaf(&["localhost"]).key(key).issue();
    let rsa = leaf(Key::Rsa2048).write(&site.directory, "rsa.pem");
    let ecdsa = leaf(Key::EcdsaP256).write(&site.directory, "ecdsa.pem");
    let server = Server::start(http());
    let service = Service::new(&site, &server).certificates(&format!("[{rsa:?}, {ecdsa:?}]"));
    let _lariat = service.start();
    for (flags, scheme) in [
        ("--tls 1.3 --signatures rsa", "rsa_pss_"),
        ("--tls 1.2 --signatures rsa", "rsa_"),
        ("--tls 1.2 --signatures rsa_pkcs1_sha256", "rsa_pkcs1_sha256"),
        ("--tls 1.3 --signatures ecdsa", "ecdsa_secp256r1_sha256"),
        ("--tls 1.2 --signatures ecdsa", "ecdsa_secp256r1_sha256"),
        ("--tls both", "ecdsa_secp256r1_sha256"),
    ] {
        let load = Load::of(service.address).args("--count 4 --verify signature");
        let signature = load.args(flags).record().negotiated("signature");
        assert!(signature.starts_with(scheme), "{flags}: {signature}");
    }
}

#[test]
fn the_name_and_the_protocols_are_those_that_were_asked_for() {
    let site = Site::new();
    for (flags, name) in [
        ("", "localhost"),
        ("--server-name other.example", "other.example"),
        ("--server-name none", "-"),
    ] {
        let (_, log) = four(nginx(&site, ""), flags);
        assert_eq!(seen(&log, "server_name"), name);
    }
    for (flags, protocol) in
        [("", "none"), ("--alpn http/1.1", "http/1.1"), ("--alpn acme,http/1.1", "http/1.1")]
    {
        let (record, log) = four(nginx(&site, ""), flags);
        assert_eq!(record.negotiated("alpn"), protocol);
        assert_eq!(seen(&log, "alpn_protocol"), protocol.replace("none", "-"));
    }
}

#[test]
fn requests_are_those_that_were_asked_for() {
    let site = Site::new();
    let (_, log) = four(nginx(&site, ""), "--method DELETE");
    assert_eq!(seen(&log, "request_method"), "DELETE");
    let (_, log) = four(nginx(&site, ""), "--body a=1");
    assert_eq!(seen(&log, "request_method"), "POST");
    let (record, log) = four(nginx(&site, ""), "--method HEAD");
    assert_eq!(seen(&log, "request_method"), "HEAD");
    assert_eq!(record.number("/traffic/body_bytes"), 0);
    let (_, log) = four(nginx(&site, ""), "--size 4k");
    assert_eq!(seen(&log, "request_uri"), "/?size=4096");
}
