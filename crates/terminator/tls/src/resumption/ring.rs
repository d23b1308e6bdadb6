//! Ticket keys: which there are at a time, and which of them encrypts.
//!
//! Keys come from a secret or from a list. From a secret every key is a function of the secret and
//! the time: hosts with the same secret agree on their keys without speaking to each other, a
//! restart loses none, and rotation needs no rotating. What this costs is stated plainly: all who
//! learn the secret can compute past keys too, so forward secrecy of resumed TLS 1.2 sessions
//! lasts as long as the secret is secret. A list is rotated by its author, and what it no
//! longer holds is gone.
//!
//! No key of the ring encrypts itself: a key that is listed for years, or that many hosts have,
//! would need nonces that never repeat. Each process encrypts with a [`Subkey`] of its own, made of
//! the key and a random salt, and counts its nonces.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use aws_lc_rs::aead::{LessSafeKey, NONCE_LEN};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::rand;
use zeroize::Zeroize;

use super::key_file::WorkerTask;
use crate::secrets::hkdf;

/// Length of a key's name.
pub(super) const NAME_BYTES: usize = 8;

/// A key's name, in each ticket that it sealed.
pub(super) type TicketKeyName = [u8; NAME_BYTES];

/// Length of a subkey's salt: no two processes draw the same.
pub(super) const SALT_BYTES: usize = 16;

/// The part of a subkey beside its key, in each ticket that it sealed.
pub(super) type SubkeySalt = [u8; SALT_BYTES];

/// Between a label and a value of HKDF: keeps pairs apart.
const SEPARATOR: &[u8] = &[0];

/// Names of former keys that are remembered, so that a ticket of one is told from a stranger's:
/// with the default rotation those of a month. 512 bytes.
const RETIRED_MAX: u64 = 64;

/// The keys of the process.
pub(super) struct Ring {
    source: Source,
    window: RwLock<KeyPeriod>,
}

enum Source {
    /// A key for each stretch of time.
    Derived {
        /// Extracted from the secrets, the one whose keys encrypt first; zeroed by the library
        /// when dropped.
        roots: Vec<Prk>,
        rotate_seconds: u64,
        keep: u32,
    },
    /// The window is all there is.
    Listed,
}

/// The keys that are good at a time.
pub(super) struct KeyPeriod {
    epoch: u64,
    /// The keys that decrypt, newest first of each secret.
    keys: Vec<TicketKey>,
    encrypting: usize,
    own: Subkey,
    /// Names of keys that are no more.
    retired: Vec<TicketKeyName>,
}

pub(super) struct TicketKey {
    pub(super) name: TicketKeyName,
    /// The root of subkeys; zeroed by the library when dropped.
    root: Prk,
    /// Since when it has been in use, in seconds since the epoch.
    since: u64,
}

/// The subkey that encrypts in this process while its key is the newest.
pub(super) struct Subkey {
    pub(super) salt: SubkeySalt,
    pub(super) key: LessSafeKey,
    count: AtomicU64,
}

