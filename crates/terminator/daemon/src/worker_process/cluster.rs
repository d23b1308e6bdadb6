//! The thread that takes sessions beyond this host, and fetches them from there.
//!
//! Owns the order of the tiers (peers, then the store) and the peers' socket. Their protocol is
//! `session::mesh`'s, which gets the time from here; the store has a thread of its own. Workers
//! hand their requests over and wait for none.

mod watch;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::{digest, rand};
use config::{ClusterOptions, PeerNetwork};
use session::mesh::{ClockReading, Mesh, MeshOptions, PeerFacts, Target};
use session::{FetchAnswer, Offered, Request, Tiers};
use sys::epoll::{Epoll, Events, Interest, Waker};
use telemetry::outcome::{ClusterRejection, SessionTier};
use tls::resumption::cluster::{ClusterCipher, SharedSessions, StoreCipher};
use wire::cluster::{DatagramFault, Header};

use watch::PeerWatch;

use super::sessions::Inheritance;
use super::store::{PassOn, Say, StoreContext, StoreNames, StoreSetup, StoreTier, UsedUp};
use crate::admin::{ClusterFacts, ClusterSnapshot};
use crate::handover::ResolvedName;
use crate::named_servers::Port;

/// Datagrams read in a turn, so that what workers ask for has its turn as well.
const DATAGRAMS_PER_TURN: usize = 256;

/// Requests of workers in a turn, for the same reason.
const REQUESTS_PER_TURN: usize = 1024;

/// Longer than any datagram of ours: one that fills it was cut, and is refused for its length.
const ROOM_BYTES: usize = 2048;

/// How old what the status shows may be.
const STATUS_AGE_MAX: Duration = Duration::from_millis(100);

const WAKER: u64 = 0;
const SOCKET: u64 = 1;

/// How sessions go to the other hosts.
#[derive(Default)]
pub(super) struct ClusterSetup {
    peers: Option<PeersSetup>,
    store: Option<StoreSetup>,
}

struct PeersSetup {
    network: PeerNetwork,
    options: MeshOptions,
    cipher: ClusterCipher,
    socket: OwnedFd,
    sessions: SharedSessions,
}

impl ClusterSetup {
    /// `None` = stored sessions stay here. Peers have a socket.
    pub(super) fn new(
        cluster: ClusterOptions,
        socket: Option<OwnedFd>,
        sessions: &SharedSessions,
    ) -> Option<Self> {
        let peers = cluster.peers.zip(socket);
        let setup = Self {
            peers: peers.map(|(peers, socket)| PeersSetup {
                network: peers.network,
                options: peers.mesh,
                cipher: ClusterCipher::new(&cluster.secrets),
                socket,
                sessions: sessions.clone(),
            }),
            store: cluster.store.map(|options| StoreSetup {
                options,
                cipher: StoreCipher::new(&cluster.secrets),
                sessions: sessions.clone(),
            }),
        };
        (setup.peers.is_some() || setup.store.is_some()).then_some(setup)
    }
}

enum ClusterOrder {
    Follow(Box<ClusterSetup>),
    /// For the supervisors of the other hosts.
    Notify(String),
}

/// The way to the thread. It is started when a plan first shares sessions.
pub(super) struct Cluster {
    /// The sender's number of this host, for the life of its supervisor.
    sender: [u8; 8],
    tiers: Arc<Tiers>,
    pub(super) context: StoreContext,
    thread: Option<(Sender<ClusterOrder>, Arc<Waker>)>,
}

impl Cluster {
    /// No thread yet. `secret` is the supervisor's: the host keeps its number while it lives.
    pub(super) fn new(inheritance: &Inheritance, (say, pass_on): (Say, PassOn)) -> Self {
        let tiers = Arc::clone(&inheritance.tiers);
        let named = [b"lariat cluster sender 1", &inheritance.secret[..]].concat();
        let digest = digest::digest(&digest::SHA256, &named);
        let mut sender = [0; 8];
        sender.copy_from_slice(&digest.as_ref()[..8]);
        Self {
            sender,
            context: StoreContext {
                names: StoreNames::default(),
                facts: ClusterFacts::of(Arc::clone(&tiers)),
                used_up: UsedUp::default(),
                say,
                pass_on,
                host: sender,
            },
            tiers,
            thread: None,
        }
    }

