//! The means by which sessions outlive a worker process: secrets, and memory that worker processes
//! use one after the other.
//!
//! Owns the descriptor and the keys; the supervisor itself never looks into the memory.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use sys::memory;

use super::failure::Failure;
use super::upgrade::state::SessionsState;
use crate::handover::{Role, SessionKey};
use crate::messages::warn;

const NAME: &str = "lariat sessions";

/// The secrets and the memory. They end with the supervisor, unless it hands them on.
pub(super) struct Sessions {
    pub(super) secret: SessionKey,
    pub(super) memory: SessionsMemory,
}

/// Memory for a store with some limits, which also say how entries lie in it.
pub(super) struct SessionsMemory {
    /// `None` before the first plan.
    limits: Option<session::Options>,
    pub(super) key: SessionKey,
    /// The memory's descriptor; if none can be had, each worker process has memory of its own.
    fd: Option<OwnedFd>,
}

impl Sessions {
    /// The state that was handed on; else secrets that nobody knows yet, and no memory.
    pub(super) fn new(
        secret: Option<SessionKey>,
        inherited: Option<(SessionsState, OwnedFd)>,
    ) -> Result<Self, Failure> {
        let key = || random().map(SessionKey);
        let memory = match inherited {
            Some((state, fd)) => {
                SessionsMemory { limits: Some(state.limits()), key: state.key, fd: Some(fd) }
            }
            None => SessionsMemory { limits: None, key: key()?, fd: None },
        };
        Ok(Self { secret: secret.map_or_else(key, Ok)?, memory })
    }

    pub(super) fn handed_on(&self) -> Option<(SessionsState, BorrowedFd<'_>)> {
        let SessionsMemory { limits, key, fd } = &self.memory;
        let limits = (*limits)?;
        let state = SessionsState {
            key: key.clone(),
            entries_max: limits.entries_max,
            bytes_max: limits.bytes_max,
            lifetime_ms: u64::try_from(limits.lifetime.as_millis()).unwrap_or(u64::MAX),
        };
        Some((state, fd.as_ref()?.as_fd()))
    }

    /// Sees to memory with these limits before a worker process is started: no other is alive.
    pub(super) fn fit(&mut self, limits: session::Options) -> Result<(), Failure> {
        if let Some(memory) = self.memory_for(limits)? {
            self.memory = memory;
        }
        Ok(())
    }

    /// Other memory for a plan with these limits, if they are others: the sessions in the old one
    /// are lost as soon as that is served.
    pub(super) fn memory_for(
        &self,
        limits: session::Options,
    ) -> Result<Option<SessionsMemory>, Failure> {
        if self.memory.limits == Some(limits) {
            return Ok(None);
        }
        let fd = memory::create(NAME, session::Memory::words_of(limits));
        if let Err(error) = &fd {
            warn(format_args!(
                "stored sessions will end with each worker process: no memory for them can \
                 be made that outlives it: {error}"
            ));
        }
        let key = SessionKey(random()?);
        Ok(Some(SessionsMemory { limits: Some(limits), key, fd: fd.ok() }))
    }

    /// Uses the memory no more: the worker process that has it may not be gone. The next one gets
    /// other memory, with another key.
    pub(super) fn forget(&mut self) {
        self.memory.limits = None;
    }
}

impl SessionsMemory {
    /// The descriptor with its role, once there is one.
    pub(super) fn role(&self) -> Option<(Role, BorrowedFd<'_>)> {
        Some((Role::Sessions, self.fd.as_ref()?.as_fd()))
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
    use sys::memory::SharedMemory;

    fn limits(entries_max: usize, bytes_max: usize) -> session::Options {
        session::Options { entries_max, bytes_max, lifetime: Duration::from_secs(1) }
    }

    #[test]
    fn what_one_process_leaves_the_next_one_finds_while_the_limits_stay() {
        let mut sessions = Sessions::new(None, None).unwrap();
        assert!(sessions.memory.role().is_none());
        sessions.fit(limits(100, 32_000)).unwrap();
        let map =
            |sessions: &Sessions| SharedMemory::map(sessions.memory.role().unwrap().1).unwrap();
        map(&sessions).as_ref()[63].store(7, Relaxed);
        let key = sessions.memory.key.clone();
        sessions.fit(limits(100, 32_000)).unwrap();
        assert_eq!(map(&sessions).as_ref()[63].load(Relaxed), 7);
        assert_eq!(sessions.memory.key, key);
        // As many words, but entries lie in them otherwise.
        sessions.fit(limits(200, 32_000)).unwrap();
        assert_eq!(map(&sessions).as_ref()[63].load(Relaxed), 0);
        assert_ne!(sessions.memory.key, key);
        sessions.fit(limits(200, 64_000)).unwrap();
        assert_eq!(map(&sessions).as_ref().len(), 64_000 / 320 * 32);
        map(&sessions).as_ref()[63].store(7, Relaxed);
        sessions.forget();
        sessions.fit(limits(200, 64_000)).unwrap();
        assert_eq!(map(&sessions).as_ref()[63].load(Relaxed), 0);
    }

    #[test]
    fn the_next_program_goes_on_with_memory_and_secrets() {
        let mut before = Sessions::new(None, None).unwrap();
        before.fit(limits(100, 32_000)).unwrap();
        let (state, fd) = before.handed_on().unwrap();
        let fd = fd.try_clone_to_owned().unwrap();
        let mut after = Sessions::new(Some(before.secret.clone()), Some((state, fd))).unwrap();
        after.fit(limits(100, 32_000)).unwrap();
        assert_eq!((&after.secret, &after.memory.key), (&before.secret, &before.memory.key));
        let map =
            |sessions: &Sessions| SharedMemory::map(sessions.memory.role().unwrap().1).unwrap();
        map(&before).as_ref()[63].store(7, Relaxed);
        assert_eq!(map(&after).as_ref()[63].load(Relaxed), 7);
        after.fit(limits(200, 32_000)).unwrap();
        assert_ne!(after.memory.key, before.memory.key);
    }
}
