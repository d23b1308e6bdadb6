//! Hosts that share their sessions by a store: each a program of its own, beside real servers of
//! Redis, some of which fail.

use suite::openssl::{bytes_of, master_secret};
use suite::prelude::*;
use suite::redis::Redis;

const UPDATES: &str = "lariat_cluster_store_sessions_total";
const FAILURES: &str = "lariat_cluster_store_failures_total";
const REJECTED: &str = "lariat_cluster_store_values_rejected_total";
const UP: &str = "lariat_cluster_store_up";
const WRITABLE: &str = "lariat_cluster_store_writable";

/// Programs with the same store.
struct Farm {
    site: Site,
    secret: PathBuf,
    services: Vec<Service>,
    /// Keys of `cluster.store`, and tables behind them.
    store: String,
    _server: Server,
}

impl Farm {
    /// Makes a farm of three hosts, none running yet, with the store of these keys.
    fn new(store: &str) -> Self {
        let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
        let secret = site.path("cluster.key");
        fs::write(&secret, "s".repeat(64)).unwrap();
        Self {
            services: (0..3).map(|_| Service::new(&site, &server)).collect(),
            site,
            secret,
            store: store.to_owned(),
            _server: server,
        }
    }

    fn of(redis: &Redis) -> Self {
        Self::new(&url(redis.address))
    }

    fn configuration(&self, host: usize) -> String {
        format!(
            "[cluster]\nsecret = {:?}\n[cluster.store]\nfetch-timeout = \"1s\"\n{}\n{}",
            self.secret,
            self.store,
            self.services[host].toml()
        )
    }

    /// Starts a host, and waits until it is connected to the store.
    fn start(&self, host: usize) -> Lariat {
        let lariat = self.start_anyhow(host);
        lariat.wait_for_metric(UP, &[], 1.0);
        lariat
    }

    fn start_anyhow(&self, host: usize) -> Lariat {
        Lariat::start(&self.configuration(host))
    }

    fn visit(&self, client: &Client, host: usize) -> HandshakeKind {
        client.visit(self.services[host].address)
    }

    /// Makes a client whose TLS 1.2 session a host stores, after `before` other sessions.
    fn client_of(&self, host: usize, lariat: &Lariat, before: f64) -> Client {
        let client = Client::without_tickets(&self.site);
        assert_eq!(self.visit(&client, host), HandshakeKind::Full);
        lariat.wait_for_metric_from(UPDATES, &[("update", "published")], before + 1.0);
        client
    }

    /// Connects with a session of TLS 1.3 that goes to a file, or comes from it.
    fn talk(&self, host: usize, option: &str) -> Finished {
        let file = self.site.path("session");
        let options = ["-tls1_3", option, file.to_str().unwrap()];
        // The client sends a line and waits for the echo: the session comes before.
        let mut talk = Talk::start(&self.site, self.services[host].address, &options);
        talk.say("hello");
        talk.wait_for("hello", 1);
        talk.end()
    }
}

fn url(address: SocketAddr) -> String {
    format!("url = \"redis://{address}/0\"")
}

fn published(lariat: &Lariat, count: f64) {
    lariat.wait_for_metric_from(UPDATES, &[("update", "published")], count);
}

#[test]
fn a_session_id_of_one_host_resumes_on_another_that_starts_later() {
    let redis = Redis::start(&[]);
    let farm = Farm::of(&redis);
    let first = farm.start(0);
    let client = farm.client_of(0, &first, 0.0);
    drop(first);
    let second = farm.start(1);
    assert_eq!(farm.visit(&client, 1), HandshakeKind::Resumed);
    second.wait_for_line(&["\"session_tier\":\"store\"", "\"handshake\":\"session-id\""]);
    second.wait_for_metric("lariat_cluster_fetches_total", &[("tier", "store")], 1.0);
    assert_has(second.ask("status").success(), "1 from the store");
    // The entry lasts as long as the session may be resumed.
    let name = String::from_utf8(redis.tell("KEYS lariat:[0-9a-f]*").concat()).unwrap();
    let ttl = String::from_utf8(redis.tell(&format!("TTL {name}")).concat()).unwrap();
    assert!((1..=3600).contains(&ttl.parse::<i32>().unwrap()), "{ttl}");
}

