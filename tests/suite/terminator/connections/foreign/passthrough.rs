//! TLS that stays closed, between real clients and real servers.

use suite::haproxy::Haproxy;
use suite::nginx::Nginx;
use suite::prelude::*;

fn passing(site: &Site, server: std::net::SocketAddr, back: &str) -> Service {
    let unused = Server::start(Behaviour::Echo);
    Service::new(site, &unused)
        .mode("passthrough")
        .servers(&format!("['{server}']"))
        .back(back)
}

#[test]
fn curl_and_openssl_reach_the_tls_of_nginx_and_haproxy() {
    let site = Site::new();
    let nginx = Nginx::terminate(&site.path("site.pem"), "ssl_protocols TLSv1.2 TLSv1.3;");
    let haproxy = Haproxy::terminate(&site.path("site.pem"), "");
    for server in [nginx.address, haproxy.address] {
        let service = passing(&site, server, "");
        let lariat = Lariat::start(&service.toml());
        assert_eq!(curl_tls(&site, service.address).run().success(), "ok");
        for version in ["-tls1_2", "-tls1_3"] {
            let arguments = [version, "-verify_return_error", "-servername", "localhost"];
            let finished = s_client(&site, service.address, &arguments);
            assert!(finished.status.success(), "{}", finished.stderr);
        }
        let line = lariat.wait_for_line(&["localhost"]);
        assert!(line["suite"].is_null(), "{line}");
    }
}

#[test]
fn a_proxy_header_before_closed_tls_tells_nginx_the_client() {
    let site = Site::new();
    let address = free_address();
    let nginx = Nginx::terminate_at(address, &site.path("site.pem"), "proxy_protocol", "");
    let service = passing(&site, nginx.address, "send-proxy = 'v2'");
    let _lariat = Lariat::start(&service.toml());
    assert_eq!(curl_tls(&site, service.address).run().success(), "ok");
    let lines = nginx.end();
    assert_eq!(lines[0].field("proxy_protocol_addr"), "127.0.0.1");
    assert_eq!(lines[0].field("server_name"), "localhost");
}
