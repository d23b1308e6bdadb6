//! Path and directory of the status socket, if the configuration names none.

use std::fs::{DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use config::ControlOptions;

const PRIVATE_MODE: u32 = 0o700;

/// Mode of a directory in a place of our own.
const SHARED_MODE: u32 = 0o755;

/// Returns the status socket: as configured, or `/run/lariat/status.sock` for root and
/// `$XDG_RUNTIME_DIR/lariat/status.sock` for others; without that variable, one beside the
/// temporary files.
pub(crate) fn path(control: &ControlOptions) -> PathBuf {
    match &control.status_socket {
        Some(path) => path.clone(),
        None => default_path(),
    }
}

/// Status socket of root's lariat.
pub(crate) const OF_ROOT: &str = "/run/lariat/status.sock";

/// Returns the usual place, where `lariat status` looks.
pub(crate) fn default_path() -> PathBuf {
    let directory = if sys::process::is_root() {
        return PathBuf::from(OF_ROOT);
    } else if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR") {
        PathBuf::from(runtime).join("lariat")
    } else {
        beside_temporary_files()
    };
    directory.join("status.sock")
}

fn beside_temporary_files() -> PathBuf {
    let user = sys::process::identity().user;
    std::env::temp_dir().join(format!("lariat-{user}"))
}

/// A directory that somebody else may have put in our place.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} {why}: the status socket is not safe there\n\
     hint: remove it, or set XDG_RUNTIME_DIR, or name another place with --status-socket",
    .directory.display()
)]
pub(crate) struct ForeignDirectory {
    directory: PathBuf,
    why: &'static str,
}

/// Reason why the status socket's directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectoryFailure {
    /// The directory may be somebody else's.
    #[error(transparent)]
    Foreign(#[from] ForeignDirectory),
    /// The directory does not exist and cannot be made.
    #[error(
        "cannot make the directory of the status socket, {}: {error}\n\
         hint: name a place that can be written with --status-socket (`admin.status-socket`); \
         /dev/shm/lariat.sock is in memory",
        .directory.display()
    )]
    Unmade { directory: PathBuf, error: std::io::Error },
}

/// Makes the status socket's directory if it is not there.
pub(crate) fn make_directory(socket: &Path) -> Result<(), DirectoryFailure> {
    if let Some(directory) = socket.parent() {
        let mode = if is_beside_temporary_files(socket) { PRIVATE_MODE } else { SHARED_MODE };
        let made = DirBuilder::new().mode(mode).recursive(true).create(directory);
        made.map_err(|error| DirectoryFailure::Unmade { directory: directory.to_owned(), error })?;
    }
    Ok(check_directory(socket)?)
}

/// Checks that nobody else can have put the status socket's directory there. Everybody may make
/// directories among the temporary files; other places are their owners' responsibility.
pub(crate) fn check_directory(socket: &Path) -> Result<(), ForeignDirectory> {
    match socket.parent() {
        Some(directory) if is_beside_temporary_files(socket) => check_private(directory),
        _ => Ok(()),
    }
}

fn is_beside_temporary_files(socket: &Path) -> bool {
    socket.parent() == Some(&beside_temporary_files())
}

fn check_private(directory: &Path) -> Result<(), ForeignDirectory> {
    // Symbolic links are not followed: their owner may point them elsewhere.
    let meta = match std::fs::symlink_metadata(directory) {
        Ok(meta) => Some(meta),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(_) => None,
    };
    let why = if let Some(meta) = meta { fault_of(&meta) } else { Some("cannot be looked at") };
    let directory = directory.to_owned();
    why.map_or(Ok(()), |why| Err(ForeignDirectory { directory, why }))
}

fn fault_of(meta: &Metadata) -> Option<&'static str> {
    if !meta.is_dir() {
        Some("is no directory")
    } else if meta.uid() != sys::process::identity().user {
        Some("belongs to another user")
    } else if meta.mode() & 0o7777 != PRIVATE_MODE {
        Some("has another mode than 0700")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::directory::Directory;

    #[test]
    fn a_directory_beside_other_users_is_ours_alone() {
        let place = Directory::new();
        let directory = place.join("ours");
        let make = |mode| DirBuilder::new().mode(mode).create(&directory).unwrap();
        let checked = || check_private(&directory).map_err(|foreign| foreign.why);
        assert_eq!(checked(), Ok(()));
        make(0o700);
        assert_eq!(checked(), Ok(()));
        std::fs::remove_dir(&directory).unwrap();
        make(0o755);
        assert_eq!(checked(), Err("has another mode than 0700"));
        std::fs::remove_dir(&directory).unwrap();
        std::os::unix::fs::symlink("/", &directory).unwrap();
        assert_eq!(checked(), Err("is no directory"));
        // An unknown directory is not safe.
        let beyond = place.join("n".repeat(300));
        let unknown = check_private(&beyond).map_err(|foreign| foreign.why);
        assert_eq!(unknown, Err("cannot be looked at"));
    }
}
