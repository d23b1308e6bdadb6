//! A client that is a program: run on one core to its end, with what it used.
//!
//! Owns processes and their CPU time; what the words mean is the callers' business.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::server::spawn_pinned;

/// A client that has not ended after this hangs.
const RUN_MAX: Duration = Duration::from_secs(1800);
/// Between two looks at a client that runs. Coarse: what looks takes CPU from the client's core.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Of what a failed client wrote, so much is told.
const OUTPUT_TOLD_BYTES: usize = 600;

/// A command line, to be run on a core.
pub(crate) struct Invocation<'a> {
    /// The program.
    pub(crate) program: &'a Path,
    /// Its words.
    pub(crate) words: Vec<String>,
    /// The configuration of its OpenSSL, for programs that have one.
    pub(crate) openssl: &'a Path,
    /// An existing folder, where it runs and its output goes.
    pub(crate) folder: &'a Path,
    /// The core to run on.
    pub(crate) core: usize,
}

/// What a client wrote and used.
pub(crate) struct Ended {
    /// Its standard output.
    pub(crate) output: String,
    /// User and system time of all its threads and children, in ns.
    pub(crate) cpu_ns: u64,
    /// From its start to its end.
    pub(crate) wall_ns: u128,
    /// The greatest resident memory that was seen, in bytes.
    pub(crate) resident_bytes_max: u64,
}

impl Invocation<'_> {
    /// Runs it to its end.
    ///
    /// CPU time is the kernel's sum over the ended process and all that it waited for (`wait4`), so
    /// the start and the end of the program are in it. No other child of ours may end meanwhile.
    ///
    /// # Errors
    /// It could not be started, did not end in time, or ended with an error; the message has the
    /// end of what it wrote.
    pub(crate) fn run(&self) -> Result<Ended> {
        let (out, err) = (self.folder.join("out"), self.folder.join("err"));
        let before_ns = children_cpu_ns()?;
        let begun = Instant::now();
        let mut command = Command::new(self.program);
        command
            .args(&self.words)
            .current_dir(self.folder)
            .env("OPENSSL_CONF", self.openssl)
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?);
        let child = spawn_pinned(&mut command, &[self.core])
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let (status, resident_bytes_max) = wait(child)?;
        let wall_ns = begun.elapsed().as_nanos();
        let cpu_ns = children_cpu_ns()? - before_ns;
        let output = read_text(&out)?;
        if !status.success() {
            let told = [last_bytes(&output), last_bytes(&read_text(&err)?)].join("\n");
            bail!("{} ended with {status}: {told}", self.command_line());
        }
        Ok(Ended {
            output,
            cpu_ns,
            wall_ns,
            resident_bytes_max,
        })
    }

    /// As one would type it.
    pub(crate) fn command_line(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        format!("{} {}", name.display(), self.words.join(" "))
    }
}

/// Waits for the end, and looks at the greatest resident memory on the way.
fn wait(mut child: Child) -> Result<(std::process::ExitStatus, u64)> {
    let begun = Instant::now();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut resident_bytes_max = 0;
    loop {
        // An ended process has no memory any more, and the line is missing.
        let text = fs::read_to_string(&status).unwrap_or_default();
        resident_bytes_max = high_water_bytes(&text).unwrap_or(resident_bytes_max);
        if let Some(status) = child.try_wait()? {
            return Ok((status, resident_bytes_max));
        }
        if begun.elapsed() > RUN_MAX {
            child.kill()?;
            child.wait()?;
            bail!("the client did not end within {RUN_MAX:?}");
        }
        thread::sleep(LOOK_PAUSE);
    }
}

/// User and system time of all ended children, in ns; the kernel tells microseconds.
fn children_cpu_ns() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let microseconds = (usage.user_time() + usage.system_time()).num_microseconds();
    Ok(u64::try_from(microseconds)? * 1000)
}

/// VmHWM of a `/proc/PID/status`: the greatest resident memory so far.
fn high_water_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_bytes(text: &str) -> &str {
    let from = text.len().saturating_sub(OUTPUT_TOLD_BYTES);
    let end = (from..text.len()).find_map(|from| text.get(from..));
    end.unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_found() {
        let status = "Name:\tx\nVmHWM:\t     9892 kB\nVmRSS:\t     512 kB\n";
        assert_eq!(high_water_bytes(status), Some(9892 * 1024));
        assert_eq!(high_water_bytes("Name:\tx\n"), None);
    }

    #[test]
    fn only_the_end_of_a_long_output_is_told() {
        let text = "é".repeat(OUTPUT_TOLD_BYTES);
        assert_eq!(last_bytes(&text).chars().count(), OUTPUT_TOLD_BYTES / 2);
        assert_eq!(last_bytes(" short\n"), "short");
    }
}
