//! The state machine against a real TLS client and a backend in memory, in virtual time: bytes
//! are cut, delayed and reordered between the two sides by a seed, which repeats a failure.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::actions::Action;
use flow::buffer::Pool;
use flow::connection::Flow;
use flow::facts::{Ending, Facts, Route};
use flow::options::{SendProxy, Settings, Timeouts};
use telemetry::outcome::{HandshakeKind, Reason};
use testkit::authority::Authority;
use testkit::client::{Client, ClientChoice};
use tls::options::{
    CertificateSource, ClientMode, ClientVerification, Group, ServerOptions, Suites, UnknownName,
    Version,
};
use tls::policy::SuiteOrder;
use tls::resumption::{Resumption, ResumptionOptions};
use tls::server::Server;

const TIMEOUTS: Timeouts = Timeouts {
    handshake: Duration::from_secs(10),
    dial: Duration::from_secs(3),
    idle: Duration::from_secs(60),
};

/// What all runs share; making keys is slow.
struct Stage {
    settings: Rc<Settings>,
    authority_pem: String,
}

impl Stage {
    fn new(send_proxy: SendProxy) -> Self {
        let authority = Authority::root("flow");
        let leaf = authority.leaf(&["localhost"]).issue();
        let options = ServerOptions {
            certificates: vec![CertificateSource {
                place: "localhost.pem".to_owned(),
                chain_pem: leaf.pem().into_bytes(),
                key_pem: None,
                key_place: None,
                ocsp_der: None,
            }],
            unknown_name: UnknownName::Refuse,
            version_min: Version::Tls12,
            version_max: Version::Tls13,
            suites: Suites::Auto,
            groups: Group::ALL.to_vec(),
            alpn: Vec::new(),
            client: ClientVerification {
                mode: ClientMode::None,
                authorities: Vec::new(),
                crls: Vec::new(),
            },
            resumption: true,
        };
        let resumption = Arc::new(Resumption::new(&ResumptionOptions {
            secret: [7; 32],
            ticket_rotate: Duration::from_secs(3600),
            ticket_keep: 2,
            session_entries: 100,
            session_bytes: 100_000,
            session_lifetime: Duration::from_secs(3600),
        }));
        let (server, warnings) =
            Server::build(&options, "test", &resumption, &SuiteOrder::measure()).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let settings = Settings {
            tls: Arc::new(server),
            send_proxy,
            timeouts: TIMEOUTS,
        };
        Self {
            settings: Rc::new(settings),
            authority_pem: authority.pem().to_owned(),
        }
    }

    fn choice(&self, is_tls13: bool, suites: &[u16]) -> ClientChoice {
        ClientChoice::new(&self.authority_pem, is_tls13, suites)
    }
}

/// xorshift64*: all that a run leaves to chance comes from here.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        mixed as usize % limit.max(1)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// One connection with both its neighbours.
struct Run {
    flow: Flow,
    pool: Pool,
    chance: Chance,
    now: Instant,
    client: Client,
    /// On its way from the client to us, and back.
    to_flow: VecDeque<u8>,
    from_flow: VecDeque<u8>,
    client_got: Vec<u8>,
    client_fault: Option<String>,
    client_fin: bool,
    front_shut: bool,
    backend: Option<Backend>,
    reply: Vec<u8>,
    actions: Vec<Action>,
}

/// A server that sends its reply, then ends.
#[derive(Default)]
struct Backend {
    got: Vec<u8>,
    to_flow: VecDeque<u8>,
    got_end: bool,
    is_ended: bool,
    end_seen: bool,
}

impl Run {
    fn new(stage: &Stage, choice: &ClientChoice, seed: u64, reply: Vec<u8>) -> Self {
        let now = Instant::now();
        let source = Some("192.0.2.1:1234".parse().unwrap());
        let destination = Some("192.0.2.2:443".parse().unwrap());
        let facts = Facts::new(
            seed,
            Route {
                source,
                destination,
            },
            now,
        );
        Self {
            flow: Flow::new(Rc::clone(&stage.settings), false, facts),
            pool: Pool::new(),
            chance: Chance::new(seed),
            now,
            client: choice.connect("localhost"),
            to_flow: VecDeque::new(),
            from_flow: VecDeque::new(),
            client_got: Vec::new(),
            client_fault: None,
            client_fin: false,
            front_shut: false,
            backend: None,
            reply,
            actions: Vec::new(),
        }
    }

