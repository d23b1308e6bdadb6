//! Versions, suites and groups are those of the configuration, by their standard names.

use suite::prelude::*;

#[test]
fn a_version_can_be_left_out() {
    let (site, _server, service, lariat) =
        serve_as(Behaviour::Echo, |service| service.tls("versions = ['1.3']"));
    let answer = s_client(&site, service.address, &["-tls1_2"]);
    answer.assert_stderr("alert protocol version");
    lariat.wait_for_reason("version-too-old", 1);
    assert!(s_client(&site, service.address, &["-tls1_3"]).status.success());
}

#[test]
fn suites_are_taken_in_the_configured_order() {
    let suites = "suites = ['TLS_CHACHA20_POLY1305_SHA256', \
                  'TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384']";
    let (site, _server, service, _lariat) =
        serve_as(Behaviour::Echo, |service| service.tls(suites));
    for (flag, suite) in
        [("-tls1_2", "ECDHE-ECDSA-AES256-GCM-SHA384"), ("-tls1_3", "TLS_CHACHA20_POLY1305_SHA256")]
    {
        let answer = s_client(&site, service.address, &[flag]);
        answer.assert_stdout(&format!("Cipher is {suite}\n"));
    }
}

#[test]
fn groups_are_those_of_the_configuration() {
    let (site, _server, service, lariat) =
        serve_as(Behaviour::Echo, |service| service.tls("groups = ['secp384r1']"));
    let answer = s_client(&site, service.address, &["-groups", "P-256:P-384"]);
    answer.assert_stdout("Server Temp Key: ECDH, secp384r1");
    let none = s_client(&site, service.address, &["-groups", "X25519"]);
    none.assert_stderr("handshake failure");
    lariat.wait_for_reason("no-common-parameters", 1);
}

#[test]
fn a_key_share_at_hand_saves_a_round_trip() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    // The client sends a share for P-256 only, though we prefer X25519, which it knows too.
    let answer = s_client(&site, service.address, &["-groups", "P-256:X25519"]);
    answer.assert_stdout("Server Temp Key: ECDH, prime256v1");
    assert_eq!(lariat.sum("lariat_hello_retry_requests_total", &[]), 0.0);
}
