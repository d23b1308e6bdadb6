//! Paths that other users may have a hand in: the folder that a name stands in is opened component
//! by component, and no link is followed that another user could have put there.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, fstatfs, openat, readlinkat, unlinkat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

/// Links on the way to a file: as many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A name in an open folder.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) folder: OwnedFd,
    pub(crate) name: OsString,
    /// Whether the kernel is to follow a link of that name: one of /proc is no path.
    pub(crate) is_of_proc: bool,
}

impl FolderEntry {
    /// The place of a file, behind all links.
    ///
    /// # Errors
    /// `InvalidInput` if a link on the way stands in a folder that another user may change.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        Self::find(path, true)
    }

    /// The place of a name, which may be that of a link itself.
    ///
    /// # Errors
    /// As [`Self::of`], of the folders before it.
    pub(crate) fn of_name(path: &Path) -> io::Result<Self> {
        Self::find(path, false)
    }

    fn find(path: &Path, are_links_followed: bool) -> io::Result<Self> {
        let mut rest = components(path);
        let mut folder = openat(CWD, root_of(path), FOLDER, Mode::empty())?;
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            let is_of_proc = fstatfs(&folder)?.f_type == libc::PROC_SUPER_MAGIC;
            if rest.is_empty() && (is_of_proc || !are_links_followed) {
                return Ok(Self { folder, name, is_of_proc });
            }
            let target = match readlinkat(&folder, &name, Vec::new()) {
                Ok(target) if !is_of_proc => OsString::from_vec(target.into_bytes()),
                _ if rest.is_empty() => return Ok(Self { folder, name, is_of_proc }),
                _ => {
                    let follow = if is_of_proc { OFlags::empty() } else { OFlags::NOFOLLOW };
                    folder = openat(&folder, &name, FOLDER | follow, Mode::empty())?;
                    continue;
                }
            };
            if is_anothers(&fstat(&folder)?) {
                let name = name.display();
                let message =
                    format!("{name} is a symbolic link, in a folder that another user may change");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            let target = Path::new(&target);
            if target.is_absolute() {
                folder = openat(CWD, "/", FOLDER, Mode::empty())?;
            }
            for name in components(target).into_iter().rev() {
                rest.push_front(name);
            }
        }
        Err(io::ErrorKind::IsADirectory.into())
    }

    /// Removes what has the name, a folder excepted.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// The same folder with another name.
    pub(crate) fn with_name(&self, name: OsString) -> io::Result<Self> {
        let folder = self.folder.as_fd().try_clone_to_owned()?;
        Ok(Self { folder, name, is_of_proc: self.is_of_proc })
    }
}

fn root_of(path: &Path) -> &'static str {
    if path.is_absolute() { "/" } else { "." }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|one| match one {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    names.collect()
}

/// Whether another user owns a folder, or others may put links into it. The sticky bit of folders
/// for temporary files does not keep them from it: that hangs on `fs.protected_symlinks` (proc(5)).
fn is_anothers(folder: &Stat) -> bool {
    let is_ours = [0, geteuid().as_raw()].contains(&folder.st_uid);
    let is_of_our_group = [0, getegid().as_raw()].contains(&folder.st_gid);
    let others = if is_of_our_group { libc::S_IWOTH } else { libc::S_IWOTH | libc::S_IWGRP };
    !is_ours || folder.st_mode & others != 0
}
