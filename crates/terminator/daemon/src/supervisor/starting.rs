//! Starting the program again, for a process that takes over.
//!
//! Owns how. When, and what follows, is decided in `succession` and `trial`.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use sys::peer::Process;
use sys::process;

use super::Supervisor;
use super::events::Event;
use super::succession::START_TIME_MAX;
use super::takeover_socket::Asked;
use crate::takeover::PREDECESSOR_VARIABLE;

/// Whether systemd has started this process, and takes its end for the service's end: a unit of
/// `Type=notify` can be told of another process (sd_notify(3)).
fn ends_with_first_process() -> bool {
    let first = std::env::var("SYSTEMD_EXEC_PID").ok();
    let own = std::process::id().to_string();
    first == Some(own) && std::env::var_os("NOTIFY_SOCKET").is_none()
}

impl Supervisor<'_> {
    /// From its file, or from another one.
    pub(super) fn start_successor(&self, program: Option<&Path>) -> Result<u32, String> {
        if ends_with_first_process() {
            return Err(
                "systemd would end it together with this one\nhint: the unit needs Type=notify"
                    .to_owned(),
            );
        }
        let Some(started_as) = &self.succession.program else {
            return Err("it is not known how this one was started".to_owned());
        };
        let mut command = Command::new(program.unwrap_or(&started_as.program));
        command
            .arg0(&started_as.program)
            .args(&started_as.arguments)
            .env(PREDECESSOR_VARIABLE, &started_as.socket)
            // The service manager's watchdog is for the process that serves.
            .env_remove("WATCHDOG_PID");
        let (pid, end) = if self.manager.notifier.is_wanted() {
            start_for_manager(&mut command)
        } else {
            start_child(&mut command)
        }
        .map_err(|error| format!("{}: {error}", started_as.program.display()))?;
        let sender = self.events.sender();
        let wait = move || sender.send(Event::Asked(Asked::Ended(pid, end())));
        let thread = thread::Builder::new().name("successor".to_owned());
        thread.spawn(wait).map_err(|error| error.to_string())?;
        Ok(pid)
    }
}

/// Waits for a process's end: how it ended.
type End = Box<dyn FnOnce() -> String + Send>;

fn start_child(command: &mut Command) -> io::Result<(u32, End)> {
    let mut child = command.spawn()?;
    let pid = child.id();
    let end = move || match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    Ok((pid, Box::new(end)))
}

/// As a child of the service manager: on `systemctl restart`, systemd waits for the drain of its
/// own child only, and kills another's at once.
fn start_for_manager(command: &mut Command) -> io::Result<(u32, End)> {
    let pid = process::start_orphan(command)?;
    let started = Process::of(pid);
    let end = move || {
        if let Ok(started) = started {
            while let Ok(false) = started.has_ended_within(START_TIME_MAX) {}
        }
        "the service manager may say how".to_owned()
    };
    Ok((pid, Box::new(end)))
}
