//! `cargo bench -p session`: what a look-up costs by the number of entries, on one thread.
//!
//! The seal does nothing, so that what is left is the store: hash, lock, index, and the copy of the
//! value out of its block. Keys come in an order of chance, so that nothing is near by accident.
#![allow(clippy::disallowed_methods, reason = "a benchmark is its own clock")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use session::{Memory, MemoryStore, Options, Seal, Sealed};

const SIZES: [u32; 3] = [1_000, 100_000, 1_000_000];
const ROUNDS: usize = 9;
const LOOK_UPS: u32 = 500_000;

/// A TLS 1.2 session with a server name, and its service.
const VALUE_BYTES: usize = 120;

#[derive(Debug)]
struct NoSeal;

impl Seal for NoSeal {
    fn seal(&self, _: &[u8], _: &mut [u8]) -> Option<Sealed> {
        Some(Sealed {
            nonce: [0; 12],
            tag: [0; 16],
        })
    }

    fn open(&self, _: &[u8], _: Sealed, _: &mut Vec<u8>) -> bool {
        true
    }
}

/// A session id; neighbours have nothing in common.
fn key(number: u32) -> [u8; 32] {
    let mut key = [0; 32];
    let mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[28..].copy_from_slice(&number.to_be_bytes());
    key
}

fn filled(entries: u32, now: Instant) -> MemoryStore {
    // Shards are not filled evenly: with a tenth more, none is full.
    let room = entries as usize + entries as usize / 10 + 1000;
    let options = Options {
        entries_max: room,
        bytes_max: room * 320,
        lifetime: Duration::from_secs(3600),
    };
    let store = MemoryStore::new(
        options,
        Memory::private(options, Arc::new(NoSeal), now),
        now,
    );
    (0..entries).for_each(|number| assert!(store.put(&key(number), vec![7; VALUE_BYTES], now)));
    assert_eq!(store.len(), entries as usize);
    store
}

/// Nanoseconds for a look-up, on average over many.
fn measure(store: &MemoryStore, entries: u32, now: Instant) -> f64 {
    let mut chance: u32 = 1;
    let begun = Instant::now();
    for _ in 0..LOOK_UPS {
        // A linear congruence (Knuth, TAOCP 3.3.4); its high bits are good enough.
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let number = (u64::from(chance) * u64::from(entries)) >> 32;
        let found = store.get(&key(number as u32), now);
        assert!(black_box(found).is_some());
    }
    begun.elapsed().as_nanos() as f64 / f64::from(LOOK_UPS)
}

fn main() {
    // `cargo test` runs it too, and wants no figures.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let now = Instant::now();
    let stores = SIZES.map(|entries| filled(entries, now));
    let mut readings = SIZES.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((store, entries), readings) in stores.iter().zip(SIZES).zip(&mut readings) {
            readings.push(measure(store, entries, now));
        }
    }
    println!("{:>10}  {:>6}  min .. max", "entries", "ns");
    for (entries, mut readings) in SIZES.into_iter().zip(readings) {
        readings.sort_by(f64::total_cmp);
        let [min, median, max] = [0, ROUNDS / 2, ROUNDS - 1].map(|index| readings[index]);
        println!("{entries:>10}  {median:>6.0}  {min:.0} .. {max:.0}");
    }
}
