//! A run of `lariat-lab load`, and the record that it leaves.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use testkit::directory::Directory;

use crate::lab;
use crate::program::{Finished, Running};

/// A load, not yet begun.
#[derive(Debug)]
#[must_use]
pub struct Load {
    command: Command,
    directory: Directory,
}

impl Load {
    /// Makes a load of `https://localhost/` at this address, by two clients on one thread: enough
    /// to see each kind of handshake, and few enough to be counted.
    pub fn of(address: SocketAddr) -> Self {
        Self::alone(address).args("--connections 2")
    }

    /// Makes such a load without a way for load to arrive.
    pub fn alone(address: SocketAddr) -> Self {
        let url = format!("https://localhost:{}/", address.port());
        Self::bare().arg(url).args(&format!("--connect {address} --threads 1 --cpus none"))
    }

    /// Makes a load without a URL yet, whose record goes to a file of its own.
    pub fn bare() -> Self {
        Self::by(lab::command())
    }

    /// Makes a load by a command that runs the program with the arguments that it gets.
    pub fn by(mut command: Command) -> Self {
        let directory = Directory::new();
        // The command's own folder: a record without a name would land there.
        command.current_dir(directory.path()).arg("load");
        let record = directory.join("record.json");
        Self { command, directory }.arg("--record").arg(record)
    }

    /// Adds words, separated by blanks.
    pub fn args(mut self, words: &str) -> Self {
        self.command.args(words.split_whitespace());
        self
    }

    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.command.arg(word);
        self
    }

    pub fn run(self) -> Loaded {
        self.start().wait()
    }

    /// Runs the load to its end, which must be a success.
    pub fn record(self) -> Record {
        let loaded = self.run();
        assert_eq!(loaded.finished.code(), 0, "{:?}", loaded.finished);
        loaded.record()
    }

    pub fn start(mut self) -> Loading {
        if !self.command.get_args().any(|word| word == "--timeout") {
            // A busy host is no failure.
            self = self.args("--timeout 30s");
        }
        Loading { running: Running::start(&mut self.command), directory: self.directory }
    }
}

#[derive(Debug)]
pub struct Loading {
    running: Running,
    directory: Directory,
}

impl Loading {
    pub fn stderr(&self) -> String {
        self.running.stderr()
    }

    pub fn assert_running(&mut self) {
        self.running.assert_running();
    }

    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    pub fn wait(mut self) -> Loaded {
        let status = self.running.wait();
        let finished =
            Finished { status, stdout: self.running.stdout(), stderr: self.running.stderr() };
        Loaded { finished, directory: self.directory }
    }
}

#[derive(Debug)]
pub struct Loaded {
    /// Exit status and output.
    pub finished: Finished,
    directory: Directory,
}

impl Loaded {
    pub fn record(&self) -> Record {
        let text = fs::read_to_string(self.path());
        Record::read(&text.unwrap_or_else(|error| panic!("{error}: {:?}", self.finished)))
    }

    /// Returns the path of its record, if it has one.
    pub fn path(&self) -> PathBuf {
        self.directory.join("record.json")
    }

    pub fn folder(&self) -> &Path {
        self.directory.path()
    }
}

#[derive(Clone, Debug)]
pub struct Record(Value);

impl Record {
    /// Reads a record, and audits its books.
    pub fn read(text: &str) -> Self {
        let record = Self(serde_json::from_str(text).expect("a record is JSON"));
        record.audit();
        record
    }

    /// Checks that every transaction is counted once, in each of the record's counts.
    fn audit(&self) {
        let [attempted, succeeded, failed] = self.totals();
        assert_eq!(attempted, succeeded + failed, "{self:?}");
        assert_eq!(failed, self.failures().values().sum::<u64>(), "{self:?}");
        for name in ["attempted", "succeeded", "failed"] {
            let seconds = self.list("/seconds").iter();
            let sum: u64 = seconds.map(|second| number(&second[name])).sum();
            assert_eq!(sum, self.number(&format!("/totals/{name}")), "{name}");
        }
        let latencies = self.0["latencies"].as_object().expect("latencies by kind");
        let measured = latencies.values().map(|kind| count_of(&kind["total"]));
        assert_eq!(measured.sum::<u64>(), succeeded, "{self:?}");
    }

