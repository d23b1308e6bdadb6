//! Encrypted Client Hello (RFC 9849): hellos are decrypted, and routed by the inner name, to a
//! server that takes inner ones.

use suite::clock::Clock;
use suite::ech::{self, EchServer};
use suite::load::{Loaded, Record};
use suite::prelude::*;
use suite::probe::{BUSY, probe};
use suite::scripted::{hello, names, read_record};

/// `hidden.example` behind `front.example`, which terminates TLS for all other names.
struct Hidden {
    site: Site,
    hidden: Service,
    front: Service,
    _server: Server,
}

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const ACCEPTED: (&str, &str) = ("ech", "accepted");

impl Hidden {
    fn before(server: impl FnOnce(&Site) -> SocketAddr) -> Self {
        let site = Site::new();
        site.leaf(&["hidden.example"]).write(&site.directory, "hidden.pem");
        site.authority
            .leaf(&["front.example"])
            .key(Key::Ed25519)
            .issue()
            .write(&site.directory, "front.pem");
        site.write("ech.secret", SECRET);
        let (address, behind) = (free_address(), server(&site));
        let plain = Server::start(Behaviour::Http("front".into()));
        let hidden = Service::new(&site, behind)
            .named("hidden")
            .at(address)
            .mode("passthrough")
            .front("names = ['hidden.example']");
        let front = Service::new(&site, &plain)
            .named("front")
            .at(address)
            .certificates(&format!("[{:?}]", site.path("front.pem")));
        Self { site, hidden, front, _server: plain }
    }

    fn address(&self) -> SocketAddr {
        self.hidden.address
    }

    fn toml(&self) -> String {
        let secret = self.site.path("ech.secret");
        self.with_keys(&format!("secret = {secret:?}"))
    }

    fn with_keys(&self, keys: &str) -> String {
        let ech = "[ech]\npublic-name = 'front.example'\nservices = ['hidden']\n";
        format!("{ech}{keys}\n{}{}", self.hidden.toml(), self.front.toml())
    }

    fn start(&self) -> Lariat {
        Lariat::start(&self.toml())
    }

    /// Returns the list that Lariat would publish with another secret.
    fn list_of_secret(&self, secret: &str) -> String {
        let path = self.site.write("other.secret", secret);
        let text = self.with_keys(&format!("secret = {path:?}"));
        ech::published(&self.site.write("other.toml", text))
    }

    /// Runs four transactions for `hidden.example`.
    fn load(&self, ech: &str, flags: &str) -> Loaded {
        load_at(&self.site, self.address(), ech, flags)
    }
}

fn load_at(site: &Site, address: SocketAddr, ech: &str, flags: &str) -> Loaded {
    let ca = site.ca().display().to_string();
    let load = Load::of(address).args("--count 4 --tls 1.3 --server-name hidden.example");
    load.args(&format!("--ech {ech} --ca {ca}")).args(flags).run()
}

fn assert_accepted(record: &Record, more: &[(&str, &str)]) {
    assert_eq!(record.totals(), [4, 4, 0], "{record:?}");
    let fields = [&[ACCEPTED], more].concat();
    assert_eq!(record.handshakes_with(&fields), 4, "{record:?}");
}

/// Makes a service with a server of Go's behind it, which ends with the test.
fn with_go(start: fn(&Path) -> EchServer) -> (Hidden, EchServer) {
    let mut server = None;
    let hidden = Hidden::before(|site| server.insert(start(&site.path("hidden.pem"))).address);
    (hidden, server.unwrap())
}

/// Makes a service with a server that takes what comes.
fn with_any() -> (Hidden, Server) {
    let server = Server::start(Behaviour::Swallow);
    let address = server.address().parse().unwrap();
    (Hidden::before(|_| address), server)
}

