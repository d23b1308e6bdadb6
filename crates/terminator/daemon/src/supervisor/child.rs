//! A process of this program with another task: starting it, speaking to it, hearing from it,
//! ending it, and starting another after it has died, at once or later and later. And worker
//! processes that a program before this one has started: one that serves until ours does, and those
//! that drain.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sys::channel::{self, Channel};
use sys::epoll::Waker;
use sys::{clock, process, signal};

use super::upgrade::state::WorkerState;
use crate::handover::{
    ANSWER_BYTES_MAX, ProcessMessageForm, STEADY_AFTER, Secret, SupervisorOrder, WORKER_ARGUMENT,
    WORKER_NAME,
};
use crate::messages::{self, error};

/// Time limit of sending an order. The worker process takes its orders within milliseconds, and a
/// plan of 10,000 certificates within a second; after this time it is stuck, and its successor is
/// better. No signal is answered meanwhile.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);

/// Time limit of reaping. A killed process is gone as soon as its memory is unmapped. After this
/// time an uninterruptible call holds it, such as one to a FUSE file system that does not answer;
/// it runs no instruction of ours any more.
const REAP_TIME_MAX: Duration = Duration::from_secs(2);

/// Environment variables that are passed on; the C library's resolver reads the last two.
const VARIABLES: [&str; 3] = ["RUST_BACKTRACE", "LOCALDOMAIN", "RES_OPTIONS"];

/// Kind of process that this program becomes when it starts itself again.
pub(super) struct Program {
    pub(super) argument: &'static str,
    pub(super) name: &'static str,
    /// Format of messages in both directions.
    pub(super) form: ProcessMessageForm,
    /// Maximum bytes of an answer; a process that sends more counts as broken.
    pub(super) answer_bytes_max: usize,
    /// Whether it gets all variables of the environment.
    pub(super) has_environment: bool,
}

pub(super) const WORKER: Program = Program {
    argument: WORKER_ARGUMENT,
    name: WORKER_NAME,
    form: ProcessMessageForm::Json,
    answer_bytes_max: ANSWER_BYTES_MAX,
    has_environment: false,
};

/// A running process. Dropping kills and reaps it, unless it still belongs to another program.
pub(super) struct Child {
    number: u64,
    name: &'static str,
    pid: u32,
    form: ProcessMessageForm,
    answer_bytes_max: usize,
    is_reaped: bool,
    /// Whether the previous program keeps it if this one cannot serve.
    is_lent: bool,
    channel: Arc<Channel>,
    /// Waker that ends the listening thread, between two messages.
    stop: Arc<Waker>,
}

/// An order that did not reach its process.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendFault {
    /// The order is at fault: no byte of it was sent, and the process is unchanged.
    #[error("an order to the worker process cannot be sent: {0}")]
    Unsendable(io::Error),
    /// The process has died, or takes nothing.
    #[error("the worker process takes no orders: {0}")]
    Broken(#[from] io::Error),
}

impl SendFault {
    /// Classifies an error. The channel refuses what is too large before it sends a byte.
    fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidInput => Self::Unsendable(error),
            _ => Self::Broken(error),
        }
    }
}

impl From<SendFault> for io::Error {
    fn from(fault: SendFault) -> Self {
        match fault {
            SendFault::Unsendable(error) | SendFault::Broken(error) => error,
        }
    }
}

fn is_sendable(bytes: &[u8]) -> Result<(), SendFault> {
    if bytes.len() <= channel::MESSAGE_BYTES_MAX {
        return Ok(());
    }
    let words = format!("{} bytes, of at most {}", bytes.len(), channel::MESSAGE_BYTES_MAX);
    Err(SendFault::Unsendable(io::Error::new(io::ErrorKind::InvalidInput, words)))
}

pub(super) enum ChildEvent<A> {
    Answer(A),
    /// The process has closed its end: it has died or is about to.
    End,
    /// The thread was ordered to stop: further messages are for the next listener.
    Stopped,
}

