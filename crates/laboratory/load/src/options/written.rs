//! Defines a load as written: a key is a flag of `lariat-lab load` and a key of its plan files,
//! with the same name. A field states each key, and everything that knows keys, including the
//! reference, is made from the fields.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::slice;
use std::str::FromStr;
use std::time::Duration;

use measure::bounds::LoadBound;
use options::row::{boolean, count, duration, parsed_by, path, size, switch, text};
use options::{
    ForeignKeyName, Key, Kind, Nested, Node, Report, Section, Table, choice, section, table,
};
use wire::address::Endpoint;
use wire::starttls::Dialect;

use super::url::Url;
use super::value::{self, CapacityLimit, OrNone, Ramp, Times};
use crate::plan::{
    ClientSelection, ConnectionEnding, Group, Handshake, ProxyVersion, Signature, Spacing, Suite,
    Verify, Versions,
};

section! {
    table("");
    /// A load as it was written.
    pub struct WrittenLoad<'a> {
        target: WrittenTarget<'a>,
        clients: WrittenClients<'a>,
        request: WrittenRequest<'a>,
        tls: WrittenTls<'a>,
        arrival: WrittenArrival<'a>,
        search: WrittenSearch<'a>,
        run: WrittenRun<'a>,
    }
}

impl<'a> WrittenLoad<'a> {
    /// Reads all keys of a tree; reports the values that do not fit.
    pub(crate) fn of_root(root: &'a Node, report: &'a Report<'a>) -> Self {
        let top = Section::top(&TABLE, root, report);
        Self::of(top.at(const { &WrittenLoad::KEY }), top)
    }
}

const KEYS: &[Key] = WrittenLoad::KEY.children;

/// Every option, in the order of the reference.
pub static TABLE: Table = Table {
    keys: &options::key::flattened::<{ options::key::count(KEYS) }>(KEYS, ""),
    foreign: || FOREIGN,
    later: &[],
    help: "lariat-lab load --help",
};

/// Flags of curl, wrk, h2load, ab, vegeta and hey.
const FOREIGN: &[ForeignKeyName] = &[
    ForeignKeyName { value: "off", ..ForeignKeyName::new("k", "curl", "verify") },
    ForeignKeyName { value: "off", ..ForeignKeyName::new("insecure", "curl", "verify") },
    ForeignKeyName::new("cacert", "curl", "ca"),
    ForeignKeyName::new("cert", "curl", "client-certificate"),
    ForeignKeyName::new("E", "curl", "client-certificate"),
    ForeignKeyName::new("H", "curl and wrk", "header"),
    ForeignKeyName::new("X", "curl", "method"),
    ForeignKeyName::new("request", "curl", "method"),
    ForeignKeyName::new("data", "curl", "body"),
    ForeignKeyName::new("ciphers", "curl", "suites"),
    ForeignKeyName::new("curves", "curl", "groups"),
    ForeignKeyName::new("resolve", "curl", "connect"),
    ForeignKeyName::new("connect-to", "curl", "connect"),
    ForeignKeyName::new("c", "wrk, h2load and ab", "connections"),
    ForeignKeyName::new("t", "wrk and h2load", "threads"),
    ForeignKeyName::new("d", "wrk", "duration"),
    ForeignKeyName::new("D", "h2load", "duration"),
    ForeignKeyName::new("z", "hey", "duration"),
    ForeignKeyName::new("R", "wrk2", "rate"),
    ForeignKeyName::new("n", "h2load and ab", "count"),
    ForeignKeyName::new("requests", "h2load", "count"),
    ForeignKeyName::new("warm-up-time", "h2load", "warm-up"),
    ForeignKeyName::new("npn-list", "h2load", "alpn"),
    ForeignKeyName::new("alpn-list", "h2load", "alpn"),
    ForeignKeyName::new("workers", "vegeta", "clients"),
    ForeignKeyName::new("max-workers", "vegeta", "clients"),
    ForeignKeyName::new("root-certs", "vegeta", "ca"),
    ForeignKeyName::new("sni", "h2load", "server-name"),
    ForeignKeyName::new("servername", "openssl", "server-name"),
];

/// Reports whether a key is about TLS, so that it does not fit `http://`.
pub fn is_of_tls(key: &Key) -> bool {
    key.group == "TLS" || ["handshake", "requests-per-session"].contains(&key.path)
}

/// Minimum of a key that must not be zero.
const SHORTEST: Duration = Duration::from_nanos(1);

/// Maximum of a key, because longer times are typing errors: a week.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Maximum of clients, because clients and connections have tables in memory, and a host has a
/// limited number of ports for each address and server.
const CLIENTS_MAX: u64 = 1_000_000;

