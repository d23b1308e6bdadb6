//! The means that each worker process gets from the supervisor and leaves to the next: the folders
//! of files that services serve, secrets, and the memory of stored sessions.
//!
//! Owns the descriptors and the keys; the supervisor itself never looks into the memory. Folders
//! are opened once, and held open whatever happens to the worker process, which may read what is
//! beneath them and nothing else. It gives up all other files before it serves, for good: so
//! folders that none of the first plan's services has come with a restart only.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use sys::beneath::{Identity, Root};
use sys::memory;

use super::failure::{Failure, MissingRight};
use super::upgrade::state::SessionsState;
use crate::handover::{DescriptorRole, SessionKey};
use crate::messages::warn;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ServedFolder {
    pub(super) folder: PathBuf,
    pub(super) service: String,
    /// The service's place in the plan.
    pub(super) service_index: u32,
}

#[derive(Debug, Default)]
pub(super) struct Roots(Vec<OpenFolder>);

#[derive(Debug)]
pub(super) struct OpenFolder {
    pub(super) folder: PathBuf,
    pub(super) root: Root,
    pub(super) identity: Identity,
}

impl Roots {
    pub(super) fn new(opened: Vec<OpenFolder>) -> Self {
        Self(opened)
    }

    /// Sees whether the worker process may read what another plan serves, whose folders have been
    /// opened anew.
    pub(super) fn admit(
        &mut self,
        served: &[ServedFolder],
        opened: Vec<OpenFolder>,
    ) -> Result<(), MissingRight> {
        for now in opened {
            let before = self.find(&now.folder);
            let is_open = |open: &OpenFolder| open.identity == now.identity;
            match before {
                Some(before) if is_open(before) => {}
                // The same folder by another path.
                None if self.0.iter().any(is_open) => self.0.push(now),
                _ => {
                    let services = served.iter().filter(|one| one.folder == now.folder);
                    let names: Vec<_> = services.map(|one| one.service.as_str()).collect();
                    let (service, folder) = (names.join("`, `"), now.folder.clone());
                    return Err(match before {
                        Some(_) => MissingRight::ReplacedFolder { service, folder },
                        None => MissingRight::Folder { service, folder },
                    });
                }
            }
        }
        Ok(())
    }

    /// Closes all that are not served: the next worker process has no right to them.
    pub(super) fn keep(&mut self, served: &[ServedFolder]) {
        let is_served = |open: &OpenFolder| served.iter().any(|one| one.folder == open.folder);
        self.0.retain(is_served);
    }

    fn find(&self, folder: &Path) -> Option<&OpenFolder> {
        self.0.iter().find(|open| open.folder == folder)
    }

    /// The folders with their devices and inodes, in the order of [`Self::all`].
    pub(super) fn identities(&self) -> Vec<(PathBuf, [u64; 2])> {
        let each = self.0.iter().map(|open| {
            let Identity { device, inode } = open.identity;
            (open.folder.clone(), [device, inode])
        });
        each.collect()
    }

    pub(super) fn all(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().map(|open| open.root.as_fd()).collect()
    }

    pub(super) fn roles(&self, served: &[ServedFolder]) -> Vec<(DescriptorRole, BorrowedFd<'_>)> {
        let each = served.iter().filter_map(|one| {
            let role = DescriptorRole::FilesRoot { service: one.service_index };
            Some((role, self.find(&one.folder)?.root.as_fd()))
        });
        each.collect()
    }
}

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
    pub(super) fn role(&self) -> Option<(DescriptorRole, BorrowedFd<'_>)> {
        Some((DescriptorRole::Sessions, self.fd.as_ref()?.as_fd()))
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
    use std::fs;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    use sys::memory::SharedMemory;
    use testkit::directory::Directory;

    use super::*;

    fn opened(folders: &[&Path]) -> Vec<OpenFolder> {
        let open = |folder: &&Path| {
            let root = Root::open(folder).unwrap();
            OpenFolder { identity: root.identity().unwrap(), folder: folder.to_path_buf(), root }
        };
        folders.iter().map(open).collect()
    }

    fn served(folder: &Path, service_index: u32) -> ServedFolder {
        ServedFolder {
            folder: folder.to_owned(),
            service: format!("s{service_index}"),
            service_index,
        }
    }

    #[test]
    fn a_reload_may_use_what_was_open_at_start_and_nothing_else() {
        let base = Directory::new();
        let [one, other, link] = ["one", "other", "link"].map(|name| base.join(name));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let mut roots = Roots::new(opened(&[&one]));
        assert_eq!((roots.all().len(), roots.roles(&[]).len()), (1, 0));
        let plan = [served(&link, 0), served(&one, 1)];
        roots.admit(&plan, opened(&[&link, &one])).unwrap();
        let roles: Vec<_> = roots.roles(&plan).iter().map(|(role, _)| *role).collect();
        assert_eq!(roles, [0, 1].map(|service| DescriptorRole::FilesRoot { service }));
        roots.keep(&plan);
        assert_eq!(roots.all().len(), 2);
        roots.keep(&plan[1..]);
        assert_eq!(roots.all().len(), 1);
        let refused = roots.admit(&[served(&other, 0)], opened(&[&other]));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("service `s0`") && refused.contains("hint: restart"));
        fs::rename(&one, base.join("moved")).unwrap();
        fs::create_dir(&one).unwrap();
        let refused = roots.admit(&[served(&one, 3)], opened(&[&one]));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("is not the folder any more"), "{refused}");
    }

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