#[test]
fn a_session_of_tls13_that_was_fetched_is_gone_from_the_store_and_does_not_come_back() {
    let redis = Redis::start(&[]);
    let mut farm = Farm::of(&redis);
    farm.store += "\n[resumption]\ntls13 = \"cache\"";
    let hosts = [farm.start(0), farm.start(1), farm.start(2)];
    farm.talk(0, "-sess_out").assert_stdout("New, TLSv1.3");
    published(&hosts[0], 1.0);
    let stored = redis.contents();
    farm.talk(1, "-sess_in").assert_stdout("Reused, TLSv1.3");
    farm.talk(2, "-sess_in").assert_stdout("New, TLSv1.3");
    // An attacker puts back what they have seen.
    for (name, value) in &stored {
        redis.ask(&[b"SET", name, value]);
    }
    farm.talk(1, "-sess_in").assert_stdout("New, TLSv1.3");
    let replayed = [("reason", "replayed")];
    hosts[1].wait_for_metric_from(REJECTED, &replayed, 1.0);
    // The host that made it does not know, and resumes it as well, once.
    farm.talk(0, "-sess_in").assert_stdout("Reused, TLSv1.3");
    farm.talk(0, "-sess_in").assert_stdout("New, TLSv1.3");
    // A host that resumes its own session deletes it.
    farm.talk(0, "-sess_out").assert_stdout("New, TLSv1.3");
    farm.talk(0, "-sess_in").assert_stdout("Reused, TLSv1.3");
    hosts[0].wait_for_metric_from(UPDATES, &[("update", "deleted")], 2.0);
}

#[test]
fn what_peers_do_not_have_comes_from_the_store() {
    let redis = Redis::start(&[]);
    let mut farm = Farm::of(&redis);
    let places = [free_address(), free_address()];
    let peers = |own: usize| {
        let [own, other] = [places[own], places[1 - own]];
        format!(
            "\n[cluster.peers]\nlisten = \"{own}\"\nsend-to = [\"{other}\"]\nresync-rate = 0\n\
             fetch-timeout = \"100ms\"\n"
        )
    };
    let store = farm.store.clone();
    farm.store = store.clone() + &peers(0);
    let first = farm.start(0);
    let [old, new] = [0.0, 1.0].map(|before| farm.client_of(0, &first, before));
    farm.store = store + &peers(1);
    let second = farm.start(1);
    second.wait_for_metric("lariat_cluster_peers", &[], 1.0);
    assert_eq!(farm.visit(&new, 1), HandshakeKind::Resumed);
    second.wait_for_line(&["\"session_tier\":\"peers\""]);
    drop(first);
    assert_eq!(farm.visit(&old, 1), HandshakeKind::Resumed);
    second.wait_for_line(&["\"session_tier\":\"store\""]);
}

#[test]
fn a_store_that_ends_costs_no_handshake_and_is_used_again_when_it_is_back() {
    let redis = Redis::start(&[]);
    let farm = Farm::of(&redis);
    let hosts = [farm.start(0), farm.start(1)];
    let client = farm.client_of(0, &hosts[0], 0.0);
    let address = redis.address;
    redis.kill();
    for _ in 0..10 {
        // The session resumes where it was made, and nowhere else.
        assert_eq!(farm.visit(&client, 0), HandshakeKind::Resumed);
        let other = Client::without_tickets(&farm.site);
        assert_eq!(farm.visit(&other, 0), HandshakeKind::Full);
        assert_eq!(farm.visit(&other, 1), HandshakeKind::Full);
    }
    for host in &hosts {
        host.wait_for_stderr("is not asked for a while");
        host.wait_for_metric(UP, &[], 0.0);
        assert_has(host.ask("status").success(), "DOWN");
    }
    let _redis = Redis::start_at(address, &[]);
    for host in &hosts {
        host.wait_for_stderr("answers again");
        host.wait_for_metric(UP, &[], 1.0);
    }
    let client = farm.client_of(0, &hosts[0], hosts[0].sum(UPDATES, &[("update", "published")]));
    assert_eq!(farm.visit(&client, 1), HandshakeKind::Resumed);
}

