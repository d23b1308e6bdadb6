//! Any bytes in the memory of the session cache: no panic, and only sessions stored under an id are
//! found under it.
//!
//! The input is a script: processes store and look up, die and are followed by others, and between
//! them an attacker writes anything to the memory, copies of earlier entries among it.
#![no_main]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use tls::resumption::{BareSessions, Resumption, ResumptionOptions, SessionMemory};

const BLOCKS: usize = 16;
const BLOCK_WORDS: usize = 32;
/// Cost of a block with its share of the index, which decides the number of blocks.
const BLOCK_COST_BYTES: usize = 320;

/// Maximum of entries, fewer than there are blocks, so that both limits take effect.
const ENTRIES: usize = 12;

/// Marks of blocks, and numbers that are no mark.
const MARKS: [u64; 5] = [0x4652, 0x4649, 0x4655, 0, 0x1234];

/// Maximum of processes in one script, because each must derive its keys.
const PROCESSES_MAX: u32 = 20;

struct Play {
    words: Arc<Vec<AtomicU64>>,
    zero: Instant,
    process_number: u32,
    process: BareSessions,
    /// Every session ever stored under an id, because an attacker may restore any of them.
    stored: HashMap<u8, Vec<Vec<u8>>>,
    /// Earlier copy of a block.
    copy: Vec<u64>,
}

fuzz_target!(|bytes: &[u8]| {
    let mut play = Play::begin();
    let mut rest = bytes;
    while let Some(([action, a, b, c], after)) = rest.split_first_chunk() {
        rest = after;
        match action % 8 {
            0 | 1 => play.store(*a, *b, *c),
            2 => play.write(*a, *b, &mut rest),
            3 => play.mark(*a, *b, *c, &mut rest),
            4 => play.flip(*a, *b, *c),
            5 => play.copy_block(*a, *b),
            6 => play.check(*a),
            _ => play.succeed(),
        }
    }
    play.succeed();
    (0..=u8::MAX).for_each(|id| play.check(id));
    play.check_still_works();
});

impl Play {
    fn begin() -> Self {
        let words = std::iter::repeat_with(|| AtomicU64::new(0));
        let words: Arc<Vec<_>> = Arc::new(words.take(BLOCKS * BLOCK_WORDS).collect());
        let zero = Instant::now();
        let process = process(&words, zero, 0);
        Self {
            words,
            zero,
            process_number: 0,
            process,
            stored: HashMap::new(),
            copy: vec![0; BLOCK_WORDS],
        }
    }

    /// Stores a session of up to 1,024 bytes that the library would take.
    fn store(&mut self, id: u8, length: u8, content: u8) {
        let session = session(usize::from(length) * 4, content);
        if self.process.store(&[id], &session) {
            self.stored.entry(id).or_default().push(session);
        }
    }

    /// Writes eight bytes of the input to a word.
    fn write(&mut self, block: u8, word: u8, input: &mut &[u8]) {
        if let Some((value, after)) = input.split_first_chunk() {
            *input = after;
            self.word(block, word).store(u64::from_le_bytes(*value), Relaxed);
        }
    }

    /// Writes a word in the form of a block's first.
    fn mark(&mut self, block: u8, mark: u8, next: u8, input: &mut &[u8]) {
        let mut length = 0;
        if let Some((given, after)) = input.split_first_chunk() {
            *input = after;
            length = u16::from_le_bytes(*given);
        }
        let mark = MARKS[usize::from(mark) % MARKS.len()];
        let state = mark | u64::from(length) << 16 | u64::from(next) << 32;
        self.word(block, 0).store(state, Relaxed);
    }

    fn flip(&mut self, block: u8, word: u8, bit: u8) {
        self.word(block, word).fetch_xor(1 << (bit % 64), Relaxed);
    }

    /// Copies a block to another place, in its current or an earlier state.
    fn copy_block(&mut self, from: u8, to: u8) {
        let words = 0..BLOCK_WORDS as u8;
        for (word, copied) in words.clone().zip(&self.copy) {
            self.word(to, word).store(*copied, Relaxed);
        }
        self.copy = words.map(|word| self.word(from, word).load(Relaxed)).collect();
    }

    /// Replaces the process by a new one, as after its death.
    fn succeed(&mut self) {
        if self.process_number < PROCESSES_MAX {
            self.process_number += 1;
            self.process = process(&self.words, self.zero, self.process_number);
        }
    }

    /// Checks that a session found under an id was once stored under it.
    fn check(&self, id: u8) {
        if let Ok(session) = self.process.stored(&[id]) {
            let stored = self.stored.get(&id);
            assert!(stored.is_some_and(|stored| stored.contains(&session)));
        }
    }

    /// Checks that a process works with the memory in any state.
    fn check_still_works(&self) {
        let session = session(100, 1);
        for id in 0..ENTRIES as u8 {
            assert!(self.process.store(&[id], &session));
            assert_eq!(self.process.stored(&[id]).as_ref(), Ok(&session));
        }
    }

    fn word(&self, block: u8, word: u8) -> &AtomicU64 {
        let (block, word) = (usize::from(block) % BLOCKS, usize::from(word) % BLOCK_WORDS);
        &self.words[block * BLOCK_WORDS + word]
    }
}

/// Returns a session, roughly as the TLS library writes it for a client without a certificate: an
/// ALPN protocol pads it to the length.
fn session(length: usize, content: u8) -> Vec<u8> {
    let mut session = vec![0, 3, 3, 0x13, 1, 1, 7, 0, 0];
    session.resize(session.len() + length, content);
    session
}

fn process(words: &Arc<Vec<AtomicU64>>, zero: Instant, process_number: u32) -> BareSessions {
    let mut options = ResumptionOptions::new([7; 32]);
    options.sessions.entries_max = ENTRIES;
    options.sessions.bytes_max = BLOCKS * BLOCK_COST_BYTES;
    let memory = SessionMemory {
        words: Arc::clone(words) as _,
        key: [9; 32],
        process_number,
        zero,
        is_in_use: false,
    };
    Arc::new(Resumption::within(&options, &memory)).bare_sessions_of("web")
}
