//! One connection between a real TLS client and a backend in memory, in virtual time: a seed, which
//! reproduces failures, decides how bytes are cut, delayed and reordered between the two sides.

pub(crate) mod backend;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::buffer::Pool;
use flow::connection::Flow;
use flow::events::{Action, Event, ReceiveResult};
use flow::facts::{ConnectionEnd, ConnectionFacts, Route};
use flow::options::{Front, Offload, SendProxy, ServerTls, Settings, Timeouts};
use telemetry::outcome::{Reason, SessionTier};
use testkit::authority::Authority;
use testkit::chance::Chance;
use testkit::client::{Client, ClientChoice};
use testkit::kernel::{KernelKeys, KernelSealer};
use testkit::leaf::Leaf;
use testkit::tls_server::TlsServerChoice;
use tls::options::{
    CertificateSource, Cipher, ClientMode, ClientVerification, Group, PemSource, ServerOptions,
    Tls13Sessions, UnknownName, Version,
};
use tls::policy::SuiteOrder;
use tls::record::PLAINTEXT_BYTES_MAX;
use tls::resumption::{OfferedSession, Resumption, ResumptionOptions};
use tls::server::Server;

use backend::{Backend, SERVERS, back_tls};

pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    handshake: Duration::from_secs(10),
    dial: Duration::from_secs(3),
    greeting: Duration::from_secs(30),
    idle: Duration::from_secs(60),
    lifetime: None,
};

/// Settings and keys that all runs share, because making keys is slow.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) settings: Rc<Settings>,
    pub(crate) authority: Rc<Authority>,
    pub(crate) leaf: Rc<Leaf>,
    /// Whether the handshake with the server is cut, delayed and reordered like the rest.
    pub(crate) cuts_back_handshake: bool,
    pub(crate) options: ServerOptions,
    pub(crate) resumption: Arc<Resumption>,
}

impl Stage {
    pub(crate) fn new(send_proxy: SendProxy) -> Self {
        Self::with_sessions(send_proxy, Tls13Sessions::Tickets)
    }

    pub(crate) fn with_sessions(send_proxy: SendProxy, tls13_sessions: Tls13Sessions) -> Self {
        let authority = Authority::root("flow");
        let leaf = authority.leaf(&["localhost"]).issue();
        let back_tls = crate::BACK_TLS.then(|| back_tls(&authority));
        let options = ServerOptions {
            unknown_name: UnknownName::Refuse,
            tls13_sessions,
            ..ServerOptions::new(vec![CertificateSource::whole("localhost.pem", leaf.pem())])
        };
        let resumption = resumption(7);
        Self {
            settings: settings(&options, &resumption, send_proxy, back_tls),
            authority: Rc::new(authority),
            leaf: Rc::new(leaf),
            cuts_back_handshake: false,
            options,
            resumption,
        }
    }

    /// Returns the stage after a reload that moves sessions of TLS 1.3.
    pub(crate) fn reloaded(&self, tls13_sessions: Tls13Sessions) -> Self {
        self.changed(|options| options.tls13_sessions = tls13_sessions)
    }

    /// Returns another server of the same name, with its own sessions and ticket keys.
    pub(crate) fn stranger(&self, tls13_sessions: Tls13Sessions) -> Self {
        let mut other = self.clone();
        other.resumption = resumption(8);
        other.reloaded(tls13_sessions)
    }

    /// Returns the stage after a reload that asks clients for another key share.
    pub(crate) fn retrying(&self) -> Self {
        self.changed(|options| options.groups = vec![Group::Secp384r1])
    }

    /// Returns the stage after a reload that demands client certificates.
    pub(crate) fn asking_for_certificates(&self) -> Self {
        let authority =
            PemSource { place: "authority.pem".to_owned(), pem: self.authority.pem().into() };
        let client = ClientVerification {
            mode: ClientMode::Required,
            authorities: vec![authority],
            ..ClientVerification::default()
        };
        self.changed(|options| options.client = client)
    }

    /// Returns the stage after a reload with this protocol.
    pub(crate) fn speaking(&self, protocol: &[u8]) -> Self {
        self.changed(|options| options.alpn = vec![protocol.to_vec()])
    }

