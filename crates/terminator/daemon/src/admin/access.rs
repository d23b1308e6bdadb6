//! Who is answered on the admin address: requests for a host that is ours, with the token if there
//! is one.
//!
//! A browser may be made to send its request under an attacker's name (DNS rebinding), whose script
//! then reads the answer: so a name must be known. An IP address in `Host` cannot be pointed
//! elsewhere.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64ct::{Base64, Encoding};
use config::{AdminToken, ControlOptions};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Uri};

/// The user name that goes with the token where a browser asks for one.
const USER: &str = "lariat";

#[derive(Debug, Default)]
pub(crate) struct Access {
    hosts: Vec<String>,
    token: Option<AdminToken>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Denied {
    /// They ask for a host that is not ours, or for none.
    Host,
    /// They do not give the token.
    Token,
}

impl Access {
    pub(crate) fn of(control: &ControlOptions) -> Self {
        Self { hosts: control.hosts.clone(), token: control.token.clone() }
    }

    /// Whether a request with this target and these fields is answered.
    pub(super) fn check(&self, target: &Uri, fields: &HeaderMap) -> Result<(), Denied> {
        let host = requested_host(target, fields).ok_or(Denied::Host)?;
        if !self.is_ours(&host) {
            return Err(Denied::Host);
        }
        match &self.token {
            None => Ok(()),
            Some(token) if gives(fields, token) => Ok(()),
            Some(_) => Err(Denied::Token),
        }
    }

    fn is_ours(&self, host: &Authority) -> bool {
        let name = host.host();
        if !is_host_and_port(host) {
            return false;
        }
        let is_address = name.parse::<std::net::Ipv4Addr>().is_ok() || is_ipv6_literal(name);
        let name = name.strip_suffix('.').unwrap_or(name);
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        is_address || is("localhost") || self.hosts.iter().any(|known| is(known))
    }
}

/// RFC 9110, section 7.2: a host, and behind a colon a port. The library takes more for an
/// authority: what is not digits behind the colon, and a user's name.
fn is_host_and_port(authority: &Authority) -> bool {
    match authority.as_str().strip_prefix(authority.host()) {
        None => false,
        Some("") => true,
        Some(rest) => rest
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit())),
    }
}

/// RFC 3986, section 3.2.2.
fn is_ipv6_literal(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    address.is_some_and(|it| it.parse::<std::net::Ipv6Addr>().is_ok())
}

/// RFC 9112, section 3.2: an absolute target names the host, else the one `Host` field does.
fn requested_host(target: &Uri, fields: &HeaderMap) -> Option<Authority> {
    if let Some(authority) = target.authority() {
        return Some(authority.clone());
    }
    let mut named = fields.get_all(HOST).iter();
    match (named.next(), named.next()) {
        (Some(host), None) => Authority::try_from(host.as_bytes()).ok(),
        _ => None,
    }
}

/// Whether the token is given, as a bearer token (RFC 6750) or as the password of `USER` (RFC
/// 7617). How long it takes shows nothing of the token but its length.
fn gives(fields: &HeaderMap, token: &AdminToken) -> bool {
    let credentials = fields.get(AUTHORIZATION).map(|value| value.as_bytes());
    let Some(space) = credentials.and_then(|c| c.iter().position(|byte| *byte == b' ')) else {
        return false;
    };
    let (scheme, given) = credentials.unwrap_or_default().split_at(space);
    let expected = match scheme {
        bearer if bearer.eq_ignore_ascii_case(b"bearer") => token.text().to_owned(),
        basic if basic.eq_ignore_ascii_case(b"basic") => {
            Base64::encode_string(format!("{USER}:{}", token.text()).as_bytes())
        }
        _ => return false,
    };
    verify_slices_are_equal(given.trim_ascii(), expected.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery";

    fn access(token: bool) -> Access {
        Access {
            hosts: vec!["lariat.example".into()],
            token: token.then(|| AdminToken::read(TOKEN.as_bytes()).unwrap()),
        }
    }

    fn checked(access: &Access, fields: &[(&'static str, &str)]) -> Result<(), Denied> {
        let pairs =
            fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let mut map = HeaderMap::new();
        pairs.for_each(|(name, value): (hyper::header::HeaderName, _)| {
            map.append(name, value);
        });
        access.check(&Uri::from_static("/status"), &map)
    }

    #[test]
    fn only_our_names_are_answered() {
        let hosts = [
            "127.0.0.1:9090",
            "[::1]:1",
            "10.0.0.9",
            "LocalHost.",
            "localhost:",
            "lariat.example:80",
        ];
        for ours in hosts {
            assert_eq!(checked(&access(false), &[("host", ours)]), Ok(()), "{ours}");
        }
        for other in [
            "evil.example",
            "localhost.evil.example",
            "1.2.3.4.evil.example",
            "127.0.0.1:1234.evil.example",
            "localhost:80.evil.example",
            "[::1].evil.example",
            "[::1]:1.evil.example",
            "[v1.evil]",
            "evil.example@127.0.0.1",
            "",
            "a b",
        ] {
            let denied = checked(&access(false), &[("host", other)]);
            assert_eq!(denied, Err(Denied::Host), "{other}");
        }
        assert_eq!(checked(&access(false), &[]), Err(Denied::Host));
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(checked(&access(false), &twice), Err(Denied::Host));
        let elsewhere = Uri::from_static("http://evil.example/status");
        let fields = HeaderMap::from_iter([(HOST, "localhost".parse().unwrap())]);
        assert_eq!(access(false).check(&elsewhere, &fields), Err(Denied::Host));
    }

    #[test]
    fn the_token_is_asked_for() {
        let credentials = Base64::encode_string(format!("lariat:{TOKEN}").as_bytes());
        let basic = format!("Basic {credentials}");
        let bearer = format!("bearer  {TOKEN}");
        for given in [&bearer, &basic] {
            let fields = [("host", "localhost"), ("authorization", given)];
            assert_eq!(checked(&access(true), &fields), Ok(()), "{given}");
        }
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer correct-horse-batterz", TOKEN, "Basic bGFyaWF0Og=="]
        {
            let fields = [("host", "localhost"), ("authorization", wrong)];
            assert_eq!(checked(&access(true), &fields), Err(Denied::Token), "{wrong}");
        }
        let none = checked(&access(true), &[("host", "localhost")]);
        assert_eq!(none, Err(Denied::Token));
    }
}
