//! The store in which hosts find each other's sessions: `[cluster.store]`.

use options::{Problem, Section};
use tls::options::{ClientOptions, ExpectedName, OfferedAlpn, ServerVerification, Suites, Version};
use tls::verify;
use wire::address::{Address, Endpoint, UnixName};
use zeroize::Zeroizing;

use crate::certificates::{self, Shelf};
use crate::settings::{Password, StoreKind, StoreOptions};
use crate::{inspection, networks, presets};

/// Where Redis and Valkey listen, and where their sentinels do.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

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

pub(crate) fn read(section: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<StoreOptions> {
    let has_sentinel = section.has("sentinel");
    let port = if has_sentinel { SENTINEL_PORT } else { PORT };
    let url = section.one("url", |value, _| {
        let text = options::text(value)?;
        parse(text, port)
            .map_err(|why| Problem::new(format!("is no URL of a store: {why}")).hint(EXAMPLE))
    });
    let more = section.list("nodes", |value, _| {
        let text = options::text(value)?;
        let hint = "write a host and a port, such as \"10.0.0.6:6379\"";
        node(text, port).map_err(|why| Problem::new(format!("\"{text}\" {why}")).hint(hint))
    });
    let password = password(section, "password-file", shelf);
    let sentinel = section.if_written("sentinel", Section::text);
    let sentinel_password = self::password(section, "sentinel-password-file", shelf);
    let networks = networks::read(section, "networks", shelf);
    let prefix = section.text("prefix");
    let fetch_timeout = section.duration("fetch-timeout");
    let fetch_rate = section.count("fetch-rate");
    let (url, more, password) = (url?, more?, password?);
    let kind = match (sentinel?, more.is_empty()) {
        (Some(service), _) => StoreKind::Sentinel {
            service,
            password: sentinel_password?,
        },
        (None, true) => StoreKind::Single,
        (None, false) => StoreKind::Cluster,
    };
    if url.password.is_some() && password.is_some() {
        let hint = "take the one in `url` out: a file can be kept from being read";
        section.refuse("password-file", "stands beside a password in `url`", hint);
        return None;
    }
    if url.tls && matches!(url.node, Endpoint::Address(Address::Unix(_))) {
        section.refuse("url", "asks for TLS at a Unix socket", "take TLS out");
        return None;
    }
    if kind == StoreKind::Cluster && url.database != 0 {
        let hint = "a Redis Cluster has database 0 alone: take the number out of `url`";
        section.refuse("nodes", "name a cluster, and `url` a database", hint);
        return None;
    }
    if !url.tls && section.has("ca") {
        let problem = Problem::new("has no effect: the store is spoken to without TLS");
        section.warn("ca", problem.hint("write rediss:// in `url`"));
    }
    if kind == StoreKind::Single && section.has("networks") {
        let problem = Problem::new("have no effect: the store is one server, which names no other");
        section.warn("networks", problem.hint("take them out"));
    }
    let tls = if url.tls {
        Some(client(section, shelf)?)
    } else {
        None
    };
    Some(StoreOptions {
        nodes: std::iter::once(url.node).chain(more).collect(),
        kind,
        tls,
        networks: networks?,
        user: url.user,
        password: password.or(url.password),
        database: url.database,
        prefix: prefix?,
        fetch_timeout: fetch_timeout?,
        fetch_rate: fetch_rate?,
    })
}

/// The TLS of a store: a node proves the host by which it was found.
fn client(section: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<ClientOptions> {
    let authorities = certificates::authorities(section, shelf)?;
    if section.has("ca") {
        for concern in verify::concerns_of(&authorities) {
            section.warn("ca", inspection::problem(&concern.to_string()));
        }
    }
    Some(ClientOptions {
        verification: Some(ServerVerification {
            authorities,
            are_of_host: !section.has("ca"),
            ..ServerVerification::default()
        }),
        pins: Vec::new(),
        name: ExpectedName::OfClient,
        certificate: None,
        version_min: Version::Tls12,
        version_max: Version::Tls13,
        suites: Suites::Auto,
        groups: presets::GROUPS.to_vec(),
        alpn: OfferedAlpn::Fixed(Vec::new()),
        // Connections last.
        resumption: false,
    })
}

/// The password in the file that a key names; `Some(None)` = it names none.
#[allow(
    clippy::option_option,
    reason = "two kinds of absence meet here and are told apart"
)]
fn password(section: &Section<'_>, key: &str, shelf: &mut Shelf<'_>) -> Option<Option<Password>> {
    if !section.has(key) {
        return Some(None);
    }
    let path = shelf.base.join(section.text(key)?);
    let bytes = Zeroizing::new(shelf.read(section, key, &path)?);
    let text = std::str::from_utf8(&bytes).map(str::trim_ascii_end);
    match text {
        Ok(text) if !text.is_empty() => Some(Some(Password(Zeroizing::new(text.to_owned())))),
        Ok(_) | Err(_) => {
            let problem = format!("{} holds no password", path.display());
            section.refuse(key, problem, "write the password into it, as UTF-8");
            None
        }
    }
}

/// Reads a URL (RFC 3986), as clients of Redis have it.
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
    Ok(StoreUrl {
        node: node(host, default_port)?,
        tls,
        user: filled(user)?,
        password,
        database,
    })
}

/// A host with or without a port.
fn node(text: &str, default_port: u16) -> Result<Endpoint, &'static str> {
    let has_port = match text.rsplit_once(']') {
        Some((_, rest)) => rest.starts_with(':'),
        None => text.contains(':'),
    };
    let full = if has_port {
        text.to_owned()
    } else {
        format!("{text}:{default_port}")
    };
    match full.parse() {
        Ok(endpoint @ (Endpoint::Address(Address::Ip(_)) | Endpoint::Name { .. }))
            if !text.starts_with('*') =>
        {
            Ok(endpoint)
        }
        Ok(_) | Err(_) => Err("names no host with a port"),
    }
}

/// With its percent-encoding undone (RFC 3986 section 2.1).
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
            (
                "valkey://a.example/",
                "a.example:6379",
                false,
                None,
                None,
                0,
            ),
            (
                "valkeys://:p@a.example:1/2",
                "a.example:1",
                true,
                None,
                Some("p"),
                2,
            ),
            (
                long,
                "[fd00::5]:7000",
                true,
                Some("lariat"),
                Some("p@ss:"),
                3,
            ),
            ("redis://u@[::1]", "[::1]:6379", false, Some("u"), None, 0),
            ("unix:/run/r.sock", "unix:/run/r.sock", false, None, None, 0),
            (
                "unix:///run/r.sock",
                "unix:/run/r.sock",
                false,
                None,
                None,
                0,
            ),
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
