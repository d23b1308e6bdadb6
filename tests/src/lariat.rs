//! The program under test.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::directory::Directory;
use testkit::server::free_address;

use crate::binary;
use crate::curl::curl;
use crate::metrics::Metrics;
use crate::patience::{PATIENCE, until, until_true};
use crate::process::has_ended;
use crate::program::{Finished, Running, assert_has, process_id, run, with_file};

/// A running `lariat serve`; killed on drop.
#[derive(Debug)]
#[must_use]
pub struct Lariat {
    running: Running,
    directory: Directory,
    admin: SocketAddr,
}

impl Lariat {
    /// Starts Lariat with this configuration (services, and tables other than `admin` and `log`)
    /// and waits until it serves.
    pub fn start(configuration: &str) -> Self {
        Self::start_by(command(), configuration)
    }

    /// Starts Lariat with at most this number of descriptors.
    pub fn start_within(descriptors: u32, configuration: &str) -> Self {
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--nofile={descriptors}:{descriptors}")).arg(command().get_program());
        Self::start_by(limited, configuration)
    }

    /// Starts Lariat by a command that runs the program with the arguments that it gets, with pipes
    /// that the caller reads.
    pub fn start_piped(command: Command, configuration: &str) -> (Self, ChildStdout, ChildStderr) {
        let mut pipes = None;
        let lariat = Self::start_as(command, configuration, |command| {
            let (running, stdout, stderr) = Running::start_piped(command);
            pipes = Some((stdout, stderr));
            running
        });
        let (stdout, stderr) = pipes.expect("it was started");
        (lariat, stdout, stderr)
    }

    /// Starts Lariat with its standard error going to the file at this path.
    pub fn start_with_stderr(path: &Path, configuration: &str) -> Self {
        let mut redirected = Command::new("sh");
        redirected
            .args(["-c", "exec \"$0\" \"$@\" 2>\"$STDERR\""])
            .arg(command().get_program())
            .env("STDERR", path);
        Self::start_by(redirected, configuration)
    }

    /// Starts Lariat with the file at this path in the place of a file of the host, for Lariat
    /// only. Only root may.
    pub fn start_with_file(path: &Path, place: &str, configuration: &str) -> Self {
        let mounted = with_file(command().get_program(), path, place);
        Self::start_by(mounted, configuration)
    }

    /// Starts Lariat by a command that runs the program with the arguments that it gets.
    pub fn start_by(command: Command, configuration: &str) -> Self {
        Self::start_as(command, configuration, Running::start)
    }

    fn start_as(
        mut command: Command,
        configuration: &str,
        start: impl FnOnce(&mut Command) -> Running,
    ) -> Self {
        let directory = Directory::new();
        let admin = free_address();
        write_configuration(&directory, admin, configuration);
        command.arg("serve").arg(directory.join("lariat.toml"));
        let running = start(&mut command);
        let mut lariat = Self { running, directory, admin };
        until("lariat to serve", || {
            lariat.running.assert_running();
            lariat.try_status()
        });
        lariat
    }

    /// Runs `lariat upgrade`: the same process, with another worker process. Returns the former
    /// worker process, which drains.
    pub fn upgrade(&self) -> Draining {
        let (supervisor, before) = (self.supervisor(), self.worker_process());
        let said = self.ask("upgrade").success();
        assert_has(&said, &format!("process {},", supervisor.as_raw_nonzero()));
        assert_ne!(self.worker_process(), before);
        Draining(before)
    }

    /// Returns the supervisor that the status names.
    pub fn serving(&self) -> Pid {
        let status = self.status();
        let pid = status["process"]["supervisor_pid"].as_u64();
        process_id(pid.and_then(|pid| pid.try_into().ok()).expect("a number"))
    }

    /// Writes another configuration; `reload` makes it the running one.
    pub fn configure(&self, configuration: &str) {
        write_configuration(&self.directory, self.admin, configuration);
    }

    /// Runs `lariat reload` to its end.
    pub fn reload(&self) -> Finished {
        self.ask("reload")
    }

    /// Reloads another configuration, which has to be refused.
    pub fn reload_refused(&self, configuration: &str) -> Finished {
        self.configure(configuration);
        let refused = self.reload();
        assert_eq!(refused.code(), 5, "{refused:?}");
        refused
    }

    /// Makes another configuration the running one.
    pub fn reload_with(&self, configuration: &str) {
        self.configure(configuration);
        self.reload().success();
    }

    /// Runs `lariat status`, `reload` or `drain` to its end.
    pub fn ask(&self, what: &str) -> Finished {
        self.ask_with(what, &[])
    }

    /// Runs such a command with more arguments.
    pub fn ask_with(&self, what: &str, arguments: &[&str]) -> Finished {
        let mut command = command();
        run(command.arg(what).arg("--status-socket").arg(self.status_socket()).args(arguments))
    }

    pub fn status_socket(&self) -> PathBuf {
        self.directory.join("status.sock")
    }

    pub fn configuration(&self) -> PathBuf {
        self.directory.join("lariat.toml")
    }

    pub fn status(&self) -> Value {
        until("the status document", || self.try_status())
    }

    fn try_status(&self) -> Option<Value> {
        try_status(&self.status_socket())
    }

