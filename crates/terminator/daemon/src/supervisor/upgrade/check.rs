//! Checks whether a new program would serve in the place of the running one.
//!
//! Handles the check, a process that changes nothing. `upgrade` decides about permission and the
//! consequences.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use sys::channel::{self, Channel};
use sys::{file, process};
use telemetry::message::LogLevel;
use telemetry::printable::line;

use super::image;
use super::state::{Release, STATE_BYTES_MAX, SupervisorState, UpgradeVerdict, decode, encode};
use crate::admin::milliseconds;
use crate::messages;
use crate::status_parts::UpgradeStatus;

/// First argument of the program that makes it check whether it would serve in the place of
/// another: before the arguments that it would be run with.
pub(crate) const CHECK_ARGUMENT: &str = "--check-upgrade";

/// Time limit until the new program runs: a file system that does not answer delays that.
pub(crate) const EXECUTE_TIME_MAX: Duration = Duration::from_secs(2);

/// Time limit from there to its first message, its version: a program that hangs, or is no lariat,
/// is given up then. Ours send it before they read anything, also from a slow disk on a busy host.
pub(crate) const RELEASE_TIME_MAX: Duration = Duration::from_secs(10);

/// Time limit from there to its verdict: it reads its configuration meanwhile, for as long as a
/// reader may. A shorter time would refuse what a start serves; an operator who does not want to
/// wait sees the process in the status.
pub(crate) const CHECK_TIME_MAX: Duration = Duration::from_secs(330);

/// Time limit for the earlier worker process to pause, and then for the new one to accept. Nobody
/// accepts meanwhile.
pub(crate) const SWITCH_TIME_MAX: Duration = Duration::from_secs(10);

/// Checks that a file system may block: each is a thread and a process.
const CHECKS_MAX: usize = 4;

/// Progress of the running program's replacement.
#[derive(Default)]
pub(crate) enum Upgrade {
    #[default]
    None,
    /// The new program is checking whether it would serve.
    Checking(Check),
    /// The new program would serve, and has its turn when no reload is in progress.
    Accepted(NewProgram),
    /// Messages of worker processes are read to their end.
    Stopping(NewProgram, Instant),
}

pub(crate) struct Check {
    pub(crate) number: u64,
    /// File that is run.
    pub(crate) name: PathBuf,
    since: SystemTime,
    /// Process number, once it runs, and its version, once it has sent it.
    pid: Option<u32>,
    version: Option<String>,
    until: Instant,
    channel: Arc<Channel>,
}

#[derive(Debug)]
pub(crate) struct NewProgram {
    pub(crate) fd: OwnedFd,
    pub(crate) version: String,
    /// Format of the state that it reads.
    pub(crate) format: u32,
}

/// News of the check of that number.
pub(crate) enum CheckNews {
    Running(u32),
    /// The new program has reported its version.
    Reads(String),
    Ended(Result<NewProgram, String>),
}

impl Check {
    pub(crate) fn runs(&mut self, pid: u32) {
        self.pid = Some(pid);
        self.until = Instant::now() + RELEASE_TIME_MAX;
    }

    pub(crate) fn reads(&mut self, version: String) {
        self.version = Some(version);
        self.until = Instant::now() + CHECK_TIME_MAX;
    }

    /// Ends it, with all processes that it has started.
    pub(crate) fn give_up(self) {
        // Leftover processes may hold the other end open.
        self.channel.end();
        self.pid.into_iter().for_each(process::end_group);
    }

    pub(crate) fn why_late(&self) -> String {
        match (self.pid, &self.version) {
            (None, _) => {
                format!("it took more than {} s to open the file", EXECUTE_TIME_MAX.as_secs())
            }
            (Some(pid), None) => format!(
                "{} (pid {pid}) was killed, since it had not said in {} s which version of lariat \
                 it is; is it a lariat?",
                self.name.display(),
                RELEASE_TIME_MAX.as_secs()
            ),
            (Some(_), Some(_)) => {
                let time = CHECK_TIME_MAX.as_secs();
                format!("it was killed, since it had not said in {time} s whether it would serve")
            }
        }
    }

    pub(crate) fn status(&self) -> UpgradeStatus {
        let name = self.name.display();
        let stage = match (self.pid, &self.version) {
            (None, _) => format!("{name} is opened"),
            (Some(pid), None) => format!("{name} (pid {pid}) is to say which version it is"),
            (Some(pid), Some(version)) => {
                format!("lariat {version} (pid {pid}) reads the configuration")
            }
        };
        let left = self.until.saturating_duration_since(Instant::now());
        let until_ms = Some(milliseconds(SystemTime::now() + left));
        UpgradeStatus { since_ms: milliseconds(self.since), pid: self.pid, until_ms, stage }
    }

    /// Returns the status of a program that would serve.
    pub(crate) fn accepted(&self) -> UpgradeStatus {
        let version = self.version.as_deref().unwrap_or_default();
        let stage = format!("lariat {version} takes over when what is under way has ended");
        UpgradeStatus { pid: None, until_ms: None, stage, ..self.status() }
    }
}

impl Upgrade {
    pub(crate) fn due(&self) -> Option<Instant> {
        match self {
            Self::Checking(check) => Some(check.until),
            Self::Stopping(_, until) => Some(*until),
            Self::None | Self::Accepted(_) => None,
        }
    }

