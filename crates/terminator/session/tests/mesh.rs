//! Hosts that share sessions over a network that loses, delays, reorders, repeats and parts, by a
//! seed and in virtual time; and what it costs with many of them.

#![allow(clippy::disallowed_methods, reason = "tests are their own clock")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use session::Key;
use session::mesh::{DatagramCipher, HEARTBEAT, LocalSessions, Mesh, MeshOptions, Moment, Target};
use telemetry::outcome::{ClusterRejection, ClusterUpdate, SessionTier};
use testkit::chance::Chance;
use wire::cluster::{HEADER_BYTES, Header, TAG_BYTES};
use zeroize::Zeroizing;

/// Of TLS 1.2, without a client's certificate.
const SESSION_BYTES: usize = 120;
const HOUR: Duration = Duration::from_secs(3600);
const UNIX_MS: u64 = 1_700_000_000_000;

const RECEIVE_RATE: u32 = 20_000;

/// Until all hosts have heard each other, and caught up.
const SETTLED: Duration = Duration::from_secs(6);

/// Proves no more than that header and body came together.
#[derive(Debug)]
struct Tagged;

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

/// A host's cache.
#[derive(Default)]
struct Cache(RefCell<HashMap<Key, Vec<u8>>>);

impl LocalSessions for Cache {
    fn find(&self, key: &Key, _: Instant) -> Option<(Zeroizing<Vec<u8>>, Duration)> {
        let value = self.0.borrow().get(key).cloned()?;
        Some((value.into(), HOUR))
    }

    fn insert(&self, key: &Key, value: &[u8], _: Duration, _: Instant) -> bool {
        self.0.borrow_mut().insert(*key, value.to_vec()).is_none()
    }

    fn remove(&self, key: &Key) {
        self.0.borrow_mut().remove(key);
    }
}

/// What happens to datagrams, of a thousand, and how long they take at most.
#[derive(Clone, Copy)]
struct Weather {
    lost: usize,
    repeated: usize,
    delay_us: usize,
}

const CLEAN: Weather = Weather {
    lost: 0,
    repeated: 0,
    delay_us: 300,
};

const STORMY: Weather = Weather {
    lost: 0,
    repeated: 300,
    delay_us: 30_000,
};

struct Network {
    hosts: Vec<(Mesh, Cache)>,
    /// On their way: when they arrive, at which host, from which.
    flying: BTreeMap<(Instant, u64), (usize, usize, Vec<u8>)>,
    number: u64,
    chance: Chance,
    weather: Weather,
    /// Hosts below this number and the others do not reach each other.
    parted: usize,
    /// Datagrams for one peer alone that are still to be lost, whatever the weather.
    taken_away: usize,
    start: Instant,
    now: Instant,
}