pub(super) enum FoundKey<'w> {
    Key(&'w TicketKey),
    Retired,
    Stranger,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TicketKeyFacts {
    /// The first bytes of its name, in hexadecimal.
    pub name: String,
    pub purpose: KeyPurpose,
    /// How long it has been in use, in seconds; 0 for one that is not yet.
    pub age_seconds: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyPurpose {
    /// New tickets, and those that it sealed.
    Encrypt,
    /// Tickets that it sealed, or that another host has sealed with it.
    Decrypt,
}

/// The root that keys are derived from, of a secret.
pub(super) fn root_of(secret: &[u8]) -> Prk {
    hkdf::extract(WorkerTask::Tickets.salt(), secret)
}

impl Ring {
    /// Keys from secrets' roots, at least one. Each key of the first encrypts for `rotate_seconds`
    /// (not 0) and decrypts for `keep` times as long after; those of the others only decrypt, so
    /// that hosts can be given a new secret one after the other.
    pub(super) fn derived(roots: Vec<Prk>, rotate_seconds: u64, keep: u32) -> Self {
        let window = RwLock::new(KeyPeriod::around(&roots, rotate_seconds, 0, 0));
        Self { source: Source::Derived { roots, rotate_seconds, keep }, window }
    }

    /// Keys from a list that is not empty, in use since now but for those that `before` had.
    pub(super) fn listed<'k>(
        secrets: impl Iterator<Item = &'k [u8]>,
        encrypting: usize,
        before: Option<&Self>,
        now: u64,
    ) -> Self {
        let keys: Vec<_> =
            secrets.map(|secret| TicketKey::of(&root_of(secret), b"listed", now)).collect();
        let mut window = KeyPeriod {
            epoch: 0,
            own: Subkey::new(keys.get(encrypting).expect("one of the keys encrypts")),
            keys,
            encrypting,
            retired: Vec::new(),
        };
        if let Some(before) = before {
            window.follow(&before.at(now));
        }
        Self { source: Source::Listed, window: RwLock::new(window) }
    }

    /// The keys for this time. A clock that steps back a little keeps the newer keys: they are
    /// known to all, as the next epoch's.
    pub(super) fn at(&self, now: u64) -> RwLockReadGuard<'_, KeyPeriod> {
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        let Source::Derived { roots, rotate_seconds, keep } = &self.source else {
            return window;
        };
        let epoch = now / rotate_seconds;
        let fits = |window: &KeyPeriod| window.epoch == epoch || window.epoch == epoch + 1;
        if fits(&window) {
            return window;
        }
        drop(window);
        let mut window = self.window.write().unwrap_or_else(PoisonError::into_inner);
        if !fits(&window) {
            *window = KeyPeriod::around(roots, *rotate_seconds, epoch, *keep);
        }
        drop(window);
        self.window.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyPeriod {
    /// The epoch's key, the next one's (another host's clock may be ahead) and the older ones.
    fn around(roots: &[Prk], rotate_seconds: u64, epoch: u64, keep: u32) -> Self {
        let oldest = epoch.saturating_sub(u64::from(keep));
        let key = |root: &Prk, epoch: u64| {
            let since = epoch.saturating_mul(rotate_seconds);
            TicketKey::of(root, &epoch.to_be_bytes(), since)
        };
        let of_root = |root| (oldest..=epoch + 1).rev().map(move |epoch| key(root, epoch));
        let keys: Vec<_> = roots.iter().flat_map(of_root).collect();
        let retired = roots.iter().flat_map(|root| {
            let epochs = oldest.saturating_sub(RETIRED_MAX)..oldest;
            epochs.map(|epoch| name_of(root, &epoch.to_be_bytes()))
        });
        // The first root's next key stands before it.
        let encrypting = 1;
        Self {
            epoch,
            own: Subkey::new(keys.get(encrypting).expect("each root has two keys or more")),
            encrypting,
            retired: retired.collect(),
            keys,
        }
    }

    /// Takes over from the keys before: how long those that stay have been in use, and the names
    /// of those that do not.
    fn follow(&mut self, before: &Self) {
        for key in &mut self.keys {
            if let Some(same) = before.keys.iter().find(|one| one.name == key.name) {
                key.since = same.since;
            }
        }
        let names = before.keys.iter().map(|key| key.name);
        let names = names.chain(before.retired.iter().copied());
        let gone = names.filter(|name| self.keys.iter().all(|key| key.name != *name));
        self.retired = gone.take(RETIRED_MAX as usize).collect();
    }

    /// The key for new tickets.
    pub(super) fn encrypting(&self) -> &TicketKey {
        &self.keys[self.encrypting]
    }

    pub(super) fn own(&self) -> &Subkey {
        &self.own
    }

    pub(super) fn find(&self, name: TicketKeyName) -> FoundKey<'_> {
        match self.keys.iter().find(|key| key.name == name) {
            Some(key) => FoundKey::Key(key),
            None if self.retired.contains(&name) => FoundKey::Retired,
            None => FoundKey::Stranger,
        }
    }

    pub(super) fn facts(&self, now: u64) -> Vec<TicketKeyFacts> {
        let facts = |(place, key): (usize, &TicketKey)| TicketKeyFacts {
            name: key.name[..4]
                .iter()
                .fold(String::new(), |name, byte| format!("{name}{byte:02x}")),
            purpose: if place == self.encrypting {
                KeyPurpose::Encrypt
            } else {
                KeyPurpose::Decrypt
            },
            age_seconds: now.saturating_sub(key.since),
        };
        self.keys.iter().enumerate().map(facts).collect()
    }
}

impl TicketKey {
    fn of(root: &Prk, which: &[u8], since: u64) -> Self {
        let mut bytes = [0; 32];
        hkdf::expand(root, &[b"ticket key", SEPARATOR, which], &mut bytes);
        let key_root = Prk::new_less_safe(HKDF_SHA256, &bytes);
        bytes.zeroize();
        Self { name: name_of(root, which), root: key_root, since }
    }

    /// The subkey of this salt.
    pub(super) fn subkey(&self, salt: SubkeySalt) -> LessSafeKey {
        hkdf::aes_256_gcm(&self.root, &[b"ticket subkey", SEPARATOR, &salt])
    }
}

impl Subkey {
    fn new(key: &TicketKey) -> Self {
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).expect("AWS-LC ends the process where there is no randomness");
        Self { salt, key: key.subkey(salt), count: AtomicU64::new(0) }
    }

    /// A number that it has not given before; see [`nonce_of`].
    pub(super) fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }
}

