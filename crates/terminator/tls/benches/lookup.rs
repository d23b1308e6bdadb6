//! `cargo bench -p tls --bench lookup`: cost of a look-up by the number of stored sessions, in CPU
//! time, on one thread.
//!
//! Store and seal are the product's. The memory is first the product's, in the host's page size,
//! and then private memory in large pages, as if a host gave large pages for either. Ids come in
//! random order, so that none are adjacent by accident. For comparison: the machine's cost of one
//! line of such memory, whatever a store is made of.

use std::collections::VecDeque;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use session::{ExpectedEntry, MachineWords, Memory, MemoryStore, Options, Sealed, ValueCipher};
use sys::cpu::thread_time;
use sys::memory::{self, SharedMemory};

type Words = Arc<dyn AsRef<[AtomicU64]> + Send + Sync>;

const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const ROUNDS: usize = 9;
const LOOK_UPS: u32 = 200_000;

/// Length of a TLS 1.2 session with a server name, its service and its provenance.
const VALUE_BYTES: usize = 150;

/// Memory that a worker's handshake touches between look-ups, about as much as a core's own cache.
/// A batch of look-ups follows, so that reading the clock costs little.
const OTHER_BYTES: usize = 1 << 20;
const BATCH: u32 = 32;

/// Number of look-ups between each two steps of an expected one.
const AHEAD: usize = 4;

const MACHINE: MachineWords = MachineWords { words: memory::zeros, fetch: memory::fetch };

/// The product's seal, which can be switched off.
#[derive(Debug)]
struct Sealer {
    key: LessSafeKey,
    is_idle: AtomicBool,
}

impl Sealer {
    fn new() -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &[7; 32]);
        Self {
            key: LessSafeKey::new(key.expect("AES-256 takes 32 bytes")),
            is_idle: AtomicBool::new(false),
        }
    }
}

/// One nonce for all values, because no data here is secret.
const NONCE: [u8; 12] = [0; 12];

impl ValueCipher for Sealer {
    fn seal(&self, additional: &[u8], bytes: &mut [u8]) -> Option<Sealed> {
        let nonce = Nonce::assume_unique_for_key(NONCE);
        let additional = Aad::from(additional);
        let tag = self.key.seal_in_place_separate_tag(nonce, additional, bytes);
        Some(Sealed { nonce: NONCE, tag: tag.ok()?.as_ref().try_into().ok()? })
    }

    fn open(&self, additional: &[u8], sealed: Sealed, bytes: &mut Vec<u8>) -> bool {
        if self.is_idle.load(Relaxed) {
            return true;
        }
        let (nonce, length) = (Nonce::assume_unique_for_key(sealed.nonce), bytes.len());
        bytes.extend_from_slice(&sealed.tag);
        let opened = self.key.open_in_place(nonce, Aad::from(additional), bytes);
        let is_whole = opened.is_ok();
        bytes.truncate(length);
        is_whole
    }
}

/// Creates memory like a supervisor, and maps it like a worker process.
fn shared_words(count: usize) -> Words {
    let fd = memory::create("bench", count).expect("memory can be had");
    Arc::new(SharedMemory::map(fd.as_fd()).expect("it can be mapped"))
}

/// A store of some size.
struct Subject {
    entries: u32,
    store: MemoryStore,
    seal: Arc<Sealer>,
    words: Words,
    now: Instant,
}

/// Returns the id of a number; neighbours have nothing in common.
fn id(number: u32) -> [u8; 32] {
    let mut id = [0; 32];
    let mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    id[..8].copy_from_slice(&mixed.to_be_bytes());
    id[28..].copy_from_slice(&number.to_be_bytes());
    id
}

impl Subject {
    fn filled(entries: u32, make: fn(usize) -> Words) -> Self {
        // Shards are not filled evenly: with a tenth more, none is full.
        let room = entries as usize + entries as usize / 10 + 4000;
        let options = Options {
            entries_max: room,
            bytes_max: room * 320,
            lifetime: Duration::from_secs(3600),
        };
        let words = make(Memory::words_of(options));
        let (seal, now) = (Arc::new(Sealer::new()), Instant::now());
        let memory = Memory::new(words.clone(), seal.clone(), [7; 16], now).on(MACHINE);
        let store = MemoryStore::new(options, memory, now);
        // Found twice, like sessions of clients that return.
        for number in 0..entries {
            assert!(store.put(&id(number), vec![7; VALUE_BYTES], now));
            assert!((0..2).all(|_| store.get(&id(number), now).is_some()));
        }
        assert_eq!(store.len(), entries as usize);
        Self { entries, store, seal, words, now }
    }

    fn find(&self, id: &[u8; 32]) {
        assert!(black_box(self.store.get(id, self.now)).is_some());
    }

    /// Looks up ids, one after the other.
    fn plain(&self, ids: &mut Ids, count: u32) {
        (0..count).for_each(|_| self.find(&ids.next()));
    }

