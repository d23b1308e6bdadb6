//! Builds the location that a request is redirected to: the same resource by https (RFC 9110
//! sections 4.2.2 and 7.1). Decides which hosts may appear in it; reads no path.

use std::io::Write;

use wire::http::host_and_port;

use crate::challenge::FOLDER;
use crate::options::Redirect;
use crate::target::{encode_percent, split};

/// Port of https, which is left out of its addresses.
const HTTPS_PORT: u16 = 443;

/// Longest host name (RFC 1035 section 2.3.4), in bytes.
const NAME_BYTES_MAX: usize = 253;

/// Longest label of a host name, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// Reports whether this path is that of a file which proves our identity to a certificate
/// authority. Such a file, if it exists, is served before anything is redirected.
pub(crate) fn is_challenge(path: &[u8]) -> bool {
    let of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let token = path.strip_prefix(FOLDER);
    token.is_some_and(|token| !token.is_empty() && token.iter().all(of_token))
}

/// Returns the https address of the requested resource. The target is kept as it was written.
///
/// # Errors
/// Fails with the reason if the host is not certain. Such a client is redirected nowhere.
pub(crate) fn location(
    redirect: Redirect,
    host: Option<&[u8]>,
    target: &[u8],
) -> Result<Box<[u8]>, &'static str> {
    let (authority, path) = split(target)?;
    if let (Some(authority), Some(host)) = (authority, host)
        && !authority.eq_ignore_ascii_case(host)
    {
        // RFC 9112 section 3.2: an honest client writes the same host twice.
        return Err("the target's host is not that of the Host field");
    }
    let host = authority.or(host).ok_or("no Host field")?;
    let host = name_of(host).ok_or("the host is no name and no address")?;
    let mut location = [b"https://", host].concat();
    if redirect.port != HTTPS_PORT {
        write!(location, ":{}", redirect.port).expect("a vector takes any bytes");
    }
    if !path.starts_with(b"/") {
        location.push(b'/');
    }
    for byte in path {
        match byte {
            b'!'..=b'~' => location.push(*byte),
            _ => encode_percent(&[*byte], &mut location),
        }
    }
    Ok(location.into())
}

/// Returns the host of an authority, without its port, if it may be sent to a client: a name of
/// letters, digits, `-`, `.` and `_`, an IPv4 address, or an IPv6 address in brackets.
fn name_of(authority: &[u8]) -> Option<&[u8]> {
    let (host, _) = host_and_port(authority)?;
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    // Labels as in RFC 1035 section 2.3.4; a trailing dot may name the root.
    let mut labels = host.strip_suffix('.').unwrap_or(host).split('.');
    let fits = host.starts_with('[')
        || host.len() <= NAME_BYTES_MAX
            && host.bytes().all(may_stand)
            && labels.all(|label| (1..=LABEL_BYTES_MAX).contains(&label.len()));
    fits.then_some(host.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(port: u16, host: Option<&str>, target: &str) -> Result<String, &'static str> {
        let location = location(Redirect { port }, host.map(str::as_bytes), target.as_bytes());
        let text = |bytes: Box<[u8]>| String::from_utf8(bytes.into()).expect("ASCII");
        location.map(text)
    }

    #[test]
    fn the_same_resource_is_named_by_https() {
        for (port, host, target, expected) in [
            (443, "a.example", "/", "https://a.example/"),
            (443, "A.example.:80", "/x", "https://A.example./x"),
            (8443, "a_b:8080", "/x?y=/../z", "https://a_b:8443/x?y=/../z"),
            (443, "192.0.2.1:", "/%2e%2E/", "https://192.0.2.1/%2e%2E/"),
            (8443, "[2001:db8::1]:80", "/", "https://[2001:db8::1]:8443/"),
            (443, "a", "//evil.example/", "https://a//evil.example/"),
            (443, "a", "/\\evil.example", "https://a/\\evil.example"),
            (443, "a", "/@evil", "https://a/@evil"),
            (443, "a", "/\u{e4}", "https://a/%C3%A4"),
            (443, "a", "http://A/x", "https://A/x"),
            (443, "a:80", "HTTPS://a:80?x", "https://a/?x"),
        ] {
            let found = told(port, Some(host), target);
            assert_eq!(found.as_deref(), Ok(expected), "{host} {target}");
        }
        let absolute = told(443, None, "http://a.example/");
        assert_eq!(absolute.as_deref(), Ok("https://a.example/"));
    }

    #[test]
    fn nobody_is_sent_where_a_host_is_doubtful() {
        for (host, target) in [
            (None, "/"),
            (Some(""), "/"),
            (Some(":80"), "/"),
            (Some("."), "/"),
            (Some(".."), "/"),
            (Some(".a"), "/"),
            (Some("a..b:80"), "/"),
            (Some("a.."), "/"),
            (Some(&"a".repeat(LABEL_BYTES_MAX + 1)), "/"),
            (Some("a@evil"), "/"),
            (Some("a/evil"), "/"),
            (Some("a\\evil"), "/"),
            (Some("a?evil"), "/"),
            (Some("a,b"), "/"),
            (Some("a%2eb"), "/"),
            (Some("a b"), "/"),
            (Some("\u{e4}"), "/"),
            (Some("a:80:80"), "/"),
            (Some("a:x"), "/"),
            (Some("a:123456"), "/"),
            (Some("1.2.3.4:99999"), "/"),
            (Some("::1"), "/"),
            (Some("[::1"), "/"),
            (Some("[::1]x"), "/"),
            (Some("[v1.a]"), "/"),
            (Some("[::1%25lo]"), "/"),
            (Some("a"), "http://b/"),
            (Some("a"), "http://a@b/"),
            (Some("a"), "http://a:81/"),
            (Some("a"), "http:///"),
            (Some("a"), "ftp://a/"),
            (Some("a"), "*"),
            (Some("a"), "a:443"),
            (Some("a"), "/#x"),
        ] {
            let found = told(443, host, target);
            assert!(found.is_err(), "{host:?} {target}: {found:?}");
        }
        let long = "a.".repeat(NAME_BYTES_MAX / 2);
        assert!(told(443, Some(&format!("{long}b")), "/").is_ok());
        assert!(told(443, Some(&format!("{long}bc")), "/").is_err());
    }

    #[test]
    fn challenges_are_tokens_beneath_their_folder() {
        let is = |name: &str| is_challenge(format!(".well-known/acme-challenge{name}").as_bytes());
        assert!(is("/evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA"));
        assert!(["", "/", "/.a", "/a.txt", "/a/b", "s/a"].iter().all(|name| !is(name)));
    }

    proptest! {
        #[test]
        fn whatever_is_asked_the_host_is_the_one_that_was_named(
            host in "([a-z.:\\[\\]@/\\\\,%\r\n]|::1){0,12}",
            target: Vec<u8>,
        ) {
            let target = [b"/", &target[..]].concat();
            if let Ok(location) = location(Redirect { port: 1 }, Some(host.as_bytes()), &target) {
                prop_assert!(location.iter().all(u8::is_ascii_graphic));
                let name = name_of(host.as_bytes()).expect("a host");
                let begin = [b"https://", name, b":1/"].concat();
                prop_assert!(location.starts_with(&begin));
            }
        }
    }
}
