//! Certificates from an authority on loopback: pebble, which rejects one nonce of twenty.
//!
//! `./run-tests acme` provides the program and names it in `PEBBLE`.
#![forbid(unsafe_code)]

mod foreign;
mod records;

use std::net::{Ipv4Addr, UdpSocket};

use suite::clock::Clock;
use suite::patience::{until, within};
use suite::prelude::*;
use suite::process::memory_holds;

struct Pebble {
    running: Running,
    directory: SocketAddr,
    /// Ports at which pebble validates: for a certificate, and for a file.
    asked: [SocketAddr; 2],
}

impl Pebble {
    fn start(site: &Site) -> Self {
        Self::start_with(site, &[], ("PEBBLE_VA_NOSLEEP", "1"))
    }

    fn start_with(site: &Site, arguments: &[&str], (name, value): (&str, &str)) -> Self {
        let asked = [free_address(), free_address()];
        let (directory, management) = (free_address(), free_address());
        let certificate = site.leaf(&["localhost", "127.0.0.1"]);
        let [chain, key] = [certificate.chain_pem(), certificate.key_pem().to_owned()];
        let (chain, key) = (site.write("pebble.crt", chain), site.write("pebble.key", key));
        let configuration = serde_json::json!({ "pebble": {
            "listenAddress": directory.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": chain,
            "privateKey": key,
            "tlsPort": asked[0].port(),
            "httpPort": asked[1].port(),
            "certificateValidityPeriod": 90 * 86_400,
        }});
        let configuration = site.write("pebble.json", configuration.to_string());
        let program = std::env::var("PEBBLE").unwrap_or_else(|_| "pebble".to_owned());
        let mut command = Command::new(program);
        command.args(arguments).arg("-config").arg(configuration).env(name, value);
        let mut running = Running::start(command.env("PEBBLE_WFE_NONCEREJECT", "5"));
        running.wait_for_listener(directory);
        Self { running, directory, asked }
    }

    fn orders(&self) -> usize {
        self.running.stdout().matches("Added order").count()
    }

    /// Returns a service whose certificate pebble issues, with more keys of `acme`.
    fn service(&self, site: &Site, name: &str, address: SocketAddr, more: &str) -> String {
        format!(
            "[[service]]\nname = {name:?}\n[service.front]\nlisten = [\"{address}\"]\n\
             [service.front.tls.acme]\ndirectory = \"https://{}/dir\"\nroots = [{:?}]\n\
             accept-terms = true\n{more}\n[service.back]\nservers = [\"127.0.0.1:9\"]\n",
            self.directory,
            site.ca()
        )
    }
}

fn folder(site: &Site) -> String {
    format!("[acme]\nfolder = {:?}\n", site.path("acme"))
}

/// After a failure, such as a death amid an order, the next order is a minute away.
const RETRY_TIME_MAX: Duration = Duration::from_secs(150);

/// Waits until all certificates have come, and returns what is served at each address.
fn issued(site: &Site, lariat: &Lariat, addresses: &[SocketAddr]) -> Vec<String> {
    let has_come = || {
        let status = lariat::try_status(&lariat.status_socket())?;
        let mut all = status["services"].as_array()?.iter();
        all.all(|one| one["certificates_skipped"].as_array().is_some_and(Vec::is_empty))
            .then_some(())
    };
    within(RETRY_TIME_MAX, has_come).unwrap_or_else(|| panic!("{}", lariat.stderr()));
    let shown = |address: &SocketAddr| {
        let answer = s_client(site, *address, &["-servername", "localhost", "-showcerts"]);
        let line = answer.stdout.lines().find_map(|line| line.strip_prefix("issuer="));
        line.unwrap_or_else(|| panic!("{answer:?}")).to_owned()
    };
    addresses.iter().map(shown).collect()
}

fn ordered(lariat: &Lariat, words: [&str; 2]) {
    let mut command = lariat::command();
    command.arg("certificate").args(words);
    run(command.arg("--status-socket").arg(lariat.status_socket())).success();
}

/// Waits until no order is in progress, and the last attempts have not failed.
fn rests(lariat: &Lariat) {
    let waits = |one: &Value| one["stage"] == "waiting" && one["last_failure"].is_null();
    let is_at_rest = || lariat.status()["acme"].as_array().expect("a list").iter().all(waits);
    until_true("no work", is_at_rest);
}

