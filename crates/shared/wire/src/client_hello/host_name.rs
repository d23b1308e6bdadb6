//! Which bytes of a server_name extension are a host name (RFC 6066 section 3, RFC 1123).

use std::net::IpAddr;

/// What a client put where a host name belongs.
pub(super) enum HostName {
    /// A host name of this many bytes; one closing dot is not counted.
    Valid(usize),
    /// An IP address, which is not permitted; treated as no name, since such clients exist and
    /// mean no harm.
    Address,
    /// Anything else.
    Invalid,
}

/// Labels of letters, digits, hyphens inside, and the underscore that service names use.
pub(super) fn judge(bytes: &[u8]) -> HostName {
    let name = bytes.strip_suffix(b".").unwrap_or(bytes);
    if name.len() > 253 || !name.split(|b| *b == b'.').all(is_label) {
        return if is_address(bytes) {
            HostName::Address
        } else {
            HostName::Invalid
        };
    }
    let last_label = name.rsplit(|b| *b == b'.').next().unwrap_or(name);
    if !last_label.iter().all(u8::is_ascii_digit) {
        HostName::Valid(name.len())
    } else if is_address(name) {
        HostName::Address
    } else {
        HostName::Invalid
    }
}

fn is_label(label: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=63).contains(&label.len())
        && label.iter().all(allowed)
        && label.first() != Some(&b'-')
        && label.last() != Some(&b'-')
}

fn is_address(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_addresses_and_neither() {
        for name in ["localhost", "a.b", "A-1.example", "_x.y", "xn--a.b.", "1.a"] {
            let length = name.trim_end_matches('.').len();
            assert!(
                matches!(judge(name.as_bytes()), HostName::Valid(n) if n == length),
                "{name}"
            );
        }
        for address in ["127.0.0.1", "::1", "2001:db8::1"] {
            assert!(
                matches!(judge(address.as_bytes()), HostName::Address),
                "{address}"
            );
        }
        let long = "a.".repeat(127);
        for other in [
            "",
            ".",
            "a..b",
            "-a",
            "a-",
            "a b",
            "a\0b",
            "1.2.3",
            "\u{e9}",
            "a/b",
            "a..",
            "[::1]",
            &format!("{long}a"),
            &"a".repeat(64),
        ] {
            assert!(
                matches!(judge(other.as_bytes()), HostName::Invalid),
                "{other:?}"
            );
        }
    }
}
