//! The operator's program that puts records into the DNS: runs it with a deadline, and ends it
//! together with all processes that it started.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sys::process::ProgramTree;

/// Bytes kept of a program's output.
const OUTPUT_BYTES_MAX: u64 = 4 << 10;

/// Time that leftover processes of the program may hold its output open.
const OUTPUT_TIME_MAX: Duration = Duration::from_secs(1);

/// A record to put into the DNS or to remove.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Hook {
    pub(crate) program: PathBuf,
    pub(crate) timeout: Duration,
    /// Whether the record is added, else removed.
    pub(crate) presents: bool,
    /// The domain that is validated.
    pub(crate) domain: String,
    /// Name of the TXT record.
    pub(crate) record: String,
    pub(crate) value: String,
}

impl Hook {
    /// Whether both put the same record into the DNS, or take it away.
    pub(crate) fn is_for_record_of(&self, other: &Self) -> bool {
        (&self.record, &self.value) == (&other.record, &other.value)
    }

    /// Runs the program to its end. Returns whether its status was 0, and its output or the reason
    /// why it could not run.
    pub(crate) fn run(&self) -> (bool, String) {
        let ended = self.start().and_then(|started| self.attend(started));
        ended.unwrap_or_else(|error| (false, format!("{}: {error}", self.program.display())))
    }

    fn start(&self) -> io::Result<(ProgramTree, Child, io::PipeReader)> {
        let (reader, writer) = io::pipe()?;
        let action = if self.presents { "present" } else { "cleanup" };
        // A bare name means the working directory, not the search path.
        let mut command = Command::new(Path::new(".").join(&self.program));
        command.args([action, &self.record, &self.value]);
        command.envs([
            ("LARIAT_ACTION", action),
            ("LARIAT_DOMAIN", &self.domain),
            ("LARIAT_RECORD", &self.record),
            ("LARIAT_VALUE", &self.value),
            ("CERTBOT_DOMAIN", &self.domain),
            ("CERTBOT_VALIDATION", &self.value),
        ]);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let (program_tree, child) = ProgramTree::start(&mut command)?;
        Ok((program_tree, child, reader))
    }

    fn attend(
        &self,
        (program_tree, mut child, output): (ProgramTree, Child, io::PipeReader),
    ) -> io::Result<(bool, String)> {
        let (told, written) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = (&output).take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
            let _ = told.send(bytes);
            // A program that writes more must not be ended by that.
            let _ = io::copy(&mut &output, &mut io::sink());
        });
        let (ended, status) = mpsc::channel();
        thread::spawn(move || drop(ended.send(child.wait())));
        let status = status.recv_timeout(self.timeout);
        // All processes started by the program end with it.
        program_tree.end();
        let bytes = written.recv_timeout(OUTPUT_TIME_MAX).unwrap_or_default();
        let output = String::from_utf8_lossy(&bytes).trim().to_owned();
        let end = match status {
            Ok(Ok(status)) if status.success() => return Ok((true, output)),
            Ok(Ok(status)) => format!("ended with {status}"),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let time = options::quantity::show_duration(self.timeout);
                format!("was killed after {time}")
            }
        };
        let said = if output.is_empty() { "it wrote nothing" } else { &output };
        Ok((false, format!("{} {end}: {said}", self.program.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use testkit::directory::Directory;

    fn run(script: &str, timeout: Duration) -> (bool, String) {
        let directory = Directory::new();
        let program = directory.join("hook");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let (domain, record) = ("a.example".to_owned(), "_acme-challenge.a.example".to_owned());
        let value = "v".to_owned();
        Hook { program, timeout, presents: true, domain, record, value }.run()
    }

    #[test]
    fn a_program_ends_well_or_is_said_why_not() {
        let long = Duration::from_secs(60);
        let told = run(r#"echo "$@" $LARIAT_DOMAIN $CERTBOT_VALIDATION"#, long);
        assert_eq!(told, (true, "present _acme-challenge.a.example v a.example v".to_owned()));
        let (is_well, said) = run("echo no zone >&2; exit 3", long);
        assert!(!is_well && said.contains("exit status: 3: no zone"), "{said}");
        let (is_well, said) = run("kill -9 $$", long);
        assert!(!is_well && said.contains("signal: 9"), "{said}");
    }

    #[test]
    fn a_program_that_floods_or_leaves_others_behind_costs_little() {
        let long = Duration::from_secs(60);
        let (is_well, said) = run("head -c 100000000 /dev/zero; exit 4", long);
        assert!(!is_well && said.contains("exit status: 4"), "{}", said.len());
        assert!(said.len() as u64 <= 2 * OUTPUT_BYTES_MAX, "{}", said.len());
        // A process that holds the output open, in a session of its own.
        let directory = Directory::new();
        let pid = directory.join("pid");
        let script = format!(
            "setsid sh -c 'echo $$ > {0}; exec sleep 1000' &\n\
             while [ ! -s {0} ]; do :; done; echo said; exit 5",
            pid.display()
        );
        let (is_well, said) = run(&script, long);
        assert!(!is_well && said.contains("exit status: 5: said"), "{said}");
        is_gone(&pid);
    }

    /// Asserts that the process whose number is in a file has ended.
    fn is_gone(pid: &Path) {
        let pid: u32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        assert!(stat.as_ref().map_or(true, |stat| stat.contains(") Z ")), "{stat:?}");
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_what_it_started() {
        for child in ["sleep 1000 &", "setsid sleep 1000 &"] {
            let directory = Directory::new();
            let pid = directory.join("pid");
            let script = format!("{child} echo $! > {}; wait", pid.display());
            // Retries with longer timeouts until the file is written.
            let mut timeout = Duration::from_millis(250);
            while !pid.exists() {
                timeout *= 2;
                let (is_well, said) = run(&script, timeout);
                assert!(!is_well && said.contains("was killed after"), "{said}");
            }
            is_gone(&pid);
        }
    }
}