#[test]
fn certificates_come_are_renewed_and_revoked_and_stay() {
    let site = Site::new();
    let pebble = Pebble::start(&site);
    let ([tls, http], other) = (pebble.asked, free_address());
    let both = "domains = [\"localhost\", \"127.0.0.1\"]\nkey = [\"ecdsa-p256\", \"rsa-2048\"]";
    let by_http = "domains = [\"127.0.0.2\", \"127.0.0.3\"]\nchallenge = \"http\"";
    let configuration = folder(&site)
        + &pebble.service(&site, "tls", tls, both)
        + &pebble.service(&site, "http", other, by_http)
        + &format!(
            "[[service]]\nname = \"plain\"\n\
             front = {{ listen = [\"127.0.0.2:{port}\"], redirect = \"https\" }}\n\
             [[service]]\nname = \"relay\"\nfront.listen = [\"127.0.0.3:{port}\"]\n\
             back.servers = [\"127.0.0.1:9\"]\n",
            port = http.port()
        );
    let mut lariat = Lariat::start(&configuration);
    for issuer in issued(&site, &lariat, &[tls, other]) {
        assert_has(&issuer, "Pebble Intermediate CA");
    }
    let reason = [("reason", "acme-validation")];
    lariat.wait_for_metric_from("lariat_connections_ended_total", &reason, 2.0);
    // The server behind the relay cannot be reached, and need not be.
    let relay = [("service", "relay"), ("reason", "acme-validation")];
    lariat.wait_for_metric_from("lariat_connections_ended_total", &relay, 1.0);
    until_true("two kinds of keys", || {
        let files = fs::read_dir(site.path("acme/certificates")).unwrap();
        files.count() == 3
    });
    rests(&lariat);
    let before = pebble.orders();
    ordered(&lariat, ["renew", "127.0.0.1"]);
    until_true("two orders by an operator", || pebble.orders() >= before + 2);
    rests(&lariat);
    ordered(&lariat, ["revoke", "127.0.0.1"]);
    until_true("two revocations", || pebble.running.stdout().matches("/revoke-cert").count() >= 2);
    until_true("two orders after them", || pebble.orders() >= before + 4);
    rests(&lariat);

    // Neither a start nor another program nor a reload orders anything.
    let orders = pebble.orders();
    lariat.reload().success();
    lariat.ask("upgrade").success();
    lariat.stop();
    drop(lariat);
    let lariat = Lariat::start(&configuration);
    issued(&site, &lariat, &[tls, other]);
    rests(&lariat);
    assert_eq!(pebble.orders(), orders);
}

/// Returns the entry with this domain in the status.
fn entry(lariat: &Lariat, domain: &str) -> Value {
    until("its entry", || {
        let status = lariat.status();
        let mut entries = status["acme"].as_array().expect("a list").iter();
        entries.find(|one| one["domains"][0] == domain).cloned()
    })
}

#[test]
fn names_whose_programs_hang_hold_up_no_other() {
    let site = Site::new();
    let pebble = Pebble::start(&site);
    let hook = site.write("hook", "#!/bin/sh\n[ $1 = cleanup ] || exec sleep 1000\n");
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let hangs = |number| {
        let keys = format!("domains = [\"{number}.test\"]\nchallenge = {{ dns = {hook:?} }}");
        pebble.service(&site, &format!("hangs-{number}"), free_address(), &keys)
    };
    let served = pebble.service(&site, "tls", pebble.asked[0], "domains = [\"localhost\"]");
    let all: String = (0..4).map(hangs).chain([served]).collect();
    let lariat = Lariat::start(&(folder(&site) + &all));
    until_true("it", || entry(&lariat, "localhost")["not_after_seconds"].is_u64());
    for number in 0..4 {
        let hanging = entry(&lariat, &format!("{number}.test"));
        assert_eq!((&hanging["stage"], &hanging["failures"]), (&"ordering".into(), &0.into()));
    }
    assert_eq!(pebble.orders(), 5, "{}", pebble.running.stdout());
}

