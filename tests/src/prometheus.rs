//! The programs of Prometheus: `promtool`, and the server itself.

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::directory::Directory;

use crate::program::{Finished, Running};

/// `promtool` with these words and this input, to its end.
pub fn promtool(words: &[&str], input: &str) -> Finished {
    let directory = Directory::new();
    let path = directory.write("input", input);
    promtool_at(words, &path)
}

fn promtool_at(words: &[&str], input: &Path) -> Finished {
    let input = std::fs::File::open(input).expect("our own file");
    let mut command = Command::new("promtool");
    let mut running = Running::start_with(command.args(words), Stdio::from(input));
    let status = running.wait();
    Finished {
        status,
        stdout: running.stdout(),
        stderr: running.stderr(),
    }
}
