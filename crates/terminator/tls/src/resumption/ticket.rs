//! Seals the library's sessions into tickets for the client to keep, and opens them.
//!
//! A ticket is `format (1) | key name (8) | salt (16) | number (8) | encrypted | tag (16)`, where
//! `provenance (16) | issued (8) | service (16) | session` is encrypted by AES-256-GCM with
//! everything before it as additional data. The service is encrypted, so that a ticket of another
//! service can be distinguished from an altered one. The key is a subkey of the named key, made
//! with the salt, which each process draws for itself; the number, a counter of the process, is the
//! nonce (NIST SP 800-38D section 8.2.1). So no nonce repeats, however many tickets a key encrypts
//! and however many hosts have it.

use std::fmt::{self, Debug, Formatter};

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use telemetry::outcome::ResumptionMiss;
use zeroize::Zeroizing;

use crate::context::Provenance;
use crate::resumption::keys::{
    FoundKey, KeyPeriod, NAME_BYTES, Ring, SALT_BYTES, SubkeySalt, TicketKeyFacts, TicketKeyName,
    nonce_of,
};

/// First byte of a ticket. Changes whenever the layout does, or the library's encoding of the state
/// inside: a ticket of another format is ignored, and the client gets a full handshake.
const FORMAT: u8 = 4;

const NAME_FROM: usize = 1;
const SALT_FROM: usize = NAME_FROM + NAME_BYTES;
const NUMBER_FROM: usize = SALT_FROM + SALT_BYTES;
const HEADER_BYTES: usize = NUMBER_FROM + 8;
const TIME_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

pub(super) const SERVICE_TAG_BYTES: usize = 16;

/// Maximum length of a session that is sealed, in bytes. Most have 120; one with a client's chain
/// has some thousand. A client sends its ticket in each hello, of which we read 16 KiB.
const STATE_BYTES_MAX: usize = 4096;

/// Maximum time in the future at which a ticket may have been made, in seconds: another host's
/// clock may be ahead. A later ticket would outlive its lifetime.
const AHEAD_SECONDS_MAX: u64 = 60 * 60;

/// Tag that binds a ticket or a stored session to one service. It is encrypted, but no secret.
pub(super) type ServiceTag = [u8; SERVICE_TAG_BYTES];

/// Seals tickets and opens them.
pub(super) struct Tickets {
    ring: Ring,
    lifetime_seconds: u32,
}

