//! Reads the URL of a load (RFC 3986, as far as a request needs it).

use std::net::IpAddr;
use std::str::FromStr;

use options::Problem;
use sys::socket::AddressWithZone;
use wire::address::{Address, AddressError, Endpoint, without_zone};

use super::value::{Read, not};

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Url {
    pub text: String,
    /// Whether to use TLS: `https`, not `http`.
    pub tls: bool,
    /// Host and port to connect to.
    pub endpoint: Endpoint,
    /// `Host` header: the host, and the port if it was written.
    pub authority: String,
    /// Path with the query; `/` if there was none.
    pub path: String,
}

impl Url {
    /// Returns the host as a name; `None` if it is an IP address.
    pub fn host_name(&self) -> Option<&str> {
        match &self.endpoint {
            Endpoint::Name { host, .. } => Some(host),
            Endpoint::Address(_) | Endpoint::Service { .. } => None,
        }
    }

    /// Returns the host as an IP address; `None` if it is a name.
    pub fn host_address(&self) -> Option<IpAddr> {
        match &self.endpoint {
            Endpoint::Address(Address::Ip(address)) => Some(address.ip()),
            _ => None,
        }
    }
}

const EXAMPLE: &str = "for example: https://127.0.0.1:8443/1k";

impl FromStr for Url {
    type Err = Problem;

    fn from_str(text: &str) -> Read<Self> {
        let (tls, rest) = scheme(text)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return refused(
                "has a user before its host",
                "--header 'Authorization: …' says who asks",
            );
        }
        if path.contains('#') {
            return refused(
                "has a fragment, which no server sees",
                "leave out what begins with `#`",
            );
        }
        Ok(Self {
            text: text.to_owned(),
            tls,
            endpoint: endpoint(authority, tls)?,
            authority: without_zone(authority),
            path: checked_path(path)?,
        })
    }
}

fn scheme(text: &str) -> Read<(bool, &str)> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return not(text, "a URL that begins with https:// or http://");
    };
    match scheme.to_ascii_lowercase().as_str() {
        "https" => Ok((true, rest)),
        "http" => Ok((false, rest)),
        _ => refused("is neither of https nor of http", EXAMPLE),
    }
}

fn endpoint(authority: &str, tls: bool) -> Read<Endpoint> {
    let bare = authority.is_empty() || authority.ends_with(':') || authority.starts_with('*');
    if bare || authority.starts_with("unix") && authority.contains(':') {
        return refused("has no host", EXAMPLE);
    }
    if !authority.is_ascii() {
        return refused("has a host name beyond ASCII", "take its form that begins with xn--");
    }
    let has_port = match authority.rsplit_once(']') {
        Some((_, after)) => after.starts_with(':'),
        None => authority.contains(':'),
    };
    let full = match (has_port, tls) {
        (true, _) => authority.to_owned(),
        (false, true) => format!("{authority}:443"),
        (false, false) => format!("{authority}:80"),
    };
    let AddressWithZone(endpoint) = match full.replacen("%25", "%", 1).parse() {
        Ok(endpoint) => endpoint,
        Err(error @ (AddressError::ZoneMissing | AddressError::ZoneUnknown)) => {
            let hint = "the zone follows the address, as in https://[fe80::1%25eth0]:8443/";
            return refused(&error.to_string(), hint);
        }
        Err(_) => {
            return refused(
                "has no valid host and port",
                "take a host name, an IPv4 address, or an IPv6 address in brackets, then :PORT",
            );
        }
    };
    match &endpoint {
        Endpoint::Address(Address::Ip(address)) if address.port() == 0 => no_port(),
        Endpoint::Name { port: 0, .. } => no_port(),
        _ => Ok(endpoint),
    }
}

fn no_port() -> Read<Endpoint> {
    refused("has port 0, which nobody listens at", EXAMPLE)
}

/// Returns the path for the request line: visible ASCII only, so that no line can be added.
fn checked_path(path: &str) -> Read<String> {
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused(
            "has a space, a control character or one beyond ASCII in its path",
            "write %20 for a space, others likewise",
        );
    }
    Ok(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
}

fn refused<T>(why: &str, hint: &str) -> Read<T> {
    Err(Problem::new(why).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Url {
        text.parse().unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    #[test]
    fn parts_are_found() {
        let url = read("https://Example.org/1k?a=b");
        assert_eq!(url.endpoint.to_string(), "example.org:443");
        assert_eq!((url.authority.as_str(), url.path.as_str()), ("Example.org", "/1k?a=b"));
        assert_eq!(url.host_name(), Some("example.org"));
        let url = read("http://[::1]");
        assert_eq!(url.endpoint.to_string(), "[::1]:80");
        assert_eq!((url.authority.as_str(), url.path.as_str()), ("[::1]", "/"));
        assert!(!url.tls && url.host_name().is_none() && url.host_address().is_some());
        assert_eq!(read("HTTPS://127.0.0.1:8443?size=1").path, "/?size=1");
        assert_eq!(read("https://[2001:db8::1]:8443/").authority, "[2001:db8::1]:8443");
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        let texts = "localhost 127.0.0.1:8443 ftp://h/ https:// https:///p https://:443/ https://h:/ \
            https://h:0/ https://h:70000/ https://::1/ https://u:p@h/ https://h/#top \
            https://h/ä https://häst/ https://*:443/ https://unix:/run/a";
        let odd = ["", "https://h/a b", "https://h/a\r\nX: y"];
        for text in texts.split(' ').chain(odd) {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }
}
