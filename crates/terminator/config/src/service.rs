//! Keys of a service: its sides, what each requires of the other, and their conversation before
//! TLS.

use std::time::Duration;

use options::row::{count, text};
use options::{Field, KeyPlace, section, table};
use proxy::options::{
    BackOptions, FrontOptions, FrontTls, SendProxy, ServersOptions, ServiceOptions, Starttls,
    Timeouts,
};
use sys::process;
use tls::certificate::Certificate;
use tls::client::pin_of;
use tls::options::{ClientMode, ExpectedName, Tls13Sessions};
use wire::address::Network;
use wire::starttls::{Dialect, Policy, StarttlsSides};

use crate::back::{self, WrittenBack};
use crate::front::{self, WrittenFront};
use crate::front_tls::WrittenFrontTls;
use crate::resolver::FileResolver;
use crate::resumption::Tls13Choice;
use crate::timeouts::{self, WrittenTimeouts};

/// Longest name of a service: it is a label in every metric and a field in every line.
const NAME_BYTES_MAX: usize = 64;

section! {
    table("service").group("Service").many().example("[[service]]");
    /// A front, a back, and the limits of their connections.
    pub(crate) struct WrittenService<'a> {
        /// A unique name for logs, metrics and the status: up to 64 letters, digits, `.`, `_` and
        /// `-`.
        name: String = text("NAME").default("main").flag("name").example(r#"name = "web""#),
        front: WrittenFront<'a>,
        back: WrittenBack<'a>,
        timeouts: WrittenTimeouts<'a>,
        limits: WrittenServiceLimits<'a>,
    }
}

section! {
    table("service.limits")
        .absent("only the limits of the process").example("limits = { connections = 1000 }");
    /// Limits of one service.
    pub(crate) struct WrittenServiceLimits<'a> {
        /// Open connections over all workers; more are closed at once.
        connections: Option<u32> = count(1, 10_000_000)
            .absent("only the limit of the process").flag("service-connections")
            .example("connections = 1000"),
    }
}

/// A service, as far as it could be read.
pub(crate) struct ServiceRead {
    pub(crate) options: ServiceOptions,
    /// Whether the service is free of errors that keep it from being read.
    pub(crate) is_whole: bool,
    pub(crate) has_front: bool,
}

/// Reads a service. A faulty one keeps its addresses and those sides that are whole, for the checks
/// of all services together.
pub(crate) fn read(
    written: &WrittenService<'_>,
    tls13: Tls13Choice,
    resolver: &mut FileResolver<'_>,
) -> ServiceRead {
    let name = name(written);
    let (keys, times) = (&written.front, &written.timeouts);
    let redirect = keys.redirect.value;
    let back = redirect.and_then(|one| back::back_options(&written.back, times, one, resolver));
    let servers = back.as_ref().and_then(BackOptions::servers);
    let has_back_tls = servers.is_some_and(|one| one.tls.is_some());
    let orders = resolver.acme.len();
    let front = front::front_options(keys, times, has_back_tls, tls13, resolver);
    for entry in resolver.acme.iter_mut().skip(orders) {
        entry.service = written.name.value.clone().unwrap_or_default();
    }
    let has_front = front.is_some();
    let sides = front.clone().zip(back.clone());
    let whole = sides.and_then(|sides| service_options(written, name, sides, resolver));
    ServiceRead {
        is_whole: whole.is_some(),
        has_front,
        options: whole.unwrap_or_else(|| ServiceOptions {
            name: written.name.value.clone().unwrap_or_default(),
            front: front.unwrap_or_else(|| front::addresses(keys)),
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
        }),
    }
}

fn service_options(
    written: &WrittenService<'_>,
    name: Option<String>,
    (mut front, mut back): (FrontOptions, BackOptions),
    resolver: &FileResolver<'_>,
) -> Option<ServiceOptions> {
    let keys = &written.front;
    if front.tls != FrontTls::Plain && keys.redirect.is_written() {
        let message = "is for clients that speak plain HTTP, and this front has `tls`";
        return keys.redirect.fail(message, "give port 80 a service of its own");
    }
    if front.tls != FrontTls::Passthrough {
        sees_no_session(&written.back.affinity, &mut back);
    }
    if matches!(back, BackOptions::Files(_)) {
        speaks_to_files(&keys.tls, &mut front)?;
    }
    if let Some(inspector) = resolver.inspector {
        inspector.names(&keys.names, &front, &front.names);
    }
    let starttls = starttls_options((keys, &written.back), &mut front, &back)?;
    let dialect = starttls.as_ref().map(|one| one.dialect);
    let timeouts = timeouts::timeouts(&written.timeouts, dialect);
    if let (Some(dialect), true) = (dialect, resolver.inspector.is_some()) {
        let side = match &keys.starttls {
            Some(keys) => ("front.starttls", &keys.at),
            None => ("back.starttls", &*written.back.starttls),
        };
        let has_back_tls = back.servers().is_some_and(|one| one.tls.is_some());
        timeouts::remark(side, &written.timeouts, dialect, &front.tls, has_back_tls);
    }
    let service = ServiceOptions {
        name: name?,
        front,
        back,
        starttls,
        timeouts: timeouts?,
        connections_max: written.limits.connections.value?,
    };
    sides_fit(written, &service)?;
    Some(service)
}

