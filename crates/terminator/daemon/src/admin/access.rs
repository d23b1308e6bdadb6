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
use hyper::{HeaderMap, Request, Version};
use wire::http::host_and_port;

/// The user name that goes with the token where a browser asks for one.
const USER: &str = "lariat";

#[derive(Debug, Default)]
pub(crate) struct Access {
    hosts: Vec<String>,
    token: Option<AdminToken>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum AccessDenial {
    /// They name no host as they must (RFC 9112 section 3.2).
    Malformed,
    /// They ask for a host that is not ours, or for none.
    Host,
    /// They do not give the token.
    Token,
}

impl Access {
    pub(crate) fn of(control: &ControlOptions) -> Self {
        Self { hosts: control.hosts.clone(), token: control.token.clone() }
    }

    /// Whether the request is answered.
    pub(super) fn check<T>(&self, request: &Request<T>) -> Result<(), AccessDenial> {
        if !self.is_ours(requested_host(request)?) {
            return Err(AccessDenial::Host);
        }
        match &self.token {
            None => Ok(()),
            Some(token) if gives(request.headers(), token) => Ok(()),
            Some(_) => Err(AccessDenial::Token),
        }
    }

    fn is_ours(&self, name: &str) -> bool {
        let is_address = name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok();
        let name = name.strip_suffix('.').unwrap_or(name);
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        is_address || is("localhost") || self.hosts.iter().any(|known| is(known))
    }
}

/// RFC 9112, section 3.2: an absolute target names the host, else the one `Host` field does, which
/// may be empty.
fn requested_host<T>(request: &Request<T>) -> Result<&str, AccessDenial> {
    let mut named = request.headers().get_all(HOST).iter();
    let named = match (named.next(), named.next()) {
        (None, _) if request.version() <= Version::HTTP_10 => "".as_bytes(),
        (Some(host), None) => host.as_bytes(),
        _ => return Err(AccessDenial::Malformed),
    };
    let host = request.uri().authority().map_or(named, |authority| authority.as_str().as_bytes());
    match (host_and_port(host), named) {
        (Some((name, _)), b"") => Ok(name),
        (Some((name, _)), named) if host_and_port(named).is_some() => Ok(name),
        (None, b"") if host.is_empty() => Ok(""),
        _ => Err(AccessDenial::Malformed),
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

    fn checked(access: &Access, fields: &[(&'static str, &str)]) -> Result<(), AccessDenial> {
        let request = Request::get("/status");
        let request = fields.iter().fold(request, |it, (name, value)| it.header(*name, *value));
        access.check(&request.body(()).unwrap())
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
        for other in ["evil.example", "localhost.evil.example", "1.2.3.4.evil.example", ""] {
            let denied = checked(&access(false), &[("host", other)]);
            assert_eq!(denied, Err(AccessDenial::Host), "{other}");
        }
        let elsewhere = Request::get("http://evil.example/status").header("host", "localhost");
        let elsewhere = elsewhere.body(()).unwrap();
        assert_eq!(access(false).check(&elsewhere), Err(AccessDenial::Host));
        let old = Request::get("/status").version(Version::HTTP_10).body(()).unwrap();
        assert_eq!(access(false).check(&old), Err(AccessDenial::Host));
    }

    #[test]
    fn one_host_has_to_be_named() {
        for malformed in [
            "127.0.0.1:1234.evil.example",
            "localhost:80.evil.example",
            "localhost:99999",
            "[::1].evil.example",
            "[::1]:1.evil.example",
            "[v1.evil]",
            "evil.example@127.0.0.1",
            "a b",
        ] {
            let denied = checked(&access(false), &[("host", malformed)]);
            assert_eq!(denied, Err(AccessDenial::Malformed), "{malformed}");
        }
        assert_eq!(checked(&access(false), &[]), Err(AccessDenial::Malformed));
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(checked(&access(false), &twice), Err(AccessDenial::Malformed));
        for target in ["http://localhost:99999/status", "http://me@localhost/status"] {
            let request = Request::get(target).header("host", "localhost").body(()).unwrap();
            assert_eq!(access(false).check(&request), Err(AccessDenial::Malformed), "{target}");
        }
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
            assert_eq!(checked(&access(true), &fields), Err(AccessDenial::Token), "{wrong}");
        }
        let none = checked(&access(true), &[("host", "localhost")]);
        assert_eq!(none, Err(AccessDenial::Token));
    }
}
