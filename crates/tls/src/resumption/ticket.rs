//! Ticket keys and tickets.
//!
//! Every key is a function of the secret and the time: hosts with the same secret agree on their
//! keys without speaking to each other, a restart loses none, and rotation needs no rotating.
//! What this costs is stated plainly: whoever learns the secret can compute past keys too, so
//! forward secrecy of resumed TLS 1.2 sessions lasts as long as the secret is secret. TLS 1.3
//! always adds a fresh key exchange here (psk_dhe_ke).
//!
//! A ticket is `format (1) | key name (8) | nonce (12) | sealed (issued (8) | state) | tag (16)`,
//! sealed by AES-256-GCM with the first two and the service's tag as additional data. Nonces are
//! random: at 2^32 tickets a key the chance of a repeat is 2^-33 (NIST SP 800-38D section 8.3),
//! which is 100,000 handshakes a second over a rotation of 12 hours.

use std::fmt::{self, Debug, Formatter};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use zeroize::{Zeroize, Zeroizing};

/// What a ticket begins with. Changes whenever the layout does, or the library's encoding of the
/// state inside: a ticket of another format is no ticket, and the client gets a full handshake.
const FORMAT: u8 = 1;

const NAME_BYTES: usize = 8;
const HEADER_BYTES: usize = 1 + NAME_BYTES;
const ISSUED_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

/// Length of a [`ServiceTag`].
pub(super) const SERVICE_TAG_BYTES: usize = 16;

/// RFC 8446 section 4.6.1: no ticket may be used for more than seven days.
const LIFETIME_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// What binds a ticket or a stored session to one service.
pub(super) type ServiceTag = [u8; SERVICE_TAG_BYTES];

/// The ticket keys of the process.
pub(super) struct TicketKeys {
    /// Extracted from the secret; zeroed by the library when dropped.
    root: Prk,
    rotate_seconds: u64,
    keep: u32,
    window: RwLock<Window>,
}

/// The keys that are good around one epoch.
struct Window {
    epoch: u64,
    encrypting: TicketKey,
    /// The next epoch's key (another host's clock may be ahead) and the older ones.
    others: Vec<TicketKey>,
}

struct TicketKey {
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

/// So many bytes from HKDF.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

impl TicketKeys {
    pub(super) fn new(secret: &[u8; 32], rotate: Duration, keep: u32) -> Self {
        let root = Salt::new(HKDF_SHA256, b"lariat resumption 1").extract(secret);
        let window = RwLock::new(Window::around(&root, 0, 0));
        Self {
            root,
            rotate_seconds: rotate.as_secs().max(1),
            keep,
            window,
        }
    }

    /// How long a client may keep a ticket: as long as the key of one made at an epoch's very end
    /// is still known.
    pub(super) fn lifetime_seconds(&self) -> u32 {
        let seconds = self
            .rotate_seconds
            .saturating_mul(u64::from(self.keep.max(1)));
        u32::try_from(seconds.min(LIFETIME_SECONDS_MAX)).unwrap_or(u32::MAX)
    }

    pub(super) fn service_tag(&self, service: &str) -> ServiceTag {
        let mut tag = [0; SERVICE_TAG_BYTES];
        expand(&self.root, &[b"service", service.as_bytes()], &mut tag);
        tag
    }

    /// A ticket for `state`. `None` only if the system has no randomness to give.
    pub(super) fn seal(&self, state: &[u8], tag: ServiceTag, now: u64) -> Option<Vec<u8>> {
        let window = self.window_at(now);
        let TicketKey { name, key } = &window.encrypting;
        let nonce: [u8; NONCE_LEN] = random()?;
        let length = HEADER_BYTES + NONCE_LEN + ISSUED_BYTES + state.len() + TAG_BYTES;
        let mut ticket = Vec::with_capacity(length);
        ticket.push(FORMAT);
        ticket.extend_from_slice(name);
        ticket.extend_from_slice(&nonce);
        let sealed_from = ticket.len();
        ticket.extend_from_slice(&now.to_be_bytes());
        ticket.extend_from_slice(state);
        let seal_tag = key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                additional_data(*name, tag),
                &mut ticket[sealed_from..],
            )
            .ok()?;
        ticket.extend_from_slice(seal_tag.as_ref());
        Some(ticket)
    }

