//! TLS to real servers: nginx, HAProxy, stunnel and Redis, in both versions, with resumption.

use suite::haproxy::Haproxy;
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::redis::Redis;
use suite::stunnel::Stunnel;

/// Configures a service that verifies this server, by one worker: the second connection finds the
/// first one's session.
fn verifying(site: &Site, server: SocketAddr, mode: &str, keys: &str) -> (Service, String) {
    let ca = site.ca();
    let back = format!("tls = {{ ca = [{ca:?}], name = 'localhost', {keys} }}");
    let service = Service::new(site, server).back(&back);
    let service = if mode == "off" { service.mode(mode) } else { service };
    let toml = format!("{}\n[workers]\nthreads = 1\n", service.toml());
    (service, toml)
}

/// Makes two connections: the first one's session serves the second.
fn is_full_then_resumed(lariat: &Lariat, version: &str, visit: impl Fn()) {
    for made in ["full", "resumed"] {
        visit();
        let made = format!("\"server_handshake\":\"{made}\"");
        let line = lariat.wait_for_line(&[&made, version]);
        // Whatever the server answers to the client's end.
        assert_eq!(line["reason"], "client-closed", "{line}");
    }
}

#[test]
fn nginx_and_haproxy_are_verified_and_resumed_from_tls_and_from_plain_clients() {
    let site = Site::new();
    let certificate = site.path("site.pem");
    for (nginx, haproxy, version) in
        [("TLSv1.2", "ssl-max-ver TLSv1.2", "1.2"), ("TLSv1.3", "ssl-min-ver TLSv1.3", "1.3")]
    {
        let nginx = Nginx::terminate(&certificate, &format!("ssl_protocols {nginx};"));
        let haproxy = Haproxy::terminate(&certificate, haproxy);
        for server in [nginx.address, haproxy.address] {
            for mode in ["terminate", "off"] {
                let (service, toml) = verifying(&site, server, mode, "");
                let lariat = Lariat::start(&toml);
                let get = || match mode {
                    "off" => curl().url(&format!("http://{}/", service.address)).run(),
                    _ => curl_tls(&site, service.address).run(),
                };
                is_full_then_resumed(&lariat, version, || {
                    assert_eq!(get().success(), "ok", "{mode} {version}");
                });
            }
        }
    }
}

/// Sends something without TLS; checks the reply, to the server's end.
fn talk(address: SocketAddr, words: &[u8], reply: &[u8]) {
    let mut client = tcp(address);
    client.write_all(words).unwrap();
    let mut got = vec![0; reply.len()];
    client.read_exact(&mut got).unwrap();
    assert_eq!(got, reply);
}

#[test]
fn stunnel_is_verified_and_resumed() {
    let site = Site::new();
    let server = Server::start(Behaviour::Echo);
    for (line, version) in [("sslVersion = TLSv1.2", "1.2"), ("sslVersion = TLSv1.3", "1.3")] {
        let stunnel = Stunnel::terminate(&site.path("site.pem"), server.address(), line);
        for mode in ["terminate", "off"] {
            let (service, toml) = verifying(&site, stunnel.address, mode, "");
            let lariat = Lariat::start(&toml);
            is_full_then_resumed(&lariat, version, || match mode {
                "off" => talk(service.address, b"ping", b"ping"),
                _ => drop(Client::new(&site).visit(service.address)),
            });
        }
    }
}

#[test]
fn redis_is_verified_resumed_and_shown_our_certificate() {
    let site = Site::new();
    let own = site.authority.client("lariat");
    let own = own.write(&site.directory, "own.pem");
    for (protocol, version) in [("TLSv1.2", "1.2"), ("TLSv1.3", "1.3")] {
        let redis = Redis::with_tls(&site, protocol);
        let keys = format!("certificate = {own:?}");
        let (service, toml) = verifying(&site, redis.address, "off", &keys);
        let lariat = Lariat::start(&toml);
        is_full_then_resumed(&lariat, version, || {
            let (words, reply) = (b"PING\r\nSET a 1\r\nGET a\r\n", b"+PONG\r\n+OK\r\n$1\r\n1\r\n");
            talk(service.address, words, reply);
        });
        // Without a certificate of ours it refuses everybody.
        let (service, toml) = verifying(&site, redis.address, "off", "");
        let _lariat = Lariat::start(&toml);
        let mut client = tcp(service.address);
        let mut reply = Vec::new();
        // The connection may be reset before it has sent anything.
        let said = client.write_all(b"PING\r\n");
        let _reset = said.and_then(|()| client.read_to_end(&mut reply));
        assert!(!reply.starts_with(b"+PONG"), "{reply:?}");
    }
}