#[test]
fn an_order_goes_on_over_an_upgrade_and_says_what_it_waits_for() {
    let site = Site::new();
    let pebble = Pebble::start_with(&site, &[], ("PEBBLE_VA_ALWAYS_VALID", "1"));
    let hold = site.write("hold", "");
    let hook =
        format!("#!/bin/sh\n[ $1 = cleanup ] && exit\nwhile [ -e {hold:?} ]; do sleep 0.1; done\n");
    let hook = site.write("hook", hook);
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let keys = format!("domains = [\"localhost\"]\nchallenge = {{ dns = {hook:?} }}");
    let service = pebble.service(&site, "tls", pebble.asked[0], &keys);
    let lariat = Lariat::start(&(folder(&site) + &service));
    let listed = || {
        let mut command = lariat::command();
        command.args(["certificate", "list", "--status-socket"]);
        run(command.arg(lariat.status_socket())).success()
    };
    let words = "ordering: waits for the program that puts its records into the DNS, since ";
    until_true("the program", || listed().contains(words));
    lariat.ask("upgrade").success();
    until_true("the program once more", || listed().contains(words));
    fs::remove_file(&hold).unwrap();
    until_true("it", || entry(&lariat, "localhost")["not_after_seconds"].is_u64());
    assert_eq!(pebble.orders(), 1, "{}", pebble.running.stdout());
}

/// Longest wait: an authority that validates without end is given up after five minutes.
const PENDING_TIME_MAX: Duration = Duration::from_secs(420);

#[test]
fn an_order_that_stays_pending_fails_and_there_is_no_second_one_meanwhile() {
    let site = Site::new();
    let pebble = Pebble::start_with(&site, &[], ("PEBBLE_VA_SLEEPTIME", "1000000"));
    let service = pebble.service(&site, "tls", pebble.asked[0], "domains = [\"localhost\"]");
    let lariat = Lariat::start(&(folder(&site) + &service));
    until_true("an order", || pebble.orders() == 1);
    let pending = entry(&lariat, "localhost");
    assert_eq!((&pending["stage"], &pending["next_seconds"]), (&"ordering".into(), &Value::Null));
    lariat.reload().success();
    let has_failed = || Some(()).filter(|()| entry(&lariat, "localhost")["failures"] == 1);
    within(PENDING_TIME_MAX, has_failed).expect("the end of the order");
    let failed = entry(&lariat, "localhost");
    assert_has(failed["last_failure"].to_string(), "its order is not ready after 5 minutes");
    assert_eq!(failed["stage"], "waiting");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let next = failed["next_seconds"].as_u64().expect("another attempt");
    assert!(next > now.as_secs(), "{next} is not later than {now:?}");
    lariat.wait_for_stderr("no certificate for localhost by ACME: https://");
    assert_eq!(pebble.orders(), 1, "{}", pebble.running.stdout());
}

#[test]
fn a_clock_that_jumps_costs_no_certificate_and_makes_no_loop_of_orders() {
    const DAY: i64 = 86_400;
    let clock = match Clock::prepare() {
        Ok(clock) => clock,
        Err(why) => return eprintln!("skipped: the clock cannot jump here: {why}"),
    };
    let site = Site::new();
    let pebble = Pebble::start(&site);
    let address = pebble.asked[0];
    let service = pebble.service(&site, "tls", address, "domains = [\"localhost\"]");
    // The issued certificate has expired by a clock that is ahead; no retry loop follows.
    clock.set(400 * DAY);
    let command = clock.command(&lariat::command());
    let lariat = Lariat::start_by(command, &(folder(&site) + &service));
    lariat.wait_for_stderr("is not valid now: is the clock right?");
    lariat.reload().success();
    assert_eq!(pebble.orders(), 1, "{}", pebble.running.stdout());
    // The order does not wait until the clock is right again.
    clock.set(0);
    lariat.reload().success();
    let is_served = || {
        let issuer = issued(&site, &lariat, &[address]).remove(0);
        assert_has(&issuer, "Pebble Intermediate CA");
    };
    is_served();
    rests(&lariat);
    assert_eq!(pebble.orders(), 2, "{}", pebble.running.stdout());
    // Amid an order.
    ordered(&lariat, ["renew", "localhost"]);
    until_true("an order", || pebble.orders() > 2);
    clock.set(10 * DAY);
    rests(&lariat);
    is_served();
    // Two thirds of the life of 90 days are over; then the clock is a year behind, and right.
    for (days, orders) in [(11, 3), (65, 4), (-365, 4), (0, 4)] {
        clock.set(days * DAY);
        for _ in 0..3 {
            lariat.reload().success();
            until_true("orders", || pebble.orders() >= orders);
            rests(&lariat);
        }
        is_served();
        assert_eq!(pebble.orders(), orders, "{days}: {}", pebble.running.stdout());
    }
}

