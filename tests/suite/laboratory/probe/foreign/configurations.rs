//! Programs in configurations that are right, or wrong in one known point: the probe finds every
//! point, and complains of nothing else. The configurations are data, in `configurations.txt`.

use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use suite::haproxy::Haproxy;
use suite::hitch::Hitch;
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::scripted;
use suite::stunnel::Stunnel;

/// A program's settings, the key first.
type Settings = Vec<(String, String)>;

/// A block of the file.
#[derive(Default)]
struct Configuration {
    name: String,
    /// File with chain and key.
    certificate: String,
    faults: BTreeSet<String>,
    advice: BTreeSet<String>,
    /// Advice that the program gets in `right` and not here.
    without: BTreeSet<String>,
    facts: String,
    /// Settings by program; one per node.
    programs: Vec<(String, String)>,
}

impl Configuration {
    /// Returns the settings of each node of a program; none if it is not named, or cannot.
    fn nodes(&self, program: &str) -> Vec<&str> {
        let of = |wanted: &str| -> Vec<&str> {
            let all = self.programs.iter().filter(|(name, _)| name == wanted);
            all.map(|(_, settings)| settings.as_str()).collect()
        };
        let own = of(program);
        let nodes = if own.is_empty() { of("all") } else { own };
        nodes.into_iter().filter(|one| !one.starts_with('-')).collect()
    }
}

fn configurations() -> Vec<Configuration> {
    let mut all: Vec<Configuration> = Vec::new();
    for line in include_str!("configurations.txt").lines() {
        if let Some(name) = line.strip_prefix('[') {
            all.push(Configuration {
                name: name.trim_end_matches(']').to_owned(),
                certificate: "good.pem".to_owned(),
                ..Configuration::default()
            });
        } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let (key, value) = (key.trim(), value.trim());
            let list = || value.split(", ").map(str::to_owned).collect();
            let block = all.last_mut().unwrap();
            match key {
                "certificate" => value.clone_into(&mut block.certificate),
                "faults" => block.faults = list(),
                "advice" => block.advice = list(),
                "without" => block.without = list(),
                "facts" => block.facts += &format!("{value}\n"),
                "all" | "nginx" | "haproxy" | "hitch" | "stunnel" | "lariat" => {
                    block.programs.push((key.to_owned(), value.to_owned()));
                }
                _ => panic!("{line}"),
            }
        }
    }
    all
}

fn settings(text: &str) -> Settings {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    let setting = |part: &str| {
        let (key, value) = part.split_once(' ').unwrap_or((part, ""));
        (key.to_owned(), value.to_owned())
    };
    parts.map(setting).collect()
}

/// Merges more settings into the base, replacing those of the same key.
fn merged(base: &str, more: &str) -> Settings {
    let more = settings(more);
    let mut all = settings(base);
    all.retain(|(key, _)| more.iter().all(|(taken, _)| taken != key));
    all.extend(more);
    all
}

/// Writes each setting on a line of its own, or with another separator.
fn written(settings: &Settings, between: &str) -> String {
    let lines = settings.iter().map(|(key, value)| format!("{key} {value}{between}"));
    lines.collect()
}

/// Certificates by the names of their files, and a server behind.
struct Place {
    site: Site,
    server: Nginx,
}

impl Place {
    fn new() -> Self {
        // The server ends connections, as real servers do.
        let answer = "add_header Strict-Transport-Security max-age=63072000;
            location / { return 200 ok; }";
        let server = Nginx::start_at(free_address(), "", answer);
        let place = Self { site: Site::new(), server };
        place.write_chains();
        place.write_leaves();
        place.write_staples();
        place.write_keys();
        place
    }

    /// Writes chains of one leaf that are right or wrong.
    fn write_chains(&self) {
        let root = &self.site.authority;
        let above = root.intermediate("upper");
        let below = above.intermediate("lower");
        let good = below.leaf(&["localhost"]).issue();
        let (leaf, key) = (good.certificate_pem(), good.key_pem());
        for (name, chain) in [
            ("good.pem", vec![leaf, below.pem(), above.pem()]),
            ("alone.pem", vec![leaf]),
            ("mixed.pem", vec![leaf, above.pem(), below.pem()]),
            ("rooted.pem", vec![leaf, below.pem(), above.pem(), root.pem()]),
        ] {
            self.site.write(name, chain.concat() + key);
        }
    }

