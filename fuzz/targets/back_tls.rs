//! Any script of changes to a server's flights on a connection whose TLS Lariat originates: no
//! panic, an end with one reason, every buffer returned, and nobody gets a byte that the other side
//! did not send.
//!
//! The server is the TLS library's own, so its flights are right; the script cuts, alters, drops,
//! doubles and swaps their records and puts others between them. Or the server sends the script.
#![no_main]

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use flow::events::{Action, Event, ReceiveResult};
use flow::facts::ConnectionEnd;
use flow::options::{Front, ServerTls, Settings};
use fuzz::{DISTURBANCES, Subject, settings};
use libfuzzer_sys::fuzz_target;
use telemetry::outcome::Reason;
use testkit::authority::Authority;
use testkit::tls_server::{TlsServer, TlsServerChoice};
use tls::client::Client;
use tls::options::{
    CertificateSource, ClientOptions, ExpectedName, Group, OfferedAlpn, PemSource,
    ServerVerification, Suites, Version,
};
use tls::policy::SuiteOrder;

const STEPS_MAX: usize = 200;
/// Maximum of rounds until nothing more happens.
const ROUNDS_MAX: usize = 1000;
/// Maximum number of servers tried for one connection.
const SERVERS_MAX: usize = 3;
const REPLY: [u8; 30_000] = [9; 30_000];

/// Messages of a server in the wrong place: HelloRequest, ServerHelloDone.
const MESSAGES: [&[u8]; 2] = [&[22, 3, 3, 0, 4, 0, 0, 0, 0], &[22, 3, 3, 0, 4, 14, 0, 0, 0]];

thread_local! {
    static STAGE: Stage = Stage::new();
}

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, script)) = bytes.split_first() else { return };
    STAGE.with(|stage| {
        let number = usize::from(flags & 1) + 2 * usize::from(flags >> 1 & 1);
        let choice = match flags & 4 {
            0 => stage.choices[number].clone(),
            _ => stage.choices[number].in_small_records(),
        };
        let settings = stage.settings();
        if flags & 8 != 0 {
            // Yields a session to resume.
            let mut first = Play::new(&settings, &choice);
            first.settle();
            assert_eq!(first.got_by_client.len(), REPLY.len(), "it is served");
            first.finish();
        }
        let mut play = Play::new(&settings, &choice);
        if flags & 16 == 0 {
            play.perform(script);
        } else {
            play.hear_from_server(script);
        }
        play.finish();
    });
});

/// Keys and certificates that all runs share, because making them is slow.
struct Stage {
    client: ClientOptions,
    /// Servers of both versions, lenient and strict.
    choices: [TlsServerChoice; 4],
}

impl Stage {
    fn new() -> Self {
        let authority = Authority::root("back");
        let leaf = authority.leaf(&["localhost"]).issue();
        let own = authority.client("lariat").pem();
        let authority_source =
            PemSource { place: "authority.pem".to_owned(), pem: authority.pem().into() };
        Self {
            client: ClientOptions {
                verification: Some(ServerVerification {
                    authorities: vec![authority_source],
                    ..ServerVerification::default()
                }),
                pins: Vec::new(),
                name: ExpectedName::Fixed("localhost".to_owned()),
                certificate: Some(CertificateSource::whole("own.pem", own.as_bytes())),
                version_min: Version::Tls12,
                version_max: Version::Tls13,
                suites: Suites::Auto,
                groups: vec![Group::X25519, Group::Secp384r1],
                alpn: OfferedAlpn::OfClient,
                resumption: true,
                key_log: false,
                certificate_compression: true,
            },
            choices: [
                TlsServerChoice::new(&leaf, false),
                TlsServerChoice::new(&leaf, true),
                TlsServerChoice::demanding(&leaf, false, &authority),
                TlsServerChoice::demanding(&leaf, true, &authority),
            ],
        }
    }

    /// Returns settings without sessions of earlier runs.
    fn settings(&self) -> Rc<Settings> {
        let order = SuiteOrder::default();
        let built = Client::build(&self.client, "web", &[None], &order);
        let client = Arc::new(built.expect("a client").0);
        settings(Front::Plain(Default::default()), Some(ServerTls { client, header_inside: false }))
    }
}

struct Play<'c> {
    subject: Subject,
    choice: &'c TlsServerChoice,
    /// Connected server, unless the script is its output.
    server: Option<TlsServer>,
    servers: usize,
    is_server_broken: bool,
    sent: usize,
    got_by_server: Vec<u8>,
    got_by_client: Vec<u8>,
}

const OF_CLIENT: u8 = 7;

impl<'c> Play<'c> {
    fn new(settings: &Rc<Settings>, choice: &'c TlsServerChoice) -> Self {
        let mut play = Self {
            subject: Subject::new(settings),
            choice,
            server: None,
            servers: 0,
            is_server_broken: false,
            sent: 0,
            got_by_server: Vec::new(),
            got_by_client: Vec::new(),
        };
        play.act();
        play
    }

    fn perform(&mut self, script: &[u8]) {
        for step in script.chunks_exact(3).take(STEPS_MAX) {
            let (action, a, b) = (step[0] % 14, step[1], step[2]);
            let number = usize::from(u16::from_le_bytes([a, b]));
            match action {
                0 => self.settle(),
                1 => self.exchange(number),
                2 => self.send(number % 5000),
                3 => self.hear_client(),
                4 => self.subject.now += Duration::from_millis(number as u64),
                5 => self.update_keys(),
                6 => self.subject.wire.put(MESSAGES[number % MESSAGES.len()]),
                7 => self.end_server(number),
                action => {
                    self.fetch();
                    self.subject.wire.disturb((action - 8) % DISTURBANCES, a, b);
                }
            }
            self.act();
            self.assert_own_bytes();
        }
    }

