//! The record layer against other programs, whatever they ask for.

use suite::kernel::pattern;
use suite::openssl::s_client_sending;
use suite::prelude::*;

const TLS13: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
const TLS12: [&str; 6] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

/// Makes a service with an ECDSA and an RSA certificate.
fn service(site: &Site, server: &Server) -> Service {
    let rsa = site.authority.leaf(&["localhost"]).key(Key::Rsa2048);
    let rsa = rsa.issue().write(&site.directory, "rsa.pem");
    let both = [site.path("site.pem"), rsa];
    Service::new(site, server).certificates(&format!("{both:?}"))
}

fn start(service: &Service) -> Lariat {
    service.start_with("[workers]\nthreads = 2")
}

#[test]
fn every_suite_brings_bytes_down_and_up_intact() {
    let body = pattern(1_500_000);
    let site = Site::new();
    let down = Server::start(Behaviour::Http(body.clone()));
    let up = Server::start(Behaviour::Swallow);
    let (from, into) = (service(&site, &down), service(&site, &up));
    let _lariats = [start(&from), start(&into)];
    let sent = site.write("sent", &body);
    for (index, suite) in TLS13.iter().chain(&TLS12).enumerate() {
        let is_tls13 = TLS13.contains(suite);
        let (version, ciphers) = if is_tls13 {
            (["--tlsv1.3", "--tls-max", "1.3"], "--tls13-ciphers")
        } else {
            (["--tlsv1.2", "--tls-max", "1.2"], "--ciphers")
        };
        let curl = curl_tls(&site, from.address).args(&version);
        assert!(curl.args(&[ciphers, suite]).bytes() == body, "{suite}");

        let options = if is_tls13 {
            "-tls1_3 -max_send_frag 700 -record_padding 1000 -ciphersuites"
        } else {
            "-tls1_2 -max_send_frag 700 -cipher"
        };
        let options: Vec<&str> = options.split(' ').chain([*suite]).collect();
        let mut openssl = s_client_sending(&site, into.address, &options, &sent);
        assert!(openssl.wait().success(), "{suite}");
        assert!(up.wait_for_end(index + 1).bytes == body, "{suite}");
    }
}

#[test]
fn openssl_updates_keys_and_the_talk_goes_on() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = service(&site, &server);
    let lariat = start(&service);
    for suite in TLS13 {
        let mut talk =
            Talk::start(&site, service.address, &["-tls1_3", "-msg", "-ciphersuites", suite]);
        talk.say("at first");
        talk.wait_for("at first", 1);
        for round in 1..=3 {
            // An update of their own keys, then one that asks for ours.
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
    lariat.wait_for_reason("client-closed", 3);
}

#[test]
fn renegotiation_is_refused_with_a_warning() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = service(&site, &server);
    let _lariat = start(&service);
    let mut talk = Talk::start(&site, service.address, &["-tls1_2", "-msg"]);
    talk.say("at first");
    talk.wait_for("at first", 1);
    talk.say("R");
    talk.wait_for("warning no_renegotiation", 1);
}

#[test]
fn the_end_is_told_by_close_notify() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Speak(b"all".to_vec())));
    let service = service(&site, &server);
    let _lariat = start(&service);
    for version in ["-tls1_2", "-tls1_3"] {
        let talk = Talk::start(&site, service.address, &[version, "-msg", "-ign_eof"]);
        talk.wait_for("warning close_notify", 1);
        assert!(talk.end().success().contains("all"), "{version}");
    }
}

/// Relays one connection to a service; returns all bytes that the service sent.
fn tapped(service: &Service) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, to) = (listener.local_addr().unwrap(), service.address);
    let copy = move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(to).unwrap();
        let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let up = thread::spawn(move || {
            let _ended = std::io::copy(&mut from, &mut into);
            let _ended = into.shutdown(Shutdown::Write);
        });
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(bytes @ 1..) = server.read(&mut piece) {
            all.extend_from_slice(&piece[..bytes]);
            client.write_all(&piece[..bytes]).unwrap();
        }
        let _ended = client.shutdown(Shutdown::Both);
        up.join().unwrap();
        all
    };
    (address, thread::spawn(copy))
}

#[test]
fn no_record_is_longer_than_a_service_allows() {
    let body = pattern(300_000);
    let site = Site::new();
    let server = Server::start(Behaviour::Http(body.clone()));
    let limited = service(&site, &server).tls("max-record-size = 512");
    let _lariat = start(&limited);
    for version in ["1.2", "1.3"] {
        let (address, tap) = tapped(&limited);
        let got = curl()
            .args(&["--tls-max", version, "--cacert", site.ca().to_str().unwrap()])
            .args(&["--resolve", &format!("localhost:{}:127.0.0.1", address.port())])
            .url(&format!("https://localhost:{}/", address.port()))
            .bytes();
        assert!(got == body);
        let sent = tap.join().unwrap();
        let (mut rest, mut longest) = (&sent[..], 0);
        while let [_, _, _, high, low, after @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            longest = longest.max(length);
            rest = &after[length.min(after.len())..];
        }
        // A nonce or a content type, and the tag.
        assert!((512..=512 + 24).contains(&longest), "{version}: {longest}");
    }
}
