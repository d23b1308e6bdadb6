//! The control client: the running lariat, seen through its status socket, and its supervisor.
//!
//! The document comes from the worker process, which an attacker may have taken over. So it decides
//! over nothing: its size and time have limits, and who is signalled is asked of the kernel.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use config::{Diagnostic, Disk};
use sys::peer::{Credentials, Process, credentials};
use sys::signal::Signal;
use wire::address::{Address, UnixName};

use super::console::Exit;
use crate::admin::{RunState, StatusDocument, StatusError};
use crate::commands::args::StatusSocket;
use crate::commands::console::Console;
use crate::handover::SUPERVISOR_NAME;
use crate::status_socket::{self, ForeignDirectory};

/// For the whole document of one that is only looked for.
const READ_TIME_MAX: Duration = Duration::from_secs(5);

/// The same where somebody waits for it, who hears why after [`SLOW_TIME`]: with a hundred thousand
/// services the document takes seconds. One that is stopped must not take longer to be found so.
const PATIENT_TIME_MAX: Duration = Duration::from_secs(20);

/// The same where something was ordered: a plan is built for a minute.
const ORDERED_TIME_MAX: Duration = Duration::from_secs(120);

/// After this time who waits wants to know for what.
const SLOW_TIME: Duration = Duration::from_secs(3);

/// A supervisor that becomes another program has its name after this time, also on a busy host.
const UNNAMED_TIME_MAX: Duration = Duration::from_secs(5);

/// The pause between tries to connect, and between looks at the status.
const PAUSE: Duration = Duration::from_millis(25);

/// A pause is so many times as long as the look before it took.
const RESTS: u32 = 4;

/// Longer than any document, which leaves services out before. Read into memory it takes up to 16
/// times as much.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// A failure to ask or to order the running lariat, with the remedy as a line of its own.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    /// The configuration that was to say where does not.
    #[error("the configuration does not say where its lariat answers")]
    Configuration(Vec<Diagnostic>),
    #[error(
        "no lariat answers at {}: {error}\nhint: {}", .path.display(), hint_of_silent(.path)
    )]
    Silent { path: PathBuf, error: io::Error },
    /// There is no running program to replace.
    #[error(
        "no lariat runs with that configuration: its status socket would be {}: {error}\n\
         hint: start one: `lariat serve FILE`, or `systemctl start lariat`; if one runs, name its \
         configuration file, or its status socket with --status-socket",
        .path.display()
    )]
    Absent { path: PathBuf, error: io::Error },
    /// Somebody listens there, and sends nothing, or not all of it in time.
    #[error("the lariat at {} does not answer\nhint: {}", .path.display(), hint_of_mute(*.pid))]
    Mute {
        path: PathBuf,
        /// The process that listens; 0 = unknown.
        pid: u32,
    },
    #[error(
        "no right to ask the lariat at {}: {error}\n\
         hint: ask as root, or as the user or group who started it",
        .path.display()
    )]
    Closed { path: PathBuf, error: io::Error },
    /// The process that answers is no lariat, or another version of it.
    #[error(
        "what answers at {} sends {error}\nhint: use the program of the version that runs",
        .path.display()
    )]
    Strange { path: PathBuf, error: StatusError },
    #[error(
        "what answers at {} sends more than {} MiB\n\
         hint: if it is a lariat, its worker process may be in an attacker's hands: restart it, \
         and see its log",
        .path.display(), DOCUMENT_BYTES_MAX >> 20
    )]
    TooLong { path: PathBuf },
    /// Whatever answers there may be another user's.
    #[error(transparent)]
    Foreign(#[from] ForeignDirectory),
    /// The process that listens there is no supervisor.
    #[error(
        "the status socket {} belongs to process {pid} of user {user}, which {why}; it was sent \
         no signal\n\
         hint: give the path of lariat's own status socket with --status-socket, or signal the \
         supervisor yourself: `kill -HUP` reloads, `kill -TERM` drains",
        .path.display()
    )]
    NoSupervisor { path: PathBuf, pid: u32, user: u32, why: String },
    /// The supervisor is not among the processes that we see.
    #[error(
        "the supervisor of {} runs in another PID namespace\n\
         hint: run this command in the container that it runs in",
        .path.display()
    )]
    Unseen { path: PathBuf },
    /// The supervisor may not be told anything by us.
    #[error(
        "cannot signal the supervisor (pid {pid}): {error}\n\
         hint: do it as root, or as the user who started it"
    )]
    Forbidden { pid: u32, error: io::Error },
    /// The supervisor reads no orders: it would end of the signal.
    #[error(
        "the running lariat (pid {pid}) is of a version that takes no orders about servers\n\
         hint: restart it with this version"
    )]
    Older { pid: u32 },
    #[error(
        "no service has the server {name}{}\n\
         hint: `lariat status` lists the servers of each service",
        near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default()
    )]
    NoServer { name: String, near: Option<String> },
    /// It may be there all the same.
    #[error(
        "the running lariat has {services} services more than its status shows, and the server \
         {name} is of none that is shown\n\
         hint: take it out of the configuration, and `lariat reload`"
    )]
    LeftOut { name: String, services: u64 },
    #[error(
        "the running lariat has no certificate {name} by ACME{}\n\
         hint: `lariat certificate list` lists them by name",
        near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default()
    )]
    NoCertificate { name: String, near: Option<String> },
    #[error(
        "no certificate has come yet for {name}, so that there is none to revoke\n\
         hint: `lariat certificate list` says why, and when the next attempt is"
    )]
    NoneToRevoke { name: String },
    #[error("the supervisor (pid {pid}) has ended\nhint: its own log says why")]
    Ended { pid: u32 },
    /// It accepts no connections any more, and no configuration.
    #[error(
        "the running lariat (pid {pid}) is draining: it takes no new configuration\n\
         hint: it ends when its connections have; start another one, which reads the new one"
    )]
    Draining { pid: u32 },
}

