//! The OCSP response in the file beside a certificate is stapled.

use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::openssl::s_client;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn a_response_beside_the_certificate_is_stapled() {
    let site = Site::new();
    let leaf = site.leaf(&["localhost"]);
    leaf.write(&site.directory, "certs/site.pem");
    site.directory
        .write("certs/site.ocsp", site.authority.ocsp_response(&leaf));
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server);
    let service = service.certificates(&format!("[{:?}]", site.path("certs")));
    let _lariat = Lariat::start(&service.toml());

    for version in ["-tls1_2", "-tls1_3"] {
        let answer = s_client(&site, service.address, &[version, "-status"]);
        assert!(
            answer.stdout.contains("OCSP Response Status: successful"),
            "{answer:?}"
        );
        assert!(answer.stdout.contains("Cert Status: good"), "{answer:?}");
    }
}

#[test]
fn without_a_response_nothing_is_stapled() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let _lariat = Lariat::start(&service.toml());

    let answer = s_client(&site, service.address, &["-status"]);
    assert!(
        answer.stdout.contains("OCSP response: no response sent"),
        "{answer:?}"
    );
}