    /// Looks up ids announced before: a worker has other work meanwhile, here other look-ups.
    fn expected(&self, ids: &mut Ids, count: u32) {
        let mut far: VecDeque<_> = (0..AHEAD).map(|_| self.expect(ids)).collect();
        let mut near: VecDeque<_> = (0..AHEAD).map(|_| self.expect(ids)).collect();
        for _ in 0..count {
            far.push_back(self.expect(ids));
            let (id, expected) = far.pop_front().expect("some are ahead");
            self.store.prefetch(expected);
            near.push_back((id, expected));
            let (id, _) = near.pop_front().expect("some are ahead");
            self.find(&id);
        }
    }

    fn expect(&self, ids: &mut Ids) -> ([u8; 32], ExpectedEntry) {
        let id = ids.next();
        (id, self.store.expect(&id))
    }

    fn missing(&self, ids: &mut Ids, count: u32) {
        for _ in 0..count {
            let mut id = ids.next();
            id[16] = 1;
            assert!(black_box(self.store.get(&id, self.now)).is_none());
        }
    }

    /// Reads a word of one block, and continues at the block that chance and that word determine,
    /// so that each read is waited for.
    fn one_line(&self, ids: &mut Ids, count: u32) {
        let words = (*self.words).as_ref();
        let mut before = 0;
        for _ in 0..count {
            let block = (u64::from(ids.number()) ^ before) as usize % self.entries as usize;
            // The time of the last use: 1 in all of them, and so zero in the xor below.
            before = words[block * BLOCK_WORDS + USED].load(Relaxed) & 2;
        }
        black_box(before);
    }
}

const BLOCK_WORDS: usize = 32;
const USED: usize = 3;

/// Ids of stored sessions in random order.
struct Ids {
    chance: u32,
    entries: u32,
}

impl Ids {
    fn number(&mut self) -> u32 {
        // A linear congruence (Knuth, TAOCP 3.3.4); its high bits are good enough.
        self.chance = self.chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((u64::from(self.chance) * u64::from(self.entries)) >> 32) as u32
    }

    fn next(&mut self) -> [u8; 32] {
        id(self.number())
    }
}

/// One way of looking up.
struct Way {
    name: &'static str,
    work: fn(&Subject, &mut Ids, u32),
    opens: bool,
    /// Whether other work has passed through the caches before.
    after_work: bool,
}

const fn way(name: &'static str, work: fn(&Subject, &mut Ids, u32), opens: bool) -> Way {
    Way { name, work, opens, after_work: false }
}

const WAYS: [Way; 8] = [
    way("one line of memory", Subject::one_line, false),
    way("unknown id", Subject::missing, false),
    way("store alone", Subject::plain, false),
    way("store alone, expected", Subject::expected, false),
    way("opened", Subject::plain, true),
    way("opened, expected", Subject::expected, true),
    Way { after_work: true, ..way("opened, after other work", Subject::plain, true) },
    Way { after_work: true, ..way("opened, expected, after work", Subject::expected, true) },
];

/// Measures the average nanoseconds of a look-up.
fn measure(way: &Way, subject: &Subject, ids: &mut Ids, other: &[u64]) -> f64 {
    subject.seal.is_idle.store(!way.opens, Relaxed);
    let (batches, batch) =
        if way.after_work { (LOOK_UPS / BATCH / 20, BATCH) } else { (1, LOOK_UPS) };
    let mut used = Duration::ZERO;
    for _ in 0..batches {
        if way.after_work {
            black_box(other.iter().fold(0, |sum, one| sum ^ one));
        }
        let before = thread_time();
        (way.work)(subject, ids, batch);
        used += thread_time() - before;
    }
    used.as_nanos() as f64 / f64::from(batches * batch)
}

fn median(readings: &mut [f64]) -> f64 {
    readings.sort_by(f64::total_cmp);
    readings[readings.len() / 2]
}

fn main() {
    // `cargo test` also runs this, and needs no figures.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    println!("memory that outlives the process, in pages as the host gives them");
    run(shared_words);
    println!("private memory, in large pages where the host gives them");
    run(memory::zeros);
}

fn run(make: fn(usize) -> Words) {
    let subjects = SIZES.map(|entries| Subject::filled(entries, make));
    let other = vec![7; OTHER_BYTES / size_of::<u64>()];
    let mut readings = [(); WAYS.len()].map(|()| SIZES.map(|_| Vec::new()));
    let mut chance = 1;
    for _ in 0..ROUNDS {
        for (way, readings) in WAYS.iter().zip(&mut readings) {
            for (subject, readings) in subjects.iter().zip(readings) {
                let mut ids = Ids { chance, entries: subject.entries };
                readings.push(measure(way, subject, &mut ids, &other));
                chance = ids.chance;
            }
        }
    }
    print(&mut readings);
}

fn print(readings: &mut [[Vec<f64>; SIZES.len()]]) {
    print!("{:<30}", "ns of CPU time, by sessions");
    SIZES.iter().for_each(|size| print!(" {size:>9}"));
    println!("  last to first");
    for (way, readings) in WAYS.iter().zip(readings) {
        print!("{:<30}", way.name);
        let ratios = readings[0].iter().zip(&readings[SIZES.len() - 1]);
        let ratio = median(&mut ratios.map(|(few, many)| many / few).collect::<Vec<_>>());
        for readings in readings {
            print!(" {:>9.0}", median(readings));
        }
        println!("  x{ratio:.2}");
    }
}
