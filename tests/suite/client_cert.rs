//! Client certificates: required or optional, verified against a bundle and revocation lists.

use suite::client::Client;
use suite::configuration::Service;
use suite::lariat::Lariat;
use suite::site::Site;
use testkit::authority::Authority;
use testkit::leaf::Leaf;
use testkit::server::{Behaviour, Server};

struct Club {
    site: Site,
    service: Service,
    member: Leaf,
    revoked: Leaf,
    _server: Server,
}

fn club(mode: &str) -> Club {
    let site = Site::new();
    let authority = Authority::root("club");
    let ca = authority.write(&site.directory, "club.pem");
    let (member, revoked) = (authority.client("member"), authority.client("revoked"));
    let list = site
        .directory
        .write("list.pem", authority.revocation_list(&[&revoked]));
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server).tls(&format!(
        "client-certificates = {{ mode = '{mode}', ca = [{ca:?}], crl = [{list:?}] }}"
    ));
    Club {
        site,
        service,
        member,
        revoked,
        _server: server,
    }
}

/// Whether a client is served: in TLS 1.3 a refusal comes only after its own handshake is over.
fn is_served(client: &Client, service: &Service) -> bool {
    client
        .try_connect(service.address)
        .is_ok_and(|mut connection| {
            connection.send(b"hi");
            connection.end();
            connection.read_to_end().is_ok_and(|echo| echo == b"hi")
        })
}

#[test]
fn a_required_certificate_must_be_there_and_verify() {
    let club = club("required");
    let lariat = Lariat::start(&club.service.toml());

    assert!(is_served(
        &Client::showing(&club.site, &club.member),
        &club.service
    ));
    assert!(!is_served(&Client::new(&club.site), &club.service));
    lariat.wait_for_reason("client-certificate-missing", 1);
    assert!(!is_served(
        &Client::showing(&club.site, &club.revoked),
        &club.service
    ));
    lariat.wait_for_reason("client-certificate-refused", 1);
    let stranger = Authority::root("stranger").client("member");
    assert!(!is_served(
        &Client::showing(&club.site, &stranger),
        &club.service
    ));
    lariat.wait_for_reason("client-certificate-refused", 2);
}

#[test]
fn an_optional_certificate_may_be_missing_but_not_wrong() {
    let club = club("optional");
    let lariat = Lariat::start(&club.service.toml());

    assert!(is_served(
        &Client::showing(&club.site, &club.member),
        &club.service
    ));
    assert!(is_served(&Client::new(&club.site), &club.service));
    assert!(!is_served(
        &Client::showing(&club.site, &club.revoked),
        &club.service
    ));
    lariat.wait_for_reason("client-certificate-refused", 1);
}
