//! Hosts that share sessions over a network that loses, delays, repeats and partitions, driven by a
//! seed in virtual time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use session::Key;
use session::mesh::{
    ClockReading, DatagramCipher, HEARTBEAT, LocalSessions, Mesh, MeshOptions, Target,
    WalkedSession,
};
use telemetry::outcome::{ClusterRejection, SessionTier};
use testkit::chance::Chance;
use wire::cluster::{HEADER_BYTES, Header, TAG_BYTES};
use zeroize::Zeroizing;

/// Size of a session of TLS 1.2 without a client's certificate.
pub(crate) const SESSION_BYTES: usize = 120;
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const UNIX_MS: u64 = 1_700_000_000_000;

pub(crate) const RECEIVE_RATE: u32 = 20_000;

/// Time until all hosts know each other, and have caught up.
pub(crate) const SETTLED: Duration = Duration::from_secs(6);

/// A cipher that proves only that header and body belong together.
#[derive(Debug)]
pub(crate) struct Tagged;

impl Tagged {
    fn tag(header: &[u8], body: &[u8]) -> [u8; TAG_BYTES] {
        let add = |sum: u128, byte: &u8| sum.wrapping_mul(0x0100_0000_01b3) + u128::from(*byte);
        let sum = header.iter().chain(body).fold(7, add);
        sum.to_be_bytes()
    }
}

impl DatagramCipher for Tagged {
    fn key_id(&self) -> [u8; 4] {
        [7; 4]
    }

    fn seal(&mut self, _: &Header, bytes: &[u8; HEADER_BYTES], body: &mut Vec<u8>) {
        let tag = Self::tag(bytes, body);
        body.extend_from_slice(&tag);
    }

    fn open<'b>(
        &mut self,
        _: &Header,
        bytes: &[u8; HEADER_BYTES],
        sealed: &'b mut [u8],
    ) -> Result<&'b [u8], ClusterRejection> {
        let (body, tag) = sealed.split_last_chunk().unwrap();
        let is_whole = Self::tag(bytes, body) == *tag;
        is_whole.then_some(body).ok_or(ClusterRejection::Forged)
    }
}

/// A host's cache, and the time at which each session came.
#[derive(Default)]
pub(crate) struct Cache(pub(crate) RefCell<HashMap<Key, Vec<u8>>>, RefCell<Vec<(Key, Instant)>>);

impl LocalSessions for Cache {
    fn find(&self, key: &Key, _: Instant) -> Option<(Zeroizing<Vec<u8>>, Duration)> {
        let value = self.0.borrow().get(key).cloned()?;
        Some((value.into(), HOUR))
    }

    fn insert(&self, key: &Key, value: &[u8], _: Duration, now: Instant) -> bool {
        self.1.borrow_mut().push((*key, now));
        self.0.borrow_mut().insert(*key, value.to_vec()).is_none()
    }

    fn remove(&self, key: &Key) {
        self.0.borrow_mut().remove(key);
    }

    fn count(&self) -> usize {
        self.0.borrow().len()
    }

    fn walk(
        &self,
        place: &mut u64,
        age_max: Duration,
        now: Instant,
    ) -> Option<Option<WalkedSession>> {
        let (key, at) = *self.1.borrow().get(*place as usize)?;
        *place += 1;
        let is_young = now.duration_since(at) <= age_max;
        let found = self.find(&key, now).filter(|_| is_young);
        Some(found.map(|(value, lifetime)| WalkedSession { key, value, lifetime }))
    }
}

/// Loss and repetition of datagrams, per thousand, and their longest delay.
#[derive(Clone, Copy)]
pub(crate) struct NetworkConditions {
    pub(crate) lost: usize,
    pub(crate) repeated: usize,
    pub(crate) delay_us: usize,
    /// Least time that each datagram takes.
    pub(crate) way_us: u64,
}

pub(crate) const CLEAN: NetworkConditions =
    NetworkConditions { lost: 0, repeated: 0, delay_us: 300, way_us: 50 };

pub(crate) const STORMY: NetworkConditions =
    NetworkConditions { lost: 0, repeated: 300, delay_us: 30_000, way_us: 50 };

/// Receiving host, sending host, and the datagram.
type Flying = (usize, usize, Rc<[u8]>);