    /// One thing happens, chosen by chance.
    fn step(&mut self) {
        self.now += Duration::from_micros(self.chance.below(1000) as u64);
        match self.chance.below(5) {
            0 => self.client_to_flow(),
            1 => self.flow_to_client(),
            2 => self.backend_to_flow(),
            3 => self.flow_to_backend(),
            _ => self.client_turn(),
        }
        self.act();
    }

    fn client_turn(&mut self) {
        self.to_flow.extend(self.client.take_wire());
        let count = self.chance.below(self.from_flow.len() + 1);
        let bytes: Vec<u8> = self.from_flow.drain(..count).collect();
        if let Err(fault) = self.client.receive(&bytes, &mut self.client_got) {
            self.client_fault.get_or_insert(fault);
        }
    }

    fn client_to_flow(&mut self) {
        let Some(room) = self.flow.front_room(&mut self.pool) else {
            return;
        };
        let most = room.len().min(self.to_flow.len());
        let count = if self.chance.one_in(2) {
            most
        } else {
            self.chance.below(most + 1)
        };
        if count == 0 {
            self.flow.front_received_nothing(&mut self.pool);
            if self.client_fin && self.to_flow.is_empty() {
                self.flow.front_ended(&mut self.pool);
            }
            return;
        }
        for (to, from) in room.iter_mut().zip(self.to_flow.drain(..count)) {
            *to = from;
        }
        self.flow.front_received(count, self.now, &mut self.pool);
    }

    fn flow_to_client(&mut self) {
        let pending = self.flow.front_pending();
        let count = self.chance.below(pending.len() + 1);
        if count > 0 {
            self.from_flow.extend(&pending[..count]);
            self.flow.front_sent(count, self.now, &mut self.pool);
        }
    }

    fn backend_to_flow(&mut self) {
        let Some(backend) = &mut self.backend else {
            return;
        };
        let Some(pieces) = self.flow.back_room(&mut self.pool) else {
            return;
        };
        let wanted = self.chance.below(backend.to_flow.len() + 1);
        let mut count = 0;
        for piece in pieces {
            let here = piece.len().min(wanted - count);
            for (to, from) in piece.iter_mut().zip(backend.to_flow.drain(..here)) {
                *to = from;
            }
            count += here;
        }
        let is_last = backend.is_ended && backend.to_flow.is_empty();
        if count > 0 {
            self.flow.back_received(count, self.now, &mut self.pool);
        } else {
            self.flow.back_received_nothing(&mut self.pool);
        }
        // The end may be told with the last bytes or apart from them.
        if is_last && !backend.end_seen && (count == 0 || self.chance.one_in(2)) {
            backend.end_seen = true;
            self.flow.back_ended(&mut self.pool);
        }
    }

    fn flow_to_backend(&mut self) {
        let [first, second] = self.flow.back_pending();
        let count = self.chance.below(first.len() + second.len() + 1);
        let Some(backend) = self.backend.as_mut().filter(|_| count > 0) else {
            return;
        };
        backend.got.extend(first.iter().chain(second).take(count));
        self.flow.back_sent(count, self.now, &mut self.pool);
    }

    fn act(&mut self) {
        while let Some(action) = self.flow.poll_action() {
            self.actions.push(action);
            match action {
                Action::Dial | Action::Redial => {
                    let to_flow = self.reply.iter().copied().collect();
                    self.backend = Some(Backend {
                        to_flow,
                        ..Backend::default()
                    });
                    self.flow.dial_connected(self.now, &mut self.pool);
                }
                Action::ShutdownBack => {
                    self.backend.as_mut().expect("connected").got_end = true;
                }
                Action::ShutdownFront => self.front_shut = true,
                Action::CloseBack => self.backend = None,
                Action::ResetBack | Action::Close => {}
            }
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&mut Self) -> bool) {
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!(
            "never came to pass: {what}; ending {:?}",
            self.flow.ending()
        );
    }

