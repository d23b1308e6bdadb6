//! A command of a target about its running server: to reload it, to lose a node of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::failure::Failure;
use crate::process::child::{Child, ChildFault, first_lines};

/// Between two looks at whether it has ended.
const PAUSE: Duration = Duration::from_millis(1);

/// The command, not yet run.
#[derive(Debug)]
pub(crate) struct Command {
    name: &'static str,
    words: Vec<OsString>,
    /// Those of the client: what is measured must not be disturbed.
    cpus: Vec<u16>,
    folder: PathBuf,
}

/// What happens to a server under load, once.
#[derive(Debug)]
pub(crate) struct Event {
    /// When, from the end of the warm-up.
    pub(crate) at: Duration,
    pub(crate) command: Command,
}

impl Command {
    /// That of these words, in which `{{program}}` and `{{folder}}` are replaced.
    pub(super) fn new(
        name: &'static str,
        words: &[String],
        program: &Path,
        folder: &Path,
        cpus: &[u16],
    ) -> Self {
        let (path, own) = (program.to_string_lossy(), folder.to_string_lossy());
        let words = words.iter().map(|word| {
            let word = word.replace("{{program}}", &path);
            word.replace("{{folder}}", &own).into()
        });
        Self {
            name,
            words: words.collect(),
            cpus: cpus.to_owned(),
            folder: folder.to_owned(),
        }
    }

    pub(super) fn start(&self) -> Result<Child, ChildFault> {
        let output = self.folder.join(format!("{}.output", self.name));
        Child::start(&self.words, &self.cpus, &self.folder, &output)
    }

    /// Judges it by how it ended.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn judge(&self, child: &mut Child) -> Result<(), Failure> {
        if child.ended().is_some_and(|how| how.ends_with(" 0")) {
            return Ok(());
        }
        let said = first_lines(&child.output());
        let name = self.name;
        Err(Failure::Failed(format!(
            "the command `{name}` failed: {said}"
        )))
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut child = self.start()?;
        while child.ended().is_none() {
            thread::sleep(PAUSE);
        }
        self.judge(&mut child)
    }
}
