//! Notices among the supervisors of a cluster's hosts, sealed end to end: worker processes carry
//! them, and have no key for them.
//!
//! Owns their form, and that each is taken once, while it is new. A sealed notice is Base64 of a
//! header (version, key's id, host, instant, number), a random nonce and AES-256-GCM's output; the
//! header is authenticated. Each host seals by a key of its own, of which it asks for far fewer
//! nonces than random ones are good for (NIST SP 800-38D section 8.3).

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::time::Instant;

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::rand;
use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

use super::key_file::ROOT_BYTES;
use crate::secrets::hkdf;

const VERSION: u8 = 1;

/// Version, the key's id, the host, the instant in milliseconds since the epoch, the number.
const HEADER_BYTES: usize = 1 + 4 + 8 + 8 + 8;

/// Hosts whose notices are told apart at a time. A cluster has fewer; more are not listened to.
const HOSTS_MAX: usize = 256;

/// Notices of a host that may overtake each other.
const OVERTAKEN_MAX: u64 = 64;

/// The fault of a notice that is left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoticeFault {
    #[error("it has no form of ours")]
    Malformed,
    #[error("it is sealed by a secret that this host does not have")]
    UnknownSecret,
    #[error("it was changed or made up")]
    Forged,
    /// Too far from this host's clock.
    #[error("its instant is too far from this host's clock")]
    Old,
    #[error("it was sealed before this host started")]
    BeforeStart,
    #[error("it has come before")]
    Repeated,
    #[error("it is of one host too many")]
    TooManyHosts,
}

/// The keys by which a supervisor seals and opens notices, and what it has opened.
pub struct NoticeCipher {
    own: u64,
    number: u64,
    roots: Vec<([u8; 4], Prk)>,
    heard: BTreeMap<u64, HeardNotices>,
    /// Notices that were sealed before are not taken: those that an earlier process took would come
    /// in again.
    accepted_since_ms: u64,
    started: Instant,
}

/// The notices of a host that have come.
struct HeardNotices {
    newest_ms: u64,
    newest: u64,
    /// The bit of each number before the newest, from the lowest on, and its own.
    seen: u64,
}

impl NoticeCipher {
    /// For the host with this number, which no other has and no other life of it had, that starts
    /// now.
    pub fn new(own: u64, (started, started_ms): (Instant, u64)) -> Self {
        let (roots, heard) = (Vec::new(), BTreeMap::new());
        Self { own, number: 0, roots, heard, accepted_since_ms: started_ms, started }
    }

    /// Seals by the first of these roots from here on, and opens what any of them has sealed.
    pub fn follow<'r>(&mut self, roots: impl IntoIterator<Item = &'r [u8; ROOT_BYTES]>) {
        let root = |bytes: &[u8; ROOT_BYTES]| {
            let root = Prk::new_less_safe(HKDF_SHA256, bytes);
            (hkdf::bytes(&root, &[b"key id"]), root)
        };
        self.roots = roots.into_iter().map(root).collect();
    }

    /// A notice for the other hosts; `None` = there is no root.
    pub fn seal(&mut self, notice: &[u8], now_ms: u64) -> Option<String> {
        let (key_id, root) = self.roots.first()?;
        self.number += 1;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).expect("AWS-LC ends the process where there is no randomness");
        let mut text = Zeroizing::new(Vec::with_capacity(HEADER_BYTES + notice.len() + 64));
        text.push(VERSION);
        text.extend_from_slice(key_id);
        for number in [self.own, now_ms, self.number] {
            text.extend_from_slice(&number.to_be_bytes());
        }
        let header = text.clone();
        text.extend_from_slice(&nonce);
        text.extend_from_slice(notice);
        let body = text.get_mut(HEADER_BYTES + NONCE_LEN..).unwrap_or_default();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key(root, self.own).seal_in_place_separate_tag(nonce, Aad::from(&*header), body);
        text.extend_from_slice(tag.expect("a notice is shorter than AES-GCM allows").as_ref());
        Some(Base64::encode_string(&text))
    }

    /// The host that has sealed a notice, no more than `window_ms` from now, and what it says.
    ///
    /// # Errors
    /// It is no notice of a supervisor, or not a new one.
    pub fn open(
        &mut self,
        text: &str,
        (now, now_ms): (Instant, u64),
        window_ms: u64,
    ) -> Result<(u64, Zeroizing<Vec<u8>>), NoticeFault> {
        let bytes = Base64::decode_vec(text).map_err(|_| NoticeFault::Malformed)?;
        let mut bytes = Zeroizing::new(bytes);
        let (header, rest) = bytes.split_at_mut_checked(HEADER_BYTES).unwrap_or_default();
        let (nonce, sealed) = rest.split_at_mut_checked(NONCE_LEN).unwrap_or_default();
        let (key_id, host, sent_ms, number) = read(header).ok_or(NoticeFault::Malformed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| NoticeFault::Malformed)?;
        let root = self.roots.iter().find(|(known, _)| *known == key_id);
        let (_, root) = root.ok_or(NoticeFault::UnknownSecret)?;
        let opened = key(root, host).open_in_place(nonce, Aad::from(&*header), sealed);
        let notice = Zeroizing::new(opened.map_err(|_| NoticeFault::Forged)?.to_vec());
        if sent_ms.abs_diff(now_ms) > window_ms {
            return Err(NoticeFault::Old);
        }
        if self.accepted_since_ms > now_ms {
            // Our clock was set back: the time at which we started, by the new clock.
            let lived = now.saturating_duration_since(self.started).as_millis();
            let lived_ms = u64::try_from(lived).unwrap_or(u64::MAX);
            self.accepted_since_ms = now_ms.saturating_sub(lived_ms);
        }
        if sent_ms < self.accepted_since_ms {
            return Err(NoticeFault::BeforeStart);
        }
        // Who was silent for longer has sent nothing that would still be new.
        self.heard.retain(|_, heard| now_ms <= heard.newest_ms.saturating_add(window_ms));
        if self.heard.len() >= HOSTS_MAX && !self.heard.contains_key(&host) {
            return Err(NoticeFault::TooManyHosts);
        }
        let heard = self.heard.entry(host);
        let heard = heard.or_insert(HeardNotices { newest_ms: sent_ms, newest: 0, seen: 0 });
        if !heard.is_new(number) {
            return Err(NoticeFault::Repeated);
        }
        heard.newest_ms = heard.newest_ms.max(sent_ms);
        Ok((host, notice))
    }
}