/// Mounts the folder as a file system of its own of sixteen pages, `FREE` of which are free.
const SMALL_DISK: &str = "mount -t tmpfs -o size=65536,mode=700 lariat-test \"$FOLDER\" && \
     head -c $((65536 - 4096 * FREE)) /dev/zero >\"$FOLDER/filler\" && exec \"$0\" \"$@\"";

#[test]
fn a_full_disk_costs_no_certificate_and_no_order() {
    if !geteuid().is_root() {
        return eprintln!("skipped: only root can make a small disk");
    }
    let site = Site::new();
    let pebble = Pebble::start(&site);
    let address = pebble.asked[0];
    let keys = "domains = [\"localhost\"]\nkey = [\"rsa-3072\"]";
    let configuration = folder(&site) + &pebble.service(&site, "tls", address, keys);
    fs::create_dir(site.path("acme")).unwrap();
    let mut disk = Command::new("unshare");
    disk.args(["--mount", "--propagation", "private", "sh", "-c", SMALL_DISK]);
    disk.arg(lariat::command().get_program()).env("FOLDER", site.path("acme")).env("FREE", "0");
    let lariat = Lariat::start_by(disk, &configuration);
    let root = format!("/proc/{}/root", lariat.supervisor().as_raw_nonzero());
    let filler = PathBuf::from(format!("{root}{}", site.path("acme/filler").display()));
    let leave = |pages: u64| {
        let filler = fs::File::options().write(true).open(&filler).unwrap();
        filler.set_len(65536 - 4096 * pages).unwrap();
    };
    let fails = |words: &str| {
        until_true(words, || {
            let status = lariat.status();
            status["acme"][0]["last_failure"].as_str().is_some_and(|why| why.contains(words))
        });
    };
    // An order that cannot be stored is not placed.
    fails("nothing is asked of the authority: cannot store");
    assert_eq!(pebble.orders(), 0);

    // The account and the state fit, but not a certificate with a long key.
    leave(3);
    ordered(&lariat, ["renew", "localhost"]);
    until_true("a certificate that waits", || {
        lariat.status()["acme"][0]["stage"] == "issued, and cannot be stored"
    });
    for _ in 0..2 {
        let mut renew = lariat::command();
        renew.args(["certificate", "renew", "localhost", "--status-socket"]);
        run(renew.arg(lariat.status_socket()))
            .assert_fails(1, &["one has come already, and waits for the disk", "hint: make room"]);
        // Neither a reload nor another process orders a certificate in its place.
        lariat.reload().success();
        let process = lariat.process("lariat: acme");
        kill_process(process, Signal::KILL).unwrap();
        until_true("another", || lariat.process("lariat: acme") != process);
    }
    leave(16);
    let issuer = issued(&site, &lariat, &[address]).remove(0);
    assert_has(&issuer, "Pebble Intermediate CA");
    assert_eq!(pebble.orders(), 1, "{}", pebble.running.stdout());
}

const PROCESSES: [&str; 3] = ["lariat: acme", "lariat: worker", "supervisor"];

/// Requests of an order, counted by the authority: the last ones ask for what exists already.
const STEPS: usize = 14;

/// Kills a process once the authority has seen `step` requests, and waits for the certificate.
fn dies_at(process: &str, step: usize) {
    let site = Site::new();
    let pebble = Pebble::start(&site);
    let address = pebble.asked[0];
    let service = pebble.service(&site, "tls", address, "domains = [\"localhost\"]");
    let configuration = folder(&site) + &service;
    let mut lariat = Lariat::start(&configuration);
    until_true("the step", || {
        let requests = pebble.running.stdout().matches("-> calling handler()").count();
        requests >= step || lariat.status()["acme"][0]["not_after_seconds"].is_u64()
    });
    if process == "supervisor" {
        lariat.signal(Signal::KILL);
        lariat.wait();
        lariat = Lariat::start(&configuration);
    } else {
        kill_process(lariat.process(process), Signal::KILL).expect("it runs");
    }
    let issuer = issued(&site, &lariat, &[address]).remove(0);
    assert_has(&issuer, "Pebble Intermediate CA");
    let orders = pebble.orders();
    assert!(orders <= 2, "{}", pebble.running.stdout());
    // The stored state is enough for the next program.
    lariat.stop();
    lariat = Lariat::start(&configuration);
    let issuer = issued(&site, &lariat, &[address]).remove(0);
    assert_has(&issuer, "Pebble Intermediate CA");
    assert_eq!(pebble.orders(), orders, "{}", pebble.running.stdout());
}

