//! Any bytes in the memory of the session cache: no panic, and no session but what was stored under
//! that id.
//!
//! The input is a script: processes store and look up, die and are followed by others, and between
//! them somebody writes to the memory whatever they want, copies of earlier entries among it.
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
/// The cost of a block with its share of the index, which decides the number of blocks.
const BLOCK_COST_BYTES: usize = 320;

/// Fewer than there are blocks, so that both limits bite.
const ENTRIES: usize = 12;

/// Marks of blocks, and numbers that are no mark.
const MARKS: [u64; 5] = [0x4652, 0x4649, 0x4655, 0, 0x1234];

/// Processes in one script: each costs the derivation of its keys.
const PROCESSES_MAX: u32 = 20;

struct Play {
    words: Arc<Vec<AtomicU64>>,
    zero: Instant,
    process_number: u32,
    process: BareSessions,
    /// All that was ever stored under an id: who writes to the memory may bring any of it back.
    stored: HashMap<u8, Vec<Vec<u8>>>,
    /// A block as it was once.
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

    /// A session of up to 1,024 bytes that the library would take.
    fn store(&mut self, id: u8, length: u8, content: u8) {
        let session = session(usize::from(length) * 4, content);
        if self.process.store(&[id], &session) {
            self.stored.entry(id).or_default().push(session);
        }
    }

    /// Eight bytes of the input to a word.
    fn write(&mut self, block: u8, word: u8, input: &mut &[u8]) {
        if let Some((value, after)) = input.split_first_chunk() {
            *input = after;
            self.word(block, word).store(u64::from_le_bytes(*value), Relaxed);
        }
    }

    /// A word as the first one of a block is.
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

    /// A block comes to another place, as it is or as it was.
    fn copy_block(&mut self, from: u8, to: u8) {
        let words = 0..BLOCK_WORDS as u8;
        for (word, copied) in words.clone().zip(&self.copy) {
            self.word(to, word).store(*copied, Relaxed);
        }
        self.copy = words.map(|word| self.word(from, word).load(Relaxed)).collect();
    }

    /// The process dies, and another one takes over.
    fn succeed(&mut self) {
        if self.process_number < PROCESSES_MAX {
            self.process_number += 1;
            self.process = process(&self.words, self.zero, self.process_number);
        }
    }

    /// A session that is found under an id was once stored under it.
    fn check(&self, id: u8) {
        if let Ok(session) = self.process.stored(&[id]) {
            let stored = self.stored.get(&id);
            assert!(stored.is_some_and(|stored| stored.contains(&session)));
        }
    }

    /// No memory hinders the process that found it so.
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

/// A session as the TLS library writes it of a client without a certificate, more or less: an ALPN
/// protocol makes it as long as is wanted.
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
