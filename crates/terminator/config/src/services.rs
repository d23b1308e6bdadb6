//! The keys of a service, and what must hold between services.

use std::collections::HashMap;
use std::time::Duration;

use options::{Problem, Section};
use proxy::options::{
    BackOptions, CertificateForm, FrontOptions, FrontTls, SendProxy, ServiceOptions, Timeouts,
};
use proxy::routes::{Overlap, RouteTable};
use tls::certificate::Certificate;
use tls::client::pin_of;
use tls::options::{ClientMode, Tls13Sessions};
use wire::address::Address;
use wire::network::Network;
use wire::starttls::Dialect;

use crate::certificates::Shelf;
use crate::host::Tls13Choice;
use crate::{back, dialects, front, host, starttls, topology};

/// The longest name of a service: it is a label in every metric and a field in every line.
const NAME_BYTES_MAX: usize = 64;

/// A service, as far as it could be read.
struct Read {
    options: ServiceOptions,
    is_whole: bool,
    has_front: bool,
}

/// All services, by their numbers.
pub(crate) struct Services {
    /// One with a fault keeps where it listens and those sides that are whole, for what only all
    /// services together show.
    pub(crate) options: Vec<ServiceOptions>,
    /// Whether none has a fault that keeps it from being read.
    pub(crate) are_whole: bool,
}

pub(crate) fn read(top: &Section<'_>, shelf: &mut Shelf<'_>) -> Services {
    let sections = top.sections("service");
    let tls13 = host::tls13(&top.section("resumption"));
    let read: Vec<_> = sections
        .iter()
        .map(|section| {
            let tls13 = tls13.unwrap_or(Tls13Choice::Auto);
            match service(section, tls13, shelf) {
                Some(options) => Read {
                    options,
                    is_whole: true,
                    has_front: true,
                },
                None => rest(section, tls13, shelf),
            }
        })
        .collect();
    names_differ(&sections);
    addresses_are_shared_well(&sections, &read);
    let are_whole = tls13.is_some() && !read.is_empty() && read.iter().all(|one| one.is_whole);
    let options: Vec<_> = read.into_iter().map(|one| one.options).collect();
    topology::addresses_do_not_overlap(&sections, &options);
    topology::servers_are_no_loop(&sections, &options);
    Services { options, are_whole }
}

/// What is left of a service with a fault. That is told once, though its keys are read again.
fn rest(section: &Section<'_>, tls13: Tls13Choice, shelf: &mut Shelf<'_>) -> Read {
    let (front, times) = (section.section("front"), section.section("timeouts"));
    let unacknowledged = times.if_written("unacknowledged", Section::duration);
    let back = front::redirect(&front).and_then(|redirect| {
        let back = section.section("back");
        back::read(&back, &times, redirect, unacknowledged, shelf)
    });
    let servers = back.as_ref().and_then(BackOptions::servers);
    let has_back_tls = servers.is_some_and(|one| one.tls.is_some());
    let read = front::read(&front, has_back_tls, unacknowledged, tls13, shelf);
    let has_front = read.is_some();
    Read {
        options: ServiceOptions {
            name: section.text_quietly("name").unwrap_or_default(),
            front: read.unwrap_or_else(|| front::addresses(&front)),
            back: back.unwrap_or_else(back::nothing),
            starttls: None,
            timeouts: Timeouts {
                handshake: Duration::ZERO,
                dial: Duration::ZERO,
                greeting: Duration::ZERO,
                idle: Duration::ZERO,
                lifetime: None,
            },
            connections_max: None,
        },
        is_whole: false,
        has_front,
    }
}

