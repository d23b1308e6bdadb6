//! Application protocols are agreed on, in our order.

use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::openssl::s_client;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn the_first_of_ours_that_the_client_offers() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server).tls("alpn = ['h2', 'http/1.1']");
    let lariat = Lariat::start(&service.toml());

    for (offered, chosen) in [("http/1.1,h2", "h2"), ("http/1.1", "http/1.1")] {
        let answer = s_client(&site, service.address, &["-alpn", offered]);
        let line = format!("ALPN protocol: {chosen}\n");
        assert!(answer.stdout.contains(&line), "{offered}: {answer:?}");
    }
    let none = s_client(&site, service.address, &[]);
    assert!(none.stdout.contains("No ALPN negotiated"), "{none:?}");
    let other = s_client(&site, service.address, &["-alpn", "imap"]);
    assert!(
        other.stderr.contains("no application protocol"),
        "{other:?}"
    );
    lariat.wait_for_reason("no-common-parameters", 1);
}
