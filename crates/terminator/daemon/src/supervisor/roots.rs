//! The folders that services of files serve: opened once, and held open whatever happens to the
//! worker process, which may read what is beneath them and nothing else.
//!
//! Owns the descriptors. A worker process gives up all other files before it serves, for good: so
//! folders that none of the first plan's services has come with a restart only.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use sys::beneath::{Identity, Root};

use super::failure::MissingRight;
use crate::handover::Role;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Served {
    pub(super) folder: PathBuf,
    pub(super) service: String,
    /// The service's place in the plan.
    pub(super) service_index: u32,
}

#[derive(Debug, Default)]
pub(super) struct Roots(Vec<Open>);

#[derive(Debug)]
pub(super) struct Open {
    pub(super) folder: PathBuf,
    pub(super) root: Root,
    pub(super) identity: Identity,
}

impl Roots {
    pub(super) fn new(opened: Vec<Open>) -> Self {
        Self(opened)
    }

    /// Sees whether the worker process may read what another plan serves, whose folders have been
    /// opened anew.
    pub(super) fn admit(
        &mut self,
        served: &[Served],
        opened: Vec<Open>,
    ) -> Result<(), MissingRight> {
        for now in opened {
            let before = self.find(&now.folder);
            let is_open = |open: &Open| open.identity == now.identity;
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
    pub(super) fn keep(&mut self, served: &[Served]) {
        let is_served = |open: &Open| served.iter().any(|one| one.folder == open.folder);
        self.0.retain(is_served);
    }

    fn find(&self, folder: &Path) -> Option<&Open> {
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

    pub(super) fn roles(&self, served: &[Served]) -> Vec<(Role, BorrowedFd<'_>)> {
        let each = served.iter().filter_map(|one| {
            let role = Role::FilesRoot { service: one.service_index };
            Some((role, self.find(&one.folder)?.root.as_fd()))
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use testkit::directory::Directory;

    fn opened(folders: &[&Path]) -> Vec<Open> {
        let open = |folder: &&Path| {
            let root = Root::open(folder).unwrap();
            Open { identity: root.identity().unwrap(), folder: folder.to_path_buf(), root }
        };
        folders.iter().map(open).collect()
    }

    fn served(folder: &Path, service_index: u32) -> Served {
        Served { folder: folder.to_owned(), service: format!("s{service_index}"), service_index }
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
        assert_eq!(roles, [0, 1].map(|service| Role::FilesRoot { service }));
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
}