fn hint_of_silent(path: &Path) -> String {
    let of_root = Path::new(status_socket::OF_ROOT);
    let found = of_root.symlink_metadata().map_err(|error| error.kind());
    let is_there =
        found.is_ok() || found.is_err_and(|kind| kind == io::ErrorKind::PermissionDenied);
    if is_there && path == status_socket::default_path() && path != of_root {
        return format!(
            "root's lariat has its status socket at {}: put `sudo` before this command, or name it \
             with --status-socket",
            of_root.display()
        );
    }
    "is it running? its first lines say where its status socket is; give that path with \
     --status-socket, or name its configuration file"
        .to_owned()
}

fn hint_of_mute(pid: u32) -> String {
    if pid == 0 {
        return "is it stopped? its processes are those named `lariat` in `ps`".to_owned();
    }
    format!(
        "its supervisor is process {pid}, whose messages may say why; `ps -o pid,stat,args -p \
         {pid} --ppid {pid}` shows whether it or its worker process is stopped (`T`)"
    )
}

impl ControlError {
    /// Says it, and what it means for the program.
    pub(super) fn tell(&self, console: Console) -> Exit {
        match self {
            Self::Configuration(diagnostics) => console.diagnostics(diagnostics),
            other => console.error(other),
        }
        match self {
            Self::Absent { .. } | Self::Silent { .. } => Exit::NotRunning,
            Self::NoServer { .. }
            | Self::LeftOut { .. }
            | Self::NoCertificate { .. }
            | Self::NoneToRevoke { .. }
            | Self::Configuration(_) => Exit::Usage,
            Self::Draining { .. } => Exit::Refused,
            // Another code than that of one that does not run, which scripts take for no failure.
            _ => Exit::Failed,
        }
    }
}

/// The running lariat that a command is for: its status as of now, and its supervisor.
pub(super) struct RunningLariat {
    pub(super) path: PathBuf,
    pub(super) document: StatusDocument,
    pub(super) supervisor: Supervisor,
}

impl RunningLariat {
    pub(super) fn find(named: &StatusSocket, console: Console) -> Result<Self, ControlError> {
        let path = socket(named)?;
        let answer = ask_patiently(&path, console)?;
        answer.name_other_owner(console);
        Ok(Self { document: answer.document()?, supervisor: answer.supervisor()?, path })
    }

    /// The same, unless it drains and so takes no reload, upgrade or order about a server.
    pub(super) fn find_serving(
        named: &StatusSocket,
        console: Console,
    ) -> Result<Self, ControlError> {
        let running = Self::find(named, console)?;
        unless_draining(&running.document)?;
        Ok(running)
    }

