//! Servers behind can be named by host name too.

use suite::name_server::{NameServer, SERVICE_NAME};
use suite::prelude::*;

#[test]
fn a_host_name_is_resolved() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, format!("localhost:{}", server.port()));
    let _lariat = service.start();
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}

#[test]
fn a_name_that_moves_is_followed() {
    if !geteuid().is_root() {
        // Only root may mount.
        return;
    }
    let (site, server) = (Site::new(), Server::start(http()));
    let path = site.path("hosts");
    let hosts = |address: &str| fs::write(&path, format!("{address} app.test\n")).unwrap();
    // Nobody listens there.
    hosts("127.0.0.9");
    let name = format!("app.test:{}", server.port());
    let service = Service::new(&site, name).back("resolve = '1s'");
    let lariat = Lariat::start_with_file(&path, "/etc/hosts", &service.toml());
    let refused = curl_tls(&site, service.address).run();
    assert_ne!(refused.code(), 0);
    hosts("127.0.0.1");
    until_true("the name's new address", || {
        let reply = curl_tls(&site, service.address).run();
        reply.code() == 0
    });
    // A configuration that is read again keeps the resolved addresses.
    lariat.reload().success();
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}

/// One worker, because each worker counts for itself.
const ONE_WORKER: &str = "[workers]\nthreads = 1\n";

/// Returns the bodies of `count` replies, in alphabetical order.
fn replies(site: &Site, service: &Service, count: usize) -> String {
    let one = |_| curl_tls(site, service.address).run().success();
    let mut all: Vec<String> = (0..count).map(one).collect();
    all.sort();
    all.concat()
}

#[test]
fn servers_of_srv_records_come_and_go_and_keep_what_is_known_of_them() {
    let site = Site::new();
    let servers = ["a", "b", "c", "d"].map(|name| Server::start(Behaviour::Http(name.into())));
    let [a, b, c, d] = servers.each_ref().map(Server::port);
    let (of_a, of_b) = ((1, 30, a, "a.test"), (1, 10, b, "b.test"));
    let of_c = (2, 0, c, "c.test");
    let Some(name_server) = NameServer::start(&[of_c, of_b, of_a]) else {
        // Only root may listen on port 53.
        return;
    };
    let path = site.path("resolv.conf");
    fs::write(&path, name_server.resolv_conf()).unwrap();
    let service = Service::new(&site, &servers[0])
        .servers(&format!("[{{ address = 'srv:{SERVICE_NAME}', instances = 4 }}]"))
        .back("resolve = '1s'");
    let toml = format!("{ONE_WORKER}{}", service.toml());
    let lariat = Lariat::start_with_file(&path, "/etc/resolv.conf", &toml);
    let name = |number: usize| format!("srv:{SERVICE_NAME}#{number}");
    let up = |number: usize, value: f64| {
        let name = name(number);
        lariat.wait_for_metric("lariat_server_up", &[("server", &name)], value);
    };
    // In order of priority, and then of weight.
    (1..=3).for_each(|number| up(number, 1.0));
    up(4, 0.0);
    assert_eq!(replies(&site, &service, 8), "aaaaaabb");
    // A server disabled by hand stays out while another one is replaced.
    let disabled = format!("web/{}", name(2));
    lariat.ask_with("server", &["disable", &disabled]).success();
    up(2, 0.0);
    assert_eq!(replies(&site, &service, 3), "aaa");
    name_server.set(&[of_c, of_b, (1, 7, d, "d.test")]);
    until_true("another server in the first one's place", || replies(&site, &service, 1) == "d");
    assert_eq!(replies(&site, &service, 3), "ddd");
    lariat.reload().success();
    assert_eq!(replies(&site, &service, 3), "ddd");
    // The next priority serves when no server of the first one can.
    name_server.set(&[of_c, of_b]);
    until_true("the server of the next priority", || replies(&site, &service, 1) == "c");
    lariat.ask_with("server", &["enable", &disabled]).success();
    up(2, 1.0);
    assert_eq!(replies(&site, &service, 3), "bbb");
    // Records that are gone all at once are an accident: the known ones stay in use.
    name_server.set(&[]);
    until_true("two answers", || name_server.answers() > 1);
    assert_eq!(replies(&site, &service, 3), "bbb");
    let words = format!("cannot resolve srv:{SERVICE_NAME}: the name has no SRV records");
    lariat.wait_for_stderr(&words);
    assert!(lariat.status().to_string().contains("no SRV record"));
}
