//! Keys of a service's front, except TLS.

use std::time::Duration;

use options::row::{boolean, duration, networks, parsed, row};
use options::{Key, Kind, Problem, Value, choice, section, table};
use proxy::options::{
    FrontOptions, FrontTls, KtlsMode, KtlsOptions, Liveness, SourceRules, Transport,
};
use proxy::routes::NamePattern;
use static_files::challenge::HttpChallenges;
use static_files::options::Redirect;
use sys::socket::AddressWithZone;
use wire::address::{Address, Network};
use wire::starttls::{Dialect, Policy};

use crate::front_tls::{self, WrittenFrontTls};
use crate::resolver::{FileResolver, networks_of};
use crate::resumption::Tls13Choice;
use crate::timeouts::{KEEPALIVE_MAX, WrittenTimeouts, liveness};
use crate::tls_choices::protocol;

/// Prefix of the names under which a service manager keeps Lariat's own descriptors.
pub const KEPT_NAMES: &str = "lariat/";

section! {
    table("service.front").group("Front")
        .example(r#"front = { listen = ["[::]:443"], tls = { certificates = ["site.pem"] } }"#);
    /// The side that clients connect to.
    pub(crate) struct WrittenFront<'a> {
        /// Addresses to listen at: an IP address with a port (`*:443` and `[::]:443` mean all other
        /// addresses; 0 lets the kernel choose a port), `unix:/path` (mode 0666: its directory
        /// limits access), abstract `unix:@name`, or `fd:name` for a service manager's sockets.
        listen: Vec<Address> = row(Kind::Address, listen_address)
            .many().flag("listen")
            .example(r#"listen = ["[::]:443", "unix:/run/lariat/web.sock"]"#),
        /// Server names that the service is for where several share an address; `*.example` means
        /// all names beneath. See docs/guide/routing.md.
        names: Vec<NamePattern> = parsed(Kind::Text("NAME"))
            .many()
            .absent("all names that no other service at the address has, and clients without one")
            .flag("names").example(r#"names = ["shop.example", "*.shop.example"]"#),
        /// Application protocols (ALPN) of which a client must offer one to get this service.
        protocols: Vec<Vec<u8>> = row(Kind::Text("PROTOCOL"), protocol)
            .many().absent("clients are chosen by their server names alone").flag("protocols")
            .example(r#"protocols = ["acme-tls/1"]"#),
        /// Answers plain HTTP by a redirect to https, at port 443 or the one that is named.
        redirect: Option<Redirect> = row(Kind::Text("https[:PORT]"), redirect)
            .absent("requests go to the back").flag("redirect").example(r#"redirect = "https""#),
        starttls: Option<WrittenStarttls<'a>>,
        /// Networks that must send a PROXY header, version 1 or 2, first; others must not. `unix`
        /// means every Unix socket.
        accept_proxy: Vec<Network> = parsed(Kind::Network)
            .many().absent("no PROXY header is expected").flag("accept-proxy")
            .example(r#"accept-proxy = ["10.0.0.0/8", "unix"]"#),
        /// Networks that alone may connect, or files with one per line (`#` and `;` begin
        /// comments). If a PROXY header must come, its address counts.
        allow: Vec<String> = networks()
            .many().absent("all may connect").flag("allow")
            .example(r#"allow = ["10.0.0.0/8", "unix"]"#),
        /// Networks that may not connect, even if `allow` has them.
        deny: Vec<String> = networks()
            .many().absent("none are denied").flag("deny")
            .example(r#"deny = ["192.0.2.0/24", "deny.txt"]"#),
        /// Silence, in whole seconds, after which the kernel probes the client (TCP keepalive), or
        /// up to a fifth earlier; 0 = never.
        keepalive: Duration = duration(Duration::ZERO, KEEPALIVE_MAX)
            .default("2m").flag("keepalive").example(r#"keepalive = "30s""#),
        /// The only network interface that clients may come by (SO_BINDTODEVICE).
        interface: Option<String> = row(Kind::Text("NAME"), interface)
            .absent("any interface").flag("interface").example(r#"interface = "eth0""#),
        /// Whether clients may use Multipath TCP (RFC 8684), for which there is no kernel TLS.
        mptcp: bool = boolean().default("false").flag("mptcp").example("mptcp = true"),
        /// Whether `[::]` and `*` in `listen` take IPv6 alone (IPV6_V6ONLY).
        ipv6_only: bool = boolean()
            .default("false").flag("ipv6-only").example("ipv6-only = true"),
        /// Whether the kernel keeps a connection for up to a second until its first bytes come
        /// (TCP_DEFER_ACCEPT). Not for servers that speak first.
        defer_accept: bool = boolean()
            .default("false").flag("defer-accept").example("defer-accept = true"),
        /// Whether log lines have the JA4 fingerprint of the client's TLS software.
        ja4: bool = boolean().default("false").flag("ja4").example("ja4 = true"),
        tls: WrittenFrontTls<'a>,
    }
}

section! {
    table("service.front.starttls")
        .absent("clients begin with TLS, if the service has any").shorthand("protocol")
        .example(r#"starttls = { protocol = "smtp", policy = "optional" }"#);
    /// A protocol in which clients begin in plaintext and ask for TLS. See docs/guide/starttls.md.
    pub(crate) struct WrittenStarttls<'a> {
        /// The protocol.
        protocol: Dialect = choice!(of Dialect: Dialect::ALL)
            .flag("starttls").example(r#"protocol = "smtp""#),
        /// `required` refuses clients that do not ask for TLS; `optional` relays them in plaintext.
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
    resolver: &mut FileResolver<'_>,
) -> Option<FrontOptions> {
    let allow = networks_of(&front.allow, resolver);
    let deny = networks_of(&front.deny, resolver);
    let is_local = front.listen.value.iter().flatten().all(is_of_this_host);
    if front.ipv6_only.value == Some(true) {
        let has_all = front.listen.value.iter().flatten().any(Address::is_any_v6);
        let message = "has no effect: neither `[::]` nor `*` is in `listen`";
        front.ipv6_only.warn_unless(has_all, message, "take it out");
    }
    // Flags must request plaintext explicitly: a forgotten certificate must not open a port to
    // other hosts.
    let may_be_plain =
        front.at.table().is_in_file() || front.redirect.is_written() || has_back_tls && is_local;
    let (tls, ktls) = front_tls::front_tls_options(&front.tls, may_be_plain, tls13, resolver)?;
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

/// Makes a stand-in for a faulty front that has only its addresses; it is never served.
pub(crate) fn addresses(front: &WrittenFront<'_>) -> FrontOptions {
    let listen = front.listen.value.clone();
    // Sockets of two interfaces do not overlap: without a valid transport, no address is kept.
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
    match options::parse::<AddressWithZone<Address>>(value, key)?.0 {
        Address::Inherited(name) if name.starts_with(KEPT_NAMES) => {
            let message = format!("\"fd:{name}\" is a name that Lariat gives its own descriptors");
            Err(Problem::new(message).hint("write another FileDescriptorName= in the socket unit"))
        }
        address => Ok(address),
    }
}

/// Whether clients of other hosts cannot reach an address.
fn is_of_this_host(address: &Address) -> bool {
    match address {
        Address::Ip(address) => address.ip().is_loopback(),
        Address::Unix(_) => true,
        // Only the service manager knows the address.
        Address::Inherited(_) => false,
    }
}

/// Reads the target of redirects.
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

/// Longest name of a network interface (`IFNAMSIZ`, less the closing NUL), in bytes.
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