    pub(crate) fn lasting(&self, lifetime: Duration) -> Self {
        let mut other = self.clone();
        Rc::make_mut(&mut other.settings).timeouts.lifetime = Some(lifetime);
        other
    }

    /// Returns the stage with another kernel, or none.
    pub(crate) fn on_kernel(&self, offload: Option<Offload>) -> Self {
        let mut other = self.clone();
        Rc::make_mut(&mut other.settings).offload = offload;
        other
    }

    /// Returns the stage after a reload with changed options.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let mut other = self.clone();
        change(&mut other.options);
        let send_proxy = self.settings.send_proxy.clone();
        let back_tls = self.settings.back_tls.clone();
        other.settings = settings(&other.options, &other.resumption, send_proxy, back_tls);
        other
    }

    pub(crate) fn choice(&self, is_tls13: bool, suites: &[u16]) -> ClientChoice {
        ClientChoice::new(self.authority.pem(), is_tls13, suites)
    }
}

fn resumption(secret: u8) -> Arc<Resumption> {
    Arc::new(Resumption::new(&ResumptionOptions::new([secret; 32])))
}

fn settings(
    options: &ServerOptions,
    resumption: &Arc<Resumption>,
    send_proxy: SendProxy,
    back_tls: Option<ServerTls>,
) -> Rc<Settings> {
    let built = Server::build(options, "test", resumption, &SuiteOrder::of_this_cpu());
    let (server, warnings) = built.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    Rc::new(Settings {
        ja4: false,
        accepts_proxy: true,
        passing_sessions: None,
        ech: None,
        front: Front::Terminate(Arc::new(server)),
        send_proxy,
        back_tls,
        tunnel: None,
        starttls: None,
        timeouts: TIMEOUTS,
        offload: crate::KERNEL.then(|| Offload { from: 100, taken: CIPHERS.into(), rekeys: true }),
    })
}

const CIPHERS: [(Version, Cipher); 6] = [
    (Version::Tls12, Cipher::Aes128Gcm),
    (Version::Tls12, Cipher::Aes256Gcm),
    (Version::Tls12, Cipher::ChaCha20Poly1305),
    (Version::Tls13, Cipher::Aes128Gcm),
    (Version::Tls13, Cipher::Aes256Gcm),
    (Version::Tls13, Cipher::ChaCha20Poly1305),
];

/// Callback that answers the lookup of a session.
pub(crate) type OnFetch = Box<dyn FnMut(OfferedSession) -> Option<SessionTier>>;

/// One connection with its client and server.
pub(crate) struct Run {
    pub(crate) flow: Flow,
    pub(crate) pool: Pool,
    pub(crate) chance: Chance,
    pub(crate) now: Instant,
    pub(crate) client: Client,
    /// Bytes on their way from the client to us, and back.
    pub(crate) to_flow: VecDeque<u8>,
    pub(crate) from_flow: VecDeque<u8>,
    pub(crate) client_got: Vec<u8>,
    pub(crate) client_fault: Option<String>,
    pub(crate) client_fin: bool,
    pub(crate) front_shut: bool,
    pub(crate) backend: Option<Backend>,
    pub(crate) reply: Vec<u8>,
    pub(crate) actions: Vec<Action>,
    /// Service that a hello selects, if several share the address.
    pub(crate) routed_to: Option<Rc<Settings>>,
    /// Callback that answers lookups of sessions; `None` = they stay unanswered.
    pub(crate) on_fetch: Option<OnFetch>,
    is_fetching: bool,
    /// Sealer of the bytes to the client, once the kernel took the keys.
    pub(crate) kernel: Option<KernelSealer>,
    /// Certificate of the servers, if they speak TLS.
    pub(crate) leaf: Option<Rc<Leaf>>,
    cuts_back_handshake: bool,
    pub(crate) earlier: Vec<Vec<u8>>,
}