    /// Returns the address of the status page and the metrics.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Returns the answer to a load balancer's readiness check, with its status code behind it.
    pub fn readiness(&self) -> String {
        let url = format!("http://{}/ready", self.admin);
        curl().args(&["--no-fail", "--write-out", "%{http_code}"]).url(&url).run().stdout
    }

    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&curl().url(&format!("http://{}/metrics", self.admin)).run().success())
    }

    /// Returns the name of the ticket key that encrypts, in hexadecimal.
    pub fn ticket_key(&self) -> String {
        let page = curl().url(&format!("http://{}/metrics", self.admin)).run().success();
        let mut lines = page.lines().filter(|line| line.starts_with("lariat_ticket_key_age"));
        let line = lines.find(|line| line.contains("encrypt")).expect("a key that encrypts");
        line.split('"').nth(1).expect("its name").to_owned()
    }

    /// Returns a metric, summed over the series with these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.metrics().sum(name, labels)
    }

    /// Waits until a metric, summed over the series with these labels, has this value.
    pub fn wait_for_metric(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        until_true(&format!("{name}{labels:?} to be {value}"), || {
            let now = self.sum(name, labels);
            (now - value).abs() < f64::EPSILON
        });
    }

    /// Waits until a metric, summed over the series with these labels, has at least this value.
    pub fn wait_for_metric_from(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        until_true(&format!("{name}{labels:?} to reach {value}"), || {
            self.sum(name, labels) >= value
        });
    }

    /// Waits until this many connections have ended for this reason.
    pub fn wait_for_reason(&self, reason: &str, count: u32) {
        let labels = [("reason", reason)];
        self.wait_for_metric("lariat_connections_ended_total", &labels, f64::from(count));
    }

    /// Returns the lines about connections so far: the standard output.
    pub fn log(&self) -> String {
        self.running.stdout()
    }

    /// Waits for a line about a connection that contains all these words, and returns it as JSON.
    pub fn wait_for_line(&self, words: &[&str]) -> Value {
        until(&format!("a line with {words:?}"), || {
            let log = self.log();
            let line = log.lines().find(|line| words.iter().all(|word| line.contains(word)))?;
            serde_json::from_str(line).ok()
        })
    }

    pub fn stderr(&self) -> String {
        self.running.stderr()
    }

    pub fn wait_for_stderr(&self, words: &str) {
        self.running.wait_for_stderr(words);
    }

    pub fn wait_for_stderr_times(&self, words: &str, times: usize) -> String {
        self.running.wait_for_stderr_times(words, times)
    }

    pub fn supervisor(&self) -> Pid {
        process_id(self.running.id())
    }

    pub fn worker_process(&self) -> Pid {
        self.process("lariat: worker")
    }

    /// Kills the worker process, as a crash would.
    pub fn kill_worker_process(&self) {
        kill_process(self.worker_process(), Signal::KILL).expect("it runs");
    }

    /// Kills the worker process, and waits for the next one.
    pub fn replace_worker_process(&self) {
        let before = self.worker_process();
        self.kill_worker_process();
        until_true("another worker process", || self.worker_process() != before);
    }

    /// Returns the id of the supervisor's child that `ps` shows by this name.
    pub fn process(&self, name: &str) -> Pid {
        let threads = format!("/proc/{}/task", self.running.id());
        until(name, || {
            let children = fs::read_dir(&threads).ok()?.flatten();
            let children =
                children.map(|thread| fs::read_to_string(thread.path().join("children")));
            let children: Vec<_> = children.map(Result::unwrap_or_default).collect();
            let is_it = |child: &&str| {
                let line = fs::read_to_string(format!("/proc/{child}/cmdline"));
                line.is_ok_and(|line| line.starts_with(name))
            };
            // The former of two worker processes drains.
            let mut children = children.iter().flat_map(|some| some.split_whitespace());
            children.rfind(is_it)?.parse().ok().map(process_id)
        })
    }

    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.running.ended()
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.running.wait()
    }

    /// Ends Lariat by SIGTERM, in order.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        self.assert_ends();
    }

    /// Ends Lariat by `lariat drain`, in order.
    pub fn drain(&mut self) {
        self.ask("drain").success();
        self.assert_ends();
    }

    /// Waits for an end in order.
    pub fn assert_ends(&mut self) {
        assert_eq!(self.wait().code(), Some(0), "{}", self.stderr());
    }
}

/// A worker process that drains after an upgrade.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draining(pub Pid);

impl Draining {
    pub fn wait(self) {
        until_true("the worker process before to end", || has_ended(self.0));
    }

    pub fn assert_running(self) {
        assert!(!has_ended(self.0));
    }
}

/// Reads the status document from the socket at a path; `None` if none comes in half a minute.
pub fn try_status(socket: &Path) -> Option<Value> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write_configuration(directory: &Directory, admin: SocketAddr, configuration: &str) {
    let status = directory.join("status.sock");
    // The only top-level key that is used here stands before all tables.
    let is_include = |line: &&str| line.starts_with("include = ");
    let include = configuration.lines().find(is_include).unwrap_or_default();
    let configuration = configuration.replacen(include, "", 1);
    let text = format!(
        "{include}\n[admin]\nlisten = \"{admin}\"\nstatus-socket = {status:?}\n\
         [log]\nformat = \"json\"\nsuccesses-per-second = 1000000\n{configuration}"
    );
    directory.write("lariat.toml", text);
}

/// Returns a `PATH` in which a shell finds the program of a command before all others of its name.
pub fn path_to(program: &Command) -> OsString {
    let folder = Path::new(program.get_program()).parent();
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let usual = std::env::split_paths(&usual);
    let folders = folder.into_iter().map(Path::to_owned).chain(usual);
    std::env::join_paths(folders).expect("no folder's name has a colon")
}

/// Runs `lariat check` of this configuration.
pub fn check(configuration: &str) -> Finished {
    let directory = Directory::new();
    let file = directory.write("lariat.toml", configuration);
    run(command().arg("check").arg(file))
}

/// Returns the program, not yet started; `LARIAT` may name another than that beside the tests.
pub fn command() -> Command {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    Command::new(BINARY.get_or_init(|| binary::find("LARIAT", "lariat")))
}
