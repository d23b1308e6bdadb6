//! Certificates in a file of PEM: whether they are authorities. Verifies nothing.

/// Whether a file has authorities beside certificates that are none.
pub(crate) fn are_mixed(pem: &str) -> bool {
    let all: Vec<_> = pem.split("-----BEGIN CERTIFICATE-----").skip(1).map(is_authority).collect();
    all.contains(&true) && all.contains(&false)
}

/// Whether the extension `basicConstraints` says so (RFC 5280, section 4.2.1.9).
fn is_authority(rest: &str) -> bool {
    const BASIC_CONSTRAINTS: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x13];
    const TRUE: &[u8] = &[0x01, 0x01, 0xff];
    let der = base64(rest.split("-----").next().unwrap_or_default());
    let place = der.windows(BASIC_CONSTRAINTS.len()).position(|bytes| bytes == BASIC_CONSTRAINTS);
    let value = place.and_then(|place| der.get(place + BASIC_CONSTRAINTS.len()..));
    // The extension may be critical; then follow an octet string and a sequence in it.
    let value = value.map(|value| value.strip_prefix(TRUE).unwrap_or(value));
    value.is_some_and(
        |value| matches!(value, [0x04, _, 0x30, _, inner @ ..] if inner.starts_with(TRUE)),
    )
}

fn base64(text: &str) -> Vec<u8> {
    let sign = |one: u8| match one {
        b'A'..=b'Z' => Some(one - b'A'),
        b'a'..=b'z' => Some(one - b'a' + 26),
        b'0'..=b'9' => Some(one - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let signs: Vec<_> = text.bytes().filter_map(sign).collect();
    let bytes = signs.chunks(4).flat_map(|four| {
        let number = four.iter().fold(0, |sum, one| sum << 6 | u32::from(*one));
        (number << (6 * (4 - four.len()))).to_be_bytes().into_iter().skip(1).take(four.len() - 1)
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The extension with dots around it, as `base64` writes it.
    fn pem(extension: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\nLi4u{extension}Li4u\n-----END CERTIFICATE-----\n")
    }

    #[test]
    fn authorities_are_told_from_others() {
        // Critical and an authority; an authority; none.
        let authorities = [pem("BgNVHRMBAf8EBTADAQH/"), pem("BgNVHRMEBTADAQH/")];
        let other = pem("BgNVHRMEAjAA") + &pem("");
        assert!(!are_mixed(&authorities.concat()) && !are_mixed(&other) && !are_mixed(""));
        for authority in authorities {
            assert!(are_mixed(&(authority + &other)));
        }
    }
}
