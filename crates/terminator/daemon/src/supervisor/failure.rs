//! Failures of the supervisor: it could not begin, or ended without being ordered to.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Diagnostic;
use thiserror::Error;
use wire::address::{Address, Endpoint, UnixName};

use crate::host_lack::file_hint;
use crate::status_socket::DirectoryFailure;

/// Failure shown as one or more lines, without a severity before them except in a configuration's
/// diagnostics.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The configuration is invalid; each diagnostic has its place and remedy.
    #[error("{}", lines_of(.0))]
    Config(Vec<Diagnostic>),
    /// The configuration is well written, and cannot be served: a key is not its certificate's.
    #[error("{0}")]
    Plan(String),
    #[error(transparent)]
    Listen(#[from] ListenFailure),
    /// The sockets that the service manager handed over are not those that are configured.
    #[error("{0}")]
    HandedOver(String),
    /// A right that the running worker process lacks requires a restart.
    #[error(transparent)]
    Right(#[from] MissingRight),
    /// This program was to replace another and cannot serve, so the other one goes on: the reason,
    /// as a sentence without a full stop.
    #[error("{0}")]
    Upgrade(String),
    #[error(transparent)]
    StatusSocket(#[from] DirectoryFailure),
    /// The host lacks what the configuration names: a user to become, a folder, a log.
    #[error("{0}")]
    Missing(String),
    /// The host has no room or descriptors just now.
    #[error("{0}")]
    Lacking(String),
    /// A file that the configuration names: the action that was tried, and the host's answer.
    #[error("cannot {what} {}: {error}\nhint: {}", .path.display(), file_hint(.error))]
    File { what: &'static str, path: PathBuf, error: io::Error },
    /// A file system does not answer: the action with the path (`reading /etc/x.pem`), and the time
    /// waited.
    #[error(
        "{step} took more than {} s\nhint: see whether the file system that it is on answers: \
         `stat` it",
        .time.as_secs()
    )]
    Slow { step: String, time: Duration },
    /// The reader process ended: the last step that it began.
    #[error(
        "the process that reads files ended while {0}\nhint: it was killed, or there was no memory: \
         try again"
    )]
    ReaderDied(String),
    #[error(
        "{0} processes still wait for files that do not come\nhint: `ps` shows them as \
         `lariat: reader`; mend the file system"
    )]
    ReadersStuck(usize),
    /// The host denies something that the supervisor needs: the action, and the answer.
    #[error("cannot {what}: {error}{}", without_proc(.error))]
    Host { what: &'static str, error: io::Error },
    #[error("the worker process cannot give up its rights: {}", with_hint(.0))]
    Rights(String),
    /// The process had not served, or was to end.
    #[error("the worker process ended by itself{}: {how}", times(*.restarts))]
    Died { how: String, restarts: u64 },
}

fn lines_of(diagnostics: &[Diagnostic]) -> String {
    let texts: Vec<_> = diagnostics.iter().map(Diagnostic::to_string).collect();
    texts.join("\n")
}

/// Returns the hint if `/proc`, by which our own program is started, is missing.
fn without_proc(error: &io::Error) -> &'static str {
    let is_missing = error.kind() == io::ErrorKind::NotFound && !Path::new("/proc/self").exists();
    if is_missing {
        "\nhint: there is no /proc here, by which lariat starts its processes: mount it (`mount -t \
         proc proc /proc`, also within a chroot)"
    } else {
        ""
    }
}

/// Adds the sandbox's hint to a step that has no hint of its own.
fn with_hint(step: &str) -> String {
    const HINT: &str = "\nhint: `[process] sandbox` says which are to be given up";
    let hint = if step.contains("\nhint: ") { "" } else { HINT };
    format!("{step}{hint}")
}

fn times(restarts: u64) -> String {
    match restarts {
        0 => String::new(),
        _ => format!(", {restarts} times started again"),
    }
}

/// A right that a plan needs, and the running worker process gave up before it served: the plan has
/// to wait for a restart.
#[derive(Debug, Error)]
pub(crate) enum MissingRight {
    #[error(
        "service `{service}`: {} is not the folder any more that it was at start{}",
        .folder.display(), after_restart("which folders can be read is")
    )]
    ReplacedFolder { service: String, folder: PathBuf },
    #[error(
        "service `{service}`: the running worker process may not read {}{}",
        .folder.display(), after_restart("which folders can be read is")
    )]
    Folder { service: String, folder: PathBuf },
    #[error(
        "service `{service}`: the running worker process may not connect to {server}{}",
        settled(server)
    )]
    Server { service: String, server: Endpoint },
    /// The session store, or a server that leads to it.
    #[error(
        "the running worker process may not connect to {node} of `cluster.store`{}",
        settled(node)
    )]
    Store { node: Endpoint },
    #[error(
        "service `{service}`: the running worker process may not choose the addresses that it \
         connects from as `back.source` says{}",
        after_restart("whether it may is")
    )]
    Source { service: String },
}

