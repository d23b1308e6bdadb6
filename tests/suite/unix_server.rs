//! Servers on Unix sockets, by path and in the abstract name space.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use suite::configuration::Service;
use suite::curl::curl_tls;
use suite::lariat::Lariat;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

fn http() -> Behaviour {
    Behaviour::Http("hello".into())
}

#[test]
fn a_server_on_a_path() {
    let site = Site::new();
    let path = site.path("app.sock");
    let server = Server::start_unix(&path, http());
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let service = Service::new(&site, &server);
    let _lariat = Lariat::start(&service.toml());
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}

#[test]
fn a_server_on_an_abstract_name() {
    let site = Site::new();
    let server = Server::start_abstract(&format!("lariat-test-{}", std::process::id()), http());
    let service = Service::new(&site, &server);
    let _lariat = Lariat::start(&service.toml());
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}
