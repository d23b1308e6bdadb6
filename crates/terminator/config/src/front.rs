//! The keys of a service's front, but for TLS.

use std::time::Duration;

use options::row::{boolean, duration, networks, parsed, row};
use options::{Key, Kind, Problem, Value, choice, section, table};
use proxy::options::{
    FrontOptions, FrontTls, KtlsMode, KtlsOptions, Liveness, SourceRules, Transport,
};
use proxy::routes::NamePattern;
use static_files::challenge::HttpChallenges;
use static_files::options::Redirect;
use sys::socket::Zoned;
use wire::address::{Address, Network};
use wire::starttls::{Dialect, Policy};

use crate::front_tls::{self, WrittenFrontTls};
use crate::resumption::Tls13Choice;
use crate::shelf::{Shelf, networks_of};
use crate::timeouts::{KEEPALIVE_MAX, WrittenTimeouts, liveness};
use crate::tls_choices::protocol;

/// The names by which a service manager keeps Lariat's own descriptors begin so.
pub const KEPT_NAMES: &str = "lariat/";

section! {
    table("service.front").group("Front")
        .example(r#"front = { listen = ["[::]:443"], tls = { certificates = ["site.pem"] } }"#);
    /// The side that clients connect to.
    pub(crate) struct WrittenFront<'a> {
        /// Addresses to listen at, which services may share by `names`: an IP address with a port
        /// (`*:443` and `[::]:443` mean all of IPv6 and IPv4, but for addresses that are listed
        /// with that port themselves, and unless `ipv6-only` is set), `unix:/path`, `unix:@name` in
        /// the abstract namespace, or `fd:name` for the sockets that a service manager hands over
        /// by that name. With port 0 the kernel chooses a port, which the status shows. A socket at
        /// a path has mode 0666: its directory limits who may connect.
        listen: Vec<Address> = row(Kind::Address, listen_address)
            .many().flag("listen")
            .example(r#"listen = ["[::]:443", "unix:/run/lariat/web.sock"]"#),
        /// Server names whose clients this service is for, where several share an address.
        /// `*.example` means all names beneath it; an exact name comes first. A hello for no
        /// service gets the alert `unrecognized_name`.
        names: Vec<NamePattern> = parsed(Kind::Text("NAME"))
            .many()
            .absent("all names that no other service at the address has, and clients without one")
            .flag("names").example(r#"names = ["shop.example", "*.shop.example"]"#),
        /// Application protocols (ALPN), one of which a client must offer for this service. It
        /// comes before a service of the same name without `protocols`.
        protocols: Vec<Vec<u8>> = row(Kind::Text("PROTOCOL"), protocol)
            .many().absent("clients are chosen by their server names alone").flag("protocols")
            .example(r#"protocols = ["acme-tls/1"]"#),
        /// For port 80: requests of plain HTTP/1.1 are redirected to https (301 for GET and HEAD,
        /// else 308), at port 443 or the one that is named. The service needs no `back`; from
        /// `back.files` only `.well-known/acme-challenge/` is served.
        redirect: Option<Redirect> = row(Kind::Text("https[:PORT]"), redirect)
            .absent("requests go to the back").flag("redirect").example(r#"redirect = "https""#),
        starttls: Option<WrittenStarttls<'a>>,
        /// Networks whose connections must begin with a PROXY header, version 1 or 2. A header from
        /// any other address ends the connection. `unix` means every Unix socket.
        accept_proxy: Vec<Network> = parsed(Kind::Network)
            .many().absent("no PROXY header is expected").flag("accept-proxy")
            .example(r#"accept-proxy = ["10.0.0.0/8", "unix"]"#),
        /// Networks that alone may connect, or files that list them, one per line; `#` and `;`
        /// begin a comment. Where a PROXY header must come, the address in it counts. Others are
        /// reset: `source-denied`.
        allow: Vec<String> = networks()
            .many().absent("all may connect").flag("allow")
            .example(r#"allow = ["10.0.0.0/8", "unix"]"#),
        /// Networks that may not connect, even if they are allowed; written as `allow`. A reload
        /// reads files again; one with a broken line changes nothing.
        deny: Vec<String> = networks()
            .many().absent("none are denied").flag("deny")
            .example(r#"deny = ["192.0.2.0/24", "deny.txt"]"#),
        /// Time without a byte, in whole seconds and for most up to a fifth less, after which the
        /// kernel asks whether the client is still there (TCP keepalive); 0 = never. One that
        /// answers none of four probes in as much time again is dropped: `client-unreachable`.
        keepalive: Duration = duration(Duration::ZERO, KEEPALIVE_MAX)
            .default("2m").flag("keepalive").example(r#"keepalive = "30s""#),
        /// The only network interface by which clients come in to the IP addresses of `listen`
        /// (SO_BINDTODEVICE).
        interface: Option<String> = row(Kind::Text("NAME"), interface)
            .absent("any interface").flag("interface").example(r#"interface = "eth0""#),
        /// Whether clients may use several paths at once (Multipath TCP, RFC 8684). The kernel does
        /// not encrypt for such connections.
        mptcp: bool = boolean().default("false").flag("mptcp").example("mptcp = true"),
        /// Whether `[::]` and `*` in `listen` take clients of IPv6 alone (IPV6_V6ONLY), so that
        /// something else may have those of IPv4.
        ipv6_only: bool = boolean()
            .default("false").flag("ipv6-only").example("ipv6-only = true"),
        /// Whether the kernel keeps a new connection until its first bytes are there, for a second
        /// at most (TCP_DEFER_ACCEPT). Not for protocols in which the server speaks first.
        defer_accept: bool = boolean()
            .default("false").flag("defer-accept").example("defer-accept = true"),
        /// Whether log lines have the client's JA4 fingerprint, which names its TLS software by its
        /// hello.
        ja4: bool = boolean().default("false").flag("ja4").example("ja4 = true"),
        tls: WrittenFrontTls<'a>,
    }
}

section! {
    table("service.front.starttls")
        .absent("clients begin with TLS, if the service has any").shorthand("protocol")
        .example(r#"starttls = { protocol = "smtp", policy = "optional" }"#);
    /// A protocol whose clients begin in plaintext and ask for TLS. The server gets plaintext,
    /// or TLS by `back.tls`.
    pub(crate) struct WrittenStarttls<'a> {
        /// The protocol. Of `ftp` only the control connection is protected. `timeouts.handshake`
        /// bounds the conversation too.
        protocol: Dialect = choice!(of Dialect: Dialect::ALL)
            .flag("starttls").example(r#"protocol = "smtp""#),
        /// Whether clients that do not ask for TLS are refused (`required`) or relayed as they are
        /// (`optional`).
        policy: Policy = choice![
            "required" => Policy::Required,
            "optional" => Policy::Optional,
        ].default("required").flag("starttls-policy").example(r#"policy = "optional""#),
    }
}

pub(crate) fn front_options(
    front: &WrittenFront<'_>,
    times: &WrittenTimeouts<'_>,
    has_back_tls: bool,
    tls13: Tls13Choice,
    shelf: &mut Shelf<'_>,
) -> Option<FrontOptions> {
    let allow = networks_of(&front.allow, shelf);
    let deny = networks_of(&front.deny, shelf);
    let is_local = front.listen.value.iter().flatten().all(is_of_this_host);
    if front.ipv6_only.value == Some(true) {
        let has_all = front.listen.value.iter().flatten().any(Address::is_any_v6);
        let message = "has no effect: neither `[::]` nor `*` is in `listen`";
        front.ipv6_only.warn_unless(has_all, message, "take it out");
    }
    // Flags say it in so many words: a certificate that was forgotten must not open a port to other
    // hosts.
    let may_be_plain =
        front.at.table().is_in_file() || front.redirect.is_written() || has_back_tls && is_local;
    let (tls, ktls) = front_tls::front_tls_options(&front.tls, may_be_plain, tls13, shelf)?;
    Some(FrontOptions {
        listen: front.listen.value.clone()?,
        names: front.names.value.clone()?,
        protocols: front.protocols.value.clone()?,
        accept_proxy: front.accept_proxy.value.clone()?,
        sources: SourceRules { allow: allow?, deny: deny? },
        liveness: liveness(&front.keepalive, times)?,
        transport: transport(front)?,
        defer_accept: front.defer_accept.value?,
        challenges: HttpChallenges::default(),
        ja4: front.ja4.value?,
        ktls,
        tls,
    })
}

fn transport(front: &WrittenFront<'_>) -> Option<Transport> {
    Some(Transport {
        interface: front.interface.value.clone()?,
        mptcp: front.mptcp.value?,
        ipv6_only: front.ipv6_only.value?,
    })
}

/// The addresses of a front with a fault, and nothing else of it: never to be served.
pub(crate) fn addresses(front: &WrittenFront<'_>) -> FrontOptions {
    let listen = front.listen.value.clone();
    // Sockets of two interfaces are apart: where they are not known, nor is what they take.
    let (listen, transport) = listen.zip(transport(front)).unwrap_or_default();
    FrontOptions {
        listen,
        names: Vec::new(),
        protocols: Vec::new(),
        accept_proxy: Vec::new(),
        sources: SourceRules::default(),
        liveness: Liveness::default(),
        transport,
        defer_accept: false,
        challenges: HttpChallenges::default(),
        ja4: false,
        ktls: KtlsOptions { mode: KtlsMode::Off, from: 0 },
        tls: FrontTls::Plain,
    }
}

fn listen_address(value: &Value, key: &Key) -> Result<Address, Problem> {
    match options::parse::<Zoned<Address>>(value, key)?.0 {
        Address::Inherited(name) if name.starts_with(KEPT_NAMES) => {
            let message = format!("\"fd:{name}\" is a name that Lariat gives its own descriptors");
            Err(Problem::new(message).hint("write another FileDescriptorName= in the socket unit"))
        }
        address => Ok(address),
    }
}

/// Whether clients of other hosts cannot reach it.
fn is_of_this_host(address: &Address) -> bool {
    match address {
        Address::Ip(address) => address.ip().is_loopback(),
        Address::Unix(_) => true,
        // Only the service manager knows.
        Address::Inherited(_) => false,
    }
}

/// The place that requests are redirected to.
fn redirect(value: &Value, _: &Key) -> Result<Redirect, Problem> {
    let text = options::as_text(value)?;
    let port = match text.strip_prefix("https") {
        Some("") => Some(443),
        Some(rest) => rest.strip_prefix(':').and_then(|port| port.parse().ok()),
        None => None,
    };
    let port = port.filter(|port| *port != 0);
    let problem = || {
        let problem = Problem::new(format!("\"{}\" is no place", text.escape_debug()));
        problem.hint("write \"https\", or \"https:PORT\" with the port of the service with TLS")
    };
    port.map(|port| Redirect { port }).ok_or_else(problem)
}

/// The longest name of a network interface (`IFNAMSIZ`, less the closing NUL), in bytes.
const INTERFACE_BYTES_MAX: usize = 15;

fn interface(value: &Value, key: &Key) -> Result<String, Problem> {
    let name = options::as_text(value)?;
    let is_part = |c: char| c.is_ascii_graphic() && c != '/';
    let is_name = name.len() <= INTERFACE_BYTES_MAX
        && name.chars().all(is_part)
        && ![".", ".."].contains(&name);
    if is_name {
        return Ok(name.to_owned());
    }
    let message = format!("\"{}\" is no name of an interface", name.escape_debug());
    Err(Problem::new(message).hint(key.for_example()))
}
