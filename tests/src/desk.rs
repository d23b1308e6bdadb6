//! A folder for a run of the laboratory, with a small question in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use testkit::directory::Directory;

use crate::lab;
use crate::program::{Finished, run};

/// A question that is soon answered: two targets, two sizes.
pub const SMALL: &str = r#"
question = "Does it run?"
method = "One request a connection."
operation = "requests"
metrics = ["server-cpu", "rate"]
targets = ["plain", "lariat"]
[quick]
repeats = 2
warm-up = "50ms"
duration = "150ms"
[full]
repeats = 3
warm-up = "50ms"
duration = "150ms"
[server]
versions = ["1.3"]
[load]
connections = 2
timeout = "30s"
[expect]
kinds = ["full"]
version = "TLSv1.3"
[[factor]]
name = "size"
title = "size"
[[factor.value]]
name = "none"
title = "nothing"
number = 0
load = { size = "0" }
[[factor.value]]
name = "some"
title = "1 KiB"
number = 1024
load = { size = "1k" }
"#;

/// A folder of its own with `small.toml`, from which runs are started.
#[derive(Debug)]
pub struct Desk {
    pub directory: Directory,
}

impl Desk {
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        Self::with(SMALL)
    }

    pub fn with(scenario: &str) -> Self {
        let directory = Directory::new();
        fs::write(directory.join("small.toml"), scenario).expect("the scenario is written");
        fs::create_dir(directory.join("tmp")).expect("a folder is made");
        Self { directory }
    }

    /// Returns `lariat-lab run`, not yet started.
    pub fn command(&self, words: &str) -> Command {
        self.by(lab::command(), words)
    }

    /// Completes a prepared command likewise.
    pub fn by(&self, mut command: Command, words: &str) -> Command {
        command.current_dir(self.directory.path());
        command.env("TMPDIR", self.directory.join("tmp"));
        command.arg("run").args(words.split_whitespace());
        command
    }

    /// Runs the laboratory, and checks that it leaves no folder behind.
    pub fn run(&self, words: &str) -> Finished {
        let finished = run(&mut self.command(words));
        let left = fs::read_dir(self.directory.join("tmp")).expect("the folder is there").count();
        assert_eq!(left, 0, "folders are left behind: {finished:?}");
        finished
    }

    /// Runs the small question, with the record `r.jsonl`.
    pub fn small(&self, words: &str) -> Finished {
        self.run(&format!("./small.toml --speeds none --record r.jsonl {words}"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the record, as far as it is written.
    pub fn text(&self) -> String {
        fs::read_to_string(self.path("r.jsonl")).unwrap_or_default()
    }

    /// Returns the whole lines of the record.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines();
        lines.map(|line| serde_json::from_str(line).expect("a line is an event")).collect()
    }

    pub fn of_kind(&self, kind: &str) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["event"] == kind);
        events
    }
}

/// Returns the configurations and repeats of measurements.
pub fn measurements(events: &[Value]) -> BTreeSet<(String, u64)> {
    let key = |event: &Value| {
        let configuration = event["configuration"].as_str();
        let repeat = event["repeat"].as_u64().expect("it has a repeat");
        let configuration = configuration.expect("it has a configuration");
        (configuration.to_owned(), repeat)
    };
    events.iter().map(key).collect()
}

pub fn assert_said(finished: &Finished, words: &[&str]) {
    for word in words {
        assert!(finished.stderr.contains(word), "{word}: {finished:?}");
    }
}