fn service(
    section: &Section<'_>,
    tls13: Tls13Choice,
    shelf: &mut Shelf<'_>,
) -> Option<ServiceOptions> {
    let name = name(section);
    let times = section.section("timeouts");
    // Of both sides.
    let unacknowledged = times.if_written("unacknowledged", Section::duration);
    let front_section = section.section("front");
    let redirect = front::redirect(&front_section);
    let back = section.section("back");
    let back = redirect.and_then(|one| back::read(&back, &times, one, unacknowledged, shelf));
    let servers = back.as_ref().and_then(BackOptions::servers);
    let has_back_tls = servers.is_some_and(|one| one.tls.is_some());
    let front = front::read(&front_section, has_back_tls, unacknowledged, tls13, shelf);
    let mut timeouts = timeouts(&times);
    let limits = section.section("limits");
    let connections_max = if limits.has("connections") {
        limits.count("connections").map(Some)
    } else {
        Some(None)
    };
    let (mut front, mut back) = (front?, back?);
    if front.tls != FrontTls::Plain && front_section.has("redirect") {
        let message = "is for clients that speak plain HTTP, and this front has `tls`";
        front_section.refuse("redirect", message, "give port 80 a service of its own");
        return None;
    }
    if front.tls != FrontTls::Passthrough {
        sees_no_session(&section.section("back"), &mut back);
    }
    if matches!(back, BackOptions::Files(_)) {
        speaks_to_files(&front_section.section("tls"), &mut front)?;
    }
    if let Some(inspector) = shelf.inspector {
        inspector.names(&front_section, &front);
    }
    let starttls = starttls::read(section, &mut front, &back)?;
    let dialect = starttls.as_ref().map(|one| one.dialect);
    let idle = dialects::idle(&times, dialect)?;
    timeouts.iter_mut().for_each(|one| one.idle = idle);
    if let (Some(dialect), true) = (dialect, shelf.inspector.is_some()) {
        dialects::remark(section, dialect, &front.tls, idle, has_back_tls);
    }
    let service = ServiceOptions {
        name: name?,
        front,
        back,
        starttls,
        timeouts: timeouts?,
        connections_max: connections_max?,
    };
    sides_fit(section, &service)?;
    Some(service)
}

fn name(section: &Section<'_>) -> Option<String> {
    let name = section.text("name")?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.len() <= NAME_BYTES_MAX && name.bytes().all(allowed) {
        return Some(name);
    }
    let problem = Problem::new(format!(
        "\"{}\" is no name of a service",
        name.escape_debug()
    ));
    let hint = "letters, digits, `.`, `_` and `-`, at most 64 of them";
    section.error("name", problem.hint(hint));
    None
}

fn timeouts(section: &Section<'_>) -> Option<Timeouts> {
    let handshake = section.duration("handshake");
    let dial = section.duration("dial");
    let greeting = section.duration("greeting");
    let lifetime = section.if_written("lifetime", Section::duration);
    Some(Timeouts {
        handshake: handshake?,
        dial: dial?,
        greeting: greeting?,
        idle: Duration::ZERO,
        lifetime: lifetime?,
    })
}

/// What serves files: the only protocol that we speak ourselves, by its two names. Clients of
/// HTTP/1.0 offer no other.
const HTTP: [&str; 2] = ["http/1.1", "http/1.0"];

/// Offers the protocol that files are served by, and no other.
fn speaks_to_files(tls: &Section<'_>, front: &mut FrontOptions) -> Option<()> {
    let terminated = match &mut front.tls {
        FrontTls::Terminate(terminated) => terminated,
        FrontTls::Plain => return Some(()),
        FrontTls::Passthrough => {
            let message = "keeps TLS closed, so that no request for a file can be read";
            tls.refuse("mode", message, "give the service `certificates`");
            return None;
        }
    };
    if !tls.has("alpn") {
        terminated.alpn = HTTP.map(Vec::from).into();
        return Some(());
    }
    let is_http = |name: &Vec<u8>| HTTP.iter().any(|http| *name == http.as_bytes());
    let Some(other) = terminated.alpn.iter().find(|name| !is_http(name)) else {
        return Some(());
    };
    let other = String::from_utf8_lossy(other);
    let problem = Problem::new(format!(
        "names \"{}\", which files are not served by",
        other.escape_debug()
    ));
    tls.error(
        "alpn",
        problem.hint("files are served by \"http/1.1\" and \"http/1.0\" alone"),
    );
    None
}