    fn write_leaves(&self) {
        let names = &["localhost"];
        let root = &self.site.authority;
        let (now, day) = (now_seconds(), 86400);
        let stranger = Authority::root("stranger");
        let strange = [&stranger.leaf(names).issue().pem(), stranger.pem()].concat();
        self.site.write("strange.pem", strange);
        for (name, leaf) in [
            ("rsa.pem", root.leaf(names).key(Key::Rsa2048)),
            ("other.pem", root.leaf(&["other.example"])),
            ("expired.pem", root.leaf(names).expired()),
            ("early.pem", root.leaf(names).valid(now + day, now + 300 * day)),
            ("soon.pem", root.leaf(names).valid(now - day, now + 5 * day + 3600)),
            ("must-staple.pem", root.leaf(names).must_staple()),
        ] {
            leaf.issue().write(&self.site.directory, name);
        }
        for (name, made) in [
            ("weak.pem", root.leaf_by_openssl("-newkey rsa:1024", "-sha256")),
            ("sha1.pem", root.leaf_by_openssl(EC, "-sha1")),
            (
                "pss.pem",
                root.leaf_by_openssl("-newkey rsa-pss -pkeyopt rsa_keygen_bits:2048", "-sha256"),
            ),
            ("p521.pem", root.leaf_by_openssl(P_521, "-sha256")),
            ("self.pem", Authority::own_issuer_by_openssl(EC)),
        ] {
            self.site.write(name, made);
        }
    }

    /// Writes files beside certificates: lariat and haproxy each look for their own name.
    fn write_staples(&self) {
        // hitch looks for the issuer in the chain.
        let issuer = self.site.authority.intermediate("stapler");
        for (name, response) in [
            ("stapled", Authority::ocsp_response as fn(&Authority, &Leaf) -> Vec<u8>),
            ("revoked", Authority::ocsp_response_revoked),
            ("old", |issuer, leaf| issuer.ocsp_response_until(leaf, now_seconds() - 60)),
            ("forged", |issuer, leaf| issuer.ocsp_response_forged(leaf, now_seconds() + 86400)),
            ("foreign", |issuer, _| issuer.ocsp_response(&issuer.leaf(&["other"]).issue())),
        ] {
            let leaf = issuer.leaf(&["localhost"]).must_staple().issue();
            leaf.write(&self.site.directory, &format!("{name}.pem"));
            let response = response(&issuer, &leaf);
            self.site.write(format!("{name}.ocsp"), &response);
            self.site.write(format!("{name}.pem.ocsp"), &response);
        }
    }

    /// Writes an RSA key of four primes, because two take half a minute to be found.
    fn write_long_key(&self) {
        let key = "-newkey rsa -pkeyopt rsa_keygen_bits:8192 -pkeyopt rsa_keygen_primes:4";
        let made = self.site.authority.leaf_by_openssl(key, "-sha256");
        self.site.write("rsa8192.pem", made);
    }

    fn write_keys(&self) {
        self.site.write("ticket80.key", [7; 80]);
        // Three keys of 48 bytes, as haproxy wants them.
        let keys = ["a", "b", "c"].map(|letter| letter.repeat(64) + "\n");
        self.site.write("tickets.base64", keys.concat());
        let rsa = fs::read_to_string(self.path("rsa.pem")).unwrap();
        self.site.write("dh1024.pem", DH1024);
        self.site.write("dhe.pem", rsa + DH1024);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.path(name)
    }

