//! Tickets: the library's sessions, sealed for the client to keep.
//!
//! A ticket is `format (1) | key name (8) | nonce (12) | sealed | tag (16)`, where `authenticated
//! (8) | issued (8) | service (16) | session` is sealed by AES-256-GCM with the first two fields as
//! additional data. The service stands inside, so that a ticket of another service is told from one
//! that was changed. Nonces are random: at 2^32 tickets a key the chance of a repeat is 2^-33 (NIST
//! SP 800-38D section 8.3), which is 100,000 handshakes a second over a rotation of 12 hours.

use std::fmt::{self, Debug, Formatter};

use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

use super::miss::Miss;
use super::ring::{Found, NAME_BYTES, Ring, TicketKeyFacts};

/// What a ticket begins with. Changes whenever the layout does, or the library's encoding of the
/// state inside: a ticket of another format is no ticket, and the client gets a full handshake.
const FORMAT: u8 = 3;

const HEADER_BYTES: usize = 1 + NAME_BYTES;
const TIME_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

/// Length of a [`ServiceTag`].
pub(super) const SERVICE_TAG_BYTES: usize = 16;

/// The longest session that is sealed, in bytes. Most have 120; one that carries a client's chain
/// some thousand. A client sends its ticket in each hello, of which we read 16 KiB.
const STATE_BYTES_MAX: usize = 4096;

/// How far in the future a ticket may have been made, in seconds: another host's clock may be
/// ahead. One from beyond would outlive its lifetime.
const AHEAD_SECONDS_MAX: u64 = 60 * 60;

/// A session that is renewed at each resumption ends so long after the full handshake that began
/// it, in seconds: who copied a ticket once is not that client for ever, and no secret of TLS 1.2
/// lives longer. RFC 8446 section 4.6.1 wants such a bound; it is a single ticket's there, too.
const AUTHENTICATED_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// What binds a ticket or a stored session to one service. It is under the seal, and no secret.
pub(super) type ServiceTag = [u8; SERVICE_TAG_BYTES];

/// Seals tickets and opens them.
pub(super) struct Tickets {
    ring: Ring,
    lifetime_seconds: u32,
}

impl Tickets {
    /// Tickets of these keys that live so long.
    pub(super) fn new(ring: Ring, lifetime_seconds: u32) -> Self {
        Self {
            ring,
            lifetime_seconds,
        }
    }

    /// The keys.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// How long a client may keep a ticket.
    pub(super) fn lifetime_seconds(&self) -> u32 {
        self.lifetime_seconds
    }

    /// What is told of the keys.
    pub(super) fn key_facts(&self, now: u64) -> Vec<TicketKeyFacts> {
        self.ring.at(now).facts(now)
    }

    /// A ticket for `state` of a client that was `authenticated` then by a full handshake. `None`
    /// if it is too long, or the system has no randomness to give.
    pub(super) fn seal(
        &self,
        state: &[u8],
        service: ServiceTag,
        authenticated: u64,
        now: u64,
    ) -> Option<Vec<u8>> {
        if state.len() > STATE_BYTES_MAX {
            return None;
        }
        let window = self.ring.at(now);
        let encrypting = window.encrypting();
        let mut header = [FORMAT; HEADER_BYTES];
        header[1..].copy_from_slice(&encrypting.name);
        let nonce: [u8; NONCE_LEN] = random()?;
        let sealed_bytes = 2 * TIME_BYTES + SERVICE_TAG_BYTES + state.len() + TAG_BYTES;
        let mut ticket = Vec::with_capacity(HEADER_BYTES + NONCE_LEN + sealed_bytes);
        ticket.extend_from_slice(&header);
        ticket.extend_from_slice(&nonce);
        let sealed_from = ticket.len();
        ticket.extend_from_slice(&authenticated.to_be_bytes());
        ticket.extend_from_slice(&now.to_be_bytes());
        ticket.extend_from_slice(&service);
        ticket.extend_from_slice(state);
        let seal_tag = encrypting
            .key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(header),
                &mut ticket[sealed_from..],
            )
            .ok()?;
        ticket.extend_from_slice(seal_tag.as_ref());
        Some(ticket)
    }

    /// The state in a ticket and when its client was authenticated, or why there is none.
    pub(super) fn open(
        &self,
        ticket: &[u8],
        service: ServiceTag,
        now: u64,
    ) -> Result<(Vec<u8>, u64), Miss> {
        let (header, rest) = ticket
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(Miss::Foreign)?;
        let [FORMAT, name @ ..] = *header else {
            return Err(Miss::Foreign);
        };
        let window = self.ring.at(now);
        let key = match window.find(name) {
            Found::Key(key) => key,
            Found::Retired => return Err(Miss::KeyTooOld),
            Found::Stranger => return Err(Miss::Foreign),
        };
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>().ok_or(Miss::Altered)?;
        let mut opened = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key
            .open_in_place(nonce, Aad::from(*header), &mut opened)
            .map_err(|_| Miss::Altered)?;
        self.judge(plain, service, now)
    }

    /// The state in an opened ticket, if it is still good, and here.
    fn judge(&self, plain: &[u8], service: ServiceTag, now: u64) -> Result<(Vec<u8>, u64), Miss> {
        let (authenticated, plain) = plain
            .split_first_chunk::<TIME_BYTES>()
            .ok_or(Miss::Altered)?;
        let (issued, plain) = plain
            .split_first_chunk::<TIME_BYTES>()
            .ok_or(Miss::Altered)?;
        let (made_with, state) = plain
            .split_first_chunk::<SERVICE_TAG_BYTES>()
            .ok_or(Miss::Altered)?;
        if *made_with != service {
            return Err(Miss::WrongService);
        }
        let issued = u64::from_be_bytes(*issued);
        let age = now.saturating_sub(issued);
        let ahead = issued.saturating_sub(now);
        let authenticated = u64::from_be_bytes(*authenticated);
        let is_renewed_too_long = now.saturating_sub(authenticated) > AUTHENTICATED_SECONDS_MAX;
        let is_old = age > u64::from(self.lifetime_seconds) || is_renewed_too_long;
        if is_old || ahead > AHEAD_SECONDS_MAX {
            return Err(Miss::Expired);
        }
        Ok((state.to_vec(), authenticated))
    }
}

