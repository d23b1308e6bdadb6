//! Which bytes of a server_name extension are a host name (RFC 6066 section 3).

use std::net::IpAddr;

/// What a client put where a host name belongs.
pub(super) enum HostName {
    /// A host name of this many bytes; one closing dot is not counted.
    Valid(usize),
    /// An IP address, which is not permitted, or anything else. Such clients exist and mean no
    /// harm.
    Other,
}

/// All that DNS can look up and people write in ASCII: labels of letters, digits, hyphens and
/// underscores. RFC 1123 is stricter about hyphens, and names that break it are in use.
pub(super) fn judge(bytes: &[u8]) -> HostName {
    let name = bytes.strip_suffix(b".").unwrap_or(bytes);
    let is_name = name.len() <= 253 && name.split(|byte| *byte == b'.').all(is_label);
    if is_name && !is_address(name) {
        HostName::Valid(name.len())
    } else {
        HostName::Other
    }
}

fn is_label(label: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=63).contains(&label.len()) && label.iter().all(allowed)
}

fn is_address(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_what_is_none() {
        for name in [
            "localhost",
            "a.b",
            "A-1.example",
            "_x.y",
            "xn--a.b.",
            "1.a",
            "-a",
            "a-.b",
            "1.2.3",
            "a.1",
        ] {
            let length = name.trim_end_matches('.').len();
            assert!(
                matches!(judge(name.as_bytes()), HostName::Valid(n) if n == length),
                "{name}"
            );
        }
        let long = "a.".repeat(127);
        for other in [
            "127.0.0.1",
            "127.0.0.1.",
            "::1",
            "2001:db8::1",
            "",
            ".",
            "a..b",
            "a b",
            "a\0b",
            "a:443",
            "\u{e9}",
            "a/b",
            "a..",
            "[::1]",
            &format!("{long}a"),
            &"a".repeat(64),
        ] {
            assert!(
                matches!(judge(other.as_bytes()), HostName::Other),
                "{other:?}"
            );
        }
    }
}
