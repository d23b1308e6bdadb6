//! With what a session began.
//!
//! Sessions are renewed: each resumption makes new tickets. What holds of the full handshake that
//! began the first of them holds of all, and is carried on in each.

use crate::fingerprint::{FINGERPRINT_BYTES, Fingerprint};

const TIME_BYTES: usize = 8;

/// A session that is renewed at each resumption ends so long after the full handshake that began
/// it, in seconds: who copied a ticket once is not that client for ever, and no secret of TLS 1.2
/// lives longer. RFC 8446 section 4.6.1 wants such a bound; it is a single ticket's there, too.
pub(crate) const AUTHENTICATED_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// With what a session began.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Provenance {
    /// When its client was authenticated by a full handshake, in seconds of Unix time.
    pub(crate) authenticated: u64,
    /// The certificate that the client was shown then.
    pub(crate) certificate: Fingerprint,
}

impl Provenance {
    pub(crate) const BYTES: usize = TIME_BYTES + FINGERPRINT_BYTES;

    /// As it lies in tickets and stored sessions.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..TIME_BYTES].copy_from_slice(&self.authenticated.to_be_bytes());
        bytes[TIME_BYTES..].copy_from_slice(&self.certificate);
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (mut time, mut certificate) = ([0; TIME_BYTES], [0; FINGERPRINT_BYTES]);
        time.copy_from_slice(&bytes[..TIME_BYTES]);
        certificate.copy_from_slice(&bytes[TIME_BYTES..]);
        Self {
            authenticated: u64::from_be_bytes(time),
            certificate,
        }
    }

    /// Whether a session that began so is renewed no more.
    pub(crate) fn is_over(self, now: u64) -> bool {
        now.saturating_sub(self.authenticated) > AUTHENTICATED_SECONDS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_ends_after_a_week() {
        let began = Provenance {
            authenticated: 0x0102_0304,
            certificate: [9; FINGERPRINT_BYTES],
        };
        assert_eq!(Provenance::from_bytes(began.to_bytes()), began);
        let end = began.authenticated + AUTHENTICATED_SECONDS_MAX;
        assert!(!began.is_over(end) && began.is_over(end + 1) && !began.is_over(0));
    }
}
