//! Clients with certificates resume, and are verified again each time.

use suite::prelude::*;
use suite::proxy_header::ProxyHeader;

struct Club {
    site: Site,
    authority: Authority,
    member: Leaf,
    service: Service,
    server: Server,
}

/// A service that wants certificates of the club's, none of which is revoked.
fn club() -> Club {
    let (site, authority) = (Site::new(), Authority::root("club"));
    let ca = authority.write(&site.directory, "club.pem");
    let list = site.write("list.pem", authority.revocation_list(&[]));
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server)
        .tls(&format!(
            "client-certificates = {{ mode = 'required', ca = [{ca:?}], crl = [{list:?}] }}"
        ))
        .back("send-proxy = { version = 'v2', client-certificate = 'der' }");
    Club { member: authority.client("member"), site, authority, service, server }
}

#[test]
fn a_server_is_told_of_the_certificate_at_a_resumption_too() {
    let club = club();
    let lariat = club.service.start();
    let client = Client::showing(&club.site, &club.member);
    assert_eq!(client.visit(club.service.address), HandshakeKind::Full);
    assert_eq!(client.visit(club.service.address), HandshakeKind::Resumed);
    let headers = [1, 2].map(|count| {
        let bytes = club.server.wait_for_end(count).bytes;
        ProxyHeader::read(&bytes).unwrap()
    });
    let [first, second] = headers.map(|header| header.ssl());
    // PP2_CLIENT_SSL, _CERT_CONN and _CERT_SESS; the last is what a resumption has.
    assert_eq!((first.client, second.client), (7, 5));
    assert_eq!((first.verify, second.verify), (0, 0));
    assert_eq!(second.text(0x22).as_deref(), Some("member"));
    lariat.wait_for_line(&["\"handshake\":\"psk\"", "\"client_cn\":\"member\""]);
}

#[test]
fn a_client_that_is_revoked_is_refused_though_it_has_a_session() {
    let club = club();
    let lariat = club.service.start();
    let (member, other) = (
        Client::showing(&club.site, &club.member),
        Client::showing(&club.site, &club.authority.client("other")),
    );
    for client in [&member, &other] {
        assert_eq!(client.visit(club.service.address), HandshakeKind::Full);
        assert_eq!(client.visit(club.service.address), HandshakeKind::Resumed);
    }
    let list = club.authority.revocation_list(&[&club.member]);
    fs::write(club.site.path("list.pem"), list).unwrap();
    lariat.reload().success();
    assert_eq!(other.visit(club.service.address), HandshakeKind::Resumed);
    // In TLS 1.3 the client's own handshake is over before the server looks at its certificate.
    if let Ok(mut connection) = member.try_connect(club.service.address) {
        assert!(connection.read_to_end().is_err());
    }
    lariat.wait_for_reason("client-certificate-revoked", 1);
    let labels = [("reason", "client-certificate")];
    lariat.wait_for_metric("lariat_resumption_misses_total", &labels, 1.0);
}
