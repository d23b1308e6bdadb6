//! What lets sessions outlive a data process: secrets, and memory that data processes use one
//! after the other.
//!
//! Owns the descriptor and the keys; the supervisor itself never looks into the memory.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sys::shared;

use super::failure::Failure;
use crate::handover::Role;

/// What `/proc/<pid>/fd` shows.
const NAME: &str = "lariat sessions";

/// The secrets and the memory. They end with the supervisor.
pub(super) struct Sessions {
    secret: [u8; 32],
    key: [u8; 32],
    memory: Option<(usize, OwnedFd)>,
}

impl Sessions {
    /// Secrets that nobody knows yet, and no memory.
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {
            secret: random()?,
            key: random()?,
            memory: None,
        })
    }

    /// What ticket keys are derived from.
    pub(super) fn secret(&self) -> [u8; 32] {
        self.secret
    }

    /// Sees to memory of so many words. What is in memory of another size is lost: a reload has
    /// asked for it, and no data process is alive that uses it.
    pub(super) fn fit(&mut self, words: usize) -> Result<(), Failure> {
        if self.memory.as_ref().is_some_and(|(has, _)| *has == words) {
            return Ok(());
        }
        self.key = random()?;
        let made = shared::create(NAME, words);
        let fd = made.map_err(Failure::host("make memory for sessions"))?;
        self.memory = Some((words, fd));
        Ok(())
    }

    /// What the memory's entries are sealed with.
    pub(super) fn key(&self) -> [u8; 32] {
        self.key
    }

    /// The memory's descriptor with its role, once there is one.
    pub(super) fn role(&self) -> Option<(Role, BorrowedFd<'_>)> {
        let (_, fd) = self.memory.as_ref()?;
        Some((Role::Sessions, fd.as_fd()))
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.secret.fill(0);
        self.key.fill(0);
        // The compiler must not leave out a write that nobody reads.
        std::hint::black_box((&mut self.secret, &mut self.key));
    }
}

fn random() -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Failure::host("read /dev/urandom"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;
    use sys::shared::SharedMemory;

    #[test]
    fn what_one_process_leaves_the_next_one_finds_while_the_size_stays() {
        let mut sessions = Sessions::new().unwrap();
        assert!(sessions.role().is_none());
        sessions.fit(64).unwrap();
        let map = |sessions: &Sessions| SharedMemory::map(sessions.role().unwrap().1).unwrap();
        map(&sessions).as_ref()[63].store(7, Relaxed);
        let key = sessions.key();
        sessions.fit(64).unwrap();
        assert_eq!(map(&sessions).as_ref()[63].load(Relaxed), 7);
        assert_eq!(sessions.key(), key);
        sessions.fit(128).unwrap();
        let after = map(&sessions);
        assert_eq!(
            (after.as_ref().len(), after.as_ref()[63].load(Relaxed)),
            (128, 0)
        );
        assert_ne!(sessions.key(), key);
    }
}
