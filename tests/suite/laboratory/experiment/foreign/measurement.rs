//! Readings of `lariat-lab run`: they agree with what the server did, and with its own log.

use suite::prelude::*;

/// A scenario of one configuration.
const HEAD: &str = "question = \"What is it?\"\nmethod = \"As told.\"\noperation = \"requests\"\n\
                    metrics = [\"server-cpu\"]\n\
                    [quick]\nrepeats = 1\nwarm-up = \"100ms\"\nduration = \"300ms\"\n\
                    [full]\nrepeats = 1\nwarm-up = \"100ms\"\nduration = \"300ms\"\n";

/// nginx as a target of the test's own: it answers by itself.
const NGINX: &str = r#"
title = "nginx of a test"
program = "nginx"
packages = ["nginx"]
serves = "itself"
scheme = "https"
version = [["{{program}}", "-v"]]
start = ["{{program}}", "-e", "stderr", "-c", "{{folder}}/nginx.conf"]
files = ["nginx.conf"]
"#;

/// A run of one scenario against one target of the test's own, `subject`.
struct Desk {
    directory: Directory,
}

impl Desk {
    /// Makes a desk with nginx's directives about TLS; `{{` is the template language.
    fn with_nginx(tls: &str) -> Self {
        let desk = Self::with_target(NGINX);
        let log = desk.path("access.log");
        let configuration = format!(
            "{{% if is_root %}}user root;{{% endif %}}
             daemon off; pid {{{{ folder }}}}/pid; worker_processes 1;
             error_log stderr crit;
             events {{ worker_connections 1024; }}
             http {{
                 log_format lab \"$ssl_session_reused $connection_requests $ssl_protocol\";
                 access_log {} lab;
                 keepalive_requests 1000000; keepalive_timeout 1d;
                 server {{
                     listen {{{{ listen.address }}}} ssl;
                     {tls}
                     location / {{ return 200 ok; }}
                 }}
             }}",
            log.display()
        );
        fs::write(desk.path("targets/subject/nginx.conf"), configuration).unwrap();
        desk
    }