#[test]
fn a_store_that_is_full_takes_no_sessions_and_gives_those_that_it_has() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let farm = Farm::of(&redis);
    let hosts = [farm.start(0), farm.start(1)];
    let client = farm.client_of(0, &hosts[0], 0.0);
    redis.tell("CONFIG SET maxmemory 1");
    let visit = || farm.visit(&Client::without_tickets(&farm.site), 0);
    until_true("the host to notice it", || {
        assert_eq!(visit(), HandshakeKind::Full);
        hosts[0].sum(WRITABLE, &[]) == 0.0
    });
    hosts[0].wait_for_stderr("takes no sessions: OOM");
    hosts[0].wait_for_stderr("hint: give it more memory");
    assert!(hosts[0].sum(FAILURES, &[("reason", "full")]) >= 3.0);
    assert_eq!(hosts[0].sum(UP, &[]), 1.0);
    assert_eq!(farm.visit(&client, 1), HandshakeKind::Resumed);
    redis.tell("CONFIG SET maxmemory 0");
    until_true("the host to notice it", || {
        assert_eq!(visit(), HandshakeKind::Full);
        hosts[0].sum(WRITABLE, &[]) == 1.0
    });
    hosts[0].wait_for_stderr("takes sessions again");
}

#[test]
fn a_store_that_hangs_is_given_up_and_no_handshake_fails() {
    let redis = Redis::start(&[]);
    let mut farm = Farm::of(&redis);
    farm.store = farm.store.replace("url", "fetch-timeout = \"5ms\"\nurl");
    let configure = |host| farm.configuration(host).replace("fetch-timeout = \"1s\"\n", "");
    let hosts = [0, 1].map(|host| Lariat::start(&configure(host)));
    hosts.iter().for_each(|host| host.wait_for_metric(UP, &[], 1.0));
    let count = f64::from(10);
    let mut clients: Vec<_> =
        (0..10).map(|before| farm.client_of(0, &hosts[0], before.into())).collect();
    redis.signal(Signal::STOP);
    until_true("the host to give it up", || {
        let client = clients.pop().unwrap_or_else(|| Client::without_tickets(&farm.site));
        assert_eq!(farm.visit(&client, 1), HandshakeKind::Full);
        hosts[1].sum(UP, &[]) == 0.0
    });
    hosts[1].wait_for_stderr("no answer within");
    assert!(hosts[1].sum(FAILURES, &[("reason", "timeout")]) >= 3.0);
    // Handshakes do not wait for the store any more, and sessions to be stored are dropped.
    let client = Client::without_tickets(&farm.site);
    assert_eq!(farm.visit(&client, 1), HandshakeKind::Full);
    hosts[1].wait_for_metric_from(UPDATES, &[("update", "dropped")], 1.0);
    redis.signal(Signal::CONT);
    hosts[1].wait_for_metric(UP, &[], 1.0);
    assert!(hosts[0].sum(UPDATES, &[("update", "published")]) >= count);
}

