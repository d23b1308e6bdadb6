//! The thread that takes sessions beyond this host, and fetches them from there.
//!
//! Owns its socket, its loop and the order of the tiers; the protocol is `session::mesh`'s, which
//! gets the time from here. Workers hand their requests over and wait for none.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::{digest, rand};
use config::{ClusterOptions, PeerNetwork};
use session::mesh::{Mesh, MeshOptions, Moment, PeerFacts, Target};
use session::{FetchAnswer, Request, Tiers};
use sys::epoll::{Epoll, Events, Interest};
use sys::wake::Waker;
use telemetry::outcome::SessionTier;
use tls::resumption::cluster::{ClusterCipher, SharedSessions};

use crate::admin::{ClusterFacts, ClusterSnapshot};

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
pub(super) struct ClusterSetup {
    network: PeerNetwork,
    options: MeshOptions,
    cipher: ClusterCipher,
    socket: OwnedFd,
    sessions: SharedSessions,
}

impl ClusterSetup {
    /// `None` = stored sessions stay here.
    pub(super) fn new(
        cluster: ClusterOptions,
        socket: OwnedFd,
        sessions: SharedSessions,
    ) -> Option<Self> {
        let peers = cluster.peers?;
        Some(Self {
            network: peers.network,
            options: peers.mesh,
            cipher: ClusterCipher::new(&cluster.secrets),
            socket,
            sessions,
        })
    }
}

/// The way to the thread. It is started when a plan first has peers.
pub(super) struct Cluster {
    /// Of this host, for the life of its supervisor.
    sender: [u8; 8],
    tiers: Arc<Tiers>,
    facts: ClusterFacts,
    thread: Option<(Sender<Option<ClusterSetup>>, Arc<Waker>)>,
}

impl Cluster {
    /// No thread yet. `secret` is the supervisor's: the host keeps its number while it lives.
    pub(super) fn new(secret: &[u8; 32], tiers: Arc<Tiers>) -> Self {
        let named = [b"lariat cluster sender 1", &secret[..]].concat();
        let digest = digest::digest(&digest::SHA256, &named);
        let mut sender = [0; 8];
        sender.copy_from_slice(&digest.as_ref()[..8]);
        Self {
            sender,
            tiers,
            facts: ClusterFacts::default(),
            thread: None,
        }
    }

    /// For the status.
    pub(super) fn facts(&self) -> ClusterFacts {
        self.facts.clone()
    }

    /// Sessions go by that plan from now on.
    pub(super) fn set(&mut self, setup: Option<ClusterSetup>) -> io::Result<()> {
        if self.thread.is_none() && setup.is_some() {
            self.thread = Some(self.start()?);
        }
        if let Some((orders, waker)) = &self.thread
            && orders.send(setup).is_ok()
        {
            waker.wake();
        }
        Ok(())
    }

    fn start(&self) -> io::Result<(Sender<Option<ClusterSetup>>, Arc<Waker>)> {
        let waker = Arc::new(Waker::new()?);
        let epoll = Epoll::new()?;
        epoll.add(&*waker, WAKER, Interest::READ)?;
        let (orders, received) = channel();
        let thread = ClusterThread {
            sender: self.sender,
            tiers: Arc::clone(&self.tiers),
            facts: self.facts.clone(),
            orders: received,
            waker: Arc::clone(&waker),
            epoll,
            node: None,
        };
        std::thread::Builder::new()
            .name("cluster".to_owned())
            .spawn(move || thread.run())?;
        Ok((orders, waker))
    }
}

struct ClusterThread {
    sender: [u8; 8],
    tiers: Arc<Tiers>,
    facts: ClusterFacts,
    orders: Receiver<Option<ClusterSetup>>,
    waker: Arc<Waker>,
    epoll: Epoll,
    node: Option<Node>,
}

