//! The program `lariat-lab`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use rustix::process::Signal;

use crate::binary;
use crate::lariat;
use crate::patience::until;
use crate::program::Running;

/// The program, not yet started; `LARIAT_LAB` names another one than that beside the tests.
pub fn command() -> Command {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    Command::new(BINARY.get_or_init(|| {
        // It looks beside itself for the terminator that it puts under test.
        lariat::command();
        binary::find("LARIAT_LAB", "lariat-lab")
    }))
}

/// A running `lariat-lab origin`; killed on drop.
#[derive(Debug)]
pub struct Origin {
    pub address: SocketAddr,
    running: Running,
}

impl Origin {
    /// Starts it on a free port, one thread.
    pub fn start() -> Self {
        Self::start_with(&["--threads", "1"])
    }

    /// Starts it on a free port with more flags, and waits until it serves.
    pub fn start_with(flags: &[&str]) -> Self {
        Self::start_by(&mut command(), flags)
    }

    /// The same by a command that runs the program with the arguments that it gets.
    pub fn start_by(command: &mut Command, flags: &[&str]) -> Self {
        command.args(["origin", "--listen", "127.0.0.1:0"]);
        let mut running = Running::start(command.args(flags));
        let address = until("the origin to listen", || {
            running.assert_running();
            let said = running.stderr();
            let line = said.lines().find_map(|line| line.strip_prefix("listening on http://"));
            line?.parse().ok()
        });
        Self { address, running }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn id(&self) -> u32 {
        self.running.id()
    }

    pub fn stderr(&self) -> String {
        self.running.stderr()
    }

    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        self.running.signal(signal);
        self.running.wait()
    }
}