    /// Returns the new program, if only worker processes were waited for.
    pub(crate) fn take_stopping(&mut self) -> Option<NewProgram> {
        match std::mem::take(self) {
            Self::Stopping(program, _) => Some(program),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// State of upgrades in the running program.
#[derive(Default)]
pub(crate) struct Upgrading {
    pub(crate) stage: Upgrade,
    /// Checks of new programs that were begun.
    checks: u64,
    /// Reference counter: one more for each check that has not ended.
    checking: Arc<()>,
    /// Worker processes whose threads were ordered to stop listening, and have not ended yet.
    pub(crate) listening: Vec<u64>,
    /// File that this process was started from.
    pub(crate) program: Option<PathBuf>,
    /// Version of the program whose place this one takes.
    pub(crate) program_before: Option<String>,
}

impl Upgrading {
    pub(crate) fn new(program_before: Option<String>) -> Self {
        Self { program: program(), program_before, ..Self::default() }
    }

    /// Runs the file that this process was started from, as it is now, to check whether it would
    /// serve. A thread calls `hear` with the number of the check.
    pub(crate) fn begin_check(
        &mut self,
        state: SupervisorState,
        hear: impl Fn(u64, CheckNews) + Send + 'static,
    ) -> Result<Check, String> {
        let mut arguments = std::env::args_os().skip(1).peekable();
        if arguments.peek().is_none_or(|first| first != "serve" && first != "hitch") {
            return Err("only `lariat serve` and `lariat hitch` can be upgraded".to_owned());
        }
        let program = self.program.as_ref();
        let program = program.ok_or("it is not known how this one was started")?;
        if Arc::strong_count(&self.checking) > CHECKS_MAX {
            return Err(format!("{CHECKS_MAX} before still wait for their file"));
        }
        let (channel, theirs) = channel::pair().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .arg(CHECK_ARGUMENT)
            .args(arguments)
            .env_clear()
            .envs(image::environment())
            .envs([messages::form_variable()])
            .stdout(Stdio::null());
        self.checks += 1;
        let number = self.checks;
        let place = Arc::clone(&self.checking);
        let name = program.display().to_string();
        let channel = Arc::new(channel);
        let own = Arc::clone(&channel);
        let attend = move || {
            let ended = check(command, &own, state, |news| hear(number, news));
            drop(place);
            // As written to a standard error.
            let text = |why: &str| LogLevel::split(why).map_or(why, |(_, text)| text).to_owned();
            let ended = ended.map_err(|why| format!("{name}: {}", text(&why)));
            hear(number, CheckNews::Ended(ended));
        };
        let thread = thread::Builder::new().name("check".to_owned());
        thread.spawn(attend).map_err(|error| error.to_string())?;
        let (name, since) = (program.clone(), SystemTime::now());
        let until = Instant::now() + EXECUTE_TIME_MAX;
        Ok(Check { number, name, since, pid: None, version: None, until, channel })
    }
}

/// Runs a program, has it look at the state, and reads its verdict. An error is a sentence without
/// a full stop.
fn check(
    mut command: Command,
    channel: &Channel,
    mut state: SupervisorState,
    hear: impl Fn(CheckNews),
) -> Result<NewProgram, String> {
    // This thread ends after it.
    let process = file::has_format_of_program(Path::new(command.get_program()))
        .and_then(|()| process::end_child_with_us(&mut command).spawn());
    let mut process = process.map_err(|error| error.to_string())?;
    // The command has the other end of the channel.
    drop(command);
    let pid = process.id();
    hear(CheckNews::Running(pid));
    let verdict = (|| -> Option<Result<NewProgram, String>> {
        let receive = || channel.receive_up_to(STATE_BYTES_MAX, 1).ok()?;
        let release: Release = decode(&receive()?.0).ok()?;
        state.format = match release.format() {
            Ok(format) => format,
            Err(why) => return Some(Err(why)),
        };
        hear(CheckNews::Reads(line(&release.program).to_string()));
        channel.send(encode(&state).bytes(), &[]).ok()?;
        let (bytes, fds) = receive()?;
        let verdict: UpgradeVerdict = decode(&bytes).ok()?;
        Some(match (verdict.refused, fds.into_iter().next()) {
            (Some(why), _) => Err(why),
            (None, None) => Err("it does not say which file it is".to_owned()),
            (None, Some(fd)) => {
                Ok(NewProgram { fd, version: release.program, format: state.format })
            }
        })
    })();
    // The program has sent all its messages.
    process::end_group(pid);
    let status = process.wait();
    verdict.unwrap_or_else(|| {
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(format!("ended: {how}, and did not say whether it would serve"))
    })
}

/// Returns the file to run, by the path that this process was started by, so that it is the new
/// program after an upgrade.
fn program() -> Option<PathBuf> {
    let name = PathBuf::from(std::env::args_os().next()?);
    if name.components().count() > 1 {
        return std::path::absolute(name).ok();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|folder| folder.join(&name));
    let found = candidates.find(|candidate| candidate.is_file());
    found.or_else(|| std::env::current_exe().ok())
}

/// Tells the running program, at the other end of the standard input, whether this one would serve
/// in its place: `errors` returns the faults of the configuration, if there are any.
pub(crate) fn answer_check(errors: impl FnOnce() -> Option<String>) -> io::Result<()> {
    // A file with capabilities has undone what the running program has set.
    process::end_with_parent()?;
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    channel.send(encode(&Release::own()).bytes(), &[])?;
    let Some((bytes, _)) = channel.receive_up_to(STATE_BYTES_MAX, 0)? else {
        return Ok(());
    };
    let state = decode::<SupervisorState>(&bytes).and_then(|state| state.check());
    let refused = state.err().or_else(errors);
    let program = image::own_program()?;
    channel.send(encode(&UpgradeVerdict { refused }).bytes(), &[program.as_fd()])
}
