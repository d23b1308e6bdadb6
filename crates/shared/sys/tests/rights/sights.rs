//! Shows what a process sees of itself: its rights, its memory, its CPU.

use std::collections::HashMap;

use sys::{cpu, usage};

pub(super) fn work_on(cpu: u16) -> usize {
    cpu::pin_current_thread(cpu).unwrap();
    // Larger than blocks that glibc's malloc keeps on its heap, and grown.
    let mut block = vec![1u8; 1 << 20];
    block.resize(64 << 20, 2);
    let map: HashMap<_, _> = (0..1000).map(|n| (n, n)).collect();
    block.len() + map.len()
}

pub(super) fn capabilities() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let sets = status.lines().filter(|line| line.starts_with("Cap"));
    sets.map(str::to_owned).collect()
}

pub(super) fn seccomp_filters() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Seccomp_filters:"));
    line.unwrap().to_owned()
}

pub(super) fn memory_comes_and_goes() {
    const MIB: u64 = 1 << 20;
    let usage = usage::Usage::of_this_process();
    let resident = || usage.memory().unwrap().resident_bytes;
    let before = resident();
    // Each block is too small to be mapped apart; the last one keeps the heap's end in use.
    let blocks: Vec<_> = (0..64 * 1024).map(|_| vec![1u8; 1024]).collect();
    let last = std::hint::black_box(vec![1u8; 1024]);
    let full = resident();
    assert!(full > before + 60 * MIB, "{before} {full}");
    drop(std::hint::black_box(blocks));
    usage::return_freed();
    let after = resident();
    assert!(after < before + 20 * MIB, "{before} {full} {after}");
    drop(last);
}
