//! Makes a folder for files that programs read and write; it is removed when they have ended.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use crate::fault::{LabFault, LabResult};

/// Reports whether a path needs no quotes in the configuration of any server.
fn is_plain(path: &Path) -> bool {
    let is_plain = |one: char| one.is_alphanumeric() || "/._-+@:=,%".contains(one);
    path.to_str().is_some_and(|path| path.chars().all(is_plain))
}

/// Makes something at the first of these paths that does not exist yet.
pub(crate) fn first_free<T>(
    paths: impl IntoIterator<Item = PathBuf>,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    for path in paths {
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|made| (path, made)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A folder of our own, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Whether the folder stays, for people to inspect.
    pub(crate) is_kept: bool,
}

impl Scratch {
    /// Creates a folder in `$TMPDIR`, or `/tmp`. Other users may traverse it, as servers that
    /// change their user do, and not list it.
    pub(crate) fn new() -> LabResult<Self> {
        let parent = env::temp_dir();
        let refused = |error: io::Error| {
            let parent = parent.display();
            LabFault::failed(
                format_args!("there is no room of our own in {parent}: {error}"),
                "TMPDIR names a folder with room that we may write to",
            )
        };
        // Absolute, because programs run in folders of their own.
        let absolute = std::path::absolute(&parent).map_err(refused)?;
        if is_plain(&absolute) {
            return Self::new_in(&absolute).map_err(refused);
        }
        let shown = absolute.display();
        Err(LabFault::failed(
            format_args!(
                "`{shown}` has a blank or another character that servers' configurations give a \
                 meaning"
            ),
            "TMPDIR names another folder, by letters, digits and `/ . _ - + @ : = , %`",
        ))
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        let own = process::id();
        let paths = (0_u32..).map(|number| parent.join(format!("lariat-lab-{own}-{number}")));
        let make = |path: &Path| fs::DirBuilder::new().mode(0o711).create(path);
        first_free(paths, make).map(|(path, ())| Self { path, is_kept: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept {
            // A failure leaves a few files in the temporary folder.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_a_meaning_of_their_own_are_told_apart() {
        assert!(is_plain(Path::new("/tmp/größe-1.2_3+x@y:z=a,b%")));
        for path in ["/tmp/a b", "/tmp/a\tb", "/t;", "/t{", "/t'", "/t\"", "/t#", "/t$x", "/t\\"] {
            assert!(!is_plain(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_scratch_goes_unless_it_is_kept() {
        let mut kept = Scratch::new().unwrap();
        let other = Scratch::new().unwrap();
        assert_ne!(kept.path(), other.path());
        fs::write(other.path().join("file"), "x").unwrap();
        let (path, gone) = (kept.path().to_owned(), other.path().to_owned());
        kept.is_kept = true;
        drop((kept, other));
        assert!(path.is_dir() && !gone.exists());
        fs::remove_dir(path).unwrap();
    }
}
