//! An established connection and the client on its other end, for the traffic tests and the fuzz
//! target of records.

use std::sync::Arc;

use testkit::authority::Authority;
use testkit::client::ClientChoice;
use testkit::raw_client::{APPLICATION_DATA, HANDSHAKE, KEY_UPDATES, RawClient};
use tls::handshake::Handshake;
use tls::options::{CertificateSource, Group, ServerOptions, Suite, UnknownName, Version};
use tls::policy::SuiteOrder;
use tls::record::{RECORD_BYTES_MAX, RecordLayout, RecordSealer};
use tls::resumption::{Resumption, ResumptionOptions};
use tls::server::Server;
use tls::traffic::{CONTROL_BYTES_MAX, RecordContent, Traffic};
use wire::client_hello::{self, HelloProgress};

pub(super) const SUITES: [Suite; 6] = [
    Suite::Tls13Aes128GcmSha256,
    Suite::Tls13Aes256GcmSha384,
    Suite::Tls13ChaCha20Poly1305Sha256,
    Suite::EcdheEcdsaAes128GcmSha256,
    Suite::EcdheEcdsaAes256GcmSha384,
    Suite::EcdheEcdsaChaCha20Poly1305Sha256,
];

/// A service for clients of any suite.
pub(super) struct Service {
    server: Server,
    authority_pem: String,
}

impl Service {
    pub(super) fn new() -> Self {
        let authority = Authority::root("records");
        let pem = authority.leaf(&["localhost"]).issue().pem();
        let resumption = Arc::new(Resumption::new(&ResumptionOptions::new([7; 32])));
        let built = Server::build(&options(&pem), "web", &resumption, &SuiteOrder::default());
        Self { server: built.expect("a server").0, authority_pem: authority.pem().to_owned() }
    }

    pub(super) fn connect(&self, suite: Suite) -> Connection {
        let is_tls13 = suite.version() == Version::Tls13;
        let choice = ClientChoice::new(&self.authority_pem, is_tls13, &[suite.code()]);
        Connection::new(&self.server, &choice)
    }
}

fn options(pem: &str) -> ServerOptions {
    ServerOptions {
        unknown_name: UnknownName::Refuse,
        groups: vec![Group::X25519],
        ..ServerOptions::new(vec![CertificateSource::whole("localhost.pem", pem.as_bytes())])
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum PeerEvent {
    Data(Vec<u8>),
    Control,
    CloseNotify,
    /// A fatal alert or a fault: no more records are read.
    End,
}

/// An established connection with its client.
pub(super) struct Connection {
    pub(super) client: RawClient,
    pub(super) traffic: Box<Traffic>,
    pub(super) heard: Vec<PeerEvent>,
    /// Records that the layer sent on its own: types and contents.
    pub(super) said: Vec<(u8, Vec<u8>)>,
    pub(super) hello: Vec<u8>,
}

impl Connection {
    fn new(server: &Server, choice: &ClientChoice) -> Self {
        let mut handshake: Option<Handshake> = None;
        let (mut incoming, mut traffic, mut hello) = (Vec::new(), None, Vec::new());
        let client = RawClient::connect(choice, "localhost", |wire| {
            if hello.is_empty() {
                hello = wire.to_vec();
            }
            incoming.extend_from_slice(wire);
            let mut out = Vec::new();
            let shaking = handshake.get_or_insert_with(|| {
                let Ok(HelloProgress::Hello(hello)) = client_hello::read(wire) else {
                    panic!("no hello");
                };
                let config = server.select(&hello).expect("a shared suite");
                Handshake::new(config, &hello).expect("a handshake")
            });
            let step = shaking.advance(&mut incoming, &mut out).expect("no fault");
            incoming.drain(..step.consumed);
            if step.done {
                let done = handshake.take().expect("it has just advanced");
                traffic = Some(done.finish().expect("a known suite").traffic);
            }
            out
        });
        Self {
            client,
            traffic: traffic.expect("the handshake is over"),
            heard: Vec::new(),
            said: Vec::new(),
            hello,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.heard.last(), Some(PeerEvent::End | PeerEvent::CloseNotify))
    }

    /// Passes bytes to the layer as a connection does: whole records only. Returns the rest.
    pub(super) fn hear<'w>(&mut self, mut wire: &'w [u8]) -> &'w [u8] {
        while !self.is_ended() {
            let heard = match self.traffic.record_bytes(wire) {
                Ok(None) => return wire,
                Err(_) => PeerEvent::End,
                Ok(Some(length)) => {
                    let Some((record, rest)) = wire.split_at_checked(length) else {
                        return wire;
                    };
                    wire = rest;
                    self.hear_record(record)
                }
            };
            self.heard.push(heard);
        }
        wire
    }

    fn hear_record(&mut self, record: &[u8]) -> PeerEvent {
        let mut plain = vec![0xaa; RECORD_BYTES_MAX];
        let heard = match self.traffic.open(record, &mut plain) {
            Ok(RecordContent::Data(bytes)) => PeerEvent::Data(plain[..bytes].to_vec()),
            Ok(RecordContent::Control) => PeerEvent::Control,
            Ok(RecordContent::CloseNotify) => PeerEvent::CloseNotify,
            Ok(RecordContent::FatalAlert(_)) | Err(_) => PeerEvent::End,
        };
        if self.traffic.is_control_due() {
            let mut out = Vec::new();
            self.traffic.seal_control(&mut out).expect("a fresh key");
            assert!((1..=CONTROL_BYTES_MAX).contains(&out.len()));
            assert!(!self.traffic.is_control_due());
            self.said.extend(self.client.open(&out));
        }
        heard
    }

    pub(super) fn say(&mut self, kind: u8, content: &[u8]) {
        let wire = self.client.seal(kind, content, 0);
        self.hear(&wire);
    }

    pub(super) fn update_key(&mut self, wants_reply: bool) {
        self.say(HANDSHAKE, &KEY_UPDATES[usize::from(wants_reply)]);
        self.client.change_sealing_key();
    }

    /// Sends one record of data from the server, which the client opens.
    pub(super) fn reply(&mut self, plain: &[u8]) {
        let RecordLayout { head, tail } = self.traffic.layout();
        let mut record = [&vec![0; head][..], plain, &vec![0; tail]].concat();
        self.traffic.seal(&mut record).expect("a fresh key");
        assert_eq!(self.client.open(&record), [(APPLICATION_DATA, plain.to_vec())]);
    }
}