#[test]
fn an_encrypted_name_leads_to_its_server_and_others_to_the_front() {
    let (hidden, _server) = with_go(EchServer::start);
    let lariat = hidden.start();
    let list = ech::published(&lariat.configuration());
    // The certificate for the inner name proves who answered.
    assert_accepted(&hidden.load(&list, "").record(), &[("kind", "full")]);
    lariat.wait_for_metric("lariat_ech_hellos_total", &[("result", "accepted")], 4.0);
    let status = lariat.status();
    let (ech, key) = (&status["ech"], &status["ech"]["keys"][0]);
    assert_eq!((&ech["public_name"], &key["hellos"]), (&"front.example".into(), &4.into()));
    let end = key["published_until_ms"].as_f64().unwrap() / 1000.0;
    assert_eq!(lariat.sum("lariat_ech_publish_end_timestamp_seconds", &[]), end);
    assert_has(lariat.ask("status").success(), "ECH for front.example: 4 hellos by configuration ");
    let line = lariat.wait_for_line(&["hidden.example"]);
    assert_eq!(line["service"], "hidden");

    let outdated = hidden.list_of_secret("another secret, of at least 32 bytes");
    let loaded = hidden.load(&outdated, "");
    let record = loaded.record();
    assert_eq!(record.totals(), [4, 0, 4]);
    assert_eq!(record.reason(), "ech-rejected");
    // A rejection must be verified for the public name: the client has no other proof.
    let other_ca = Site::new();
    let record = load_at(&other_ca, hidden.address(), &outdated, "").record();
    assert_eq!(record.reason(), "certificate");

    let grease = "--count 4 --tls 1.3 --ech GREASE --server-name front.example";
    let record = Load::of(hidden.address()).args(grease).record();
    assert_eq!((record.totals(), record.handshakes_with(&[("ech", "GREASE")])), ([4, 4, 0], 4));
    // Asking in clear does not reveal that the name exists.
    let plain = s_client(&hidden.site, hidden.address(), &["-servername", "hidden.example"]);
    assert_has(&plain.stdout, "CN = front.example");
    assert_eq!(lariat.sum("lariat_ech_hellos_total", &[("result", "accepted")]), 4.0);
}

#[test]
fn a_session_is_resumed_within() {
    let (hidden, _server) = with_go(EchServer::start);
    let lariat = hidden.start();
    let list = ech::published(&lariat.configuration());
    let record = hidden.load(&list, "--handshake psk").record();
    assert_eq!((record.totals(), record.kinds()), ([4, 4, 0], [2, 0, 0, 2]), "{record:?}");
    assert_eq!(record.handshakes_with(&[ACCEPTED]), 4);
}

#[test]
fn a_server_asks_for_a_second_hello() {
    let (hidden, _server) = with_go(EchServer::asking_again);
    let lariat = hidden.start();
    let list = ech::published(&lariat.configuration());
    let record = hidden.load(&list, "--groups x25519,secp384r1").record();
    assert_accepted(&record, &[("group", "secp384r1")]);
    assert!(record.list("/handshakes").iter().all(|row| row["retried"] == true), "{record:?}");
}

#[test]
fn hosts_with_one_secret_open_each_others_hellos() {
    let (hidden, _server) = with_go(EchServer::start);
    let other = free_address();
    let one = hidden.start();
    let text = hidden.toml().replace(&hidden.address().to_string(), &other.to_string());
    let two = Lariat::start(&text);
    let lists = [&one, &two].map(|host| ech::published(&host.configuration()));
    assert_eq!(lists[0], lists[1]);
    assert_accepted(&load_at(&hidden.site, other, &lists[0], "").record(), &[]);
    two.wait_for_metric("lariat_ech_hellos_total", &[("result", "accepted")], 4.0);
}

