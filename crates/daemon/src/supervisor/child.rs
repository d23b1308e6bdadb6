//! One data process: starting it, speaking to it, hearing from it, ending it.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sys::channel::{self, Channel};

use crate::handover::{
    ANSWER_BYTES_MAX, Answer, DATA_ARGUMENT, DATA_NAME, Order, Secret, decode, encode,
};

/// The data process takes its orders within milliseconds. One that takes none for this long is
/// stuck, and its successor is better.
const SEND_TIME_MAX: Duration = Duration::from_secs(30);

/// How long one that was killed may take to end. It is left behind then: a thread of it is in a
/// call that no signal breaks off, such as one to a FUSE file system that does not answer.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// What it dies of (signal(7)).
const SIGKILL: i32 = 9;

/// Between two looks whether it has ended, which it mostly does at once.
const END_PAUSE: Duration = Duration::from_millis(2);

/// A running data process. It is killed and reaped when this is dropped.
pub(super) struct Child {
    number: u64,
    process: std::process::Child,
    channel: Arc<Channel>,
}

/// What the thread that listens to a data process heard.
pub(super) enum Heard {
    Answer(Answer),
    /// The process has closed its end: it has died or is about to.
    End,
}

impl Child {
    /// Starts this program again as the data process. `hear` is called from a thread.
    pub(super) fn start(
        number: u64,
        mut hear: impl FnMut(Heard) + Send + 'static,
    ) -> io::Result<Self> {
        let (channel, theirs) = channel::pair()?;
        channel.set_send_timeout(SEND_TIME_MAX)?;
        // The very file that this process was started from, even if another has its name by now.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(DATA_NAME)
            .arg(DATA_ARGUMENT)
            .env_clear()
            .stdin(Stdio::from(theirs));
        if let Some(value) = std::env::var_os("RUST_BACKTRACE") {
            command.env("RUST_BACKTRACE", value);
        }
        let process = command.spawn()?;
        let child = Self {
            number,
            process,
            channel: Arc::new(channel),
        };
        let channel = Arc::clone(&child.channel);
        let listen = move || listen(&channel, &mut hear);
        thread::Builder::new()
            .name("answers".to_owned())
            .spawn(listen)?;
        Ok(child)
    }

    /// Tells one data process from its predecessors.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Its process number.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Says something.
    pub(super) fn send(&self, order: &Order, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = encode(order).map_err(io::Error::other)?;
        self.channel.send(bytes.bytes(), fds)
    }

    /// Says something that is followed by a bundle.
    pub(super) fn send_with(
        &self,
        order: &Order,
        fds: &[BorrowedFd<'_>],
        bundle: &Secret,
    ) -> io::Result<()> {
        self.send(order, fds)?;
        self.channel.send(bundle.bytes(), &[])
    }

    /// Kills it; what it said before is still heard, and then its end.
    pub(super) fn kill(&mut self) {
        // It fails only for one that has ended.
        let _ = self.process.kill();
    }

    /// Ends it at once, if it has not ended, and says how it did.
    pub(super) fn end(mut self) -> io::Result<ExitStatus> {
        let killed = ExitStatus::from_raw(SIGKILL);
        Ok(self.reap()?.unwrap_or(killed))
    }

    /// Kills it and waits for its end; `None` = that does not come soon. Until then it does nothing.
    fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        self.kill();
        let until = Instant::now() + END_TIME_MAX;
        loop {
            let ended = self.process.try_wait()?;
            if ended.is_some() || Instant::now() >= until {
                return Ok(ended);
            }
            thread::sleep(END_PAUSE);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It does nothing for one that has been reaped.
        let _ = self.reap();
    }
}

/// A data process that says nonsense is as good as dead: what it does next cannot be known.
fn listen(channel: &Channel, hear: &mut impl FnMut(Heard)) {
    while let Ok(Some((bytes, _))) = channel.receive_up_to(ANSWER_BYTES_MAX, 0) {
        match decode(&bytes) {
            Ok(answer) => hear(Heard::Answer(answer)),
            Err(_) => break,
        }
    }
    hear(Heard::End);
}
