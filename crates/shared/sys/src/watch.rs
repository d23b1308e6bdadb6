//! Waiting for changes in directories (inotify(7)).
//!
//! Says that something has happened, not what: who wants to know looks. A network file system tells
//! only of what this host does.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::{read, retry_on_intr};

use crate::wait_for;

#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
}

impl Watch {
    /// None yet.
    ///
    /// # Errors
    /// The user has too many (`fs.inotify.max_user_instances`).
    pub fn new() -> io::Result<Self> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { fd })
    }

    /// Watches the entries of a directory from now on, and the directory itself.
    ///
    /// # Errors
    /// The directory does not exist, it may not be read, or the user watches too many
    /// (`fs.inotify.max_user_watches`).
    pub fn add(&self, directory: &Path) -> io::Result<()> {
        let changes = WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        add_watch(&self.fd, directory, changes)?;
        Ok(())
    }

    /// Waits until something has changed, or for this time. Whether something has.
    pub fn wait(&self, time_max: Duration) -> io::Result<bool> {
        let come = retry_on_intr(|| wait_for(&self.fd, PollFlags::IN, Some(time_max)))?;
        if come.is_empty() {
            return Ok(false);
        }
        // Longer than any one event; an error is that there are no more.
        while read(&self.fd, &mut [0u8; 4096]).is_ok_and(|length| length > 0) {}
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use testkit::directory::Directory;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_change_of_an_entry_and_of_the_directory_ends_the_wait() {
        let directory = Directory::new();
        let path = directory.path();
        let watch = Watch::new().unwrap();
        watch.add(path).unwrap();
        assert!(!watch.wait(Duration::ZERO).unwrap());
        fs::write(path.join("a"), "x").unwrap();
        assert!(watch.wait(LONG).unwrap());
        assert!(!watch.wait(Duration::ZERO).unwrap(), "it has been told");
        fs::rename(path.join("a"), path.join("b")).unwrap();
        assert!(watch.wait(LONG).unwrap());
        assert!(watch.add(&path.join("b")).is_err(), "no directory");
        fs::remove_dir_all(path).unwrap();
        assert!(watch.wait(LONG).unwrap());
        assert!(watch.add(path).is_err());
    }
}
