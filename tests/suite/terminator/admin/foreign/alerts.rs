//! The rules for alerts and the dashboard in `pkg`, with a Prometheus that watches Lariats.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::UdpSocket;

use suite::patience::pause;
use suite::prelude::*;
use suite::prometheus::Prometheus;
use testkit::authority::Trait;
use testkit::client::ClientChoice;

/// Descriptors of the host that runs out of them: at most a twelfth is kept, less than a tenth.
const DESCRIPTORS: u32 = 400;

/// Fewer than the descriptors, more than nine tenths of which can be open at the same time.
const CONNECTIONS: usize = 350;

/// Duration of a handshake that exceeds the alert's limit.
const SLOW: Duration = Duration::from_millis(1500);

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pkg").join(path)
}

/// Returns the rules, changed to fire at once and to look back five seconds instead of five
/// minutes.
fn hasty_rules() -> String {
    let rules = fs::read_to_string(shipped("prometheus/lariat.rules.yml")).unwrap();
    let lines = rules.lines().filter(|line| !line.contains(" for: "));
    let lines: Vec<_> = lines.map(|line| line.replace("[5m]", "[5s]")).collect();
    // The third attempt is five minutes after the first.
    lines.join("\n").replace("lariat_acme_failures > 2", "lariat_acme_failures > 0")
}

fn alerts(rules: &str) -> BTreeSet<String> {
    let names = rules.lines().filter_map(|line| line.split_once("- alert: "));
    names.map(|(_, name)| name.to_owned()).collect()
}

#[test]
fn each_alert_fires_in_its_time_and_none_without_a_fault() {
    let tests = shipped("prometheus/lariat.rules.test.yml");
    let mut command = Command::new("promtool");
    run(command.args(["test", "rules"]).arg(tests)).success();
    let rules = shipped("prometheus/lariat.rules.yml");
    let mut command = Command::new("promtool");
    run(command.args(["check", "rules", "--lint-fatal"]).arg(rules)).success();
}

#[test]
fn the_guide_explains_each_alert() {
    let guide = shipped("../docs/guide/alerts.md");
    let guide = fs::read_to_string(guide).unwrap();
    let explained = guide.lines().filter_map(|line| line.strip_prefix("### "));
    let explained: BTreeSet<_> = explained.map(str::to_owned).collect();
    assert_eq!(explained, alerts(&hasty_rules()));
}

/// Lariats that have all faults but those that come later.
struct Sick {
    site: Site,
    _servers: Vec<Server>,
    /// Services by fault: no server, a queue, a slow client.
    broken: Service,
    queued: Service,
    echo: Service,
    main: Lariat,
    narrow: (Service, Lariat),
    busy: (Service, Lariat),
    /// Each process that holds its keys is stopped.
    keyless: (Service, Lariat),
    peers: [(SocketAddr, Lariat); 2],
}

impl Sick {
    fn start() -> Self {
        let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
        let limited = format!("[{{ address = '{}', max-connections = 1 }}]", server.address());
        let queued = Service::new(&site, &server)
            .named("queued")
            .servers(&limited)
            .back("queue = { length = 0 }");
        let broken = broken(&site);
        let echo = Service::new(&site, &server).named("echo");
        let club = club(&site, &server);
        let services = [&broken, &queued, &echo, &club].map(Service::toml);
        let main = Lariat::start(&format!(
            "output = '/dev/full'\n[resumption]\nsession-cache = {{ entries = 1 }}\n{}\n{}",
            ordered(&site),
            services.join("\n")
        ));
        be_late(&site, &main);
        let limits = format!("[limits]\nconnections = {CONNECTIONS}\nhandshakes = {CONNECTIONS}\n");
        let narrow = Service::new(&site, &server);
        let narrow_run = Lariat::start_within(DESCRIPTORS, &(limits + &narrow.toml()));
        let peers = peers(&site, &server);
        let folder = site.path("files");
        fs::create_dir(&folder).unwrap();
        File::create(folder.join("large")).and_then(|file| file.set_len(1 << 36)).unwrap();
        let busy = Service::files(&site, &folder);
        let busy_run = busy.start_with("[workers]\nthreads = 1");
        let keyless = Service::new(&site, &server);
        let keyless_run = keyless.start_with("[process]\nkey-process = true");
        Self {
            site,
            _servers: vec![server],
            broken,
            queued,
            echo,
            main,
            narrow: (narrow, narrow_run),
            busy: (busy, busy_run),
            keyless: (keyless, keyless_run),
            peers,
        }
    }

