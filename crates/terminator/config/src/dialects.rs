//! What protocols with a request for TLS need of a service beside that: how long they are silent,
//! and whether their clients bind a login to TLS.

use std::time::Duration;

use options::{Problem, Section, Severity, quantity};
use proxy::options::FrontTls;
use wire::starttls::Dialect;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// `timeouts.idle` where no protocol is known: longer than HTTP servers' own keep-alive timeouts.
const IDLE: Duration = Duration::from_secs(300);

/// How long connections of a protocol are silent, and why. A peer that has vanished is found
/// sooner: `front.keepalive` and `back.keepalive` have the kernel ask.
fn silence(dialect: Dialect) -> (Duration, &'static str) {
    match dialect {
        Dialect::Smtp | Dialect::Lmtp => (
            10 * MINUTE,
            "clients wait so long for the answer to a message (RFC 5321 section 4.5.3.2.6)",
        ),
        Dialect::Pop3 => (
            10 * MINUTE,
            "servers wait at least so long (RFC 1939 section 3)",
        ),
        Dialect::Imap => (
            30 * MINUTE,
            "servers wait at least so long (RFC 9051 section 5.4)",
        ),
        Dialect::Sieve => (30 * MINUTE, "servers wait at least so long (RFC 5804)"),
        Dialect::Nntp => (30 * MINUTE, "INN waits so long (clienttimeout)"),
        Dialect::Mysql => (8 * HOUR, "servers wait so long (wait_timeout)"),
        Dialect::Ftp => (
            24 * HOUR,
            "it is silent during a transfer, which may take as long",
        ),
        Dialect::Postgres => (
            24 * HOUR,
            "servers wait for ever, and clients that LISTEN too",
        ),
        Dialect::Ldap | Dialect::Xmpp => (24 * HOUR, "servers wait for ever"),
    }
}

/// Whether the protocol's usual clients bind a login to TLS wherever they can (RFC 5802 section 6).
pub(crate) fn binds(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::Postgres | Dialect::Ldap | Dialect::Xmpp)
}

/// Whether some clients do: all that log in by SASL may.
fn may_bind(dialect: Dialect) -> bool {
    !binds(dialect) && !matches!(dialect, Dialect::Ftp | Dialect::Mysql)
}

/// `timeouts.idle`: what is written, or what the protocol needs.
pub(crate) fn idle(times: &Section<'_>, dialect: Option<Dialect>) -> Option<Duration> {
    let written = times.if_written("idle", Section::duration)?;
    Some(written.unwrap_or_else(|| dialect.map_or(IDLE, |one| silence(one).0)))
}

/// Says what follows from the protocol of a service, to who wants to know: the time without a byte
/// after which a connection ends, and logins that cannot hold.
pub(crate) fn remark(
    service: &Section<'_>,
    dialect: Dialect,
    front: &FrontTls,
    idle: Duration,
    has_back_tls: bool,
) {
    let (front_section, times) = (service.section("front"), service.section("timeouts"));
    let (side, section) = if front_section.has("starttls") {
        ("front.starttls", front_section)
    } else {
        ("back.starttls", service.section("back"))
    };
    let (silence, why) = silence(dialect);
    let (name, silence_shown) = (dialect.name(), quantity::show_duration(silence));
    if !times.has("idle") {
        let message =
            format!("{side} is `{name}`, so that timeouts.idle is {silence_shown}: {why}");
        section.say(Severity::Note, "starttls", Problem::new(message));
    } else if idle < silence {
        let message = format!("is less than the {silence_shown} that `{name}` needs: {why}");
        times.warn("idle", Problem::new(message).hint("take it out"));
    }
    if let (true, FrontTls::Terminate(_), true) = (may_bind(dialect), front, has_back_tls) {
        let message = format!(
            "both sides have TLS, of which a client of `{name}` sees one: a login that is bound to \
             TLS (SCRAM-*-PLUS, which few use) fails"
        );
        let hint = "give the front the server's own certificate (which tls-server-end-point is \
                    bound to), or the servers no TLS, or turn binding off in the clients";
        section.say(Severity::Note, "starttls", Problem::new(message).hint(hint));
    }
}
