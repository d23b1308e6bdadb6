//! The version and the client's certificates in a session, as the library writes it.
//!
//! The library hands a session over as bytes of a form of its own, and asks nobody whether the
//! client in it is still welcome. This reads as much of that form as is needed to ask; a test
//! compares it with what the library writes, and what does not read is no session.

use rustls_pki_types::CertificateDer;

/// Bytes of a session, before the client's certificates.
const VERSION_BYTES: usize = 2;
const SUITE_BYTES: usize = 2;

/// The version of the protocol that a session was made with, as hellos have it. `None` if the
/// bytes are no session.
pub(super) fn version(state: &[u8]) -> Option<usize> {
    let mut rest = state;
    skip_name(&mut rest)?;
    number(&mut rest, VERSION_BYTES)
}

/// The client's chain in a session, its own certificate first; empty if it showed none. `None` if
/// the bytes are no session.
pub(super) fn client_chain(state: &[u8]) -> Option<Vec<CertificateDer<'_>>> {
    let mut rest = state;
    skip_name(&mut rest)?;
    take(&mut rest, VERSION_BYTES + SUITE_BYTES)?;
    let secret_bytes = number(&mut rest, 1)?;
    take(&mut rest, secret_bytes)?;
    flag(&mut rest)?;
    if !flag(&mut rest)? {
        return Some(Vec::new());
    }
    let chain_bytes = number(&mut rest, 3)?;
    let mut list = take(&mut rest, chain_bytes)?;
    let mut chain = Vec::new();
    while !list.is_empty() {
        let certificate_bytes = number(&mut list, 3)?;
        chain.push(CertificateDer::from(take(&mut list, certificate_bytes)?));
    }
    // An empty chain would be one that was shown and is not there.
    (!chain.is_empty()).then_some(chain)
}

fn skip_name(rest: &mut &[u8]) -> Option<()> {
    if flag(rest)? {
        let name_bytes = number(rest, 1)?;
        take(rest, name_bytes)?;
    }
    Some(())
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

/// A big-endian number of so many bytes, at most three.
fn number(rest: &mut &[u8], bytes: usize) -> Option<usize> {
    let digits = take(rest, bytes)?;
    Some(
        digits
            .iter()
            .fold(0, |sum, digit| sum << 8 | usize::from(*digit)),
    )
}

fn flag(rest: &mut &[u8]) -> Option<bool> {
    match take(rest, 1)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A session with a name, a secret of two bytes and this tail.
    fn session(tail: &[u8]) -> Vec<u8> {
        let mut state = vec![1, 1, b'a', 3, 4, 0x13, 1, 2, 7, 7, 0];
        state.extend_from_slice(tail);
        state
    }

    #[test]
    fn a_version_is_read_behind_a_name_or_none() {
        assert_eq!(version(&session(&[])), Some(0x0304));
        assert_eq!(version(&[0, 3, 3, 0xc0]), Some(0x0303));
        assert_eq!(version(&[0, 3]), None);
        assert_eq!(version(&[2, 3, 3]), None);
    }

    #[test]
    fn a_chain_is_read_in_its_order() {
        assert_eq!(client_chain(&session(&[0, 0])), Some(Vec::new()));
        let two = session(&[1, 0, 0, 9, 0, 0, 1, 5, 0, 0, 2, 6, 6, 0]);
        let chain = client_chain(&two).expect("a session");
        assert_eq!(chain, [CertificateDer::from(&[5][..]), vec![6, 6].into()]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_session_or_none(noise: Vec<u8>) {
            let places = noise.as_ptr_range();
            for certificate in client_chain(&noise).unwrap_or_default() {
                prop_assert!(places.contains(&certificate.as_ptr()) || certificate.is_empty());
            }
            let shown = session(&[&[1], &noise[..]].concat());
            prop_assert!(client_chain(&shown).is_none_or(|chain| !chain.is_empty()));
        }
    }

    #[test]
    fn what_is_cut_or_strange_is_no_session() {
        let whole = session(&[1, 0, 0, 5, 0, 0, 2, 6, 6]);
        assert!(client_chain(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(client_chain(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(client_chain(&session(&[2])), None);
        assert_eq!(client_chain(&session(&[1, 0, 0, 0])), None);
        assert_eq!(client_chain(&session(&[1, 0, 0, 4, 0, 0, 2, 6])), None);
    }
}
