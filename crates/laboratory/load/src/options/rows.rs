//! The rows of the table of settings, in the order of the reference.

use std::path::PathBuf;

use super::display;
use super::limit;
use super::setting::Group::{Arrival, Capacity, Client, Request, Run, Target, Tls};
use super::setting::Shape::{Commas, One, Repeated, Switch};
use super::setting::{Setting, setting};
use super::settings::Options;
use super::value::{self, OrNone, Read, ValueFault};

/// Puts what was read where it belongs.
fn set<T>(place: &mut Option<T>, value: Read<T>) -> Read<()> {
    *place = Some(value?);
    Ok(())
}

fn turn(place: &mut bool, value: Read<bool>) -> Read<()> {
    *place = value?;
    Ok(())
}

/// What is named twice is offered once.
fn add<T: PartialEq>(list: &mut Vec<T>, value: Read<T>) -> Read<()> {
    let value = value?;
    if !list.contains(&value) {
        list.push(value);
    }
    Ok(())
}

fn path(text: &str) -> Read<PathBuf> {
    if text.is_empty() {
        return Err(ValueFault::Form("a path", "site.pem"));
    }
    Ok(PathBuf::from(text))
}

fn record(text: &str) -> Read<OrNone<PathBuf>> {
    match text {
        "none" => Ok(OrNone::Nothing),
        _ => path(text).map(OrNone::This),
    }
}

fn source(options: &mut Options, text: &str) -> Read<()> {
    let form = ValueFault::Form("an IP address", "127.0.0.2");
    add(&mut options.sources, text.parse().map_err(|_| form))
}

fn signatures(options: &mut Options, text: &str) -> Read<()> {
    for one in value::signatures(text)? {
        add(&mut options.signatures, Ok(one))?;
    }
    Ok(())
}

fn header(options: &mut Options, text: &str) -> Read<()> {
    options.headers.push(value::header(text)?);
    Ok(())
}

fn step(options: &mut Options, text: &str) -> Read<()> {
    options.steps_per_s.push(value::some_rate(text)?);
    Ok(())
}

