//! Flags and a plan file have the same words, and both refuse contradictions.

use std::collections::BTreeMap;

use suite::load::Loaded;
use suite::nginx::Nginx;
use suite::prelude::*;

const CLOSED: &str = "--handshake session-id --requests-per-session 6 \
    --requests-per-connection 2 --connections 3 --clients 4 --think-time 250us --close reset \
    --send-proxy v2 --source 127.0.0.2,127.0.0.3 --method PUT --header X-One:1 --header X-Two:2 \
    --body a=1 --tls 1.2 --suites TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 \
    --groups secp256r1,x25519 --signatures ecdsa --alpn http/1.1 --server-name localhost \
    --tickets off --session-ids on --count 24 --duration 20m --timeout 30s --seed 7";

const OPEN: &str = "--steps 20,40 --step-duration 300ms --spacing poisson --session-arrivals \
    --warm-up 100ms --clients 50 --tls 1.3 --no-request --verify signature --quiet --timeout 30s";

const SEARCH: &str = "--find-capacity --limit p99<10s,error-rate<90% --precision 90% --rate 1 \
    --clients 1 --size 1k --step-duration 1s --timeout 30s";

/// Settings that may have several values.
const LISTS: [&str; 7] = ["alpn", "groups", "header", "signatures", "source", "steps", "suites"];

/// Returns the settings of these flags, as a record has them: several values are joined by commas,
/// and a switch is `true`.
fn settings(flags: &str) -> BTreeMap<&str, String> {
    let mut settings = BTreeMap::new();
    for flag in flags.split("--").skip(1) {
        let flag = flag.trim();
        let (name, value) = flag.split_once(' ').unwrap_or((flag, "true"));
        let all: &mut String = settings.entry(name).or_default();
        *all += if all.is_empty() { "" } else { "," };
        *all += value;
    }
    settings
}

/// Returns the same settings as lines of a plan file.
fn lines(flags: &str) -> Vec<String> {
    let quoted = |value: &str| match value.parse::<f64>() {
        Err(_) if value != "true" => format!("'{value}'"),
        _ => value.to_owned(),
    };
    let line = |(name, value): (&str, String)| {
        let value = if LISTS.contains(&name) {
            format!("[{}]", value.split(',').map(quoted).collect::<Vec<_>>().join(", "))
        } else {
            quoted(&value)
        };
        format!("{name} = {value}")
    };
    settings(flags).into_iter().map(line).collect()
}

/// Loads by a plan file with these lines, and these flags beside it.
fn by_file(address: SocketAddr, lines: &[String], flags: &str) -> Loaded {
    let directory = Directory::new();
    let target = format!("connect = '{address}'\nthreads = 1\ncpus = 'none'\n");
    let url = format!("url = 'https://localhost:{}/'\n", address.port());
    let text = format!("{url}{target}{}\n", lines.join("\n"));
    let plan = directory.write("plan.toml", text);
    Load::bare().arg("--plan").arg(plan).args(flags).run()
}

fn nginx(site: &Site, listen: &str) -> Nginx {
    let directives = "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:sessions:1m;";
    Nginx::terminate_at(free_address(), &site.path("site.pem"), listen, directives)
}

#[test]
fn flags_and_a_file_say_the_same() {
    let site = Site::new();
    let open = nginx(&site, "");
    let closed = nginx(&site, "proxy_protocol");
    // A search that nobody answers is soon over.
    let nowhere = free_address();
    for (flags, address) in [(CLOSED, closed.address), (OPEN, open.address), (SEARCH, nowhere)] {
        let first = Load::alone(address).args(flags).run().record();
        let second = by_file(address, &lines(flags), "").record();
        assert_eq!(first.at("/plan"), second.at("/plan"));
        let second = second.flags();
        // Each setting is reported.
        for (name, value) in settings(flags) {
            let told = second.iter().filter(|(setting, _)| setting == name);
            let told: Vec<_> = told.map(|(_, value)| value.replace(", ", ",")).collect();
            assert_eq!(told.join(","), value, "{name}");
        }
    }
}

#[test]
fn a_flag_replaces_what_the_file_says() {
    let site = Site::new();
    let nginx = nginx(&site, "proxy_protocol");
    let flags = "--handshake ticket --tickets on --session-ids off --count 12 --method PATCH \
                 --suites TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 --source 127.0.0.9";
    let record = by_file(nginx.address, &lines(CLOSED), flags).record();
    for (name, value) in [
        ("handshake", "ticket"),
        ("count", "12"),
        ("method", "PATCH"),
        ("source", "127.0.0.9"),
        ("requests-per-session", "6"),
    ] {
        assert_eq!(record.flag(name), value);
    }
    let suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    assert_eq!(record.negotiated("suite"), suite);
    let log = nginx.end();
    assert_eq!(log.len(), 12);
    for line in log {
        assert_eq!(line.field("proxy_protocol_addr"), "127.0.0.9");
        assert_eq!(line.field("request_method"), "PATCH");
    }
}