#[test]
fn a_wrong_password_is_told_and_a_reload_repairs_it() {
    let redis = Redis::start(&["--requirepass", "right"]);
    let mut farm = Farm::of(&redis);
    farm.store = farm.store.replace("redis://", "redis://:wrong@");
    let host = farm.start_anyhow(0);
    host.wait_for_stderr("hint: its user needs the password");
    assert_eq!(host.sum(UP, &[]), 0.0);
    assert!(host.sum(FAILURES, &[("reason", "authentication")]) >= 1.0);
    let file = farm.site.write("password", "right\n");
    let wrong = format!("{}\npassword-file = {file:?}", farm.store);
    let right = wrong.replace(":wrong@", "");
    farm.store = wrong;
    host.configure(&farm.configuration(0));
    host.reload().assert_stderr("stands beside a password in `url`");
    farm.store = right;
    host.reload_with(&farm.configuration(0));
    host.wait_for_metric(UP, &[], 1.0);
    farm.client_of(0, &host, 0.0);
    for said in [host.stderr(), host.ask("status").success()] {
        assert!(!said.contains("wrong") && !said.contains("right"), "{said}");
    }
}

/// The store tells each new client, before that has asked anything.
#[test]
fn a_store_that_takes_no_more_clients_is_quoted() {
    let redis = Redis::start(&["--maxclients", "1"]);
    let mut only = None;
    // The readiness check may hold the place for a moment.
    until_true("the only place", || {
        let mut stream = TcpStream::connect(redis.address).unwrap();
        let mut answer = [0; 7];
        let is_taken = stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut answer));
        only = is_taken.is_ok_and(|()| answer == *b"+PONG\r\n").then_some(stream);
        only.is_some()
    });
    let farm = Farm::of(&redis);
    let host = farm.start_anyhow(0);
    host.wait_for_stderr("ERR max number of clients reached");
    drop(only);
    host.wait_for_metric(UP, &[], 1.0);
}

#[test]
fn a_store_with_tls_is_verified_by_its_name_and_a_user_needs_few_rights() {
    let site = Site::new();
    let user = "--user lariat on >secret ~lariat:* -@all +get +getdel +set +del";
    let options = format!("--bind 127.0.0.1 127.0.0.2 --tls-auth-clients no {user}");
    let options: Vec<_> = options.split(' ').collect();
    let redis = Redis::by_tls(&site, &options);
    let port = redis.address.port();
    let keys = |host: &str, ca: PathBuf| {
        format!("url = \"rediss://lariat:secret@{host}:{port}\"\nca = [{ca:?}]")
    };
    let farm = Farm::new(&keys("localhost", site.ca()));
    let hosts = [farm.start(0), farm.start(1)];
    let client = farm.client_of(0, &hosts[0], 0.0);
    assert_eq!(farm.visit(&client, 1), HandshakeKind::Resumed);
    // A certificate of another authority, and one for another name.
    let stranger = Site::new();
    for keys in [keys("localhost", stranger.ca()), keys("127.0.0.2", site.ca())] {
        let farm = Farm::new(&keys);
        let host = farm.start_anyhow(2);
        host.wait_for_stderr("is not asked for a while");
        host.wait_for_stderr("certificate");
        assert_eq!(host.sum(UP, &[]), 0.0);
    }
}

#[test]
fn a_stores_own_certificate_in_ca_is_trusted() {
    let site = Site::new();
    let own = Authority::root_with("store", &["127.0.0.1"], &[]);
    let ca = own.write(&site.directory, "own.pem");
    own.as_leaf().write(&site.directory, "site.pem");
    let redis = Redis::by_tls(&site, &["--tls-auth-clients", "no"]);
    let url = format!("rediss://{}", redis.address);
    let farm = Farm::new(&format!("url = \"{url}\"\nca = [{ca:?}]"));
    let host = farm.start_anyhow(0);
    host.wait_for_metric(UP, &[], 1.0);
}