fn settled(server: &Endpoint) -> String {
    after_restart(match server.tcp_port() {
        Some(_) => "the ports of `process.connect-ports` are",
        None => "whether it reaches abstract Unix sockets is",
    })
}

fn after_restart(what: &str) -> String {
    format!("\nhint: restart (`lariat upgrade`): {what} settled before it serves")
}

#[derive(Debug, Error)]
#[error("{who} cannot listen at {address}: {error}{}", self.hint_line())]
pub(crate) struct ListenFailure {
    /// Name of the service, or of the other part that would listen there.
    pub(crate) who: String,
    pub(crate) address: Address,
    pub(crate) error: io::Error,
    /// The lariat that listens there, as sentences with their hint; empty if it may be another
    /// program.
    pub(crate) holder: String,
}

/// `No such device`, for which `ErrorKind` has no variant.
const ENODEV: i32 = 19;

impl ListenFailure {
    pub(crate) fn new(who: &str, address: &Address, error: io::Error) -> Self {
        Self { who: who.to_owned(), address: address.clone(), error, holder: String::new() }
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.error.kind() == io::ErrorKind::AddrInUse && !self.is_path_of_a_file()
    }

    fn hint_line(&self) -> String {
        if !self.holder.is_empty() {
            return format!("\n{}", self.holder);
        }
        let line = |hint| format!("\nhint: {hint}");
        self.hint().map(line).unwrap_or_default()
    }

    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self.error.kind() {
            io::ErrorKind::AddrInUse if self.is_path_of_a_file() => {
                Some("a file that is no socket is in the way: remove it, or choose another path")
            }
            io::ErrorKind::AddrInUse => Some("another process has it: `ss -lnp` shows which"),
            io::ErrorKind::AddrNotAvailable => Some("no interface of this host has that address"),
            io::ErrorKind::ReadOnlyFilesystem => Some(
                "choose a path that can be written; that of the status socket is --status-socket, \
                 and /dev/shm/lariat.sock is in memory",
            ),
            io::ErrorKind::PermissionDenied => Some(
                "ports below 1024 need root or CAP_NET_BIND_SERVICE, paths a writable directory",
            ),
            _ if self.error.raw_os_error() == Some(ENODEV) => {
                Some("`front.interface` names no interface of this host: `ip link` lists them")
            }
            io::ErrorKind::NotFound if matches!(self.address, Address::Inherited(_)) => Some(
                "`FileDescriptorName=` of the socket's unit is the name, or else the unit's own; \
                 sockets come when lariat is started, not by a reload",
            ),
            io::ErrorKind::NotFound => Some("the socket's directory does not exist"),
            io::ErrorKind::InvalidFilename => {
                Some("the path of a Unix socket has at most 107 bytes: choose a shorter one")
            }
            _ => None,
        }
    }

    /// Whether a file occupies the path. Sockets that nobody has open are replaced; all else stays.
    fn is_path_of_a_file(&self) -> bool {
        let Address::Unix(UnixName::Path(path)) = &self.address else {
            return false;
        };
        Self::is_in_the_way(path)
    }

    /// Whether something that is no socket has the path of one.
    pub(crate) fn is_in_the_way(path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket())
    }
}

impl Failure {
    /// Makes a failure for `map_err`: the host denied this.
    pub(super) fn host(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Host { what, error }
    }

    /// Makes a failure for `map_err`: the host denied this with a configured file.
    pub(super) fn file(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::File { what, path: path.to_owned(), error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::directory::Directory;

    #[test]
    fn a_file_in_the_way_is_no_other_process() {
        let directory = Directory::new();
        let path = directory.write("in-the-way", "");
        let failure = ListenFailure::new(
            "service `web`",
            &Address::Unix(UnixName::Path(path.clone())),
            io::ErrorKind::AddrInUse.into(),
        );
        assert!(failure.hint().is_some_and(|hint| hint.starts_with("a file ")));
        std::fs::remove_file(&path).unwrap();
        assert!(failure.hint().is_some_and(|hint| hint.starts_with("another process ")));
    }
}
