//! The table of the options of a load: a key is a flag of `lariat-lab load` and a key of its plan
//! files, with the same name.

use std::time::Duration;

use measure::choice::{
    ClientSelection, ConnectionEnding, Group, ProxyVersion, Signature, Spacing, Suite, Verify,
    Versions,
};
use options::{Foreign, Key, Kind, Table, key};
use wire::starttls::Dialect;

/// Every option, in the order of the reference.
pub static TABLE: Table =
    Table { keys: KEYS, foreign: FOREIGN, later: &[], help: "lariat-lab load --help" };

/// Flags of curl, wrk, h2load, ab, vegeta and hey.
const FOREIGN: &[Foreign] = &[
    Foreign { value: "off", ..foreign("k", "curl", "verify") },
    Foreign { value: "off", ..foreign("insecure", "curl", "verify") },
    foreign("cacert", "curl", "ca"),
    foreign("cert", "curl", "client-certificate"),
    foreign("E", "curl", "client-certificate"),
    foreign("H", "curl and wrk", "header"),
    foreign("X", "curl", "method"),
    foreign("request", "curl", "method"),
    foreign("data", "curl", "body"),
    foreign("ciphers", "curl", "suites"),
    foreign("curves", "curl", "groups"),
    foreign("resolve", "curl", "connect"),
    foreign("connect-to", "curl", "connect"),
    foreign("c", "wrk, h2load and ab", "connections"),
    foreign("t", "wrk and h2load", "threads"),
    foreign("d", "wrk", "duration"),
    foreign("D", "h2load", "duration"),
    foreign("z", "hey", "duration"),
    foreign("R", "wrk2", "rate"),
    foreign("n", "h2load and ab", "count"),
    foreign("requests", "h2load", "count"),
    foreign("warm-up-time", "h2load", "warm-up"),
    foreign("npn-list", "h2load", "alpn"),
    foreign("alpn-list", "h2load", "alpn"),
    foreign("workers", "vegeta", "clients"),
    foreign("max-workers", "vegeta", "clients"),
    foreign("root-certs", "vegeta", "ca"),
    foreign("sni", "h2load", "server-name"),
    foreign("servername", "openssl", "server-name"),
];

const fn foreign(name: &'static str, of: &'static str, now: &'static str) -> Foreign {
    Foreign { name, of, now, value: "" }
}

/// Whether a key says something about TLS, so that `http://` has no place for it.
#[must_use]
pub fn is_of_tls(key: &Key) -> bool {
    key.group == TLS || ["handshake", "requests-per-session"].contains(&key.path)
}

const TARGET: &str = "Server";
const CLIENT: &str = "Clients";
const REQUEST: &str = "Requests";
const TLS: &str = "TLS";
const ARRIVAL: &str = "How load arrives";
const CAPACITY: &str = "Search for capacity";
const RUN: &str = "Run";

/// Longer ones are slips: a week.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
const TIME: Kind = Kind::Duration(Duration::ZERO, LONGEST);
const SOME_TIME: Kind = Kind::Duration(Duration::from_nanos(1), LONGEST);

/// Clients and connections have their tables in memory, and a host has as many ports as this for
/// one address and server.
const CLIENTS: Kind = Kind::Count(1, 1_000_000);

/// Any of these makes open load.
const OPEN: &[&str] = &["rate", "ramp", "steps", "find-capacity"];
const ONE_WAY: &str = "load arrives in one way";

/// The kinds of handshake, and all of them in turn.
const KINDS: &[&str] = &["full", "session-id", "ticket", "psk", "any", "mixed"];

/// The schemes, and words for all of a kind.
const SIGNATURES: &[&str] = &{
    let mut words = ["rsa"; Signature::NAMES.len() + 2];
    words[1] = "ecdsa";
    let mut place = 0;
    while place < Signature::NAMES.len() {
        words[place + 2] = Signature::NAMES[place];
        place += 1;
    }
    words
};

/// The protocols with a request for TLS.
const STARTTLS: &[&str] = &{
    let mut names = [""; Dialect::ALL.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = Dialect::ALL[place].0;
        place += 1;
    }
    names
};

const fn row(group: &'static str, name: &'static str, kind: Kind) -> Key {
    key(name, kind).flag(name).group(group).absent("")
}