impl Run {
    pub(crate) fn new(stage: &Stage, choice: &ClientChoice, seed: u64, reply: Vec<u8>) -> Self {
        let now = Instant::now();
        let source = Some("192.0.2.1:1234".parse().unwrap());
        let destination = Some("192.0.2.2:443".parse().unwrap());
        let facts = ConnectionFacts::new(seed, Route { source, destination }, now);
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
            routed_to: None,
            on_fetch: None,
            is_fetching: false,
            earlier: Vec::new(),
            kernel: None,
            cuts_back_handshake: stage.cuts_back_handshake,
            leaf: crate::BACK_TLS.then(|| Rc::clone(&stage.leaf)),
        }
    }

    pub(crate) fn handle(&mut self, event: Event) {
        self.flow.handle(event, self.now, &mut self.pool);
    }

    /// Lets one random event happen.
    pub(crate) fn step(&mut self) {
        self.now += Duration::from_micros(self.chance.below(1000) as u64);
        match self.chance.below(5) {
            0 => self.client_to_flow(),
            1 => self.flow_to_client(),
            2 => self.backend_to_flow(),
            3 => self.flow_to_backend(),
            _ => self.client_turn(),
        }
        if self.is_fetching && self.chance.one_in(4) {
            self.is_fetching = false;
            let answer = self.on_fetch.as_mut().expect("a session is expected to be fetched");
            // The search may have been given up by now.
            let wanted = self.flow.wanted_session();
            if let Some(tier) = wanted.and_then(answer) {
                self.handle(Event::SessionFetched(tier));
            }
        }
        self.act();
    }

    pub(crate) fn client_turn(&mut self) {
        self.to_flow.extend(self.client.take_wire());
        let count = self.chance.below(self.from_flow.len() + 1);
        let bytes: Vec<u8> = self.from_flow.drain(..count).collect();
        if let Err(fault) = self.client.receive(&bytes, &mut self.client_got) {
            self.client_fault.get_or_insert(fault);
        }
    }

    pub(crate) fn client_to_flow(&mut self) {
        let Some(room) = self.flow.front_room(&mut self.pool) else {
            return;
        };
        let most = room.len().min(self.to_flow.len());
        let count = if self.chance.one_in(2) { most } else { self.chance.below(most + 1) };
        if count == 0 {
            self.handle(Event::FrontReceived(ReceiveResult::Nothing));
            if self.client_fin && self.to_flow.is_empty() {
                self.handle(Event::FrontReceived(ReceiveResult::End));
            }
            return;
        }
        for (to, from) in room.iter_mut().zip(self.to_flow.drain(..count)) {
            *to = from;
        }
        self.handle(Event::FrontReceived(ReceiveResult::Bytes(count)));
    }

    pub(crate) fn flow_to_client(&mut self) {
        if let Some(record) = self.flow.front_record().copied() {
            let kernel = self.kernel.as_mut().expect("it seals");
            let record = kernel.seal(record.kind(), record.content());
            self.from_flow.extend(record);
            return self.handle(Event::FrontRecordSent);
        }
        let pending = self.flow.front_pending();
        let count = self.chance.below(pending.len() + 1);
        if count < pending.len() {
            self.flow.note_stalled(&mut self.pool);
        }
        let pending = self.flow.front_pending();
        if count > 0 {
            let bytes = pending[..count].to_vec();
            self.give_client(&bytes);
            self.handle(Event::FrontSent(count));
        }
    }

    /// Sends bytes to the client, sealed by the kernel, if it seals, in records of any length.
    fn give_client(&mut self, mut bytes: &[u8]) {
        let Some(kernel) = &mut self.kernel else {
            return self.from_flow.extend(bytes);
        };
        while !bytes.is_empty() {
            let most = bytes.len().min(PLAINTEXT_BYTES_MAX);
            let (content, rest) = bytes.split_at(1 + self.chance.below(most));
            self.from_flow.extend(kernel.seal(23, content));
            bytes = rest;
        }
    }

    /// Passes bytes of the server to the client around the flow, as through a pipe.
    fn pass(&mut self) -> usize {
        let backend = self.backend.as_mut().expect("checked before");
        let count = self.chance.below(backend.to_flow.len() + 1);
        let bytes: Vec<u8> = backend.to_flow.drain(..count).collect();
        if count > 0 {
            self.give_client(&bytes);
            self.handle(Event::FrontPassed(count));
        }
        count
    }

    fn offload(&mut self) {
        assert!(self.flow.front_pending().is_empty(), "what we sealed waits");
        let kernel = self.handed().filter(|_| !self.chance.one_in(4));
        if kernel.is_none() {
            return self.handle(Event::KernelAnswered(false));
        }
        self.kernel = kernel;
        self.handle(Event::KernelAnswered(true));
    }

    /// Returns the kernel with the keys that it must have now.
    pub(crate) fn handed(&self) -> Option<KernelSealer> {
        let keys = self.flow.kernel_keys()?;
        Some(KernelSealer::new(&KernelKeys {
            is_tls13: keys.version == Version::Tls13,
            is_chacha: keys.cipher == Cipher::ChaCha20Poly1305,
            key: keys.key,
            iv: keys.iv,
            sequence: keys.sequence,
        }))
    }

    pub(crate) fn backend_to_flow(&mut self) {
        if self.backend.is_none() {
            return;
        }
        let passes = self.flow.can_pass() && self.chance.one_in(2);
        let count = if passes { Some(self.pass()) } else { self.buffered() };
        let Some(count) = count else { return };
        let Some(backend) = &mut self.backend else {
            return;
        };
        // The end is reported with the last bytes or separately.
        let is_last = backend.is_ended && backend.wire().is_empty() && backend.is_shaken();
        if is_last && !backend.end_seen && (count == 0 || self.chance.one_in(2)) {
            backend.end_seen = true;
            self.handle(Event::BackReceived(ReceiveResult::End));
        }
    }

    /// Receives bytes of the server into the flow's buffers; `None` = there is no room.
    fn buffered(&mut self) -> Option<usize> {
        let backend = self.backend.as_mut()?;
        let pieces = self.flow.back_room(&mut self.pool)?;
        let wire = backend.wire();
        let wanted = self.chance.below(wire.len() + 1);
        let mut count = 0;
        for piece in pieces {
            let here = piece.len().min(wanted - count);
            for (to, from) in piece.iter_mut().zip(wire.drain(..here)) {
                *to = from;
            }
            count += here;
        }
        if count > 0 {
            self.handle(Event::BackReceived(ReceiveResult::Bytes(count)));
        } else {
            self.handle(Event::BackReceived(ReceiveResult::Nothing));
        }
        Some(count)
    }

    pub(crate) fn flow_to_backend(&mut self) {
        let [first, second] = self.flow.back_pending();
        let count = self.chance.below(first.len() + second.len() + 1);
        let Some(backend) = self.backend.as_mut().filter(|_| count > 0) else {
            return;
        };
        let sent = first.iter().chain(second).take(count).copied();
        match &mut backend.tls {
            Some(tls) => backend.got.extend(tls.receive(&sent.collect::<Vec<_>>())),
            None => backend.got.extend(sent),
        }
        self.handle(Event::BackSent(count));
    }

    /// Makes the whole handshake with the server, if there is one and it is not to be disturbed.
    fn shake_at_once(&mut self) {
        let is_due = self.leaf.is_some() && !self.cuts_back_handshake;
        while is_due && self.flow.facts().connected.is_none() {
            let backend = self.backend.as_mut().unwrap();
            let pending = self.flow.back_pending().concat();
            if !pending.is_empty() {
                let got = backend.tls.as_mut().unwrap().receive(&pending);
                backend.got.extend(got);
                self.handle(Event::BackSent(pending.len()));
                continue;
            }
            let mut pieces = self.flow.back_room(&mut self.pool).unwrap();
            let (room, wire) = (pieces.next().unwrap(), backend.wire());
            let count = wire.len().min(room.len());
            room.iter_mut().zip(wire.drain(..count)).for_each(|(to, from)| *to = from);
            drop(pieces);
            self.handle(Event::BackReceived(ReceiveResult::Bytes(count)));
        }
    }

    pub(crate) fn act(&mut self) {
        while let Some(action) = self.flow.poll_action() {
            self.actions.push(action);
            match action {
                Action::Admit => self.handle(Event::Admitted),
                Action::Route => {
                    assert!(self.flow.hello().is_some(), "there is a hello to decide by");
                    self.handle(Event::Routed(self.routed_to.clone()));
                }
                Action::FetchSession => self.is_fetching = true,
                Action::DialNext if self.earlier.len() + 1 == SERVERS => {
                    self.earlier.extend(self.backend.take().map(|one| one.got));
                    self.handle(Event::DialFailed(ConnectionEnd::new(Reason::NoServerAvailable)));
                }
                Action::Dial | Action::Redial | Action::DialNext => {
                    self.earlier.extend(self.backend.take().map(|one| one.got));
                    drop(self.flow.take_back_fault(&mut self.pool));
                    let is_tls13 = self.flow.facts().id.is_multiple_of(2);
                    let leaf = self.leaf.as_ref();
                    let tls = leaf.map(|leaf| TlsServerChoice::new(leaf, is_tls13).accept());
                    self.backend = Some(Backend::new(&self.reply, tls));
                    self.handle(Event::ServerChosen { server: 0, is_local: false });
                    self.handle(Event::BackConnected);
                    self.shake_at_once();
                }
                Action::ShutdownBack => {
                    self.backend.as_mut().expect("connected").got_end = true;
                }
                Action::ShutdownFront => self.front_shut = true,
                Action::CloseBack => self.backend = None,
                Action::Offload => self.offload(),
                Action::Rekey => {
                    assert!(!self.flow.can_pass() && self.flow.front_pending().is_empty());
                    self.kernel = self.handed();
                    assert!(self.kernel.is_some(), "there are keys");
                    self.handle(Event::KernelAnswered(true));
                }
                Action::NoteBackReady | Action::Acknowledge => {}
                Action::NoteSession => {
                    let backend = self.backend.as_ref().expect("connected");
                    assert!(backend.is_shaken(), "there is no session before");
                }
                Action::ResetBack | Action::ResetFront | Action::Close => {}
            }
        }
    }

    pub(crate) fn until(&mut self, what: &str, done: impl Fn(&mut Self) -> bool) {
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("never came to pass: {what}; ending {:?}", self.flow.ending());
    }

    /// Makes a connection whose handshake is over and whose server is connected.
    pub(crate) fn relaying(
        stage: &Stage,
        choice: &ClientChoice,
        seed: u64,
        reply: Vec<u8>,
    ) -> Self {
        let mut run = Self::new(stage, choice, seed, reply);
        run.until("relay", |run| run.client.is_established() && run.backend.is_some());
        run
    }

    /// Ends the client's TCP stream, and so the connection.
    pub(crate) fn finish(&mut self) {
        self.client_fin = true;
        self.until("the end", |run| run.flow.is_over());
        self.assert_over();
    }

    /// Runs until a server is to be dialled. Later actions are performed by hand.
    pub(crate) fn until_dialled(&mut self) {
        for _ in 0..10_000 {
            self.now += Duration::from_micros(50);
            self.client_turn();
            self.client_to_flow();
            self.flow_to_client();
            if self.flow.poll_action() == Some(Action::Dial) {
                return;
            }
        }
        panic!("no server is dialled");
    }

    /// Runs until the client learns by an alert that we failed.
    pub(crate) fn until_alert(&mut self) {
        self.until("the alert", |run| run.client_fault.is_some());
        let alert = "received fatal alert: InternalError";
        assert_eq!(self.client_fault.as_deref(), Some(alert));
    }

    pub(crate) fn backend_got(&self) -> &[u8] {
        self.backend.as_ref().map_or(&[], |backend| &backend.got)
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        self.flow.ending().map(|ending| ending.reason)
    }

    /// Checks that the server's connection was closed by a reset.
    pub(crate) fn assert_back_is_reset(&self) {
        let place = |wanted| self.actions.iter().position(|action| *action == wanted);
        let (reset, close) = (place(Action::ResetBack), place(Action::CloseBack));
        assert!(reset.is_some() && reset < close, "{:?}", self.actions);
    }

    /// Checks that a connection that is over has ended cleanly.
    pub(crate) fn assert_over(&self) {
        assert!(self.flow.is_over());
        assert!(self.flow.ending().is_some(), "an end has a reason");
        assert_eq!(self.flow.deadline(), None);
        assert_eq!(self.pool.in_use(), 0, "every buffer has gone back");
        let closes = self.actions.iter().filter(|action| **action == Action::Close);
        assert_eq!(closes.count(), 1);
        let asked = self.actions.iter().filter(|one| **one == Action::Offload);
        assert!(asked.count() <= 1, "the kernel is asked once");
        assert_eq!(self.flow.facts().offloaded, self.kernel.is_some());
    }
}
