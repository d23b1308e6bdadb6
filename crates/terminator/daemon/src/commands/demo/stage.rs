//! The demo's temporary directory, gone when the demo is.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory that only its user may enter.
pub(super) struct Stage {
    directory: PathBuf,
}

impl Stage {
    /// Makes it. A directory of that name that is there already is somebody else's: an error.
    pub(super) fn new() -> io::Result<Self> {
        let name = format!("lariat-demo-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(Self { directory })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::write(self.path(name), text)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed is left to the cleaner of temporary files.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
