//! The running lariat, seen through its status socket, and the supervisor behind it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sys::signal::Signal;
use wire::address::{Address, UnixName};

use crate::admin::{StatusDocument, StatusError};
use crate::exit::Exit;
use crate::place::{self, ForeignDirectory};
use crate::talk::Talk;

/// The document is a few KiB for each service and comes over a local socket.
const READ_TIME_MAX: Duration = Duration::from_secs(5);

/// From one try to connect to the next.
const PAUSE: Duration = Duration::from_millis(25);

/// Longer than the document of ten thousand services.
const DOCUMENT_BYTES_MAX: u64 = 256 << 20;

/// Why the running lariat could not be asked or told something.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    /// Nobody answers there.
    #[error("no lariat answers at {}: {error}", .path.display())]
    Silent { path: PathBuf, error: io::Error },
    /// Somebody listens there, and says nothing.
    #[error("the lariat at {} does not answer", .path.display())]
    Mute { path: PathBuf },
    /// We may not connect.
    #[error("no right to ask the lariat at {}: {error}", .path.display())]
    Closed { path: PathBuf, error: io::Error },
    /// What answers is no lariat, or another version of it.
    #[error("what answers at {} sends {error}", .path.display())]
    Strange { path: PathBuf, error: StatusError },
    /// Whatever answers there may be another user's.
    #[error(transparent)]
    Foreign(#[from] ForeignDirectory),
    /// The supervisor may not be told anything by us.
    #[error("cannot tell the supervisor (pid {pid}): {error}")]
    Forbidden { pid: u32, error: io::Error },
    /// The supervisor has ended.
    #[error("the supervisor (pid {pid}) has ended")]
    Ended { pid: u32 },
    /// It accepts no connections any more, and no configuration.
    #[error("the running lariat (pid {pid}) is draining: it takes no new configuration")]
    Draining { pid: u32 },
}

impl PeerError {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Silent { .. } => {
                "is it running? its first lines say where its status socket is; give that path \
                 with --status-socket"
            }
            Self::Mute { .. } => "is it stopped? its processes are those named `lariat` in `ps`",
            Self::Closed { .. } => "ask as root, or as the user or group who started it",
            Self::Strange { .. } => "use the program of the version that runs",
            // Says it itself.
            Self::Foreign(_) => return None,
            Self::Forbidden { .. } => "do it as root, or as the user who started it",
            Self::Ended { .. } => "its own log says why",
            Self::Draining { .. } => {
                "it ends when its connections have; start another one, which reads the new one"
            }
        })
    }

    /// Says it, and what it means for the program.
    pub(super) fn tell(&self, talk: Talk) -> Exit {
        talk.error(self);
        if let Some(hint) = self.hint() {
            talk.hint(hint);
        }
        match self {
            Self::Silent { .. }
            | Self::Mute { .. }
            | Self::Closed { .. }
            | Self::Foreign(_)
            | Self::Strange { .. } => Exit::NotRunning,
            Self::Forbidden { .. } | Self::Ended { .. } => Exit::Failed,
            Self::Draining { .. } => Exit::Refused,
        }
    }
}

/// The place of the status socket that was named, or the usual one.
pub(super) fn socket(named: Option<PathBuf>) -> PathBuf {
    named.unwrap_or_else(place::status_socket_default)
}

/// The status document as it was sent.
pub(super) fn document_bytes(path: &Path) -> Result<Vec<u8>, PeerError> {
    place::check_directory(path)?;
    document_within(path, READ_TIME_MAX)
}

fn document_within(path: &Path, time: Duration) -> Result<Vec<u8>, PeerError> {
    read_all(path, time).map_err(|error| unheard(path, error))
}

fn read_all(path: &Path, time: Duration) -> io::Result<Vec<u8>> {
    let stream = connected(path, time)?;
    stream.set_read_timeout(Some(time))?;
    let mut bytes = Vec::new();
    stream.take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A listener that accepts nothing has a full queue, on which `connect` would wait for ever.
fn connected(path: &Path, time: Duration) -> io::Result<UnixStream> {
    let address = Address::Unix(UnixName::Path(path.to_owned()));
    let begin = Instant::now();
    loop {
        match sys::socket::connect(&address) {
            Err(error) if is_late(&error) && begin.elapsed() < time => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
            Ok((fd, _)) => {
                let stream = UnixStream::from(fd);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
        }
    }
}

/// What a read that took too long says (socket(7), `SO_RCVTIMEO`), and a full queue.
fn is_late(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn unheard(path: &Path, error: io::Error) -> PeerError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::PermissionDenied => PeerError::Closed { path, error },
        _ if is_late(&error) => PeerError::Mute { path },
        _ => PeerError::Silent { path, error },
    }
}

/// The status document.
pub(super) fn document(path: &Path) -> Result<StatusDocument, PeerError> {
    let bytes = document_bytes(path)?;
    StatusDocument::from_json(&bytes).map_err(|error| PeerError::Strange {
        path: path.to_owned(),
        error,
    })
}

/// A running supervisor.
pub(super) struct Supervisor {
    pid: u32,
    /// Stays with the process that it was opened for, even when the number is used again.
    stat: File,
}

impl Supervisor {
    pub(super) fn of(document: &StatusDocument) -> Result<Self, PeerError> {
        let pid = document.process.supervisor_pid;
        let stat = File::open(format!("/proc/{pid}/stat")).map_err(|_| PeerError::Ended { pid })?;
        Ok(Self { pid, stat })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), PeerError> {
        let pid = self.pid;
        sys::signal::send(pid, signal).map_err(|error| PeerError::Forbidden { pid, error })
    }

    /// Whether it has ended, even if nobody has asked how.
    pub(super) fn has_ended(&mut self) -> bool {
        let mut text = String::new();
        let read = self
            .stat
            .rewind()
            .and_then(|()| self.stat.read_to_string(&mut text));
        // The state follows the name, which stands in parentheses and may hold some (proc(5)).
        let state = text
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        read.is_err() || matches!(state, None | Some('Z' | 'X'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn asked(path: &Path) -> PeerError {
        document_within(path, Duration::from_millis(1)).unwrap_err()
    }

    #[test]
    fn silence_has_its_reasons() {
        let name = format!("lariat-peer-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        assert!(matches!(asked(&path), PeerError::Silent { .. }));
        let listener = UnixListener::bind(&path).unwrap();
        let mute = asked(&path);
        drop(listener);
        let left_behind = asked(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(mute, PeerError::Mute { .. }), "{mute}");
        assert!(mute.hint().is_some_and(|hint| hint.contains("stopped")));
        assert!(
            matches!(left_behind, PeerError::Silent { .. }),
            "{left_behind}"
        );
        let closed = unheard(&path, io::ErrorKind::PermissionDenied.into());
        assert!(closed.to_string().starts_with("no right to ask"));
        assert!(closed.hint().is_some_and(|hint| hint.contains("root")));
    }
}
