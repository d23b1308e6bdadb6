//! The host and port that a request is for (RFC 9112 section 3.2, RFC 3986 section 3.2).

use std::net::Ipv6Addr;

/// The host, an IPv6 address in its brackets, and the port of an authority; `None` = it is
/// malformed, or has a user, which no request may name (RFC 9110 section 4.2.4).
pub fn host_and_port(authority: &[u8]) -> Option<(&str, Option<u16>)> {
    let text = str::from_utf8(authority).ok()?;
    let end = match text.strip_prefix('[') {
        Some(literal) => literal.find(']')? + 2,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        // Other literals have no address that anybody knows.
        Some(literal) => literal.parse::<Ipv6Addr>().is_ok(),
        None => is_name(host.as_bytes()),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        Some("") => None,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        _ => return None,
    };
    is_host.then_some((host, port))
}

/// A `reg-name` that is not empty, which an IPv4 address is too.
fn is_name(text: &[u8]) -> bool {
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
    let mut parts = text.split(|byte| *byte == b'%');
    let is_begin = parts.next().is_some_and(|part| part.iter().all(|byte| may_stand(*byte)));
    let is_encoded = |part: &[u8]| match part {
        [high, low, rest @ ..] => {
            high.is_ascii_hexdigit()
                && low.is_ascii_hexdigit()
                && rest.iter().all(|byte| may_stand(*byte))
        }
        _ => false,
    };
    !text.is_empty() && is_begin && parts.all(is_encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port() {
        for (text, host, port) in [
            ("a.example", "a.example", None),
            ("a_b:80", "a_b", Some(80)),
            ("a:", "a", None),
            ("a%20b!:65535", "a%20b!", Some(65535)),
            ("1.2.3.4:00080", "1.2.3.4", Some(80)),
            ("[::1]", "[::1]", None),
            ("[2001:db8::1]:443", "[2001:db8::1]", Some(443)),
        ] {
            assert_eq!(host_and_port(text.as_bytes()), Some((host, port)), "{text}");
        }
    }

    #[test]
    fn what_is_more_or_less_is_no_authority() {
        for text in [
            "",
            ":80",
            "a:65536",
            "1.2.3.4:99999",
            "a:+80",
            "a:-1",
            "a:8 0",
            "a: 80",
            "a :80",
            "a:80:80",
            "::1",
            "[::1",
            "::1]",
            "[::1]x",
            "[::1]80",
            "[]",
            "[v1.a]",
            "[::1%25lo]",
            "[127.0.0.1]",
            "a@b",
            "a:b@c",
            "@a",
            "a/b",
            "a?b",
            "a#b",
            "a\\b",
            "a b",
            "a%",
            "a%2",
            "a%zz",
            "a%+1",
            "a\0",
            "a\"b",
            "<a>",
            "\u{e4}",
        ] {
            assert_eq!(host_and_port(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(host_and_port(b"a\xff"), None);
    }
}
