//! `/metrics` counts what happens, in the Prometheus text format.

use suite::prelude::*;

#[test]
fn connections_handshakes_and_bytes_are_counted() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Http(vec![b'x'; 5000])));
    let service = Service::new(&site, &server);
    let lariat = service.start();
    for version in ["1.2", "1.3", "1.3"] {
        curl_tls(&site, service.address).args(&["--tls-max", version]).run().success();
    }
    let web = ("service", "web");
    lariat.wait_for_metric("lariat_connections_open", &[web], 0.0);
    let metrics = lariat.metrics();
    assert_eq!(metrics.sum("lariat_connections_accepted_total", &[web]), 3.0);
    assert_eq!(metrics.sum("lariat_connections_ended_total", &[web]), 3.0);
    let full = [web, ("kind", "full")];
    assert_eq!(metrics.sum("lariat_handshakes_total", &full), 3.0);
    assert_eq!(metrics.sum("lariat_handshake_duration_seconds_count", &full), 3.0);
    let down = [web, ("direction", "backend-to-client")];
    assert!(metrics.sum("lariat_relayed_bytes_total", &down) >= 15_000.0);
    assert_eq!(metrics.sum("lariat_dials_total", &[("server", server.address())]), 3.0);
    assert!(metrics.sum("lariat_certificate_expiry_timestamp_seconds", &[web]) > 1.7e9);
    assert_eq!(metrics.sum("lariat_build_info", &[]), 1.0);
}

#[test]
fn each_family_has_its_help_and_type_once() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Echo);
    let url = format!("http://{}/metrics", lariat.admin());
    let text = curl().url(&url).args(&["--include"]).run().success();
    assert!(text.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{text}");
    for comment in ["# HELP ", "# TYPE "] {
        let mut names: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix(comment)?.split(' ').next()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert!(all > 20 && names.len() == all, "{comment}{names:?}");
    }
}

#[test]
fn the_worker_process_reports_what_it_uses_of_the_host() {
    let (_site, _server, service) = set_up(Behaviour::Echo);
    let lariat = Lariat::start_within(700, &service.toml());
    let value = |name: &str| lariat.sum(&format!("process_{name}"), &[]);
    assert_eq!(value("max_fds"), 700.0);
    assert!(value("cpu_seconds_total") > 0.0);
    let resident = value("resident_memory_bytes");
    assert!(resident > 1e6 && resident < value("virtual_memory_bytes"));
    let now = now_seconds() as f64;
    assert!((now - 600.0..=now).contains(&value("start_time_seconds")));
    let before = value("open_fds");
    let held: Vec<_> = (0..50).map(|_| TcpStream::connect(service.address).unwrap()).collect();
    let web = [("service", "web")];
    lariat.wait_for_metric("lariat_connections_open", &web, 50.0);
    // The scrape itself is a connection as well, and the one before it may not have ended yet.
    let open = value("open_fds");
    assert!((before + 48.0..=before + 52.0).contains(&open), "{open}");
    drop(held);
}

#[test]
fn limits_stand_beside_what_they_limit() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let limits = "\n[limits]\nconnections = 321\nhandshakes = 45\n\
                  [resumption]\nsession-cache = { entries = 1000 }\n";
    let servers = format!("[{{ address = '{}', max-connections = 12 }}]", server.address());
    let service = Service::new(&site, &server).servers(&servers).back("queue = { length = 34 }");
    let lariat = Lariat::start(&(service.toml() + limits));
    for (name, limit) in [
        ("lariat_connections_limit", 321.0),
        ("lariat_handshakes_in_progress_limit", 45.0),
        ("lariat_session_cache_limit_entries", 1000.0),
        ("lariat_server_connections_limit", 12.0),
        ("lariat_queue_connections_limit", 34.0),
    ] {
        assert_eq!(lariat.sum(name, &[]), limit, "{name}");
    }
    lariat.reload_with(&(service.toml() + &limits.replace("321", "123")));
    lariat.wait_for_metric("lariat_connections_limit", &[], 123.0);
}

#[test]
fn the_last_reload_shows_whether_it_was_refused_and_when_one_was_not() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let toml = Service::new(&site, &server).toml();
    let lariat = Lariat::start(&toml);
    let successful = "lariat_config_last_reload_successful";
    let time = || lariat.sum("lariat_config_last_reload_success_timestamp_seconds", &[]);
    let at_start = time();
    assert_eq!(lariat.sum(successful, &[]), 1.0);
    assert!(at_start > now_seconds() as f64 - 600.0);
    lariat.configure("nonsense");
    assert_ne!(lariat.reload().code(), 0);
    lariat.wait_for_metric(successful, &[], 0.0);
    assert_eq!(time(), at_start);
    lariat.reload_with(&toml);
    lariat.wait_for_metric(successful, &[], 1.0);
    assert!(time() >= at_start);
}
