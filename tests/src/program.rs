//! Other programs: run to their end, or kept beside a test.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testkit::directory::Directory;

use crate::patience::{until, until_true};

#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by a signal: {self:?}"))
    }

    /// Panics unless the standard output contains this.
    #[track_caller]
    pub fn assert_stdout(&self, words: &str) {
        assert!(self.stdout.contains(words), "no {words:?}: {self:?}");
    }

    /// Panics unless the standard error contains this.
    #[track_caller]
    pub fn assert_stderr(&self, words: &str) {
        assert!(self.stderr.contains(words), "no {words:?}: {self:?}");
    }

    /// Panics unless it ended with this code and its standard error has all these words.
    #[track_caller]
    pub fn assert_fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code(), code, "{self:?}");
        words.iter().for_each(|one| self.assert_stderr(one));
    }

    /// Returns the standard output of a program that has ended with one of these codes.
    #[track_caller]
    pub fn ended(self, codes: &[i32]) -> String {
        assert!(codes.contains(&self.code()), "{self:?}");
        self.stdout
    }

    pub fn success(self) -> String {
        assert!(self.status.success(), "{self:?}");
        self.stdout
    }
}

/// Panics unless a text contains these words.
#[track_caller]
pub fn assert_has(text: impl AsRef<str>, words: &str) {
    let text = text.as_ref();
    assert!(text.contains(words), "no {words:?}: {text}");
}

/// Runs a program to its end, without input.
pub fn run(command: &mut Command) -> Finished {
    let mut running = Running::start(command);
    let status = running.wait();
    Finished { status, stdout: running.stdout(), stderr: running.stderr() }
}

/// Makes a program see a file of the test in the place of one of the system's; only root may.
pub fn with_file(program: &OsStr, file: &Path, place: &str) -> Command {
    let mut mounted = Command::new("unshare");
    mounted
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg("mount --bind \"$FILE\" \"$PLACE\" && exec \"$0\" \"$@\"")
        .arg(program)
        .env("FILE", file)
        .env("PLACE", place);
    mounted
}

/// Returns the id of a process as system calls take it.
pub fn process_id(number: u32) -> Pid {
    let number = number.try_into().expect("process ids are small");
    Pid::from_raw(number).expect("process ids are not zero")
}

/// Longest standard output of a program, in bytes, that is shown when a test fails.
const SAID_MAX: usize = 1 << 20;

/// A program that runs beside a test and is killed at its end.
#[derive(Debug)]
pub struct Running {
    child: Child,
    directory: Directory,
    name: String,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    pub fn start_with(command: &mut Command, input: Stdio) -> Self {
        // Files, not pipes: a program never waits for us to read.
        Self::spawn(command, input, Stdio::from)
    }

    /// Starts a program with pipes, which the caller reads or leaves full.
    pub fn start_piped(command: &mut Command) -> (Self, ChildStdout, ChildStderr) {
        let mut running = Self::spawn(command, Stdio::null(), |_| Stdio::piped());
        let stdout = running.child.stdout.take().expect("it is a pipe");
        let stderr = running.child.stderr.take().expect("it is a pipe");
        (running, stdout, stderr)
    }

    fn spawn(command: &mut Command, input: Stdio, output: impl Fn(File) -> Stdio) -> Self {
        let directory = Directory::new();
        let name = command.get_program().to_string_lossy().into_owned();
        let file = |name: &str| File::create(directory.join(name)).expect("our own directory");
        let child = command
            .stdin(input)
            .stdout(output(file("stdout")))
            .stderr(output(file("stderr")))
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}; ./run-tests installs what is needed"));
        Self { child, directory, name }
    }

    /// Waits until connections to `address` are accepted.
    pub fn wait_for_listener(&mut self, address: SocketAddr) {
        let name = self.name.clone();
        until(&format!("{name} to listen on {address}"), || {
            self.assert_running();
            TcpStream::connect(address).ok()
        });
    }

    pub fn wait(&mut self) -> ExitStatus {
        let name = format!("{} to end", self.name);
        until(&name, || self.ended())
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our own child")
    }

    pub fn assert_running(&mut self) {
        if let Some(status) = self.ended() {
            panic!("{} ended: {status}\n{}{}", self.name, self.stdout(), self.stderr());
        }
    }

    /// Takes the writing end of its input, once; `None` if it has no pipe.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        assert!(self.try_signal(signal), "{} runs", self.name);
    }

    /// Sends a signal; returns whether the program runs.
    pub fn try_signal(&self, signal: Signal) -> bool {
        kill_process(process_id(self.id()), signal).is_ok()
    }

    pub fn stdout(&self) -> String {
        self.read("stdout")
    }

    /// Returns the standard output, which need not be text.
    pub fn stdout_bytes(&self) -> Vec<u8> {
        fs::read(self.file("stdout")).expect("our own file")
    }

    /// Returns how many bytes that is.
    pub fn stdout_length(&self) -> usize {
        let facts = fs::metadata(self.file("stdout")).expect("our own file");
        usize::try_from(facts.len()).expect("it fits the memory")
    }

    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    /// Waits for these words, because programs write their messages in the background.
    pub fn wait_for_stderr(&self, words: &str) {
        until_true(&format!("{words:?} of {}", self.name), || self.stderr().contains(words));
    }

    /// Waits until the standard error has these words this many times, and returns it.
    pub fn wait_for_stderr_times(&self, words: &str, times: usize) -> String {
        until(&format!("{words:?} of {}, {times} times", self.name), || {
            let said = self.stderr();
            (said.matches(words).count() == times).then_some(said)
        })
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.file(name)).expect("our own file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
        if std::thread::panicking() {
            let said = self.stdout();
            // A long output is fetched data rather than messages.
            let said = if said.len() > SAID_MAX { "" } else { &said };
            eprintln!("--- {}\n{said}{}", self.name, self.stderr());
        }
    }
}
