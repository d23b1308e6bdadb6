//! Why the supervisor could not begin, or ended without being asked to.

use std::fmt;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Diagnostic;
use wire::address::{Address, Endpoint, UnixName};

use crate::place::ForeignDirectory;

/// Why the supervisor could not begin, or ended without being asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration says no valid thing; each diagnostic has its place and remedy.
    Config(Vec<Diagnostic>),
    /// The configuration is well written, and cannot be served: a key is not its certificate's.
    Plan(String),
    /// An address cannot be listened at.
    Listen(ListenFailure),
    /// A folder of files comes with a restart only.
    Root(RootFailure),
    /// A server can be connected to after a restart only.
    Reach(ReachFailure),
    /// The status socket's directory is not ours.
    Place(ForeignDirectory),
    /// The user or group to run as does not exist, or cannot be become.
    User(String),
    /// A file that the configuration names cannot be opened or written.
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// A folder of files cannot be opened.
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// A file system does not answer.
    Slow {
        /// What was tried, with the path: `reading /etc/x.pem`.
        step: String,
        /// How long it was waited for.
        time: Duration,
    },
    /// The process that reads files ended before it was done; what it did last.
    ReaderDied(String),
    /// So many processes wait for files already.
    ReadersStuck(usize),
    /// The host denies something that we need.
    Host {
        /// What was tried.
        what: &'static str,
        /// What the host said.
        error: io::Error,
    },
    /// The worker process could not give up its rights.
    Rights(String),
    /// The worker process died before it had served, while it drained, or too often.
    Died {
        /// How it ended the last time.
        how: String,
        /// How often it was started again.
        restarts: u64,
    },
}

/// A plan with this folder has to wait for a restart.
#[derive(Debug)]
pub(crate) struct RootFailure {
    /// The service's name.
    pub(crate) service: String,
    /// What it would serve.
    pub(crate) folder: PathBuf,
    /// It has the path of an open one.
    pub(crate) is_known: bool,
}

impl fmt::Display for RootFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, folder) = (&self.service, self.folder.display());
        match self.is_known {
            true => write!(
                f,
                "service `{service}`: {folder} is not the folder any more that it was at start"
            ),
            false => write!(
                f,
                "service `{service}`: the running worker process may not read {folder}"
            ),
        }?;
        f.write_str("\nhint: restart: which folders can be read is settled before it serves")
    }
}

/// A plan with this server has to wait for a restart.
#[derive(Debug)]
pub(crate) struct ReachFailure {
    /// The service's name.
    pub(crate) service: String,
    /// A server behind it.
    pub(crate) server: Endpoint,
}

impl fmt::Display for ReachFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, server } = self;
        write!(
            f,
            "service `{service}`: the running worker process may not connect to {server}"
        )?;
        let settled = match server.tcp_port() {
            Some(_) => "the ports of `process.connect-ports` are settled",
            None => "whether it reaches abstract Unix sockets is settled",
        };
        write!(f, "\nhint: restart: {settled} before it serves")
    }
}

/// An address cannot be listened at.
#[derive(Debug)]
pub(crate) struct ListenFailure {
    /// The service's name, or what else would listen there.
    pub(crate) who: String,
    /// The address.
    pub(crate) address: Address,
    /// What the host said.
    pub(crate) error: io::Error,
}

impl ListenFailure {
    /// The remedy, if there is a usual one.
    fn hint(&self) -> Option<&'static str> {
        match self.error.kind() {
            io::ErrorKind::AddrInUse if self.is_path_of_a_file() => {
                Some("a file that is no socket is in the way: remove it, or choose another path")
            }
            io::ErrorKind::AddrInUse => Some("another process has it: `ss -lnp` shows which"),
            io::ErrorKind::AddrNotAvailable => Some("no interface of this host has that address"),
            io::ErrorKind::PermissionDenied => Some(
                "ports below 1024 need root or CAP_NET_BIND_SERVICE, paths a writable directory",
            ),
            io::ErrorKind::NotFound => Some("the socket's directory does not exist"),
            _ => None,
        }
    }

    /// Sockets that nobody has open are replaced; all else stays.
    fn is_path_of_a_file(&self) -> bool {
        let Address::Unix(UnixName::Path(path)) = &self.address else {
            return false;
        };
        std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.file_type().is_socket())
    }
}