    fn watched(&self) -> Vec<SocketAddr> {
        let [one, other] = &self.peers;
        let [narrow, busy, keyless] = [&self.narrow, &self.busy, &self.keyless].map(|one| &one.1);
        let all = [&self.main, narrow, busy, keyless, &one.1, &other.1];
        all.map(Lariat::admin).to_vec()
    }

    /// Makes connections that each fail by another's fault.
    fn fail(&self) {
        // A new process soon takes its place.
        let _gone = kill_process(self.keyless.1.process("lariat: keys"), Signal::STOP);
        let _unsigned = Client::new(&self.site).try_connect(self.keyless.0.address);
        let _refused = Client::new(&self.site).try_connect(self.broken.address);
        let mut stranger = TcpStream::connect(self.broken.address).unwrap();
        let _reset = stranger.write_all(b"\0\0\0 not TLS");
        let _ended = stranger.read_to_end(&mut Vec::new());
        let _full = Client::new(&self.site)
            .try_connect(self.queued.address)
            .map(|mut connection| connection.read_to_end());
        // Two sessions; only one has room.
        for _ in 0..2 {
            Client::without_tickets(&self.site).echo(self.echo.address);
        }
        // A connection that takes the place of an older one.
        drop(TcpStream::connect(self.narrow.0.address));
        let [(place, _), _] = &self.peers;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"nonsense", place).unwrap();
    }
}

/// Makes a service without answering servers, and with expiring certificates and staple.
fn broken(site: &Site) -> Service {
    let now = now_seconds();
    let leaf = |name| site.authority.leaf(&[name]);
    let site_leaf = leaf("localhost").issue();
    site_leaf.write(&site.directory, "broken/site.pem");
    let staple = site.authority.ocsp_response_until(&site_leaf, now - 100);
    site.write("broken/site.ocsp", staple);
    for (name, end) in [("expired.example", now - 60), ("soon.example", now + 864_000)] {
        let leaf = leaf(name).valid(now - 864_000, end).issue();
        leaf.write(&site.directory, &format!("broken/{name}.pem"));
    }
    Service::new(site, free_address())
        .named("broken")
        .certificates(&format!("[{:?}]", site.path("broken")))
}

/// Makes a service whose certificate is ordered from an authority that does not exist.
fn ordered(site: &Site) -> String {
    format!(
        "[acme]\nfolder = {:?}\n[[service]]\nname = \"ordered\"\nfront.listen = [\"{}\"]\n\
         back.servers = [\"127.0.0.1:9\"]\n[service.front.tls.acme]\ndomains = [\"a.example\"]\n\
         accept-terms = true\ndirectory = \"https://127.0.0.1:9/directory\"\n",
        site.path("acme"),
        free_address()
    )
}

/// Leaves the service a certificate that should have been renewed long since.
fn be_late(site: &Site, lariat: &Lariat) {
    let named = || lariat.status()["acme"][0]["name"].as_str().map(str::to_owned);
    let (name, now) = (until("the certificate's name", named), now_seconds());
    let leaf = site.authority.leaf(&["a.example"]).valid(now - 864_000, now + 86_400).issue();
    leaf.write(&site.directory, &format!("acme/certificates/{name}.ecdsa-p256.pem"));
    lariat.reload().success();
}

/// Makes a service whose clients' certificates are checked against an expired list; their
/// authority's own certificate expires soon.
fn club(site: &Site, server: &Server) -> Service {
    let now = now_seconds();
    let valid = Trait::Valid(now - 864_000, now + 864_000);
    let authority = Authority::root_with("club", &[], &[valid]);
    let ca = authority.write(&site.directory, "club.pem");
    let list = authority.revocation_list_for(&[], 1_704_153_600, now_seconds() - 100);
    let list = site.write("club.crl", list);
    Service::new(site, server).named("club").tls(&format!(
        "client-certificates = {{ mode = 'optional', ca = [{ca:?}], crl = [{list:?}], \
         crl-expired = 'accept' }}"
    ))
}

