//! What a session began with, and how the library's steps hear of it.
//!
//! Sessions are renewed: each resumption makes new tickets. What holds of the full handshake that
//! began the first of them holds of all, and is carried on. The library knows nothing of it, and
//! makes tickets in a later step than that which opened the old one; both are made on the thread
//! that drives the handshake, so its driver keeps the [`Bond`] from step to step.

use std::cell::Cell;

use crate::mark::{CertificateMark, MARK_BYTES};

const TIME_BYTES: usize = 8;

/// A session that is renewed at each resumption ends so long after the full handshake that began
/// it, in seconds: who copied a ticket once is not that client for ever, and no secret of TLS 1.2
/// lives longer. RFC 8446 section 4.6.1 wants such a bound; it is a single ticket's there, too.
pub(super) const AUTHENTICATED_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// What a session began with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Origin {
    /// When its client was authenticated by a full handshake, in seconds of Unix time.
    pub(crate) authenticated: u64,
    /// The certificate that the client was shown then.
    pub(crate) certificate: CertificateMark,
}

/// What one handshake has come to, as far as its tickets must know.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Bond {
    /// The origin of the session that it resumes; `None` = it resumes none.
    resumed: Option<Origin>,
    /// The certificate that it shows if it is a full one.
    shown: CertificateMark,
    /// Whether a session of its own has taken the place of the one that it resumes.
    has_renewed: bool,
}

thread_local! {
    static BOND: Cell<Bond> = const {
        Cell::new(Bond { resumed: None, shown: [0; MARK_BYTES], has_renewed: false })
    };
}

/// Says whose step this thread drives now.
pub(crate) fn set_bond(bond: Bond) {
    BOND.set(bond);
}

/// What the step has come to.
pub(crate) fn bond() -> Bond {
    BOND.get()
}

/// Notes the certificate that a full handshake shows.
pub(crate) fn note_shown(certificate: CertificateMark) {
    let before = BOND.get();
    BOND.set(Bond {
        shown: certificate,
        ..before
    });
}

/// Notes the session that was found.
pub(super) fn note_resumed(origin: Origin) {
    let before = BOND.get();
    BOND.set(Bond {
        resumed: Some(origin),
        ..before
    });
}

/// Whether the next session takes the place of the one that was resumed. Only one does: clients
/// may ask for several (RFC 9149), and one that was used has not proved four.
pub(super) fn take_renewal() -> bool {
    let before = BOND.get();
    BOND.set(Bond {
        has_renewed: true,
        ..before
    });
    before.is_renewal() && !before.has_renewed
}

impl Bond {
    /// The origin of this handshake's tickets.
    pub(super) fn origin(self, now: u64) -> Origin {
        self.resumed.unwrap_or(Origin {
            authenticated: now,
            certificate: self.shown,
        })
    }

    /// Whether it renews a session.
    pub(super) fn is_renewal(self) -> bool {
        self.resumed.is_some()
    }

    /// The same of a handshake that turned out to be a full one: the session did not fit.
    pub(crate) fn in_full(self) -> Self {
        Self {
            resumed: None,
            ..self
        }
    }
}

impl Origin {
    /// Length of [`Origin::to_bytes`].
    pub(super) const BYTES: usize = TIME_BYTES + MARK_BYTES;

    /// As it lies in tickets and stored sessions.
    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..TIME_BYTES].copy_from_slice(&self.authenticated.to_be_bytes());
        bytes[TIME_BYTES..].copy_from_slice(&self.certificate);
        bytes
    }

    /// What [`Origin::to_bytes`] wrote.
    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (mut time, mut certificate) = ([0; TIME_BYTES], [0; MARK_BYTES]);
        time.copy_from_slice(&bytes[..TIME_BYTES]);
        certificate.copy_from_slice(&bytes[TIME_BYTES..]);
        Self {
            authenticated: u64::from_be_bytes(time),
            certificate,
        }
    }

    /// Whether a session that began so is renewed no more.
    pub(super) fn is_over(self, now: u64) -> bool {
        now.saturating_sub(self.authenticated) > AUTHENTICATED_SECONDS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin {
        authenticated: 0x0102_0304,
        certificate: [9; MARK_BYTES],
    };

    #[test]
    fn an_origin_is_read_as_it_was_written() {
        assert_eq!(Origin::from_bytes(ORIGIN.to_bytes()), ORIGIN);
        let end = ORIGIN.authenticated + AUTHENTICATED_SECONDS_MAX;
        assert!(!ORIGIN.is_over(end) && ORIGIN.is_over(end + 1) && !ORIGIN.is_over(0));
    }

    #[test]
    fn a_renewal_keeps_its_origin_and_a_full_handshake_is_one() {
        set_bond(Bond::default());
        note_shown([1; MARK_BYTES]);
        let full = Origin {
            authenticated: 7,
            certificate: [1; MARK_BYTES],
        };
        assert_eq!(bond().origin(7), full);
        note_resumed(ORIGIN);
        assert_eq!(bond().origin(7), ORIGIN);
        assert!(bond().is_renewal() && !bond().in_full().is_renewal());
        assert!(take_renewal() && !take_renewal(), "one takes its place");
        assert_eq!(bond().in_full().origin(7), full);
        set_bond(Bond::default());
    }
}
