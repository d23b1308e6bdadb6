//! The keys of the conversation before TLS, on either side of a service.

use options::{Field, KeyPlace};
use proxy::options::{BackOptions, FrontOptions, FrontTls, ServersOptions, Starttls};
use sys::process;
use tls::options::{ExpectedName, Tls13Sessions};
use wire::starttls::{Dialect, Policy, Sides};

use crate::back::WrittenBack;
use crate::front::WrittenFront;

/// RFC 1035 section 2.3.4.
const HOST_NAME_BYTES_MAX: usize = 255;

/// Reads `front.starttls` and `back.starttls`; `Some(None)` = neither is there.
pub(crate) fn starttls_options(
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
        sides: Sides { front: of_front.map(|(_, policy)| policy), back: of_back.is_some() },
        server_name,
        own_name: own_name(&back_keys.ehlo_name, of_back)?,
    }))
}

/// A server that greets clients is connected before anything is known of them.
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

/// The name that mail servers are told.
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

/// Clients of PostgreSQL that begin with TLS ask for that protocol, and want it agreed on.
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
