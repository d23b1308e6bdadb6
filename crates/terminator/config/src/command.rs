//! A program that writes a secret, within bounds of time and length.

use std::io::{self, ErrorKind, Read};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sys::brood::Brood;
use zeroize::Zeroizing;

/// A reload waits for it, and the supervisor gives up a step of its reader after 10 s.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long what a program has left behind may hold its output open.
const LEFT_TIME_MAX: Duration = Duration::from_secs(1);

const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// The standard output of a program. After the deadline it is ended with all that it has started;
/// what it has left behind by then, such as an agent, goes on, unless it holds the output open.
pub(crate) fn output_of(words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
    output_within(DEADLINE, words)
}

fn output_within(deadline: Duration, words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
    let (program, arguments) = words.split_first().ok_or(ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let (brood, mut child) = Brood::start(&mut command)?;
    let stdout = child.stdout.take();
    let (read, written) = mpsc::channel();
    thread::spawn(move || read.send(stdout.map_or(Ok(Zeroizing::default()), all_of)));
    let (ended, status) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait()));
    let late = || {
        brood.end();
        io::Error::other(format!("it took longer than {} s", deadline.as_secs()))
    };
    let status = status.recv_timeout(deadline).map_err(|_| late())??;
    let output = written.recv_timeout(LEFT_TIME_MAX).or_else(|_| {
        brood.end();
        written.recv_timeout(LEFT_TIME_MAX)
    });
    let output = output.map_err(|_| io::Error::other("its output is held open by another"))??;
    match output.len() as u64 {
        ..=OUTPUT_BYTES_MAX if status.success() => Ok(output),
        ..=OUTPUT_BYTES_MAX => Err(io::Error::other(format!("it ended with {status}"))),
        _ => Err(io::Error::other("it writes more than 64 KiB")),
    }
}

/// Up to more than is allowed. Closed then, or a program that writes on would never end.
fn all_of(stdout: ChildStdout) -> io::Result<Zeroizing<Vec<u8>>> {
    // All at once: a vector that grows leaves copies of the secret behind.
    let mut output = Zeroizing::new(Vec::with_capacity(OUTPUT_BYTES_MAX as usize + 1));
    stdout.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut output)?;
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str) -> Result<Vec<u8>, String> {
        within(DEADLINE, script)
    }

    fn within(deadline: Duration, script: &str) -> Result<Vec<u8>, String> {
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        output_within(deadline, &words)
            .map(|output| output.to_vec())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn programs_end_well_or_their_fault_is_named() {
        assert_eq!(of("printf secret"), Ok(b"secret".to_vec()));
        assert_eq!(of("printf secret; exit 3"), Err("it ended with exit status: 3".into()));
        assert_eq!(of("exec cat /dev/zero"), Err("it writes more than 64 KiB".into()));
        let missing = output_of(&["/no/such/program".to_owned()]).expect_err("no program");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    /// Runs a script for longer and longer until it has written a pid, which is that of nobody
    /// then.
    fn leaves_nobody(deadline: Duration, script: &str) -> Result<Vec<u8>, String> {
        let directory = testkit::directory::Directory::new();
        let pid = directory.path().join("pid");
        let ended = within(deadline, &script.replace("PID", &pid.display().to_string()));
        let pid = std::fs::read_to_string(&pid).unwrap_or_default();
        if pid.is_empty() {
            assert!(deadline < Duration::from_secs(60), "{ended:?}");
            return leaves_nobody(2 * deadline, script);
        }
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        assert!(state.as_ref().map_or(true, |state| state.contains(") Z ")), "{state:?}");
        ended
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        for child in ["sleep 1000 & echo $! > PID;", "setsid sh -c 'echo $$ > PID; sleep 1000' &"] {
            let ended = leaves_nobody(Duration::from_secs(1), &format!("{child} wait"));
            let said = ended.expect_err("it hangs");
            assert!(said.starts_with("it took longer than "), "{said}");
        }
    }

    #[test]
    fn what_is_left_behind_with_the_output_holds_nobody_up() {
        let script = "setsid sh -c 'echo $$ > PID; exec sleep 1000' & printf secret; \
                      while [ ! -s PID ]; do :; done";
        assert_eq!(leaves_nobody(Duration::from_secs(60), script), Ok(b"secret".to_vec()));
    }
}
