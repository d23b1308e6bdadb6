//! The keys of the conversation before TLS, on either side of a service.

use options::{Problem, Section};
use proxy::options::{BackOptions, FrontOptions, FrontTls, Starttls};
use sys::process;
use tls::options::{ExpectedName, Tls13Sessions};
use wire::starttls::{Dialect, Policy, Sides};

/// RFC 1035 section 2.3.4.
const HOST_NAME_BYTES_MAX: usize = 255;

/// Reads `front.starttls` and `back.starttls`; `Some(None)` = neither is there.
#[allow(
    clippy::option_option,
    reason = "two kinds of absence meet here and are told apart"
)]
pub(crate) fn read(
    service: &Section<'_>,
    front: &mut FrontOptions,
    back: &BackOptions,
) -> Option<Option<Starttls>> {
    let (front_section, back_section) = (service.section("front"), service.section("back"));
    let of_front = match front_section.section_if_written("starttls") {
        None => None,
        Some(section) => Some(of_front(&section)?),
    };
    let of_back =
        back_section.if_written("starttls", |back, key| back.choice(key, Dialect::ALL))?;
    let Some(dialect) = of_front.map(|(dialect, _)| dialect).or(of_back) else {
        own_name(&back_section, None)?;
        return Some(None);
    };
    if of_back.is_some_and(|other| other != dialect) {
        let message = "is another protocol than that of `front.starttls`, and nothing translates";
        back_section.refuse("starttls", message, "write the same at both");
        return None;
    }
    let Some(servers) = back.servers() else {
        let message = "is a conversation with servers, and the service has none";
        front_section.refuse("starttls", message, "take it out");
        return None;
    };
    lacks_early_data(&front_section, front)?;
    if of_front.is_some() {
        front_fits(&front_section, front)?;
        speaks_postgresql(&front_section.section("tls"), front, dialect);
    }
    if of_front == Some((Dialect::Xmpp, Policy::Optional)) {
        let message = "is optional, and the stream before TLS is not the server's to continue";
        front_section.refuse("starttls", message, "write policy = \"required\"");
        return None;
    }
    if of_back.is_some() && servers.tls.is_none() {
        let message = "asks servers for TLS, and they are to get plaintext";
        back_section.refuse("starttls", message, "add back.tls (--backend-tls)");
        return None;
    }
    if of_front.is_some() && dialect.is_greeted() && front.defer_accept {
        let message = "waits for clients to speak, and they wait to be greeted";
        front_section.refuse("defer-accept", message, "take it out");
        return None;
    }
    let name = servers.tls.as_ref().map(|tls| &tls.client.name);
    if of_front.is_some() && dialect.is_greeted() && name == Some(&ExpectedName::OfClient) {
        let message = "is the client's, which is not known when the server has to greet it";
        let hint = "write the name that the servers' certificates have";
        back_section.section("tls").refuse("name", message, hint);
        return None;
    }
    let server_name = match name {
        Some(ExpectedName::Fixed(name)) => Some(name.clone()),
        _ => servers.hosts().into_iter().flatten().next(),
    };
    Some(Some(Starttls {
        dialect,
        sides: Sides {
            front: of_front.map(|(_, policy)| policy),
            back: of_back.is_some(),
        },
        server_name,
        own_name: own_name(&back_section, of_back)?,
    }))
}

/// The name that mail servers are told.
fn own_name(back: &Section<'_>, dialect: Option<Dialect>) -> Option<String> {
    let says_it = matches!(dialect, Some(Dialect::Smtp | Dialect::Lmtp));
    let Some(name) = back.text_if_written("ehlo-name")? else {
        return Some(if says_it {
            process::own_name()
        } else {
            String::new()
        });
    };
    let is_one = |name: &str| name.bytes().all(|byte| byte.is_ascii_graphic());
    if name.is_empty() || name.len() > HOST_NAME_BYTES_MAX || !is_one(&name) {
        let message = format!("\"{}\" is no name of a host", name.escape_debug());
        back.refuse(
            "ehlo-name",
            message,
            "for example \"mx.example.org\" or \"[192.0.2.1]\"",
        );
        return None;
    }
    if !says_it {
        let problem = Problem::new("has no effect: no server of mail is asked for TLS");
        back.warn(
            "ehlo-name",
            problem.hint("add back.starttls = \"smtp\", or take it out"),
        );
    }
    Some(name)
}

/// Clients of PostgreSQL that begin with TLS ask for that protocol, and want it agreed on.
fn speaks_postgresql(tls: &Section<'_>, front: &mut FrontOptions, dialect: Dialect) {
    if let FrontTls::Terminate(terminated) = &mut front.tls
        && dialect == Dialect::Postgres
        && !tls.has("alpn")
    {
        terminated.alpn = vec![b"postgresql".to_vec()];
    }
}

fn of_front(section: &Section<'_>) -> Option<(Dialect, Policy)> {
    let dialect = section.choice("protocol", Dialect::ALL);
    let policy = section.choice(
        "policy",
        &[
            ("required", Policy::Required),
            ("optional", Policy::Optional),
        ],
    );
    Some((dialect?, policy?))
}

fn front_fits(section: &Section<'_>, front: &FrontOptions) -> Option<()> {
    let FrontTls::Terminate(_) = &front.tls else {
        let message = "lets clients ask for TLS, and this service terminates none";
        let hint = "give the front `certificates` (--certificate)";
        section.refuse("starttls", message, hint);
        return None;
    };
    for key in ["names", "protocols"] {
        if section.has(key) {
            let message = "is chosen by a ClientHello, and the server is needed before that";
            section.refuse(key, message, "take it out, or take out `starttls`");
            return None;
        }
    }
    Some(())
}

fn lacks_early_data(section: &Section<'_>, front: &FrontOptions) -> Option<()> {
    if let FrontTls::Terminate(tls) = &front.tls
        && let Tls13Sessions::Cache {
            early_data_bytes_max: 1..,
        } = tls.tls13_sessions
    {
        let message = "may be replayed, and no protocol of `starttls` allows for that";
        section
            .section("tls")
            .refuse("early-data", message, "take it out");
        return None;
    }
    Some(())
}