/// Flags that cannot stand together, and both sides of the contradiction.
const CONTRADICTIONS: &[(&str, [&str; 2])] = &[
    ("--handshake psk --tls 1.2", ["--handshake", "--tls"]),
    ("--handshake ticket --tls 1.3", ["--handshake", "--tls"]),
    ("--handshake session-id --tls 1.3", ["--handshake", "--tls"]),
    ("--handshake ticket --tickets off", ["--tickets", "--handshake ticket"]),
    ("--handshake session-id --session-ids off", ["--session-ids", "--handshake session-id"]),
    ("--tls 1.2 --suites TLS_AES_128_GCM_SHA256", ["--suites", "--tls 1.3"]),
    ("--tls 1.3 --suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", ["--suites", "--tls 1.2"]),
    (
        "--suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 --signatures ecdsa",
        ["--suites", "--signatures"],
    ),
    ("--tls 1.3 --signatures rsa_pkcs1_sha256", ["--signatures", "--tls 1.2"]),
    ("--tls 1.2 --groups X25519MLKEM768", ["--groups", "--tls 1.3"]),
    ("--rate 5 --ramp 1:2:3s", ["--rate", "--ramp"]),
    ("--rate 5 --steps 1,2", ["--rate", "--steps"]),
    ("--rate 5 --connections 5", ["--connections", "--rate"]),
    ("--find-capacity --ramp 1:2:3s", ["--ramp", "--find-capacity"]),
    ("--limit p99<3ms", ["--limit", "--find-capacity"]),
    ("--spacing poisson", ["--spacing", "--rate"]),
    ("--session-arrivals", ["--session-arrivals", "--rate"]),
    ("--rate 5 --session-arrivals --handshake psk", ["--requests-per-session", "never leave"]),
    (
        "--rate 5 --session-arrivals --client-selection fewest",
        ["--client-selection", "--session-arrivals"],
    ),
    ("--ramp 1:2:3s --duration 2s", ["--duration", "ramp"]),
    ("--clients 2 --connections 5", ["--clients", "--connections"]),
    ("--threads 4 --connections 2", ["--connections", "--threads"]),
    ("--requests-per-session 4", ["--requests-per-session", "--handshake"]),
    (
        "--handshake psk --requests-per-session 4 --requests-per-connection 4",
        ["--requests-per-connection", "--requests-per-session"],
    ),
    ("--early-data --handshake ticket", ["--early-data", "--handshake psk"]),
    ("--no-request --body x", ["--body", "--no-request"]),
    ("--verify full", ["--verify", "--ca"]),
    ("--ca /nowhere/ca.pem", ["--ca", "cannot read /nowhere/ca.pem"]),
    ("--client-key /etc/hostname", ["--client-key", "--client-certificate"]),
    ("--source ::1", ["--source", "IPv6"]),
];

/// Runs a load that must not begin.
fn refused(flags: &str, server: &Server) -> Finished {
    let url = format!("https://{}/", server.address());
    let finished = Load::bare().arg(url).args(flags).run().finished;
    assert_eq!(finished.code(), 2, "{flags}: {finished:?}");
    assert_eq!(finished.stdout, "", "{flags}");
    finished.assert_stderr("\nhint: ");
    finished
}

#[test]
fn contradictions_are_refused_with_both_sides_before_the_first_packet() {
    let server = Server::start(Behaviour::Swallow);
    for (flags, sides) in CONTRADICTIONS {
        let told = refused(flags, &server).stderr;
        for side in sides {
            assert!(told.contains(side), "{flags}: no {side} in {told}");
        }
    }
    assert_eq!(server.connections(), []);
}

#[test]
fn slips_are_told_with_the_nearest_name() {
    let server = Server::start(Behaviour::Swallow);
    for (flags, near) in [
        ("--handshak full", "--handshake"),
        ("--requests-per-conection 2", "--requests-per-connection"),
        ("--handshake tiket", "ticket"),
        ("--suites TLS_AES_128_GCM_SHA265", "TLS_AES_128_GCM_SHA256"),
        ("--groups x25518", "x25519"),
        ("--duration 10", "unit"),
        ("--rate 0", "500"),
    ] {
        let told = refused(flags, &server).stderr;
        assert!(told.contains(near), "{flags}: no {near} in {told}");
    }
    assert_eq!(server.connections(), []);
    let directory = Directory::new();
    for (line, near, place) in [
        ("handshak = 'full'", "did you mean `handshake`?", "2:1"),
        ("steps = [500, 'x']", "rate", "2:15"),
        ("rate = [1]", "one value", "2:8"),
    ] {
        let plan = directory.write("plan.toml", format!("url = 'https://h/'\n{line}\n"));
        let told = Load::bare().arg("--plan").arg(&plan).run().finished;
        assert_eq!(told.code(), 2, "{told:?}");
        let place = format!("{}:{place}", plan.display());
        told.assert_stderr(&place);
        told.assert_stderr(near);
    }
}

#[test]
fn the_examples_run() {
    let site = Site::new();
    let nginx = nginx(&site, "");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/load");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let record = Load::bare()
            .arg("--plan")
            .arg(&path)
            // The plans last for minutes; this replaces only how load arrives.
            .args("--connections 2 --clients 2 --count 8 --warm-up 0s --threads 1 --cpus none")
            .args(&format!("--timeout 30s --connect {}", nginx.address))
            .record();
        assert_eq!(record.totals(), [8, 8, 0], "{path:?}");
        count += 1;
    }
    assert!(count >= 3, "{count}");
}