/// Kills each process at each step, once in 42 consecutive seeds; `ACME_SEED` is the first one and
/// `ACME_SEEDS` their number. Six at a time, because they wait for a minute.
#[test]
fn a_death_at_any_step_costs_no_certificate_and_makes_no_loop() {
    let setting = |name, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => default,
    };
    let (first, count): (usize, usize) = (setting("ACME_SEED", 1), setting("ACME_SEEDS", 6));
    let seeds: Vec<_> = (first..first + count).collect();
    for some in seeds.chunks(6) {
        let mut running = Vec::new();
        for seed in some {
            let case = seed * 11 % (PROCESSES.len() * STEPS);
            let (process, step) = (PROCESSES[case % 3], case / 3 + 1);
            let died = thread::spawn(move || dies_at(process, step));
            running.push((seed, process, step, died));
        }
        for (seed, process, step, died) in running {
            let repeat = format!("ACME_SEED={seed} ACME_SEEDS=1 ./run-tests acme");
            assert!(died.join().is_ok(), "{process} killed at step {step}; repeat: {repeat}");
        }
    }
}

/// Three hosts that share a secret, each with its own folder; the authority asks each of them for
/// its own address.
struct AcmeFarm {
    site: Site,
    pebble: Pebble,
    places: Vec<SocketAddr>,
    /// More tables of each host's configuration, and keys of `acme`.
    more: [&'static str; 2],
    /// Store that the hosts share, in place of peers.
    store: Option<SocketAddr>,
}

impl AcmeFarm {
    const HOSTS: usize = 3;
    const SECRET: &str = "1b9f0e7ad2c84365f1ce70b2a9438d65e07b1f3c5d92a8461f0be9d7c3a25486";

    fn new(more: [&'static str; 2]) -> Self {
        let site = Site::new();
        site.write("cluster.key", Self::SECRET);
        let place = |host| {
            let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).expect("a port");
            socket.local_addr().expect("its address")
        };
        let pebble = Pebble::start(&site);
        Self {
            places: (1..=Self::HOSTS as u8).map(place).collect(),
            site,
            pebble,
            more,
            store: None,
        }
    }

    fn address(&self, host: usize) -> SocketAddr {
        SocketAddr::new(self.places[host].ip(), self.pebble.asked[0].port())
    }

    fn start(&self, host: usize) -> Lariat {
        let others = self.places.iter().filter(|one| **one != self.places[host]);
        let others: Vec<_> = others.map(SocketAddr::to_string).collect();
        let shared = match self.store {
            Some(store) => format!("store = {{ url = \"redis://{store}\" }}"),
            None => {
                format!("peers = {{ listen = \"{}\", send-to = {others:?} }}", self.places[host])
            }
        };
        let cluster = format!(
            "[cluster]\nsecret = {:?}\n{shared}\n[acme]\nfolder = {:?}\n{}\n",
            self.site.path("cluster.key"),
            self.site.path(&format!("acme-{host}")),
            self.more[0],
        );
        let domains: Vec<_> = self.places.iter().map(|one| one.ip().to_string()).collect();
        let domains = format!("domains = {domains:?}\n{}", self.more[1]);
        Lariat::start(
            &(cluster + &self.pebble.service(&self.site, "tls", self.address(host), &domains)),
        )
    }