#[test]
fn what_lies_in_the_store_is_no_secret_and_nothing_that_was_changed_is_taken() {
    let redis = Redis::start(&[]);
    let farm = Farm::of(&redis);
    let first = farm.start(0);
    let keys = farm.site.path("keys");
    let options = ["-tls1_2", "-no_ticket", "-keylogfile", keys.to_str().unwrap()];
    let said = s_client(&farm.site, farm.services[0].address, &options).success();
    published(&first, 1.0);
    let secret = master_secret(&keys);
    let id = said.lines().find_map(|line| line.trim().strip_prefix("Session-ID: "));
    let id = id.unwrap();
    let all = redis.contents();
    assert_eq!(all.len(), 1);
    for bytes in all.iter().flat_map(|(name, value)| [name, value]) {
        for part in secret.windows(8).chain(bytes_of(id).windows(8)) {
            assert!(!bytes.windows(8).any(|here| here == part), "it lies there in clear");
        }
        let text = String::from_utf8_lossy(bytes).to_ascii_uppercase();
        assert!(!text.contains(&id[..16]));
    }
    // An attacker writes into the store.
    let second = farm.start(1);
    let mut count = 1.0;
    let mut refused = |reason: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let client = farm.client_of(0, &first, count);
        count += 1.0;
        let new = |(name, _): &&(Vec<u8>, Vec<u8>)| !all.iter().any(|(old, _)| old == name);
        let contents = redis.contents();
        let (name, value) = contents.iter().find(new).unwrap();
        let mut changed = value.clone();
        change(&mut changed);
        redis.ask(&[b"SET", name, &changed]);
        assert_eq!(farm.visit(&client, 1), HandshakeKind::Full, "{reason}");
        second.wait_for_metric_from(REJECTED, &[("reason", reason)], 1.0);
        redis.ask(&[b"DEL", name]);
        // The session of the full handshake at the other host.
        published(&second, count - 1.0);
        for (name, _) in redis.contents().iter().filter(new) {
            redis.ask(&[b"DEL", name]);
        }
    };
    refused("malformed", &|value| value.truncate(40));
    refused("version", &|value| value[0] ^= 1);
    refused("unknown-secret", &|value| value[1] ^= 1);
    refused("forged", &|value| value[12] ^= 1);
    refused("forged", &|value| *value.last_mut().unwrap() ^= 1);
    // One session's value under the name of another.
    refused("forged", &|value| value.clone_from(&all[0].1));
}

#[test]
fn hosts_with_another_secret_at_the_same_prefix_are_named() {
    let redis = Redis::start(&[]);
    let mut farm = Farm::of(&redis);
    let first = farm.start(0);
    let is_marked = |prefix: &str| {
        until_true("a mark", || redis.tell(&format!("EXISTS {prefix}probe")) == [b"1"]);
    };
    is_marked("lariat:");
    fs::write(&farm.secret, "t".repeat(64)).unwrap();
    let second = farm.start(1);
    let words = "that hosts with another secret have sealed";
    second.wait_for_stderr(words);
    second.wait_for_stderr("need a `cluster.store.prefix` each");
    assert_eq!(second.sum(REJECTED, &[("reason", "unknown-secret")]), 1.0);
    farm.store += "\nprefix = \"other:\"";
    let third = farm.start(2);
    is_marked("other:");
    assert!(!third.stderr().contains(words) && !first.stderr().contains(words));
}