pub(crate) struct Network {
    pub(crate) hosts: Vec<(Mesh, Cache)>,
    /// Datagrams on their way: arrival time, receiving host, sending host.
    flying: BTreeMap<(Instant, u64), Flying>,
    pub(crate) number: u64,
    /// Time at which each host is to be called, in order and by host.
    wakes: BTreeSet<(Instant, usize)>,
    wake_of: Vec<Option<Instant>>,
    fetched: Vec<(u64, SessionTier)>,
    pub(crate) chance: Chance,
    pub(crate) conditions: NetworkConditions,
    /// Hosts below this number do not reach the others, nor the others them.
    pub(crate) parted: usize,
    /// A host that is 60 ms away from all others.
    pub(crate) far: Option<usize>,
    /// Number of datagrams to a single peer that are still to be lost, whatever the loss rate.
    pub(crate) taken_away: usize,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
}

impl Network {
    /// Creates hosts that know each other.
    pub(crate) fn new(hosts: usize, seed: u64, conditions: NetworkConditions) -> Self {
        let start = Instant::now();
        let mut network = Self {
            hosts: Vec::new(),
            flying: BTreeMap::new(),
            number: 0,
            wakes: BTreeSet::new(),
            wake_of: vec![None; hosts],
            fetched: Vec::new(),
            chance: Chance::new(seed),
            conditions,
            parted: 0,
            far: None,
            taken_away: 0,
            start,
            now: start,
        };
        for host in 0..hosts {
            let mesh = network.mesh(host, 1, hosts);
            network.hosts.push((mesh, Cache::default()));
        }
        network.run(SETTLED);
        network
    }

    pub(crate) fn mesh(&self, host: usize, boot: u64, hosts: usize) -> Mesh {
        let numbers = ((host as u64).to_be_bytes(), boot.to_be_bytes());
        Mesh::new(Self::options(host, hosts), Box::new(Tagged), numbers, self.moment(host))
    }

    pub(crate) fn options(host: usize, hosts: usize) -> MeshOptions {
        let others = (0..hosts).filter(|other| *other != host);
        MeshOptions {
            time_window: Duration::from_secs(30),
            replay_window: 1024,
            senders: 2000,
            receive_rate: RECEIVE_RATE,
            send_rate: 1_000_000,
            fetch_rate: 1000,
            fetch_timeout: Some(Duration::from_millis(5)),
            resync_rate: 10_000,
            send_to: Some(others.map(place).collect()),
        }
    }

    /// Returns a host's clocks, which differ from other hosts' by some seconds.
    pub(crate) fn moment(&self, host: usize) -> ClockReading {
        let passed = self.now.duration_since(self.start).as_millis() as u64;
        ClockReading { now: self.now, unix_ms: UNIX_MS + passed + (host % 7) as u64 * 700 }
    }

    pub(crate) fn send(&mut self, from: usize, target: Target, datagram: &[u8]) {
        if target != Target::All && self.taken_away > 0 {
            self.taken_away -= 1;
            return;
        }
        let datagram: Rc<[u8]> = datagram.into();
        let to: Vec<_> = match target {
            Target::All => (0..self.hosts.len()).filter(|host| *host != from).collect(),
            Target::One(address) => vec![usize::from(address.port())],
        };
        for host in to {
            let is_parted = (host < self.parted) != (from < self.parted);
            if is_parted || self.chance.below(1000) < self.conditions.lost {
                continue;
            }
            let copies = 1 + usize::from(self.chance.below(1000) < self.conditions.repeated);
            for _ in 0..copies {
                let is_far = self.far.is_some_and(|far| far == host || far == from);
                let far_us = if is_far { 60_000 } else { 0 };
                let delay = far_us
                    + self.conditions.way_us
                    + self.chance.below(self.conditions.delay_us) as u64;
                self.number += 1;
                let at = (self.now + Duration::from_micros(delay), self.number);
                self.flying.insert(at, (host, from, Rc::clone(&datagram)));
            }
        }
    }

