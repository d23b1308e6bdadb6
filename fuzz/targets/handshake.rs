//! Any script of changes to a client's flights: no panic, an end with one reason, every buffer
//! returned, and nobody gets a byte that the other side did not send.
//!
//! The client is the TLS library's own, so its flights are right; the script cuts, alters, drops,
//! doubles and swaps their records and puts others between them.
#![no_main]

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use flow::events::{Action, Event, ReceiveResult};
use flow::options::{Front, Settings};
use fuzz::{DISTURBANCES, Subject};
use libfuzzer_sys::fuzz_target;
use testkit::authority::Authority;
use testkit::client::{Client, ClientChoice};
use tls::options::{CertificateSource, Group, ServerOptions, Tls13Sessions, UnknownName};
use tls::policy::SuiteOrder;
use tls::resumption::{Resumption, ResumptionOptions};
use tls::server::Server;

const STEPS_MAX: usize = 200;
/// Maximum of rounds until nothing more happens.
const ROUNDS_MAX: usize = 1000;
const EARLY_BYTES_MAX: u32 = 40_000;
const REPLY: [u8; 3000] = [9; 3000];

thread_local! {
    static STAGE: (Rc<Settings>, String) = stage();
}

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, script)) = bytes.split_first() else { return };
    STAGE.with(|(settings, authority_pem)| {
        let choice = ClientChoice::new(authority_pem, flags & 1 == 0, &[]).with_early_data();
        if flags & 2 != 0 {
            // Yields a session, and with it early data.
            let mut first = Play::new(settings, &choice);
            first.settle();
            first.finish();
        }
        let choice = match flags & 4 {
            0 => choice,
            _ => choice.in_small_records(),
        };
        let mut play = Play::new(settings, &choice);
        if flags & 8 != 0 {
            let sent = play.client.send_early(&[5; 700]);
            play.sent.extend(&[5; 700][..sent]);
            play.early = sent;
        }
        play.perform(script);
        play.finish();
    });
});

struct Play {
    subject: Subject,
    client: Client,
    /// Number of bytes that the client has written.
    sent: Vec<u8>,
    /// Number of those in early data, which may be refused.
    early: usize,
    got_by_client: Vec<u8>,
    is_client_broken: bool,
    is_connected: bool,
    reply: usize,
    got_by_server: Vec<u8>,
}

impl Play {
    fn new(settings: &Rc<Settings>, choice: &ClientChoice) -> Self {
        Self {
            subject: Subject::new(settings),
            client: choice.connect("localhost"),
            sent: Vec::new(),
            early: 0,
            got_by_client: Vec::new(),
            is_client_broken: false,
            is_connected: false,
            reply: 0,
            got_by_server: Vec::new(),
        }
    }

    fn perform(&mut self, script: &[u8]) {
        for step in script.chunks_exact(3).take(STEPS_MAX) {
            let (action, a, b) = (step[0] % 12, step[1], step[2]);
            let number = usize::from(u16::from_le_bytes([a, b]));
            match action {
                0 => self.settle(),
                1 => self.deliver(number),
                2..=6 => self.disturb(action - 2, a, b),
                7 => self.send(number % 5000),
                8 => self.say(number),
                9 => self.subject.now += Duration::from_millis(number as u64),
                10 => self.disturb(DISTURBANCES - 1, a, b),
                _ => self.update_keys(),
            }
            self.act();
            self.assert_own_bytes();
        }
    }

