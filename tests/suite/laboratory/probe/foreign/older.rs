//! Servers that speak what no client of the probe's own does: an installed OpenSSL completes the
//! handshake, or the certificate in clear text is judged.

use suite::nginx::Nginx;
use suite::prelude::*;
use suite::probe::{BUSY, report};
use suite::scripted::serve_by_hello;
use suite::stunnel::Stunnel;

fn points(report: &Value) -> Vec<String> {
    let verdicts = report["verdicts"].as_array().unwrap().iter();
    verdicts.map(|one| one["point"].as_str().unwrap().to_owned()).collect()
}

fn seen(site: &Site, address: SocketAddr) -> Value {
    let address = address.to_string();
    let ca = site.ca().display().to_string();
    let mut command = lab::command();
    command.args(["probe", "localhost", "--json", "--timeout", BUSY, "--connect", &address]);
    let said = run(command.args(["--ca", &ca])).success();
    serde_json::from_str(&said).unwrap()
}

/// A site with the keys that RSA key exchange and old suites need.
fn site() -> Site {
    let site = Site::new();
    let rsa = site.authority.leaf(&["localhost"]).key(Key::Rsa2048).issue();
    rsa.write(&site.directory, "rsa.pem");
    site
}

fn assert_older(report: &Value, version: &str, suite: &str) {
    let node = &report["nodes"][0];
    let clients = node["clients"].as_array().unwrap();
    let older = clients.iter().find(|one| one["kind"] == "older");
    let older = older.unwrap_or_else(|| panic!("{node}"));
    assert_eq!(older["trouble"], Value::Null, "{node}");
    assert_eq!((&older["version"], &older["suite"]), (&version.into(), &suite.into()));
    assert_eq!(older["certificate"]["chain_state"], "trusted", "{older}");
    assert!(!points(report).contains(&"not-examined".to_owned()), "{report}");
}

fn resumed(report: &Value) -> Vec<(String, u64, u64)> {
    let all = report["resumption"].as_array().unwrap().iter();
    let count = |one: &Value, key: &str| one[key].as_u64().unwrap();
    let row = |one: &Value| {
        (one["kind"].as_str().unwrap().to_owned(), count(one, "resumed"), count(one, "offered"))
    };
    all.map(row).collect()
}

#[test]
fn nginx_with_cbc_rsa_key_exchange_and_old_versions_alone() {
    let site = site();
    for (directives, version, suite) in [
        (
            "ssl_protocols TLSv1.2; ssl_ciphers ECDHE-RSA-AES128-SHA256;",
            "TLSv1.2",
            "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        ),
        (
            "ssl_protocols TLSv1.2; ssl_ciphers AES256-GCM-SHA384;",
            "TLSv1.2",
            "TLS_RSA_WITH_AES_256_GCM_SHA384",
        ),
        (
            "ssl_protocols TLSv1.1; ssl_ciphers ECDHE-RSA-AES256-SHA:@SECLEVEL=0;",
            "TLSv1.1",
            "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        ),
        (
            "ssl_protocols TLSv1; ssl_ciphers AES128-SHA:@SECLEVEL=0;",
            "TLSv1.0",
            "TLS_RSA_WITH_AES_128_CBC_SHA",
        ),
    ] {
        let directives = format!("{directives} ssl_session_cache shared:S:1m;");
        let nginx = Nginx::terminate(&site.path("rsa.pem"), &directives);
        let report = seen(&site, nginx.address);
        assert_older(&report, version, suite);
        let expected = [("session-id".to_owned(), 5, 5), ("ticket".to_owned(), 5, 5)];
        assert_eq!(resumed(&report), expected, "{version} {suite}");
        assert_eq!(report["nodes"][0]["client_renegotiation"], false, "{version} {suite}");
    }
}

#[test]
fn stunnel_without_resumption_and_with_tls_1_0_alone() {
    let site = site();
    let behind = Nginx::start("", "ok");
    let lines = "sslVersion = TLSv1\nciphers = ALL:@SECLEVEL=0\nsecurityLevel = 0\n\
                 options = NO_TICKET\nsessionResume = no";
    let server = Stunnel::terminate(&site.path("rsa.pem"), &behind.address.to_string(), lines);
    let report = seen(&site, server.address);
    assert_older(&report, "TLSv1.0", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA");
    let known = resumed(&report);
    assert!(known.iter().all(|(_, resumed, _)| *resumed == 0), "{known:?}");
}

#[test]
fn openssl_lets_clients_renegotiate_where_it_is_told_so() {
    let site = site();
    for (more, is_allowed) in [(&[][..], false), (&["-client_renegotiation"], true)] {
        let arguments = [&["-www", "-tls1_2"], more].concat();
        let server = SServer::start(&site, "site.pem", &arguments);
        let report = seen(&site, server.address);
        assert_eq!(report["nodes"][0]["client_renegotiation"], is_allowed, "{report}");
        let points = points(&report);
        assert_eq!(points.contains(&"client-renegotiation".to_owned()), is_allowed, "{points:?}");
    }
}

/// No library of today speaks it: this one answers hellos by hand.
#[test]
fn ssl_3_alone_is_named_and_its_certificate_is_judged() {
    let site = Site::new();
    let leaf = site.authority.leaf(&["localhost"]).expired().issue();
    let vector = |length_bytes: usize, bytes: &[u8]| {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[4 - length_bytes..], bytes].concat()
    };
    let message = move |kind: u8, body: &[u8]| [&[kind], &*vector(3, body)].concat();
    let list = vector(3, &vector(3, leaf.certificate_der()));
    let hello = [&[3, 0], &[7; 32][..], &[0, 0, 0x2f, 0]].concat();
    let flight = [message(2, &hello), message(11, &list), message(14, &[])].concat();
    let flight = [&[22, 3, 0], &*vector(2, &flight)].concat();
    let address = serve_by_hello(move |stream, hello| {
        let is_ssl3 = hello.get(9..11) == Some(&[3, 0]);
        let answer = if is_ssl3 { &flight[..] } else { &[21, 3, 0, 0, 2, 2, 70] };
        let _gone = stream.write_all(answer);
        let _end = stream.read(&mut [0; 4096]);
    });
    let report = report(BUSY, address, &["--ca", &site.ca().display().to_string()]);
    let node = &report["nodes"][0];
    let spoken = node["versions"].as_array().unwrap().iter().filter(|one| one["spoken"] == true);
    assert!(spoken.map(|one| &one["name"]).eq(["SSLv3"]), "{node}");
    let points = points(&report);
    for point in ["old-versions", "certificate-expired", "not-examined"] {
        assert!(points.contains(&point.to_owned()), "{point}: {points:?}");
    }
}
