//! Ports and sockets to which the worker process can connect are settled at start.

use suite::lariat::command;
use suite::prelude::*;

fn port(server: &Server) -> String {
    server.port().to_string()
}

fn listing(ports: &[String], service: &Service) -> String {
    let ports = ports.join(", ");
    format!("{}\n[process]\nconnect-ports = [{ports}]\n", service.toml())
}

fn assert_a_restart_is_asked_for(lariat: &Lariat, address: &str) {
    let refused = lariat.reload();
    assert_eq!(refused.code(), 5, "{refused:?}");
    let said = &refused.stderr;
    let sentence = format!("may not connect to {address}\n");
    let is_told = said.contains(&sentence) && said.contains("hint: restart");
    assert!(is_told, "{said}");
}

#[test]
fn a_reload_brings_no_server_at_a_port_that_was_not_listed() {
    let (site, first, spare, other) =
        (Site::new(), Server::start(http()), Server::start(http()), Server::start(http()));
    let service = Service::new(&site, &first);
    let ports = [port(&first), port(&spare)];
    let lariat = Lariat::start(&listing(&ports, &service));
    let get = || curl_tls(&site, service.address).run().success();
    assert_eq!(get(), "hello");
    let rights = &lariat.status()["process"]["rights"];
    // `absent` where the kernel has no such rules: the start has warned of it.
    if rights["tcp_ports"] != "full" {
        lariat.wait_for_stderr("connect to any TCP port");
    }
    let at = |server: &Server| service.clone().servers(&format!("[{:?}]", server.address()));
    // A longer list, or none, changes nothing: the running worker process has the one of its start.
    lariat.configure(&listing(&[port(&other)], &at(&other)));
    assert_a_restart_is_asked_for(&lariat, other.address());
    lariat.configure(&at(&other).toml());
    assert_a_restart_is_asked_for(&lariat, other.address());
    assert_eq!(get(), "hello");
    lariat.configure(&listing(&ports, &at(&spare)));
    drop(first);
    lariat.reload().success();
    assert_eq!(get(), "hello");
    // A list that was left out of a reload still holds.
    lariat.reload_with(&at(&spare).toml());
    lariat.configure(&at(&other).toml());
    assert_a_restart_is_asked_for(&lariat, other.address());
}

#[test]
fn a_reload_brings_no_abstract_socket() {
    let (site, first) = (Site::new(), Server::start(http()));
    let name = format!("lariat-connect-ports-{}", std::process::id());
    let other = Server::start_abstract(&name, Behaviour::Http("other".into()));
    let service = Service::new(&site, &first);
    let lariat = service.start();
    assert_eq!(lariat.status()["process"]["rights"]["tcp_ports"], "off");
    lariat.configure(&Service::new(&site, &other).at(service.address).toml());
    assert_a_restart_is_asked_for(&lariat, other.address());
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}

#[test]
fn a_server_at_a_port_that_is_not_listed_is_named() {
    let (site, folder, server) = (Site::new(), Directory::new(), Server::start(http()));
    let service = Service::new(&site, &server).servers("['127.0.0.1:80', '127.0.0.1:8080']");
    let file = folder.write("lariat.toml", listing(&["80".to_owned()], &service));
    for what in ["check", "serve"] {
        let refused = run(command().arg(what).arg(&file));
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(
            refused.stderr.contains("has port 8080, which")
                && refused.stderr.contains(" --> ")
                && refused.stderr.contains("^^^^^")
                && refused.stderr.contains("hint: list 8080 there too"),
            "{refused:?}"
        );
    }
}
