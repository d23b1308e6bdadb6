//! The certificates that a peer sent with its own: selects those that can be on a path, before a
//! library searches one, and decides whether the search would cost too much.
//!
//! Libraries try path after path (RFC 4158 section 2.4), and the peer decides how many there are:
//! certificates with wrong signatures count too until a path has been tried. Therefore certificates
//! are counted first, by names alone. No trust is established: no signature is verified here.

use crate::cursor::Cursor;

/// Most certificates between a peer's own and an authority. Chains of the web have one or two, and
/// the library follows no longer path.
pub const INTERMEDIATES_MAX: usize = 6;

/// Most certificates that a search may reach, each by another path. A chain without branches has as
/// many as it has certificates; where each of three authorities has two certificates, signed by the
/// old one above it and by the new one, it is 15.
pub const STEPS_MAX: usize = 16;

/// Reason to refuse a chain, whatever its certificates contain.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ChainFault {
    /// Certificate without bytes (RFC 5246 section 7.4.2 and RFC 8446 section 4.4.2 demand one);
    /// the peer's own is number 1.
    #[error("certificate {0} of the chain is empty")]
    Empty(usize),
    /// Number of certificates that came with the peer's own, if more than allowed lead on from it.
    #[error(
        "of {0} certificates sent with its own, more than {INTERMEDIATES_MAX} are each the issuer \
         of another"
    )]
    TooLong(usize),
    /// Number of certificates that lead on from the peer's own, if there are too many paths.
    #[error(
        "the {0} issuers sent with its certificate share their names, so that more than \
         {STEPS_MAX} steps are needed to look for a path"
    )]
    TooManyPaths(usize),
}

/// Issuer and subject of a certificate, encoded, without their tag and length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CertificateNames<'c> {
    pub issuer: &'c [u8],
    pub subject: &'c [u8],
}

impl<'c> CertificateNames<'c> {
    /// Reads the names of a certificate of X.509 (RFC 5280 section 4.1, DER); `None` if the bytes
    /// are no certificate.
    pub fn of(certificate: &'c [u8]) -> Option<Self> {
        const INTEGER: u8 = 0x02;
        const SEQUENCE: u8 = 0x30;
        const VERSION: u8 = 0xa0;
        let mut outer = Cursor::new(Cursor::new(certificate).element(SEQUENCE)?);
        let mut fields = Cursor::new(outer.element(SEQUENCE)?);
        if fields.rest().first() == Some(&VERSION) {
            fields.element(VERSION)?;
        }
        fields.element(INTEGER)?;
        fields.element(SEQUENCE)?;
        let issuer = fields.element(SEQUENCE)?;
        fields.element(SEQUENCE)?;
        let subject = fields.element(SEQUENCE)?;
        Some(Self { issuer, subject })
    }
}

/// Returns the certificates of `others` that can be on a path from `own`: a chain of names leads to
/// each. Takes time in proportion to the bytes.
///
/// # Errors
/// Fails if there are too many certificates, or too many paths among them.
pub fn intermediates<'c>(own: &[u8], others: &[&'c [u8]]) -> Result<Vec<&'c [u8]>, ChainFault> {
    let mut all = std::iter::once(own).chain(others.iter().copied());
    if let Some(empty) = all.position(<[u8]>::is_empty) {
        return Err(ChainFault::Empty(empty + 1));
    }
    // A library does not search beyond a certificate that it cannot read.
    let Some(leaf) = CertificateNames::of(own) else {
        return Ok(Vec::new());
    };
    let named: Vec<_> =
        others.iter().filter_map(|other| Some((*other, CertificateNames::of(other)?))).collect();
    let mut found: Vec<(&[u8], CertificateNames<'_>)> = Vec::new();
    let mut wanted = leaf.issuer;
    for next in 0.. {
        for one in &named {
            let is_new = |(bytes, _): &(&[u8], _)| *bytes != one.0;
            if one.1.subject == wanted && one.0 != own && found.iter().all(is_new) {
                found.push(*one);
            }
            if found.len() > INTERMEDIATES_MAX {
                return Err(ChainFault::TooLong(others.len()));
            }
        }
        let Some((_, names)) = found.get(next) else {
            break;
        };
        wanted = names.issuer;
    }
    let names: Vec<_> = found.iter().map(|(_, names)| *names).collect();
    count_steps(leaf.issuer, &names, 0, STEPS_MAX - 1)
        .ok_or(ChainFault::TooManyPaths(found.len()))?;
    Ok(found.into_iter().map(|(bytes, _)| bytes).collect())
}