    fn start(&self, program: &str, file: &str, base: &str, more: &str) -> Started {
        let directory = self.site.directory.path().display().to_string();
        let mut all = merged(base, more);
        for (_, value) in &mut all {
            *value = value.replace("DIR", &directory);
        }
        let certificate = self.path(file);
        match program {
            "nginx" => {
                let address = free_address();
                let lines = written(&all, ";").replace("ADDRESS", &address.to_string());
                let started = Nginx::terminate_at(address, &certificate, "", &lines);
                (address, Box::new(started))
            }
            "haproxy" => {
                let is_global = |(key, _): &(String, String)| key.starts_with("tune.");
                let (global, bind) = all.into_iter().partition(is_global);
                let (global, bind) = (written(&global, "\n"), written(&bind, " "));
                let started = Haproxy::terminate_with(&certificate, &bind, &global);
                (started.address, Box::new(started))
            }
            "hitch" => {
                let lines = written(&all, "\n");
                let started = Hitch::start_with(&certificate, self.server.address, &lines);
                (started.address, Box::new(started))
            }
            "stunnel" => {
                let (behind, lines) = (self.server.address.to_string(), written(&all, "\n"));
                let started = Stunnel::terminate(&certificate, &behind, &lines);
                (started.address, Box::new(started))
            }
            _ => self.start_lariat(file, all),
        }
    }

    fn start_lariat(&self, file: &str, settings: Settings) -> Started {
        let mut service = self.service().certificates(&format!("[{:?}]", self.path(file)));
        let mut global = String::new();
        for (key, value) in settings {
            if key.starts_with('[') {
                global += &format!("{key}\n{value}\n");
            } else if let Some(key) = key.strip_prefix("back.") {
                service = service.back(&format!("{key} {value}"));
            } else if key == "certificates" {
                service = service.certificates(value.trim_start_matches("= "));
            } else {
                service = service.tls(&format!("{key} {value}"));
            }
        }
        let started = service.start_with(&global);
        (service.address, Box::new(started))
    }

    /// Makes a service of lariat before the server.
    fn service(&self) -> Service {
        Service::new(&self.site, self.server.address)
    }

    /// Probes these addresses as localhost: returns the report, and the unmet expectations.
    fn probe(&self, addresses: &[SocketAddr], facts: &str) -> (Value, Finished) {
        self.probe_with(&[], addresses, facts)
    }

    /// Probes with more flags.
    fn probe_with(
        &self,
        flags: &[&str],
        addresses: &[SocketAddr],
        facts: &str,
    ) -> (Value, Finished) {
        let all = format!("speaks-tls = true\n{facts}");
        // One of two workers that do not share resumes all of 24 once in eight million times.
        let attempts = if facts.contains("'sometimes'") { "24" } else { "6" };
        let mut command = lab::command();
        command.args([
            "probe",
            "localhost",
            "--json",
            "--timeout",
            "30s",
            "--attempts",
            attempts,
            "--expect",
        ]);
        command.arg(self.site.write("expect.toml", all));
        command.arg("--ca").arg(self.site.ca()).args(flags);
        for address in addresses {
            command.args(["--connect", &address.to_string()]);
        }
        let finished = run(&mut command);
        let report = serde_json::from_str(&finished.stdout);
        let report = report.unwrap_or_else(|error| panic!("{error}: {finished:?}"));
        (report, finished)
    }
}

/// Made by `openssl dhparam 1024`, which takes its time.
const DH1024: &str = "-----BEGIN DH PARAMETERS-----\n\
MIGHAoGBAOpiS2/wwgUQpwonE2mASob6jCCPZNcoU7VaEOG7NFzgJ+qSqttBorfV\n\
nXPa3F3CXc7Qf7kmhRgoVE+yAPWAvIT1B7fB0EwpmB03OXLC+wDUjSImWdrUoDPY\n\
ZGbLUdRpgD7E97kro4yYAaHEnugi7W4rrLqEKLElGjKtlVSud+/PAgEC\n\
-----END DH PARAMETERS-----\n\
";

/// Address of a program, and the program, stopped when it is dropped.
type Started = (SocketAddr, Box<dyn Any>);

const EC: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256";

const P_521: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-521";

/// Returns the points of one level.
fn points(report: &Value, level: &str) -> BTreeSet<String> {
    let verdicts = report["verdicts"].as_array().unwrap().iter();
    let found = verdicts.filter(|one| one["level"] == level);
    found.map(|one| one["point"].as_str().unwrap().to_owned()).collect()
}