impl Tickets {
    /// Creates tickets with these keys and this lifetime.
    pub(super) fn new(ring: Ring, lifetime_seconds: u32) -> Self {
        Self { ring, lifetime_seconds }
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns how long a client may keep a ticket.
    pub(super) fn lifetime_seconds(&self) -> u32 {
        self.lifetime_seconds
    }

    pub(super) fn key_facts(&self, now: u64) -> Vec<TicketKeyFacts> {
        self.ring.at(now).facts(now)
    }

    /// Seals the `state` of a session with that provenance. `None` if it is too long.
    pub(super) fn seal(
        &self,
        state: &[u8],
        service: ServiceTag,
        provenance: Provenance,
        now: u64,
    ) -> Option<Vec<u8>> {
        if state.len() > STATE_BYTES_MAX {
            return None;
        }
        let window = self.ring.at(now);
        let own = window.own();
        let number = own.next();
        let header = header(window.encrypting().name, own.salt, number);
        let sealed_bytes =
            Provenance::BYTES + TIME_BYTES + SERVICE_TAG_BYTES + state.len() + TAG_BYTES;
        let mut ticket = Vec::with_capacity(HEADER_BYTES + sealed_bytes);
        ticket.extend_from_slice(&header);
        ticket.extend_from_slice(&provenance.to_bytes());
        ticket.extend_from_slice(&now.to_be_bytes());
        ticket.extend_from_slice(&service);
        ticket.extend_from_slice(state);
        let nonce = Nonce::assume_unique_for_key(nonce_of(number));
        let sealed = &mut ticket[HEADER_BYTES..];
        let tag = own.key.seal_in_place_separate_tag(nonce, Aad::from(header), sealed);
        ticket.extend_from_slice(tag.ok()?.as_ref());
        Some(ticket)
    }

    /// Reports whether this process has made the ticket, with the present key.
    pub(super) fn has_made(&self, ticket: &[u8], now: u64) -> bool {
        let header = ticket.first_chunk::<HEADER_BYTES>();
        let name = name_in(ticket);
        let (Some(header), Ok(name)) = (header, name) else {
            return false;
        };
        is_own(&self.ring.at(now), name, salt_and_number(header).0)
    }

    /// Opens a ticket; returns its state and provenance, or the reason of the miss.
    pub(super) fn open(
        &self,
        ticket: &[u8],
        service: ServiceTag,
        now: u64,
    ) -> Result<(Vec<u8>, Provenance), ResumptionMiss> {
        let name = name_in(ticket)?;
        let window = self.ring.at(now);
        let key = match window.find(name) {
            FoundKey::Key(key) => key,
            FoundKey::Retired => return Err(ResumptionMiss::KeyTooOld),
            FoundKey::Stranger => return Err(ResumptionMiss::Foreign),
        };
        let (header, sealed) =
            ticket.split_first_chunk::<HEADER_BYTES>().ok_or(ResumptionMiss::Altered)?;
        let (salt, number) = salt_and_number(header);
        let mut opened = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(nonce_of(number));
        let open = |key: &LessSafeKey, opened: &mut Vec<u8>| {
            let plain = key.open_in_place(nonce, Aad::from(*header), opened);
            plain.map(|plain| plain.len()).map_err(|_| ResumptionMiss::Altered)
        };
        // Deriving another process's subkey takes half a microsecond.
        let plain_bytes = if is_own(&window, name, salt) {
            open(&window.own().key, &mut opened)?
        } else {
            open(&key.subkey(salt), &mut opened)?
        };
        self.judge(&opened[..plain_bytes], service, now)
    }

    /// Returns the state in an opened ticket, if it is still valid, and for this service.
    fn judge(
        &self,
        plain: &[u8],
        service: ServiceTag,
        now: u64,
    ) -> Result<(Vec<u8>, Provenance), ResumptionMiss> {
        let (provenance, plain) =
            plain.split_first_chunk::<{ Provenance::BYTES }>().ok_or(ResumptionMiss::Altered)?;
        let (issued, plain) =
            plain.split_first_chunk::<TIME_BYTES>().ok_or(ResumptionMiss::Altered)?;
        let (made_with, state) =
            plain.split_first_chunk::<SERVICE_TAG_BYTES>().ok_or(ResumptionMiss::Altered)?;
        if *made_with != service {
            return Err(ResumptionMiss::WrongService);
        }
        let issued = u64::from_be_bytes(*issued);
        let age = now.saturating_sub(issued);
        let ahead = issued.saturating_sub(now);
        let provenance = Provenance::from_bytes(*provenance);
        let is_old = age > u64::from(self.lifetime_seconds) || provenance.is_over(now);
        if is_old || ahead > AHEAD_SECONDS_MAX {
            return Err(ResumptionMiss::Expired);
        }
        Ok((state.to_vec(), provenance))
    }
}

fn header(name: TicketKeyName, salt: SubkeySalt, number: u64) -> [u8; HEADER_BYTES] {
    let mut header = [FORMAT; HEADER_BYTES];
    header[NAME_FROM..SALT_FROM].copy_from_slice(&name);
    header[SALT_FROM..NUMBER_FROM].copy_from_slice(&salt);
    header[NUMBER_FROM..].copy_from_slice(&number.to_be_bytes());
    header
}

/// Returns the key's name in a ticket of our format.
fn name_in(ticket: &[u8]) -> Result<TicketKeyName, ResumptionMiss> {
    match ticket.first_chunk::<SALT_FROM>() {
        Some([FORMAT, name @ ..]) => Ok(*name),
        _ => Err(ResumptionMiss::Foreign),
    }
}

fn salt_and_number(header: &[u8; HEADER_BYTES]) -> (SubkeySalt, u64) {
    let (mut salt, mut number) = ([0; SALT_BYTES], [0; 8]);
    salt.copy_from_slice(&header[SALT_FROM..NUMBER_FROM]);
    number.copy_from_slice(&header[NUMBER_FROM..]);
    (salt, u64::from_be_bytes(number))
}

fn is_own(window: &KeyPeriod, name: TicketKeyName, salt: SubkeySalt) -> bool {
    window.own().salt == salt && window.encrypting().name == name
}

impl Debug for Tickets {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::context::AUTHENTICATED_SECONDS_MAX;
    use crate::resumption::keys::root_of;

    const HOUR: u64 = 3600;
    const NOON: u64 = 12 * HOUR;
    const WEB: ServiceTag = [1; SERVICE_TAG_BYTES];

    fn began(authenticated: u64) -> Provenance {
        let certificate = [5; 8];
        Provenance { authenticated, certificate, is_hybrid: false }
    }

    fn of_secret(secret: u8, keep: u32) -> Tickets {
        let ring = Ring::derived(vec![root_of(&[secret; 32])], HOUR, keep);
        Tickets::new(ring, keep * HOUR as u32)
    }

    fn keys(keep: u32) -> Tickets {
        of_secret(7, keep)
    }

    /// Seals a ticket of a session that begins at that time.
    fn ticket(keys: &Tickets, now: u64) -> Vec<u8> {
        let sealed = keys.seal(b"state", WEB, began(now), now);
        sealed.expect("a ticket")
    }

    /// Returns the reason why a ticket of this service is not opened; `None` = it is opened.
    fn miss(keys: &Tickets, ticket: &[u8], now: u64) -> Option<ResumptionMiss> {
        keys.open(ticket, WEB, now).err()
    }