impl Debug for Tickets {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ring::root_of;
    use super::*;

    const HOUR: u64 = 3600;
    const NOON: u64 = 12 * HOUR;
    const WEB: ServiceTag = [1; SERVICE_TAG_BYTES];

    fn of_secret(secret: u8, keep: u32) -> Tickets {
        let ring = Ring::derived(root_of(&[secret; 32]), HOUR, keep);
        Tickets::new(ring, keep * HOUR as u32)
    }

    fn keys(keep: u32) -> Tickets {
        of_secret(7, keep)
    }

    #[test]
    fn hosts_with_the_same_secret_open_each_others_tickets() {
        let ticket = keys(2).seal(b"state", WEB, NOON, NOON).expect("a ticket");
        assert_eq!(
            keys(2).open(&ticket, WEB, NOON),
            Ok((b"state".to_vec(), NOON))
        );
        let stranger = of_secret(8, 2);
        assert_eq!(stranger.open(&ticket, WEB, NOON), Err(Miss::Foreign));
    }

    #[test]
    fn a_ticket_lives_as_long_as_promised_and_no_longer() {
        let keys = keys(2);
        for issued in [NOON, NOON + HOUR - 1] {
            let ticket = keys.seal(b"state", WEB, issued, issued).expect("a ticket");
            let end = issued + u64::from(keys.lifetime_seconds());
            assert!(keys.open(&ticket, WEB, end).is_ok());
            assert!(keys.open(&ticket, WEB, end + 1).is_err());
            let later = keys.open(&ticket, WEB, NOON + 10 * HOUR);
            assert_eq!(later, Err(Miss::KeyTooOld));
        }
        let short = Tickets::new(Ring::derived(root_of(&[7; 32]), HOUR, 2), 60);
        let ticket = short.seal(b"state", WEB, NOON, NOON).expect("a ticket");
        assert!(short.open(&ticket, WEB, NOON + 60).is_ok());
        assert_eq!(short.open(&ticket, WEB, NOON + 61), Err(Miss::Expired));
    }

    #[test]
    fn a_session_is_not_renewed_for_ever() {
        let keys = keys(1);
        let begun = NOON - AUTHENTICATED_SECONDS_MAX.min(NOON);
        let at = begun + AUTHENTICATED_SECONDS_MAX;
        let ticket = keys.seal(b"state", WEB, begun, at).expect("a ticket");
        assert_eq!(keys.open(&ticket, WEB, at), Ok((b"state".to_vec(), begun)));
        assert_eq!(keys.open(&ticket, WEB, at + 1), Err(Miss::Expired));
    }

    #[test]
    fn each_epoch_has_its_own_key() {
        let keys = keys(1);
        let name = |ticket: Vec<u8>| ticket[1..HEADER_BYTES].to_vec();
        let at = |now| name(keys.seal(b"", WEB, now, now).expect("a ticket"));
        let (first, same, next) = (at(NOON), at(NOON + HOUR - 1), at(NOON + HOUR));
        assert_eq!(first, same);
        assert_ne!(first, next);
    }