/// A nonce from its number: 64 bits are more than one process can count to.
pub(super) fn nonce_of(number: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    nonce
}

fn name_of(root: &Prk, which: &[u8]) -> TicketKeyName {
    hkdf::bytes(root, &[b"ticket key name", SEPARATOR, which])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;
    const NOON: u64 = 12 * HOUR;

    fn listed(secrets: &[&[u8]], encrypting: usize, before: Option<&Ring>, now: u64) -> Ring {
        Ring::listed(secrets.iter().copied(), encrypting, before, now)
    }

    #[test]
    fn a_key_derives_ages_retires_and_is_forgotten() {
        let ring = Ring::derived(vec![root_of(&[7; 32])], HOUR, 2);
        let name = ring.at(NOON).encrypting().name;
        let found = |now| matches!(ring.at(now).find(name), FoundKey::Key(_));
        assert!(found(NOON - HOUR) && found(NOON) && found(NOON + 2 * HOUR));
        let retired = |now| matches!(ring.at(now).find(name), FoundKey::Retired);
        assert!(retired(NOON + 3 * HOUR) && retired(NOON + (2 + RETIRED_MAX) * HOUR));
        assert!(!retired(NOON + (3 + RETIRED_MAX) * HOUR));
    }

    #[test]
    fn a_secret_that_is_being_replaced_still_decrypts_and_does_not_encrypt() {
        let roots = |bytes: &[u8]| bytes.iter().map(|byte| root_of(&[*byte; 32])).collect();
        let ring = |bytes: &[u8]| Ring::derived(roots(bytes), HOUR, 2);
        let (old, both, new) = (ring(&[1]), ring(&[2, 1]), ring(&[2]));
        let name_of = |ring: &Ring| ring.at(NOON).encrypting().name;
        assert_eq!(name_of(&both), name_of(&new));
        assert!(matches!(both.at(NOON).find(name_of(&old)), FoundKey::Key(_)));
        assert!(matches!(new.at(NOON).find(name_of(&old)), FoundKey::Stranger));
        let late = NOON + 4 * HOUR;
        assert!(matches!(both.at(late).find(name_of(&old)), FoundKey::Retired));
    }

    #[test]
    fn no_two_processes_encrypt_with_the_same_key_and_no_nonce_comes_twice() {
        let rings = [(); 2].map(|()| listed(&[&[1; 48]], 0, None, NOON));
        let [one, other] = rings.each_ref().map(|ring| ring.at(NOON));
        assert_eq!(one.encrypting().name, other.encrypting().name);
        assert_ne!(one.own().salt, other.own().salt);
        let numbers: Vec<_> = (0..100).map(|_| one.own().next()).collect();
        let mut nonces: Vec<_> = numbers.iter().copied().map(nonce_of).collect();
        nonces.dedup();
        assert_eq!(nonces.len(), 100);
    }

    #[test]
    fn ages_are_told_of_every_key() {
        let ring = Ring::derived(vec![root_of(&[7; 32])], HOUR, 2);
        let facts = ring.at(NOON + 60).facts(NOON + 60);
        let ages: Vec<_> = facts.iter().map(|key| key.age_seconds).collect();
        assert_eq!(ages, [0, 60, HOUR + 60, 2 * HOUR + 60]);
        let encrypting: Vec<_> =
            facts.iter().map(|key| key.purpose == KeyPurpose::Encrypt).collect();
        assert_eq!(encrypting, [false, true, false, false]);
        assert!(facts.iter().all(|key| key.name.len() == 8));
    }

    #[test]
    fn a_list_that_follows_another_keeps_ages_and_the_names_of_what_is_gone() {
        let (a, b, c): (&[u8], &[u8], &[u8]) = (&[1; 48], &[2; 48], &[3; 80]);
        let first = listed(&[a, b], 0, None, NOON);
        let second = listed(&[c, a], 0, Some(&first), NOON + HOUR);
        let ages: Vec<_> =
            second.at(0).facts(NOON + HOUR).iter().map(|key| key.age_seconds).collect();
        assert_eq!(ages, [0, HOUR]);
        let name_of_b = first.at(0).keys[1].name;
        assert!(matches!(second.at(0).find(name_of_b), FoundKey::Retired));
        let third = listed(&[c], 0, Some(&second), NOON + 2 * HOUR);
        assert!(matches!(third.at(0).find(name_of_b), FoundKey::Retired));
        let back = listed(&[b], 0, Some(&third), NOON + 2 * HOUR);
        assert!(matches!(back.at(0).find(name_of_b), FoundKey::Key(_)));
        assert!(matches!(first.at(0).find([0; NAME_BYTES]), FoundKey::Stranger));
    }
}
