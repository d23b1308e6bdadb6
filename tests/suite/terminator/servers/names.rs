//! Servers behind are named by host name too.

use suite::prelude::*;

#[test]
fn a_host_name_is_resolved() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Http("hello".into())));
    let port = server.address().rsplit(':').next().unwrap();
    let service = Service::new(&site, &server).servers(&format!("['localhost:{port}']"));
    let _lariat = Lariat::start(&service.toml());
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}