fn name(written: &WrittenService<'_>) -> Option<String> {
    let name = written.name.value.clone()?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.len() <= NAME_BYTES_MAX && name.bytes().all(allowed) {
        return Some(name);
    }
    let message = format!("\"{}\" is no name of a service", name.escape_debug());
    let hint = "letters, digits, `.`, `_` and `-`, at most 64 of them";
    written.name.fail(message, hint)
}

/// Protocol of files, the only one that Lariat speaks itself, by its two names. Clients of HTTP/1.0
/// offer no other.
const HTTP: [&str; 2] = ["http/1.1", "http/1.0"];

/// Offers the protocol that files are served by, and no other.
fn speaks_to_files(tls: &WrittenFrontTls<'_>, front: &mut FrontOptions) -> Option<()> {
    let terminated = match &mut front.tls {
        FrontTls::Terminate(terminated) => terminated,
        FrontTls::Plain => return Some(()),
        FrontTls::Passthrough => {
            let message = "keeps TLS closed, so that no request for a file can be read";
            return tls.mode.fail(message, "give the service `certificates`");
        }
    };
    if !tls.alpn.is_written() {
        terminated.alpn = HTTP.map(Vec::from).into();
        return Some(());
    }
    let is_http = |name: &Vec<u8>| HTTP.iter().any(|http| *name == http.as_bytes());
    let Some(other) = terminated.alpn.iter().find(|name| !is_http(name)) else { return Some(()) };
    let other = String::from_utf8_lossy(other);
    let other = other.escape_debug();
    let message = format!("names \"{other}\", which files are not served by");
    let hint = "files are served by \"http/1.1\" and \"http/1.0\" alone";
    tls.alpn.fail(message, hint)
}

/// Turns off affinity by session id where TLS is not passed through; warns of it.
fn sees_no_session(affinity: &KeyPlace<'_>, back: &mut BackOptions) {
    if let BackOptions::Servers(servers) = back
        && std::mem::take(&mut servers.affinity)
    {
        let message = "has no effect: clients have no TLS session with the servers";
        let hint = "take it out, or write front.tls = \"passthrough\"; \
                    balance = \"source\" goes by the client's address";
        affinity.warn(message, hint);
    }
}

/// Checks that each side has what the other one requires.
fn sides_fit(written: &WrittenService<'_>, service: &ServiceOptions) -> Option<()> {
    let (front, back) = (&written.front, &written.back);
    let accept_proxy = &service.front.accept_proxy;
    let is_everybody = |one: &Network| matches!(one, Network::Ip { prefix_bits: 0, .. });
    if accept_proxy.iter().any(is_everybody) {
        let message = "trusts everybody to say who the client is";
        front.accept_proxy.warn(message, "name the networks of the proxies before us");
    }
    let servers_tls = service.back.servers().and_then(|one| one.tls.as_ref());
    let back_tls = back.tls.as_ref().filter(|_| servers_tls.is_some());
    if let (FrontTls::Passthrough, Some(tls)) = (&service.front.tls, back_tls) {
        let message = "would put TLS around the clients' own, which the front keeps closed";
        return tls.at.fail(message, "take it out, or give the front `certificates`");
    }
    let send_proxy = service.back.send_proxy();
    if let (SendProxy::Pass, true, Some(keys)) =
        (send_proxy, accept_proxy.is_empty(), &back.send_proxy)
    {
        let message = "is \"pass\", but no header is accepted that could be passed on";
        let hint = "name the senders in front.accept-proxy, or write \"v2\" to send our own";
        return keys.at.fail(message, hint);
    }
    something_is_encrypted(front, service);
    if let Some(tls) = back_tls {
        channel_binding_holds(&tls.at, service);
    }
    early_data_is_told(written, service)?;
    let terminated = service.front.terminated();
    let asks = terminated.is_some_and(|tls| tls.client.mode != ClientMode::None);
    if let (SendProxy::V2(tlvs), false, Some(keys)) = (send_proxy, asks, &back.send_proxy)
        && tlvs.client_certificate.is_some()
    {
        let message = "is to hold the client's certificate, but none is asked for";
        keys.at.warn(message, "see front.tls.client-certificates");
    }
    Some(())
}