    #[test]
    fn a_host_whose_clock_is_behind_opens_tickets_of_the_next_epoch() {
        let ticket = keys(1)
            .seal(b"state", WEB, NOON + HOUR, NOON + HOUR)
            .expect("a ticket");
        assert!(keys(1).open(&ticket, WEB, NOON + HOUR - 1).is_ok());
        let before = keys(1).open(&ticket, WEB, NOON - 1);
        assert_eq!(before, Err(Miss::Foreign));
    }

    #[test]
    fn a_ticket_from_the_future_is_none_whatever_its_key() {
        let listed = Ring::listed([&[1; 48][..]].into_iter(), 0, None, NOON);
        let listed = Tickets::new(listed, HOUR as u32);
        let ticket = listed
            .seal(
                b"state",
                WEB,
                NOON + AHEAD_SECONDS_MAX,
                NOON + AHEAD_SECONDS_MAX,
            )
            .expect("a ticket");
        assert!(listed.open(&ticket, WEB, NOON).is_ok());
        assert_eq!(listed.open(&ticket, WEB, NOON - 1), Err(Miss::Expired));
    }

    #[test]
    fn a_clock_that_steps_back_loses_no_ticket() {
        let keys = keys(1);
        let ticket = keys.seal(b"state", WEB, NOON, NOON).expect("a ticket");
        let after_step = keys
            .seal(b"state", WEB, NOON - 1, NOON - 1)
            .expect("a ticket");
        assert!(keys.open(&ticket, WEB, NOON - 1).is_ok());
        assert!(keys.open(&after_step, WEB, NOON).is_ok());
        let day_before = keys.seal(b"state", WEB, HOUR, HOUR).expect("a ticket");
        assert!(keys.open(&day_before, WEB, HOUR).is_ok());
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let keys = keys(1);
        let ticket = keys.seal(b"state", WEB, NOON, NOON).expect("a ticket");
        for index in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[index] ^= 1;
            let miss = if index < HEADER_BYTES {
                Miss::Foreign
            } else {
                Miss::Altered
            };
            assert_eq!(keys.open(&changed, WEB, NOON), Err(miss), "byte {index}");
        }
    }

    #[test]
    fn what_is_too_short_is_no_ticket() {
        let keys = keys(1);
        let ticket = keys.seal(b"", WEB, NOON, NOON).expect("a ticket");
        assert!(keys.open(&ticket, WEB, NOON).is_ok());
        for length in 0..ticket.len() {
            let miss = if length < HEADER_BYTES {
                Miss::Foreign
            } else {
                Miss::Altered
            };
            let opened = keys.open(&ticket[..length], WEB, NOON);
            assert_eq!(opened, Err(miss), "{length} bytes");
        }
    }

    #[test]
    fn a_ticket_of_another_service_is_told_from_a_changed_one() {
        let keys = keys(1);
        let mail = [2; SERVICE_TAG_BYTES];
        let ticket = keys.seal(b"state", WEB, NOON, NOON).expect("a ticket");
        let opened = keys.open(&ticket, mail, NOON);
        assert_eq!(opened, Err(Miss::WrongService));
    }

    proptest::proptest! {
        #[test]
        fn what_was_sealed_opens_and_nothing_else_does(
            state: Vec<u8>,
            noise: Vec<u8>,
            place: prop::sample::Index,
            bit in 0..8u32,
        ) {
            let keys = keys(1);
            let mut ticket = keys.seal(&state, WEB, NOON, NOON).expect("a ticket");
            prop_assert_eq!(keys.open(&ticket, WEB, NOON), Ok((state, NOON)));
            let length = ticket.len();
            prop_assert!(keys.open(&ticket[..place.index(length)], WEB, NOON).is_err());
            ticket[place.index(length)] ^= 1 << bit;
            prop_assert!(keys.open(&ticket, WEB, NOON).is_err());
            prop_assert!(keys.open(&noise, WEB, NOON).is_err());
            // Noise that begins as a ticket of ours.
            let ours = [&ticket[..HEADER_BYTES], &noise].concat();
            prop_assert!(keys.open(&ours, WEB, NOON).is_err());
        }
    }

    #[test]
    fn a_session_that_is_too_long_gets_no_ticket() {
        let keys = keys(1);
        let longest = keys.seal(&[7; STATE_BYTES_MAX], WEB, NOON, NOON);
        assert!(longest.is_some());
        assert_eq!(keys.seal(&[7; STATE_BYTES_MAX + 1], WEB, NOON, NOON), None);
    }
}
