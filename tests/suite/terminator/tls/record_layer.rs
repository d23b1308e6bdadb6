//! Our own record layer and the TLS library's give programs the same, whatever they ask for.

use std::fs;

use suite::kernel::pattern;
use suite::openssl::{Talk, s_client_sending};
use suite::prelude::*;

/// OpenSSL's names.
const TLS13: [&str; 3] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];
const TLS12: [&str; 6] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

/// A service with each layer, with an ECDSA and an RSA certificate.
fn services(site: &Site, server: &Server) -> [Service; 2] {
    let rsa = site.authority.leaf(&["localhost"]).key(Key::Rsa2048);
    let rsa = rsa.issue().write(&site.directory, "rsa.pem");
    let both = [site.path("site.pem"), rsa];
    ["in-place", "library"].map(|layer| {
        Service::new(site, server)
            .named(layer)
            .certificates(&format!("{both:?}"))
            .tls(&format!("record-layer = '{layer}'"))
    })
}

fn start(services: &[Service; 2]) -> Lariat {
    let text = services.each_ref().map(Service::toml).join("\n");
    Lariat::start(&format!("[workers]\nthreads = 2\n{text}"))
}

#[test]
fn every_suite_brings_bytes_down_and_up_intact() {
    let body = pattern(1_500_000);
    let site = Site::new();
    let down = Server::start(Behaviour::Http(body.clone()));
    let up = Server::start(Behaviour::Swallow);
    let (downs, ups) = (services(&site, &down), services(&site, &up));
    let _lariats = [start(&downs), start(&ups)];
    let (got, sent) = (site.path("got"), site.path("sent"));
    fs::write(&sent, &body).unwrap();

    let mut uploads = 0;
    for (down, into) in downs.iter().zip(&ups) {
        for suite in TLS13.iter().chain(&TLS12) {
            let is_tls13 = TLS13.contains(suite);
            let (version, ciphers) = if is_tls13 {
                (["--tlsv1.3", "--tls-max", "1.3"], "--tls13-ciphers")
            } else {
                (["--tlsv1.2", "--tls-max", "1.2"], "--ciphers")
            };
            let curl = curl_tls(&site, down.address).args(&version);
            let output = [ciphers, suite, "--output", got.to_str().unwrap()];
            curl.args(&output).run().success();
            assert!(fs::read(&got).unwrap() == body, "{suite}");

            let options = if is_tls13 {
                "-tls1_3 -max_send_frag 700 -record_padding 1000 -ciphersuites"
            } else {
                "-tls1_2 -max_send_frag 700 -cipher"
            };
            let options: Vec<&str> = options.split(' ').chain([*suite]).collect();
            let mut openssl = s_client_sending(&site, into.address, &options, &sent);
            assert!(openssl.wait().success(), "{suite}");
            uploads += 1;
            assert!(up.wait_for_end(uploads).bytes == body, "{suite}");
        }
    }
}

#[test]
fn openssl_updates_keys_and_the_talk_goes_on() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let services = services(&site, &server);
    let lariat = start(&services);
    for service in &services {
        for suite in TLS13 {
            let mut talk = Talk::start(
                &site,
                service.address,
                &["-tls1_3", "-msg", "-ciphersuites", suite],
            );
            talk.say("at first");
            talk.wait_for("at first", 1);
            for round in 1..=3 {
                // One of their own, then one that asks for ours.
                talk.update_keys(false);
                talk.say(&format!("after theirs {round}"));
                talk.wait_for(&format!("after theirs {round}"), 1);
                talk.update_keys(true);
                talk.wait_for("<<< TLS 1.3, Handshake [length 0005], KeyUpdate", round);
                talk.say(&format!("after both {round}"));
                talk.wait_for(&format!("after both {round}"), 1);
            }
            let finished = talk.end();
            assert!(finished.status.success(), "{suite}: {finished:?}");
        }
    }
    lariat.wait_for_reason("client-closed", 6);
}

#[test]
fn renegotiation_is_refused_with_a_warning() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let services = services(&site, &server);
    let _lariat = start(&services);
    for service in &services {
        let mut talk = Talk::start(&site, service.address, &["-tls1_2", "-msg"]);
        talk.say("at first");
        talk.wait_for("at first", 1);
        talk.say("R");
        talk.wait_for("warning no_renegotiation", 1);
    }
}

#[test]
fn the_end_is_told_by_close_notify() {
    let (site, server) = (
        Site::new(),
        Server::start(Behaviour::Speak(b"all".to_vec())),
    );
    let services = services(&site, &server);
    let _lariat = start(&services);
    for service in &services {
        for version in ["-tls1_2", "-tls1_3"] {
            let talk = Talk::start(&site, service.address, &[version, "-msg", "-ign_eof"]);
            talk.wait_for("warning close_notify", 1);
            assert!(talk.end().success().contains("all"), "{version}");
        }
    }
}