impl fmt::Display for ListenFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            who,
            address,
            error,
        } = self;
        write!(f, "{who} cannot listen at {address}: {error}")?;
        match self.hint() {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl Failure {
    /// A step has taken longer than this.
    pub(super) fn slow(step: &str, time: Duration) -> Self {
        let step = step.to_owned();
        Self::Slow { step, time }
    }

    /// For `map_err`: the host denied this.
    pub(super) fn host(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Host { what, error }
    }

    /// For `map_err`: a folder of files.
    pub(super) fn folder(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Folder {
            path: path.to_owned(),
            error,
        }
    }

    /// For `map_err`: the host denied this with a file that the configuration names.
    pub(super) fn file(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::File {
            what,
            path: path.to_owned(),
            error,
        }
    }
}

impl fmt::Display for Failure {
    /// One or more lines; all but a configuration's diagnostics without a severity before them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(diagnostics) => {
                let texts: Vec<_> = diagnostics.iter().map(Diagnostic::to_string).collect();
                f.write_str(&texts.join("\n"))
            }
            Self::Plan(message) | Self::User(message) => f.write_str(message),
            Self::Listen(failure) => failure.fmt(f),
            Self::Root(failure) => failure.fmt(f),
            Self::Reach(failure) => failure.fmt(f),
            Self::Place(foreign) => foreign.fmt(f),
            Self::File { what, path, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())?;
                f.write_str("\nhint: its directory must exist and be writable, as must the file")
            }
            Self::Folder { path, error } => {
                write!(f, "cannot open the folder {}: {error}", path.display())?;
                f.write_str("\nhint: name a folder that exists")
            }
            Self::Slow { step, time } => {
                write!(f, "{step} took more than {} s", time.as_secs())?;
                f.write_str("\nhint: see whether the file system that it is on answers: `stat` it")
            }
            Self::ReaderDied(step) => {
                write!(f, "the process that reads files ended while {step}")?;
                f.write_str("\nhint: it was killed, or there was no memory: try again")
            }
            Self::ReadersStuck(count) => {
                write!(f, "{count} processes still wait for files that do not come")?;
                f.write_str("\nhint: `ps` shows them as `lariat: reader`; mend the file system")
            }
            Self::Host { what, error } => write!(f, "cannot {what}: {error}"),
            Self::Rights(message) => {
                write!(f, "the worker process cannot give up its rights: {message}")?;
                f.write_str("\nhint: `[process] sandbox` says which are to be given up")
            }
            Self::Died { how, restarts: 0 } => {
                write!(f, "the worker process ended by itself: {how}")
            }
            Self::Died { how, restarts } => write!(
                f,
                "the worker process ended by itself, {restarts} times started again: {how}"
            ),
        }
    }
}

impl std::error::Error for Failure {}

impl From<ListenFailure> for Failure {
    fn from(failure: ListenFailure) -> Self {
        Self::Listen(failure)
    }
}

impl From<ReachFailure> for Failure {
    fn from(failure: ReachFailure) -> Self {
        Self::Reach(failure)
    }
}

impl From<RootFailure> for Failure {
    fn from(failure: RootFailure) -> Self {
        Self::Root(failure)
    }
}

impl From<ForeignDirectory> for Failure {
    fn from(foreign: ForeignDirectory) -> Self {
        Self::Place(foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_names_its_place_and_remedy() {
        let failure = Failure::from(ListenFailure {
            who: "service `web`".into(),
            address: "[::]:443".parse().unwrap(),
            error: io::ErrorKind::AddrInUse.into(),
        });
        let text = failure.to_string();
        assert!(
            text.starts_with("service `web` cannot listen at [::]:443: "),
            "{text}"
        );
        assert!(text.contains("\nhint: "), "{text}");
    }

    #[test]
    fn a_file_in_the_way_is_no_other_process() {
        let name = format!("lariat-failure-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "").unwrap();
        let failure = ListenFailure {
            who: "service `web`".into(),
            address: Address::Unix(UnixName::Path(path.clone())),
            error: io::ErrorKind::AddrInUse.into(),
        };
        let hint = failure.hint();
        std::fs::remove_file(&path).unwrap();
        assert!(hint.is_some_and(|hint| hint.starts_with("a file ")));
        assert!(
            failure
                .hint()
                .is_some_and(|hint| hint.starts_with("another process "))
        );
    }
}
