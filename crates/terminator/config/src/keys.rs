//! The rows of the table of options, in the order of the reference.

mod process;
mod service;

use crate::key::Key;

use process::PROCESS;
use service::SERVICE;
#[cfg(test)]
pub(crate) use service::SUITES;

/// Every key, in the order of the reference.
pub const KEYS: &[Key] = &joined::<{ SERVICE.len() + PROCESS.len() }>(SERVICE, PROCESS);

const fn joined<const COUNT: usize>(first: &[Key], second: &[Key]) -> [Key; COUNT] {
    let mut all = [first[0]; COUNT];
    let mut place = 1;
    while place < COUNT {
        all[place] = if place < first.len() {
            first[place]
        } else {
            second[place - first.len()]
        };
        place += 1;
    }
    all
}
