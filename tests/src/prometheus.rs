//! The programs of Prometheus: `promtool`, and the server itself.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::directory::Directory;
use testkit::server::free_address;

use crate::curl::curl;
use crate::patience::until_true;
use crate::program::{Finished, Running};

/// Runs `promtool` with these words and this input, to its end.
pub fn promtool(words: &[&str], input: &str) -> Finished {
    let directory = Directory::new();
    let path = directory.write("input", input);
    let input = std::fs::File::open(path).expect("our own file");
    let mut running = Running::start_with(Command::new("promtool").args(words), Stdio::from(input));
    let status = running.wait();
    Finished { status, stdout: running.stdout(), stderr: running.stderr() }
}

/// A running `prometheus` that asks each second.
#[derive(Debug)]
pub struct Prometheus {
    address: SocketAddr,
    _running: Running,
    _directory: Directory,
}

impl Prometheus {
    /// Starts it with rules, and waits until it has answers from each of these addresses.
    pub fn start(targets: &[SocketAddr], rules: &str) -> Self {
        let (directory, address) = (Directory::new(), free_address());
        directory.write("rules.yml", rules);
        let targets: Vec<_> = targets.iter().map(ToString::to_string).collect();
        let configuration = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
             rule_files: [rules.yml]\n\
             scrape_configs:\n  - job_name: lariat\n    \
             static_configs: [{{ targets: {targets:?} }}]\n"
        );
        let file = directory.write("prometheus.yml", configuration);
        let mut running = Running::start(&mut command(&file, &directory, address));
        running.wait_for_listener(address);
        let prometheus = Self { address, _running: running, _directory: directory };
        let all = format!("count(up == 1) == {}", targets.len());
        until_true("Prometheus to reach all", || !prometheus.query(&all).is_empty());
        prometheus
    }

    /// Returns the series that an expression yields now, with their values.
    pub fn query(&self, expression: &str) -> Vec<Value> {
        let url = format!("http://{}/api/v1/query", self.address);
        let query = format!("query={expression}");
        let answer = curl()
            .url(&url)
            .args(&["--get", "--data-urlencode", &query])
            .args(&["--retry", "3", "--retry-all-errors"])
            .run();
        let answer: Value = serde_json::from_str(&answer.stdout)
            .unwrap_or_else(|_| panic!("{expression}: {answer:?}"));
        let series = answer["data"]["result"].as_array();
        series.expect("a vector").clone()
    }
}

fn command(file: &Path, directory: &Directory, address: SocketAddr) -> Command {
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=warn");
    command
}
