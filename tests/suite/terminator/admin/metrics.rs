//! `/metrics` counts what happens, in the Prometheus text format.

use suite::configuration::Service;
use suite::curl::{curl, curl_tls};
use suite::lariat::Lariat;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn connections_handshakes_and_bytes_are_counted() {
    let (site, server) = (
        Site::new(),
        Server::start(Behaviour::Http(vec![b'x'; 5000])),
    );
    let service = Service::new(&site, &server);
    let lariat = Lariat::start(&service.toml());
    for version in ["1.2", "1.3", "1.3"] {
        curl_tls(&site, service.address)
            .args(&["--tls-max", version])
            .run()
            .success();
    }

    let web = ("service", "web");
    lariat.wait_for_metric("lariat_connections_open", &[web], 0.0);
    let metrics = lariat.metrics();
    assert_eq!(
        metrics.sum("lariat_connections_accepted_total", &[web]),
        3.0
    );
    assert_eq!(metrics.sum("lariat_connections_ended_total", &[web]), 3.0);
    let full = [web, ("kind", "full")];
    assert_eq!(metrics.sum("lariat_handshakes_total", &full), 3.0);
    assert_eq!(
        metrics.sum("lariat_handshake_duration_seconds_count", &full),
        3.0
    );
    let down = [web, ("direction", "backend-to-client")];
    assert!(metrics.sum("lariat_relayed_bytes_total", &down) >= 15_000.0);
    assert_eq!(
        metrics.sum("lariat_dials_total", &[("server", server.address())]),
        3.0
    );
    assert!(metrics.sum("lariat_certificate_expiry_timestamp_seconds", &[web]) > 1.7e9);
    assert_eq!(metrics.sum("lariat_build_info", &[]), 1.0);
}

#[test]
fn each_family_has_its_help_and_type_once() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let lariat = Lariat::start(&Service::new(&site, &server).toml());
    let url = format!("http://{}/metrics", lariat.admin());
    let text = curl().url(&url).args(&["--include"]).run().success();
    assert!(
        text.to_lowercase()
            .contains("content-type: text/plain; version=0.0.4"),
        "{text}"
    );
    for comment in ["# HELP ", "# TYPE "] {
        let mut names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix(comment)?.split(' ').next())
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert!(all > 20 && names.len() == all, "{comment}{names:?}");
    }
}