/// Sessions with servers are clients' only where their TLS stays closed.
fn sees_no_session(written: &Section<'_>, back: &mut BackOptions) {
    if let BackOptions::Servers(servers) = back
        && std::mem::take(&mut servers.affinity)
    {
        let problem = Problem::new("has no effect: clients have no TLS session with the servers");
        let hint = "take it out, or write front.tls = \"passthrough\"; \
                    balance = \"source\" goes by the client's address";
        written.warn("affinity", problem.hint(hint));
    }
}

/// What the one side asks of the other.
fn sides_fit(section: &Section<'_>, service: &ServiceOptions) -> Option<()> {
    let (front, back) = (section.section("front"), section.section("back"));
    let accept_proxy = &service.front.accept_proxy;
    if accept_proxy.iter().any(everybody) {
        let problem = Problem::new("trusts everybody to say who the client is");
        front.warn(
            "accept-proxy",
            problem.hint("name the networks of the proxies before us"),
        );
    }
    let has_back_tls = service
        .back
        .servers()
        .is_some_and(|servers| servers.tls.is_some());
    if has_back_tls && service.front.tls == FrontTls::Passthrough {
        let message = "would put TLS around the clients' own, which the front keeps closed";
        back.refuse(
            "tls",
            message,
            "take it out, or give the front `certificates`",
        );
        return None;
    }
    if *service.back.send_proxy() == SendProxy::Pass && accept_proxy.is_empty() {
        let problem =
            Problem::new("is \"pass\", but no header is accepted that could be passed on");
        let hint = "name the senders in front.accept-proxy, or write \"v2\" to send our own";
        back.error("send-proxy", problem.hint(hint));
        return None;
    }
    something_is_encrypted(&front, service);
    channel_binding_holds(&back, service);
    early_data_is_told(section, service)?;
    let terminated = service.front.terminated();
    if asks_for_client_certificate(service.back.send_proxy()).is_some()
        && terminated.is_none_or(|tls| tls.client.mode == ClientMode::None)
    {
        let problem = Problem::new("is to hold the client's certificate, but none is asked for");
        back.warn(
            "send-proxy",
            problem.hint("see front.tls.client-certificates"),
        );
    }
    Some(())
}

/// A service of plaintext is meant to be one.
fn something_is_encrypted(front: &Section<'_>, service: &ServiceOptions) {
    let has_back_tls = service.back.servers().is_some_and(|one| one.tls.is_some());
    let says_so = front.has("tls") || front.has("redirect");
    if service.front.tls != FrontTls::Plain || says_so || has_back_tls {
        return;
    }
    let problem = Problem::new("is missing, so that nothing is encrypted");
    let hint = "give it `certificates`, or write tls = \"off\" if that is meant";
    front.warn("tls", problem.hint(hint));
}

