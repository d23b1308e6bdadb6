//! TLS to real servers: nginx and HAProxy, in both versions, with resumption.

use std::net::SocketAddr;

use suite::haproxy::Haproxy;
use suite::nginx::Nginx;
use suite::prelude::*;

/// The configuration of a service that verifies this server, by one worker: the second connection
/// finds the first one's session.
fn verifying(site: &Site, server: SocketAddr, mode: &str) -> (Service, String) {
    let unused = Server::start(Behaviour::Hang);
    let back = format!("tls = {{ ca = [{:?}], name = 'localhost' }}", site.ca());
    let service = Service::new(site, &unused)
        .servers(&format!("['{server}']"))
        .back(&back);
    let service = if mode == "off" {
        service.mode(mode)
    } else {
        service
    };
    let toml = format!("{}\n[workers]\nthreads = 1\n", service.toml());
    (service, toml)
}

#[test]
fn nginx_and_haproxy_are_verified_and_resumed_from_tls_and_from_plain_clients() {
    let site = Site::new();
    let certificate = site.path("site.pem");
    for (nginx, haproxy, version) in [
        ("TLSv1.2", "ssl-max-ver TLSv1.2", "1.2"),
        ("TLSv1.3", "ssl-min-ver TLSv1.3", "1.3"),
    ] {
        let nginx = Nginx::terminate(&certificate, &format!("ssl_protocols {nginx};"));
        let haproxy = Haproxy::terminate(&certificate, haproxy);
        for server in [nginx.address, haproxy.address] {
            for mode in ["terminate", "off"] {
                let (service, toml) = verifying(&site, server, mode);
                let lariat = Lariat::start(&toml);
                let get = || match mode {
                    "off" => curl().url(&format!("http://{}/", service.address)).run(),
                    _ => curl_tls(&site, service.address).run(),
                };
                for made in ["full", "resumed"] {
                    assert_eq!(get().success(), "ok", "{mode} {version}");
                    let made = format!("\"server_handshake\":\"{made}\"");
                    let line = lariat.wait_for_line(&[&made, version]);
                    // Whatever the server answers the client's end with.
                    assert_eq!(line["reason"], "client-closed", "{line}");
                }
            }
        }
    }
}
