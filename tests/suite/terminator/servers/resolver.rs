//! Names of servers are resolved by a process without rights, which may die or hang: another takes
//! over, and resolved addresses stay.

use rustix::process::test_kill_process;
use suite::prelude::*;
use suite::process::status_line;

const NAME: &str = "lariat: resolver";

/// Makes a service whose server has a name.
fn service(site: &Site, server: &Server) -> Service {
    Service::new(site, format!("localhost:{}", server.port()))
}

#[test]
fn the_resolver_has_no_rights() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = service(&site, &server);
    let lariat = service.start();
    // The resolver has answered, so its rights are gone.
    Client::new(&site).echo(service.address);
    let resolver = lariat.process(NAME);
    assert_eq!(status_line(resolver, "NoNewPrivs"), "1");
    assert_eq!(status_line(resolver, "Seccomp"), "2", "a filter");
    let capabilities = status_line(resolver, "CapEff");
    assert_eq!(u64::from_str_radix(&capabilities, 16).unwrap(), 0);
    let output = format!("/proc/{}/fd/1", resolver.as_raw_nonzero());
    let output = fs::read_link(output).unwrap();
    assert_eq!(output.to_str(), Some("/dev/null"), "it writes into no log");
    if geteuid().is_root() {
        for key in ["Uid", "Gid"] {
            let ids = status_line(resolver, key);
            assert!(ids.split_whitespace().all(|id| id != "0"), "{key} {ids}");
        }
    }
}

#[test]
fn one_that_died_is_replaced() {
    let (site, first) = (Site::new(), Server::start(Behaviour::Echo));
    let before = service(&site, &first);
    let lariat = before.start();
    Client::new(&site).echo(before.address);
    let resolver = lariat.process(NAME);
    kill_process(resolver, Signal::KILL).unwrap();
    until_true("another resolver", || lariat.process(NAME) != resolver);
    Client::new(&site).echo(before.address);
    // A name that only the new one can have looked up.
    let second = Server::start(Behaviour::Echo);
    let after = service(&site, &second);
    lariat.reload_with(&after.toml());
    Client::new(&site).echo(after.address);
    lariat.wait_for_stderr("the process that resolves names");
}

#[test]
fn one_that_hangs_holds_neither_a_reload_nor_the_end() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let before = service(&site, &server);
    let mut lariat = before.start();
    Client::new(&site).echo(before.address);
    let resolver = lariat.process(NAME);
    kill_process(resolver, Signal::STOP).unwrap();
    let other = Server::start(Behaviour::Echo);
    let text = format!("{}{}", before.toml(), service(&site, &other).named("new").toml());
    lariat.reload_with(&text);
    Client::new(&site).echo(before.address);
    lariat.stop();
    until("the resolver to end", || test_kill_process(resolver).err());
}

#[test]
fn without_names_there_is_none() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let named = service(&site, &server);
    let lariat = named.start();
    let resolver = lariat.process(NAME);
    lariat.reload_with(&Service::new(&site, &server).toml());
    until("the resolver to end", || test_kill_process(resolver).err());
}
