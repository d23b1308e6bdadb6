//! Certificates from an authority on loopback: pebble, which rejects one nonce of twenty.
//!
//! `./run-tests acme` brings it, by `PEBBLE`.
#![forbid(unsafe_code)]

use suite::patience::within;
use suite::prelude::*;

struct Pebble {
    running: Running,
    directory: SocketAddr,
    /// The port at which it asks for a certificate, and that for a file.
    asked: [SocketAddr; 2],
}

impl Pebble {
    fn start(site: &Site) -> Self {
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
        }});
        let configuration = site.write("pebble.json", configuration.to_string());
        let program = std::env::var("PEBBLE").unwrap_or_else(|_| "pebble".to_owned());
        let mut command = Command::new(program);
        command.arg("-config").arg(configuration).env("PEBBLE_VA_NOSLEEP", "1");
        let mut running = Running::start(command.env("PEBBLE_WFE_NONCEREJECT", "5"));
        running.wait_for_listener(directory);
        Self { running, directory, asked }
    }

    fn orders(&self) -> usize {
        self.running.stdout().matches("Added order").count()
    }

    /// A service whose certificate it issues, with more keys of `acme`.
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

/// From a failure, such as a death amid an order, the next order is a minute away.
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

#[test]
fn certificates_come_are_renewed_and_revoked_and_stay() {
    let site = Site::new();
    let pebble = Pebble::start(&site);
    let ([tls, http], other) = (pebble.asked, free_address());
    let both = "domains = [\"localhost\", \"127.0.0.1\"]\nkey = [\"ecdsa-p256\", \"rsa-2048\"]";
    let by_http = "domains = [\"127.0.0.2\"]\nchallenge = \"http\"";
    let configuration = folder(&site)
        + &pebble.service(&site, "tls", tls, both)
        + &pebble.service(&site, "http", other, by_http)
        + &format!(
            "[[service]]\nname = \"plain\"\n\
             front = {{ listen = [\"127.0.0.2:{}\"], redirect = \"https\" }}\n",
            http.port()
        );
    let mut lariat = Lariat::start(&configuration);
    for issuer in issued(&site, &lariat, &[tls, other]) {
        assert_has(&issuer, "Pebble Intermediate CA");
    }
    let reason = [("reason", "acme-validation")];
    lariat.wait_for_metric_from("lariat_connections_ended_total", &reason, 2.0);
    until_true("two kinds of keys", || {
        let files = fs::read_dir(site.path("acme/certificates")).unwrap();
        files.count() == 3
    });
    let waits = |one: &Value| one["stage"] == "waiting" && one["last_failure"].is_null();
    let rests = |lariat: &Lariat| {
        let is_at_rest = || lariat.status()["acme"].as_array().unwrap().iter().all(waits);
        until_true("no work", is_at_rest);
    };
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

#[test]
fn a_death_amid_an_order_costs_no_certificate_and_makes_no_loop() {
    for process in ["lariat: acme", "lariat: worker", "supervisor"] {
        let site = Site::new();
        let pebble = Pebble::start(&site);
        let address = pebble.asked[0];
        let service = pebble.service(&site, "tls", address, "domains = [\"localhost\"]");
        let configuration = folder(&site) + &service;
        let mut lariat = Lariat::start(&configuration);
        until_true("an order", || pebble.orders() > 0);
        if process == "supervisor" {
            lariat.signal(Signal::KILL);
            lariat.wait();
            lariat = Lariat::start(&configuration);
        } else {
            kill_process(lariat.process(process), Signal::KILL).unwrap();
        }
        let issuer = issued(&site, &lariat, &[address]).remove(0);
        assert_has(&issuer, "Pebble Intermediate CA");
        assert!(pebble.orders() <= 2, "{process}: {}", pebble.running.stdout());
    }
}
