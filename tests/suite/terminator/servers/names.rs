//! Servers behind are named by host name too.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;
use suite::lariat;
use suite::prelude::*;

#[test]
fn a_host_name_is_resolved() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Http("hello".into())));
    let port = server.address().rsplit(':').next().unwrap();
    let service = Service::new(&site, &server).servers(&format!("['localhost:{port}']"));
    let _lariat = Lariat::start(&service.toml());
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}

/// `lariat` with another `/etc/hosts`, which it alone sees.
fn with_hosts(path: &Path) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("mount --bind \"$HOSTS\" /etc/hosts && exec \"$0\" \"$@\"")
        .arg(lariat::command().get_program())
        .env("HOSTS", path);
    command
}

#[test]
fn a_name_that_moves_is_followed() {
    if !geteuid().is_root() {
        // Nobody else may mount.
        return;
    }
    let (site, server) = (Site::new(), Server::start(Behaviour::Http("hello".into())));
    let port = server.address().rsplit(':').next().unwrap();
    let path = site.path("hosts");
    let hosts = |address: &str| fs::write(&path, format!("{address} app.test\n")).unwrap();
    // Nobody listens there.
    hosts("127.0.0.9");
    let service = Service::new(&site, &server)
        .servers(&format!("['app.test:{port}']"))
        .back("resolve = '1s'");
    let (lariat, _stdout, _stderr) = Lariat::start_piped(with_hosts(&path), &service.toml());
    let refused = curl_tls(&site, service.address).run();
    assert_ne!(refused.code(), 0);
    hosts("127.0.0.1");
    until("the name's new address", || {
        let reply = curl_tls(&site, service.address).run();
        (reply.code() == 0).then_some(())
    });
    // A configuration that is read again keeps what is known.
    lariat.reload().success();
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}
