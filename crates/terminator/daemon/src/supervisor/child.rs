//! A process without rights: starting it, speaking to it, hearing from it, ending it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use sys::channel::{self, Channel};
use sys::file::to_write_only;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::handover::{Secret, decode, encode};
use crate::messages;

/// The worker process takes its orders within milliseconds, and a plan of 10,000 certificates
/// within a second. One that has not taken one for this long is stuck, and its successor is better.
/// No signal is answered meanwhile.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);

/// A process that was killed is gone as soon as its memory is unmapped. One that is still there
/// after this time is held by a call that no signal breaks off, such as one to a FUSE file system
/// that does not answer; it runs no instruction of ours any more.
const REAP_TIME_MAX: Duration = Duration::from_secs(2);

/// What of the environment is handed on: the last two are the C library's resolver's.
const VARIABLES: [&str; 3] = ["RUST_BACKTRACE", "LOCALDOMAIN", "RES_OPTIONS"];

/// What this program, started again, is to be.
pub(super) struct Program {
    pub(super) argument: &'static str,
    pub(super) name: &'static str,
    /// More in one message is no answer, and the process is taken for broken.
    pub(super) answer_bytes_max: usize,
}

/// A running process. It is killed and reaped when this is dropped.
pub(super) struct Child {
    number: u64,
    /// `None` once it is being reaped.
    process: Option<std::process::Child>,
    pid: u32,
    channel: Arc<Channel>,
}

/// What the thread that listens to a process heard.
pub(super) enum Heard<A> {
    Answer(A),
    /// The process has closed its end: it has died or is about to.
    End,
}

impl Child {
    /// Starts this program again. `hear` is called from a thread.
    pub(super) fn start<A: DeserializeOwned>(
        number: u64,
        program: &Program,
        mut hear: impl FnMut(Heard<A>) + Send + 'static,
    ) -> io::Result<Self> {
        let (channel, theirs) = channel::pair()?;
        let channel = channel.with_send_timeout(SEND_TIME_MAX);
        // The very file that this process was started from, even if another has its name by now.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(program.name)
            .arg(program.argument)
            .env_clear()
            .stdin(Stdio::from(theirs))
            // It may be the log, which is handed to the worker process alone.
            .stdout(Stdio::null())
            .stderr(Stdio::from(to_write_only(io::stderr().as_fd())?));
        let variables = VARIABLES.iter();
        command.envs(variables.filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs([messages::form_variable()]);
        let process = command.spawn()?;
        let child = Self {
            number,
            pid: process.id(),
            process: Some(process),
            channel: Arc::new(channel),
        };
        let (channel, bytes_max) = (Arc::clone(&child.channel), program.answer_bytes_max);
        let listen = move || listen(&channel, bytes_max, &mut hear);
        thread::Builder::new()
            .name("answers".to_owned())
            .spawn(listen)?;
        Ok(child)
    }

    /// Tells one process from its predecessors.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn send(&self, order: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = encode(order).map_err(io::Error::other)?;
        self.channel.send(bytes.bytes(), fds)
    }

    /// Says something that is followed by a bundle.
    pub(super) fn send_with(
        &self,
        order: &impl Serialize,
        fds: &[BorrowedFd<'_>],
        bundle: &Secret,
    ) -> io::Result<()> {
        self.send(order, fds)?;
        self.channel.send(bundle.bytes(), &[])
    }

    /// Kills it; what it said before is still heard, and then its end.
    pub(super) fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            // It fails only for one that has ended.
            let _ = process.kill();
        }
    }

    /// Ends it at once, if it has not ended, and says how it did; `None` = it has been killed, and
    /// the kernel is not done with it.
    pub(super) fn end(mut self) -> Option<ExitStatus> {
        self.kill();
        reap(self.process.take()?)
    }
}

/// Waits in a thread of its own, which is left behind with a process that does not go.
fn reap(mut process: std::process::Child) -> Option<ExitStatus> {
    let (sender, status) = mpsc::channel();
    let wait = move || drop(sender.send(process.wait()));
    thread::Builder::new().spawn(wait).ok()?;
    status.recv_timeout(REAP_TIME_MAX).ok()?.ok()
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        self.process.take().map(reap);
    }
}

/// A process that says nonsense is as good as dead: what it does next cannot be known.
fn listen<A: DeserializeOwned>(
    channel: &Channel,
    bytes_max: usize,
    hear: &mut impl FnMut(Heard<A>),
) {
    while let Ok(Some((bytes, _))) = channel.receive_up_to(bytes_max, 0) {
        match decode(&bytes) {
            Ok(answer) => hear(Heard::Answer(answer)),
            Err(_) => break,
        }
    }
    hear(Heard::End);
}