    fn backend_got(&self) -> &[u8] {
        self.backend.as_ref().map_or(&[], |backend| &backend.got)
    }

    fn reason(&self) -> Option<Reason> {
        self.flow.ending().map(|ending| ending.reason)
    }

    /// What holds of every connection that is over.
    fn assert_over(&self) {
        assert!(self.flow.is_over());
        assert!(self.flow.ending().is_some(), "an end has a reason");
        assert_eq!(self.flow.deadline(), None);
        assert_eq!(self.pool.in_use(), 0, "every buffer has gone back");
        let closes = self
            .actions
            .iter()
            .filter(|action| **action == Action::Close);
        assert_eq!(closes.count(), 1);
    }
}

const TLS13: [u16; 3] = [0x1301, 0x1302, 0x1303];
const TLS12: [u16; 3] = [0xc02b, 0xc02c, 0xcca9];

/// Sizes around the edges of a record, of the buffers, and none.
fn size(chance: &mut Chance) -> usize {
    match chance.below(8) {
        0 => 0,
        1 => 1,
        2 => 16_383 + chance.below(3),
        3 => 262_143 + chance.below(3),
        4 => chance.below(600_000),
        _ => chance.below(40_000),
    }
}

#[test]
fn no_byte_is_lost_or_reordered_at_any_split() {
    let stage = Stage::new(SendProxy::Off);
    let suites = TLS13.iter().chain(&TLS12);
    for (index, suite) in suites.enumerate() {
        let is_tls13 = index < TLS13.len();
        let choice = stage.choice(is_tls13, &[*suite]);
        for seed in 0..12 {
            exchange(&stage, &choice, is_tls13, seed);
        }
    }
}

fn exchange(stage: &Stage, choice: &ClientChoice, is_tls13: bool, seed: u64) {
    let mut chance = Chance::new(seed + 1);
    let (request, reply) = (size(&mut chance), size(&mut chance));
    let (request, reply) = (chance.bytes(request), chance.bytes(reply));
    let mut run = Run::new(stage, choice, seed, reply.clone());
    run.until("handshake", |run| run.client.is_established());
    for chunk in request.chunks(request.len() / 3 + 1) {
        run.client.send(chunk);
        if is_tls13 && run.chance.one_in(2) {
            run.client.update_keys().unwrap();
        }
        for _ in 0..run.chance.below(50) {
            run.step();
        }
    }
    let client_first = run.chance.one_in(2);
    if client_first {
        run.client.close();
        run.until("request", |run| {
            run.backend.as_ref().is_some_and(|b| b.got_end)
        });
        assert!(
            run.backend_got() == request,
            "seed {seed}: the request arrived changed"
        );
    }
    run.until("all of the request", |run| {
        run.backend_got().len() == request.len()
    });
    assert!(
        run.backend_got() == request,
        "seed {seed}: the request arrived changed"
    );
    run.backend.as_mut().unwrap().is_ended = true;
    run.until("reply", |run| run.client.is_closed_by_server());
    assert_eq!(run.client_fault, None, "seed {seed}");
    assert!(
        run.client_got == reply,
        "seed {seed}: the reply arrived changed"
    );
    run.client_fin = true;
    run.until("the end", |run| run.flow.is_over());
    run.assert_over();
    let wanted = if client_first {
        Reason::ClientClosed
    } else {
        Reason::BackendClosed
    };
    assert_eq!(run.reason(), Some(wanted), "seed {seed}");
    let facts = run.flow.facts();
    assert_eq!(facts.bytes_up, request.len() as u64);
    assert_eq!(facts.bytes_down, reply.len() as u64);
}

#[test]
fn a_handshake_cut_into_small_records_is_made_all_the_same() {
    let stage = Stage::new(SendProxy::Off);
    for is_tls13 in [true, false] {
        let choice = stage.choice(is_tls13, &[]).in_small_records();
        for seed in 0..12 {
            exchange(&stage, &choice, is_tls13, seed);
        }
    }
}