fn peers(site: &Site, server: &Server) -> [(SocketAddr, Lariat); 2] {
    let secret = site.path("cluster.key");
    fs::write(&secret, "s".repeat(64)).unwrap();
    let place = |host| {
        let socket = UdpSocket::bind(format!("127.0.0.{host}:0")).unwrap();
        socket.local_addr().unwrap()
    };
    let places = [1, 2].map(place);
    [0, 1].map(|host| {
        let toml = format!(
            "[cluster]\nsecret = {secret:?}\n[cluster.peers]\nlisten = \"{}\"\n\
             send-to = [\"{}\"]\n{}",
            places[host],
            places[1 - host],
            Service::new(site, server).toml()
        );
        (places[host], Lariat::start(&toml))
    })
}

/// Connects as a client that is slow with its hello.
fn shake_hands_slowly(site: &Site, address: SocketAddr) {
    let root = fs::read_to_string(site.ca()).unwrap();
    let mut client = ClientChoice::new(&root, true, &[]).connect("localhost");
    let mut socket = TcpStream::connect(address).unwrap();
    let hello = client.take_wire();
    socket.write_all(&hello[..10]).unwrap();
    pause(SLOW);
    socket.write_all(&hello[10..]).unwrap();
    let mut bytes = [0; 4096];
    while !client.is_established() {
        let length = socket.read(&mut bytes).unwrap();
        assert_ne!(length, 0, "the service ended it");
        client.receive(&bytes[..length], &mut Vec::new()).unwrap();
        socket.write_all(&client.take_wire()).unwrap();
    }
}

#[test]
fn each_alert_fires_when_its_fault_is_made_and_the_dashboard_shows_data() {
    let sick = Sick::start();
    let rules = hasty_rules();
    let prometheus = Prometheus::start(&sick.watched(), &rules);
    let wait_for = |what: &str| {
        until_true(what, || !prometheus.query(what).is_empty());
    };
    wait_for("lariat_cluster_peers == 1");
    wait_for("lariat_worker_process_restarts_total == 0");
    sick.main.configure("nonsense");
    assert_ne!(sick.main.reload().code(), 0);
    let Sick { site, .. } = &sick;
    let _held = Client::new(site).echo(sick.queued.address);
    let silent = (0..CONNECTIONS).map(|_| TcpStream::connect(sick.narrow.0.address));
    let _silent: Vec<_> = silent.map(Result::unwrap).collect();
    let downloads = (0..4).map(|_| {
        let all = ["--output", "/dev/null", "--max-time", "120"];
        curl_tls_for(site, sick.busy.0.address, &["large"]).args(&all).start()
    });
    let downloads: Vec<_> = downloads.collect();
    shake_hands_slowly(site, sick.echo.address);
    let expected = alerts(&rules);
    let fired = || {
        sick.fail();
        let firing = "last_over_time(ALERTS{alertstate=\"firing\"}[10m])";
        let series = prometheus.query(firing);
        let names = series.iter().filter_map(|one| one["metric"]["alertname"].as_str());
        names.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let later = ["LariatClusterPeerLost", "LariatDown", "LariatWorkerProcessDied"];
    let mut missing = BTreeSet::new();
    let mut all_but = |later: &[&str]| {
        missing = &expected - &fired();
        missing.iter().all(|name| later.contains(&&**name)).then_some(())
    };
    until("the alerts of what is broken", || all_but(&later));
    drop(downloads);
    check_dashboard(&prometheus);
    // Faults that end something come last.
    let Sick { peers, .. } = sick;
    let [(_, one), (_, other)] = peers;
    drop(other);
    one.kill_worker_process();
    wait_for("ALERTS{alertstate=\"firing\",alertname=\"LariatDown\"}");
    for name in later {
        wait_for(&format!(
            "last_over_time(ALERTS{{alertstate=\"firing\",alertname=\"{name}\"}}[5m])"
        ));
    }
}

/// Checks that each expression of the dashboard yields a value.
fn check_dashboard(prometheus: &Prometheus) {
    let text = fs::read_to_string(shipped("grafana/lariat.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let annotations = dashboard["annotations"]["list"].as_array().unwrap();
    let mut checked = 0;
    for target in targets.chain(annotations) {
        let expression = target["expr"].as_str().unwrap();
        let mut filled = expression.replace("$__rate_interval", "10s");
        for variable in ["$job", "$instance", "$service"] {
            filled = filled.replace(variable, ".*");
        }
        // Changes of the configuration are marks, and here it did not change.
        let filled = filled.replace("[1m]) > 0", "[1m]) >= 0");
        until_true(expression, || !prometheus.query(&filled).is_empty());
        checked += 1;
    }
    assert!(checked > 40, "{checked}");
}