    fn with_target(form: &str) -> Self {
        let directory = Directory::new();
        fs::create_dir_all(directory.join("targets/subject")).unwrap();
        fs::create_dir(directory.join("tmp")).unwrap();
        fs::write(directory.join("targets/subject/target.toml"), form).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the only reading or miss of a scenario, and the exit code.
    fn ask(&self, target: &str, scenario: &str) -> (Value, i32) {
        self.ask_with(HEAD, target, scenario)
    }

    fn ask_with(&self, head: &str, target: &str, scenario: &str) -> (Value, i32) {
        let text = format!("targets = [{target:?}]\n{head}{scenario}");
        fs::write(self.path("one.toml"), text).unwrap();
        let mut command = lab::command();
        command.current_dir(self.directory.path());
        command.env("TMPDIR", self.path("tmp"));
        command.args(["run", "./one.toml", "--speeds", "none"]);
        command.args(["--target-folder", "targets", "--record", "one.jsonl"]);
        let finished = run(&mut command);
        let record = fs::read_to_string(self.path("one.jsonl")).unwrap_or_default();
        let events = record.lines().map(|line| serde_json::from_str(line).unwrap());
        let mut told = events
            .filter(|event: &Value| event["event"] == "measured" || event["event"] == "failed");
        let one = told.next().unwrap_or_else(|| panic!("{finished:?}"));
        assert_eq!(told.next(), None, "one configuration, measured once");
        let left = fs::read_dir(self.path("tmp")).unwrap().count();
        assert_eq!(left, 0, "nothing is left behind: {finished:?}");
        (one, finished.code())
    }

    fn reading(&self, target: &str, scenario: &str) -> Value {
        let (event, code) = self.ask(target, scenario);
        assert_eq!((&event["event"], code), (&"measured".into(), 0), "{event}");
        event
    }

    /// Returns how the reading was missed, and why.
    fn miss(&self, scenario: &str) -> (String, String) {
        let (event, code) = self.ask("subject", scenario);
        assert_eq!(event["event"], "failed", "{event}");
        assert_ne!(code, 0);
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        (text("kind"), text("why"))
    }

    /// Returns lines of nginx's log: whether a session was resumed, the request's number on its
    /// connection, the version.
    fn log(&self) -> Vec<[String; 3]> {
        let text = fs::read_to_string(self.path("access.log")).unwrap();
        let line = |line: &str| {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            <[String; 3]>::try_from(words).unwrap()
        };
        text.lines().map(line).collect()
    }
}

const OWN_CERTIFICATE: &str = "{% for one in certificates %}ssl_certificate {{ one.chain }}; \
                               ssl_certificate_key {{ one.key }};{% endfor %} \
                               ssl_protocols TLSv1.2 TLSv1.3;";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the number of handshakes of a kind in a reading, including the warm-up.
fn handshakes(reading: &Value, kind: &str) -> u64 {
    let rows = reading["handshakes"].as_array().unwrap().iter();
    let of_kind = rows.filter(|row| row["kind"] == kind);
    of_kind.map(|row| number(&row["count"])).sum()
}

#[test]
fn a_reading_counts_what_the_server_counts() {
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let reading = desk.reading(
        "subject",
        "[load]\nhandshake = \"psk\"\nrequests-per-session = 4\nconnections = 4\n\
         timeout = \"30s\"\n\
         [expect]\nkinds = [\"full\", \"psk\"]\nversion = \"TLSv1.3\"\n\
         resumed = { least = 0.5, most = 0.9 }\n",
    );
    let log = desk.log();
    let of = |reused: &str| log.iter().filter(|line| line[0] == reused).count() as u64;
    assert_eq!(of("r"), handshakes(&reading, "psk"));
    assert_eq!(
        of("."),
        handshakes(&reading, "full") + 1,
        "one is asked for before anything is measured"
    );
    let counts = &reading["counts"];
    assert_eq!(counts["attempted"], counts["succeeded"]);
    assert_eq!(counts["succeeded"], reading["operations"]);
    assert_eq!(counts["succeeded"], reading["response"]["count"]);
    assert!(number(&counts["succeeded"]) < log.len() as u64, "there was a warm-up");
    for field in ["server_cpu_ns", "client_cpu_ns", "resident_bytes_before"] {
        assert!(number(&reading[field]) > 0, "{field}: {reading}");
    }
    assert!(number(&reading["elapsed_ns"]) >= 300_000_000);
}

#[test]
fn connections_that_rest_are_all_seen() {
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let (reading, code) = desk.ask_with(
        &HEAD.replace("100ms", "0s"),
        "subject",
        "[load]\nconnections = 40\nrequests-per-connection = \"unlimited\"\n\
         think-time = \"1h\"\ntimeout = \"30s\"\n",
    );
    assert_eq!((&reading["event"], code), (&"measured".into(), 0), "{reading}");
    // Each asks once, and then it rests.
    assert_eq!(reading["counts"]["succeeded"], 40);
    assert_eq!(reading["open_connections"], 40);
}

#[test]
fn what_the_scenario_does_not_say_is_void() {
    let old = OWN_CERTIFICATE.replace(" TLSv1.3", "");
    let desk = Desk::with_nginx(&old);
    let (way, why) =
        desk.miss("[load]\nconnections = 2\ntimeout = \"30s\"\n[expect]\nversion = \"TLSv1.3\"\n");
    assert_eq!(way, "void");
    assert!(why.starts_with("asked for version TLSv1.3, got TLSv1.2 in "), "{why}");
    assert!(desk.log().iter().all(|line| line[2] == "TLSv1.2"));
}

#[test]
fn another_key_than_the_scenarios_is_void() {
    let directory = Directory::new();
    let leaf = Authority::root("other").leaf(&["localhost"]).issue();
    let other = leaf.write(&directory, "other.pem");
    let desk =
        Desk::with_nginx(&format!("ssl_certificate {other:?}; ssl_certificate_key {other:?};"));
    let (way, why) = desk.miss("[load]\nconnections = 2\ntimeout = \"30s\"\n");
    assert_eq!(way, "void");
    assert_has(&why, "another certificate");
}

#[test]
fn a_server_that_ends_meanwhile_fails_with_its_words() {
    let start = "start = [\"timeout\", \"1\", \"{{program}}\",";
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let form = NGINX.replace("start = [\"{{program}}\",", start);
    fs::write(desk.path("targets/subject/target.toml"), form).unwrap();
    let head = HEAD.replace("duration = \"300ms\"", "duration = \"3s\"");
    let (event, _) = desk.ask_with(&head, "subject", "[load]\nconnections = 2\n");
    assert_eq!(event["kind"], "failed", "{event}");
    // As `timeout` reports it, whether it was still starting then or not.
    let why = event["why"].as_str().unwrap();
    assert_has(why, "exit status: 124");
}

#[test]
fn another_program_may_be_the_client() {
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let load = "[load]\nsize = \"64k\"\n";
    let in_a_value = "[[factor]]\nname = \"by\"\ntitle = \"by\"\n\
                      [[factor.value]]\nname = \"curl\"\ntitle = \"curl\"\nclient = \"curl\"\n";
    for (head, scenario) in [
        (format!("client = \"curl\"\n{HEAD}"), load.to_owned()),
        (HEAD.to_owned(), format!("{load}{in_a_value}")),
    ] {
        let (reading, _) = desk.ask_with(&head, "plain", &scenario);
        assert_eq!(reading["event"], "measured", "{reading}");
        assert_eq!(reading["traffic"]["body_bytes"], 65536);
        assert_eq!(reading["counts"]["succeeded"], 1);
        assert_eq!(reading["response"]["count"], 1);
        for field in ["server_cpu_ns", "client_cpu_ns", "resident_bytes_loaded"] {
            assert!(number(&reading[field]) > 0, "{field}: {reading}");
        }
        assert!(number(&reading["client_resident_bytes_max"]) > 0);
    }
}

#[test]
fn a_program_that_gets_too_little_makes_the_measurement_void() {
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let head = format!("client = \"curl\"\n{HEAD}");
    let (event, _) = desk.ask_with(&head, "subject", "[server]\nobjects = [65536]\n");
    assert_eq!(
        (&event["kind"], &event["why"]),
        (&"void".into(), &"asked for 65536 bytes, got 2".into())
    );
}

#[test]
fn a_client_is_a_target_and_the_server_says_what_it_did() {
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let head = format!("against = \"nginx-files\"\n{HEAD}").replace("server-cpu", "client-cpu");
    let scenario = "[server]\nversions = [\"1.3\"]\n\
                    [load]\nsize = \"1k\"\nconnections = 2\nhandshake = \"full\"\ntls = \"1.3\"\n\
                    [expect]\nkinds = [\"full\"]\nversion = \"TLSv1.3\"\n";
    let (reading, code) = desk.ask_with(&head, "lariat-load", scenario);
    assert_eq!((&reading["event"], code), (&"measured".into(), 0), "{reading}");
    assert!(number(&reading["client_cpu_ns"]) > 0);
    assert_eq!(handshakes(&reading, "full"), number(&reading["operations"]));
    let resumes = scenario.replace("kinds = [\"full\"]", "kinds = [\"full\", \"psk\"]");
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let (event, _) = desk.ask_with(&head, "lariat-load", &resumes);
    assert_eq!(event["kind"], "void", "{event}");
}

#[test]
fn a_server_of_files_has_one_of_each_size_that_is_asked_for() {
    let scenario = "[load]\nsize = \"1k\"\nconnections = 1\n\
                    [[factor]]\nname = \"beside\"\ntitle = \"beside\"\n\
                    [[factor.value]]\nname = \"long\"\ntitle = \"long\"\n\
                    background = { connections = 1, size = \"64k\" }\n";
    for target in ["lariat-files", "nginx-files"] {
        let desk = Desk::with_nginx(OWN_CERTIFICATE);
        let reading = desk.reading(target, scenario);
        assert!(number(&reading["background"]["received_bytes"]) > 64 << 10, "{target}: {reading}");
    }
}

#[test]
fn a_server_has_as_many_certificates_as_asked_and_reloads_them() {
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let head = HEAD.replace("\"server-cpu\"", "\"start-time\", \"reload-time\"");
    let (reading, _) = desk.ask_with(&head, "lariat", "[server]\nsites = 20\n");
    assert_eq!(reading["event"], "measured", "{reading}");
    assert!(number(&reading["start_ns"]) > 0);
    assert!(number(&reading["reload"]["took_ns"]) > 0);
    let (before, most) = ("resident_bytes_before", "resident_bytes_max");
    assert!(number(&reading["reload"][most]) > number(&reading[before]) / 2);
}

#[test]
fn a_session_cache_is_filled_before_the_load() {
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let head = HEAD.replace("server-cpu", "session-memory");
    let scenario = "[server]\nversions = [\"1.2\"]\nsession-cache = 1000\n\
                    [load]\nconnections = 2\nno-request = true\nhandshake = \"session-id\"\n\
                    [[factor]]\nname = \"sessions\"\ntitle = \"sessions\"\n\
                    [[factor.value]]\nname = \"200\"\ntitle = \"200\"\nfill = 200\n";
    let (reading, _) = desk.ask_with(&head, "lariat", scenario);
    assert_eq!(reading["event"], "measured", "{reading}");
    assert_eq!(number(&reading["full_handshakes"]), 200 + handshakes(&reading, "full"));
}

#[test]
fn a_client_cannot_stand_in_the_place_of_a_server() {
    let desk = Desk::with_nginx(OWN_CERTIFICATE);
    let refused = |top: &str, target: &str| {
        let text = format!("targets = [{target:?}]\n{top}{HEAD}");
        fs::write(desk.path("one.toml"), text).unwrap();
        let mut command = lab::command();
        command.current_dir(desk.directory.path());
        command.args(["run", "./one.toml", "--dry-run"]);
        let finished = run(&mut command);
        assert_eq!(finished.code(), 2, "{finished:?}");
        finished.stderr
    };
    let text = refused("", "wrk");
    assert!(text.contains("`wrk` is a client") && text.contains("`against` names"), "{text}");
    let text = refused("client = \"hitch\"\n", "lariat");
    assert_has(&text, "`hitch` is a server");
    let text = refused("against = \"nothing\"\n", "wrk");
    assert_has(&text, "there is no target `nothing`");
}