    pub fn totals(&self) -> [u64; 3] {
        ["attempted", "succeeded", "failed"].map(|name| self.number(&format!("/totals/{name}")))
    }

    /// Returns how many transactions failed, by reason.
    pub fn failures(&self) -> BTreeMap<String, u64> {
        let reasons = self.0["failures"].as_object().expect("failures by reason");
        reasons.iter().map(|(name, count)| (name.clone(), number(count))).collect()
    }

    /// Returns the only reason for which all failed.
    pub fn reason(&self) -> String {
        let failures = self.failures();
        assert_eq!(failures.len(), 1, "{failures:?}");
        failures.into_keys().next().expect("there is one")
    }

    /// Returns the number of handshakes of this kind, successful or not.
    pub fn handshakes(&self, kind: &str) -> u64 {
        self.handshakes_with(&[("kind", kind)])
    }

    /// Returns the number of handshakes in whose row each of these fields has this text.
    pub fn handshakes_with(&self, fields: &[(&str, &str)]) -> u64 {
        let rows = self.list("/handshakes").iter();
        let fits = |row: &&Value| fields.iter().all(|(name, text)| row[*name] == **text);
        rows.filter(fits).map(|row| number(&row["count"])).sum()
    }

    /// Returns the numbers of handshakes: full, by session id, by ticket, by PSK.
    pub fn kinds(&self) -> [u64; 4] {
        ["full", "session-id", "ticket", "psk"].map(|kind| self.handshakes(kind))
    }

    /// Returns the only value that a field has in all rows of handshakes; null is `none`.
    pub fn negotiated(&self, field: &str) -> String {
        let rows = self.list("/handshakes").iter();
        let mut values: Vec<_> = rows.map(|row| text_of(&row[field])).collect();
        values.dedup();
        assert_eq!(values.len(), 1, "{field}: {values:?}");
        values.remove(0)
    }

    /// Returns the flags of the command that repeats the run, after its URL. A switch is `true`.
    pub fn flags(&self) -> Vec<(String, String)> {
        let words = self.list("/command").iter().skip(3).map(text_of);
        let mut flags: Vec<(String, String)> = Vec::new();
        for word in words {
            match (word.strip_prefix("--"), flags.last_mut()) {
                (Some(flag), _) => flags.push((flag.to_owned(), "true".to_owned())),
                (None, Some((_, value))) => *value = word,
                (None, None) => panic!("{word} is of no flag"),
            }
        }
        flags
    }

    /// Returns the value of one flag.
    pub fn flag(&self, name: &str) -> String {
        let found = self.flags().into_iter().find(|(flag, _)| flag == name);
        found.unwrap_or_else(|| panic!("no --{name}")).1
    }

    /// Returns the value at a JSON pointer (RFC 6901).
    pub fn at(&self, pointer: &str) -> &Value {
        let value = self.0.pointer(pointer);
        value.unwrap_or_else(|| panic!("no {pointer} in {self:?}"))
    }

    pub fn number(&self, pointer: &str) -> u64 {
        number(self.at(pointer))
    }

    /// Returns the list at a JSON pointer.
    pub fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().expect("a list")
    }

    /// Returns a number of each second.
    pub fn seconds(&self, name: &str) -> Vec<u64> {
        let seconds = self.list("/seconds").iter();
        seconds.map(|second| number(&second[name])).collect()
    }
}

/// Returns how many durations a histogram holds: a list of pairs, the second of which is a count.
fn count_of(histogram: &Value) -> u64 {
    let pairs = histogram.as_array().expect("a histogram is a list");
    pairs.iter().map(|pair| number(&pair[1])).sum()
}

fn number(value: &Value) -> u64 {
    let number = value.as_u64();
    number.unwrap_or_else(|| panic!("a whole number, not {value}"))
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}