#[test]
fn a_message_that_is_never_finished_harms_nobody() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::new(&stage, &stage.choice(false, &[]), 2, Vec::new());
    run.to_flow.extend(run.client.take_wire());
    run.until("the server's flight", |run| {
        run.client_to_flow();
        run.flow_to_client();
        !run.from_flow.is_empty() && run.flow.front_pending().is_empty()
    });
    // One byte of a ClientKeyExchange, then one byte of a record's header, and so on.
    for byte in [
        &[22, 3, 3, 0, 1, 16][..],
        &[22],
        &[3, 3, 0],
        &[1, 0],
        &[22, 3, 3, 0xff, 0xff],
    ] {
        run.to_flow.extend(byte);
        while !run.to_flow.is_empty() && !run.flow.is_over() {
            run.client_to_flow();
        }
    }
    run.until("the end", |run| {
        run.client_fin = true;
        run.flow.is_over()
    });
    assert_eq!(run.reason(), Some(Reason::RecordInvalid));
    run.assert_over();
}

#[test]
fn a_server_that_refuses_an_upload_is_heard_to_its_last_byte() {
    let stage = Stage::new(SendProxy::Off);
    for (has_fin, wanted) in [(true, Reason::BackendClosed), (false, Reason::BackendReset)] {
        let mut run = Run::new(&stage, &stage.choice(true, &[]), 21, vec![7; 3000]);
        run.until("handshake", |run| {
            run.client.is_established() && run.backend.is_some()
        });
        run.client.send(&[1; 300_000]);
        run.client_turn();
        run.flow.back_refused(&mut run.pool);
        run.until("the answer", |run| run.client_got.len() == 3000);
        if has_fin {
            run.flow.back_ended(&mut run.pool);
        } else {
            run.flow.back_failed(run.now, &mut run.pool);
        }
        run.act();
        run.until("the end of TCP", |run| {
            run.front_shut && run.from_flow.is_empty()
        });
        assert_eq!(run.client.is_closed_by_server(), has_fin);
        run.client_fin = true;
        run.until("the end", |run| run.flow.is_over());
        assert_eq!(run.reason(), Some(wanted));
        run.assert_over();
    }
}

#[test]
fn whatever_breaks_whenever_there_is_one_end_and_no_buffer_is_kept() {
    let stage = Stage::new(SendProxy::Off);
    let choices = [stage.choice(true, &[]), stage.choice(false, &[])];
    let mut reasons = std::collections::HashSet::new();
    for seed in 0..400 {
        let mut chance = Chance::new(seed + 77);
        let reply = size(&mut chance);
        let reply = chance.bytes(reply);
        let mut run = Run::new(&stage, &choices[seed as usize % 2], seed, reply);
        let request = chance.bytes(1000);
        run.client.send(&request);
        for _ in 0..chance.below(120) {
            run.step();
        }
        break_something(&mut run, chance.below(6));
        run.act();
        // Nobody moves any more but the clock.
        for _ in 0..4 {
            run.now += TIMEOUTS.idle;
            run.flow.handle_timeout(run.now, &mut run.pool);
            run.act();
        }
        run.assert_over();
        reasons.insert(run.reason().unwrap());
    }
    assert!(reasons.len() >= 7, "the seeds reach many ends: {reasons:?}");
}

fn break_something(run: &mut Run, what: usize) {
    let (now, pool) = (run.now, &mut run.pool);
    match what {
        0 => run.flow.front_failed(pool),
        1 => run.flow.front_ended(pool),
        2 => run.flow.back_failed(now, pool),
        3 => run.flow.cut(Reason::Drained, pool),
        4 => {
            if let Some(room) = run.flow.front_room(pool).filter(|room| room.len() > 4) {
                room[..5].copy_from_slice(b"junk!");
                run.flow.front_received(5, now, pool);
            }
        }
        _ => {}
    }
}

#[test]
fn an_altered_record_ends_the_connection_with_an_alert() {
    let stage = Stage::new(SendProxy::Off);
    for is_tls13 in [true, false] {
        let mut run = Run::new(&stage, &stage.choice(is_tls13, &[]), 5, Vec::new());
        run.until("handshake", |run| {
            run.client.is_established() && run.backend.is_some()
        });
        run.until("quiet", |run| {
            run.to_flow.is_empty() && run.from_flow.is_empty()
        });
        run.client.send(b"hello");
        run.client_turn();
        *run.to_flow.back_mut().unwrap() ^= 1;
        run.until("the alert", |run| run.client_fault.is_some());
        assert_eq!(
            run.client_fault.as_deref(),
            Some("received fatal alert: BadRecordMac")
        );
        assert_eq!(run.reason(), Some(Reason::RecordInvalid));
        assert!(
            run.actions.contains(&Action::ResetBack),
            "the server learns of it by a reset"
        );
        run.client_fin = true;
        run.until("the end", |run| run.flow.is_over());
        run.assert_over();
    }
}

