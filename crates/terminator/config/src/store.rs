//! Keys of the store through which hosts share sessions: `[cluster.store]`.

use std::time::Duration;

use options::quantity::SECOND;
use options::row::{count, duration, networks, path, row, text};
use options::{Field, Key, Kind, Problem, Severity, Value, section, table};
use tls::options::{ClientOptions, ExpectedName, OfferedAlpn, ServerVerification, Suites, Version};
use tls::verify;
use wire::address::{Address, Endpoint, UnixName};
use zeroize::Zeroizing;

use crate::settings::{Password, StoreKind, StoreOptions};

use crate::resolver::{FileResolver, networks_of, password, problem};
use crate::tls_choices::RECOMMENDED_GROUPS;

/// Ports of Redis and Valkey, and of their sentinels.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Most fetches per second; no store answers more.
const RATE_MAX: u64 = 10_000_000;
const MS: Duration = Duration::from_millis(1);

const EXAMPLE: &str = "write for example \"redis://10.0.0.5:6379/0\", \"rediss://lariat@sessions.example\" \
                       or \"unix:/run/redis/redis.sock\"";

#[derive(Debug, Eq, PartialEq)]
struct StoreUrl {
    node: Endpoint,
    tls: bool,
    user: Option<String>,
    password: Option<Password>,
    database: u16,
}

