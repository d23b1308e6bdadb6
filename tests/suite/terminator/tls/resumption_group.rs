//! The groups with which sessions that began with ML-KEM are resumed (`resumption.group`).

use rustls::{HandshakeKind, NamedGroup};
use suite::prelude::*;

const CLASSICAL: &str = "[resumption]\ngroup = \"classical\"";

/// Returns the kind and the group of the next handshake of a client, which takes a session along.
fn visit(client: &Client, address: SocketAddr) -> (HandshakeKind, NamedGroup) {
    let mut connection = client.connect(address);
    connection.ask("");
    connection.response();
    (connection.kind(), connection.group())
}

const FULL: (HandshakeKind, NamedGroup) = (HandshakeKind::Full, NamedGroup::X25519MLKEM768);
const HYBRID: (HandshakeKind, NamedGroup) = (HandshakeKind::Resumed, NamedGroup::X25519MLKEM768);
const X25519: (HandshakeKind, NamedGroup) = (HandshakeKind::Resumed, NamedGroup::X25519);

#[test]
fn a_session_that_began_with_ml_kem_is_resumed_without_it_if_that_is_allowed() {
    let (site, _server, service) = set_up(http());
    for tables in [CLASSICAL, "[resumption]\ngroup = \"classical\"\ntls13 = \"cache\""] {
        let lariat = service.start_with(tables);
        let client = Client::new(&site);
        let visits = [(); 4].map(|()| visit(&client, service.address));
        assert_eq!(visits, [FULL, X25519, X25519, X25519], "{tables}");
        drop(lariat);
    }
    let lariat = service.start();
    let client = Client::new(&site);
    assert_eq!([(); 3].map(|()| visit(&client, service.address)), [FULL, HYBRID, HYBRID]);
    // The group with which this session began is unknown.
    lariat.reload_with(&format!("{CLASSICAL}\n{}", service.toml()));
    assert_eq!([(); 2].map(|()| visit(&client, service.address)), [HYBRID, X25519]);
}
