//! The thread that writes lines about connections, so that no worker waits for a disk or a pipe.
//!
//! Owns the order of bytes in the log, and the account of those that could not be written.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use config::LogOutput;
use proxy::connection_log::LineQueue;
use sys::log_socket;
use telemetry::message::LogLevel;

use crate::messages::sender::{Collector, Refusal};

/// From one message about a failing log to the next one.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// How long a panic waits for the last lines to be written.
const PANIC_FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// A write that takes longer has a reader that does not read.
const STALL_TIME: Duration = Duration::from_secs(10);

/// From one look whether a log daemon that is away is back to the next.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long a queue that is full is waited for before the target is looked at again.
const ROOM_TIME_MAX: Duration = Duration::from_millis(100);

/// How long a daemon's host may take to refuse an entry, once it has refused one: within that, it
/// is known which entry is refused, and it is kept.
const CONFIRM_TIME_MAX: Duration = Duration::from_millis(100);

const WRITTEN_AGAIN: &str = "the log is written again";

#[derive(Debug, Eq, PartialEq)]
pub(super) enum LogNews {
    /// Bytes that could not be written, and why.
    Lost {
        bytes: u64,
        why: String,
    },
    Recovered,
    /// Another socket is wanted: the log daemon is not there.
    Away,
    /// A message to the operator; at a limited rate.
    Message(LogLevel, String),
}

#[derive(Debug)]
pub(super) enum Target {
    /// Byte after byte.
    Stream(File),
    /// Each as an entry. What is away is waited for.
    Daemon { name: String, collector: Collector },
}

impl Target {
    /// The descriptor of an output.
    pub(super) fn of(output: &LogOutput, fd: OwnedFd) -> Self {
        match output {
            LogOutput::Daemon(daemon) => {
                Self::Daemon { name: daemon.to_string(), collector: Collector::new(daemon, fd) }
            }
            LogOutput::File(_) | LogOutput::Stderr | LogOutput::Stdout => {
                Self::Stream(File::from(fd))
            }
        }
    }
}

/// The target of lines, which may change at any time.
#[derive(Clone, Debug)]
pub(super) struct LogTarget(Arc<(Mutex<Arc<Target>>, Condvar)>);

impl LogTarget {
    fn at(target: Target) -> Self {
        Self(Arc::new((Mutex::new(Arc::new(target)), Condvar::new())))
    }

    /// Lines go there from the next one on, or the next batch of them.
    pub(super) fn set(&self, target: Target) {
        *lock(&self.0.0) = Arc::new(target);
        self.0.1.notify_all();
    }

    fn now(&self) -> Arc<Target> {
        Arc::clone(&lock(&self.0.0))
    }

    /// Waits until it is another, or for so long.
    fn wait_for_other(&self, than: &Arc<Target>, time_max: Duration) {
        let is_same = |target: &mut Arc<Target>| Arc::ptr_eq(target, than);
        let waited = self.0.1.wait_timeout_while(lock(&self.0.0), time_max, is_same);
        drop(waited);
    }
}

pub(super) struct Log {
    pub(super) queue: Arc<LineQueue>,
    pub(super) log_target: LogTarget,
    ended: Receiver<()>,
    stall: Arc<Mutex<LogStall>>,
}

impl Log {
    /// Starts to write what is queued. `report` is called from the thread.
    pub(super) fn start(
        target: Target,
        report: impl FnMut(LogNews) + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Arc::new(LineQueue::default());
        let log_target = LogTarget::at(target);
        let stall = Arc::new(Mutex::new(LogStall::default()));
        let mut writer = Writer::new(log_target.clone(), Arc::clone(&stall), report);
        let (end, ended) = channel();
        let lines = Arc::clone(&queue);
        let work = move || {
            std::iter::from_fn(|| lines.take()).for_each(|batch| writer.write(&batch));
            drop(end);
        };
        thread::Builder::new().name("log".to_owned()).spawn(work)?;
        Ok(Self { queue, log_target, ended, stall })
    }

