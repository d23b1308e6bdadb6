//! Every suite of both versions, by a real client: the same bytes, encrypted by the kernel.

use suite::kernel::{Bench, LARGE, pattern};
use suite::prelude::*;

/// Options by which `curl` offers only one suite.
const SUITES: [[&str; 4]; 6] = [
    ["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"],
    ["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384"],
    ["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-CHACHA20-POLY1305"],
    ["--tls-max", "1.3", "--tls13-ciphers", "TLS_AES_128_GCM_SHA256"],
    ["--tls-max", "1.3", "--tls13-ciphers", "TLS_AES_256_GCM_SHA384"],
    ["--tls-max", "1.3", "--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"],
];

/// Checks that each suite brings these bytes twice on one connection, which the kernel takes over.
fn assert_all_bring(bench: &Bench, path: &str, body: &[u8]) {
    let files = ["first", "second"].map(|name| bench.site.path(name));
    let [first, second] = [&files[0], &files[1]].map(|file| file.to_str().unwrap());
    for [limit, version, offer, suite] in SUITES {
        let said = curl_tls_for(&bench.site, bench.service.address, &[path, path])
            .args(&[&format!("--tlsv{version}"), limit, version, offer, suite])
            .args(&["--output", first, "--output", second])
            .args(&["--write-out", "%{num_connects} "])
            .run()
            .success();
        assert_eq!(said, "1 0 ", "one connection");
        for file in &files {
            assert!(fs::read(file).unwrap() == body, "{suite}: other bytes");
        }
    }
    bench.wait_for_end_of(6);
}

#[test]
fn files_arrive_whole_in_every_suite() {
    let bench = Bench::files(|service| service);
    assert_all_bring(&bench, "large", &pattern(LARGE));
    assert_eq!(bench.sent("sendfile"), 12.0 * LARGE as f64);
}

#[test]
fn a_servers_bytes_arrive_whole_in_every_suite() {
    let body = pattern(8 << 20);
    let server = Server::start(Behaviour::Http(body.clone()));
    let bench = Bench::relay(&server, |service| service);
    assert_all_bring(&bench, "", &body);
    assert!(bench.sent("splice") > 6.0 * body.len() as f64);
}