section! {
    table("cluster.store")
        .absent("stored sessions go to no store").shorthand("url")
        .example(r#"store = "redis://10.0.0.5:6379/0""#);
    /// Keeps stored sessions in Valkey or Redis (6.2 or newer) as well, encrypted, for all hosts.
    pub(crate) struct WrittenStore<'a> {
        /// `redis://USER:PASSWORD@HOST:PORT/DATABASE` or `valkey://` (by default port 6379 and
        /// database 0), `rediss://` or `valkeys://` for TLS, or `unix:PATH`.
        url: String = text("URL")
            .flag("cluster-store").example(r#"url = "rediss://lariat@sessions.example:6379/0""#),
        /// A file with the store's password.
        password_file: Option<String> = path()
            .absent("the password of `url`, or none").flag("cluster-store-password-file")
            .requires(&["url"]).example(r#"password-file = "/etc/lariat/store.password""#),
        /// PEM files with the authorities of the store's certificate.
        ca: Vec<String> = path()
            .many().absent("with `rediss://`, the authorities that this host trusts")
            .flag("cluster-store-ca").requires(&["url"])
            .example(r#"ca = ["/etc/lariat/store-ca.pem"]"#),
        /// Further nodes of a Redis Cluster, or with `sentinel` further sentinels, and masters.
        nodes: Vec<String> = row(Kind::Text("HOST:PORT"), node_text)
            .repeated().absent("the store is one server, at `url`").flag("cluster-store-node")
            .requires(&["url"]).example(r#"nodes = ["10.0.0.6:6379", "10.0.0.7:6379"]"#),
        /// Networks of nodes that a cluster or sentinel may name, or files that list them.
        networks: Vec<String> = networks()
            .many().absent("none but the hosts of `url` and `nodes`")
            .flag("cluster-store-network").requires(&["url"])
            .example(r#"networks = ["10.0.0.0/24"]"#),
        /// The service that Redis Sentinel watches: `url` and `nodes` are then sentinels; user,
        /// password and database are the master's.
        sentinel: Option<String> = text("SERVICE")
            .absent("no sentinel is asked").flag("cluster-store-sentinel").requires(&["url"])
            .example(r#"sentinel = "sessions""#),
        /// A file with the password of the sentinels.
        sentinel_password_file: Option<String> = path()
            .absent("sentinels want none").flag("cluster-store-sentinel-password-file")
            .requires(&["sentinel"])
            .example(r#"sentinel-password-file = "/etc/lariat/sentinel.password""#),
        /// The beginning of all names in the store; each cluster that shares it needs another.
        prefix: String = text("TEXT")
            .default("lariat:").flag("cluster-store-prefix").requires(&["url"])
            .example(r#"prefix = "web:tls:""#),
        /// How long a handshake waits for the store.
        fetch_timeout: Duration = duration(MS, SECOND)
            .default("20ms").flag("cluster-store-fetch-timeout").requires(&["url"])
            .example(r#"fetch-timeout = "50ms""#),
        /// Sessions that the store is asked for per second; beyond it, clients get full handshakes.
        fetch_rate: u32 = count(0, RATE_MAX)
            .default("10000").flag("cluster-store-fetch-rate").requires(&["url"])
            .example("fetch-rate = 2000"),
    }
}

pub(crate) fn store_options(
    store: &WrittenStore<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<StoreOptions> {
    let has_sentinel = store.sentinel.is_written();
    let port = if has_sentinel { SENTINEL_PORT } else { PORT };
    let url = store_url(&store.url, port);
    let of_file = password(&store.password_file, resolver);
    let sentinel_password = password(&store.sentinel_password_file, resolver);
    let networks = networks_of(&store.networks, resolver);
    let nodes = store.nodes.value.as_ref()?.iter();
    let more: Vec<_> = nodes.filter_map(|text| node(text, port).ok()).collect();
    let (url, password) = (url?, of_file?);
    let kind = match (store.sentinel.value.clone()?, more.is_empty()) {
        (Some(service), _) => StoreKind::Sentinel { service, password: sentinel_password? },
        (None, true) => StoreKind::Single,
        (None, false) => StoreKind::Cluster,
    };
    if url.password.is_some() && password.is_some() {
        let hint = "take the one in `url` out: a file can be kept from being read";
        return store.password_file.fail("stands beside a password in `url`", hint);
    }
    if url.tls && matches!(url.node, Endpoint::Address(Address::Unix(_))) {
        return store.url.fail("asks for TLS at a Unix socket", "take TLS out");
    }
    if kind == StoreKind::Cluster && url.database != 0 {
        let hint = "a Redis Cluster has database 0 alone: take the number out of `url`";
        return store.nodes.fail("name a cluster, and `url` a database", hint);
    }
    let message = "has no effect: the store is spoken to without TLS";
    store.ca.warn_unless(url.tls, message, "write rediss:// in `url`");
    let message = "have no effect: the store is one server, which names no other";
    store.networks.warn_unless(kind != StoreKind::Single, message, "take them out");
    let tls = if url.tls { Some(client_options(store, resolver)?) } else { None };
    Some(StoreOptions {
        nodes: std::iter::once(url.node).chain(more).collect(),
        kind,
        tls,
        networks: networks?,
        user: url.user,
        password: password.or(url.password),
        database: url.database,
        prefix: store.prefix.value.clone()?,
        fetch_timeout: store.fetch_timeout.value?,
        fetch_rate: store.fetch_rate.value?,
    })
}

fn store_url(key: &Field<'_, String>, port: u16) -> Option<StoreUrl> {
    let why = match parse(key.value.as_deref()?, port) {
        Ok(url) => return Some(url),
        Err(why) => why,
    };
    key.fail(format!("is no URL of a store: {why}"), EXAMPLE)
}

/// Reads the text of a node, and checks that it parses.
fn node_text(value: &Value, _: &Key) -> Result<String, Problem> {
    let text = options::as_text(value)?;
    let hint = "write a host and a port, such as \"10.0.0.6:6379\"";
    match node(text, PORT) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(Problem::new(format!("\"{text}\" {why}")).hint(hint)),
    }
}

/// The TLS of a store: a node proves the host by which it was found.
fn client_options(
    store: &WrittenStore<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<ClientOptions> {
    let authorities = resolver.authorities(&store.ca)?;
    let is_written = store.ca.is_written();
    if is_written {
        for concern in verify::concerns_of(&authorities) {
            let problem = problem(&concern.to_string());
            store.ca.say(Severity::Warning, problem);
        }
    }
    Some(ClientOptions {
        verification: Some(ServerVerification {
            authorities,
            are_of_host: !is_written,
            ..ServerVerification::default()
        }),
        pins: Vec::new(),
        name: ExpectedName::OfClient,
        certificate: None,
        version_min: Version::Tls12,
        version_max: Version::Tls13,
        suites: Suites::Auto,
        groups: RECOMMENDED_GROUPS.to_vec(),
        alpn: OfferedAlpn::Fixed(Vec::new()),
        // Connections are long-lived.
        resumption: false,
        key_log: false,
        certificate_compression: true,
    })
}

/// Parses a URL (RFC 3986) in the form of Redis clients.
fn parse(text: &str, default_port: u16) -> Result<StoreUrl, &'static str> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        let name: UnixName = path.parse().map_err(|_| "it has no path")?;
        return match name {
            UnixName::Path(_) => Ok(StoreUrl {
                node: Endpoint::Address(Address::Unix(name)),
                tls: false,
                user: None,
                password: None,
                database: 0,
            }),
            UnixName::Abstract(_) => Err("abstract Unix sockets are not for stores"),
        };
    }
    let (scheme, rest) = text.split_once("://").ok_or("it has no `://`")?;
    let tls = match scheme {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err("its scheme is none of redis, rediss, valkey, valkeys, unix"),
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user_info, host) = match authority.rsplit_once('@') {
        Some((user_info, host)) => (user_info, host),
        None => ("", authority),
    };
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let filled = |text: &str| decoded(text).map(|text| (!text.is_empty()).then_some(text));
    let password = filled(password)?.map(|text| Password(Zeroizing::new(text)));
    let database = match path {
        "" => 0,
        number => number.parse().map_err(|_| "its database is no number")?,
    };
    Ok(StoreUrl { node: node(host, default_port)?, tls, user: filled(user)?, password, database })
}

/// Parses a host with or without a port.
fn node(text: &str, default_port: u16) -> Result<Endpoint, &'static str> {
    let has_port = match text.rsplit_once(']') {
        Some((_, rest)) => rest.starts_with(':'),
        None => text.contains(':'),
    };
    let full = if has_port { text.to_owned() } else { format!("{text}:{default_port}") };
    match full.parse() {
        Ok(endpoint @ (Endpoint::Address(Address::Ip(_)) | Endpoint::Name { .. }))
            if !text.starts_with('*') =>
        {
            Ok(endpoint)
        }
        Ok(_) | Err(_) => Err("names no host with a port"),
    }
}

/// Decodes percent-encoding (RFC 3986 section 2.1).
fn decoded(text: &str) -> Result<String, &'static str> {
    const WRONG: &str = "a `%` is not followed by two hexadecimal digits of UTF-8";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit().ok_or(WRONG)?, digit().ok_or(WRONG)?);
                u8::try_from(high << 4 | low).map_err(|_| WRONG)?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| WRONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_those_of_other_clients() {
        let long = "rediss://lariat:p%40ss%3a@[fd00::5]:7000/3";
        for (text, node, tls, user, password, database) in [
            ("redis://10.0.0.5", "10.0.0.5:6379", false, None, None, 0),
            ("valkey://a.example/", "a.example:6379", false, None, None, 0),
            ("valkeys://:p@a.example:1/2", "a.example:1", true, None, Some("p"), 2),
            (long, "[fd00::5]:7000", true, Some("lariat"), Some("p@ss:"), 3),
            ("redis://u@[::1]", "[::1]:6379", false, Some("u"), None, 0),
            ("unix:/run/r.sock", "unix:/run/r.sock", false, None, None, 0),
            ("unix:///run/r.sock", "unix:/run/r.sock", false, None, None, 0),
        ] {
            let url = parse(text, PORT).unwrap();
            assert_eq!(url.node.to_string(), node, "{text}");
            let found = url.password.as_ref().map(|password| password.0.as_str());
            assert_eq!(
                (url.tls, url.user.as_deref(), found, url.database),
                (tls, user, password, database),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_url_is_told_why() {
        for (text, why) in [
            ("10.0.0.5:6379", "no `://`"),
            ("http://10.0.0.5", "scheme"),
            ("redis://", "host"),
            ("redis://*:6379", "host"),
            ("redis://srv:_redis._tcp.example", "host"),
            ("redis://unix:/run/r.sock", "database"),
            ("redis://10.0.0.5:99999", "host"),
            ("redis://10.0.0.5/first", "database"),
            ("redis://10.0.0.5/-1", "database"),
            ("redis://u:%4@10.0.0.5", "hexadecimal"),
            ("redis://u:%ff@10.0.0.5", "UTF-8"),
            ("unix:", "path"),
            ("unix:@store", "abstract"),
        ] {
            let fault = parse(text, PORT).unwrap_err();
            assert!(fault.contains(why), "{text}: {fault}");
        }
    }
}