/// Warns of a service in plaintext that was not written explicitly.
fn something_is_encrypted(front: &WrittenFront<'_>, service: &ServiceOptions) {
    let has_back_tls = service.back.servers().is_some_and(|one| one.tls.is_some());
    let says_so = front.tls.at.is_written() || front.redirect.is_written();
    if service.front.tls != FrontTls::Plain || says_so || has_back_tls {
        return;
    }
    let hint = "give it `certificates`, or write tls = \"off\" if that is meant";
    front.tls.at.warn("is missing, so that nothing is encrypted", hint);
}

/// Warns of logins bound to the certificate that the client saw, because they need a server with
/// the same certificate. Only a pinned key proves that. Pins do not help XMPP: its clients bind to
/// TLS 1.3 itself (RFC 9266).
fn channel_binding_holds(back_tls: &KeyPlace<'_>, service: &ServiceOptions) {
    let of_servers = service.back.servers().and_then(|one| one.tls.as_ref());
    let (Some(front), Some(tls)) = (service.front.terminated(), of_servers) else { return };
    let dialect = service.starttls.as_ref().map(|one| one.dialect);
    let speaks_directly = front.alpn.iter().any(|name| name == b"postgresql");
    let pins = &tls.client.pins;
    let is_pinned = |source| {
        // A certificate that cannot be loaded is reported at its key.
        Certificate::load(source)
            .map_or(true, |(one, _)| pin_of(&one).is_some_and(|pin| pins.contains(&pin)))
    };
    let is_same = !pins.is_empty() && front.certificates.iter().all(is_pinned);
    let is_bound = dialect.map_or(speaks_directly, timeouts::binds);
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
    back_tls.warn(message, hint);
}

/// Checks that servers can recognise early data, or that it does not matter to them.
fn early_data_is_told(written: &WrittenService<'_>, service: &ServiceOptions) -> Option<()> {
    if matches!(service.back, BackOptions::Files(_)) {
        // GET and HEAD may be repeated (RFC 9110 section 9.2.2).
        return Some(());
    }
    let key = &written.back.early_data_safe;
    let early_data_safe = key.value?;
    let Some(Tls13Sessions::Cache { early_data_bytes_max: 1.. }) =
        service.front.terminated().map(|tls| tls.tls13_sessions)
    else {
        if early_data_safe {
            let message = "has no effect: no early data is taken";
            key.warn(message, "see front.tls.early-data");
        }
        return Some(());
    };
    if early_data_safe || matches!(service.back.send_proxy(), SendProxy::V2(_)) {
        return Some(());
    }
    let message = "may be replayed, and nothing tells the servers";
    let hint = "write back.send-proxy = \"v2\", or back.early-data-safe = true if a request that \
                is made twice does no harm";
    written.front.tls.early_data.fail(message, hint)
}

/// Maximum of RFC 1035 section 2.3.4.
const HOST_NAME_BYTES_MAX: usize = 255;

