//! A service listens on several addresses of every kind, and there may be many services.

use suite::prelude::*;

#[test]
fn ipv4_ipv6_and_unix_addresses_reach_one_service() {
    let (site, server) = (Site::new(), Server::start(http()));
    let (four, six) = (free_address(), free_address().port());
    let unix = site.path("front.sock");
    let service = Service::new(&site, &server)
        .listen(&format!("['{four}', '[::1]:{six}', 'unix:{}']", unix.display()));
    let _lariat = service.start();
    assert_eq!(curl_tls(&site, four).run().success(), "hello");
    let six = format!("[::1]:{six}").parse().unwrap();
    assert_eq!(curl_tls(&site, six).run().success(), "hello");
    let ca = site.ca();
    let through_unix = ["--unix-socket", unix.to_str().unwrap(), "--cacert", ca.to_str().unwrap()];
    let answer = curl().args(&through_unix).url("https://localhost/").run();
    assert_eq!(answer.success(), "hello");
}

#[test]
fn fast_open_and_backlog_are_taken() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let workers = "[workers]\nthreads = 2\nbacklog = 64\nfast-open = 64\n";
    let _lariat = service.start_with(workers);
    let curl = curl_tls(&site, service.address).args(&["--tcp-fastopen"]);
    assert_eq!(curl.run().success(), "hello");
}
