//! Locks on files.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Takes the lock of an open file, which it has until it is closed (flock(2)). Whether it was free.
///
/// # Errors
/// The file system knows no locks.
pub fn lock(file: &impl AsFd) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_lock_is_had_once() {
        let name = format!("lariat-lock-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let (first, second) = (File::create(&path).unwrap(), File::create(&path).unwrap());
        assert!(lock(&first).unwrap());
        assert!(!lock(&second).unwrap());
        drop(first);
        assert!(lock(&second).unwrap());
        std::fs::remove_file(path).unwrap();
    }
}