    /// Nodes of the store may have that name.
    pub(super) fn resolved(&self, resolved: &ResolvedName) {
        if let Port::Number(port) = resolved.name.port {
            let found = resolved.instances.iter().flatten();
            let addresses = found.flat_map(|instance| instance.addresses.clone());
            self.context.names.set(&resolved.name.host, port, addresses.collect());
        }
    }

    /// Sessions go by that plan from now on.
    pub(super) fn set(&mut self, setup: Option<ClusterSetup>) -> io::Result<()> {
        if self.thread.is_none() && setup.is_some() {
            self.thread = Some(self.start()?);
        }
        self.order(ClusterOrder::Follow(Box::new(setup.unwrap_or_default())));
        Ok(())
    }

    /// Sends the supervisors of all other hosts a text: to peers, or else through the store.
    pub(super) fn notify(&self, text: String) {
        self.order(ClusterOrder::Notify(text));
    }

    fn order(&self, order: ClusterOrder) {
        if let Some((orders, waker)) = &self.thread
            && orders.send(order).is_ok()
        {
            waker.wake();
        }
    }

    fn start(&self) -> io::Result<(Sender<ClusterOrder>, Arc<Waker>)> {
        let waker = Arc::new(Waker::new()?);
        let epoll = Epoll::new()?;
        epoll.add(&*waker, WAKER, Interest::READ)?;
        let (orders, received) = channel();
        let thread = ClusterThread {
            sender: self.sender,
            tiers: Arc::clone(&self.tiers),
            orders: received,
            waker: Arc::clone(&waker),
            epoll,
            peers: None,
            store: None,
            context: self.context.clone(),
        };
        std::thread::Builder::new().name("cluster".to_owned()).spawn(move || thread.run())?;
        Ok((orders, waker))
    }
}

struct ClusterThread {
    sender: [u8; 8],
    tiers: Arc<Tiers>,
    orders: Receiver<ClusterOrder>,
    waker: Arc<Waker>,
    epoll: Epoll,
    /// The tiers where sessions lie beyond this host, in the order in which they are asked.
    peers: Option<Node>,
    store: Option<StoreTier>,
    context: StoreContext,
}

/// This host among its peers.
struct Node {
    mesh: Mesh,
    network: PeerNetwork,
    time_window: Duration,
    socket: UdpSocket,
    sessions: SharedSessions,
    watch: PeerWatch,
    say: Say,
    waiting: HashMap<u64, (Offered, FetchAnswer)>,
    next_token: u64,
    /// When the status was last made, and whether there is news since.
    noted: Instant,
    has_news: bool,
}

impl ClusterThread {
    /// Ends with the process: nothing here lasts longer than the workers do.
    fn run(mut self) {
        let mut events = Events::with_capacity(4);
        loop {
            let limit = self.pause();
            if self.epoll.wait(&mut events, limit).is_err() {
                // No tier without a loop: clients get full handshakes.
                return self.tiers.close();
            }
            self.waker.drain();
            loop {
                match self.orders.try_recv() {
                    Ok(ClusterOrder::Follow(setup)) => self.follow(*setup),
                    Ok(ClusterOrder::Notify(text)) => self.notify(&text),
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return self.tiers.close(),
                }
            }
            self.turn();
            let peers = self.peers.iter_mut();
            for notice in peers.flat_map(|node| std::iter::from_fn(|| node.mesh.poll_notice())) {
                // Supervisors write text.
                String::from_utf8(notice).into_iter().for_each(|text| (self.context.pass_on)(text));
            }
        }
    }

    fn notify(&mut self, text: &str) {
        match (&mut self.peers, &self.store) {
            (Some(node), _) => drop(node.mesh.notify(text.as_bytes(), moment())),
            (None, Some(store)) => store.notify(text),
            (None, None) => {}
        }
    }

    fn follow(&mut self, setup: ClusterSetup) {
        let is_shared = setup.peers.is_some() || setup.store.is_some();
        if !is_shared {
            self.tiers.close();
        }
        self.follow_peers(setup.peers);
        // The thread of the old one ends when it has stored what it was given.
        self.store = setup.store.and_then(|store| {
            let started = StoreTier::start(store, self.context.clone());
            let failed = |error| {
                let text = format!("the session store is not used: no thread for it: {error}");
                (self.context.say)(true, text);
            };
            started.map_err(failed).ok()
        });
        if self.store.is_none() {
            self.context.facts.set_store(None);
        }
        if is_shared {
            let waker = Arc::clone(&self.waker);
            self.tiers.open(move || waker.wake());
        }
    }

