//! TLS is originated towards servers: they are verified, and what they send is relayed.

use std::net::Shutdown;

use suite::prelude::*;

/// A service before one server that speaks TLS, with these keys of `back.tls`.
fn service(site: &Site, server: &SServer, keys: &str) -> Service {
    let plain = Server::start(Behaviour::Hang);
    Service::new(site, &plain)
        .servers(&format!("['{}']", server.address))
        .back(&format!("tls = {{ {keys} }}"))
}

fn trusting(site: &Site) -> String {
    format!("ca = [{:?}]", site.ca())
}

fn page(site: &Site, service: &Service) -> String {
    curl_tls(site, service.address).run().success()
}

/// Whether a request fails, and without a byte of plaintext for the server to misread.
fn is_refused(site: &Site, service: &Service) -> bool {
    !curl_tls(site, service.address).run().status.success()
}

#[test]
fn a_verified_server_is_reached_by_either_version() {
    let site = Site::new();
    for (argument, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let server = SServer::start(&site, "site.pem", &["-www", argument]);
        let service = service(&site, &server, &trusting(&site));
        let _lariat = Lariat::start(&service.toml());
        assert_has(page(&site, &service), version);
    }
}

#[test]
fn a_server_that_cannot_prove_itself_is_refused() {
    let site = Site::new();
    let stranger = Authority::root("somebody else");
    let write = |leaf: Leaf, name: &str| leaf.write(&site.directory, name);
    let own = |names: &[&str]| site.authority.leaf(names);
    write(own(&["127.0.0.1"]).expired().issue(), "expired.pem");
    write(own(&["other.example"]).issue(), "named.pem");
    write(stranger.leaf(&["127.0.0.1"]).issue(), "unknown.pem");
    let revoked = own(&["127.0.0.1"]).issue();
    let list = site.authority.revocation_list(&[&revoked]);
    let list = site.directory.write("ca.crl", &list);
    write(revoked, "revoked.pem");
    let with_list = format!("{}, crl = [{list:?}]", trusting(&site));
    let wrong_pin = format!("sha256//{}=", "A".repeat(43));
    let with_pin = format!("{}, pins = ['{wrong_pin}']", trusting(&site));
    for (certificate, keys, reason, words) in [
        (
            "expired.pem",
            trusting(&site),
            "server-certificate-expired",
            "the chain has expired",
        ),
        (
            "named.pem",
            trusting(&site),
            "server-certificate-name",
            "other.example",
        ),
        (
            "unknown.pem",
            trusting(&site),
            "server-certificate-untrusted",
            "somebody else",
        ),
        (
            "revoked.pem",
            with_list,
            "server-certificate-revoked",
            "ca.crl",
        ),
        (
            "site.pem",
            with_pin,
            "server-certificate-untrusted",
            "none of `pins`",
        ),
    ] {
        let server = SServer::start(&site, certificate, &["-www"]);
        let service = service(&site, &server, &keys);
        let lariat = Lariat::start(&service.toml());
        assert!(is_refused(&site, &service), "{certificate}");
        lariat.wait_for_line(&[reason, words]);
        server.wait_for("alert");
    }
}

#[test]
fn a_stream_that_the_client_cuts_is_no_fault_of_a_server_that_complains() {
    let site = Site::new();
    let server = SServer::start(&site, "site.pem", &["-rev"]);
    let service = service(&site, &server, &trusting(&site));
    let lariat = Lariat::start(&service.toml());
    let mut connection = Client::new(&site).connect(service.address);
    connection.send(b"ab\n");
    assert_eq!(connection.receive(3), b"ba\n");
    connection.socket().shutdown(Shutdown::Write).unwrap();
    // OpenSSL answers with the alert decode_error.
    lariat.wait_for_reason("client-truncated", 1);
}
