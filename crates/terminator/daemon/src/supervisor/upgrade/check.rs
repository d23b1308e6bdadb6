//! A new program that is to take the place of the running one: whether it would serve.
//!
//! Owns the check, a process that changes nothing. Who may ask for it, and what follows, is
//! `upgrade`'s.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sys::channel::{self, Channel};
use telemetry::message::Level;

use super::image;
use super::state::{Release, STATE_BYTES_MAX, SupervisorState, UpgradeVerdict, decode, encode};
use crate::messages;

/// The program's first argument when it is to say whether it would serve in the place of another:
/// before the arguments that it would be run with.
pub(crate) const CHECK_ARGUMENT: &str = "--check-upgrade";

/// Until the new program runs: a file system that does not answer holds that.
pub(crate) const EXECUTE_TIME_MAX: Duration = Duration::from_secs(2);

/// From there to its verdict: it reads its configuration meanwhile, for as long as a reader may.
pub(crate) const CHECK_TIME_MAX: Duration = Duration::from_secs(330);

/// How long the worker process before may take to pause, and then the new one to accept. Nobody
/// accepts meanwhile.
pub(crate) const SWITCH_TIME_MAX: Duration = Duration::from_secs(10);

/// Checks that a file system may hold: each is a thread and a process.
const CHECKS_MAX: usize = 4;

/// How far the running program is that is to be replaced.
#[derive(Default)]
pub(crate) enum Upgrade {
    #[default]
    None,
    /// The new program is to say whether it would serve.
    Checking(Check),
    /// It would, and has its turn when no reload is in progress.
    Accepted(NewProgram),
    /// Messages of worker processes are heard to their end.
    Stopping(NewProgram, Instant),
}

pub(crate) struct Check {
    pub(crate) number: u64,
    /// The process, once it runs.
    pub(crate) pid: Option<u32>,
    pub(crate) until: Instant,
}

#[derive(Debug)]
pub(crate) struct NewProgram {
    pub(crate) fd: OwnedFd,
    pub(crate) version: String,
    /// In which it reads what is handed on.
    pub(crate) format: u32,
}

/// News of the check of that number.
pub(crate) enum CheckNews {
    Running(u32),
    Ended(Result<NewProgram, String>),
}

impl Upgrade {
    pub(crate) fn due(&self) -> Option<Instant> {
        match self {
            Self::Checking(check) => Some(check.until),
            Self::Stopping(_, until) => Some(*until),
            Self::None | Self::Accepted(_) => None,
        }
    }

    /// The new program, if only worker processes were waited for.
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

/// The state of upgrades in the running program.
#[derive(Default)]
pub(crate) struct Upgrading {
    pub(crate) stage: Upgrade,
    /// Checks of new programs that were begun.
    checks: u64,
    /// One more reference for each that has not ended.
    checking: Arc<()>,
    /// Worker processes whose threads were told to listen no more, and have not ended yet.
    pub(crate) listening: Vec<u64>,
    /// The file that this process was started from.
    pub(crate) program: Option<PathBuf>,
    /// The version of the program whose place this one takes.
    pub(crate) program_before: Option<String>,
}

impl Upgrading {
    pub(crate) fn new(program_before: Option<String>) -> Self {
        Self { program: program(), program_before, ..Self::default() }
    }

    /// Runs the file that this process was started from, as it is now, to ask whether it would
    /// serve. `hear` is called from a thread, with the number of the check.
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
        let mut command = Command::new(program);
        command
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
        let attend = move || {
            let ended = check(command, state, |pid| hear(number, CheckNews::Running(pid)));
            drop(place);
            // As it stands on a standard error.
            let text = |why: &str| Level::split(why).map_or(why, |(_, text)| text).to_owned();
            let ended = ended.map_err(|why| format!("{name}: {}", text(&why)));
            hear(number, CheckNews::Ended(ended));
        };
        let thread = thread::Builder::new().name("check".to_owned());
        thread.spawn(attend).map_err(|error| error.to_string())?;
        Ok(Check { number, pid: None, until: Instant::now() + EXECUTE_TIME_MAX })
    }
}

/// Runs a program, has it look at the state, and hears whether it would serve. An error is a
/// sentence without a full stop.
fn check(
    mut command: Command,
    mut state: SupervisorState,
    runs: impl FnOnce(u32),
) -> Result<NewProgram, String> {
    let text = |error: io::Error| error.to_string();
    let (channel, theirs) = channel::pair().map_err(text)?;
    let mut process = command.stdin(Stdio::from(theirs)).spawn().map_err(text)?;
    // It has the other end of the channel.
    drop(command);
    runs(process.id());
    let verdict = (|| -> Option<Result<NewProgram, String>> {
        let receive = || channel.receive_up_to(STATE_BYTES_MAX, 1).ok()?;
        let release: Release = decode(&receive()?.0).ok()?;
        state.format = match release.format() {
            Ok(format) => format,
            Err(why) => return Some(Err(why)),
        };
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
    if verdict.is_some() {
        // It has said all that it has to say.
        let _ = process.kill();
    }
    let status = process.wait();
    verdict.unwrap_or_else(|| {
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(format!("ended: {how}, and did not say whether it would serve"))
    })
}

/// The file to run, by the path that this process was started by, so that it is the new program
/// after an upgrade.
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

/// Says to the running program, at the other end of the standard input, whether this one would
/// serve in its place: `errors` gives what is wrong with the configuration, if anything is.
pub(crate) fn answer_check(errors: impl FnOnce() -> Option<String>) -> io::Result<()> {
    // A file system that hangs does not keep this one behind a supervisor that is gone.
    sys::process::end_with_parent()?;
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
