//! Keys of a service's timeouts, and the timeouts that protocols with STARTTLS need.

use std::time::Duration;

use options::quantity::{DAY, HOUR};
use options::row::duration;
use options::{Field, KeyPlace, Problem, Severity, quantity, section, table};
use proxy::options::{FrontTls, Liveness, Timeouts};
use wire::starttls::Dialect;

const MINUTE: Duration = Duration::from_secs(60);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Maximum of `keepalive`; the kernel takes up to 32,767 s.
pub(crate) const KEEPALIVE_MAX: Duration = Duration::from_secs(9 * 3600);

/// `timeouts.idle` without a known protocol: longer than HTTP servers' own keep-alive timeouts.
const IDLE: Duration = Duration::from_secs(300);

section! {
    table("service.timeouts")
        .absent("").example(r#"timeouts = { handshake = "5s", idle = "1h" }"#);
    /// How long each part of a connection may take.
    pub(crate) struct WrittenTimeouts<'a> {
        /// Time from accept to the end of the handshake, with PROXY header and STARTTLS.
        handshake: Duration = duration(Duration::from_millis(10), HOUR)
            .default("10s").flag("handshake-timeout").example(r#"handshake = "5s""#),
        /// Time for one dial; then the next server is tried.
        dial: Duration = duration(Duration::from_millis(10), HOUR)
            .default("3s").flag("dial-timeout").example(r#"dial = "1s""#),
        /// Time for a server to greet and, with `back.starttls`, to agree to TLS, in addition to
        /// `dial`, `handshake` and `back.check.timeout`.
        greeting: Duration = duration(Duration::from_millis(10), HOUR)
            .default("30s").flag("greeting-timeout").example(r#"greeting = "5m""#),
        /// Time in which no byte comes from either side, and none is taken. Some protocols need
        /// more (docs/guide/starttls.md).
        idle: Option<Duration> = duration(Duration::from_millis(10), YEAR)
            .absent("5m; with `starttls` smtp, lmtp and pop3 10m; imap, sieve and nntp 30m; \
             mysql 8h; ftp, postgres, ldap and xmpp 24h")
            .flag("idle-timeout").example(r#"idle = "8h""#),
        /// Time from accept to the end of the connection.
        lifetime: Option<Duration> = duration(Duration::from_secs(1), YEAR)
            .absent("as long as client and server want").flag("lifetime")
            .example(r#"lifetime = "1h""#),
        /// Time for which a client or server may leave bytes unacknowledged, or take none
        /// (TCP_USER_TIMEOUT, RFC 5482).
        unacknowledged: Option<Duration> = duration(Duration::from_secs(1), DAY)
            .absent("the kernel's: about 15 minutes (net.ipv4.tcp_retries2)")
            .flag("unacknowledged-timeout").example(r#"unacknowledged = "30s""#),
        /// Time for a request for static files, from its first byte to its last.
        request: Duration = duration(Duration::from_millis(10), HOUR)
            .default("10s").flag("request-timeout").example(r#"request = "5s""#),
        /// Time for the file system to find or read what is not in memory.
        file: Duration = duration(Duration::from_millis(10), HOUR)
            .default("30s").flag("file-timeout").example(r#"file = "5s""#),
    }
}

/// Returns the idle timeout that a protocol needs, and why. A vanished peer is found sooner:
/// `front.keepalive` and `back.keepalive` have the kernel probe.
fn silence(dialect: Dialect) -> (Duration, &'static str) {
    match dialect {
        Dialect::Smtp | Dialect::Lmtp => (
            10 * MINUTE,
            "clients wait so long for the answer to a message (RFC 5321 section 4.5.3.2.6)",
        ),
        Dialect::Pop3 => (10 * MINUTE, "servers wait at least so long (RFC 1939 section 3)"),
        Dialect::Imap => (30 * MINUTE, "servers wait at least so long (RFC 9051 section 5.4)"),
        Dialect::Sieve => (30 * MINUTE, "servers wait at least so long (RFC 5804)"),
        Dialect::Nntp => (30 * MINUTE, "INN waits so long (clienttimeout)"),
        Dialect::Mysql => (8 * HOUR, "servers wait so long (wait_timeout)"),
        Dialect::Ftp => (24 * HOUR, "it is silent during a transfer, which may take as long"),
        Dialect::Postgres => (24 * HOUR, "servers wait for ever, and clients that LISTEN too"),
        Dialect::Ldap | Dialect::Xmpp => (24 * HOUR, "servers wait for ever"),
    }
}

/// Whether the protocol's usual clients bind a login to TLS wherever they can (RFC 5802 section 6).
pub(crate) fn binds(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::Postgres | Dialect::Ldap | Dialect::Xmpp)
}

/// Whether some clients bind a login to TLS: all that log in by SASL may.
fn may_bind(dialect: Dialect) -> bool {
    !binds(dialect) && !matches!(dialect, Dialect::Ftp | Dialect::Mysql)
}

/// Returns the timeouts of a connection: as written, or by default; the idle one depends on the
/// protocol.
pub(crate) fn timeouts(times: &WrittenTimeouts<'_>, dialect: Option<Dialect>) -> Option<Timeouts> {
    let idle = || dialect.map_or(IDLE, |one| silence(one).0);
    Some(Timeouts {
        handshake: times.handshake.value?,
        dial: times.dial.value?,
        greeting: times.greeting.value?,
        idle: times.idle.value?.unwrap_or_else(idle),
        lifetime: times.lifetime.value?,
    })
}

/// Returns how a vanished peer of one side is detected.
pub(crate) fn liveness(
    keepalive: &Field<'_, Duration>,
    times: &WrittenTimeouts<'_>,
) -> Option<Liveness> {
    Some(Liveness {
        keepalive: Some(keepalive.value?).filter(|idle| !idle.is_zero()),
        unacknowledged: times.unacknowledged.value?,
    })
}

/// Notes the consequences of the protocol that a key names, during an inspection: the idle timeout,
/// and logins that cannot succeed.
pub(crate) fn remark(
    (side, key): (&str, &KeyPlace<'_>),
    times: &WrittenTimeouts<'_>,
    dialect: Dialect,
    front: &FrontTls,
    has_back_tls: bool,
) {
    let (silence, why) = silence(dialect);
    let (name, shown) = (dialect.name(), quantity::show_duration(silence));
    match times.idle.value.flatten() {
        None => {
            let message = format!("{side} is `{name}`, so that timeouts.idle is {shown}: {why}");
            key.say(Severity::Note, Problem::new(message));
        }
        Some(idle) if idle < silence => {
            let message = format!("is less than the {shown} that `{name}` needs: {why}");
            times.idle.warn(message, "take it out");
        }
        Some(_) => {}
    }
    if let (true, FrontTls::Terminate(_), true) = (may_bind(dialect), front, has_back_tls) {
        let message = format!(
            "both sides have TLS, of which a client of `{name}` sees one: a login that is bound to \
             TLS (SCRAM-*-PLUS, which few use) fails"
        );
        let hint = "give the front the server's own certificate (which tls-server-end-point is \
                    bound to), or the servers no TLS, or turn binding off in the clients";
        key.say(Severity::Note, Problem::new(message).hint(hint));
    }
}