/// A login that is bound to the certificate which its client was shown needs a server that has the
/// same. That it has can only be known of a key that is pinned. Of XMPP that does not help: its
/// clients bind to TLS 1.3 itself (RFC 9266).
fn channel_binding_holds(back: &Section<'_>, service: &ServiceOptions) {
    let of_servers = service.back.servers().and_then(|one| one.tls.as_ref());
    let (Some(front), Some(tls)) = (service.front.terminated(), of_servers) else {
        return;
    };
    let dialect = service.starttls.as_ref().map(|one| one.dialect);
    let speaks_directly = front.alpn.iter().any(|name| name == b"postgresql");
    let pins = &tls.client.pins;
    let is_pinned = |source| {
        // What cannot be loaded is reported where it is.
        Certificate::load(source).map_or(true, |(one, _)| {
            pin_of(&one).is_some_and(|pin| pins.contains(&pin))
        })
    };
    let is_same = !pins.is_empty() && front.certificates.iter().all(is_pinned);
    let is_bound = dialect.map_or(speaks_directly, dialects::binds);
    if is_same && dialect != Some(Dialect::Xmpp) || !is_bound {
        return;
    }
    let message = format!(
        "keeps out clients of `{}` that prefer channel binding (SCRAM-*-PLUS), as many do, if a \
         server has another certificate than the front",
        dialect.unwrap_or(Dialect::Postgres).name()
    );
    let hint = "let servers be without TLS on a way that you trust, such as a Unix socket, or give \
                the front the server's own certificate and `pins` here its key, which says so; \
                else each client has to be told not to bind (PostgreSQL: channel_binding=disable)";
    back.warn("tls", Problem::new(message).hint(hint));
}

/// Servers that get early data know it, or it is all the same to them.
fn early_data_is_told(section: &Section<'_>, service: &ServiceOptions) -> Option<()> {
    if matches!(service.back, BackOptions::Files(_)) {
        // GET and HEAD may be made twice (RFC 9110 section 9.2.2).
        return Some(());
    }
    let back = section.section("back");
    let early_data_safe = back.boolean("early-data-safe")?;
    let Some(Tls13Sessions::Cache {
        early_data_bytes_max: 1..,
    }) = service.front.terminated().map(|tls| tls.tls13_sessions)
    else {
        if early_data_safe {
            let problem = Problem::new("has no effect: no early data is taken");
            back.warn("early-data-safe", problem.hint("see front.tls.early-data"));
        }
        return Some(());
    };
    if early_data_safe || matches!(service.back.send_proxy(), SendProxy::V2(_)) {
        return Some(());
    }
    let problem = Problem::new("may be replayed, and nothing tells the servers");
    let hint = "write back.send-proxy = \"v2\", or back.early-data-safe = true if a request that \
                is made twice does no harm";
    let tls = section.section("front").section("tls");
    tls.error("early-data", problem.hint(hint));
    None
}

fn everybody(network: &Network) -> bool {
    matches!(network, Network::Ip { prefix_bits: 0, .. })
}

fn asks_for_client_certificate(send_proxy: &SendProxy) -> Option<CertificateForm> {
    match send_proxy {
        SendProxy::V2(tlvs) => tlvs.client_certificate,
        SendProxy::Off | SendProxy::Pass | SendProxy::V1 => None,
    }
}

fn names_differ(sections: &[Section<'_>]) {
    let mut seen = Vec::new();
    for section in sections {
        // A name that is no text has been reported.
        let Some(name) = section.text_quietly("name") else {
            continue;
        };
        if seen.contains(&name) {
            let problem = Problem::new(format!("\"{name}\" is the name of an earlier service"));
            section.error(
                "name",
                problem.hint("give each [[service]] a name of its own"),
            );
        }
        seen.push(name);
    }
}

/// Overlaps that are reported for an address: beyond these a list helps nobody.
const OVERLAPS_MAX: usize = 20;

/// Services that share an address can be told apart by a hello, and each gets every client that it
/// is for.
fn addresses_are_shared_well(sections: &[Section<'_>], services: &[Read]) {
    let mut at: HashMap<&Address, Vec<Sharer<'_>>> = HashMap::new();
    let mut order = Vec::new();
    let known = sections.iter().zip(services);
    for (section, one) in known.filter(|(_, one)| one.has_front) {
        let (section, service) = (section.section("front"), &one.options);
        chooses_by_hello(&section, service);
        for address in &service.front.listen {
            if address.is_ephemeral() {
                continue;
            }
            let sharers = at.entry(address).or_default();
            if sharers
                .last()
                .is_some_and(|one| std::ptr::eq(one.service, service))
            {
                section.refuse(
                    "listen",
                    format!("{address} stands there twice"),
                    "take one out",
                );
                continue;
            }
            if sharers.is_empty() {
                order.push(address);
            }
            sharers.push(Sharer { section, service });
        }
    }
    for address in order {
        let sharers = &at[address];
        share(address, sharers);
        let wishes = sharers.iter().map(|one| one.service.front.wish());
        let overlaps = RouteTable::build(wishes).err().into_iter().flatten();
        for overlap in overlaps.take(OVERLAPS_MAX) {
            report_overlap(address, sharers, &overlap);
        }
    }
}

/// A service at an address.
struct Sharer<'a> {
    section: Section<'a>,
    service: &'a ServiceOptions,
}

impl Sharer<'_> {
    /// Whether its clients have no hello to choose by.
    fn begins_in_plaintext(&self) -> bool {
        let starttls = self.service.starttls.as_ref();
        self.service.front.tls == FrontTls::Plain
            || starttls.is_some_and(|one| one.sides.front.is_some())
    }

    fn named(&self) -> String {
        let name = &self.service.name;
        match self.section.place() {
            Some(place) => format!("`{name}` ({place})"),
            None => format!("`{name}`"),
        }
    }
}