/// The next key and the last three decrypt too.
#[test]
fn a_key_opens_until_three_more_were_published() {
    const DAY: i64 = 86_400;
    let (hidden, _server) = with_go(EchServer::start);
    let text = hidden.toml().replace("[ech]", "[ech]\nrotate = '24h'");
    let clock = match Clock::prepare() {
        Ok(clock) => clock,
        Err(why) => return eprintln!("skipped: the clock cannot jump here: {why}"),
    };
    // At noon, no key changes while this runs.
    let noon = DAY / 2 - now_seconds().cast_signed() % DAY;
    clock.set(noon);
    let lariat = Lariat::start_by(clock.command(&lariat::command()), &text);
    let list = ech::published_by(clock.command(&lariat::command()), &lariat.configuration());
    for (days, result) in [
        (0, "accepted"),
        (1, "accepted-one-older"),
        (2, "accepted-two-older"),
        (3, "accepted-three-older"),
    ] {
        clock.set(noon + days * DAY);
        assert_accepted(&hidden.load(&list, "").record(), &[]);
        lariat.wait_for_metric("lariat_ech_hellos_total", &[("result", result)], 4.0);
    }
    clock.set(noon + 4 * DAY);
    assert_eq!(hidden.load(&list, "").record().reason(), "ech-rejected");
}

#[test]
fn a_probe_says_how_hellos_fare() {
    let (hidden, _server) = with_go(EchServer::start);
    let lariat = hidden.start();
    let list = ech::published(&lariat.configuration());
    let ca = hidden.site.ca().display().to_string();
    let expected = "ech = 'accepted'\nech-outdated = 'rejected'\nech-grease = 'passed-over'\n\
                    ech-public-name-matches = true\n";
    let expect = hidden.site.write("expect.toml", expected);
    let flags = [
        &["--server-name", "hidden.example", "--ca", &ca, "--ech", &list][..],
        &["--expect", expect.to_str().unwrap()],
    ]
    .concat();
    let said = probe(BUSY, hidden.address(), &flags).success();
    for words in ["ech-no-retry", "accepted"] {
        assert_has(&said, words);
    }
    let wrong = hidden.site.write("wrong.toml", "ech = 'rejected'\n");
    let flags = ["--server-name", "hidden.example", "--ech", &list, "--expect"];
    let flags = [&flags[..], &[wrong.to_str().unwrap()]].concat();
    let said = probe(BUSY, hidden.address(), &flags);
    said.assert_fails(7, &["ech"]);
    let said = probe(BUSY, hidden.address(), &["--ech", "nonsense"]);
    said.assert_fails(2, &["--ech: cannot read nonsense", "hint: "]);
}

#[test]
fn a_check_warns_of_a_front_without_a_certificate_for_the_public_name() {
    let (hidden, _server) = with_any();
    let text = hidden.toml();
    assert!(!lariat::check(&text).stderr.contains("no certificate of the service"));
    let other = hidden.site.path("hidden.pem").display().to_string();
    let front = hidden.site.path("front.pem").display().to_string();
    let said = lariat::check(&text.replace(&front, &other));
    said.assert_stderr("no certificate of the service is for \"front.example\"");
}

/// Returns the answer to a hello, and to the alert that the client then sends, until the end.
fn answer(address: SocketAddr, hello: &[u8]) -> Vec<u8> {
    let mut stream = tcp(address);
    stream.write_all(hello).unwrap();
    let mut answer = read_record(&mut stream).unwrap();
    // handshake_failure. The connection may be closed already, or be reset.
    let _sent = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]);
    let _ended = stream.read_to_end(&mut answer);
    answer
}

const ILLEGAL_PARAMETER: u8 = 47;

