//! A folder for what programs read and write while they run; it goes when they have ended.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

/// A folder of our own, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    is_kept: bool,
}

impl Scratch {
    /// A new one in `$TMPDIR`, or `/tmp`. Others may pass through it, as servers do that become
    /// another user, and not look into it.
    ///
    /// # Errors
    /// It cannot be made there.
    pub(crate) fn new() -> io::Result<Self> {
        // Programs find their files from folders of their own.
        let parent = std::path::absolute(env::temp_dir())?;
        let own = process::id();
        for number in 0_u32.. {
            let path = parent.join(format!("lariat-lab-{own}-{number}"));
            match fs::DirBuilder::new().mode(0o711).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    let is_kept = false;
                    return made.map(|()| Self { path, is_kept });
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it there, for people to look at.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed is a few files where such lie.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_goes_unless_it_is_kept() {
        let mut kept = Scratch::new().unwrap();
        let other = Scratch::new().unwrap();
        assert_ne!(kept.path(), other.path());
        fs::write(other.path().join("file"), "x").unwrap();
        let (path, gone) = (kept.path().to_owned(), other.path().to_owned());
        kept.keep();
        drop((kept, other));
        assert!(path.is_dir() && !gone.exists());
        fs::remove_dir(path).unwrap();
    }
}