    /// The state in a ticket; `None` if it is not ours, too old, or of another service.
    pub(super) fn open(&self, ticket: &[u8], tag: ServiceTag, now: u64) -> Option<Vec<u8>> {
        let (format, rest) = ticket.split_first()?;
        let (name, rest) = rest.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        if *format != FORMAT {
            return None;
        }
        let mut opened = Zeroizing::new(sealed.to_vec());
        let window = self.window_at(now);
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = window
            .find(*name)?
            .open_in_place(nonce, additional_data(*name, tag), &mut opened)
            .ok()?;
        let (issued, state) = plain.split_first_chunk::<ISSUED_BYTES>()?;
        let age = now.saturating_sub(u64::from_be_bytes(*issued));
        (age <= u64::from(self.lifetime_seconds())).then(|| state.to_vec())
    }

    /// The keys for this time. A clock that steps back a little keeps the newer keys: they are
    /// known to all, as the next epoch's.
    fn window_at(&self, now: u64) -> RwLockReadGuard<'_, Window> {
        let epoch = now / self.rotate_seconds;
        let fits = |window: &Window| window.epoch == epoch || window.epoch == epoch + 1;
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        if fits(&window) {
            return window;
        }
        drop(window);
        let mut window = self.window.write().unwrap_or_else(PoisonError::into_inner);
        if !fits(&window) {
            *window = Window::around(&self.root, epoch, self.keep);
        }
        drop(window);
        self.window.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for TicketKeys {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

impl Window {
    fn around(root: &Prk, epoch: u64, keep: u32) -> Self {
        let older = epoch.saturating_sub(u64::from(keep))..epoch;
        let others = older.rev().chain([epoch + 1]);
        Self {
            epoch,
            encrypting: TicketKey::of(root, epoch),
            others: others.map(|epoch| TicketKey::of(root, epoch)).collect(),
        }
    }

    fn find(&self, name: [u8; NAME_BYTES]) -> Option<&LessSafeKey> {
        let mut keys = std::iter::once(&self.encrypting).chain(&self.others);
        keys.find(|key| key.name == name).map(|key| &key.key)
    }
}

impl TicketKey {
    fn of(root: &Prk, epoch: u64) -> Self {
        let epoch = epoch.to_be_bytes();
        let mut name = [0; NAME_BYTES];
        expand(root, &[b"ticket key name", &epoch], &mut name);
        let mut bytes = [0; 32];
        expand(root, &[b"ticket key", &epoch], &mut bytes);
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map(LessSafeKey::new);
        bytes.zeroize();
        Self {
            name,
            key: key.expect("AES-256 takes 32 bytes"),
        }
    }
}

/// HKDF-Expand with a label and a value; the zero between them keeps pairs apart.
fn expand(root: &Prk, [label, value]: &[&[u8]; 2], out: &mut [u8]) {
    root.expand(&[label, &[0], value], Bytes(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("HKDF-SHA256 gives up to 8160 bytes");
}

fn additional_data(
    name: [u8; NAME_BYTES],
    tag: ServiceTag,
) -> Aad<[u8; HEADER_BYTES + SERVICE_TAG_BYTES]> {
    let mut data = [FORMAT; HEADER_BYTES + SERVICE_TAG_BYTES];
    data[1..HEADER_BYTES].copy_from_slice(&name);
    data[HEADER_BYTES..].copy_from_slice(&tag);
    Aad::from(data)
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;
    const NOON: u64 = 12 * HOUR;
    const WEB: ServiceTag = [1; SERVICE_TAG_BYTES];

    fn keys(keep: u32) -> TicketKeys {
        TicketKeys::new(&[7; 32], Duration::from_secs(HOUR), keep)
    }

    #[test]
    fn hosts_with_the_same_secret_open_each_others_tickets() {
        let ticket = keys(2).seal(b"state", WEB, NOON).expect("a ticket");
        assert_eq!(
            keys(2).open(&ticket, WEB, NOON).as_deref(),
            Some(&b"state"[..])
        );
        let stranger = TicketKeys::new(&[8; 32], Duration::from_secs(HOUR), 2);
        assert_eq!(stranger.open(&ticket, WEB, NOON), None);
    }

    #[test]
    fn a_ticket_lives_as_long_as_promised_and_no_longer() {
        let keys = keys(2);
        for issued in [NOON, NOON + HOUR - 1] {
            let ticket = keys.seal(b"state", WEB, issued).expect("a ticket");
            let end = issued + u64::from(keys.lifetime_seconds());
            assert!(keys.open(&ticket, WEB, end).is_some());
            assert!(keys.open(&ticket, WEB, end + 1).is_none());
            assert!(keys.open(&ticket, WEB, NOON + 10 * HOUR).is_none());
        }
    }

    #[test]
    fn each_epoch_has_its_own_key() {
        let keys = keys(1);
        let name = |ticket: Vec<u8>| ticket[1..HEADER_BYTES].to_vec();
        let at = |now| name(keys.seal(b"", WEB, now).expect("a ticket"));
        let (first, same, next) = (at(NOON), at(NOON + HOUR - 1), at(NOON + HOUR));
        assert_eq!(first, same);
        assert_ne!(first, next);
    }

    #[test]
    fn a_host_whose_clock_is_behind_opens_tickets_of_the_next_epoch() {
        let ticket = keys(1).seal(b"state", WEB, NOON + HOUR).expect("a ticket");
        assert!(keys(1).open(&ticket, WEB, NOON + HOUR - 1).is_some());
        assert!(keys(1).open(&ticket, WEB, NOON - 1).is_none());
    }

    #[test]
    fn a_clock_that_steps_back_loses_no_ticket() {
        let keys = keys(1);
        let ticket = keys.seal(b"state", WEB, NOON).expect("a ticket");
        let after_step = keys.seal(b"state", WEB, NOON - 1).expect("a ticket");
        assert!(keys.open(&ticket, WEB, NOON - 1).is_some());
        assert!(keys.open(&after_step, WEB, NOON).is_some());
        let day_before = keys.seal(b"state", WEB, HOUR).expect("a ticket");
        assert!(keys.open(&day_before, WEB, HOUR).is_some());
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let keys = keys(1);
        let ticket = keys.seal(b"state", WEB, NOON).expect("a ticket");
        for index in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[index] ^= 1;
            assert_eq!(keys.open(&changed, WEB, NOON), None, "byte {index}");
        }
    }

    #[test]
    fn what_is_too_short_is_no_ticket() {
        let keys = keys(1);
        let ticket = keys.seal(b"", WEB, NOON).expect("a ticket");
        assert!(keys.open(&ticket, WEB, NOON).is_some());
        for length in 0..ticket.len() {
            assert_eq!(
                keys.open(&ticket[..length], WEB, NOON),
                None,
                "{length} bytes"
            );
        }
    }

    #[test]
    fn a_ticket_of_another_service_is_refused() {
        let keys = keys(1);
        let (web, mail) = (keys.service_tag("web"), keys.service_tag("mail"));
        let ticket = keys.seal(b"state", web, NOON).expect("a ticket");
        assert!(keys.open(&ticket, web, NOON).is_some());
        assert_eq!(keys.open(&ticket, mail, NOON), None);
    }

    #[test]
    fn no_lifetime_is_over_seven_days() {
        let keys = TicketKeys::new(&[7; 32], Duration::from_secs(10 * 24 * HOUR), 4);
        assert_eq!(u64::from(keys.lifetime_seconds()), LIFETIME_SECONDS_MAX);
    }
}