#[test]
fn a_reset_by_the_server_is_no_clean_end() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 9, vec![1; 5000]);
    run.until("some reply", |run| !run.client_got.is_empty());
    run.flow.back_failed(run.now, &mut run.pool);
    run.until("the end of TCP", |run| run.front_shut);
    run.until("the last bytes", |run| run.from_flow.is_empty());
    run.client_fin = true;
    run.until("the end", |run| run.flow.is_over());
    assert!(
        !run.client.is_closed_by_server(),
        "no close_notify after a broken stream"
    );
    assert_eq!(run.reason(), Some(Reason::BackendReset));
}

#[test]
fn deadlines_are_those_of_the_stage() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 1, Vec::new());
    assert_eq!(run.flow.deadline(), Some(run.now + TIMEOUTS.handshake));
    run.flow
        .handle_timeout(run.now + TIMEOUTS.handshake / 2, &mut run.pool);
    assert!(!run.flow.is_over());
    run.flow
        .handle_timeout(run.now + TIMEOUTS.handshake, &mut run.pool);
    assert_eq!(run.reason(), Some(Reason::HandshakeTimeout));
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 1, Vec::new());
    run.until("relay", |run| run.backend.is_some());
    run.now += TIMEOUTS.idle * 2;
    run.flow.handle_timeout(run.now, &mut run.pool);
    assert_eq!(run.reason(), Some(Reason::IdleTimeout));
    run.until("the goodbye", |run| {
        run.client.is_closed_by_server() && run.front_shut
    });
}

#[test]
fn a_dial_that_takes_too_long_is_made_again_and_a_failed_one_is_told() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 3, Vec::new());
    // The backend is never connected here, so the actions are taken by hand.
    let mut dials = 0;
    for _ in 0..10_000 {
        run.now += Duration::from_micros(50);
        run.client_turn();
        run.client_to_flow();
        run.flow_to_client();
        dials += usize::from(run.flow.poll_action() == Some(Action::Dial));
        if dials > 0 {
            break;
        }
    }
    assert_eq!(dials, 1);
    run.now += TIMEOUTS.dial * 2;
    run.flow.handle_timeout(run.now, &mut run.pool);
    assert_eq!(run.flow.poll_action(), Some(Action::Redial));
    run.flow
        .dial_failed(Ending::new(Reason::BackendRefused), run.now, &mut run.pool);
    run.until("the alert", |run| run.client_fault.is_some());
    assert_eq!(
        run.client_fault.as_deref(),
        Some("received fatal alert: InternalError")
    );
    assert_eq!(run.reason(), Some(Reason::BackendRefused));
}

#[test]
fn sessions_are_resumed_and_their_kind_is_known() {
    let stage = Stage::new(SendProxy::Off);
    for (is_tls13, kind) in [(true, HandshakeKind::Psk), (false, HandshakeKind::Ticket)] {
        let choice = stage.choice(is_tls13, &[]);
        for expected in [HandshakeKind::Full, kind] {
            let mut run = Run::new(&stage, &choice, 11, b"reply".to_vec());
            run.until("reply", |run| run.client_got == b"reply");
            assert_eq!(run.flow.facts().kind, Some(expected));
            assert_eq!(run.client.is_resumed(), expected == kind);
        }
    }
}

#[test]
fn the_server_is_told_who_the_client_is_before_its_first_byte() {
    let stage = Stage::new(SendProxy::V1);
    for seed in 0..20 {
        let mut run = Run::new(&stage, &stage.choice(true, &[]), seed, Vec::new());
        run.client.send(b"first bytes");
        let wanted = b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 443\r\nfirst bytes";
        run.until("all of it", |run| run.backend_got().len() == wanted.len());
        assert_eq!(run.backend_got(), wanted);
    }
}
