//! A program that writes a secret, within bounds of time and length.

use std::io::{self, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use zeroize::Zeroizing;

/// A reload waits for it, and the supervisor gives up a step of its reader after 10 s.
const DEADLINE: Duration = Duration::from_secs(5);

const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// The standard output of a program, which founds a group of processes: after the deadline all of
/// them are ended.
pub(crate) fn output_of(words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
    output_within(DEADLINE, words)
}

fn output_within(deadline: Duration, words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
    let (program, arguments) = words.split_first().ok_or(ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.spawn()?;
    let founder = child.id();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(end_of(child)));
    receiver.recv_timeout(deadline).unwrap_or_else(|_| {
        sys::signal::kill_group(founder)?;
        Err(io::Error::other(format!("it took longer than {} s", deadline.as_secs())))
    })
}

fn end_of(mut child: Child) -> io::Result<Zeroizing<Vec<u8>>> {
    // All at once: a vector that grows leaves copies of the secret behind.
    let mut output = Zeroizing::new(Vec::with_capacity(OUTPUT_BYTES_MAX as usize + 1));
    let stdout = child.stdout.take();
    // Closed before the wait, or a program that writes on would never end.
    stdout.map_or(Ok(0), |out| out.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut output))?;
    let status = child.wait()?;
    match output.len() as u64 {
        ..=OUTPUT_BYTES_MAX if status.success() => Ok(output),
        ..=OUTPUT_BYTES_MAX => Err(io::Error::other(format!("it ended with {status}"))),
        _ => Err(io::Error::other("it writes more than 64 KiB")),
    }
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

    /// The child of a child too.
    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let directory = testkit::directory::Directory::new();
        let pid = directory.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        let ended = within(Duration::from_secs(2), &script);
        assert_eq!(ended, Err("it took longer than 2 s".into()));
        let pid = std::fs::read_to_string(&pid).expect("a child");
        let is_over = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            state.map_or(true, |state| state.contains(") Z "))
        };
        while !is_over() {
            thread::yield_now();
        }
    }
}