impl HeardNotices {
    /// Notes a number. `false` = it has come before, or may have.
    fn is_new(&mut self, number: u64) -> bool {
        if number > self.newest {
            let shift = u32::try_from(number - self.newest).unwrap_or(u32::MAX);
            self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
            self.newest = number;
            return true;
        }
        let age = self.newest - number;
        let is_new = age < OVERTAKEN_MAX && self.seen & (1 << age) == 0;
        if is_new {
            self.seen |= 1 << age;
        }
        is_new
    }
}

fn key(root: &Prk, host: u64) -> LessSafeKey {
    hkdf::aes_256_gcm(root, &[b"notices", &host.to_be_bytes()])
}

/// The key's id, the host, the instant and the number.
fn read(header: &[u8]) -> Option<([u8; 4], u64, u64, u64)> {
    let (version, rest) = header.split_first()?;
    let (key_id, numbers) = rest.split_first_chunk()?;
    let mut numbers = numbers.chunks_exact(8).map(|bytes| {
        let bytes = bytes.try_into().expect("a chunk of eight bytes");
        u64::from_be_bytes(bytes)
    });
    let read = (*key_id, numbers.next()?, numbers.next()?, numbers.next()?);
    (*version == VERSION).then_some(read)
}

/// The keys must not reach a log.
impl Debug for NoticeCipher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoticeCipher").field("roots", &self.roots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const WINDOW: u64 = 30_000;
    const NOW: u64 = 1_000_000;

    fn cipher(own: u64, roots: &[u8]) -> NoticeCipher {
        let mut cipher = NoticeCipher::new(own, (Instant::now(), NOW - 2 * WINDOW));
        let roots: Vec<_> = roots.iter().map(|byte| [*byte; ROOT_BYTES]).collect();
        cipher.follow(&roots);
        cipher
    }

    /// An instant by the host's clock.
    fn at(now_ms: u64) -> (Instant, u64) {
        (Instant::now(), now_ms)
    }

    #[test]
    fn a_host_takes_nothing_from_before_its_start() {
        let mut theirs = cipher(2, &[7]);
        let mut sealed = |now_ms| theirs.seal(b"news", now_ms).unwrap();
        let started = Instant::now();
        let mut ours = NoticeCipher::new(1, (started, NOW));
        ours.follow(&[[7; ROOT_BYTES]]);
        let before = sealed(NOW - 1);
        assert_eq!(ours.open(&before, at(NOW), WINDOW), Err(NoticeFault::BeforeStart));
        ours.open(&sealed(NOW), at(NOW + 5), WINDOW).unwrap();
        // A second after the start the clock was set back by ten.
        let later = started + Duration::from_secs(1);
        let now = (later, NOW - 9000);
        let from_then = [sealed(NOW - 10_001), sealed(NOW - 10_000)];
        assert_eq!(ours.open(&from_then[0], now, WINDOW), Err(NoticeFault::BeforeStart));
        ours.open(&from_then[1], now, WINDOW).unwrap();
    }

    #[test]
    fn who_has_the_secret_reads_what_another_host_says_once() {
        let (mut ours, mut theirs) = (cipher(1, &[7]), cipher(2, &[7]));
        let text = ours.seal(b"news", NOW).unwrap();
        let (host, notice) = theirs.open(&text, at(NOW + 5), WINDOW).unwrap();
        assert_eq!((host, &notice[..]), (1, &b"news"[..]));
        assert_eq!(theirs.open(&text, at(NOW + 6), WINDOW), Err(NoticeFault::Repeated));
        // It is not forgotten while it is new.
        for now in [NOW + WINDOW, NOW + WINDOW + 1] {
            let seen = theirs.open(&text, at(now), WINDOW).unwrap_err();
            let other = if now == NOW + WINDOW { NoticeFault::Repeated } else { NoticeFault::Old };
            assert_eq!(seen, other);
        }
        assert_eq!(
            cipher(3, &[7]).open(&text, at(NOW - WINDOW - 1), WINDOW),
            Err(NoticeFault::Old)
        );
        assert_eq!(cipher(3, &[8]).open(&text, at(NOW), WINDOW), Err(NoticeFault::UnknownSecret));
        assert!(NoticeCipher::new(4, (Instant::now(), NOW)).seal(b"news", NOW).is_none());
    }

    #[test]
    fn a_byte_that_was_changed_is_seen_and_a_text_cut_short() {
        let text = cipher(1, &[7]).seal(b"news", NOW).unwrap();
        let bytes = Base64::decode_vec(&text).unwrap();
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 1;
            let other = Base64::encode_string(&other);
            assert!(cipher(2, &[7]).open(&other, at(NOW), WINDOW).is_err(), "{place}");
            let short = Base64::encode_string(&bytes[..place]);
            assert!(cipher(2, &[7]).open(&short, at(NOW), WINDOW).is_err(), "{place}");
        }
    }

    #[test]
    fn notices_may_overtake_each_other_and_none_comes_twice() {
        let (mut ours, mut theirs) = (cipher(1, &[7]), cipher(2, &[7]));
        let texts: Vec<_> = (0..100).map(|_| ours.seal(b"news", NOW).unwrap()).collect();
        let come = [(50, true), (0, true), (49, true), (50, false), (99, true), (36, true)];
        for (place, is_taken) in come.into_iter().chain([(35, false), (0, false)]) {
            assert_eq!(theirs.open(&texts[place], at(NOW), WINDOW).is_ok(), is_taken, "{place}");
        }
        let is_new = |text: &&String| theirs.open(text, at(NOW), WINDOW).is_ok();
        let again = texts.iter().filter(is_new).count();
        assert_eq!(again, 60, "of 64 that may be late, four had come");
    }

    #[test]
    fn a_secret_is_changed_host_by_host() {
        let (mut ours, mut theirs) = (cipher(1, &[7, 8]), cipher(2, &[8, 7]));
        let text = ours.seal(b"news", NOW).unwrap();
        theirs.open(&text, at(NOW), WINDOW).unwrap();
        let text = theirs.seal(b"news", NOW).unwrap();
        ours.open(&text, at(NOW), WINDOW).unwrap();
        ours.follow(&[[8; ROOT_BYTES]]);
        let text = ours.seal(b"news", NOW).unwrap();
        theirs.open(&text, at(NOW), WINDOW).unwrap();
    }

    #[test]
    fn hosts_that_are_remembered_are_few_and_go() {
        let mut theirs = cipher(0, &[7]);
        for host in 1..=HOSTS_MAX as u64 + 1 {
            let text = cipher(host, &[7]).seal(b"news", NOW).unwrap();
            assert_eq!(theirs.open(&text, at(NOW), WINDOW).is_ok(), host <= HOSTS_MAX as u64);
        }
        let now = NOW + WINDOW + 1;
        let text = cipher(1000, &[7]).seal(b"news", now).unwrap();
        theirs.open(&text, at(now), WINDOW).unwrap();
        assert_eq!(theirs.heard.len(), 1);
    }
}
