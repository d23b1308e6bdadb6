//! Starting the program again, for a process that takes over.
//!
//! Owns how. When, and what follows, is decided in `succession` and `trial`.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use sys::peer::Process;
use sys::process;
use sys::signal;

use super::Supervisor;
use super::events::Event;
use super::succession::START_TIME_MAX;
use super::takeover_socket::Asked;
use crate::takeover::PREDECESSOR_VARIABLE;

/// Until it has become the program: a file system that does not answer holds that. The loop waits.
const EXECUTE_TIME_MAX: Duration = Duration::from_secs(2);

/// Starts that a file system may hold: each is a thread and a process.
const STARTS_MAX: usize = 4;

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
        let started = self.started_by_thread(command);
        started.map_err(|why| format!("{}: {why}", started_as.program.display()))
    }

    /// In a thread, which then waits for its end.
    fn started_by_thread(&self, mut command: Command) -> Result<u32, String> {
        let place = Arc::clone(&self.succession.starting);
        if Arc::strong_count(&place) > STARTS_MAX + 1 {
            return Err(format!("{STARTS_MAX} before still wait for their file"));
        }
        let start = if self.manager.notifier.is_wanted() {
            start_for_manager
        } else {
            start_child
        };
        let events = self.events.sender();
        // Without room: what has been sent has been heard.
        let (sender, started) = mpsc::sync_channel(0);
        let attend = move || {
            let start = start(&mut command).map_err(|error| error.to_string());
            drop(place);
            match start {
                Ok((pid, end)) if sender.send(Ok(pid)).is_ok() => {
                    events.send(Event::Asked(Asked::Ended(pid, end())));
                }
                // Nobody waits for it any more.
                Ok((pid, end)) => {
                    let _ = signal::kill(pid);
                    end();
                }
                Err(why) => drop(sender.send(Err(why))),
            }
        };
        let thread = thread::Builder::new().name("successor".to_owned());
        thread.spawn(attend).map_err(|error| error.to_string())?;
        started.recv_timeout(EXECUTE_TIME_MAX).unwrap_or_else(|_| {
            let time = EXECUTE_TIME_MAX.as_secs();
            Err(format!("it took more than {time} s to open the file"))
        })
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
