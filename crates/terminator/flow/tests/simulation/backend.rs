//! The server behind the state machine, in memory; its TLS is the TLS library's own.

use std::collections::VecDeque;
use std::sync::Arc;

use flow::options::ServerTls;
use testkit::authority::Authority;
use testkit::tls_server::TlsServer;
use tls::client::Client;
use tls::options::{
    ClientOptions, ExpectedName, Group, OfferedAlpn, PemSource, ServerVerification, Suites, Version,
};
use tls::policy::SuiteOrder;

/// Number of servers for a broadcast.
pub(crate) const SERVERS: usize = 4;

/// A server that sends its reply, then ends.
#[derive(Default)]
pub(crate) struct Backend {
    pub(crate) got: Vec<u8>,
    pub(crate) to_flow: VecDeque<u8>,
    pub(crate) got_end: bool,
    pub(crate) is_ended: bool,
    pub(crate) end_seen: bool,
    pub(crate) tls: Option<TlsServer>,
    wire: VecDeque<u8>,
}

impl Backend {
    pub(crate) fn new(reply: &[u8], tls: Option<TlsServer>) -> Self {
        Self { to_flow: reply.iter().copied().collect(), tls, ..Self::default() }
    }

    pub(crate) fn is_shaken(&self) -> bool {
        !self.tls.as_ref().is_some_and(TlsServer::is_handshaking)
    }

    /// Returns the bytes on their way to us: with TLS, the server's records.
    pub(crate) fn wire(&mut self) -> &mut VecDeque<u8> {
        let Some(tls) = &mut self.tls else {
            return &mut self.to_flow;
        };
        let bytes: Vec<u8> = self.to_flow.drain(..).collect();
        tls.send(&bytes);
        if self.is_ended && !tls.is_handshaking() {
            tls.close();
        }
        self.wire.extend(tls.take_wire());
        &mut self.wire
    }
}

/// Returns TLS that verifies servers, with the PROXY header inside.
pub(super) fn back_tls(authority: &Authority) -> ServerTls {
    let authority = PemSource { place: "authority.pem".to_owned(), pem: authority.pem().into() };
    let options = ClientOptions {
        verification: Some(ServerVerification {
            authorities: vec![authority],
            ..ServerVerification::default()
        }),
        pins: Vec::new(),
        name: ExpectedName::Fixed("localhost".to_owned()),
        certificate: None,
        version_min: Version::Tls12,
        version_max: Version::Tls13,
        suites: Suites::Auto,
        groups: vec![Group::X25519],
        alpn: OfferedAlpn::OfClient,
        resumption: true,
        key_log: false,
        certificate_compression: true,
    };
    let built = Client::build(&options, "test", &[None], &SuiteOrder::of_this_cpu());
    ServerTls { client: Arc::new(built.unwrap().0), header_inside: true }
}