/// Starts the program in each of its configurations. Reports the faults of all of them at once.
fn see_through(program: &str) {
    let (place, all) = (Place::new(), configurations());
    place.write_long_key();
    let base = all[0].nodes(program)[0];
    // OpenSSL has a post-quantum group since 3.5.
    let mut always = BTreeSet::new();
    let (mut count, mut wrong) = (0, Vec::new());
    for one in &all[1..] {
        let nodes = one.nodes(program).into_iter();
        let started: Vec<Started> =
            nodes.map(|more| place.start(program, &one.certificate, base, more)).collect();
        if started.is_empty() {
            continue;
        }
        count += 1;
        let addresses: Vec<SocketAddr> = started.iter().map(|(address, _)| *address).collect();
        let (report, finished) = place.probe(&addresses, &one.facts);
        let (faults, advice) = (points(&report, "fault"), points(&report, "advice"));
        if one.name == "right" {
            always = advice.clone();
            // haproxy answers by itself, and its replies have no headers of ours.
            let known = |point: &String| ["no-post-quantum", "no-hsts"].contains(&point.as_str());
            assert!(always.iter().all(known), "{always:?}");
            assert!(program != "lariat" || always.is_empty(), "{always:?}");
        }
        let mut expected: BTreeSet<_> = always.difference(&one.without).cloned().collect();
        expected.extend(one.advice.iter().cloned());
        if (faults != one.faults) || advice != expected || finished.code() != 0 {
            let name = &one.name;
            let (trouble, unmet) = (&report["nodes"][0]["trouble"], &finished.stderr);
            wrong.push(format!("{name}: {faults:?}, {advice:?}, {trouble}, {unmet}"));
        }
    }
    assert!(wrong.is_empty(), "{program}:\n{}", wrong.join("\n"));
    assert!(count >= 20, "{program}: {count}");
}

#[test]
fn nginx_is_seen_through() {
    see_through("nginx");
}

#[test]
fn haproxy_is_seen_through() {
    see_through("haproxy");
}

#[test]
fn hitch_is_seen_through() {
    see_through("hitch");
}

#[test]
fn stunnel_is_seen_through() {
    see_through("stunnel");
}

#[test]
fn lariat_is_seen_through() {
    see_through("lariat");
}

#[test]
fn nodes_that_share_all_resume_each_others_sessions() {
    let place = Place::new();
    let secret = place.site.write("cluster.secret", "s".repeat(64));
    let peers = [free_address(), free_address()];
    let start = |own: SocketAddr, other: SocketAddr| {
        let service = place.service();
        let cluster = format!(
            "[cluster]\nsecret = {secret:?}\n[cluster.peers]\nlisten = \"{own}\"\n\
             send-to = [\"{other}\"]\nfetch-timeout = \"100ms\"\n"
        );
        let started = service.start_with(&cluster);
        (service.address, started)
    };
    let nodes = [start(peers[0], peers[1]), start(peers[1], peers[0])];
    let addresses = nodes.each_ref().map(|(address, _)| *address);
    let facts = "faults = []
        resumption = { session-id = 'always', ticket = 'always', psk = 'always' }";
    let (_, finished) = place.probe(&addresses, facts);
    assert_eq!(finished.code(), 0, "{finished:?}");
}

/// As the kernel divides connections between two instances at one address.
#[test]
fn instances_with_caches_of_their_own_resume_by_chance() {
    let place = Place::new();
    let address = free_address();
    let directives = format!(
        "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_ticket_key {:?};
         ssl_session_cache shared:SSL:1m;",
        place.path("ticket80.key")
    );
    let certificate = place.path("good.pem");
    let start = |_| Nginx::terminate_at(address, &certificate, "reuseport", &directives);
    let _both = [1, 2].map(start);
    let facts = "faults = ['resumed-by-chance']
        resumption = { session-id = 'sometimes', ticket = 'always', psk = 'always' }";
    let (_, finished) = place.probe(&[address], facts);
    assert_eq!(finished.code(), 0, "{finished:?}");
}

#[test]
fn a_proxy_header_comes_before_all_else() {
    let place = Place::new();
    let haproxy = Haproxy::terminate(&place.path("good.pem"), "accept-proxy");
    let (report, _) = place.probe(&[haproxy.address], "");
    assert!(points(&report, "fault").len() == 1, "{report}");
    for version in ["v1", "v2"] {
        let flags = ["--send-proxy", version];
        let (_, finished) = place.probe_with(&flags, &[haproxy.address], "faults = []");
        assert_eq!(finished.code(), 0, "{version}: {finished:?}");
    }
}