    fn follow_peers(&mut self, setup: Option<PeersSetup>) {
        let Some(setup) = setup else {
            self.peers.take().into_iter().for_each(Node::end);
            self.context.facts.set_peers(None);
            return;
        };
        let socket = UdpSocket::from(setup.socket);
        // The old one leaves the instance when it is closed.
        if self.epoll.add(&socket, SOCKET, Interest::READ).is_err() {
            return;
        }
        let cipher = Box::new(setup.cipher);
        let time_window = setup.options.time_window;
        match &mut self.peers {
            Some(node) => {
                node.mesh.reconfigure(setup.options, cipher, moment());
                let _ = self.epoll.remove(&node.socket);
                node.watch.expect(listed(&setup.network), Instant::now());
                (node.network, node.socket) = (setup.network, socket);
                node.time_window = time_window;
                node.sessions = setup.sessions;
            }
            None => {
                let numbers = (self.sender, random());
                let mesh = Mesh::new(setup.options, cipher, numbers, moment());
                self.peers = Some(Node {
                    mesh,
                    watch: PeerWatch::new(listed(&setup.network), Instant::now()),
                    network: setup.network,
                    time_window,
                    socket,
                    sessions: setup.sessions,
                    say: Arc::clone(&self.context.say),
                    waiting: HashMap::new(),
                    next_token: 0,
                    noted: Instant::now(),
                    has_news: true,
                });
            }
        }
    }

    /// How long nothing is due; `None` = until somebody asks.
    fn pause(&self) -> Option<Duration> {
        if self.tiers.has_waiting() {
            return Some(Duration::ZERO);
        }
        self.peers.as_ref().map(Node::pause)
    }

    fn turn(&mut self) {
        if let Some(node) = &mut self.peers {
            node.receive();
        }
        let moment = moment();
        for request in self.tiers.take(REQUESTS_PER_TURN) {
            self.ask(request, moment);
        }
        let Some(node) = &mut self.peers else { return };
        let answers = node.turn(moment);
        node.note(&self.context.facts);
        for (session, answer, tier) in answers {
            self.peers_answered(session, answer, tier);
        }
    }

    /// One request of a worker, which has looked into memory itself: peers come next.
    fn ask(&mut self, request: Request, moment: ClockReading) {
        match request {
            Request::Publish { key, once, value, lifetime } => {
                if let Some(node) = &mut self.peers {
                    node.mesh.publish(key, &value, lifetime, moment);
                    node.has_news = true;
                }
                if let Some(store) = &self.store {
                    store.publish(Offered { key, once }, value, lifetime);
                }
            }
            Request::Delete { key } => {
                if let Some(node) = &mut self.peers {
                    node.mesh.delete(key, moment);
                    node.has_news = true;
                }
                if let Some(store) = &self.store {
                    store.delete(key);
                }
            }
            Request::Fetch { key, once, answer } => {
                let session = Offered { key, once };
                let facts = self.context.facts.clone();
                let answer = Box::new(move |tier| {
                    facts.count(tier);
                    answer(tier);
                });
                match &mut self.peers {
                    Some(node) => node.fetch(session, answer, moment),
                    None => self.peers_answered(session, answer, SessionTier::Nowhere),
                }
            }
        }
    }

    /// Looks in the store for a session that peers do not have, and answers.
    fn peers_answered(&self, session: Offered, answer: FetchAnswer, tier: SessionTier) {
        match &self.store {
            Some(store) if tier == SessionTier::Nowhere => store.fetch(session, answer),
            _ => answer(tier),
        }
    }
}

impl Node {
    /// How long nothing is due.
    fn pause(&self) -> Duration {
        let now = Instant::now();
        let status = self.has_news.then_some(self.noted + STATUS_AGE_MAX);
        let due = status.into_iter().fold(self.mesh.deadline(), Instant::min);
        due.saturating_duration_since(now)
    }

    /// Sends what is to be sent; who was waiting for what peers have, and whether they have it.
    fn turn(&mut self, moment: ClockReading) -> Vec<(Offered, FetchAnswer, SessionTier)> {
        self.mesh.tick(moment, &self.sessions);
        while let Some((target, datagram)) = self.mesh.poll_transmit() {
            self.send(target, &datagram);
        }
        let mut answers = Vec::new();
        while let Some((token, tier)) = self.mesh.poll_fetched() {
            let waiting = self.waiting.remove(&token);
            answers.extend(waiting.map(|(session, answer)| (session, answer, tier)));
        }
        answers
    }

