//! dns-01 by the program in `pkg/acme`, in a zone of a real name server on loopback.

use super::*;

/// A name server with the zone `zone.test`, which a key may change.
struct Zone {
    running: Running,
    address: SocketAddr,
    key: PathBuf,
}

impl Zone {
    fn start(site: &Site) -> Self {
        let (address, folder) = (free_address(), site.path(""));
        let secret = "c2VjcmV0IG9mIGEgdGVzdCwgb2YgMzIgYnl0ZXMgbG9uZw==";
        let key = format!("key lariat {{ algorithm hmac-sha256; secret \"{secret}\"; }};\n");
        site.write(
            "zone.test",
            "$TTL 60\n@ SOA ns.zone.test. ops.zone.test. 1 60 60 60 60\n@ NS ns.zone.test.\n\
             ns A 127.0.0.1\n",
        );
        let configuration = format!(
            "{key}options {{ directory {folder:?}; listen-on port {port} {{ 127.0.0.1; }};\n\
             listen-on-v6 {{ none; }}; recursion no; pid-file none; session-keyfile none; }};\n\
             controls {{ }};\n\
             zone \"zone.test\" {{ type primary; file \"zone.test\"; notify no;\n\
             allow-update {{ key lariat; }}; }};\n",
            port = address.port()
        );
        let configuration = site.write("named.conf", configuration);
        let key = site.write("tsig.key", key);
        let mut named = Command::new("named");
        let mut running = Running::start(named.args(["-g", "-n", "1", "-c"]).arg(configuration));
        running.wait_for_listener(address);
        Self { running, address, key }
    }

    /// Returns the zone's answer for a name's challenges.
    fn records(&self, name: &str) -> String {
        let port = self.address.port().to_string();
        let mut dig = Command::new("dig");
        dig.args(["@127.0.0.1", "-p", &port, "+short", "TXT"]);
        let told = run(dig.arg(format!("_acme-challenge.{name}"))).success();
        // A name server rotates the records.
        let mut lines: Vec<_> = told.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    fn command(&self) -> Command {
        let server = format!("127.0.0.1 {}", self.address.port());
        let mut command = lariat::command();
        command.env("NSUPDATE_SERVER", server).env("NSUPDATE_KEY", &self.key);
        command.env("NSUPDATE_WAIT", "0");
        command
    }
}

#[test]
fn records_come_and_go_and_none_stays_after_a_kill() {
    let site = Site::new();
    let zone = Zone::start(&site);
    let server = ["-dnsserver", &zone.address.to_string()];
    let pebble = Pebble::start_with(&site, &server, ("PEBBLE_VA_NOSLEEP", "1"));
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pkg/acme/nsupdate");
    // The hook waits at a record that exists, as long as a file does.
    let hook = format!(
        "#!/bin/sh\n{program:?} \"$@\" || exit\n[ $1 = cleanup ] && exit\n\
         setsid sh -c 'echo $$ >>{:?}; while [ -e {:?} ]; do sleep 0.1; done' & wait\n",
        site.path("waiting"),
        site.path("hold")
    );
    let hook = site.write("hook", hook);
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    site.write("hold", "");
    let keys =
        format!("domains = [\"zone.test\", \"*.zone.test\"]\nchallenge = {{ dns = {hook:?} }}");
    let configuration = folder(&site) + &pebble.service(&site, "tls", pebble.asked[0], &keys);
    let mut lariat = Lariat::start_by(zone.command(), &configuration);
    until_true("two records", || zone.records("zone.test").lines().count() == 2);
    let before = zone.records("zone.test");
    let waiting = || fs::read_to_string(site.path("waiting")).unwrap_or_default();
    until_true("two that wait", || waiting().lines().count() == 2);
    lariat.signal(Signal::KILL);
    lariat.wait();
    for pid in waiting().lines() {
        until_true("its end, in a session of its own", || !Path::new("/proc").join(pid).exists());
    }
    fs::remove_file(site.path("hold")).unwrap();
    assert_eq!(zone.records("zone.test"), before, "nobody takes them away");

    lariat = Lariat::start_by(zone.command(), &configuration);
    lariat.wait_for_stderr("zone.test of an order before is taken out of the DNS");
    until_true("no record", || zone.records("zone.test").is_empty());
    issued(&site, &lariat, &[]);
    until_true("no record", || zone.records("zone.test").is_empty());
    assert_eq!(pebble.orders(), 1, "it goes on: {}", pebble.running.stdout());
    // No record is left to be taken away.
    lariat.stop();
    lariat = Lariat::start_by(zone.command(), &configuration);
    issued(&site, &lariat, &[]);
    assert!(!lariat.stderr().contains("taken out of the DNS"), "{}", lariat.stderr());
    assert!(zone.running.stderr().contains("zone.test"));
}