/// Keys that make open load.
const OPEN: &[&str] = &["rate", "ramp", "steps", "find-capacity"];
const ONE_WAY: &str = "load arrives in one way";

const ECDSA: &[Signature] = &[Signature::EcdsaP256, Signature::EcdsaP384, Signature::EcdsaP521];
const RSA: &[Signature] = &[
    Signature::RsaPss256,
    Signature::RsaPss384,
    Signature::RsaPss512,
    Signature::RsaPkcs256,
    Signature::RsaPkcs384,
    Signature::RsaPkcs512,
];

/// Words for all signature schemes of a kind of key, and the schemes by their names.
const SIGNATURES: [(&str, &[Signature]); Signature::NAMED.len() + 2] = {
    let mut words = [("rsa", RSA); Signature::NAMED.len() + 2];
    words[1] = ("ecdsa", ECDSA);
    let mut place = 0;
    while place < Signature::NAMED.len() {
        let (word, scheme) = &Signature::NAMED[place];
        words[place + 2] = (*word, slice::from_ref(scheme));
        place += 1;
    }
    words
};

section! {
    table("").group("Server").flags();
    /// The server that is loaded.
    pub struct WrittenTarget<'a> {
        /// The server, and what to ask it for: `https://` with TLS, `http://` without. On the
        /// command line it stands alone, without its flag.
        url: Url = parsed_by(Kind::Text("URL"), Url::from_str)
            .example(r#"url = "https://127.0.0.1:8443/1k""#),
        /// The addresses that connections go to, in turn by client: `HOST:PORT` or `unix:PATH`.
        /// `Host` and server name remain the URL's.
        connect: Vec<Endpoint> = parsed_by(Kind::Endpoint, value::endpoint).many()
            .absent("the URL's host and port")
            .example(r#"connect = ["10.0.0.3:443", "10.0.0.4:443"]"#),
        /// Each new connection of a client goes to the next address of --connect.
        move_sessions: bool = switch().example("move-sessions = true"),
        /// Our own addresses, taken in turn. Each has some 28,000 ports.
        source: Vec<IpAddr> = parsed_by(Kind::Text("ADDRESS"), value::source).many()
            .absent("the kernel chooses").example(r#"source = ["127.0.0.2", "127.0.0.3"]"#),
        /// Send a PROXY header of that version first.
        send_proxy: Option<ProxyVersion> = choice!(of ProxyVersion: ProxyVersion::NAMED)
            .absent("no header").example(r#"send-proxy = "v2""#),
    }
}

section! {
    table("").group("Clients").flags();
    /// The clients, and their sessions and connections.
    pub struct WrittenClients<'a> {
        /// The kind of handshake of all but a session's first: `session-id` or `ticket` (TLS 1.2),
        /// `psk` (TLS 1.3), whatever the server gave (`any`), or one kind per client (`mixed`).
        handshake: Option<Handshake> = choice![
            "full" => Some(Handshake::Full),
            "session-id" => Some(Handshake::SessionId),
            "ticket" => Some(Handshake::Ticket),
            "psk" => Some(Handshake::Psk),
            "any" => Some(Handshake::Any),
            "mixed" => None,
        ].default("full").example(r#"handshake = "session-id""#),
        /// Requests with one session, the first by a full handshake.
        requests_per_session: Option<Times> = parsed_by(Kind::Text("N|unlimited"), value::times)
            .absent("unlimited, where sessions are resumed").example("requests-per-session = 4"),
        /// Requests on one connection before the client closes it.
        requests_per_connection: Times = parsed_by(Kind::Text("N|unlimited"), value::times)
            .default("1").example("requests-per-connection = 100"),
        /// How many clients there are, or with --session-arrivals can be at once.
        clients: Option<u32> = count(1, CLIENTS_MAX)
            .absent("as many as --connections; 1000 in open load").example("clients = 10000"),
        /// The free client that is next: the one that has been free the longest, or one that has
        /// made a request before (`fewest`).
        client_selection: Option<ClientSelection> =
            choice!(of ClientSelection: ClientSelection::NAMED)
            .excludes(&["session-arrivals"], "every client is new there")
            .absent("round-robin; fewest in open load with one kind of handshake and no --clients")
            .example(r#"client-selection = "fewest""#),
        /// How long a client rests between two transactions.
        think_time: Duration = duration(Duration::ZERO, LONGEST).default("0s")
            .example(r#"think-time = "200ms""#),
        /// How connections end: with close_notify and FIN or, but for those that are to bring a
        /// session, with RST.
        close: ConnectionEnding = choice!(of ConnectionEnding: ConnectionEnding::NAMED)
            .default("notify").example(r#"close = "reset""#),
    }
}

section! {
    table("").group("Requests").flags();
    /// The request on a connection.
    pub struct WrittenRequest<'a> {
        /// The method of requests.
        method: Option<String> = parsed_by(Kind::Text("METHOD"), value::method)
            .absent("GET; POST with a body").example(r#"method = "HEAD""#),
        /// A further header, which the record will hold.
        header: Vec<(String, String)> = parsed_by(Kind::Text("'NAME: VALUE'"), value::header)
            .repeated().absent("").example(r#"header = ["Accept: text/html"]"#),
        /// The body of requests.
        body: Option<String> = text("TEXT").absent("").example(r#"body = "a=1""#),
        /// A file that holds the body of requests.
        body_file: Option<String> = path().absent("").excludes(&["body"], "a request has one body")
            .example(r#"body-file = "order.json""#),
        /// Ask for `/?size=N`, as `lariat-lab origin` and httpterm serve it, in place of a path.
        size: Option<usize> = size(0, 1 << 50).absent("what the URL's path gives")
            .example(r#"size = "64k""#),
        /// A file of several requests, of which chance takes one for each transaction by weight.
        /// See docs/guide/load.md.
        requests: Option<String> = path().absent("one request, that of the URL")
            .excludes(
                &["method", "body", "body-file", "size", "no-request"],
                "each request in the file has its own",
            )
            .example(r#"requests = "urls.txt""#),
        /// Ask for nothing: a transaction is a connection and its handshake.
        no_request: bool = switch()
            .excludes(
                &["method", "header", "body", "body-file", "size", "requests", "early-data"],
                "nothing is asked for",
            )
            .example("no-request = true"),
    }
}

section! {
    table("").group("TLS").flags();
    /// The TLS that is offered.
    pub struct WrittenTls<'a> {
        /// Ask for TLS in this protocol, and speak nothing further of it.
        starttls: Option<Dialect> = choice!(of Dialect: Dialect::ALL).requires(&["no-request"])
            .absent("TLS begins at once").example(r#"starttls = "smtp""#),
        /// The name that servers of smtp and lmtp are told.
        ehlo_name: Option<String> = text("NAME").requires(&["starttls"])
            .absent("this host's, fully qualified; else its address, as `[192.0.2.1]`")
            .example(r#"ehlo-name = "mx.example.org""#),
        /// Time for a server to greet, in addition to --timeout.
        greeting_timeout: Duration = duration(SHORTEST, LONGEST).default("30s")
            .example(r#"greeting-timeout = "5m""#),
        /// The versions that are offered.
        tls: Option<Versions> = choice!(of Versions: Versions::NAMED)
            .absent("both, or what --handshake, --suites and --groups leave")
            .example(r#"tls = "1.3""#),
        /// Cipher suites by their standard names, the preferred one first.
        suites: Vec<Suite> = choice!(of Suite: Suite::NAMED).many()
            .absent("all of the versions offered")
            .example(r#"suites = ["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"]"#),
        /// Key exchange groups; the first has the key share. `X25519MLKEM768` is of TLS 1.3 alone.
        groups: Vec<Group> = choice!(of Group: Group::NAMED).many()
            .absent("x25519,secp256r1,secp384r1,X25519MLKEM768")
            .example(r#"groups = ["X25519MLKEM768", "x25519"]"#),
        /// Signature schemes, the preferred one first; `rsa` and `ecdsa` are all of their kind.
        signatures: Vec<&'static [Signature]> = choice!(of &[Signature]: &SIGNATURES).many()
            .absent("all").example(r#"signatures = ["ecdsa"]"#),
        /// Application protocols that are offered. Requests are always HTTP/1.1.
        alpn: Vec<Vec<u8>> = parsed_by(Kind::Text("PROTOCOL"), value::protocol).many()
            .absent("none").example(r#"alpn = ["http/1.1"]"#),
        /// The name in SNI, which the certificate is checked for too.
        server_name: Option<OrNone<String>> = parsed_by(Kind::Text("NAME|none"), value::server_name)
            .absent("the URL's host, unless it is an IP address")
            .example(r#"server-name = "www.example.org""#),
        /// A PEM file with the client's certificate chain and key.
        client_certificate: Option<String> = path().absent("")
            .example(r#"client-certificate = "client.pem""#),
        /// The key of --client-certificate as PEM, not encrypted.
        client_key: Option<String> = path().requires(&["client-certificate"])
            .absent("it is in the certificate's file").example(r#"client-key = "client.key""#),
        /// How the server's certificate is judged: not at all; that the server has its key
        /// (`signature`); names, times and --ca as well (`full`).
        verify: Option<Verify> = choice!(of Verify: Verify::NAMED).absent("off; full with --ca")
            .example(r#"verify = "signature""#),
        /// PEM certificates of the server's authorities.
        ca: Option<String> = path().absent("").example(r#"ca = "ca.pem""#),
        /// Whether TLS 1.2 tickets (RFC 5077) are asked for and used.
        tickets: bool = boolean().default("on").example("tickets = false"),
        /// Whether TLS 1.2 session IDs are kept and offered.
        session_ids: bool = boolean().default("on").example("session-ids = false"),
        /// Send the first request of a connection that resumes by PSK as early data (0-RTT).
        early_data: bool = switch().example("early-data = true"),
        /// Let servers compress their certificates (RFC 8879).
        certificate_compression: bool = switch().example("certificate-compression = true"),
        /// Encrypt the hello (ECH, RFC 9849) by an ECHConfigList in Base64, or in a file; or send
        /// `GREASE`.
        ech: Option<String> = path().absent("").example(r#"ech = "GREASE""#),
    }
}

section! {
    table("").group("How load arrives").flags();
    /// How load arrives, and for how long.
    pub struct WrittenArrival<'a> {
        /// Closed load: this number of transactions is in progress at any moment.
        connections: Option<u32> = count(1, CLIENTS_MAX)
            .excludes(OPEN, "this is closed load, and that is open load")
            .absent("50, but at least one per thread").example("connections = 200"),
        /// Open load: this number of transactions per second, whatever the server does.
        rate: Option<f64> = parsed_by(Kind::Text("R"), value::some_rate).absent("")
            .excludes(&["ramp", "steps"], ONE_WAY).example("rate = 500"),
        /// Open load whose rate goes evenly from one value to another. A longer --duration goes on
        /// with the last.
        ramp: Option<Ramp> = parsed_by(Kind::Text("FROM:TO:TIME"), value::ramp).absent("")
            .excludes(&["find-capacity"], ONE_WAY).replaces(&["duration"])
            .example(r#"ramp = "100:2000:60s""#),
        /// Open load at one rate after the other, each for --step-duration.
        steps: Vec<f64> = parsed_by(Kind::Text("R"), value::some_rate).many().absent("")
            .excludes(&["ramp", "find-capacity"], ONE_WAY).example("steps = [500, 1000, 2000]"),
        /// How long each of --steps lasts, and each rate that --find-capacity tries.
        step_duration: Option<Duration> = duration(SHORTEST, LONGEST)
            .requires(&["steps", "find-capacity"]).absent("5s").example(r#"step-duration = "20s""#),
        /// How the planned instants of open load lie: evenly, or at random.
        spacing: Option<Spacing> = choice!(of Spacing: Spacing::NAMED).requires(OPEN)
            .absent("constant").example(r#"spacing = "poisson""#),
        /// In open load, each planned instant brings a new client without a session, which makes
        /// --requests-per-session requests (--requests-per-connection, where none is resumed),
        /// --think-time apart; if one fails, it gives up. Rates stay those of requests.
        session_arrivals: bool = switch().requires(OPEN)
            .example("session-arrivals = true"),
        /// For how long transactions are begun, after the warm-up.
        duration: Option<Duration> = duration(SHORTEST, LONGEST)
            .excludes(&["steps", "find-capacity"], "--step-duration says how long each rate lasts",)
            .absent("10s; that of the ramp or the steps; with --count, an hour")
            .example(r#"duration = "60s""#),
        /// The most transactions to make, after the warm-up.
        count: Option<u64> = count(1, u64::MAX)
            .excludes(&["find-capacity"], "a search tries each rate for a time")
            .absent("as many as the duration allows").example("count = 100000"),
        /// Load before the figures begin, in open load at the first rate.
        warm_up: Duration = duration(Duration::ZERO, LONGEST).default("0s")
            .example(r#"warm-up = "3s""#),
        /// How long a transaction may take.
        timeout: Duration = duration(SHORTEST, LONGEST).default("5s").example(r#"timeout = "1s""#),
    }
}

section! {
    table("").group("Search for capacity").flags();
    /// The search for the greatest rate that keeps a limit.
    pub struct WrittenSearch<'a> {
        /// Search the greatest rate that keeps --limit: double the rate until it breaks, then halve
        /// the interval; --rate is the first [default: 100].
        find_capacity: bool = switch().example("find-capacity = true"),
        /// Bounds of the mean response time, of one percentile (`p50`, `p99`, `p99.9`) and of the
        /// error rate (below 0.1 % unless it is named).
        limit: Option<CapacityLimit> = parsed_by(Kind::Text("BOUNDS"), value::parse)
            .requires(&["find-capacity"]).absent("mean<100ms,error-rate<0.1%")
            .example(r#"limit = "p99<50ms,error-rate<0.01%""#),
        /// The search ends when what kept the limit and what broke it are so close.
        precision: Option<f64> = parsed_by(Kind::Text("PERCENT"), value::percentage)
            .requires(&["find-capacity"]).absent("5%").example(r#"precision = "2%""#),
    }
}

section! {
    table("").group("Run").flags();
    /// The run itself.
    pub struct WrittenRun<'a> {
        /// When the load begins (RFC 3339, UTC), a day from now at the latest, so that several
        /// hosts begin together.
        start_at: Option<u64> = parsed_by(Kind::Text("TIME"), value::moment).absent("at once")
            .example(r#"start-at = "2026-12-01T09:30:00Z""#),
        /// Threads that make the load.
        threads: Option<u16> = count(1, 1024)
            .absent("as many as there are CPUs for us; half of that if the target is this host")
            .example("threads = 2"),
        /// The CPUs that threads are pinned to, in turn.
        cpus: Option<OrNone<Vec<u16>>> = parsed_by(Kind::Text("LIST|none"), value::cpus)
            .absent("the last of those for us").example(r#"cpus = "0,2-3""#),
        /// Seed of random numbers; equal seeds give equal numbers.
        seed: u64 = count(0, u64::MAX).default("1").example("seed = 7"),
        /// The file for the record. `-` is the standard output, in place of the summary; `none`
        /// writes nothing.
        record: Option<OrNone<PathBuf>> = parsed_by(Kind::Path, value::record)
            .absent("lariat-load-DATE-TIME.json in the working directory")
            .example(r#"record = "out.json""#),
        /// Bounds that the whole load must keep: `mean`, `p50`, `p99`, `p99.9`, `error-rate`,
        /// `resumed` (handshakes) and `rate` (transactions per second) with `<` or `>`; else the
        /// exit code is 7.
        expect: Option<Vec<LoadBound>> = parsed_by(Kind::Text("BOUNDS"), value::bounds)
            .excludes(&["find-capacity"], "--limit is what a search keeps")
            .absent("nothing")
            .example(r#"expect = "p99<50ms,error-rate<0.1%,resumed>90%""#),
        /// A file for the response times of each second: an interval log (V2) of HdrHistogram, in
        /// microseconds.
        hdr: Option<String> = path().absent("").example(r#"hdr = "out.hlog""#),
        /// Serve the figures so far to Prometheus, at `/metrics` of this address. Port 0 takes a
        /// free one, which is said.
        metrics: Option<SocketAddr> = parsed_by(Kind::Text("ADDRESS"), value::listener)
            .absent("").example(r#"metrics = "127.0.0.1:9464""#),
        /// A line per second on a terminal too.
        lines: bool = switch().excludes(&["quiet"], "nothing is said").example("lines = true"),
        /// Say nothing while it runs.
        quiet: bool = switch().example("quiet = true"),
    }
}

const PREFACE: &str = "\
<!-- Made by `cargo xtask generate` from the table of options. Do not edit. -->

# lariat-lab load

```
lariat-lab load URL [FLAGS]
lariat-lab load --plan FILE.toml [URL] [FLAGS]
```

A plan file has a key for each flag, with the same name. Flags replace what the
file says; one that says how load arrives (`--connections`, `--rate`, `--ramp`, `--steps`,
`--find-capacity`) replaces every other way in the file. Unknown keys and flags are errors, and so
is a plan that contradicts itself.

```toml
url = \"https://127.0.0.1:8443/1k\"
handshake = \"session-id\"
tls = \"1.2\"
requests-per-session = 4
rate = 500
duration = \"10s\"
record = \"out.json\"
```

Times are written `250us`, `80ms`, `1.5s`, `10m`, `1h` or `1d`; sizes `512`, `64k`, `1m` or `1g`,
which are powers of 1024; rates are transactions a second. Lists are written with commas, in a file
as arrays. The flag of a boolean with a default takes `on` or `off`, any other may stand alone.
Relative paths in a file begin at its directory, those in flags at the working directory.

The summary goes to the standard output, all talk to the standard error. How it ends:
[exit codes](lab-exit-codes.md). Plans to begin with: [examples/load](../../examples/load).
";

pub fn reference() -> String {
    PREFACE.to_owned() + &TABLE.page_by_group()
}