    /// Sends the script as the server's output, cut into pieces.
    fn hear_from_server(&mut self, script: &[u8]) {
        self.server = None;
        for piece in script.chunks(1000) {
            self.subject.wire.0.extend(piece);
            self.exchange(usize::MAX);
            self.act();
        }
        self.assert_own_bytes();
    }

    /// Delivers all bytes in transit, both ways, until nothing more happens.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let before = (self.got_by_client.len(), self.got_by_server.len());
            let waiting = self.subject.wire.0.len();
            self.exchange(usize::MAX);
            self.act();
            self.hear_client();
            self.act();
            let after = (self.got_by_client.len(), self.got_by_server.len());
            let is_quiet = self.subject.flow.back_pending().concat().is_empty() && !self.fetch();
            if before == after && waiting == self.subject.wire.0.len() && is_quiet {
                return;
            }
        }
    }

    /// Puts the server's output in transit; returns whether there was any.
    fn fetch(&mut self) -> bool {
        let wire = self.server.as_mut().map(TlsServer::take_wire);
        let wire = wire.unwrap_or_default();
        self.subject.wire.0.extend(&wire);
        !wire.is_empty()
    }

    /// Gives all pending bytes to the server, and delivers at most `most` of the server's.
    fn exchange(&mut self, most: usize) {
        let pending = self.subject.flow.back_pending().concat();
        if !pending.is_empty() {
            self.subject.handle(Event::BackSent(pending.len()));
            if let Some(server) = self.server.as_mut().filter(|_| !self.is_server_broken) {
                let was_handshaking = server.is_handshaking();
                let heard = server.hear(&pending, &mut self.got_by_server);
                self.is_server_broken = heard.is_err();
                if was_handshaking && !server.is_handshaking() && heard.is_ok() {
                    server.send(&REPLY);
                }
            }
        }
        self.fetch();
        let Some(mut pieces) = self.subject.flow.back_room(&mut self.subject.pool) else { return };
        let room = pieces.next().expect("there is room");
        let count = self.subject.wire.deliver(room, most);
        drop(pieces);
        self.subject.handle(Event::BackReceived(match count {
            0 => ReceiveResult::Nothing,
            count => ReceiveResult::Bytes(count),
        }));
    }

    /// Gives all pending bytes to the client.
    fn hear_client(&mut self) {
        let bytes = self.subject.flow.front_pending().to_vec();
        if !bytes.is_empty() {
            self.got_by_client.extend(&bytes);
            self.subject.handle(Event::FrontSent(bytes.len()));
        }
    }

    fn send(&mut self, count: usize) {
        let Some(room) = self.subject.flow.front_room(&mut self.subject.pool) else { return };
        let count = count.min(room.len());
        room[..count].fill(OF_CLIENT);
        if count > 0 {
            self.sent += count;
            self.subject.handle(Event::FrontReceived(ReceiveResult::Bytes(count)));
        }
    }

    fn update_keys(&mut self) {
        let server = self.server.as_mut().filter(|_| !self.is_server_broken);
        if let Some(server) = server.filter(|one| one.is_tls13() && !one.is_handshaking()) {
            server.change_keys();
        }
    }

    /// Ends the server's stream in one of four ways.
    fn end_server(&mut self, how: usize) {
        match how % 4 {
            0 => self.subject.handle(Event::BackReceived(ReceiveResult::End)),
            1 => self.subject.handle(Event::BackReceived(ReceiveResult::Failed)),
            2 => self.subject.handle(Event::BackRefused),
            _ => {
                let server = self.server.as_mut().filter(|_| !self.is_server_broken);
                if let Some(server) = server.filter(|one| !one.is_handshaking()) {
                    server.close();
                }
            }
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.subject.next_action() {
            match action {
                Action::Dial | Action::Redial => self.connect(),
                Action::CloseBack => self.server = None,
                _ => {}
            }
        }
    }

    fn connect(&mut self) {
        let fault = self.subject.flow.take_back_fault(&mut self.subject.pool);
        self.subject.wire.0.clear();
        self.servers += 1;
        if self.servers > SERVERS_MAX {
            self.server = None;
            let fault = fault.unwrap_or_else(|| ConnectionEnd::new(Reason::ServerTlsTimeout));
            return self.subject.handle(Event::DialFailed(fault));
        }
        self.is_server_broken = false;
        // A server whose handshake failed received no bytes of the client.
        self.server = Some(self.choice.accept());
        self.subject.handle(Event::ServerChosen { server: 0, is_local: false });
        self.subject.handle(Event::BackConnected);
    }

    fn assert_own_bytes(&self) {
        let is_of_client = |byte: &u8| *byte == OF_CLIENT;
        assert!(self.got_by_server.len() <= self.sent);
        assert!(self.got_by_server.iter().all(is_of_client));
        assert!(REPLY.starts_with(&self.got_by_client));
    }

    /// Asserts that the end of the client ends the connection in any case.
    fn finish(&mut self) {
        self.assert_own_bytes();
        self.subject.leave();
        self.act();
        self.subject.assert_over();
    }
}
