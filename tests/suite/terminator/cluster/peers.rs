//! Hosts that share their sessions by datagrams: each a program of its own, at its own address of
//! loopback.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use suite::openssl::master_secret;
use suite::prelude::*;
use suite::process::memory_holds;

/// Programs of one cluster, and the test's own place in it.
pub(super) struct Farm {
    pub(super) site: Site,
    server: Server,
    secret: PathBuf,
    /// Address for datagrams of each; the last is the test's.
    pub(super) places: Vec<SocketAddr>,
    services: Vec<Service>,
    /// More keys of `cluster.peers`, and tables behind them.
    pub(super) more: &'static str,
}

impl Farm {
    /// Makes a farm of `hosts` hosts, none of which runs yet.
    pub(super) fn new(hosts: u8) -> Self {
        let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
        let secret = site.path("cluster.key");
        fs::write(&secret, "s".repeat(64)).unwrap();
        let place = |host| {
            let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
            let socket = UdpSocket::bind((ip, 0)).unwrap();
            socket.local_addr().unwrap()
        };
        let service = |_| Service::new(&site, &server);
        Self {
            services: (0..hosts).map(service).collect(),
            places: (1..=hosts + 1).map(place).collect(),
            site,
            server,
            secret,
            more: "",
        }
    }

    /// Returns a host's configuration with these secrets.
    pub(super) fn configuration(&self, host: usize, secrets: &[&Path]) -> String {
        let others = self.places.iter().enumerate();
        let others = others.filter(|(place, _)| *place != host);
        let others: Vec<_> = others.map(|(_, address)| address.to_string()).collect();
        format!(
            "[cluster]\nsecret = {:?}\nother-secrets = {:?}\n[cluster.peers]\nlisten = \"{}\"\nsend-to = \
             {others:?}\nfetch-timeout = \"100ms\"\n{}\n{}",
            secrets[0],
            &secrets[1..],
            self.places[host],
            self.more,
            self.services[host].toml()
        )
    }

    pub(super) fn start(&self, host: usize) -> Lariat {
        Lariat::start(&self.configuration(host, &[&self.secret]))
    }