#[test]
fn inner_hellos_that_break_the_rules_are_refused_and_others_relayed() {
    let (hidden, hidden_server) = with_any();
    let lariat = hidden.start();
    let list = ech::published(&lariat.configuration());
    let kinds = [
        "tls12",
        "unmarked",
        "outer-mark",
        "refers-to-itself",
        "refers-to-references",
        "refers-twice",
        "swollen",
        "disordered",
        "absent",
        "session-id",
        "padded-with-ones",
        "cut",
    ];
    for kind in kinds {
        let hostile = ech::hello(&list, "hidden.example", kind);
        let alert = answer(hidden.address(), &hostile);
        assert_eq!(alert, [21, 3, 3, 0, 2, 2, ILLEGAL_PARAMETER], "{kind}");
    }
    let count = kinds.len() as u32;
    lariat.wait_for_reason("hello-malformed", count);
    lariat.wait_for_metric("lariat_ech_hellos_total", &[("result", "illegal")], count.into());
    assert!(hidden_server.connections().is_empty());

    // A hello authenticated with other data cannot be decrypted: the front answers.
    let other_data = ech::hello(&list, "hidden.example", "other-data");
    assert_eq!(answer(hidden.address(), &other_data)[0], 22);
    assert!(hidden_server.connections().is_empty());

    // A correct hello is relayed with the early data behind it, and so is its replay: servers judge
    // both, as without ECH.
    let early = [23, 3, 3, 0, 4, 1, 2, 3, 4];
    let good = [ech::hello(&list, "hidden.example", "good"), early.to_vec()].concat();
    let is_relayed = |hello: &[u8]| is_inner(hello) && hello.ends_with(&early);
    let mut open = Vec::new();
    for count in 1..=2 {
        let mut stream = tcp(hidden.address());
        stream.write_all(&good).unwrap();
        open.push(stream);
        hidden_server
            .wait_until(|all| all.iter().filter(|one| is_relayed(&one.bytes)).count() == count);
    }
}

/// Reports whether a hello has the inner name, outer session id and mark, and nothing outer.
fn is_inner(hello: &[u8]) -> bool {
    let has = |words: &[u8]| hello.windows(words.len()).any(|one| one == words);
    has(b"hidden.example") && has(&[5; 32]) && has(&[0xfe, 0x0d, 0, 1, 1]) && !has(b"front.example")
}

/// Returns the bytes of the answers that are not random: the head of each record, and all alerts.
fn shape(answer: &[u8]) -> Vec<Vec<u8>> {
    let (mut shape, mut rest) = (Vec::new(), answer);
    while let Some((head, behind)) = rest.split_at_checked(5) {
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        let (fragment, behind) = behind.split_at(length.min(behind.len()));
        shape.push(if head[0] == 21 { [head, fragment].concat() } else { head.to_vec() });
        rest = behind;
    }
    shape
}

/// A name that is behind the front and one that nobody has are answered alike, in clear, by a hello
/// that cannot be decrypted, and by GREASE: all bytes that are not random, all counts.
#[test]
fn an_answer_does_not_say_whether_a_name_is_hidden() {
    let (hidden, hidden_server) = with_any();
    let lariat = hidden.start();
    let other = hidden.list_of_secret("another secret, of at least 32 bytes");
    // Names of equal length.
    let asked = ["hidden.example", "absent.example"];
    type Question<'q> = &'q dyn Fn(&str) -> Vec<u8>;
    let questions: [Question<'_>; 3] = [
        &|name| hello(&names(&[name.as_bytes()]), &[]),
        &|name| ech::hello(&other, name, "good"),
        &|name| ech::hello(&other, name, "tls12"),
    ];
    for question in questions {
        let found = asked.map(|name| {
            let lines = lariat.log().lines().count();
            let shape = shape(&answer(hidden.address(), &question(name)));
            let log = until("a line", || Some(lariat.log().lines().nth(lines)?.to_owned()));
            let line: Value = serde_json::from_str(&log).unwrap();
            let counted = ["service", "reason", "bytes_up", "bytes_down", "ech"];
            (shape, counted.map(|key| line[key].clone()))
        });
        assert!(!found[0].0.is_empty());
        assert_eq!(found[0], found[1]);
    }
    // Only the keys reveal the difference.
    assert!(hidden_server.connections().is_empty());
    let asks = |name: &str| s_client(&hidden.site, hidden.address(), &["-servername", name]);
    for name in asked {
        assert_has(&asks(name).stdout, "CN = front.example");
    }
}
