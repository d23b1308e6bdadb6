//! A place with certificates: what an operator has before the first start.

use std::path::{Path, PathBuf};

use testkit::authority::Authority;
use testkit::directory::Directory;
use testkit::leaf::Leaf;

/// A directory, an authority that the clients trust, and a certificate for `localhost`.
#[derive(Debug)]
pub struct Site {
    pub directory: Directory,
    pub authority: Authority,
}

impl Site {
    /// Writes `ca.pem` and `site.pem` (chain and key for `localhost` and 127.0.0.1).
    pub fn new() -> Self {
        let site = Self { directory: Directory::new(), authority: Authority::root("test root") };
        site.authority.write(&site.directory, "ca.pem");
        site.leaf(&["localhost", "127.0.0.1"]).write(&site.directory, "site.pem");
        site
    }

    /// Issues a certificate for these names with an ECDSA key.
    pub fn leaf(&self, names: &[&str]) -> Leaf {
        self.authority.leaf(names).issue()
    }

    pub fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// Writes a file, with any directories above it, and returns its path.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        self.directory.write(name, content)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}