    /// Opens the test's own socket, among those that datagrams for all are sent to.
    pub(super) fn spy(&self) -> UdpSocket {
        let socket = UdpSocket::bind(self.places.last().unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    pub(super) fn visit(&self, client: &Client, host: usize) -> HandshakeKind {
        client.visit(self.services[host].address)
    }

    /// Makes full handshakes with a host, one after the other; returns the median time and the 99th
    /// percentile.
    fn handshakes(&self, host: usize) -> [Duration; 2] {
        let handshake = |_| {
            let (client, begun) = (Client::without_tickets(&self.site), Instant::now());
            assert_eq!(self.visit(&client, host), HandshakeKind::Full);
            begun.elapsed()
        };
        let mut times: Vec<_> = (0..HANDSHAKES).map(handshake).collect();
        times.sort();
        [HANDSHAKES / 2, HANDSHAKES * 99 / 100].map(|place| times[place])
    }
}

/// Waits until a host receives from this number of peers.
pub(super) fn hears(lariat: &Lariat, count: f64) {
    lariat.wait_for_metric("lariat_cluster_peers", &[], count);
}

pub(super) fn rejected(lariat: &Lariat, reason: &str, count: f64) {
    let reason = [("reason", reason)];
    lariat.wait_for_metric_from("lariat_cluster_datagrams_rejected_total", &reason, count);
}

pub(super) fn stored(lariat: &Lariat, count: f64) {
    let stored = [("update", "stored")];
    lariat.wait_for_metric("lariat_cluster_sessions_total", &stored, count);
}

#[test]
fn a_host_that_starts_later_gets_what_it_missed_and_what_a_stopped_one_made_is_kept() {
    let farm = Farm::new(3);
    let (mut first, second) = (farm.start(0), farm.start(1));
    hears(&first, 1.0);
    let clients: Vec<_> = (0..20).map(|_| Client::without_tickets(&farm.site)).collect();
    for client in &clients {
        assert_eq!(farm.visit(client, 0), HandshakeKind::Full);
    }
    stored(&second, 20.0);
    first.signal(Signal::TERM);
    first.wait();
    // The host sends its stored sessions, not only those that its present process has made.
    second.kill_worker_process();
    let third = farm.start(2);
    stored(&third, 20.0);
    for client in &clients {
        assert_eq!(farm.visit(client, 2), HandshakeKind::Resumed);
    }
}

#[test]
fn a_session_that_did_not_arrive_is_fetched_while_its_client_waits() {
    let mut farm = Farm::new(2);
    farm.more = "resync-rate = 0";
    let first = farm.start(0);
    let client = Client::without_tickets(&farm.site);
    assert_eq!(farm.visit(&client, 0), HandshakeKind::Full);
    let second = farm.start(1);
    hears(&second, 1.0);
    assert_eq!(farm.visit(&client, 1), HandshakeKind::Resumed);
    second.wait_for_line(&["\"session_tier\":\"peers\"", "\"handshake\":\"session-id\""]);
    drop(first);
    // If nobody has the session, the handshake goes on without it.
    let alone = Service::new(&farm.site, &farm.server);
    let _alone = alone.start();
    let stranger = Client::without_tickets(&farm.site);
    assert_eq!(stranger.visit(alone.address), HandshakeKind::Full);
    assert_eq!(farm.visit(&stranger, 1), HandshakeKind::Full);
    second.wait_for_line(&["\"session_tier\":\"nowhere\"", "\"handshake\":\"full\""]);
}

/// Each client's next connection goes to the other host.
#[test]
fn the_share_of_sessions_that_resume_on_another_host_is_a_number() {
    let origin = Origin::start();
    let mut farm = Farm::new(2);
    farm.services = [(); 2].map(|()| Service::new(&farm.site, origin.address)).into();
    let load = || {
        let addresses = farm.services.iter().map(|one| one.address.to_string());
        let connect = addresses.collect::<Vec<_>>().join(",");
        let options = "--move-sessions --tls 1.2 --tickets off --handshake any --threads 1";
        let record = Load::bare()
            .arg("https://localhost/")
            .args(&format!("--connect {connect} {options} --cpus none --connections 2 --count 40"))
            .arg("--ca")
            .arg(farm.site.ca())
            .record();
        let [full, by_id, ..] = record.kinds();
        assert_eq!(full + by_id, 40);
        by_id
    };
    let alone = |host: usize| Lariat::start(&farm.services[host].toml());
    let apart = [alone(0), alone(1)];
    assert_eq!(load(), 0, "each knows its own");
    drop(apart);
    let hosts = [farm.start(0), farm.start(1)];
    hosts.iter().for_each(|host| hears(host, 1.0));
    // All but the first of each of the two clients, and those that a busy host sent late.
    let moved = load();
    assert!((30..=38).contains(&moved), "{moved}");
}

#[test]
fn a_session_with_a_clients_chain_goes_to_others_at_once_and_when_they_ask() {
    let mut farm = Farm::new(3);
    farm.more = "resync-rate = 0";
    let root = Authority::root("club");
    let (one, two) = (root.intermediate("of the club"), "of the intermediate");
    let member = one.intermediate(two).intermediate("of that").client("member");
    let chain_bytes = member.chain_pem().len() * 3 / 4;
    assert!(chain_bytes > 1300, "{chain_bytes}");
    let ca = root.write(&farm.site.directory, "club.pem");
    let keys = format!("client-certificates = {{ mode = 'required', ca = [{ca:?}] }}");
    farm.services = farm.services.into_iter().map(|one| one.tls(&keys)).collect();
    let hosts = [farm.start(0), farm.start(1)];
    hosts.iter().for_each(|host| hears(host, 1.0));
    let client = Client::without_tickets_showing(&farm.site, &member);
    assert_eq!(farm.visit(&client, 0), HandshakeKind::Full);
    stored(&hosts[1], 1.0);
    assert_eq!(farm.visit(&client, 1), HandshakeKind::Resumed);
    let third = farm.start(2);
    hears(&third, 2.0);
    assert_eq!(farm.visit(&client, 2), HandshakeKind::Resumed);
    third.wait_for_line(&["\"session_tier\":\"peers\"", "\"handshake\":\"session-id\""]);
    for (host, update) in [(&hosts[0], "too-large"), (&hosts[1], "incomplete")] {
        let count = host.sum("lariat_cluster_sessions_total", &[("update", update)]);
        assert_eq!(count, 0.0, "{update}");
    }
}

#[test]
fn a_session_of_tls13_that_was_used_up_on_one_host_is_gone_on_the_others() {
    let mut farm = Farm::new(2);
    farm.more = "[resumption]\ntls13 = \"cache\"";
    let hosts = [farm.start(0), farm.start(1)];
    hosts.iter().for_each(|host| hears(host, 1.0));
    let file = farm.site.path("session");
    // The client sends a line and waits for the echo: the session comes before.
    let visit = |host: usize, option| {
        let options = ["-tls1_3", option, file.to_str().unwrap()];
        let mut talk = Talk::start(&farm.site, farm.services[host].address, &options);
        talk.say("hello");
        talk.wait_for("hello", 1);
        talk.end()
    };
    visit(0, "-sess_out").assert_stdout("New, TLSv1.3");
    stored(&hosts[1], 1.0);
    visit(1, "-sess_in").assert_stdout("Reused, TLSv1.3");
    let removed = [("update", "removed")];
    hosts[0].wait_for_metric("lariat_cluster_sessions_total", &removed, 1.0);
    visit(0, "-sess_in").assert_stdout("New, TLSv1.3");
    visit(1, "-sess_in").assert_stdout("New, TLSv1.3");
}

#[test]
fn a_secret_is_replaced_without_a_full_handshake() {
    let farm = Farm::new(2);
    let new = farm.site.path("new.key");
    fs::write(&new, "n".repeat(64)).unwrap();
    let (old, new) = (farm.secret.as_path(), new.as_path());
    let hosts = [farm.start(0), farm.start(1)];
    hosts.iter().for_each(|host| hears(host, 1.0));
    let (mut made, mut kept) = (0.0, Vec::new());
    let steps: [(usize, &[&Path]); 6] = [
        (0, &[old, new]),
        (1, &[old, new]),
        (0, &[new, old]),
        (1, &[new, old]),
        (0, &[new]),
        (1, &[new]),
    ];
    for (host, secrets) in steps {
        hosts[host].reload_with(&farm.configuration(host, secrets));
        made += 1.0;
        for (from, to) in [(0, 1), (1, 0)] {
            let client = Client::without_tickets(&farm.site);
            assert_eq!(farm.visit(&client, from), HandshakeKind::Full);
            stored(&hosts[to], made);
            assert_eq!(farm.visit(&client, to), HandshakeKind::Resumed);
            kept.push(client);
            let by_ticket = Client::new(&farm.site);
            assert_eq!(farm.visit(&by_ticket, from), HandshakeKind::Full);
            assert_eq!(farm.visit(&by_ticket, to), HandshakeKind::Resumed);
        }
    }
    for client in kept {
        assert_eq!(farm.visit(&client, 0), HandshakeKind::Resumed);
    }
    let unknown = [("reason", "unknown-secret")];
    let rejected = "lariat_cluster_datagrams_rejected_total";
    let sum = |host: &Lariat| host.sum(rejected, &unknown);
    assert_eq!(hosts.each_ref().map(sum), [0.0, 0.0]);
}

#[test]
fn nothing_that_an_attacker_sends_enters_a_cache_and_nothing_they_see_is_a_secret() {
    let farm = Farm::new(2);
    let spy = farm.spy();
    let hosts = [farm.start(0), farm.start(1)];
    hosts.iter().for_each(|host| hears(host, 1.0));
    let keys = farm.site.path("keys");
    let options = ["-tls1_2", "-no_ticket", "-keylogfile", keys.to_str().unwrap()];
    s_client(&farm.site, farm.services[0].address, &options).success();
    stored(&hosts[1], 1.0);
    let secret = master_secret(&keys);
    let seen = seen_until_session(&spy, farm.places[0]);
    for datagram in &seen {
        for part in secret.windows(8) {
            assert!(!datagram.windows(8).any(|here| here == part), "it was sent in clear");
        }
    }
    let sample = seen.last().unwrap();
    let changed = |place: usize| {
        let mut datagram = sample.clone();
        datagram[place] ^= 1;
        datagram
    };
    let send = |datagram: &[u8], host: usize| {
        spy.send_to(datagram, farm.places[host]).unwrap();
    };
    send(&changed(0), 1);
    rejected(&hosts[1], "version", 1.0);
    hosts[1].wait_for_stderr(" have version 3, and this lariat speaks version 2 alone");
    send(&sample[..50], 1);
    rejected(&hosts[1], "malformed", 1.0);
    send(&changed(4), 1);
    rejected(&hosts[1], "unknown-secret", 1.0);
    // Sender, boot, sequence, time, ciphertext, and its tag.
    for place in [8, 16, 31, 39, 40, sample.len() - 1] {
        send(&changed(place), 1);
    }
    rejected(&hosts[1], "forged", 6.0);
    send(sample, 1);
    rejected(&hosts[1], "replayed", 1.0);
    send(sample, 0);
    rejected(&hosts[0], "reflected", 1.0);
    // A process that has not seen it takes it for old: it was sent before this process began.
    hosts[1].kill_worker_process();
    hears(&hosts[1], 1.0);
    send(sample, 1);
    rejected(&hosts[1], "before-start", 1.0);
    assert_eq!(of_time(&hosts), [0.0, 0.0], "a start is no fault");
}

/// Returns the datagrams that each host has dropped because of their time.
fn of_time(hosts: &[Lariat; 2]) -> [f64; 2] {
    let reason = [("reason", "out-of-time")];
    let name = "lariat_cluster_datagrams_rejected_total";
    hosts.each_ref().map(|host| host.sum(name, &reason))
}

/// A thief forwards one host's datagrams from a place of their own.
#[test]
fn nobody_is_answered_at_a_place_that_is_no_peers() {
    let farm = Farm::new(2);
    let (spy, thief) = (farm.spy(), UdpSocket::bind("127.0.0.9:0").unwrap());
    // The host sends only to the spy, and what comes from there is the thief's.
    let all = farm.configuration(0, &[&farm.secret]);
    let first = Lariat::start(&all.replace(&format!("\"{}\", ", farm.places[1]), ""));
    let client = Client::without_tickets(&farm.site);
    assert_eq!(farm.visit(&client, 0), HandshakeKind::Full);
    let second = farm.start(1);
    let place = thief.local_addr().unwrap();
    let said = format!("a cluster peer is heard from {place}, which is not in");
    until_true("the thief to be told from the peer", || {
        let mut room = [0; 2000];
        let (count, from) = spy.recv_from(&mut room).unwrap();
        if from == farm.places[0] {
            thief.send_to(&room[..count], farm.places[1]).unwrap();
        }
        second.stderr().contains(&said)
    });
    assert_has(second.ask("status").success(), "NOT LISTED");
    thief.set_nonblocking(true).unwrap();
    assert!(thief.recv(&mut [0; 2000]).is_err(), "it was answered");
    drop(first);
}

/// Largest number of datagrams of a flood, and handshakes beside it.
const FLOOD: usize = 400_000;
const HANDSHAKES: usize = 200;

#[test]
fn a_flood_of_all_that_can_be_sent_disturbs_no_handshake_and_brings_nothing() {
    let farm = Farm::new(2);
    let spy = farm.spy();
    let hosts = [farm.start(0), farm.start(1)];
    hosts.iter().for_each(|host| hears(host, 1.0));
    let old = Client::without_tickets(&farm.site);
    assert_eq!(farm.visit(&old, 0), HandshakeKind::Full);
    stored(&hosts[1], 1.0);
    let sample = seen_until_session(&spy, farm.places[0]).pop().unwrap();
    let quiet = farm.handshakes(1);
    // Cost of the flood itself: nobody reads it there.
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let elsewhere = flooded(&spy, &sample, sink.local_addr().unwrap(), || farm.handshakes(1));
    let here = flooded(&spy, &sample, farm.places[1], || {
        let times = farm.handshakes(1);
        // Other requests to the process are answered as well.
        hosts[1].reload().success();
        assert_has(hosts[1].ask("status").success(), "1 of 2 peers heard");
        times
    });
    eprintln!(
        "median and 99 % of handshakes: {quiet:?} alone, {elsewhere:?} beside a flood, {here:?} in it"
    );
    for reason in ["malformed", "version", "unknown-secret", "forged", "replayed"] {
        rejected(&hosts[1], reason, 100.0);
    }
    // The host's own sessions and that of the other; none of the flood.
    let made = 3 * HANDSHAKES;
    let entries = hosts[1].sum("lariat_session_cache_entries", &[]);
    assert_eq!(entries, made as f64 + 1.0);
    stored(&hosts[1], 1.0);
    assert_eq!(farm.visit(&old, 1), HandshakeKind::Resumed);
}

/// Acts while a place is flooded.
fn flooded<T>(spy: &UdpSocket, sample: &[u8], target: SocketAddr, act: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let flood = || {
        let numbers = (0..FLOOD).take_while(|_| !is_over.load(Ordering::Relaxed));
        let send = |one| send_one(spy, sample, one, target);
        numbers.map(send).count()
    };
    thread::scope(|scope| {
        let (sent, begun) = (scope.spawn(flood), Instant::now());
        let done = act();
        is_over.store(true, Ordering::Relaxed);
        let (sent, time) = (sent.join().unwrap(), begun.elapsed());
        eprintln!("{sent} datagrams in {time:?}");
        done
    })
}

/// Sends one datagram of a flood: each way to change a received one, in turn.
fn send_one(spy: &UdpSocket, sample: &[u8], number: usize, target: SocketAddr) {
    let mut datagram = sample.to_vec();
    let last = datagram.len() - 1;
    match number % 8 {
        0 => datagram.truncate(50),
        1 => datagram[0] ^= 1,
        2 => datagram[4] ^= 1,
        // Changed sender, boot, number; changed body.
        3 => datagram[8 + number / 8 % 8] ^= number as u8 | 1,
        4 => datagram[16 + number / 8 % 8] ^= number as u8 | 1,
        5 => datagram[24..32].copy_from_slice(&(number as u64).to_be_bytes()),
        6 => datagram[last] ^= 1,
        // The datagram itself.
        _ => {}
    }
    // A full buffer drops it.
    let _ = spy.send_to(&datagram, target);
}

#[test]
fn a_flood_by_who_has_no_secret_costs_no_peer_its_datagrams() {
    let mut farm = Farm::new(2);
    farm.more = "receive-rate = 50";
    let stranger = farm.spy();
    let hosts = [farm.start(0), farm.start(1)];
    hosts.iter().for_each(|host| hears(host, 1.0));
    let flood = |count| {
        let send = |_| stranger.send_to(b"nothing", farm.places[1]).unwrap();
        (0..count).map(send).for_each(drop);
    };
    flood(100);
    rejected(&hosts[1], "rate-limited", 1.0);
    for made in 1..=10 {
        // More than the stranger's allowance since the last ones.
        flood(30);
        let client = Client::without_tickets(&farm.site);
        assert_eq!(farm.visit(&client, 0), HandshakeKind::Full);
        stored(&hosts[1], f64::from(made));
    }
}

/// Returns datagrams up to the first one from there that carries more than keep-alives.
pub(super) fn seen_until_session(spy: &UdpSocket, from: SocketAddr) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    loop {
        let mut room = [0; 2000];
        let (count, sender) = spy.recv_from(&mut room).unwrap();
        seen.push(room[..count].to_vec());
        if sender == from && count > 150 {
            return seen;
        }
    }
}

/// The worker process derives the keys of tickets and datagrams from roots, from which the keys of
/// the supervisors' messages cannot be computed.
#[test]
fn a_worker_process_does_not_know_the_clusters_secret() {
    if !geteuid().is_root() {
        return;
    }
    let farm = Farm::new(2);
    let secret = "2bV9qL0dXk4nT7yJcR5mW8zG1sH6fP3aQeUoIvBxNtCgDrEy";
    fs::write(&farm.secret, format!("{secret}\n")).unwrap();
    let [first, second] = [0, 1].map(|host| farm.start(host));
    let client = Client::new(&farm.site);
    farm.visit(&client, 0);
    assert_eq!(farm.visit(&client, 1), HandshakeKind::Resumed, "the hosts have the same keys");
    for host in [&first, &second] {
        assert!(!memory_holds(host.worker_process(), secret.as_bytes()));
        assert!(memory_holds(host.worker_process(), b"cluster.key"), "the search finds text");
    }
}