impl Child {
    /// Starts this program again. A thread calls `hear`.
    pub(super) fn start<A: DeserializeOwned>(
        number: u64,
        program: &Program,
        hear: impl FnMut(ChildEvent<A>) + Send + 'static,
    ) -> io::Result<Self> {
        let (channel, theirs) = channel::pair()?;
        let channel = channel.with_send_timeout(SEND_TIME_MAX);
        // The very file that this process was started from, even if another has its name by now.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(program.name)
            .arg(program.argument)
            .stdin(Stdio::from(theirs))
            // The standard output may be the log, which only the worker process gets.
            .stdout(Stdio::null())
            .stderr(Stdio::from(messages::standard_error_for_another()?));
        if !program.has_environment {
            command.env_clear();
        }
        let variables = VARIABLES.iter();
        command.envs(variables.filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs([messages::form_variable()]);
        process::end_child_with_us(&mut command);
        let stop = Arc::new(Waker::new()?);
        let child = Self {
            number,
            name: program.name,
            pid: command.spawn()?.id(),
            form: program.form,
            answer_bytes_max: program.answer_bytes_max,
            is_reaped: false,
            is_lent: false,
            channel: Arc::new(channel),
            stop,
        };
        child.listen(hear)?;
        Ok(child)
    }

    /// Wraps a process that the previous program has started and still owns.
    pub(super) fn lent(
        (number, pid): (u64, u32),
        program: &Program,
        channel: OwnedFd,
    ) -> io::Result<Self> {
        Ok(Self {
            number,
            name: program.name,
            pid,
            form: program.form,
            answer_bytes_max: program.answer_bytes_max,
            is_reaped: false,
            is_lent: true,
            channel: Arc::new(Channel::from(channel).with_send_timeout(SEND_TIME_MAX)),
            stop: Arc::new(Waker::new()?),
        })
    }

    /// Takes ownership of the process.
    pub(super) fn keep(&mut self) {
        self.is_lent = false;
    }

    /// Passes ownership to the next program, if that serves.
    pub(super) fn lend(&mut self) {
        self.is_lent = true;
    }

    /// Calls `hear` with each of its messages, from a thread. No other may listen.
    pub(super) fn listen<A: DeserializeOwned>(
        &self,
        mut hear: impl FnMut(ChildEvent<A>) + Send + 'static,
    ) -> io::Result<()> {
        self.stop.drain();
        let (channel, stop) = (Arc::clone(&self.channel), Arc::clone(&self.stop));
        let (form, bytes_max) = (self.form, self.answer_bytes_max);
        let (name, pid) = (self.name, self.pid);
        let listen = move || {
            let end = listen(&channel, &stop, (form, bytes_max), &mut hear);
            hear(end.unwrap_or_else(|nonsense| {
                error(format_args!("the process `{name}` (pid {pid}) says nonsense: {nonsense}"));
                ChildEvent::End
            }));
        };
        let thread = thread::Builder::new().name(format!("child {}", self.number));
        thread.spawn(listen).map(drop)
    }

    /// Ends the thread that listens, once it has passed on all that has arrived; it then reports
    /// `Stopped`.
    pub(super) fn stop_listening(&self) {
        self.stop.wake();
    }

    pub(super) fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn send(
        &self,
        order: &impl Serialize,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), SendFault> {
        let bytes = self.form.encode(order).map_err(SendFault::Unsendable)?;
        is_sendable(bytes.bytes())?;
        self.channel.send(bytes.bytes(), fds).map_err(SendFault::of)
    }

    pub(super) fn send_with(
        &self,
        order: &impl Serialize,
        fds: &[BorrowedFd<'_>],
        bundle: &Secret,
    ) -> Result<(), SendFault> {
        // The order alone would leave the process waiting for its bundle.
        is_sendable(bundle.bytes())?;
        self.send(order, fds)?;
        self.channel.send(bundle.bytes(), &[]).map_err(SendFault::Broken)
    }

    /// Closes the channel if the process has ended. Otherwise a process that holds a copy of its
    /// end (`SCM_RIGHTS`, unix(7)) would hide its death, and exchange messages in its place.
    pub(super) fn look_for_end(&self) {
        if process::has_ended(self.pid) {
            self.channel.end();
        }
    }

    /// Kills the process; its earlier messages are still read, and then its end.
    pub(super) fn kill(&self) {
        if !self.is_reaped {
            // The call fails only for a process that has ended.
            let _ = signal::kill(self.pid);
        }
    }

    /// Ends the process if needed, and returns its status; `None` if it was killed, and the kernel
    /// is not done with it.
    pub(super) fn end(mut self) -> Option<ExitStatus> {
        self.kill();
        self.reap()
    }

    /// Waits in a separate thread, which is left behind with a process that does not go.
    fn reap(&mut self) -> Option<ExitStatus> {
        self.channel.end();
        if std::mem::replace(&mut self.is_reaped, true) {
            return None;
        }
        let (sender, status) = mpsc::channel();
        let pid = self.pid;
        let wait = move || drop(sender.send(process::wait(pid)));
        thread::Builder::new().spawn(wait).ok()?;
        status.recv_timeout(REAP_TIME_MAX).ok()?.ok()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        self.kill();
        self.reap();
    }
}

/// Reads messages. A process that sends nonsense, which is an error, counts as dead: its further
/// actions are unpredictable.
fn listen<A: DeserializeOwned>(
    channel: &Channel,
    stop: &Waker,
    (form, bytes_max): (ProcessMessageForm, usize),
    hear: &mut impl FnMut(ChildEvent<A>),
) -> io::Result<ChildEvent<A>> {
    loop {
        match channel.awaits(stop) {
            Ok(true) => {}
            Ok(false) => return Ok(ChildEvent::Stopped),
            Err(_) => return Ok(ChildEvent::End),
        }
        match channel.receive_up_to(bytes_max, 0) {
            Ok(Some((bytes, _))) => hear(ChildEvent::Answer(form.decode(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
            Ok(None) | Err(_) => return Ok(ChildEvent::End),
        }
    }
}

/// Pause before the second start in a row; each further pause is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// Maximum pause: connections queue up meanwhile, and clients give up in seconds.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Deaths between which no process lived for [`STEADY_AFTER`].
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pub(super) deaths: u32,
    last: Option<Instant>,
    /// Description of repeated deaths, for people.
    pub(super) dying: Option<String>,
}

impl Backoff {
    /// Records a death and returns the pause before the next start. A start follows in any case:
    /// the cause (a client, a store, a full host) may be gone by then, and nobody else would serve.
    pub(super) fn died(&mut self, now: Instant) -> Duration {
        let lived = |last: Instant| now.saturating_duration_since(last) > STEADY_AFTER;
        if self.last.is_none_or(lived) {
            self.deaths = 0;
        }
        self.last = Some(now);
        self.deaths = self.deaths.saturating_add(1);
        self.pause(self.deaths)
    }

    /// Whether the last pause is longer than any of this row before it.
    pub(super) fn is_longer(&self) -> bool {
        self.deaths > 1 && self.pause(self.deaths) > self.pause(self.deaths - 1)
    }

    fn pause(&self, deaths: u32) -> Duration {
        let Some(doublings) = deaths.checked_sub(2) else {
            return Duration::ZERO;
        };
        let pause = PAUSE_FIRST.checked_mul(2u32.saturating_pow(doublings));
        pause.unwrap_or(PAUSE_MAX).min(PAUSE_MAX)
    }
}

/// Time that a worker process may take beyond the drain's to close the rest.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(5);

/// A worker process of an earlier program.
pub(crate) struct EarlierWorkerProcess {
    pub(crate) child: Child,
    /// Deadline of its drain; `None` if it serves.
    pub(crate) drains_until: Option<Instant>,
}

/// State of a worker process, as it is handed to the next program.
pub(crate) fn state_of(child: &Child, drains_until: Option<Instant>) -> WorkerState {
    let left = drains_until.map(|until| until.saturating_duration_since(Instant::now()));
    let at = left.map(|left| (clock::monotonic() + left).as_millis());
    WorkerState {
        number: child.number(),
        pid: child.pid(),
        drains_until_ms: at.map(|at| u64::try_from(at).unwrap_or(u64::MAX)),
    }
}

impl EarlierWorkerProcess {
    /// Returns the worker processes of the previous program, with their channels.
    pub(crate) fn all(states: &[WorkerState], channels: Vec<OwnedFd>) -> io::Result<Vec<Self>> {
        let each = states.iter().zip(channels).map(|(state, channel)| {
            let left = state
                .drains_until_ms
                .map(|at| Duration::from_millis(at).saturating_sub(clock::monotonic()));
            Ok(Self {
                child: Child::lent((state.number, state.pid), &WORKER, channel)?,
                drains_until: left.map(|left| Instant::now() + left),
            })
        });
        each.collect()
    }

    /// Whether it is the one that serves until ours does.
    pub(crate) fn serves(&self) -> bool {
        self.drains_until.is_none()
    }

    /// Takes ownership of the process and drains it.
    pub(crate) fn drain(&mut self, time: Duration) {
        self.child.keep();
        if !self.serves() {
            return;
        }
        self.drains_until = Some(Instant::now() + time + DRAIN_GRACE);
        let is_replaced = true;
        // A process that takes no order ends, which is reported.
        if self.child.send(&SupervisorOrder::Drain { time, is_replaced }, &[]).is_err() {
            self.child.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::handover::WorkerAnswer;

    use super::*;

    #[test]
    fn an_order_that_cannot_be_sent_leaves_its_process_alone() {
        struct Odd;
        impl Serialize for Odd {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("odd"))
            }
        }
        let (ours, theirs) = channel::pair().unwrap();
        let child = Child::lent((1, 0), &WORKER, theirs).unwrap();
        let sent = child.send(&Odd, &[]);
        assert!(matches!(sent, Err(SendFault::Unsendable(_))), "{sent:?}");
        let large = Secret::new(vec![0; channel::MESSAGE_BYTES_MAX + 1]);
        let sent = child.send_with(&"order", &[], &large);
        assert!(matches!(sent, Err(SendFault::Unsendable(_))), "{sent:?}");
        child.send(&"order", &[]).unwrap();
        let (bytes, _) = ours.receive_up_to(100, 0).unwrap().unwrap();
        assert_eq!(bytes, b"\"order\"", "nothing came before it");
        drop(ours);
        let sent = child.send(&"order", &[]);
        assert!(matches!(sent, Err(SendFault::Broken(_))), "{sent:?}");
    }

    #[test]
    fn a_process_that_says_nonsense_is_as_good_as_dead() {
        let many = vec![String::new(); 10_000];
        let many = WorkerAnswer::Warned(many);
        let many = WORKER.form.encode(&many).unwrap();
        let large = vec![b' '; ANSWER_BYTES_MAX + 1];
        for (said, words) in [
            (b"{}".as_slice(), "expected value"),
            (many.bytes(), "more than 101 items in a list"),
            (&large, "larger than its limit"),
        ] {
            let (ours, theirs) = channel::pair().unwrap();
            let (theirs, stop) = (Channel::from(theirs), Waker::new().unwrap());
            let limits = (WORKER.form, WORKER.answer_bytes_max);
            let (answers, why) = thread::scope(|scope| {
                let sent = scope
                    .spawn(|| ours.send(b"\"Building\"", &[]).and_then(|()| ours.send(said, &[])));
                let mut answers = 0;
                let mut hear = |heard: ChildEvent<WorkerAnswer>| {
                    answers +=
                        usize::from(matches!(heard, ChildEvent::Answer(WorkerAnswer::Building)));
                };
                let ended = listen(&theirs, &stop, limits, &mut hear);
                drop(theirs);
                let _ = sent.join().unwrap();
                (answers, ended.err().map(|why| why.to_string()))
            });
            assert_eq!(answers, 1);
            let why = why.unwrap();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn pauses_grow_to_their_limit_and_each_is_news_once() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let mut news = Vec::new();
        for _ in 0..1000 {
            let pause = backoff.died(now);
            news.extend(backoff.is_longer().then_some(pause.as_millis()));
        }
        assert_eq!(news, [50, 100, 200, 400, 800, 1600, 3200, 5000]);
        assert_eq!(backoff.died(now), PAUSE_MAX);
        assert_eq!(backoff.deaths, 1001);
    }

    #[test]
    fn a_minute_without_a_death_begins_anew() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        for _ in 0..100 {
            backoff.died(now);
            now += STEADY_AFTER + Duration::from_millis(1);
            assert_eq!(backoff.died(now), Duration::ZERO);
            now += STEADY_AFTER;
            assert_eq!(backoff.died(now), PAUSE_FIRST);
            now += STEADY_AFTER + Duration::from_millis(1);
        }
    }
}