    /// Returns the certificate that a host serves, once the authority has issued it.
    fn served(&self, host: usize, lariat: &Lariat) -> String {
        issued(&self.site, lariat, &[]);
        let answer = s_client(&self.site, self.address(host), &[]);
        let (_, rest) = answer.stdout.split_once("-----BEGIN CERTIFICATE-----").expect("one");
        rest.split_once("-----END").expect("its end").0.to_owned()
    }
}

/// Returns the place of the host that holds the lease.
fn orderer(hosts: &[&Lariat]) -> Option<usize> {
    let stages = hosts.iter().map(|one| one.status()["acme"][0]["stage"].clone());
    let stages: Vec<_> = stages.collect();
    let orders = |stage: &Value| *stage != "another host orders";
    let mut holders = (0..stages.len()).filter(|place| orders(&stages[*place]));
    holders.next().filter(|_| holders.next().is_none())
}

#[test]
fn one_host_of_a_cluster_orders_for_all() {
    drop(one_host_orders(&AcmeFarm::new([""; 2])));
}

/// Checks that only one host orders; returns the hosts.
fn one_host_orders(farm: &AcmeFarm) -> [Lariat; AcmeFarm::HOSTS] {
    let [first, second] = [0, 1].map(|host| farm.start(host));
    let mut third = farm.start(2);
    let served = farm.served(0, &first);
    assert_eq!(served, farm.served(1, &second));
    assert_eq!(served, farm.served(2, &third), "all serve what one has ordered");
    assert_eq!(farm.pebble.orders(), 1, "{}", farm.pebble.running.stdout());

    // An operator's order at any host is done by the one that orders, and all get the result.
    let holder = orderer(&[&first, &second, &third]).expect("one host orders");
    let name = farm.places[0].ip().to_string();
    let asked = if holder == 0 { &second } else { &first };
    ordered(asked, ["renew", &name]);
    until_true("another certificate", || farm.served(2, &third) != served);
    let renewed = farm.served(2, &third);
    until_true("the same at all hosts", || {
        farm.served(0, &first) == renewed && farm.served(1, &second) == renewed
    });
    assert_eq!(farm.pebble.orders(), 2);

    // A host that has lost everything gets the certificate of the others.
    third.stop();
    drop(third);
    fs::remove_dir_all(farm.site.path("acme-2")).expect("a folder");
    let third = farm.start(2);
    assert_eq!(farm.served(2, &third), renewed);
    assert_eq!(farm.pebble.orders(), 2);
    [first, second, third]
}

#[test]
fn another_host_orders_when_the_first_dies_amid_an_order() {
    another_host_orders(&AcmeFarm::new([""; 2]));
}

fn another_host_orders(farm: &AcmeFarm) {
    let mut hosts: Vec<_> = (0..AcmeFarm::HOSTS).map(|host| farm.start(host)).collect();
    until_true("an order", || farm.pebble.orders() > 0);
    let holder = orderer(&hosts.iter().collect::<Vec<_>>()).expect("one host orders");
    hosts[holder].signal(Signal::KILL);
    hosts[holder].wait();
    // The authority asks the dead host too: it comes back, with what the others have by then.
    hosts[holder] = farm.start(holder);
    let served = farm.served(0, &hosts[0]);
    assert!((1..3).all(|host| farm.served(host, &hosts[host]) == served));
    assert!(farm.pebble.orders() <= 3, "{}", farm.pebble.running.stdout());
}

#[test]
fn no_worker_process_of_a_cluster_has_its_secret_or_a_certificates_key() {
    let farm = AcmeFarm::new(["[process]\nkey-process = true", "key = [\"rsa-2048\"]"]);
    let hosts: Vec<_> = (0..AcmeFarm::HOSTS).map(|host| farm.start(host)).collect();
    let served = farm.served(0, &hosts[0]);
    assert!((1..3).all(|host| farm.served(host, &hosts[host]) == served));
    assert_eq!(farm.pebble.orders(), 1, "{}", farm.pebble.running.stdout());
    let files = fs::read_dir(farm.site.path("acme-0/certificates")).unwrap();
    let path = files.map(|file| file.unwrap().path()).next().expect("a certificate");
    let pem = fs::read_to_string(&path).unwrap();
    let (_, key) = pem.split_once("PRIVATE KEY-----").expect("a key");
    let line = key.lines().nth(10).expect("its tenth line").as_bytes();
    let mut openssl = Command::new("openssl");
    let der = openssl.args(["pkey", "-outform", "DER", "-in"]).arg(&path).output().unwrap().stdout;
    // A part of the primes, which the library keeps as they are or reversed.
    let part = &der[der.len() - 200..der.len() - 180];
    let turned: Vec<_> = part.iter().rev().copied().collect();
    for host in &hosts {
        let holds = |process: &str, needle| memory_holds(host.process(process), needle);
        assert!(holds("lariat: keys", part) || holds("lariat: keys", &turned));
        for needle in [part, &turned, line, AcmeFarm::SECRET.as_bytes()] {
            assert!(!holds("lariat: worker", needle), "{}", needle.escape_ascii());
        }
    }
}