/// Without TLS there is no hello to choose by.
fn chooses_by_hello(front: &Section<'_>, service: &ServiceOptions) {
    if service.front.tls != FrontTls::Plain {
        return;
    }
    for key in ["names", "protocols"]
        .into_iter()
        .filter(|key| front.has(key))
    {
        let message = "is chosen by a ClientHello, and clients of this service speak no TLS";
        front.refuse(key, message, "take it out, or give the service `tls`");
    }
}

/// What comes before the hello must be the same for all.
fn share(address: &Address, sharers: &[Sharer<'_>]) {
    let Some((first, others)) = sharers.split_first() else {
        return;
    };
    for other in others {
        if first.begins_in_plaintext() || other.begins_in_plaintext() {
            let message = format!("{address} is already listened at by {}", first.named());
            let hint = "only services whose clients begin with TLS can share an address: their hellos differ";
            other.section.refuse("listen", message, hint);
            continue;
        }
        let (one, two) = (&first.service.front, &other.service.front);
        for (key, are_same) in [
            ("accept-proxy", one.accept_proxy == two.accept_proxy),
            ("keepalive", one.liveness == two.liveness),
            (
                "interface",
                one.transport.interface == two.transport.interface,
            ),
            ("mptcp", one.transport.mptcp == two.transport.mptcp),
            ("defer-accept", one.defer_accept == two.defer_accept),
        ] {
            let first = first.named();
            let message = format!("differs from that of {first}, which shares {address}");
            let hint = "it holds before a hello tells services apart: write the same at both";
            other.section.refuse_if(!are_same, key, message, hint);
        }
    }
}

fn report_overlap(address: &Address, sharers: &[Sharer<'_>], overlap: &Overlap) {
    let (first, second) = (&sharers[overlap.first], &sharers[overlap.second]);
    if first.begins_in_plaintext() || second.begins_in_plaintext() {
        // It has been reported that they cannot share an address at all.
        return;
    }
    let protocol = overlap.protocol.as_deref().map(String::from_utf8_lossy);
    let offering = protocol.map_or(String::new(), |protocol| {
        format!(" that offer \"{protocol}\"")
    });
    let clients = match &overlap.name {
        Some(name) => format!("clients of \"{name}\"{offering}"),
        None => format!("clients of any name{offering}"),
    };
    let first = first.named();
    let (key, hint) = match (&overlap.name, &overlap.protocol) {
        (None, None) => (
            "listen",
            "give one of them `names`: the other gets all that are left",
        ),
        (Some(_), None) => ("names", "write the name at one of them"),
        (_, Some(_)) => ("protocols", "write the protocol at one of them"),
    };
    let message = format!("{clients} at {address} are already for {first}");
    second.section.refuse(key, message, hint);
}