/// This host among its peers.
struct Node {
    mesh: Mesh,
    network: PeerNetwork,
    socket: UdpSocket,
    sessions: SharedSessions,
    waiting: HashMap<u64, FetchAnswer>,
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
            let limit = self.node.as_ref().map(|node| node.pause(&self.tiers));
            if self.epoll.wait(&mut events, limit).is_err() {
                // No peer without a loop: clients get full handshakes.
                return self.tiers.close();
            }
            self.waker.drain();
            loop {
                match self.orders.try_recv() {
                    Ok(setup) => self.follow(setup),
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return self.tiers.close(),
                }
            }
            if let Some(node) = &mut self.node {
                node.turn(&self.tiers);
                node.note(&self.tiers, &self.facts);
            }
        }
    }

    fn follow(&mut self, setup: Option<ClusterSetup>) {
        let Some(setup) = setup else {
            self.tiers.close();
            self.node.take().into_iter().for_each(Node::end);
            self.facts.set(None);
            return;
        };
        let socket = UdpSocket::from(setup.socket);
        // The old one leaves the instance when it is closed.
        if self.epoll.add(&socket, SOCKET, Interest::READ).is_err() {
            return;
        }
        let cipher = Box::new(setup.cipher);
        match &mut self.node {
            Some(node) => {
                node.mesh.reconfigure(setup.options, cipher, moment());
                let _ = self.epoll.remove(&node.socket);
                (node.network, node.socket) = (setup.network, socket);
                node.sessions = setup.sessions;
            }
            None => {
                let numbers = (self.sender, random());
                let mesh = Mesh::new(setup.options, cipher, numbers, moment());
                self.node = Some(Node {
                    mesh,
                    network: setup.network,
                    socket,
                    sessions: setup.sessions,
                    waiting: HashMap::new(),
                    next_token: 0,
                    noted: Instant::now(),
                    has_news: true,
                });
                let waker = Arc::clone(&self.waker);
                self.tiers.open(move || waker.wake());
            }
        }
    }
}

impl Node {
    /// How long nothing is due.
    fn pause(&self, tiers: &Tiers) -> Duration {
        if tiers.has_waiting() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let status = self.has_news.then_some(self.noted + STATUS_AGE_MAX);
        let due = status.into_iter().fold(self.mesh.deadline(), Instant::min);
        due.saturating_duration_since(now)
    }

    fn turn(&mut self, tiers: &Tiers) {
        self.receive();
        let moment = moment();
        for request in tiers.take(REQUESTS_PER_TURN) {
            self.has_news = true;
            self.ask(request, moment);
        }
        self.mesh.tick(moment, &self.sessions);
        while let Some((target, datagram)) = self.mesh.poll_transmit() {
            self.send(target, &datagram);
        }
        while let Some((token, tier)) = self.mesh.poll_fetched() {
            self.peers_answered(token, tier);
        }
    }

    fn receive(&mut self) {
        let mut room = [0; ROOM_BYTES];
        for _ in 0..DATAGRAMS_PER_TURN {
            let Ok((count, from)) = self.socket.recv_from(&mut room) else {
                return;
            };
            self.has_news = true;
            let datagram = room.get_mut(..count).unwrap_or_default();
            // Why it was dropped is counted.
            let _ = self.mesh.receive(datagram, from, moment(), &self.sessions);
        }
    }

    /// One request of a worker, which has looked into memory itself: peers come next.
    fn ask(&mut self, request: Request, moment: Moment) {
        match request {
            Request::Publish {
                key,
                value,
                lifetime,
            } => self.mesh.publish(key, &value, lifetime, moment),
            Request::Delete { key } => self.mesh.delete(key, moment),
            Request::Fetch { key, answer } => {
                let token = self.next_token;
                self.next_token += 1;
                self.waiting.insert(token, answer);
                self.mesh.fetch(key, token, moment);
            }
        }
    }

    /// Peers are the last tier: what they do not have is nowhere.
    fn peers_answered(&mut self, token: u64, tier: SessionTier) {
        if let Some(answer) = self.waiting.remove(&token) {
            answer(tier);
        }
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

    /// Has the status show what is known now, if it is time.
    fn note(&mut self, tiers: &Tiers, facts: &ClusterFacts) {
        let now = Instant::now();
        let is_due = now.saturating_duration_since(self.noted) >= STATUS_AGE_MAX;
        if !is_due && facts.is_set() {
            return;
        }
        (self.noted, self.has_news) = (now, false);
        let with_state = |peer: PeerFacts| {
            let is_heard = Mesh::hears(&peer, now);
            (peer, is_heard)
        };
        facts.set(Some(ClusterSnapshot {
            address: match &self.network {
                PeerNetwork::Unicast { listen, .. } => listen.to_string(),
                PeerNetwork::Multicast { group, .. } => group.to_string(),
            },
            counters: self.mesh.counters().clone(),
            requests_dropped: tiers.overflows(),
            peers: self.mesh.peers().map(with_state).collect(),
            now,
        }));
    }

    /// Nobody answers any more.
    fn end(self) {
        for answer in self.waiting.into_values() {
            answer(SessionTier::Nowhere);
        }
    }
}

fn random() -> [u8; 8] {
    let mut bytes = [0; 8];
    rand::fill(&mut bytes).expect("AWS-LC ends the process where there is no randomness");
    bytes
}

fn moment() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Moment {
        now: Instant::now(),
        unix_ms: since.map_or(0, |since| since.as_millis() as u64),
    }
}
