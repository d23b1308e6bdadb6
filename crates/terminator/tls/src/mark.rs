//! What stands for a certificate in sessions that were made under it.

use aws_lc_rs::digest;

/// Length of a [`CertificateMark`].
pub(crate) const MARK_BYTES: usize = 8;

/// The first bytes of a certificate's SHA-256: enough to tell those of one service apart, and
/// nobody gains by finding two of the same.
pub(crate) type CertificateMark = [u8; MARK_BYTES];

/// What stands for a certificate (DER).
pub(crate) fn mark_of(certificate: &[u8]) -> CertificateMark {
    let digest = digest::digest(&digest::SHA256, certificate);
    let mut mark = [0; MARK_BYTES];
    mark.copy_from_slice(&digest.as_ref()[..MARK_BYTES]);
    mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_have_marks_of_their_own() {
        assert_eq!(mark_of(b"a"), mark_of(b"a"));
        assert_ne!(mark_of(b"a"), mark_of(b"b"));
    }
}