    fn fetch(&mut self, session: Offered, answer: FetchAnswer, moment: ClockReading) {
        let token = self.next_token;
        self.next_token += 1;
        self.has_news = true;
        self.waiting.insert(token, (session, answer));
        self.mesh.fetch(session.key, token, moment);
    }

    fn receive(&mut self) {
        let mut room = [0; ROOM_BYTES];
        for _ in 0..DATAGRAMS_PER_TURN {
            let Ok((count, from)) = self.socket.recv_from(&mut room) else {
                return;
            };
            self.has_news = true;
            let datagram = room.get_mut(..count).unwrap_or_default();
            let moment = moment();
            let taken = self.mesh.receive(datagram, from, moment, &self.sessions);
            if let Err(why) = taken {
                self.rejected(why, datagram, from, moment);
            }
        }
    }

    /// It is counted; what a host's owner can mend is said as well.
    fn rejected(
        &mut self,
        why: ClusterRejection,
        datagram: &[u8],
        from: SocketAddr,
        moment: ClockReading,
    ) {
        let header = match Header::read(datagram) {
            Ok(header) => header,
            Err(DatagramFault::Version(other)) if why == ClusterRejection::Version => {
                let said = self.watch.other_version(other, from, moment.now);
                return said.into_iter().for_each(|text| (self.say)(true, text));
            }
            Err(_) => return,
        };
        let lag_ms = moment.unix_ms.cast_signed().wrapping_sub(header.time_ms.cast_signed());
        let window_ms = u64::try_from(self.time_window.as_millis()).unwrap_or(u64::MAX);
        let said = self.watch.rejected(why, from, (lag_ms, window_ms), moment.now);
        said.into_iter().for_each(|text| (self.say)(true, text));
    }

    fn send(&mut self, target: Target, datagram: &[u8]) {
        let mut failures = 0;
        let mut send = |to: &SocketAddr| {
            failures += usize::from(self.socket.send_to(datagram, to).is_err());
        };
        match (&self.network, target) {
            (PeerNetwork::Multicast { group, .. }, _) => send(group),
            (PeerNetwork::Unicast { send_to, .. }, Target::All) => send_to.iter().for_each(send),
            (PeerNetwork::Unicast { .. }, Target::One(peer)) => send(&peer),
        }
        (0..failures).for_each(|_| self.mesh.send_failed());
    }

    /// Brings the status up to date, if it is time.
    fn note(&mut self, facts: &ClusterFacts) {
        let now = Instant::now();
        let is_due = now.saturating_duration_since(self.noted) >= STATUS_AGE_MAX;
        if !is_due && facts.has_peers() {
            return;
        }
        (self.noted, self.has_news) = (now, false);
        let with_state = |peer: PeerFacts| {
            let is_heard = Mesh::hears(&peer, now);
            (peer, is_heard)
        };
        let peers: Vec<_> = self.mesh.peers().map(with_state).collect();
        let catch_up = self.mesh.catch_up();
        let mut said = self.watch.look(&peers, now);
        said.extend(self.watch.judge(&peers, self.mesh.longest_wait()));
        said.extend(self.watch.caught_up(&catch_up));
        said.into_iter().for_each(|(warns, text)| (self.say)(warns, text));
        facts.set_peers(Some(ClusterSnapshot {
            address: match &self.network {
                PeerNetwork::Unicast { listen, .. } => listen.to_string(),
                PeerNetwork::Multicast { group, .. } => group.to_string(),
            },
            counters: self.mesh.counters().clone(),
            unheard: self.watch.unheard(&peers),
            catch_up,
            wait: self.mesh.wait(now),
            peers,
            now,
        }));
    }

    fn end(self) {
        for (_, answer) in self.waiting.into_values() {
            answer(SessionTier::Nowhere);
        }
    }
}

/// The peers that the configuration names.
fn listed(network: &PeerNetwork) -> &[SocketAddr] {
    match network {
        PeerNetwork::Unicast { send_to, .. } => send_to,
        PeerNetwork::Multicast { .. } => &[],
    }
}

fn random() -> [u8; 8] {
    let mut bytes = [0; 8];
    rand::fill(&mut bytes).expect("AWS-LC ends the process where there is no randomness");
    bytes
}

fn moment() -> ClockReading {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    ClockReading { now: Instant::now(), unix_ms: since.map_or(0, |since| since.as_millis() as u64) }
}
