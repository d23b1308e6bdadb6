//! The program `lariat-lab`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use rustix::process::Signal;
use testkit::directory::Directory;

use crate::binary;
use crate::lariat;
use crate::patience::until;
use crate::program::{Finished, Running, run};

/// Returns the program, not yet started; `LARIAT_LAB` may name another than that beside the tests.
pub fn command() -> Command {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    Command::new(BINARY.get_or_init(|| {
        // The laboratory looks beside itself for the terminator that it puts under test.
        lariat::command();
        binary::find("LARIAT_LAB", "lariat-lab")
    }))
}

/// A folder of its own in which the program runs.
#[derive(Debug)]
pub struct Folder(pub Directory);

impl Folder {
    /// Makes a folder with these files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let folder = Self(Directory::new());
        files.iter().for_each(|(name, text)| drop(folder.0.write(name, text)));
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns the names in a folder beneath it, sorted.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).expect("it is there");
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = entries.flatten().map(name).collect();
        names.sort();
        names
    }

    /// Returns the program with these words, not yet started.
    pub fn command(&self, words: &str) -> Command {
        let mut command = command();
        command.current_dir(self.0.path()).args(words.split_whitespace());
        command
    }

    pub fn run(&self, words: &str) -> Finished {
        run(&mut self.command(words))
    }
}

/// A running `lariat-lab origin`; killed on drop.
#[derive(Debug)]
pub struct Origin {
    pub address: SocketAddr,
    running: Running,
}

impl Origin {
    /// Starts an origin on a free port, with one thread.
    pub fn start() -> Self {
        Self::start_with(&["--threads", "1"])
    }

    /// Starts an origin on a free port with more flags, and waits until it serves.
    pub fn start_with(flags: &[&str]) -> Self {
        Self::start_by(&mut command(), flags)
    }

    /// Starts an origin by a command that runs the program with the arguments that it gets.
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
