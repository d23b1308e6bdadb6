//! A relay of datagrams between hosts, which loses, repeats, delays and reorders them by a seed, or
//! parts a host from the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testkit::chance::Chance;

use crate::network::Host;

#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: usize,
    /// Datagrams that come twice, of a thousand.
    pub repeated: usize,
    /// Shortest time that a datagram takes.
    pub way: Duration,
    /// Largest additional time. Datagrams overtake each other.
    pub delay: Duration,
}

/// Relays until it is dropped. The relay has a place for each host: datagrams sent there go to that
/// host, from the place of the sender.
#[derive(Debug)]
pub struct Relay {
    places: Vec<Arc<UdpSocket>>,
    parted: Arc<Mutex<Option<usize>>>,
    threads: Vec<JoinHandle<()>>,
    _host: Host,
}

/// Due time of a datagram, the sending place, and the receiving host.
type Flying = Reverse<(Instant, usize, SocketAddr, Vec<u8>)>;

/// A place, from which datagrams for one host go on.
struct Place {
    number: usize,
    socket: Arc<UdpSocket>,
    hosts: Vec<SocketAddr>,
    parted: Arc<Mutex<Option<usize>>>,
    weather: Weather,
    chance: Chance,
    flying: Sender<Flying>,
}

impl Relay {
    /// Starts a relay at a host of its own, between these addresses of others.
    pub fn start(host: Host, hosts: &[SocketAddr], weather: Weather, seed: u64) -> Self {
        let bind = || Arc::new(UdpSocket::bind((host.ipv4(), 0)).expect("a free port"));
        let places: Vec<_> = host.within(|| hosts.iter().map(|_| bind()).collect());
        let parted = Arc::new(Mutex::new(None));
        let (flying, landing) = channel();
        let places_of = |(number, socket): (usize, &Arc<UdpSocket>)| Place {
            number,
            socket: Arc::clone(socket),
            hosts: hosts.to_vec(),
            parted: Arc::clone(&parted),
            weather,
            chance: Chance::new(seed + number as u64),
            flying: flying.clone(),
        };
        let mut threads: Vec<_> = places
            .iter()
            .enumerate()
            .map(places_of)
            .map(|place| std::thread::spawn(|| place.run()))
            .collect();
        let senders = places.clone();
        threads.push(std::thread::spawn(move || land(&senders, &landing)));
        Self { places, parted, threads, _host: host }
    }

    /// Returns the address to which others send datagrams for the host of this number.
    pub fn place(&self, host: usize) -> SocketAddr {
        self.places[host].local_addr().expect("it is bound")
    }

    /// Parts the host of this number from the others; `None` = all are joined again.
    pub fn part(&self, host: Option<usize>) {
        *self.parted.lock().expect("no thread panics") = host;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for place in &self.places {
            // A datagram from itself marks the end.
            let own = place.local_addr().expect("it is bound");
            place.send_to(&[], own).expect("loopback is up");
        }
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "it relays");
        }
    }
}

impl Place {
    fn run(mut self) {
        let mut room = [0; 2048];
        loop {
            let (count, from) = self.socket.recv_from(&mut room).expect("it is open");
            match self.hosts.iter().position(|host| *host == from) {
                Some(sender) => self.relay(sender, &room[..count]),
                None if self.socket.local_addr().is_ok_and(|own| own == from) => return,
                None => {}
            }
        }
    }

    fn relay(&mut self, sender: usize, datagram: &[u8]) {
        let parted = *self.parted.lock().expect("no thread panics");
        let is_parted = parted.is_some_and(|host| host == sender || host == self.number);
        if is_parted || self.chance.below(1000) < self.weather.lost {
            return;
        }
        let copies = 1 + usize::from(self.chance.below(1000) < self.weather.repeated);
        for _ in 0..copies {
            let delay = self.chance.below(self.weather.delay.as_micros() as usize);
            let due = Instant::now() + self.weather.way + Duration::from_micros(delay as u64);
            let to = self.hosts[self.number];
            let flying = Reverse((due, sender, to, datagram.to_vec()));
            self.flying.send(flying).expect("it lands");
        }
    }
}

/// Sends each datagram when it is due, until nobody relays.
fn land(places: &[Arc<UdpSocket>], flying: &Receiver<Flying>) {
    let mut waiting = BinaryHeap::<Flying>::new();
    loop {
        let due = waiting.peek().map(|Reverse((due, ..))| *due);
        let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
        match flying.recv_timeout(wait.unwrap_or(Duration::MAX)) {
            Ok(one) => waiting.push(one),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(Reverse((_, sender, to, datagram))) = waiting.pop() {
                    // A host that died has no port; its address is there.
                    let _ = places[sender].send_to(&datagram, to);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