/// Returns how many of `left` steps remain after all paths from this issuer on; `None` if they do
/// not suffice. `used` has a bit for each certificate on the path so far.
fn count_steps(
    issuer: &[u8],
    names: &[CertificateNames<'_>],
    used: u32,
    left: usize,
) -> Option<usize> {
    let mut left = left;
    for (bit, one) in names.iter().enumerate().map(|(at, one)| (1 << at, one)) {
        if used & bit == 0 && one.subject == issuer {
            left = count_steps(one.issuer, names, used | bit, left.checked_sub(1)?)?;
        }
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a certificate with these names.
    fn certificate(subject: &str, issuer: &str, serial: u8) -> Vec<u8> {
        let wrap = |tag, content: Vec<u8>| [vec![tag, content.len() as u8], content].concat();
        let name = |text: &str| wrap(0x30, text.as_bytes().to_vec());
        let fields = [
            wrap(0xa0, vec![2, 1, 2]),
            wrap(2, vec![serial]),
            wrap(0x30, vec![]),
            name(issuer),
            wrap(0x30, vec![]),
            name(subject),
        ];
        wrap(0x30, wrap(0x30, fields.concat()))
    }

    fn names_left(own: &[u8], others: &[Vec<u8>]) -> Result<Vec<String>, ChainFault> {
        let others: Vec<_> = others.iter().map(Vec::as_slice).collect();
        let subject = |one: &&[u8]| {
            let names = CertificateNames::of(one).expect("it was read");
            String::from_utf8_lossy(names.subject).into_owned()
        };
        Ok(intermediates(own, &others)?.iter().map(subject).collect())
    }

    #[test]
    fn what_leads_nowhere_and_what_is_doubled_is_dropped() {
        let own = certificate("leaf", "a", 1);
        let a = certificate("a", "b", 2);
        let others = [
            certificate("stranger", "b", 3),
            certificate("b", "root", 4),
            a.clone(),
            a.clone(),
            own.clone(),
            b"no certificate".to_vec(),
            certificate("root", "root", 5),
        ];
        assert_eq!(names_left(&own, &others), Ok(["a", "b", "root"].map(str::to_owned).to_vec()));
        let cut = &a[..a.len() - 1];
        assert_eq!(names_left(&own, &[cut.to_vec()]), Ok(vec![]));
        assert_eq!(names_left(b"no certificate", &others), Ok(vec![]));
    }

    #[test]
    fn a_chain_has_six_intermediates_at_most() {
        let chain = |length: u8| -> Vec<_> {
            let one = |at| certificate(&format!("{at}"), &format!("{}", at + 1), at);
            (1..=length).map(one).collect()
        };
        let own = certificate("leaf", "1", 100);
        assert_eq!(names_left(&own, &chain(6)).map(|left| left.len()), Ok(6));
        for length in [7, 200] {
            let fault = ChainFault::TooLong(length.into());
            assert_eq!(names_left(&own, &chain(length)), Err(fault));
        }
        // Certificates that lead nowhere do not count, nor does one that is sent a hundred times.
        let unrelated = (1..=200).map(|at| certificate("other", "another", at));
        let again = (1..=100).map(|_| chain(6)[5].clone());
        let many: Vec<_> = chain(6).into_iter().chain(unrelated).chain(again).collect();
        assert_eq!(names_left(&own, &many).map(|left| left.len()), Ok(6));
    }

    #[test]
    fn paths_are_counted_before_they_are_gone() {
        let own = certificate("leaf", "a", 100);
        let flat =
            |count: u8| -> Vec<_> { (1..=count).map(|at| certificate("a", "a", at)).collect() };
        assert_eq!(names_left(&own, &flat(3)).map(|left| left.len()), Ok(3));
        for count in 4..=6 {
            let fault = ChainFault::TooManyPaths(count.into());
            assert_eq!(names_left(&own, &flat(count)), Err(fault));
        }
        // Each of three authorities is signed by the old one above it and by the new one.
        let levels = ["a", "b", "c", "d"];
        let pairs = levels.windows(2).flat_map(|pair| {
            let [subject, issuer] = pair else { unreachable!("windows of two") };
            [1, 2].map(|serial| certificate(subject, issuer, serial))
        });
        let pairs: Vec<_> = pairs.collect();
        assert_eq!(names_left(&own, &pairs).map(|left| left.len()), Ok(6));
    }

    #[test]
    fn an_empty_certificate_is_none() {
        let own = certificate("leaf", "a", 1);
        let fault = names_left(&own, &[certificate("a", "b", 2), vec![]]);
        assert_eq!(fault, Err(ChainFault::Empty(3)));
        assert_eq!(names_left(&[], &[]), Err(ChainFault::Empty(1)));
    }
}
