//! For one name: ECDSA for clients that can, RSA for the others, on the same address.

use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::openssl::s_client;
use suite::site::Site;
use testkit::leaf::Key;
use testkit::server::{Behaviour, Server};

#[test]
fn the_certificate_is_of_a_kind_that_the_client_can_verify() {
    let site = Site::new();
    let leaf = |key| site.authority.leaf(&["localhost"]).key(key).issue();
    let rsa = leaf(Key::Rsa2048).write(&site.directory, "rsa.pem");
    let ecdsa = leaf(Key::EcdsaP256).write(&site.directory, "ecdsa.pem");
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server).certificates(&format!("[{rsa:?}, {ecdsa:?}]"));
    let _lariat = Lariat::start(&service.toml());

    for (client, kind) in [
        (&["-tls1_3"][..], "ECDSA"),
        (&["-tls1_2"], "ECDSA"),
        (&["-tls1_3", "-sigalgs", "rsa_pss_rsae_sha256"], "RSA-PSS"),
        (
            &[
                "-tls1_3",
                "-sigalgs",
                "rsa_pss_rsae_sha256:ecdsa_secp256r1_sha256",
            ],
            "ECDSA",
        ),
        (&["-tls1_2", "-sigalgs", "RSA+SHA256"], "RSA"),
        (
            &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
            "RSA-PSS",
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
            "ECDSA",
        ),
    ] {
        let answer = s_client(&site, service.address, client);
        let line = format!("Peer signature type: {kind}\n");
        assert!(answer.stdout.contains(&line), "{client:?}: {answer:?}");
        assert!(
            answer.stdout.contains("Verify return code: 0 (ok)"),
            "{client:?}"
        );
    }
}
