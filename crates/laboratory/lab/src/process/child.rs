//! A program that we start: on CPUs of its own, with its output in a file, and ended with us.
//!
//! A guard of its own ends it ([`guard`]): when we ask, when we drop it, and when we are killed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sys::signal;

use super::guard;
use super::tree::Tree;

/// Between two checks whether a program has ended by itself.
const PAUSE: Duration = Duration::from_millis(2);
/// How much is read of its output: enough for any message.
const SAID_BYTES_MAX: u64 = 1 << 20;

/// A running program; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    guard: std::process::Child,
    /// The guard ends when it is closed.
    hold: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
    id: u32,
    output: PathBuf,
    /// How it ended, once that is known.
    end: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildFault {
    #[error("{0}")]
    Ours(#[from] io::Error),
    #[error("{program} cannot be started: {why}")]
    Refused { program: String, why: String },
    #[error("{program} has not ended after {seconds} s")]
    Endless { program: String, seconds: u64 },
}

impl Child {
    /// Starts a command, which begins with its program, on these CPUs (all that we have, if there
    /// are none) in a folder, and lets it write to a file.
    pub(crate) fn start(
        command: &[OsString],
        cpus: &[u16],
        folder: &Path,
        output: &Path,
    ) -> Result<Self, ChildFault> {
        // The file that we are, even if it has been replaced since.
        let mut guard = Command::new("/proc/self/exe")
            .arg0("lariat-lab")
            .args(guard::words(cpus, command))
            .current_dir(folder)
            // Ctrl-C is ours to answer.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(output)?)
            .spawn()?;
        let hold = guard.stdin.take();
        let pipe = guard
            .stdout
            .take()
            .ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let mut reports = BufReader::new(pipe);
        let mut line = String::new();
        reports.read_line(&mut line)?;
        let started = line.strip_prefix(guard::STARTED);
        let Some(id) = started.and_then(|id| id.trim().parse().ok()) else {
            let _ = guard.wait();
            let program = program_of(command);
            let why = line.strip_prefix(guard::REFUSED).unwrap_or(&line);
            let why = why.trim().to_owned();
            return Err(ChildFault::Refused { program, why });
        };
        Ok(Self {
            guard,
            hold,
            reports,
            id,
            output: output.to_owned(),
            end: None,
        })
    }

    /// Runs a command to its end and returns its output and errors.
    ///
    /// # Errors
    /// Those of [`Self::start`], and [`ChildFault::Endless`].
    pub(crate) fn run(
        command: &[OsString],
        folder: &Path,
        longest: Duration,
    ) -> Result<String, ChildFault> {
        let output = folder.join("said");
        let mut child = Self::start(command, &[], folder, &output)?;
        let begun = Instant::now();
        while child.ended().is_none() {
            if begun.elapsed() > longest {
                let program = program_of(command);
                let seconds = longest.as_secs();
                return Err(ChildFault::Endless { program, seconds });
            }
            thread::sleep(PAUSE);
        }
        Ok(child.output())
    }

    /// Its process and all that descend from it.
    pub(crate) fn tree(&self) -> Tree {
        Tree::of(self.id)
    }

    /// How it ended, if it did: `exit status: 1`.
    pub(crate) fn ended(&mut self) -> Option<&str> {
        if self.end.is_none() && !matches!(self.guard.try_wait(), Ok(None)) {
            self.clear_up();
            let mut rest = String::new();
            // A guard that was killed itself says nothing.
            let _ = self.reports.read_to_string(&mut rest);
            let how = rest.trim().strip_prefix(guard::ENDED);
            self.end = Some(how.unwrap_or("its guard was killed").to_owned());
        }
        self.end.as_deref()
    }

    /// A guard that was killed has ended nothing: whatever is left of its group goes. Its number is
    /// the group's as long as anything is left of that.
    fn clear_up(&mut self) {
        let status = self.guard.wait();
        let was_killed = status.map_or(true, |status: ExitStatus| status.code().is_none());
        if was_killed {
            // There may be nothing left.
            let _ = signal::kill_group(self.guard.id());
        }
    }

    /// What it wrote so far, on both of its outputs.
    pub(crate) fn output(&self) -> String {
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(&self.output) {
            let _ = file.take(SAID_BYTES_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Ends it, and waits until it and all that descend from it are gone.
    pub(crate) fn stop(self) {
        drop(self);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.hold.take());
        if self.end.is_none() {
            self.clear_up();
        }
    }
}

fn program_of(command: &[OsString]) -> String {
    let program = command.first().map(|program| program.to_string_lossy());
    program.unwrap_or_default().into_owned()
}

/// The first lines of a program's output, for a message.
pub(crate) fn first_lines(said: &str) -> String {
    const LINES_MAX: usize = 4;
    let lines = said.lines().map(str::trim_end);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let mut text = lines[..lines.len().min(LINES_MAX)].join("\n");
    if lines.len() > LINES_MAX {
        text.push_str("\n…");
    }
    text
}

/// The few lines of a program's output that explain a failure: those with such a word, else the
/// last ones.
pub(crate) fn fault_lines(said: &str) -> String {
    const LINES_MAX: usize = 6;
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let tells = |line: &&str| {
        let line = line.to_ascii_lowercase();
        FAULT_WORDS.iter().any(|word| line.contains(word))
    };
    let mut chosen: Vec<_> = lines().filter(tells).take(LINES_MAX).collect();
    if chosen.is_empty() {
        chosen = lines().rev().take(LINES_MAX).collect();
        chosen.reverse();
    }
    chosen.join("\n")
}

/// In lines that explain a failure, in small letters.
const FAULT_WORDS: [&str; 9] = [
    "alert", "cannot", "denied", "emerg", "error", "fail", "fatal", "invalid", "unable",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_tell_are_told() {
        let banner = "stunnel 5.68\n[!] Invalid curves list\n\nbye\n";
        assert_eq!(fault_lines(banner), "[!] Invalid curves list");
        let silent: String = (0..9).map(|line| format!("{line}\n")).collect();
        assert_eq!(fault_lines(&silent), "3\n4\n5\n6\n7\n8");
        assert_eq!(fault_lines(""), "");
    }
}
