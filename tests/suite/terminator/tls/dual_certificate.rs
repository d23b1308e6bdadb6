//! Several certificates for one name: ECDSA for clients that can, RSA for the others, and of two of
//! a kind one that is valid.

use suite::prelude::*;

#[test]
fn the_certificate_is_of_a_kind_that_the_client_can_verify() {
    let site = Site::new();
    let leaf = |key| site.authority.leaf(&["localhost"]).key(key).issue();
    let rsa = leaf(Key::Rsa2048).write(&site.directory, "rsa.pem");
    let ecdsa = leaf(Key::EcdsaP256).write(&site.directory, "ecdsa.pem");
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server).certificates(&format!("[{rsa:?}, {ecdsa:?}]"));
    let _lariat = service.start();
    for (client, kind) in [
        (&["-tls1_3"][..], "ECDSA"),
        (&["-tls1_2"], "ECDSA"),
        (&["-tls1_3", "-sigalgs", "rsa_pss_rsae_sha256"], "RSA-PSS"),
        (&["-tls1_3", "-sigalgs", "rsa_pss_rsae_sha256:ecdsa_secp256r1_sha256"], "ECDSA"),
        (&["-tls1_2", "-sigalgs", "RSA+SHA256"], "RSA"),
        (&["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"], "RSA-PSS"),
        (&["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], "ECDSA"),
    ] {
        let answer = s_client(&site, service.address, client);
        let line = format!("Peer signature type: {kind}\n");
        answer.assert_stdout(&line);
        assert!(answer.stdout.contains("Verify return code: 0 (ok)"), "{client:?}");
    }
}

#[test]
fn a_certificate_that_ends_gives_way_to_its_successor_without_a_reload() {
    let site = Site::new();
    let (begin, end) = (now_seconds() - 60, now_seconds() + 4);
    let leaf = |until| site.authority.leaf(&["localhost"]).valid(begin, until).issue();
    let (old, new) = (leaf(end), leaf(begin + 1_000_000));
    let (old_file, new_file) =
        (old.write(&site.directory, "old.pem"), new.write(&site.directory, "new.pem"));
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server);
    let service = service.certificates(&format!("[{old_file:?}, {new_file:?}]"));
    let lariat = service.start();
    until_true("the first to end", || now_seconds() > end);
    for version in ["-tls1_2", "-tls1_3"] {
        let answer = s_client(&site, service.address, &[version]);
        let is_good = answer.stdout.contains("Verify return code: 0 (ok)");
        assert!(is_good, "{answer:?}");
    }
    let web = [("service", "web")];
    lariat.wait_for_metric("lariat_certificates_expired", &web, 1.0);
    lariat.wait_for_stderr("clients get another one for its names");
    let document = lariat.status();
    assert_eq!(document["services"][0]["metrics"]["certificates_expired"], 1, "{document}");
}
