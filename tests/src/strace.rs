//! The program `strace`: counts the system calls of a process by kind.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal};
use testkit::directory::Directory;

use crate::patience::until_true;
use crate::program::Running;

/// Counts the calls of a process and of its threads while it exists.
#[derive(Debug)]
pub struct Strace {
    running: Running,
    directory: Directory,
}

impl Strace {
    pub fn attach(process: Pid) -> Self {
        Self::attach_with(process, &["-c", "-U", "calls,name"])
    }

    /// Attaches, and stops each process that the traced one starts, once it runs its program.
    pub fn stopping_those_it_starts(process: Pid) -> Self {
        Self::attach_with(process, &["-e", "inject=execve:signal=SIGSTOP"])
    }

    fn attach_with(process: Pid, arguments: &[&str]) -> Self {
        let directory = Directory::new();
        let mut command = Command::new("strace");
        command
            .arg("-f")
            .args(arguments)
            .arg("-o")
            .arg(directory.join("calls"))
            .args(["-p", &process.as_raw_nonzero().to_string()]);
        let mut running = Running::start(&mut command);
        until_true("strace to attach", || {
            running.assert_running();
            running.stderr().contains("attached")
        });
        Self { running, directory }
    }

    /// Returns the calls since then, by name.
    pub fn end(mut self) -> BTreeMap<String, u64> {
        self.running.signal(Signal::INT);
        self.running.wait();
        let table = fs::read_to_string(self.directory.join("calls")).expect("strace wrote it");
        let row = |line: &str| {
            let (count, name) = line.trim().split_once(' ')?;
            Some((name.trim().to_owned(), count.parse().ok()?))
        };
        let calls: BTreeMap<_, _> = table.lines().filter_map(row).collect();
        let total = calls.iter().filter(|(name, _)| *name != "total");
        let total: u64 = total.map(|(_, count)| count).sum();
        assert_eq!(calls.get("total"), Some(&total), "not understood: {table}");
        calls
    }
}