    /// Makes a panic, which ends the process, wait until the lines of others are written.
    pub(super) fn flush_in_panics(&self) {
        let (queue, before) = (Arc::clone(&self.queue), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            queue.flush(PANIC_FLUSH_TIME_MAX);
        }));
    }

    /// A message to the operator about a target that takes nothing; once for each such time, at a
    /// limited rate. `note` is called with the reason before the target can be said to take lines
    /// again.
    pub(super) fn stalled(&self, now: Instant, note: impl FnOnce(String)) -> Option<String> {
        let mut stall = lock(&self.stall);
        let seconds = stall.found(now)?.as_secs();
        let why = format!("its reader has taken nothing for {seconds} s");
        note(why.clone());
        Some(format!(
            "the log is not written: {why}; what waits is lost when it is more than 4 MiB\n\
             hint: see what reads the standard output, the pipe or the log daemon of `log.output`, \
             and whether it runs"
        ))
    }

    /// Waits until all is written, or for so long: a target that blocks may do so for ever. To be
    /// called when no line follows. `false` = lines are lost.
    pub(super) fn finish(self, time_max: Duration) -> bool {
        self.queue.close();
        // The thread sends nothing: the channel ends when the thread does.
        self.ended.recv_timeout(time_max) == Err(RecvTimeoutError::Disconnected)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct LogStall {
    begun: Option<Instant>,
    /// Whether it was said that this one does not end.
    is_said: bool,
    /// When that was said last.
    said: Option<Instant>,
}

impl LogStall {
    /// How long a write has been going on that should have ended, if it is to be said.
    fn found(&mut self, now: Instant) -> Option<Duration> {
        let since = |time| now.saturating_duration_since(time);
        let time = since(self.begun?);
        let is_due = self.said.is_none_or(|said| since(said) >= MESSAGE_INTERVAL);
        if time < STALL_TIME || self.is_said || !is_due {
            return None;
        }
        (self.is_said, self.said) = (true, Some(now));
        Some(time)
    }

    /// The write has ended: whether it was said that it does not.
    fn ended(&mut self) -> bool {
        self.begun = None;
        std::mem::take(&mut self.is_said)
    }
}

struct Writer<R> {
    log_target: LogTarget,
    /// The file in which the last line was left without its end.
    torn: Option<Arc<Target>>,
    entry: Vec<u8>,
    /// Bytes of the line that a log daemon was sent last.
    last: usize,
    losses: Losses,
    stall: Arc<Mutex<LogStall>>,
    report: R,
}

impl<R: FnMut(LogNews)> Writer<R> {
    fn new(log_target: LogTarget, stall: Arc<Mutex<LogStall>>, report: R) -> Self {
        Self {
            log_target,
            torn: None,
            entry: Vec::new(),
            last: 0,
            losses: Losses::default(),
            stall,
            report,
        }
    }

    fn write(&mut self, batch: &[u8]) {
        let mut rest = batch;
        while !rest.is_empty() {
            // Not locked while writing: the target may block for ever, and be replaced for that.
            let target = self.log_target.now();
            let done = match &*target {
                Target::Stream(file) => self.write_to_stream(&target, file, rest),
                Target::Daemon { name, collector } => {
                    let line = rest.split_inclusive(|byte| *byte == b'\n').next();
                    self.send(&target, (name, collector), line.unwrap_or(rest))
                }
            };
            rest = rest.get(done..).unwrap_or_default();
        }
    }

    /// How much need not be written again: all.
    fn write_to_stream(&mut self, target: &Arc<Target>, file: &File, batch: &[u8]) -> usize {
        lock(&self.stall).begun = Some(Instant::now());
        let (written, result) = self.write_whole_lines(target, file, batch);
        let had_stalled = lock(&self.stall).ended();
        match result {
            Ok(()) => self.succeeded(had_stalled),
            // A full disk or a reader that left: the lines are lost, connections are not.
            Err(error) => self.failed(
                (batch.len() - written) as u64,
                &error.to_string(),
                "make room or name another file, then reload or send SIGUSR1",
            ),
        }
        batch.len()
    }

    /// How much need not be sent again: the line, or nothing.
    fn send(
        &mut self,
        target: &Arc<Target>,
        (name, collector): (&str, &Collector),
        line: &[u8],
    ) -> usize {
        const HINT: &str = "see whether it runs, and whether lariat may send to it; lines wait for \
                            it, and are lost when they are more than 4 MiB";
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let mut sent = collector.send_line(text, &mut self.entry);
        if sent.is_ok() && self.losses.is_failing {
            // Else it would be said to be back whenever a network takes an entry.
            sent = collector.confirm(CONFIRM_TIME_MAX);
        }
        match sent {
            Ok(()) => {
                let had_stalled = lock(&self.stall).ended();
                self.succeeded(had_stalled);
                self.last = line.len();
                line.len()
            }
            Err(Refusal::Full) => {
                lock(&self.stall).begun.get_or_insert_with(Instant::now);
                // What is wrong is met when it is sent again.
                let _ = log_socket::wait_for_room(collector, ROOM_TIME_MAX);
                0
            }
            Err(Refusal::TooLarge(error)) => {
                self.failed(line.len() as u64, &format!("{name}: {error}"), HINT);
                line.len()
            }
            Err(Refusal::Away { why, is_late }) => {
                lock(&self.stall).begun = None;
                let last = std::mem::take(&mut self.last);
                let lost = if is_late { last as u64 } else { 0 };
                self.failed(lost, &format!("{name}: {why}"), HINT);
                if !is_late {
                    (self.report)(LogNews::Away);
                }
                self.log_target.wait_for_other(target, RETRY_PAUSE);
                0
            }
        }
    }

    fn succeeded(&mut self, had_stalled: bool) {
        let message = if self.losses.is_failing {
            self.losses.recovered()
        } else if had_stalled {
            Some(WRITTEN_AGAIN.to_owned())
        } else {
            return;
        };
        (self.report)(LogNews::Recovered);
        self.say(LogLevel::Notice, message);
    }

    fn failed(&mut self, bytes: u64, why: &str, hint: &str) {
        let message = self.losses.failed(bytes, (why, hint), Instant::now());
        let why = why.to_owned();
        (self.report)(LogNews::Lost { bytes, why });
        self.say(LogLevel::Warning, message);
    }

    fn say(&mut self, level: LogLevel, message: Option<String>) {
        let news = message.map(|message| LogNews::Message(level, message));
        news.into_iter().for_each(&mut self.report);
    }

    /// How much of a batch was written. A line that another failure left without its end is ended
    /// first, so that it spoils no other.
    fn write_whole_lines(
        &mut self,
        target: &Arc<Target>,
        file: &File,
        batch: &[u8],
    ) -> (usize, io::Result<()>) {
        let torn = self.torn.take();
        let is_torn = torn.is_some_and(|torn| Arc::ptr_eq(&torn, target));
        if is_torn && let (_, Err(error)) = write_all(file, b"\n") {
            self.torn = Some(Arc::clone(target));
            return (0, Err(error));
        }
        let (written, result) = write_all(file, batch);
        let last = written.checked_sub(1).and_then(|last| batch.get(last));
        if last.is_some_and(|byte| *byte != b'\n') {
            self.torn = Some(Arc::clone(target));
        }
        (written, result)
    }
}

/// How much was written, beside how it ended.
fn write_all(mut file: &File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Losses of lines, and the last message about them.
#[derive(Debug, Default)]
struct Losses {
    is_failing: bool,
    bytes: u64,
    said: Option<Instant>,
    /// Whether the last message was that it fails.
    said_failing: bool,
}

impl Losses {
    fn failed(&mut self, bytes: u64, (why, hint): (&str, &str), now: Instant) -> Option<String> {
        self.is_failing = true;
        self.bytes += bytes;
        let is_due = |said| now.saturating_duration_since(said) >= MESSAGE_INTERVAL;
        let is_news = self.bytes > 0 || !self.said_failing;
        if !self.said.is_none_or(is_due) || !is_news {
            return None;
        }
        self.said = Some(now);
        self.said_failing = true;
        let bytes = std::mem::take(&mut self.bytes);
        Some(format!(
            "the log cannot be written: {why}; {bytes} bytes of lines about connections are lost\n\
             hint: {hint}"
        ))
    }

    fn recovered(&mut self) -> Option<String> {
        self.is_failing = false;
        if !std::mem::take(&mut self.said_failing) {
            return None;
        }
        let bytes = std::mem::take(&mut self.bytes);
        Some(match bytes {
            0 => WRITTEN_AGAIN.to_owned(),
            _ => format!("{WRITTEN_AGAIN}; {bytes} more bytes were lost"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Read;

    /// How long a test waits for what is bound to come.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn stream(fd: impl Into<OwnedFd>) -> Target {
        Target::of(&LogOutput::Stdout, fd.into())
    }

    #[test]
    fn lines_go_where_the_target_is() {
        let (mut first, first_end) = io::pipe().unwrap();
        let (mut second, second_end) = io::pipe().unwrap();
        let log = Log::start(stream(first_end), |news| panic!("{news:?}")).unwrap();
        log.queue.append(&mut b"one\n".to_vec());
        let mut line = [0; 4];
        first.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"one\n");

        log.log_target.set(stream(second_end));
        log.queue.append(&mut b"two\n".to_vec());
        log.finish(PATIENCE);
        let mut rest = String::new();
        second.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two\n");
        first.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two\n");
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_said() {
        let (reports, news) = channel();
        let report = move |news| reports.send(news).unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let log = Log::start(stream(full), report).unwrap();
        log.queue.append(&mut b"lost\n".to_vec());
        let next = || news.recv_timeout(PATIENCE).unwrap();
        let lost = |news, expected| match news {
            LogNews::Lost { bytes, why } => {
                assert_eq!(bytes, expected);
                assert!(why.starts_with("No space left on device"), "{why}");
            }
            other => panic!("{other:?}"),
        };
        lost(next(), 5);
        assert!(
            matches!(next(), LogNews::Message(LogLevel::Warning, text) if text.contains("; 5 bytes"))
        );
        log.queue.append(&mut b"as well\n".to_vec());
        lost(next(), 8);
        let (mut reader, end) = io::pipe().unwrap();
        log.log_target.set(stream(end));
        log.queue.append(&mut b"kept\n".to_vec());
        assert_eq!(next(), LogNews::Recovered);
        assert!(
            matches!(next(), LogNews::Message(LogLevel::Notice, text) if text.contains("; 8 more bytes"))
        );
        log.finish(PATIENCE);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "kept\n");
    }

    #[test]
    fn a_line_that_was_cut_spoils_no_other() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut writer = Writer::new(LogTarget::at(stream(writer)), Arc::default(), drop);
        // As after a failure in the middle of a line.
        writer.write(b"whole\ncu");
        writer.write(b"next\n");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "whole\ncu\nnext\n");
    }

    #[test]
    fn a_target_that_blocks_holds_nobody() {
        let (_reader, end) = io::pipe().unwrap();
        let log = Log::start(stream(end), drop).unwrap();
        log.queue.append(&mut vec![b'x'; 1 << 20]);
        log.finish(Duration::from_millis(1));
    }

    #[test]
    fn a_target_that_takes_nothing_is_said_once_until_it_takes_lines_again() {
        let (mut reader, end) = io::pipe().unwrap();
        let (reports, news) = channel();
        let report = move |news| reports.send(news).unwrap();
        let log = Log::start(stream(end), report).unwrap();
        log.queue.append(&mut vec![b'x'; 1 << 20]);
        let (begin, mut notes) = (Instant::now(), Vec::new());
        let said = loop {
            let later = Instant::now() + STALL_TIME;
            if let Some(said) = log.stalled(later, |why| notes.push(why)) {
                break said;
            }
            assert!(begin.elapsed() < PATIENCE);
            thread::yield_now();
        };
        assert!(said.contains("has taken nothing for 10 s"), "{said}");
        let later = Instant::now() + 10 * STALL_TIME;
        assert_eq!(log.stalled(later, |why| notes.push(why)), None);
        assert_eq!(notes.len(), 1);

        reader.read_exact(&mut vec![0; 1 << 20]).unwrap();
        let next = || news.recv_timeout(PATIENCE).unwrap();
        assert_eq!(next(), LogNews::Recovered);
        let again = LogNews::Message(LogLevel::Notice, WRITTEN_AGAIN.to_owned());
        assert_eq!(next(), again);
        assert_eq!(log.stalled(later, |why| notes.push(why)), None);
        log.finish(PATIENCE);
    }

    #[test]
    fn a_log_that_fails_and_recovers_in_turn_floods_nobody() {
        let (mut losses, now) = (Losses::default(), Instant::now());
        let mut messages = 0;
        for _ in 0..100 {
            messages += usize::from(losses.failed(1, ("full", "make room"), now).is_some());
            messages += usize::from(losses.recovered().is_some());
        }
        assert_eq!(messages, 2);
        let said = losses.failed(1, ("full", "make room"), now + MESSAGE_INTERVAL).unwrap();
        assert!(said.contains("; 100 bytes"), "{said}");
    }
}