const KEYS: &[Key] = &[
    key("url", Kind::Text("URL"))
        .flag("url")
        .group(TARGET)
        .help(
            "The server, and what to ask it for. `https://` speaks TLS and `http://` does not; the port \
             is 443 or 80 unless it is written; IPv6 addresses stand in brackets. On the \
             command line it stands alone, without its flag.",
        )
        .example(r#"url = "https://127.0.0.1:8443/1k""#),
    row(TARGET, "connect", Kind::Endpoint)
        .many()
        .absent("the URL's host and port")
        .help(
            "Where connections go, if not to the URL's host: `HOST:PORT` or `unix:PATH`. The \
             `Host` header and the server name remain those of the URL. Of several addresses, \
             each client has one, in turn.",
        )
        .example(r#"connect = ["10.0.0.3:443", "10.0.0.4:443"]"#),
    row(TARGET, "move-sessions", Kind::Switch)
        .help(
            "Each new connection of a client goes to the next address of --connect, so that a \
             session is offered to another server than the one that gave it.",
        )
        .example("move-sessions = true"),
    row(TARGET, "source", Kind::Text("ADDRESS"))
        .many()
        .absent("the kernel chooses")
        .help(
            "Our own addresses, taken in turn. Each has some 28,000 ports of its own, so more \
             of them allow more connections a minute.",
        )
        .example(r#"source = ["127.0.0.2", "127.0.0.3"]"#),
    row(TARGET, "send-proxy", Kind::Choice(ProxyVersion::NAMES))
        .absent("no header")
        .help("Send a PROXY header of that version before anything else.")
        .example(r#"send-proxy = "v2""#),
    row(CLIENT, "handshake", Kind::Choice(KINDS))
        .default("full")
        .help(
            "The kind of handshake. With `session-id` and `ticket` (TLS 1.2) and `psk` (TLS 1.3) \
             the first handshake of a session is full and all others must resume it. `any` \
             resumes whatever the server gave. `mixed` gives each client another kind in turn.",
        )
        .example(r#"handshake = "session-id""#),
    row(CLIENT, "requests-per-session", Kind::Text("N|unlimited"))
        .absent("unlimited, where sessions are resumed")
        .help(
            "Requests with one session: its handshake is full, the others resume it, then the \
             client begins anew. With 4, three of four handshakes are resumed.",
        )
        .example("requests-per-session = 4"),
    row(CLIENT, "requests-per-connection", Kind::Text("N|unlimited"))
        .default("1")
        .help(
            "Requests on one connection before the client closes it: more than 1 keeps \
             connections alive, `unlimited` for as long as the server does.",
        )
        .example("requests-per-connection = 100"),
    row(CLIENT, "clients", CLIENTS)
        .absent("as many as --connections; 1000 in open load")
        .help(
            "How many clients there are, or, with --session-arrivals, how many there can be at \
             once. Each has its own sessions and does one thing at a time; in open load a \
             transaction that finds no client free has failed.",
        )
        .example("clients = 10000"),
    row(
        CLIENT,
        "client-selection",
        Kind::Choice(ClientSelection::NAMES),
    )
    .excludes(&["session-arrivals"], "every client is new there")
    .absent("round-robin; fewest in open load with one kind of handshake and no --clients")
    .help(
        "Which of the free clients is next: the one that has been free the longest, so that all \
         take part, or one that has made a request before, so that as few take part as the load \
         needs.",
    )
    .example(r#"client-selection = "fewest""#),
    row(CLIENT, "think-time", TIME)
        .default("0s")
        .help("How long a client rests between two transactions.")
        .example(r#"think-time = "200ms""#),
    row(CLIENT, "close", Kind::Choice(ConnectionEnding::NAMES))
        .default("notify")
        .help(
            "How connections end: with close_notify and FIN, or with RST at once, which leaves \
             no port in TIME_WAIT. One that is to bring a session still ends properly.",
        )
        .example(r#"close = "reset""#),
    row(REQUEST, "method", Kind::Text("METHOD"))
        .absent("GET; POST with a body")
        .help("The method of requests.")
        .example(r#"method = "HEAD""#),
    row(REQUEST, "header", Kind::Text("'NAME: VALUE'"))
        .repeated()
        .help("A further header of requests. The record of the run will hold it.")
        .example(r#"header = ["Accept: text/html"]"#),
    row(REQUEST, "body", Kind::Text("TEXT"))
        .help("The body of requests.")
        .example(r#"body = "a=1""#),
    row(REQUEST, "body-file", Kind::Path)
        .excludes(&["body"], "a request has one body")
        .help("A file that holds the body of requests.")
        .example(r#"body-file = "order.json""#),
    row(REQUEST, "size", Kind::Size(0, 1 << 50))
        .absent("what the URL's path gives")
        .help(
            "Ask for an object of that size: `/?size=N`, as `lariat-lab origin` and httpterm \
             serve it. It stands instead of a path in the URL.",
        )
        .example(r#"size = "64k""#),
    row(REQUEST, "no-request", Kind::Switch)
        .excludes(
            &[
                "method",
                "header",
                "body",
                "body-file",
                "size",
                "early-data",
            ],
            "nothing is asked for",
        )
        .help("Ask for nothing: a transaction is a connection and its handshake.")
        .example("no-request = true"),
    row(TLS, "starttls", Kind::Choice(STARTTLS))
        .requires(&["no-request"])
        .absent("TLS begins at once")
        .help(
            "Ask for TLS in this protocol, which begins in plaintext. Nothing further of the \
             protocol is spoken: a transaction is a connection, the request for TLS and the \
             handshake.",
        )
        .example(r#"starttls = "smtp""#),
    row(TLS, "ehlo-name", Kind::Text("NAME"))
        .requires(&["starttls"])
        .absent("this host's, fully qualified; else its address, as `[192.0.2.1]`")
        .help("The name that servers of smtp and lmtp are told.")
        .example(r#"ehlo-name = "mx.example.org""#),
    row(TLS, "greeting-timeout", SOME_TIME)
        .default("30s")
        .help(
            "Time that a server of mail, news or files has to greet, in addition to --timeout: \
             many wait for some seconds.",
        )
        .example(r#"greeting-timeout = "5m""#),
    row(TLS, "tls", Kind::Choice(Versions::NAMES))
        .absent("both, or what --handshake, --suites and --groups leave")
        .help("The versions that are offered.")
        .example(r#"tls = "1.3""#),
    row(TLS, "suites", Kind::Choice(Suite::NAMES))
        .many()
        .absent("all of the versions offered")
        .help("Cipher suites by their standard names, the preferred one first.")
        .example(r#"suites = ["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"]"#),
    row(TLS, "groups", Kind::Choice(Group::NAMES))
        .many()
        .absent("x25519,secp256r1,secp384r1,X25519MLKEM768")
        .help(
            "Key exchange groups; the first has the key share. `X25519MLKEM768`, the \
             post-quantum hybrid, is of TLS 1.3 alone; named first, it is what is used.",
        )
        .example(r#"groups = ["X25519MLKEM768", "x25519"]"#),
    row(TLS, "signatures", Kind::Choice(SIGNATURES))
        .many()
        .absent("all")
        .help(
            "Signature schemes by their standard names, the preferred one first; `rsa` and \
             `ecdsa` are all of their kind, so that a client without the other can be played.",
        )
        .example(r#"signatures = ["ecdsa"]"#),
    row(TLS, "alpn", Kind::Text("PROTOCOL"))
        .many()
        .absent("none")
        .help("Application protocols that are offered. Requests are always HTTP/1.1.")
        .example(r#"alpn = ["http/1.1"]"#),
    row(TLS, "server-name", Kind::Text("NAME|none"))
        .absent("the URL's host, unless it is an IP address")
        .help("The name in SNI, which the certificate is checked for too.")
        .example(r#"server-name = "www.example.org""#),
    row(TLS, "client-certificate", Kind::Path)
        .help(
            "The certificate that is shown if the server asks: its chain and key in one PEM \
             file.",
        )
        .example(r#"client-certificate = "client.pem""#),
    row(TLS, "client-key", Kind::Path)
        .requires(&["client-certificate"])
        .absent("it is in the certificate's file")
        .help("The key of --client-certificate as PEM, not encrypted.")
        .example(r#"client-key = "client.key""#),
    row(TLS, "verify", Kind::Choice(Verify::NAMES))
        .absent("off; full with --ca")
        .help(
            "How the server's certificate is judged: `off` is the cheapest for us; `signature` \
             checks that the server has the key; `full` checks names, times and --ca as well.",
        )
        .example(r#"verify = "signature""#),
    row(TLS, "ca", Kind::Path)
        .help("Certificates as PEM that the server's must be issued by. It means --verify full.")
        .example(r#"ca = "ca.pem""#),
    row(TLS, "tickets", Kind::Boolean)
        .default("on")
        .help("Whether TLS 1.2 tickets (RFC 5077) are asked for and used.")
        .example("tickets = false"),
    row(TLS, "session-ids", Kind::Boolean)
        .default("on")
        .help("Whether TLS 1.2 session ids are kept and offered.")
        .example("session-ids = false"),
    row(TLS, "early-data", Kind::Switch)
        .help("Send the first request of a connection that resumes by PSK as early data (0-RTT).")
        .example("early-data = true"),
    row(ARRIVAL, "connections", CLIENTS)
        .excludes(OPEN, "this is closed load, and that is open load")
        .absent("50, but at least one per thread")
        .help(
            "Closed load: this number of transactions is in progress at any moment; when one \
             ends, the next begins. A slow server slows it down.",
        )
        .example("connections = 200"),
    row(ARRIVAL, "rate", Kind::Text("R"))
        .excludes(&["ramp", "steps"], ONE_WAY)
        .help(
            "Open load: this number of transactions per second, whatever the server does. \
             Latency counts from the planned instant; what could not begin has failed.",
        )
        .example("rate = 500"),
    row(ARRIVAL, "ramp", Kind::Text("FROM:TO:TIME"))
        .excludes(&["find-capacity"], ONE_WAY)
        .replaces(&["duration"])
        .help(
            "Open load whose rate goes evenly from one value to another. A longer --duration \
             goes on with the last.",
        )
        .example(r#"ramp = "100:2000:60s""#),
    row(ARRIVAL, "steps", Kind::Text("R"))
        .many()
        .excludes(&["ramp", "find-capacity"], ONE_WAY)
        .help("Open load at one rate after the other, each for --step-duration.")
        .example("steps = [500, 1000, 2000]"),
    row(ARRIVAL, "step-duration", SOME_TIME)
        .requires(&["steps", "find-capacity"])
        .absent("5s")
        .help("How long each of --steps lasts, and each rate that --find-capacity tries.")
        .example(r#"step-duration = "20s""#),
    row(ARRIVAL, "spacing", Kind::Choice(Spacing::NAMES))
        .requires(OPEN)
        .absent("constant")
        .help(
            "How the planned instants of open load lie: evenly, or by chance as independent \
             users come.",
        )
        .example(r#"spacing = "poisson""#),
    row(ARRIVAL, "session-arrivals", Kind::Switch)
        .requires(OPEN)
        .help(
            "In open load, each planned instant brings a new client without a session. It makes \
             --requests-per-session requests (--requests-per-connection, where no session is \
             resumed), each when the one before it has succeeded and --think-time has passed. A \
             client whose request fails gives up. Rates stay those of requests.",
        )
        .example("session-arrivals = true"),
    row(ARRIVAL, "duration", SOME_TIME)
        .excludes(
            &["steps", "find-capacity"],
            "--step-duration says how long each rate lasts",
        )
        .absent("10s; that of the ramp or the steps; with --count, an hour")
        .help("For how long transactions are begun, the warm-up not included.")
        .example(r#"duration = "60s""#),
    row(ARRIVAL, "count", Kind::Count(1, u64::MAX))
        .excludes(&["find-capacity"], "a search tries each rate for a time")
        .absent("as many as the duration allows")
        .help("The most transactions to make, the warm-up not included.")
        .example("count = 100000"),
    row(ARRIVAL, "warm-up", TIME)
        .default("0s")
        .help("Load before the figures begin, in open load at the first rate.")
        .example(r#"warm-up = "3s""#),
    row(ARRIVAL, "timeout", SOME_TIME)
        .default("5s")
        .help("A transaction that takes longer than this since it began has failed.")
        .example(r#"timeout = "1s""#),
    row(CAPACITY, "find-capacity", Kind::Switch)
        .help(
            "Search the greatest rate that keeps --limit. Open load doubles its rate until the \
             limit breaks, then halves the interval; --rate is the first rate [default: 100].",
        )
        .example("find-capacity = true"),
    row(CAPACITY, "limit", Kind::Text("BOUNDS"))
        .requires(&["find-capacity"])
        .absent("mean<100ms,error-rate<0.1%")
        .help(
            "What a rate must keep: bounds of the mean response time, of one percentile (`p50`, \
             `p99`, `p99.9`) and of the error rate, which is below 0.1 % unless it is named.",
        )
        .example(r#"limit = "p99<50ms,error-rate<0.01%""#),
    row(CAPACITY, "precision", Kind::Text("PERCENT"))
        .requires(&["find-capacity"])
        .absent("5%")
        .help("The search ends when what kept the limit and what broke it are so close.")
        .example(r#"precision = "2%""#),
    row(RUN, "start-at", Kind::Text("TIME"))
        .absent("at once")
        .help(
            "When the load begins, as RFC 3339 in UTC, a day from now at the latest. Several hosts \
             whose clocks agree begin together; `lariat-lab report --merge` makes one run of their \
             records.",
        )
        .example(r#"start-at = "2026-12-01T09:30:00Z""#),
    row(RUN, "threads", Kind::Count(1, 1024))
        .absent("as many as there are CPUs for us; half of that if the target is this host")
        .help("Threads that make the load.")
        .example("threads = 2"),
    row(RUN, "cpus", Kind::Text("LIST|none"))
        .absent("the last of those for us")
        .help("The CPUs that threads are pinned to, in turn.")
        .example(r#"cpus = "0,2-3""#),
    row(RUN, "seed", Kind::Count(0, u64::MAX))
        .default("1")
        .help("Chance repeats itself with the same number.")
        .example("seed = 7"),
    row(RUN, "record", Kind::Path)
        .absent("lariat-load-DATE-TIME.json in the working directory")
        .help(
            "Where the record of the run is written, a JSON document for `lariat-lab report`. \
             `-` is the standard output, in place of the summary; `none` writes nothing.",
        )
        .example(r#"record = "out.json""#),
    row(RUN, "quiet", Kind::Switch)
        .help("Say nothing while it runs.")
        .example("quiet = true"),
];