#[test]
fn a_certificate_is_shown_where_one_is_required() {
    let place = Place::new();
    let shown = place.site.authority.client("probe");
    let shown = shown.write(&place.site.directory, "client.pem");
    let bind = format!("verify required ca-file {}", place.site.ca().display());
    let haproxy = Haproxy::terminate(&place.path("good.pem"), &bind);
    let facts = "client-certificate = 'required'
        resumption = { session-id = 'always', ticket = 'always', psk = 'always',
                       skips-client-certificate = true }";
    let flags = ["--client-certificate", shown.to_str().unwrap()];
    let (_, finished) = place.probe_with(&flags, &[haproxy.address], facts);
    assert_eq!(finished.code(), 0, "{finished:?}");
}

/// The report of a day and a half ago is made from one of now.
#[test]
fn ticket_keys_that_stay_are_known_by_an_earlier_probe() {
    let place = Place::new();
    let directives = |key: &str| {
        place.site.write(key, key.repeat(80 / key.len()));
        format!("ssl_protocols TLSv1.2 TLSv1.3; ssl_session_ticket_key {:?};", place.path(key))
    };
    let start = |key| {
        let certificate = place.path("good.pem");
        Nginx::terminate_at(free_address(), &certificate, "", &directives(key))
    };
    let (kept, renewed) = (start("kept"), start("new1"));
    let (mut earlier, _) = place.probe(&[kept.address], "");
    let before = |value: &mut Value| *value = (value.as_u64().unwrap() - 36 * 3600).into();
    before(&mut earlier["at_s"]);
    for ticket in earlier["nodes"][0]["tickets"].as_array_mut().unwrap() {
        if ticket["key_since_s"].is_u64() {
            before(&mut ticket["key_since_s"]);
        }
    }
    let earlier = place.site.write("earlier.json", earlier.to_string());
    let flags = ["--earlier", earlier.to_str().unwrap()];
    for (server, hours, is_seen) in [(kept, 36, true), (renewed, 0, false)] {
        let facts =
            format!("resumption = {{ ticket-key-hours = {hours}, psk-key-hours = {hours} }}");
        let (report, finished) = place.probe_with(&flags, &[server.address], &facts);
        assert_eq!(finished.code(), 0, "{finished:?}");
        let advice = points(&report, "advice");
        assert_eq!(advice.contains("static-ticket-key"), is_seen, "{advice:?}");
    }
}

#[test]
fn the_longest_record_is_measured() {
    let place = Place::new();
    let folder = Directory::new();
    folder.write("index.html", "x".repeat(100_000));
    for (size, bytes) in [("4k", 4096), ("16k", 16384)] {
        let directives = format!("ssl_buffer_size {size};");
        let nginx = Nginx::files(&place.path("good.pem"), folder.path(), &directives);
        let facts = format!("record-bytes-max = {bytes}\nend = 'close-notify'");
        let (_, finished) = place.probe(&[nginx.address], &facts);
        assert_eq!(finished.code(), 0, "{size}: {finished:?}");
    }
}

/// As a busy host drops them: no version, suite or certificate may seem missing because of it.
#[test]
fn dropped_connections_are_not_taken_for_answers() {
    let place = Place::new();
    let directives = "ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers ECDHE+AESGCM;";
    let certificate = place.path("good.pem");
    let nginx = Nginx::terminate_at(free_address(), &certificate, "", directives);
    let (server, count) = (nginx.address, AtomicUsize::new(0));
    let dropping = scripted::serve(move |client| {
        if count.fetch_add(1, Ordering::Relaxed) % 3 != 1 {
            scripted::pass_on(client, server, |from, to| io::copy(from, to).map(drop));
        }
    });
    let found = |address| {
        let (report, _) = place.probe(&[address], "");
        let node = &report["nodes"][0];
        let seen = ["trouble", "versions", "clients"].map(|key| node[key].clone());
        (seen, points(&report, "fault"))
    };
    assert_eq!(found(dropping), found(server));
}