    /// Waits until `outcome` finds what was ordered in the status, which is `None` while the worker
    /// process is being started again; `Ok(None)` = it does not come to that in time.
    pub(super) fn wait_for<T>(
        &self,
        time_max: Duration,
        outcome: impl Fn(Option<&StatusDocument>) -> Result<Option<T>, ControlError>,
    ) -> Result<Option<T>, ControlError> {
        let begin = Instant::now();
        let mut pause = PAUSE;
        while begin.elapsed() < time_max {
            let has_ended = self.supervisor.has_ended_within(pause);
            let asked = Instant::now();
            let now = ask_within(&self.path, ORDERED_TIME_MAX.min(time_max));
            let now = now.and_then(|answer| answer.document()).ok();
            // A long document must not keep the one who makes it from what is waited for.
            pause = PAUSE.max(asked.elapsed() * RESTS);
            if let Some(found) = outcome(now.as_ref())? {
                return Ok(Some(found));
            }
            now.as_ref().map_or(Ok(()), unless_draining)?;
            if has_ended {
                return Err(ControlError::Ended { pid: self.supervisor.pid() });
            }
        }
        Ok(None)
    }
}

fn unless_draining(document: &StatusDocument) -> Result<(), ControlError> {
    match document.process.state {
        RunState::Serving => Ok(()),
        RunState::Draining => Err(ControlError::Draining { pid: document.process.supervisor_pid }),
    }
}

/// The path of the status socket of the lariat that was meant.
pub(super) fn socket(named: &StatusSocket) -> Result<PathBuf, ControlError> {
    let source = match named {
        StatusSocket::Usual => return Ok(status_socket::default_path()),
        StatusSocket::Path(path) => return Ok(path.clone()),
        StatusSocket::Of(config) => config.read(&mut Disk),
    };
    let found = source.and_then(|source| config::status_socket(&source));
    let path = found.map_err(ControlError::Configuration)?;
    Ok(path.unwrap_or_else(status_socket::default_path))
}

/// Says something if what is waited for takes long, until what this returns is dropped.
pub(super) fn say_if_slow(console: Console, text: &'static str) -> Sender<()> {
    let (waits, ended) = mpsc::channel();
    thread::spawn(move || {
        if ended.recv_timeout(SLOW_TIME) == Err(RecvTimeoutError::Timeout) {
            console.say(text);
        }
    });
    waits
}

/// The bytes that a status socket sent, and who made it.
pub(super) struct ControlAnswer {
    path: PathBuf,
    stream: UnixStream,
    bytes: Vec<u8>,
    owner: Credentials,
}

/// Asks the lariat whose status socket is there.
pub(super) fn ask(path: &Path) -> Result<ControlAnswer, ControlError> {
    status_socket::check_directory(path)?;
    ask_within(path, READ_TIME_MAX)
}

/// The same, for somebody who waits.
pub(super) fn ask_patiently(path: &Path, console: Console) -> Result<ControlAnswer, ControlError> {
    status_socket::check_directory(path)?;
    let _waits = say_if_slow(
        console,
        "waiting for the running lariat's answer: it has very many services, builds a new \
         configuration, or is stopped",
    );
    ask_within(path, PATIENT_TIME_MAX)
}

fn ask_within(path: &Path, time: Duration) -> Result<ControlAnswer, ControlError> {
    let until = Instant::now() + time;
    let mut listener = 0;
    let mut answer = || {
        let stream = connected(path, until)?;
        let owner = credentials(stream.as_fd())?;
        listener = owner.pid;
        Ok(ControlAnswer { path: path.to_owned(), owner, bytes: read_all(&stream, until)?, stream })
    };
    answer().map_err(|error| match unheard(path, error) {
        ControlError::Mute { path, .. } => ControlError::Mute { path, pid: listener },
        other => other,
    })
}

