//! What records of tests were planned to do.

use measure::choice::{
    ClientSelection, ConnectionEnding, Group, Handshake, Signature, Suite, Verify, Versions,
};
use measure::record::{Arrival, Plan, Request, Tls};

/// 32 connections at once, each with a full handshake.
pub(crate) fn plan() -> Plan {
    Plan {
        sources: Vec::new(),
        proxy_header: None,
        tls: Some(offered()),
        request: Some(Request {
            method: "GET".to_owned(),
            path: "/1k".to_owned(),
            headers: Vec::new(),
            body_bytes: 0,
        }),
        ending: ConnectionEnding::Close,
        arrival: Arrival::Closed(32),
        spacing: None,
        clients: 32,
        client_selection: ClientSelection::RoundRobin,
        requests_per_session: None,
        requests_per_connection: Some(1),
        think_time_ns: 0,
        requests_per_arrival: None,
        duration_ns: 10_000_000_000,
        count_max: None,
        warm_up_ns: 0,
        timeout_ns: 10_000_000_000,
        threads: 1,
        cpus: Vec::new(),
        seed: 0,
    }
}

fn offered() -> Tls {
    Tls {
        versions: Versions::Both,
        handshakes: vec![Handshake::Full],
        suites: vec![Suite::Aes128Gcm13],
        groups: vec![Group::X25519],
        signatures: vec![Signature::EcdsaP256],
        alpn: Vec::new(),
        server_name: None,
        client_certificate: false,
        verify: Verify::Off,
        tickets: true,
        session_ids: true,
        early_data: false,
    }
}