impl Network {
    /// Hosts that have heard each other.
    fn new(hosts: usize, seed: u64, weather: Weather) -> Self {
        let start = Instant::now();
        let mut network = Self {
            hosts: Vec::new(),
            flying: BTreeMap::new(),
            number: 0,
            chance: Chance::new(seed),
            weather,
            parted: 0,
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

    fn mesh(&self, host: usize, boot: u64, hosts: usize) -> Mesh {
        let numbers = ((host as u64).to_be_bytes(), boot.to_be_bytes());
        Mesh::new(
            Self::options(hosts),
            Box::new(Tagged),
            numbers,
            self.moment(host),
        )
    }

    fn options(hosts: usize) -> MeshOptions {
        MeshOptions {
            time_window: Duration::from_secs(30),
            replay_window: 1024,
            senders: 2000,
            receive_rate: RECEIVE_RATE,
            send_rate: 1_000_000,
            fetch_rate: 1000,
            fetch_timeout: Duration::from_millis(5),
            resync: 10_000,
            copies: u32::try_from(hosts - 1).unwrap(),
        }
    }

    /// Clocks differ by some seconds.
    fn moment(&self, host: usize) -> Moment {
        let passed = self.now.duration_since(self.start).as_millis() as u64;
        Moment {
            now: self.now,
            unix_ms: UNIX_MS + passed + (host % 7) as u64 * 700,
        }
    }

    fn send(&mut self, from: usize, target: Target, datagram: &[u8]) {
        if target != Target::All && self.taken_away > 0 {
            self.taken_away -= 1;
            return;
        }
        let to: Vec<_> = match target {
            Target::All => (0..self.hosts.len()).filter(|host| *host != from).collect(),
            Target::One(address) => vec![usize::from(address.port())],
        };
        for host in to {
            let is_parted = (host < self.parted) != (from < self.parted);
            if is_parted || self.chance.below(1000) < self.weather.lost {
                continue;
            }
            let copies = 1 + usize::from(self.chance.below(1000) < self.weather.repeated);
            for _ in 0..copies {
                let delay = 50 + self.chance.below(self.weather.delay_us) as u64;
                self.number += 1;
                let at = (self.now + Duration::from_micros(delay), self.number);
                self.flying.insert(at, (host, from, datagram.to_vec()));
            }
        }
    }

    /// All that happens in so long; the answers to what was fetched.
    fn run(&mut self, time: Duration) -> Vec<(u64, SessionTier)> {
        let (until, mut fetched) = (self.now + time, Vec::new());
        loop {
            for host in 0..self.hosts.len() {
                let moment = self.moment(host);
                let (mesh, cache) = &mut self.hosts[host];
                if mesh.deadline() <= moment.now {
                    mesh.tick(moment, cache);
                }
                fetched.extend(std::iter::from_fn(|| mesh.poll_fetched()));
                let sent: Vec<_> = std::iter::from_fn(|| mesh.poll_transmit()).collect();
                for (target, datagram) in sent {
                    self.send(host, target, &datagram);
                }
            }
            let dues = self.hosts.iter().map(|(mesh, _)| mesh.deadline());
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let next = dues.chain(arrival).min().unwrap().max(self.now);
            if next > until {
                self.now = until;
                return fetched;
            }
            self.now = next;
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let (host, from, mut datagram) = entry.remove();
            let moment = self.moment(host);
            let (mesh, cache) = &mut self.hosts[host];
            let from = SocketAddr::from(([127, 0, 0, 1], u16::try_from(from).unwrap()));
            // Why it was dropped is counted.
            let _ = mesh.receive(&mut datagram, from, moment, cache);
        }
    }

    fn publish(&mut self, host: usize, number: u32) {
        let moment = self.moment(host);
        let (mesh, cache) = &mut self.hosts[host];
        let value = vec![number as u8; SESSION_BYTES];
        assert!(cache.insert(&key(number), &value, HOUR, moment.now));
        mesh.publish(key(number), &value, HOUR, moment);
    }

    fn fetch(&mut self, host: usize, number: u32) -> bool {
        let moment = self.moment(host);
        self.hosts[host].0.fetch(key(number), 9, moment);
        let fetched = self.run(Duration::from_millis(10));
        assert_eq!(fetched.len(), 1, "each is answered, once and in time");
        fetched[0] == (9, SessionTier::Peers)
    }

    /// A host has a datagram for all, which nobody has yet.
    fn datagram(&mut self, host: usize) -> Vec<u8> {
        self.now += HEARTBEAT;
        let moment = self.moment(host);
        let (mesh, cache) = &mut self.hosts[host];
        mesh.tick(moment, cache);
        let (to, datagram) = mesh.poll_transmit().unwrap();
        assert_eq!(to, Target::All);
        datagram
    }

    /// A datagram arrives now that seems to be from there.
    fn arrive(&mut self, host: usize, from: u16, datagram: &[u8]) -> Result<(), ClusterRejection> {
        let moment = self.moment(host);
        let (mesh, cache) = &mut self.hosts[host];
        let from = SocketAddr::from(([127, 0, 0, 1], from));
        mesh.receive(&mut datagram.to_vec(), from, moment, cache)
    }

    fn holds(&self, host: usize, number: u32) -> bool {
        self.hosts[host].1.0.borrow().contains_key(&key(number))
    }

    fn lost(&self, host: usize) -> u64 {
        self.hosts[host].0.peers().map(|peer| peer.lost).sum()
    }
}

/// As long as a session id.
fn key(number: u32) -> Key {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    Key::new(&bytes).unwrap()
}

#[test]
fn every_session_is_everywhere_if_none_is_lost_and_nothing_comes_twice() {
    for (seed, hosts) in [2, 3, 16].into_iter().enumerate() {
        let mut network = Network::new(hosts, seed as u64, STORMY);
        for number in 0..200 {
            network.publish(number as usize % hosts, number);
            network.run(Duration::from_millis(2));
        }
        network.run(Duration::from_secs(1));
        for host in 0..hosts {
            assert!((0..200).all(|number| network.holds(host, number)));
            assert_eq!(network.lost(host), 0);
            let counters = network.hosts[host].0.counters();
            assert!(counters.rejections(ClusterRejection::Replayed) > 0);
            assert_eq!(counters.rejections(ClusterRejection::Forged), 0);
        }
    }
}

#[test]
fn what_was_lost_is_fetched_and_counted() {
    for (seed, lost, least) in [(1, 10, 995), (2, 100, 980)] {
        let mut network = Network::new(3, seed, Weather { lost, ..CLEAN });
        let (mut pushed, mut resumed) = (0, 0);
        for number in 0..1000 {
            network.publish(0, number);
            network.run(Duration::from_millis(20));
            let is_there = network.holds(1, number);
            pushed += u32::from(is_there);
            resumed += u32::from(is_there || network.fetch(1, number));
        }
        assert!(pushed < resumed && resumed >= least, "{pushed}, {resumed}");
        assert!(network.lost(1) > 0, "gaps are seen");
    }
}

#[test]
fn a_host_that_was_cut_off_and_one_that_starts_catch_up() {
    let mut network = Network::new(4, 5, CLEAN);
    network.parted = 1;
    (0..500).for_each(|number| network.publish(1, number));
    network.run(Duration::from_secs(8));
    assert!(!network.holds(0, 0) && network.holds(2, 499));
    network.parted = 0;
    network.run(Duration::from_secs(8));
    assert!((0..500).all(|number| network.holds(0, number)));
    // The host that made them is out of reach, and another starts anew.
    network.parted = 2;
    network.hosts[3] = (network.mesh(3, 2, 4), Cache::default());
    network.run(Duration::from_secs(8));
    assert!((0..500).all(|number| network.holds(3, number)));
}

#[test]
fn a_host_catches_up_though_its_first_requests_or_their_answers_are_lost() {
    for taken_away in 1..=3 {
        let mut network = Network::new(2, 7, CLEAN);
        (0..50).for_each(|number| network.publish(0, number));
        network.run(Duration::from_secs(1));
        network.hosts[1] = (network.mesh(1, 2, 2), Cache::default());
        network.taken_away = taken_away;
        // The peer gives its signs of life all the while.
        network.run(Duration::from_secs(13));
        assert_eq!(network.taken_away, 0);
        assert!(
            (0..50).all(|number| network.holds(1, number)),
            "{taken_away} lost"
        );
    }
}

/// A boot is forgotten by the time window that was; a wider one must not let in what it sent.
#[test]
fn a_wider_time_window_lets_nothing_in_again() {
    let mut network = Network::new(2, 8, CLEAN);
    let datagram = network.datagram(0);
    assert_eq!(network.arrive(1, 0, &datagram), Ok(()));
    // Its boot is forgotten at the next start after twice the window.
    network.now += Duration::from_secs(61);
    network.hosts[0] = (network.mesh(0, 2, 2), Cache::default());
    let first = network.datagram(0);
    assert_eq!(network.arrive(1, 0, &first), Ok(()));
    let options = MeshOptions {
        time_window: Duration::from_secs(300),
        ..Network::options(2)
    };
    let moment = network.moment(1);
    let mesh = &mut network.hosts[1].0;
    mesh.reconfigure(options, Box::new(Tagged), moment);
    let late = Err(ClusterRejection::OutOfTime);
    assert_eq!(network.arrive(1, 0, &datagram), late);
    let next = network.datagram(0);
    assert_eq!(network.arrive(1, 0, &next), Ok(()));
}

/// A session that resumes once was used up, and its client offers it again.
#[test]
fn each_request_for_a_session_waits_its_own_time() {
    let mut network = Network::new(2, 9, CLEAN);
    let moment = network.moment(1);
    network.hosts[1].0.fetch(key(1), 1, moment);
    network.run(Duration::from_millis(1));
    network.publish(0, 1);
    assert_eq!(
        network.run(Duration::from_millis(3)),
        [(1, SessionTier::Peers)]
    );
    network.hosts[1].1.remove(&key(1));
    let moment = network.moment(1);
    network.hosts[1].0.fetch(key(1), 2, moment);
    network.parted = 1;
    let early = network.run(Duration::from_millis(4));
    assert_eq!(early, [], "the time of the first one ended there");
    let late = network.run(Duration::from_millis(2));
    assert_eq!(late, [(2, SessionTier::Nowhere)]);
}

#[test]
fn what_was_deleted_does_not_come_back_by_an_older_datagram() {
    for seed in 0..20 {
        let mut network = Network::new(3, seed, STORMY);
        network.publish(0, 1);
        network.run(Duration::from_millis(3));
        let moment = network.moment(1);
        let (mesh, cache) = &mut network.hosts[1];
        cache.remove(&key(1));
        mesh.delete(key(1), moment);
        network.run(Duration::from_secs(2));
        assert!((0..3).all(|host| !network.holds(host, 1)), "seed {seed}");
        assert!(!network.fetch(2, 1));
    }
}

#[test]
fn a_flood_of_forged_datagrams_costs_no_peer_but_the_one_that_it_pretends_to_be() {
    let limited = Err(ClusterRejection::RateLimited);
    for (flooded_as, answers) in [(99, [Ok(()), Ok(())]), (0, [limited, Ok(())])] {
        let mut network = Network::new(3, 6, CLEAN);
        let sent = [0, 1].map(|host| network.datagram(host));
        let mut forged = sent[0].clone();
        *forged.last_mut().unwrap() ^= 1;
        let flood = |_| network.arrive(2, flooded_as, &forged);
        let refused: Vec<_> = (0..=RECEIVE_RATE).map(flood).collect();
        assert_eq!(refused[0], Err(ClusterRejection::Forged));
        assert_eq!(refused.last(), Some(&limited));
        assert_eq!(network.arrive(2, 0, &sent[0]), answers[0]);
        assert_eq!(network.arrive(2, 1, &sent[1]), answers[1]);
    }
}

/// What docs/guide/scale-out.md says of the cost.
#[test]
fn the_cost_grows_with_the_hosts_that_a_session_is_sent_to() {
    let mut network = Network::new(2, 3, CLEAN);
    for hosts in [2, 4, 16, 100, 1000] {
        let copies = hosts as u64 - 1;
        for (sessions, pause_us, least, most) in [(7, 1000, 216, 216), (700, 10, 168, 170)] {
            let mut mesh = network.mesh(0, 1, hosts);
            mesh.tick(network.moment(0), &Cache::default());
            let before = mesh.counters().bytes_sent;
            assert_eq!(before, 56 * copies, "a sign of life");
            for number in 0..sessions {
                mesh.publish(key(number), &[7; SESSION_BYTES], HOUR, network.moment(0));
                network.now += Duration::from_micros(pause_us);
                mesh.tick(network.moment(0), &Cache::default());
            }
            network.now += Duration::from_millis(1);
            mesh.tick(network.moment(0), &Cache::default());
            let counters = mesh.counters();
            assert_eq!(counters.updates(ClusterUpdate::Dropped), 0);
            let each = (counters.bytes_sent - before) / u64::from(sessions) / copies;
            assert!(
                (least..=most).contains(&each),
                "{each} bytes of each session and host"
            );
        }
    }
}