/// Reads until the end of the stream, at most `DOCUMENT_BYTES_MAX`, and no longer than `until`:
/// one that sends a byte now and then must not hold us either.
fn read_all(mut stream: &UnixStream, until: Instant) -> io::Result<Vec<u8>> {
    let (mut bytes, mut room) = (Vec::new(), vec![0; READ_BYTES]);
    while bytes.len() <= DOCUMENT_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut room) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend(room.iter().take(count)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

/// A listener that accepts nothing has a full queue, on which `connect` would wait for ever.
fn connected(path: &Path, until: Instant) -> io::Result<UnixStream> {
    let address = Address::Unix(UnixName::Path(path.to_owned()));
    loop {
        match sys::socket::connect(&address) {
            Err(error) if is_late(&error) && Instant::now() < until => thread::sleep(PAUSE),
            Err(error) => return Err(error),
            Ok((fd, _)) => {
                let stream = UnixStream::from(fd);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
        }
    }
}

/// The error of a read that took too long (socket(7), `SO_RCVTIMEO`), and a full queue.
fn is_late(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

pub(super) fn unheard(path: &Path, error: io::Error) -> ControlError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::PermissionDenied => ControlError::Closed { path, error },
        io::ErrorKind::FileTooLarge => ControlError::TooLong { path },
        _ if is_late(&error) => ControlError::Mute { path, pid: 0 },
        _ => ControlError::Silent { path, error },
    }
}

impl ControlAnswer {
    /// The document as text, whatever it is.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The status document. The supervisor's number in it is the kernel's word.
    pub(super) fn document(&self) -> Result<StatusDocument, ControlError> {
        let read = StatusDocument::from_json(&self.bytes);
        let mut document =
            read.map_err(|error| ControlError::Strange { path: self.path.clone(), error })?;
        document.process.supervisor_pid = self.owner.pid;
        Ok(document)
    }

    /// Says whose lariat this is, if it is neither root's nor that of who asks.
    pub(super) fn name_other_owner(&self, console: Console) {
        let (path, user) = (self.path.display(), self.owner.user);
        if ![0, sys::process::identity().user].contains(&user) {
            console.warn(format_args!(
                "the status socket {path} belongs to user {user}, who may report anything through it"
            ));
        }
    }

    /// The process that made the socket, if it is a supervisor and acts as the user who made it.
    pub(super) fn supervisor(&self) -> Result<Supervisor, ControlError> {
        let Credentials { pid, user } = self.owner;
        if pid == 0 {
            let path = self.path.clone();
            return Err(ControlError::Unseen { path });
        }
        let ended = |_| ControlError::Ended { pid };
        let process = Process::behind(self.stream.as_fd()).map_err(ended)?;
        let until = Instant::now() + UNNAMED_TIME_MAX;
        let mut name = process.name().map_err(ended)?;
        while is_unnamed(&name) && Instant::now() < until {
            thread::sleep(PAUSE);
            name = process.name().map_err(ended)?;
        }
        let users = process.users().map_err(ended)?;
        match no_supervisor(&name, &users, user) {
            None => Ok(Supervisor(process)),
            Some(why) => {
                Err(ControlError::NoSupervisor { path: self.path.clone(), pid, user, why })
            }
        }
    }
}

/// Whether a process has the name that an exec of a descriptor gives it, the descriptor's number:
/// so does a supervisor that becomes another program, until its first lines.
fn is_unnamed(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// The reason not to signal a process. Root may signal every process, and a user may get root to
/// ask a socket of theirs: that must reach nothing that the user could not signal. So the process
/// must be that user's still, in every way: it may have become another user's program since.
fn no_supervisor(name: &str, users: &[u32], owner: u32) -> Option<String> {
    if users.is_empty() || users.iter().any(|user| *user != owner) {
        return Some("acts as another user".to_owned());
    }
    (name != SUPERVISOR_NAME).then(|| format!("is no lariat supervisor: its name is `{name}`"))
}

/// A running supervisor. It is this process, even when its number is used again.
#[derive(Debug)]
pub(super) struct Supervisor(Process);

impl Supervisor {
    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), ControlError> {
        let pid = self.pid();
        self.0.signal(signal).map_err(|error| untold(pid, error))
    }

    /// Sends an order about a server.
    pub(super) fn order(&self, number: u64) -> Result<(), ControlError> {
        let pid = self.pid();
        self.0.order(number).map_err(|error| untold(pid, error))
    }

    /// Waits so long for its end, even if nobody has asked how it ended.
    pub(super) fn has_ended_within(&self, time: Duration) -> bool {
        // What cannot be waited for is not there.
        self.0.has_ended_within(time).unwrap_or(true)
    }
}

fn untold(pid: u32, error: io::Error) -> ControlError {
    match error.kind() {
        io::ErrorKind::NotFound => ControlError::Ended { pid },
        io::ErrorKind::Unsupported => ControlError::Older { pid },
        _ => ControlError::Forbidden { pid, error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    fn asked(path: &Path) -> ControlError {
        match ask_within(path, Duration::from_millis(1)) {
            Ok(_) => panic!("nobody has answered"),
            Err(error) => error,
        }
    }

    /// A status socket of this process's own, and what becomes of who asks it.
    fn at_own_socket<T>(name: &str, work: impl FnOnce(&Path, &UnixListener) -> T) -> T {
        let directory = testkit::directory::Directory::new();
        let path = directory.join(name);
        let listener = UnixListener::bind(&path).unwrap();
        work(&path, &listener)
    }

    #[test]
    fn silence_has_its_reasons() {
        let directory = testkit::directory::Directory::new();
        let path = directory.join("status");
        assert!(matches!(asked(&path), ControlError::Silent { .. }));
        let listener = UnixListener::bind(&path).unwrap();
        let mute = asked(&path);
        drop(listener);
        let left_behind = asked(&path);
        assert!(matches!(mute, ControlError::Mute { .. }), "{mute}");
        let own = format!("process {}, ", std::process::id());
        assert!(mute.to_string().contains(&own), "{mute}");
        assert!(matches!(left_behind, ControlError::Silent { .. }), "{left_behind}");
        let closed = unheard(&path, io::ErrorKind::PermissionDenied.into());
        assert!(closed.to_string().starts_with("no right to ask"));
    }

    #[test]
    fn a_draining_process_refuses() {
        let document = |state: &str| {
            let text = format!(
                r#"{{"version":2,"time_ms":0,"process":{{"program":"","state":"{state}","pid":2,
                    "supervisor_pid":1,"start_ms":0,"supervisor_start_ms":0,"metrics":{{}}}},
                    "workers":[],"services":[],"bounds_us":[]}}"#
            );
            StatusDocument::from_json(text.as_bytes()).unwrap()
        };
        unless_draining(&document("serving")).unwrap();
        let error = unless_draining(&document("draining")).unwrap_err();
        assert_eq!(error.tell(Console::to_stderr()), Exit::Refused);
    }

    #[test]
    fn an_answer_without_end_is_given_up() {
        let error = at_own_socket("endless", |path, listener| {
            let listener = listener.try_clone().unwrap();
            let sender = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let chunk = vec![b' '; READ_BYTES];
                // Until the reader is gone.
                while stream.write_all(&chunk).is_ok() {}
            });
            let error = ask_within(path, Duration::from_secs(120)).map(|answer| answer.text());
            sender.join().unwrap();
            error.unwrap_err()
        });
        assert!(matches!(error, ControlError::TooLong { .. }), "{error}");
    }

    #[test]
    fn an_answer_of_a_byte_now_and_then_is_given_up_too() {
        let error = at_own_socket("slow", |path, listener| {
            let listener = listener.try_clone().unwrap();
            let sender = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                while stream.write_all(b" ").is_ok() {
                    thread::yield_now();
                }
            });
            let error = asked(path);
            sender.join().unwrap();
            error
        });
        assert!(matches!(error, ControlError::Mute { .. }), "{error}");
    }

    #[test]
    fn a_socket_of_another_program_names_no_supervisor() {
        let document = br#"{"version":2}"#;
        let error = at_own_socket("other", |path, listener| {
            let client = thread::scope(|scope| {
                scope.spawn(|| listener.accept().unwrap().0.write_all(document).unwrap());
                ask_within(path, Duration::from_secs(60))
            });
            client.unwrap().supervisor().map(|one| one.pid())
        });
        let text = error.unwrap_err().to_string();
        let own = format!("belongs to process {} of user", std::process::id());
        assert!(text.contains(&own) && text.contains("no lariat"), "{text}");
    }

    #[test]
    fn only_a_supervisor_of_the_sockets_owner_is_signalled() {
        assert_eq!(no_supervisor("lariat", &[7; 4], 7), None);
        // As root's, for instance by a setuid program.
        assert!(no_supervisor("lariat", &[7, 0, 0, 0], 7).is_some());
        assert!(no_supervisor("lariat", &[0; 4], 7).is_some());
        assert!(no_supervisor("lariat", &[], 7).is_some());
        assert!(no_supervisor("dockerd", &[0; 4], 0).is_some());
    }
}
