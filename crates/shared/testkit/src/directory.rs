//! Directories that are removed at the end of the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A new empty directory under the system's temporary one, removed on drop.
#[derive(Debug)]
pub struct Directory(PathBuf);

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Directory {
    /// Makes a directory that every user can read, because programs under test drop their rights.
    #[expect(clippy::new_without_default, reason = "making a directory is no default")]
    pub fn new() -> Self {
        Self::beneath(&std::env::temp_dir())
    }

    /// Makes a directory in memory (tmpfs).
    pub fn in_memory() -> Self {
        Self::beneath(Path::new("/dev/shm"))
    }

    fn beneath(parent: &Path) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("lariat-test-{}-{number}", process::id()));
        let _left_by_an_older_process_of_the_same_id = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of `name` in the directory; `name` may contain slashes.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, with any directories above it, and returns its path.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        let parent = path.parent().expect("a file of ours has a directory");
        fs::create_dir_all(parent).expect("our own directory is writable");
        fs::write(&path, content).expect("our own directory is writable");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}