    /// Delivers all bytes in transit, both ways, until nothing more happens.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let before = (self.got_by_client.len(), self.got_by_server.len());
            self.client_wants();
            let waiting = self.subject.wire.0.len();
            self.deliver(usize::MAX);
            self.act();
            self.say(usize::MAX);
            self.act();
            let after = (self.got_by_client.len(), self.got_by_server.len());
            let is_quiet = self.subject.flow.front_pending().is_empty() && !self.client_wants();
            if before == after && waiting == self.subject.wire.0.len() && is_quiet {
                return;
            }
        }
    }

    fn client_wants(&mut self) -> bool {
        let wire = self.client.take_wire();
        self.subject.wire.0.extend(&wire);
        !wire.is_empty()
    }

    fn disturb(&mut self, action: u8, a: u8, b: u8) {
        self.client_wants();
        self.subject.wire.disturb(action, a, b);
    }

    fn deliver(&mut self, most: usize) {
        self.client_wants();
        let Some(room) = self.subject.flow.front_room(&mut self.subject.pool) else { return };
        match self.subject.wire.deliver(room, most) {
            0 => self.subject.handle(Event::FrontReceived(ReceiveResult::Nothing)),
            count => self.subject.handle(Event::FrontReceived(ReceiveResult::Bytes(count))),
        }
    }

    /// Sends bytes of the server, and gives the pending bytes to the client.
    fn say(&mut self, most: usize) {
        self.relay(most);
        let bytes = self.subject.flow.front_pending().to_vec();
        if bytes.is_empty() {
            return;
        }
        self.subject.handle(Event::FrontSent(bytes.len()));
        if !self.is_client_broken {
            let heard = self.client.receive(&bytes, &mut self.got_by_client);
            self.is_client_broken = heard.is_err();
        }
    }

    fn relay(&mut self, most: usize) {
        if !self.is_connected {
            return;
        }
        let [first, second] = self.subject.flow.back_pending();
        let bytes = [first, second].concat();
        if !bytes.is_empty() {
            self.got_by_server.extend(&bytes);
            self.subject.handle(Event::BackSent(bytes.len()));
        }
        let wanted = most.min(REPLY.len() - self.reply);
        let Some(pieces) = self.subject.flow.back_room(&mut self.subject.pool) else { return };
        let mut count = 0;
        for piece in pieces {
            let here = piece.len().min(wanted - count);
            piece[..here].fill(REPLY[0]);
            count += here;
        }
        if count == 0 {
            return self.subject.handle(Event::BackReceived(ReceiveResult::Nothing));
        }
        self.reply += count;
        self.subject.handle(Event::BackReceived(ReceiveResult::Bytes(count)));
    }

    fn act(&mut self) {
        while let Some(action) = self.subject.next_action() {
            match action {
                Action::Dial | Action::Redial => {
                    self.is_connected = true;
                    self.subject.handle(Event::BackConnected);
                }
                Action::CloseBack => self.is_connected = false,
                _ => {}
            }
        }
    }

    fn send(&mut self, count: usize) {
        if !self.is_client_broken {
            self.sent.extend(std::iter::repeat_n(7, count));
            self.client.send(&vec![7; count]);
        }
    }

    fn update_keys(&mut self) {
        if self.client.is_established() && !self.is_client_broken {
            // TLS 1.2 has no key update.
            let _refused = self.client.update_keys();
        }
    }

    fn assert_own_bytes(&self) {
        let is_sent = |sent: &[u8]| sent.starts_with(&self.got_by_server);
        assert!(is_sent(&self.sent) || is_sent(&self.sent[self.early..]));
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

fn stage() -> (Rc<Settings>, String) {
    let authority = Authority::root("handshake");
    let pem = authority.leaf(&["localhost"]).issue().pem();
    (settings(&pem), authority.pem().to_owned())
}

fn settings(pem: &str) -> Rc<Settings> {
    let resumption = Arc::new(Resumption::new(&ResumptionOptions::new([7; 32])));
    let options = ServerOptions {
        unknown_name: UnknownName::Refuse,
        groups: vec![Group::X25519],
        tls13_sessions: Tls13Sessions::Cache { early_data_bytes_max: EARLY_BYTES_MAX },
        ..ServerOptions::new(vec![CertificateSource::whole("localhost.pem", pem.as_bytes())])
    };
    let built = Server::build(&options, "web", &resumption, &SuiteOrder::default());
    fuzz::settings(Front::Terminate(Arc::new(built.expect("a server").0)), None)
}
