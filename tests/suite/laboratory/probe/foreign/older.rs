//! Servers with features that none of the probe's own clients has: an installed OpenSSL completes
//! the handshake, or the certificate in clear text is judged.

use suite::nginx::Nginx;
use suite::prelude::*;
use suite::probe::{BUSY, report};
use suite::scripted::{serve_by_hello, vector};
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

/// Makes a site with the keys that RSA key exchange and old suites need.
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

/// No library of today speaks it: this server answers hellos by hand.
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

/// Returns the `seen` of the only point among these.
fn seen_of(report: &Value, points: [&str; 3]) -> String {
    let verdicts = report["verdicts"].as_array().unwrap().iter();
    let found = verdicts.filter(|one| points.contains(&one["point"].as_str().unwrap()));
    let all: Vec<_> = found.map(|one| format!("{}: {}", one["point"], one["seen"])).collect();
    assert_eq!(all.len(), 1, "{report}");
    all.concat().replace('"', "")
}

const UNUSUAL: [&str; 3] = ["few-clients", "not-examined", "refused"];

/// Writes keys that browsers and the clients of a probe cannot use.
fn write_unusual_keys(site: &Site) {
    let parameters = site.path("dsa.param").display().to_string();
    let mut openssl = Command::new("openssl");
    run(openssl.args(["dsaparam", "-out", &parameters, "1024"])).success();
    let authority = &site.authority;
    for (name, key) in [
        ("brainpool.pem", "-newkey ec -pkeyopt ec_paramgen_curve:brainpoolP256r1"),
        ("ed448.pem", "-newkey ed448"),
        ("dsa.pem", &format!("-newkey dsa:{parameters}")),
    ] {
        site.write(name, authority.leaf_by_openssl(key, "-sha256"));
    }
    let mut openssl = Command::new("openssl");
    openssl.args(["srp", "-add", "-passout", "pass:secret", "-srpvfile"]);
    run(openssl.arg(site.write("passwords", "")).arg("user")).success();
}

#[test]
fn what_a_server_wants_that_browsers_have_not_is_named() {
    let site = site();
    write_unusual_keys(&site);
    let passwords = site.path("passwords");
    let passwords = format!("-tls1_2 -cipher SRP -nocert -srpvfile {}", passwords.display());
    let few = "few-clients: most browsers get no handshake: ";
    let none = "not-examined: no client of this probe gets a handshake";
    let met = "; openssl gets one by TLSv1.2";
    let secret = format!("{none}: it wants a pre-shared key or a password");
    for (certificate, arguments, words) in [
        (
            "brainpool.pem",
            "-tls1_2",
            format!("{few}they cannot use its key (ECDSA brainpoolP256r1){met}"),
        ),
        ("ed448.pem", "-tls1_2", format!("{few}they cannot use its key (Ed448){met}")),
        ("ed448.pem", "-tls1_3", "; in TLS 1.3 it signs by ed448 alone".to_owned()),
        ("dsa.pem", "-tls1_2 -cipher aDSS:@SECLEVEL=0", format!("its key (DSA){met}")),
        ("rsa.pem", "-tls1_2 -sigalgs RSA+SHA224", format!("{few}the server refused")),
        ("rsa.pem", "-tls1_2 -cipher DHE", format!("{few}they have none of its suites (TLS_DHE_")),
        ("site.pem", "-tls1_2 -groups secp521r1", format!("its groups (secp521r1){met}")),
        ("site.pem", "-tls1_2 -groups brainpoolP512r1", format!("(brainpoolP512r1){met}")),
        (
            "site.pem",
            "-tls1_3 -groups ffdhe4096",
            format!("{none}: they have none of its groups (ffdhe4096)"),
        ),
        (
            "site.pem",
            "-tls1_2 -nocert -psk 1a2b",
            format!("{none}: it needs a pre-shared key (TLS_DHE_PSK_"),
        ),
        ("site.pem", "-tls1_3 -nocert -psk 1a2b", secret.clone()),
        ("site.pem", &passwords, secret),
    ] {
        let arguments: Vec<&str> = ["-www"].into_iter().chain(arguments.split(' ')).collect();
        let server = SServer::start(&site, certificate, &arguments);
        assert_has(seen_of(&seen(&site, server.address), UNUSUAL), &words);
    }
}

/// The installed OpenSSL has it in TLS 1.2 alone.
#[test]
fn a_group_of_tls_1_3_that_nobody_has_is_named() {
    let extensions = [&[0, 43, 0, 2, 3, 4][..], &[0, 51, 0, 2, 0, 31]].concat();
    let body = [&[3, 3], &RETRY[..], &[32], &[7; 32], &[0x13, 1, 0], &vector(&extensions)].concat();
    let retry = [&[22, 3, 3], &*vector(&[&[2, 0], &*vector(&body)].concat())].concat();
    let address = serve_by_hello(move |stream, hello| {
        // Our number for the group and that of TLS 1.3, in their lists.
        let has = |part: &[u8]| hello.windows(part.len()).any(|window| window == part);
        let is_met = has(&[0, 43]) && has(&[3, 4]) && has(&[0, 31, 0, 32, 0, 33]);
        let _gone = stream.write_all(if is_met { &retry[..] } else { &[21, 3, 3, 0, 2, 2, 40] });
        let _end = stream.read(&mut [0; 4096]);
    });
    let report = report(BUSY, address, &[]);
    assert_has(seen_of(&report, UNUSUAL), "none of its groups (brainpoolP256r1tls13)");
}

/// The random of a HelloRetryRequest (RFC 8446, section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

#[test]
fn a_chain_that_clients_refuse_for_its_size_is_measured() {
    let site = Site::new();
    let points = ["chain-too-large", "broken-answer", "not-examined"];
    for (count, flag) in [(250, "-tls1_2"), (250, "-tls1_3"), (900, "-tls1_2")] {
        let chain = site.leaf(&["localhost"]).pem() + &site.authority.pem().repeat(count);
        site.write("large.pem", chain);
        let server = SServer::start(&site, "large.pem", &["-www", flag]);
        let seen = seen_of(&report(BUSY, server.address, &[]), points);
        let size = seen.strip_prefix("chain-too-large: its chain takes ");
        let kib = size.and_then(|size| size.split(' ').next()?.parse::<usize>().ok());
        let der = site.authority.pem().len() * 3 / 4;
        // PEM has more: two lines and the ends of lines.
        let range = der * count * 7 / 10 / 1024..=der * count / 1024 + 2;
        assert!(kib.is_some_and(|kib| range.contains(&kib)), "{flag} {count}: {seen}, {range:?}");
    }
}
