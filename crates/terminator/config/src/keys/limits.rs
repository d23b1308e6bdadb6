//! The rows about what a service's connections may take.

use std::time::Duration;

use options::{Key, Kind, key};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// The keys of `service.timeouts` and `service.limits`.
pub(super) const LIMITS: &[Key] = &[
    key("service.timeouts", Kind::Table)
        .absent("their defaults")
        .help("How long each part of a connection may take.")
        .example(r#"timeouts = { handshake = "5s", idle = "1h" }"#),
    key(
        "service.timeouts.handshake",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("10s")
    .flag("handshake-timeout")
    .help(
        "Time from accept to the end of the handshake, including any PROXY header. \
             Long enough for a lost packet on a slow path, short enough that silent \
             clients do not accumulate.",
    )
    .example(r#"handshake = "5s""#),
    key(
        "service.timeouts.dial",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("3s")
    .flag("dial-timeout")
    .help(
        "Time for one dial of one server; then the next server is tried. Long enough \
             for two lost SYNs.",
    )
    .example(r#"dial = "1s""#),
    key(
        "service.timeouts.greeting",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("30s")
    .flag("greeting-timeout")
    .help(
        "Time from the connection to a server until it has greeted, and agreed to TLS where \
             `back.starttls` asks for it. Servers of mail, news and files greet after a pause, \
             against spam or to look a name up; `dial` and `back.check.timeout` do not count it, \
             nor does `handshake`. RFC 5321 section 4.5.3.2.1 has clients wait for five minutes.",
    )
    .example(r#"greeting = "5m""#),
    key(
        "service.timeouts.idle",
        Kind::Duration(Duration::from_millis(10), YEAR),
    )
    .absent(
        "5m; with `starttls` smtp, lmtp and pop3 10m; imap, sieve and nntp 30m; mysql 8h; ftp, \
         postgres, ldap and xmpp 24h",
    )
    .flag("idle-timeout")
    .help(
        "Time without a byte in either direction; a peer that takes what the kernel has \
             for it is not idle. It removes connections that nobody uses, and is longer than HTTP \
             servers' own keep-alive timeouts. A protocol with TLS from its first byte is not \
             known to be one: IMAP at port 993 needs `30m`, databases, directories and chat hours.",
    )
    .example(r#"idle = "8h""#),
    key(
        "service.timeouts.lifetime",
        Kind::Duration(Duration::from_secs(1), YEAR),
    )
    .absent("as long as client and server want")
    .flag("lifetime")
    .help(
        "Time from accept to the end of the connection, whatever it does; it is logged as \
             `lifetime-reached`. The client gets close_notify, unless it waits for a part of \
             an answer. With it, no connection outlives a revocation, or a change of \
             servers, by more.",
    )
    .example(r#"lifetime = "1h""#),
    key(
        "service.timeouts.unacknowledged",
        Kind::Duration(Duration::from_secs(1), DAY),
    )
    .absent("the kernel's: about 15 minutes (net.ipv4.tcp_retries2)")
    .flag("unacknowledged-timeout")
    .help(
        "Time for which a client or a server may leave bytes unacknowledged, or take none \
             that wait for it; then TCP gives it up (TCP_USER_TIMEOUT, RFC 5482; HAProxy: \
             `tcp-ut`). A client that pauses a download for longer is dropped as well.",
    )
    .example(r#"unacknowledged = "30s""#),
    key(
        "service.timeouts.request",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("10s")
    .flag("request-timeout")
    .help(
        "Time from the first byte of a request for static files to its last; then it \
             is answered with 408. HAProxy calls it `timeout http-request`. Long enough \
             for a few lost packets, short enough that heads sent a byte at a time do not \
             accumulate.",
    )
    .example(r#"request = "5s""#),
    key(
        "service.timeouts.file",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("30s")
    .flag("file-timeout")
    .help(
        "Time that the file system may take to find, list or read something that is \
             not in memory; then the request is answered with 503, or its response is \
             cut. A disk that has to spin up takes up to twenty seconds.",
    )
    .example(r#"file = "5s""#),
    key("service.limits", Kind::Table)
        .absent("only the limits of the process")
        .help("Limits of one service.")
        .example("limits = { connections = 1000 }"),
    key("service.limits.connections", Kind::Count(1, 10_000_000))
        .absent("only the limit of the process")
        .flag("service-connections")
        .help("Open connections of this service over all workers; more are closed at once.")
        .example("connections = 1000"),
];