/// Every setting, in the order of the reference.
pub(crate) const SETTINGS: &[Setting] = &[
    setting("url", Target, One("URL"), |o, t| set(&mut o.url, t.parse()))
        .help(
            "What to ask for, and whom. `https://` speaks TLS and `http://` does not; the port is \
             443 or 80 unless it is written; IPv6 addresses stand in brackets. On the command \
             line it stands alone, without a flag.",
        )
        .example("https://127.0.0.1:8443/1k"),
    setting("connect", Target, One("ADDRESS"), |o, t| {
        set(&mut o.connect, value::endpoint(t))
    })
    .absent("the URL's host and port")
    .help(
        "Where connections go, if not to the URL's host: `HOST:PORT` or `unix:PATH`. The `Host` \
         header and the server name remain those of the URL.",
    )
    .example("unix:/run/app.sock"),
    setting("source", Target, Commas("ADDRESS"), source)
        .absent("the kernel chooses")
        .help(
            "Our own addresses, taken in turn. Each has some 28,000 ports of its own, so more of \
             them allow more connections a minute.",
        )
        .example("127.0.0.2,127.0.0.3"),
    setting("send-proxy", Target, One("v1|v2"), |o, t| {
        set(&mut o.send_proxy, value::proxy_version(t))
    })
    .absent("no header")
    .help("Send a PROXY header of that version before anything else.")
    .example("v2"),
    setting("handshake", Client, One("KIND"), |o, t| {
        set(&mut o.kinds, value::kinds(t))
    })
    .of_tls()
    .default("full")
    .help(
        "The kind of handshake: full, session-id, ticket, psk, any or mixed. With `session-id` and \
         `ticket` (TLS 1.2) and `psk` (TLS 1.3) the first handshake of a session is full and all \
         others resume it; one that does not counts as failed. `any` resumes whatever the server \
         gave, as browsers do. `mixed` gives each client another kind in turn: full and every \
         resumption that --tls, --tickets and --session-ids leave.",
    )
    .example("session-id"),
    setting(
        "requests-per-session",
        Client,
        One("N|unlimited"),
        |o, t| set(&mut o.requests_per_session, value::times(t)),
    )
    .of_tls()
    .absent("unlimited, where sessions are resumed")
    .help(
        "Requests with one session: its handshake is full, the others resume it, then the client \
         begins anew. With 4, three of four handshakes are resumed.",
    )
    .example("4"),
    setting(
        "requests-per-connection",
        Client,
        One("N|unlimited"),
        |o, t| set(&mut o.requests_per_connection, value::times(t)),
    )
    .default("1")
    .help(
        "Requests on one connection before the client closes it: more than 1 keeps connections \
         alive, `unlimited` for as long as the server does.",
    )
    .example("100"),
    setting("clients", Client, One("N"), |o, t| {
        set(&mut o.clients, value::clients(t))
    })
    .derived(
        "as many as --connections; 1000 in open load",
        display::clients,
    )
    .help(
        "How many clients there are, or, with --session-arrivals, how many there can be at \
         once. Each has its own sessions and does one thing at a time, so in open load this is \
         how many transactions can be under way; one that finds no client free has failed.",
    )
    .example("10000"),
    setting(
        "client-selection",
        Client,
        One("round-robin|fewest"),
        |o, t| set(&mut o.selection, value::client_selection(t)),
    )
    .derived(
        "round-robin; fewest in open load with one kind of handshake and no --clients",
        display::client_selection,
    )
    .help(
        "Which of the free clients is next: the one that has been free the longest, so that all \
         take part, or one that has made a request before, so that as few take part as the load \
         needs. With round-robin, the first handshake of every client is full.",
    )
    .example("fewest"),
    setting("think-time", Client, One("TIME"), |o, t| {
        set(&mut o.think, value::duration(t))
    })
    .default("0s")
    .help("How long a client rests between two transactions.")
    .example("200ms"),
    setting("close", Client, One("notify|reset"), |o, t| {
        set(&mut o.ending, value::ending(t))
    })
    .default("notify")
    .help(
        "How connections end: with close_notify and FIN, or with RST at once, which leaves no \
         port in TIME_WAIT. One that is to bring a session still ends properly.",
    )
    .example("reset"),
    setting("method", Request, One("METHOD"), |o, t| {
        set(&mut o.method, value::method(t))
    })
    .derived("GET; POST with a body", display::method)
    .help("The method of requests.")
    .example("HEAD"),
    setting("header", Request, Repeated("'NAME: VALUE'"), header)
        .absent("")
        .help("A further header of requests. The record of the run will hold it.")
        .example("Accept: text/html"),
    setting("body", Request, One("TEXT"), |o, t| {
        set(&mut o.body, Ok(t.to_owned()))
    })
    .absent("")
    .help("The body of requests.")
    .example("a=1"),
    setting("body-file", Request, One("PATH"), |o, t| {
        set(&mut o.body_file, path(t))
    })
    .absent("")
    .help("A file that holds the body of requests.")
    .example("order.json"),
    setting("size", Request, One("SIZE"), |o, t| {
        set(&mut o.size, value::size(t))
    })
    .absent("what the URL's path gives")
    .help(
        "Ask for an object of that size: `/?size=N`, as `lariat-lab origin` and httpterm serve \
         it. It stands instead of a path in the URL.",
    )
    .example("64k"),
    setting("no-request", Request, Switch, |o, t| {
        turn(&mut o.no_request, value::switch(t))
    })
    .help("Ask for nothing: a transaction is a connection and its handshake."),
    setting("tls", Tls, One("1.2|1.3|both"), |o, t| {
        set(&mut o.versions, value::versions(t))
    })
    .derived(
        "both, or what --handshake, --suites and --groups leave",
        display::versions,
    )
    .help("The versions that are offered.")
    .example("1.3"),
    setting("suites", Tls, Commas("NAME"), |o, t| {
        add(&mut o.suites, value::suite(t))
    })
    .derived("all of the versions offered", display::suites)
    .help("Cipher suites by their standard names, the preferred one first.")
    .example("TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256"),
    setting("groups", Tls, Commas("NAME"), |o, t| {
        add(&mut o.groups, value::group(t))
    })
    .derived("x25519,secp256r1,secp384r1,X25519MLKEM768", display::groups)
    .help(
        "Key exchange groups; the first has the key share. `X25519MLKEM768`, the post-quantum \
             hybrid, is of TLS 1.3 alone; named first, it is what is used.",
    )
    .example("X25519MLKEM768,x25519"),
    setting("signatures", Tls, Commas("NAME"), signatures)
        .derived("all", display::signatures)
        .help(
            "Signature schemes by their standard names, the preferred one first; `rsa` and `ecdsa` \
             are all of their kind, so that a client without the other can be played.",
        )
        .example("ecdsa"),
    setting("alpn", Tls, Commas("PROTOCOL"), |o, t| {
        add(&mut o.alpn, value::protocol(t))
    })
    .absent("none")
    .help("Application protocols that are offered. Requests are always HTTP/1.1.")
    .example("http/1.1"),
    setting("server-name", Tls, One("NAME|none"), |o, t| {
        set(&mut o.server_name, value::server_name(t))
    })
    .derived(
        "the URL's host, unless it is an IP address",
        display::server_name,
    )
    .help("The name in SNI, which the certificate is checked for too.")
    .example("www.example.org"),
    setting("client-certificate", Tls, One("PATH"), |o, t| {
        set(&mut o.client_certificate, path(t))
    })
    .absent("")
    .help("The certificate that is shown if the server asks: its chain and key in one PEM file.")
    .example("client.pem"),
    setting("client-key", Tls, One("PATH"), |o, t| {
        set(&mut o.client_key, path(t))
    })
    .absent("it is in the certificate's file")
    .help("The key of --client-certificate as PEM, not encrypted.")
    .example("client.key"),
    setting("verify", Tls, One("off|signature|full"), |o, t| {
        set(&mut o.verify, value::verify(t))
    })
    .derived("off; full with --ca", display::verify)
    .help(
        "How the server's certificate is judged: `off` is the cheapest for us; `signature` checks \
         that the server has the key; `full` checks names, times and --ca as well.",
    )
    .example("signature"),
    setting("ca", Tls, One("PATH"), |o, t| set(&mut o.ca, path(t)))
        .absent("")
        .help("Certificates as PEM that the server's must be issued by. It means --verify full.")
        .example("ca.pem"),
    setting("tickets", Tls, One("on|off"), |o, t| {
        set(&mut o.tickets, value::on_off(t))
    })
    .default("on")
    .help("Whether TLS 1.2 tickets (RFC 5077) are asked for and used.")
    .example("off"),
    setting("session-ids", Tls, One("on|off"), |o, t| {
        set(&mut o.session_ids, value::on_off(t))
    })
    .default("on")
    .help("Whether TLS 1.2 session ids are kept and offered.")
    .example("off"),
    setting("early-data", Tls, Switch, |o, t| {
        turn(&mut o.early_data, value::switch(t))
    })
    .help("Send the first request of a connection that resumes by PSK as early data (0-RTT)."),
    setting("connections", Arrival, One("N"), |o, t| {
        set(&mut o.connections, value::clients(t))
    })
    .derived("50, but at least one per thread", display::connections)
    .help(
        "Closed load: this number of transactions is in progress at any moment; when one ends, \
         the next begins. A slow server slows it down, so latencies are no measure of a busy one.",
    )
    .example("200"),
    setting("rate", Arrival, One("R"), |o, t| {
        set(&mut o.rate_per_s, value::some_rate(t))
    })
    .absent("")
    .help(
        "Open load: this number of transactions per second, whatever the server does. Latency counts from \
         the planned instant; what could not begin has failed.",
    )
    .example("500"),
    setting("ramp", Arrival, One("FROM:TO:TIME"), |o, t| {
        set(&mut o.ramp, value::ramp(t))
    })
    .absent("")
    .help(
        "Open load whose rate goes evenly from one value to another. A longer --duration goes on \
         with the last.",
    )
    .example("100:2000:60s"),
    setting("steps", Arrival, Commas("R"), step)
        .absent("")
        .help("Open load at one rate after the other, each for --step-duration.")
        .example("500,1000,2000"),
    setting("step-duration", Arrival, One("TIME"), |o, t| {
        set(&mut o.step_duration, value::some_time(t))
    })
    .absent("5s")
    .help("How long each of --steps lasts, and each rate that --find-capacity tries.")
    .example("20s"),
    setting("spacing", Arrival, One("constant|poisson"), |o, t| {
        set(&mut o.spacing, value::spacing(t))
    })
    .derived("constant", display::spacing)
    .help(
        "How the planned instants of open load lie: evenly, or by chance as independent users \
         come.",
    )
    .example("poisson"),
    setting("session-arrivals", Arrival, Switch, |o, t| {
        turn(&mut o.session_arrivals, value::switch(t))
    })
    .help(
        "In open load, each planned instant brings a new client without a session, in place of a \
         request of a free client. It makes --requests-per-session requests \
         (--requests-per-connection, where no session is resumed): the first is due at that \
         instant, each other one when the one before it has succeeded and --think-time has passed. \
         A client whose request fails gives up, and the rest are never made. Rates stay those of \
         requests.",
    ),
    setting("duration", Arrival, One("TIME"), |o, t| {
        set(&mut o.duration, value::some_time(t))
    })
    .derived(
        "10s; that of the ramp or the steps; with --count, an hour",
        display::duration,
    )
    .help("For how long transactions are begun, the warm-up not included.")
    .example("60s"),
    setting("count", Arrival, One("N"), |o, t| {
        set(&mut o.count, value::count(t))
    })
    .absent("as many as the duration allows")
    .help("The most transactions to make, the warm-up not included.")
    .example("100000"),
    setting("warm-up", Arrival, One("TIME"), |o, t| {
        set(&mut o.warm_up, value::duration(t))
    })
    .default("0s")
    .help("Load before the figures begin, in open load at the first rate.")
    .example("3s"),
    setting("timeout", Arrival, One("TIME"), |o, t| {
        set(&mut o.timeout, value::some_time(t))
    })
    .default("5s")
    .help("A transaction that takes longer than this since it began has failed.")
    .example("1s"),
    setting("find-capacity", Capacity, Switch, |o, t| {
        turn(&mut o.find_capacity, value::switch(t))
    })
    .help(
        "Search the greatest rate that keeps --limit. Open load doubles its rate until the limit \
         breaks, then halves the interval; --rate is the first rate [default: 100].",
    ),
    setting("limit", Capacity, One("BOUNDS"), |o, t| {
        set(&mut o.limit, limit::parse(t))
    })
    .absent("mean<100ms,error-rate<0.1%")
    .help(
        "What a rate must keep: bounds of the mean response time, of one percentile (`p50`, \
             `p99`, `p99.9`) and of the error rate, which is below 0.1 % unless it is named.",
    )
    .example("p99<50ms,error-rate<0.01%"),
    setting("precision", Capacity, One("PERCENT"), |o, t| {
        set(&mut o.precision, value::percentage(t))
    })
    .absent("5%")
    .help("The search ends when what kept the limit and what broke it are so close.")
    .example("2%"),
    setting("threads", Run, One("N"), |o, t| {
        set(&mut o.threads, value::threads(t))
    })
    .derived(
        "as many as there are CPUs for us; half of that if the target is this host",
        display::threads,
    )
    .help("Threads that make the load.")
    .example("2"),
    setting("cpus", Run, One("LIST|none"), |o, t| {
        set(&mut o.cpus, value::cpus(t))
    })
    .derived("the last of those for us", display::cpus)
    .help("The CPUs that threads are pinned to, in turn.")
    .example("0,2-3"),
    setting("seed", Run, One("N"), |o, t| {
        set(&mut o.seed, value::seed(t))
    })
    .default("1")
    .help("Chance repeats itself with the same number.")
    .example("7"),
    setting("record", Run, One("PATH|none"), |o, t| {
        set(&mut o.record, record(t))
    })
    .absent("lariat-load-DATE-TIME.json in the working directory")
    .help(
        "Where the record of the run is written, a JSON document for `lariat-lab report`. `-` is \
         the standard output, in place of the summary.",
    )
    .example("out.json"),
    setting("quiet", Run, Switch, |o, t| {
        turn(&mut o.quiet, value::switch(t))
    })
    .help("Say nothing while it runs."),
];