/// Makes three servers one cluster; each has the port of its bus beside it.
pub(super) fn have_meet(nodes: &[(Redis, String)]) {
    let slots = ["0 5460", "5461 10922", "10923 16383"];
    for ((redis, _), slots) in nodes.iter().zip(slots) {
        redis.tell(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
        for (other, bus) in nodes {
            let (ip, port) = (other.address.ip(), other.address.port());
            redis.tell(&format!("CLUSTER MEET {ip} {port} {bus}"));
        }
    }
}

#[test]
fn a_cluster_of_three_is_found_by_one_of_its_nodes_and_outlives_another() {
    let node = |_| {
        let bus = free_address().port().to_string();
        let options = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        (Redis::start(&options), bus)
    };
    let nodes: Vec<_> = (0..3).map(node).collect();
    have_meet(&nodes);
    for (redis, _) in &nodes {
        // A node that is gone must not make the others refuse its slots.
        redis.tell("CONFIG SET cluster-require-full-coverage no");
        until_true("the cluster", || {
            let info = String::from_utf8(redis.tell("CLUSTER INFO").concat()).unwrap();
            info.contains("cluster_state:ok")
                && info.contains("cluster_slots_ok:16384")
                && info.contains("cluster_known_nodes:3")
        });
    }
    let address = nodes[0].0.address;
    // Two that are gone stand before it.
    let [dead, gone] = [free_address(), free_address()];
    let farm = Farm::new(&format!("{}\nnodes = [\"{gone}\", \"{address}\"]", url(dead)));
    let hosts = [farm.start(0), farm.start(1)];
    let clients: Vec<_> =
        (0..20).map(|before| farm.client_of(0, &hosts[0], before.into())).collect();
    for client in &clients {
        assert_eq!(farm.visit(client, 1), HandshakeKind::Resumed);
    }
    let kept = nodes.iter().map(|(redis, _)| redis.contents().len());
    assert!(kept.filter(|count| *count > 0).count() > 1, "they are spread");
    // A third of the sessions go with a node; no handshake does.
    let mut nodes = nodes.into_iter();
    let (_first, _second) = (nodes.next().unwrap(), nodes.next().unwrap());
    nodes.next().unwrap().0.kill();
    let third = farm.start(2);
    let is_resumed = |client: &Client| farm.visit(client, 2) == HandshakeKind::Resumed;
    assert!(clients.iter().any(is_resumed), "two nodes have theirs");
    third.wait_for_metric_from("lariat_cluster_fetches_total", &[("tier", "store")], 1.0);
}

#[test]
fn sentinels_say_where_the_master_is_and_where_the_next_one_is() {
    let master = Redis::start(&[]);
    let place = master.address.to_string().replace(':', " ");
    let replica = Redis::start(&["--replicaof", &place]);
    let sentinels: Vec<_> = (0..3).map(|_| Redis::sentinel("sessions", master.address)).collect();
    let master_of = |sentinel: &Redis| {
        let told = sentinel.tell("SENTINEL GET-MASTER-ADDR-BY-NAME sessions");
        String::from_utf8(told.join(&b':')).unwrap()
    };
    for sentinel in &sentinels {
        until_true("the sentinels to know each other and the replica", || {
            let count = |what: &str| {
                let told = sentinel.tell(&format!("SENTINEL {what} sessions"));
                told.iter().filter(|word| *word == b"runid").count()
            };
            count("SENTINELS") == 2 && count("REPLICAS") == 1
        });
    }
    until_true("the replica to have caught up", || {
        let info = String::from_utf8(replica.tell("INFO replication").concat()).unwrap();
        info.contains("master_link_status:up")
    });
    let others: Vec<_> = sentinels[1..].iter().map(|one| one.address.to_string()).collect();
    let keys = format!("nodes = {others:?}\nsentinel = \"sessions\"");
    let farm = Farm::new(&format!("{}\n{keys}", url(sentinels[0].address).replace("/0", "")));
    let hosts = [farm.start(0), farm.start(1)];
    let mut clients: Vec<_> =
        (0..20).map(|before| farm.client_of(0, &hosts[0], before.into())).collect();
    until_true("the replica to have them", || replica.contents().len() == 20);
    master.kill();
    for sentinel in &sentinels {
        until_true("the next master", || master_of(sentinel) == replica.address.to_string());
    }
    // A client whose session does not come, because the connection has ended, has a new one now.
    until_true("a session to come from the next master", || {
        hosts[1].wait_for_metric(UP, &[], 1.0);
        let client = clients.pop().expect("a few of them are enough");
        farm.visit(&client, 1) == HandshakeKind::Resumed
    });
    hosts[1].wait_for_line(&["\"session_tier\":\"store\""]);
    let published = hosts[0].sum(UPDATES, &[("update", "published")]);
    until_true("the next master to take sessions", || {
        farm.visit(&Client::without_tickets(&farm.site), 0);
        hosts[0].sum(UPDATES, &[("update", "published")]) > published
    });
}