/// Reads `front.starttls` and `back.starttls`; `Some(None)` if neither is written.
fn starttls_options(
    (front_keys, back_keys): (&WrittenFront<'_>, &WrittenBack<'_>),
    front: &mut FrontOptions,
    back: &BackOptions,
) -> Option<Option<Starttls>> {
    let written = front_keys.starttls.as_ref();
    let of_front = match written {
        Some(keys) => Some((keys.protocol.value?, keys.policy.value?)),
        None => None,
    };
    let of_back = back_keys.starttls.value?;
    let Some(dialect) = of_front.map(|(dialect, _)| dialect).or(of_back) else {
        own_name(&back_keys.ehlo_name, None)?;
        return Some(None);
    };
    let place = written.map_or(&*back_keys.starttls, |keys| &keys.at);
    if of_back.is_some_and(|other| other != dialect) {
        let message = "is another protocol than that of `front.starttls`, and nothing translates";
        return back_keys.starttls.fail(message, "write the same at both");
    }
    let Some(servers) = back.servers() else {
        let message = "is a conversation with servers, and the service has none";
        return place.fail(message, "take it out");
    };
    lacks_early_data(&front_keys.tls.early_data, front)?;
    if of_front.is_some() {
        front_fits(front_keys, place, front)?;
        speaks_postgresql(&front_keys.tls.alpn, front, dialect);
    }
    if of_front == Some((Dialect::Xmpp, Policy::Optional)) {
        let message = "is optional, and the stream before TLS is not the server's to continue";
        return place.fail(message, "write policy = \"required\"");
    }
    let servers_tls = servers.tls.as_ref();
    if of_back.is_some() && servers_tls.is_none() {
        let message = "asks servers for TLS, and they are to get plaintext";
        return back_keys.starttls.fail(message, "add back.tls (--backend-tls)");
    }
    if of_front.is_some() && dialect.is_greeted() {
        greets_first((front_keys, back_keys), front, servers)?;
    }
    let server_name = match servers_tls.map(|tls| &tls.client.name) {
        Some(ExpectedName::Fixed(name)) => Some(name.clone()),
        _ => servers.hosts().into_iter().flatten().next(),
    };
    Some(Some(Starttls {
        dialect,
        sides: StarttlsSides { front: of_front.map(|(_, policy)| policy), back: of_back.is_some() },
        server_name,
        own_name: own_name(&back_keys.ehlo_name, of_back)?,
    }))
}

/// Checks keys for servers that greet first, because they are dialed before a hello is read.
fn greets_first(
    (front_keys, back_keys): (&WrittenFront<'_>, &WrittenBack<'_>),
    front: &FrontOptions,
    servers: &ServersOptions,
) -> Option<()> {
    if front.defer_accept {
        let message = "waits for clients to speak, and they wait to be greeted";
        return front_keys.defer_accept.fail(message, "take it out");
    }
    let name = servers.tls.as_ref().map(|tls| &tls.client.name);
    if let (Some(ExpectedName::OfClient), Some(tls)) = (name, &back_keys.tls) {
        let message = "is the client's, which is not known when the server has to greet it";
        let hint = "write the name that the servers' certificates have";
        return tls.name.fail(message, hint);
    }
    Some(())
}

/// Reads the host name that is sent to mail servers.
fn own_name(written: &Field<'_, Option<String>>, dialect: Option<Dialect>) -> Option<String> {
    let says_it = matches!(dialect, Some(Dialect::Smtp | Dialect::Lmtp));
    let Some(name) = written.value.clone()? else {
        return Some(if says_it { process::own_name() } else { String::new() });
    };
    let is_graphic = name.bytes().all(|byte| byte.is_ascii_graphic());
    if name.len() > HOST_NAME_BYTES_MAX || !is_graphic {
        let message = format!("\"{}\" is no name of a host", name.escape_debug());
        let hint = "for example \"mx.example.org\" or \"[192.0.2.1]\"";
        return written.fail(message, hint);
    }
    if !says_it {
        let message = "has no effect: no server of mail is asked for TLS";
        written.warn(message, "add back.starttls = \"smtp\", or take it out");
    }
    Some(name)
}

/// Enables ALPN `postgresql`, which PostgreSQL's clients that begin with TLS require.
fn speaks_postgresql(alpn: &KeyPlace<'_>, front: &mut FrontOptions, dialect: Dialect) {
    if let FrontTls::Terminate(terminated) = &mut front.tls
        && dialect == Dialect::Postgres
        && !alpn.is_written()
    {
        terminated.alpn = vec![b"postgresql".to_vec()];
    }
}

fn front_fits(
    keys: &WrittenFront<'_>,
    starttls: &KeyPlace<'_>,
    front: &FrontOptions,
) -> Option<()> {
    let FrontTls::Terminate(_) = &front.tls else {
        let message = "lets clients ask for TLS, and this service terminates none";
        return starttls.fail(message, "give the front `certificates` (--certificate)");
    };
    let by_hello = [&*keys.names, &*keys.protocols].into_iter();
    let Some(place) = by_hello.into_iter().find(|place| place.is_written()) else {
        return Some(());
    };
    let message = "is chosen by a ClientHello, and the server is needed before that";
    place.fail(message, "take it out, or take out `starttls`")
}

fn lacks_early_data(key: &KeyPlace<'_>, front: &FrontOptions) -> Option<()> {
    if let FrontTls::Terminate(tls) = &front.tls
        && let Tls13Sessions::Cache { early_data_bytes_max: 1.. } = tls.tls13_sessions
    {
        let message = "may be replayed, and no protocol of `starttls` allows for that";
        return key.fail(message, "take it out");
    }
    Some(())
}
