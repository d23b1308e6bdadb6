//! Client certificates: required or optional, verified against a bundle and revocation lists.

use suite::prelude::*;

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
    lariat.wait_for_reason("client-certificate-revoked", 1);
    let line = lariat.wait_for_line(&["client-certificate-revoked"]);
    let detail = line["detail"].as_str().unwrap_or_default();
    for words in ["list.pem", "CN=revoked", "CN=club"] {
        assert!(detail.contains(words), "no {words}: {line}");
    }
    let stranger = Authority::root("stranger").client("member");
    assert!(!is_served(
        &Client::showing(&club.site, &stranger),
        &club.service
    ));
    lariat.wait_for_reason("client-certificate-refused", 1);
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
    lariat.wait_for_reason("client-certificate-revoked", 1);
}

/// A service for clients of an intermediate authority, with lists of it and of its root.
fn chained(
    site: &Site,
    server: &Server,
    root: &Authority,
    lists: &[String],
    more: &str,
) -> Service {
    let ca = root.write(&site.directory, "root.pem");
    let list = site.directory.write("lists.pem", lists.concat());
    Service::new(site, server).tls(&format!(
        "client-certificates = {{ mode = 'required', ca = [{ca:?}], crl = [{list:?}], {more} }}"
    ))
}

#[test]
fn a_client_below_a_revoked_intermediate_is_refused_from_the_reload_on() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let root = Authority::root("club root");
    let between = root.intermediate("club intermediate");
    let lists = |serials: &[u64]| {
        let of_root = root.revocation_list_for(serials, 1_704_153_600, 4_860_000_000);
        [between.revocation_list(&[]), of_root]
    };
    let service = chained(&site, &server, &root, &lists(&[]), "");
    let lariat = Lariat::start(&service.toml());
    let client = Client::showing(&site, &between.client("member"));
    assert!(is_served(&client, &service));

    let revoking = lists(&[between.serial()]).concat();
    site.directory.write("lists.pem", revoking);
    lariat.reload().success();
    // It has a session, which ends with the intermediate.
    assert!(!is_served(&client, &service));
    lariat.wait_for_reason("client-certificate-revoked", 1);
}

#[test]
fn a_list_past_its_next_update_refuses_unless_it_is_accepted() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let root = Authority::root("club");
    let now = now_seconds();
    let list = [root.revocation_list_for(&[], now - 60, now + 3)];
    let service = chained(&site, &server, &root, &list, "");
    let lariat = Lariat::start(&service.toml());
    let client = Client::showing(&site, &root.client("member"));
    until("the list to end", || {
        (now_seconds() >= now + 3).then_some(())
    });
    assert!(!is_served(&client, &service));
    lariat.wait_for_reason("crl-expired", 1);
    let line = lariat.wait_for_line(&["crl-expired"]);
    assert_eq!(line["fault"], "host", "{line}");
    lariat.wait_for_metric("lariat_crls_expired", &[("service", "web")], 1.0);
    until("a warning", || {
        lariat.stderr().contains("are refused").then_some(())
    });

    let lenient = chained(&site, &server, &root, &list, "crl-expired = 'accept'");
    let other = Lariat::start(&lenient.toml());
    assert!(is_served(&client, &lenient));
    let said = other.stderr();
    assert!(said.contains("past its nextUpdate"), "{said}");
}
