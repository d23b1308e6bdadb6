//! What a suite costs on this CPU.
//!
//! Faith in a fixed order is worth little: AES-GCM is ten times slower than ChaCha20 without the
//! instructions for it, and SHA-384 is done in software on CPUs that have SHA-256 in hardware,
//! where it was measured to be a sixth of a TLS 1.3 handshake. So the order is measured once, at
//! start, within a few milliseconds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{digest, hmac};

use crate::options::{Cipher, Suite};
use crate::record::algorithm_of;

/// How often each part is measured. The least counts: a disturbance only ever adds time.
const ROUNDS: usize = 24;

/// One TLS record's worth of data (RFC 8446 section 5.1).
const RECORD_BYTES: usize = 16 * 1024;

/// The records that a connection is thought to carry beside its handshake. Terminated connections
/// are short: more would let bulk speed outvote the handshake, fewer the handshake bulk speed.
const RECORDS: u32 = 8;

/// The HMACs of a TLS 1.3 server's key schedule: RFC 8446 section 7.1 draws 3 extracts and about
/// 20 expands (secrets, keys, IVs, finished keys, a ticket's PSK).
const HMACS: usize = 24;

/// The messages that the transcript hashes: a ClientHello with a hybrid key share, and a chain.
const TRANSCRIPT_BYTES: usize = 4 * 1024;

/// A suite must be so much cheaper to be moved before one that stands before it by default:
/// the order is not to change between two starts by noise alone.
const GAIN_PERCENT_MIN: u32 = 10;

/// An order of all suites, cheapest on this CPU first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SuiteOrder(Vec<Suite>);

/// The order by faith: right on CPUs with AES and SHA-256 instructions.
impl Default for SuiteOrder {
    fn default() -> Self {
        Self::by_costs([Duration::ZERO; Cipher::ALL.len()])
    }
}

impl SuiteOrder {
    /// Measures this CPU: blocks for a few milliseconds.
    pub fn measure() -> Self {
        let mut least = [Duration::MAX; Cipher::ALL.len()];
        // The ciphers take turns, so that a disturbance does not fall on one alone.
        for _ in 0..ROUNDS {
            for (cipher, least) in Cipher::ALL.into_iter().zip(&mut least) {
                *least = measure(cipher).min(*least);
            }
        }
        Self::by_costs(least)
    }

    /// All suites, most preferred first.
    pub fn suites(&self) -> &[Suite] {
        &self.0
    }

    fn by_costs(costs: [Duration; Cipher::ALL.len()]) -> Self {
        let mut order: Vec<usize> = (0..Cipher::ALL.len()).collect();
        // Insertion: each moves forward past those that it undercuts by enough.
        for sorted in 1..order.len() {
            let mut position = sorted;
            while position > 0 && undercuts(costs[order[position]], costs[order[position - 1]]) {
                order.swap(position, position - 1);
                position -= 1;
            }
        }
        let suites_of = |index: usize| {
            let suites = Suite::ALL.iter().copied();
            suites.filter(move |suite| suite.cipher() == Cipher::ALL[index])
        };
        Self(order.into_iter().flat_map(suites_of).collect())
    }
}

fn undercuts(cost: Duration, other: Duration) -> bool {
    cost * 100 < other * (100 - GAIN_PERCENT_MIN)
}

/// The cost of one connection's symmetric part, measured once.
fn measure(cipher: Cipher) -> Duration {
    let (digest, hmac) = match cipher {
        Cipher::Aes256Gcm => (&digest::SHA384, hmac::HMAC_SHA384),
        Cipher::Aes128Gcm | Cipher::ChaCha20Poly1305 => (&digest::SHA256, hmac::HMAC_SHA256),
    };
    handshake(digest, hmac) + record(algorithm_of(cipher)) * RECORDS
}

fn handshake(hash: &'static digest::Algorithm, mac: hmac::Algorithm) -> Duration {
    let transcript = [0x5a; TRANSCRIPT_BYTES];
    let begin = Instant::now();
    black_box(digest::digest(hash, black_box(&transcript)));
    for _ in 0..HMACS {
        let key = hmac::Key::new(mac, black_box(&transcript[..hash.output_len]));
        black_box(hmac::sign(&key, &transcript[..hash.output_len + 16]));
    }
    begin.elapsed()
}

fn record(algorithm: &'static aead::Algorithm) -> Duration {
    let key = UnboundKey::new(algorithm, &[0x5a; 32][..algorithm.key_len()])
        .map(LessSafeKey::new)
        .expect("the key has the algorithm's length");
    let mut record = vec![0; RECORD_BYTES];
    let begin = Instant::now();
    let nonce = Nonce::assume_unique_for_key([0; aead::NONCE_LEN]);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from([0; 5]), black_box(&mut record));
    black_box(tag.is_ok());
    begin.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_of(costs: [u64; 3]) -> [Suite; 3] {
        let order = SuiteOrder::by_costs(costs.map(Duration::from_micros));
        let tls13: Vec<Suite> = order
            .suites()
            .iter()
            .copied()
            .filter(|suite| suite.code() >> 8 == 0x13)
            .collect();
        tls13.try_into().expect("three suites of TLS 1.3")
    }

    const AES_128: Suite = Suite::Tls13Aes128GcmSha256;
    const AES_256: Suite = Suite::Tls13Aes256GcmSha384;
    const CHACHA: Suite = Suite::Tls13ChaCha20Poly1305Sha256;

    #[test]
    fn the_cheapest_comes_first() {
        assert_eq!(first_of([300, 200, 100]), [CHACHA, AES_256, AES_128]);
        assert_eq!(first_of([100, 300, 200]), [AES_128, CHACHA, AES_256]);
        assert_eq!(first_of([200, 300, 100]), [CHACHA, AES_128, AES_256]);
    }

    #[test]
    fn a_small_gain_changes_nothing() {
        assert_eq!(first_of([100, 100, 100]), [AES_128, AES_256, CHACHA]);
        assert_eq!(first_of([100, 95, 91]), [AES_128, AES_256, CHACHA]);
        assert_eq!(first_of([100, 95, 80]), [CHACHA, AES_128, AES_256]);
    }

    #[test]
    fn measuring_loses_and_invents_no_suite() {
        let mut measured = SuiteOrder::measure().suites().to_vec();
        let mut all = Suite::ALL.to_vec();
        measured.sort_by_key(|suite| suite.code());
        all.sort_by_key(|suite| suite.code());
        assert_eq!(measured, all);
    }
}
