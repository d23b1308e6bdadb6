//! Certificates in a file of PEM: their names, and whether they are authorities. Verifies nothing.

/// Whether a file has authorities beside certificates that are none.
pub(crate) fn are_mixed(pem: &str) -> bool {
    let all: Vec<_> = pem.split("-----BEGIN CERTIFICATE-----").skip(1).map(is_authority).collect();
    all.contains(&true) && all.contains(&false)
}

/// The host names of the first certificate of a file, by which HAProxy chooses it: those of
/// `subjectAltName` and the common name, in small letters.
pub(crate) fn host_names(pem: &str) -> Vec<String> {
    let first = pem.split("-----BEGIN CERTIFICATE-----").nth(1);
    let der = base64(first.and_then(|rest| rest.split("-----").next()).unwrap_or_default());
    let mut names = names_of(&der).unwrap_or_default();
    names.retain(|name| name.contains('.') && name.chars().all(is_of_host));
    names.sort();
    names.dedup();
    names
}

fn is_of_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || "*.-_".contains(c)
}

/// The names in the subject and in the extensions of `TBSCertificate` (RFC 5280, section 4.1).
fn names_of(der: &[u8]) -> Option<Vec<String>> {
    const VERSION: u8 = 0xa0;
    const EXTENSIONS: u8 = 0xa3;
    const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];
    const ALTERNATIVE_NAMES: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];
    const DNS_NAME: u8 = 0x82;
    let (_, certificate, _) = element(der)?;
    let (_, fields, _) = element(certificate)?;
    let fields = elements(fields).filter(|(tag, _)| *tag != VERSION);
    let fields: Vec<_> = fields.collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let mut names = Vec::new();
    // Before it stand the number, the algorithm, the issuer and the times.
    let (_, subject) = fields.get(4)?;
    for (_, set) in elements(subject) {
        for (_, attribute) in elements(set) {
            let value = attribute.strip_prefix(COMMON_NAME).and_then(element);
            names.extend(value.map(|(_, name, _)| text(name)));
        }
    }
    let extensions = fields.iter().find(|(tag, _)| *tag == EXTENSIONS);
    for (_, extension) in extensions.into_iter().flat_map(|(_, list)| elements(list)) {
        for (_, one) in elements(extension) {
            let value = one.strip_prefix(ALTERNATIVE_NAMES);
            let octets = value.and_then(|value| elements(value).last());
            let list = octets.and_then(|(_, octets)| element(octets));
            let all = list.into_iter().flat_map(|(_, list, _)| elements(list));
            names.extend(all.filter(|(tag, _)| *tag == DNS_NAME).map(|(_, name)| text(name)));
        }
    }
    Some(names)
}

/// The tag and the content of the first element of DER, and the bytes behind it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, length, rest @ ..] = der else {
        return None;
    };
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        _ => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let add = |sum: usize, byte: &u8| sum.checked_mul(256)?.checked_add((*byte).into());
            (bytes.iter().try_fold(0, add)?, rest)
        }
    };
    let (content, behind) = rest.split_at_checked(length)?;
    Some((*tag, content, behind))
}

/// All elements, up to one that is broken.
fn elements(mut der: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, content, behind) = element(der)?;
        der = behind;
        Some((tag, content))
    })
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