    /// Runs the network for this time, and returns the answers to fetches.
    pub(crate) fn run(&mut self, time: Duration) -> Vec<(u64, SessionTier)> {
        let until = self.now + time;
        (0..self.hosts.len()).for_each(|host| self.settle(host));
        loop {
            let wake = self.wakes.first().map(|(at, _)| *at);
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let next = wake.into_iter().chain(arrival).min().unwrap();
            if next > until {
                self.now = until;
                return std::mem::take(&mut self.fetched);
            }
            self.now = self.now.max(next);
            self.deliver();
            while let Some((_, host)) = self.wakes.first().filter(|one| one.0 <= self.now) {
                self.settle(*host);
            }
        }
    }

    /// Lets a host do what is due, and notes when it wants to be called again.
    fn settle(&mut self, host: usize) {
        let moment = self.moment(host);
        let (mesh, cache) = &mut self.hosts[host];
        while mesh.deadline() <= moment.now {
            mesh.tick(moment, cache);
        }
        self.fetched.extend(std::iter::from_fn(|| mesh.poll_fetched()));
        let sent: Vec<_> = std::iter::from_fn(|| mesh.poll_transmit()).collect();
        let wake = mesh.deadline();
        if let Some(before) = self.wake_of[host].replace(wake) {
            self.wakes.remove(&(before, host));
        }
        self.wakes.insert((wake, host));
        for (target, datagram) in sent {
            self.send(host, target, &datagram);
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let (host, from, datagram) = entry.remove();
            let moment = self.moment(host);
            let (mesh, cache) = &mut self.hosts[host];
            let from = place(from);
            // The host counts the reason for dropping it.
            let _ = mesh.receive(&mut datagram.to_vec(), from, moment, cache);
            self.settle(host);
        }
    }

    /// Publishes a session of TLS 1.2 without a client's certificate.
    pub(crate) fn publish(&mut self, host: usize, number: u32) {
        self.publish_long(host, number, SESSION_BYTES);
    }

    pub(crate) fn publish_long(&mut self, host: usize, number: u32, bytes: usize) {
        let moment = self.moment(host);
        let (mesh, cache) = &mut self.hosts[host];
        let value = vec![number as u8; bytes];
        assert!(cache.insert(&key(number), &value, HOUR, moment.now));
        mesh.publish(key(number), &value, HOUR, moment);
    }

    pub(crate) fn fetch(&mut self, host: usize, number: u32) -> bool {
        let moment = self.moment(host);
        self.hosts[host].0.fetch(key(number), 9, moment);
        let fetched = self.run(Duration::from_millis(55));
        assert_eq!(fetched.len(), 1, "each is answered, once and in time");
        fetched[0] == (9, SessionTier::Peers)
    }

    /// Returns a host's datagram for all, which nobody has received yet.
    pub(crate) fn datagram(&mut self, host: usize) -> Vec<u8> {
        self.now += HEARTBEAT;
        let moment = self.moment(host);
        let (mesh, cache) = &mut self.hosts[host];
        mesh.tick(moment, cache);
        let (to, datagram) = mesh.poll_transmit().unwrap();
        assert_eq!(to, Target::All);
        datagram
    }

    /// Returns all datagrams that a host has to send.
    pub(crate) fn sent(&mut self, host: usize) -> Vec<(Target, Vec<u8>)> {
        let moment = self.moment(host);
        let (mesh, cache) = &mut self.hosts[host];
        while mesh.deadline() <= moment.now {
            mesh.tick(moment, cache);
        }
        std::iter::from_fn(|| mesh.poll_transmit()).collect()
    }

    /// Delivers a datagram now that seems to come from `from`.
    pub(crate) fn arrive(
        &mut self,
        host: usize,
        from: u16,
        datagram: &[u8],
    ) -> Result<(), ClusterRejection> {
        let moment = self.moment(host);
        let (mesh, cache) = &mut self.hosts[host];
        let from = SocketAddr::from(([127, 0, 0, 1], from));
        mesh.receive(&mut datagram.to_vec(), from, moment, cache)
    }

    pub(crate) fn holds(&self, host: usize, number: u32) -> bool {
        self.hosts[host].1.0.borrow().contains_key(&key(number))
    }

    pub(crate) fn lost(&self, host: usize) -> u64 {
        self.hosts[host].0.peers().map(|peer| peer.lost).sum()
    }
}

pub(crate) fn place(host: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], u16::try_from(host).unwrap()))
}

pub(crate) fn key(number: u32) -> Key {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    Key::new(&bytes).unwrap()
}
