//! Keys of sessions and tickets, which all services share.

use std::time::Duration;

use options::quantity::{DAY, SECOND};
use options::row::{count, duration, path, size};
use options::{Field, KeyPlace, choice, section, table};
use tls::options::ResumptionGroup;
use tls::resumption::keys::{KeyFileFault, ListedKeys, SharedSecret};
use tls::resumption::{KeySource, TicketOptions};
use zeroize::Zeroizing;

use crate::resolver::FileResolver;

section! {
    table("resumption")
        .absent("")
        .example(r#"resumption = { tickets = { rotate = "1h", keep = 24 } }"#);
    /// Sessions of all services. See docs/guide/resumption.md.
    pub(crate) struct WrittenResumption<'a> {
        session_cache: WrittenSessionCache<'a>,
        /// The place of sessions of TLS 1.3: with clients (`tickets`), or in the session cache
        /// (`cache`). `auto` is `cache` for services with `early-data`, else `tickets`.
        tls13: Tls13Choice = choice![
            "auto" => Tls13Choice::Auto,
            "tickets" => Tls13Choice::Tickets,
            "cache" => Tls13Choice::Cache,
        ].default("auto").flag("tls13-sessions").example(r#"tls13 = "cache""#),
        /// The key exchange when a session that began with ML-KEM is resumed: as in full handshakes
        /// (`session`), or by a classical group alone.
        group: ResumptionGroup = choice![
            "session" => ResumptionGroup::Session,
            "classical" => ResumptionGroup::Classical,
        ].default("session").flag("resumption-group").example(r#"group = "classical""#),
        tickets: WrittenTickets<'a>,
    }
}

section! {
    table("resumption.session-cache")
        .absent("")
        .example(r#"session-cache = { entries = 100000, lifetime = "1h" }"#);
    /// The session cache: for clients of TLS 1.2 without tickets, and for TLS 1.3 by `tls13`.
    pub(crate) struct WrittenSessionCache<'a> {
        /// Sessions in the cache; if it is full, those never resumed leave first.
        entries: usize = count(1, 100_000_000)
            .default("100000").flag("session-entries").example("entries = 1000000"),
        /// Memory of the cache.
        bytes: usize = size(1 << 16, 1 << 40)
            .default("64MiB").flag("session-bytes").example(r#"bytes = "256MiB""#),
        /// How long a session in the cache may be resumed.
        lifetime: Duration = duration(SECOND, DAY)
            .default("1h").flag("session-lifetime").example(r#"lifetime = "10m""#),
    }
}

section! {
    table("resumption.tickets")
        .absent("").example(r#"tickets = { rotate = "12h", keep = 4 }"#);
    /// The keys of tickets (TLS 1.2) and PSKs (TLS 1.3).
    pub(crate) struct WrittenTickets<'a> {
        /// How long one key encrypts.
        rotate: Duration = duration(Duration::from_secs(60), DAY.saturating_mul(7))
            .default("12h").flag("ticket-rotate").example(r#"rotate = "1h""#),
        /// How many older keys still decrypt.
        keep: u32 = count(1, 100).default("4").flag("ticket-keep").example("keep = 24"),
        /// How long a ticket may be resumed, at most as long as its key is kept (RFC 8446, 4.6.1).
        lifetime: Option<Duration> = duration(SECOND, DAY.saturating_mul(7))
            .absent("`keep` times `rotate`, at most 7 days").flag("ticket-lifetime")
            .example(r#"lifetime = "1h""#),
        /// Tickets after a TLS 1.3 handshake; a client may ask for up to 4 (RFC 9149), unless this
        /// is 0.
        count: usize = count(0, 4).default("1").flag("ticket-count").example("count = 2"),
        /// A file with at least 32 random bytes from which keys are derived.
        secret: Option<String> = path()
            .absent("a random one, made when the supervisor starts").flag("ticket-secret")
            .example(r#"secret = "/etc/lariat/tickets.secret""#),
        /// Files with ticket keys in the form of nginx or HAProxy, which you rotate.
        keys: Vec<String> = path()
            .many().absent("keys are derived and rotated").flag("ticket-key")
            .example(r#"keys = ["/etc/lariat/tickets.keys"]"#),
    }
}

/// Storage of TLS 1.3 sessions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tls13Choice {
    /// Tickets, but the cache for services that accept early data.
    Auto,
    Tickets,
    Cache,
}

pub(crate) fn session_options(cache: &WrittenSessionCache<'_>) -> Option<session::Options> {
    Some(session::Options {
        entries_max: cache.entries.value?,
        bytes_max: cache.bytes.value?,
        lifetime: cache.lifetime.value?,
    })
}

/// Reads `resumption.tickets`. Unless it names a source of keys, they are derived from the
/// cluster's secrets, if there are any.
pub(crate) fn ticket_options(
    tickets: &WrittenTickets<'_>,
    cluster: Vec<SharedSecret>,
    resolver: &mut FileResolver<'_>,
) -> Option<TicketOptions> {
    let keys = match ticket_keys(tickets, resolver)? {
        KeySource::Own if !cluster.is_empty() => KeySource::Shared(cluster),
        keys => keys,
    };
    Some(TicketOptions {
        keys,
        rotate: tickets.rotate.value?,
        keep: tickets.keep.value?,
        lifetime: tickets.lifetime.value?,
        count: tickets.count.value?,
    })
}

fn ticket_keys(tickets: &WrittenTickets<'_>, resolver: &mut FileResolver<'_>) -> Option<KeySource> {
    let secret = &tickets.secret;
    if !tickets.keys.is_written() {
        return Some(match secret.value.as_ref()? {
            Some(path) => KeySource::Shared(vec![shared_secret(secret, path, resolver)?]),
            None => KeySource::Own,
        });
    }
    if secret.is_written() {
        return secret.fail("is one way to keys, `keys` is another", "write one of them");
    }
    for place in [&*tickets.rotate, &*tickets.keep] {
        let message = "has no effect on keys from files";
        place.warn_unless(false, message, "rotate them in the files, then reload");
    }
    listed_keys(&tickets.keys, resolver)
}

fn listed_keys(
    listed: &Field<'_, Vec<String>>,
    resolver: &mut FileResolver<'_>,
) -> Option<KeySource> {
    let mut files = Vec::new();
    for path in listed.value.as_ref()? {
        let (path, bytes) = resolver.secret(listed, path)?;
        files.push((path.display().to_string(), bytes));
    }
    let taken = |(place, mut bytes): (String, Zeroizing<Vec<u8>>)| {
        // The caller zeroes the bytes.
        (place, std::mem::take(&mut *bytes))
    };
    let keys = ListedKeys::read(files.into_iter().map(taken).collect());
    let hint = "make one with `(umask 077; openssl rand 80 > ticket.key)`, or a line with \
                `openssl rand -base64 48`";
    let fault = |fault: KeyFileFault| listed.refuse(fault.to_string(), hint);
    keys.map_err(fault).ok().map(KeySource::Listed)
}

/// Reads the secret from a file that a key names.
pub(crate) fn shared_secret(
    key: &KeyPlace<'_>,
    path: &str,
    resolver: &mut FileResolver<'_>,
) -> Option<SharedSecret> {
    let path = resolver.base.join(path);
    let bytes = resolver.read(key, &path)?;
    resolver.is_private(key, &path);
    let hint = "make one with `openssl rand -base64 48`";
    let fault = |fault: KeyFileFault| key.refuse(fault.to_string(), hint);
    let secret = SharedSecret::read(&path.display().to_string(), bytes);
    let secret = secret.map_err(fault).ok()?;
    resolver.files.replace(&path, &secret.for_workers());
    if secret.is_guessable() {
        let message = format!("can be guessed: {} is not random", path.display());
        key.warn(message, "make one with `openssl rand -hex 32`");
    }
    Some(secret)
}
