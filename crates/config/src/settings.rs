//! What a configuration means: the Options of the parts, and the daemon's own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that a configuration says.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// For the data plane.
    pub plane: proxy::options::Options,
    /// For the processes and their rights.
    pub process: ProcessOptions,
    /// For those who watch and steer.
    pub control: ControlOptions,
    /// For the session cache, which all services share.
    pub resumption: ResumptionOptions,
    /// For the ticket keys, which all services share.
    pub tickets: tls::resumption::TicketOptions,
}

/// The processes and their rights.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessOptions {
    /// Whom the data process becomes; `None` leaves the choice to the daemon.
    pub user: Option<String>,
    /// Its group; `None` is the user's own.
    pub group: Option<String>,
    /// What is taken from the data process before it sees a byte.
    pub sandbox: SandboxOptions,
    /// How long connections may finish after a drain began.
    pub drain: Duration,
    /// Where the supervisor writes its process id.
    pub pid_file: Option<PathBuf>,
}

/// The parts of the sandbox.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SandboxOptions {
    /// No file can be opened (Landlock).
    pub files: bool,
    /// Only the system calls that it needs (seccomp).
    pub system_calls: bool,
}

/// The doors for those who watch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ControlOptions {
    /// The Unix socket that writes the status; `None` = the daemon's usual place.
    pub status_socket: Option<PathBuf>,
    /// Where the status page and the metrics are served over HTTP; `None` = nowhere.
    pub listen: Option<SocketAddr>,
    /// Where the lines about connections go.
    pub log: LogOutput,
}

/// Where the lines about connections go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogOutput {
    /// Appended to a file.
    File(PathBuf),
    /// The standard error.
    Stderr,
    /// The standard output.
    Stdout,
}

/// The session cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ResumptionOptions {
    /// Sessions in the cache.
    pub session_entries: usize,
    /// Bytes of the cache.
    pub session_bytes: usize,
    /// How long a session may be resumed.
    pub session_lifetime: Duration,
}
