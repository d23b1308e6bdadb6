//! What lets sessions outlive a data process: secrets, and memory that data processes use one
//! after the other.
//!
//! Owns the descriptor and the keys; the supervisor itself never looks into the memory.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sys::shared;

use super::failure::Failure;
use super::say::say;
use crate::handover::Role;

/// What `/proc/<pid>/fd` shows.
const NAME: &str = "lariat sessions";

/// The secrets and the memory. They end with the supervisor.
pub(super) struct Sessions {
    secret: [u8; 32],
    key: [u8; 32],
    memory: Option<(session::Options, OwnedFd)>,
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

    /// Sees to memory for a store with these limits, which also say how entries lie in it. What is
    /// in memory for others is lost: a reload has asked for it, and no data process is alive that
    /// uses it.
    ///
    /// Where no memory can be had, each data process has its own.
    pub(super) fn fit(&mut self, limits: session::Options) -> Result<(), Failure> {
        self.fit_by(limits, |words| shared::create(NAME, words))
    }

    fn fit_by(
        &mut self,
        limits: session::Options,
        make: impl FnOnce(usize) -> io::Result<OwnedFd>,
    ) -> Result<(), Failure> {
        let fits = |has: &session::Options| {
            (has.entries_max, has.bytes_max) == (limits.entries_max, limits.bytes_max)
        };
        if self.memory.as_ref().is_some_and(|(has, _)| fits(has)) {
            return Ok(());
        }
        self.key = random()?;
        self.memory = None;
        match make(session::Memory::words_of(limits)) {
            Ok(fd) => self.memory = Some((limits, fd)),
            Err(error) => say(format_args!(
                "warning: stored sessions will end with each data process: no memory for them can \
                 be made that outlives it: {error}"
            )),
        }
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
    use std::time::Duration;
    use sys::shared::SharedMemory;

    fn limits(entries_max: usize, bytes_max: usize) -> session::Options {
        session::Options {
            entries_max,
            bytes_max,
            lifetime: Duration::from_secs(1),
        }
    }

    #[test]
    fn what_one_process_leaves_the_next_one_finds_while_the_limits_stay() {
        let mut sessions = Sessions::new().unwrap();
        assert!(sessions.role().is_none());
        sessions.fit(limits(100, 32_000)).unwrap();
        let map = |sessions: &Sessions| SharedMemory::map(sessions.role().unwrap().1).unwrap();
        map(&sessions).as_ref()[63].store(7, Relaxed);
        let key = sessions.key();
        sessions.fit(limits(100, 32_000)).unwrap();
        assert_eq!(map(&sessions).as_ref()[63].load(Relaxed), 7);
        assert_eq!(sessions.key(), key);
        // As many words, but entries lie in them otherwise.
        sessions.fit(limits(200, 32_000)).unwrap();
        assert_eq!(map(&sessions).as_ref()[63].load(Relaxed), 0);
        assert_ne!(sessions.key(), key);
        sessions.fit(limits(200, 64_000)).unwrap();
        assert_eq!(map(&sessions).as_ref().len(), 64_000 / 320 * 32);
    }

    #[test]
    fn without_memory_it_goes_on() {
        let mut sessions = Sessions::new().unwrap();
        let unknown_call = |_| Err(io::ErrorKind::Unsupported.into());
        sessions.fit_by(limits(100, 32_000), unknown_call).unwrap();
        assert!(sessions.role().is_none());
        sessions.fit(limits(100, 32_000)).unwrap();
        assert!(sessions.role().is_some());
    }
}