    #[test]
    fn a_ticket_lives_as_long_as_promised_and_no_longer() {
        let keys = keys(2);
        for issued in [NOON, NOON + HOUR - 1] {
            let ticket = ticket(&keys, issued);
            let end = issued + u64::from(keys.lifetime_seconds());
            assert_eq!(miss(&keys, &ticket, end), None);
            assert!(miss(&keys, &ticket, end + 1).is_some());
            let too_old = Some(ResumptionMiss::KeyTooOld);
            assert_eq!(miss(&keys, &ticket, NOON + 10 * HOUR), too_old);
        }
        let short = Tickets::new(Ring::derived(vec![root_of(&[7; 32])], HOUR, 2), 60);
        let ticket = ticket(&short, NOON);
        let expired = Some(ResumptionMiss::Expired);
        assert_eq!(miss(&short, &ticket, NOON + 60), None);
        assert_eq!(miss(&short, &ticket, NOON + 61), expired);
    }

    #[test]
    fn a_session_is_not_renewed_for_ever() {
        let keys = keys(1);
        let begun = NOON - AUTHENTICATED_SECONDS_MAX.min(NOON);
        let at = begun + AUTHENTICATED_SECONDS_MAX;
        let ticket = keys.seal(b"state", WEB, began(begun), at);
        let ticket = ticket.expect("a ticket");
        let opened = Ok((b"state".to_vec(), began(begun)));
        assert_eq!(keys.open(&ticket, WEB, at), opened);
        assert_eq!(miss(&keys, &ticket, at + 1), Some(ResumptionMiss::Expired));
    }

    #[test]
    fn each_epoch_has_its_own_key_which_hosts_know_before() {
        let keys = keys(1);
        let name = |now| ticket(&keys, now)[NAME_FROM..SALT_FROM].to_vec();
        assert_eq!(name(NOON), name(NOON + HOUR - 1));
        assert_ne!(name(NOON), name(NOON + HOUR));
        // A host whose clock is behind.
        let next = ticket(&keys, NOON + HOUR);
        let behind = || self::keys(1);
        assert_eq!(miss(&behind(), &next, NOON + HOUR - 1), None);
        let foreign = Some(ResumptionMiss::Foreign);
        assert_eq!(miss(&behind(), &next, NOON - 1), foreign);
    }

    #[test]
    fn a_ticket_from_the_future_is_none_whatever_its_key() {
        let listed = Ring::listed([&[1; 48][..]].into_iter(), 0, None, NOON);
        let listed = Tickets::new(listed, HOUR as u32);
        let ticket = ticket(&listed, NOON + AHEAD_SECONDS_MAX);
        let expired = Some(ResumptionMiss::Expired);
        assert_eq!(miss(&listed, &ticket, NOON), None);
        assert_eq!(miss(&listed, &ticket, NOON - 1), expired);
    }

    #[test]
    fn a_clock_that_steps_back_loses_no_ticket() {
        let keys = keys(1);
        let (before, after_step) = (ticket(&keys, NOON), ticket(&keys, NOON - 1));
        assert_eq!(miss(&keys, &before, NOON - 1), None);
        assert_eq!(miss(&keys, &after_step, NOON), None);
        let day_before = ticket(&keys, HOUR);
        assert_eq!(miss(&keys, &day_before, HOUR), None);
    }

    #[test]
    fn what_is_changed_or_cut_is_no_ticket() {
        let keys = keys(1);
        let ticket = ticket(&keys, NOON);
        for place in 0..ticket.len() {
            let expected =
                if place < SALT_FROM { ResumptionMiss::Foreign } else { ResumptionMiss::Altered };
            let mut changed = ticket.clone();
            changed[place] ^= 1;
            assert_eq!(miss(&keys, &changed, NOON), Some(expected), "byte {place}");
            let cut = &ticket[..place];
            assert_eq!(miss(&keys, cut, NOON), Some(expected), "{place} bytes");
        }
        let of_mail = keys.open(&ticket, [2; SERVICE_TAG_BYTES], NOON);
        assert_eq!(of_mail, Err(ResumptionMiss::WrongService));
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
            let mut ticket = keys.seal(&state, WEB, began(NOON), NOON).expect("a ticket");
            prop_assert_eq!(keys.open(&ticket, WEB, NOON), Ok((state, began(NOON))));
            let length = ticket.len();
            prop_assert!(keys.open(&ticket[..place.index(length)], WEB, NOON).is_err());
            ticket[place.index(length)] ^= 1 << bit;
            prop_assert!(keys.open(&ticket, WEB, NOON).is_err());
            prop_assert!(keys.open(&noise, WEB, NOON).is_err());
            // Noise that begins as a ticket of ours.
            let ours = [&ticket[..SALT_FROM], &noise].concat();
            prop_assert!(keys.open(&ours, WEB, NOON).is_err());
        }
    }

    #[test]
    fn a_session_that_is_too_long_gets_no_ticket() {
        let keys = keys(1);
        let longest = keys.seal(&[7; STATE_BYTES_MAX], WEB, began(NOON), NOON);
        assert!(longest.is_some());
        assert_eq!(keys.seal(&[7; STATE_BYTES_MAX + 1], WEB, began(NOON), NOON), None);
    }
}
