//! The thread that writes lines about connections, so that no worker waits for a disk or a pipe.
//!
//! Owns the order of bytes in the log, and the account of those that could not be written.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use proxy::line_queue::LineQueue;

/// From one message about a failing log to the next one.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// How long a panic waits for the last lines to be written.
const PANIC_FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// A write that takes longer has a reader that does not read.
const STALL_TIME: Duration = Duration::from_secs(10);

/// What becomes of lines.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum LogNews {
    /// So many bytes could not be written, and why.
    Lost { bytes: u64, why: String },
    /// Lines are written again.
    Recovered,
    /// What an operator should know; at a limited rate.
    Message(String),
}

/// The writer's other end.
pub(super) struct Log {
    queue: Arc<LineQueue>,
    target: Arc<Mutex<Arc<File>>>,
    ended: Receiver<()>,
    stall: Arc<Mutex<Stall>>,
}

impl Log {
    /// Starts to write to that descriptor what is queued. `report` is called from the thread.
    pub(super) fn start(
        fd: OwnedFd,
        report: impl FnMut(LogNews) + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Arc::new(LineQueue::default());
        let target = Arc::new(Mutex::new(Arc::new(File::from(fd))));
        let stall = Arc::new(Mutex::new(Stall::default()));
        let mut writer = Writer {
            target: Arc::clone(&target),
            torn: None,
            losses: Losses::default(),
            stall: Arc::clone(&stall),
            report,
        };
        let (end, ended) = channel();
        let lines = Arc::clone(&queue);
        let work = move || {
            std::iter::from_fn(|| lines.take()).for_each(|batch| writer.write(&batch));
            drop(end);
        };
        thread::Builder::new().name("log".to_owned()).spawn(work)?;
        Ok(Self {
            queue,
            target,
            ended,
            stall,
        })
    }

    /// Where lines wait for the thread.
    pub(super) fn queue(&self) -> &Arc<LineQueue> {
        &self.queue
    }

    /// Has a panic, which ends the process, wait until the lines of others are written.
    pub(super) fn flush_in_panics(&self) {
        let (queue, before) = (Arc::clone(&self.queue), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            queue.flush(PANIC_FLUSH_TIME_MAX);
        }));
    }

    /// Writes there from the next batch on.
    pub(super) fn set_target(&self, fd: OwnedFd) {
        *lock(&self.target) = Arc::new(File::from(fd));
    }

    /// What an operator should know of a target that takes nothing; once for each such time, at a
    /// limited rate. `note` is called with the reason before the target can be said to take lines
    /// again.
    pub(super) fn stalled(&self, now: Instant, note: impl FnOnce(String)) -> Option<String> {
        let mut stall = lock(&self.stall);
        let seconds = stall.found(now)?.as_secs();
        let why = format!("its reader has taken nothing for {seconds} s");
        note(why.clone());
        Some(format!(
            "the log is not written: {why}; what waits is lost when it is more than 4 MiB\n             hint: see what reads the standard output or the pipe of `log.output`, and whether it runs"
        ))
    }

    /// Waits until all is written, or for so long: a target that blocks may do so for ever. To be
    /// called when no line follows.
    pub(super) fn finish(self, time_max: Duration) {
        self.queue.close();
        // Nothing is ever sent: it ends with the thread.
        let _ = self.ended.recv_timeout(time_max);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A write under way.
#[derive(Debug, Default)]
struct Stall {
    begun: Option<Instant>,
    /// Whether it was said that this one does not end.
    is_said: bool,
    /// When that was said last.
    said: Option<Instant>,
}

impl Stall {
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
    target: Arc<Mutex<Arc<File>>>,
    /// The file in which the last line was left without its end.
    torn: Option<Arc<File>>,
    losses: Losses,
    stall: Arc<Mutex<Stall>>,
    report: R,
}

impl<R: FnMut(LogNews)> Writer<R> {
    fn write(&mut self, batch: &[u8]) {
        // Not held while writing: the target may block for ever, and be replaced for that.
        let file = Arc::clone(&lock(&self.target));
        lock(&self.stall).begun = Some(Instant::now());
        let (written, result) = self.write_whole_lines(&file, batch);
        let had_stalled = lock(&self.stall).ended();
        let message = match &result {
            Ok(()) if self.losses.is_failing => {
                (self.report)(LogNews::Recovered);
                self.losses.recovered()
            }
            Ok(()) if had_stalled => {
                (self.report)(LogNews::Recovered);
                Some("the log is written again".to_owned())
            }
            Ok(()) => None,
            // A full disk or a reader that left: the lines are lost, connections are not.
            Err(error) => {
                let bytes = (batch.len() - written) as u64;
                let why = error.to_string();
                let message = self.losses.failed(bytes, &why, Instant::now());
                (self.report)(LogNews::Lost { bytes, why });
                message
            }
        };
        message
            .into_iter()
            .for_each(|message| (self.report)(LogNews::Message(message)));
    }

    /// How much of a batch was written. A line that another failure left without its end is ended
    /// first, so that it spoils no other.
    fn write_whole_lines(&mut self, file: &Arc<File>, batch: &[u8]) -> (usize, io::Result<()>) {
        let is_torn = self
            .torn
            .take()
            .is_some_and(|torn| Arc::ptr_eq(&torn, file));
        if is_torn && let (_, Err(error)) = write_all(file, b"\n") {
            self.torn = Some(Arc::clone(file));
            return (0, Err(error));
        }
        let (written, result) = write_all(file, batch);
        let last = written.checked_sub(1).and_then(|last| batch.get(last));
        if last.is_some_and(|byte| *byte != b'\n') {
            self.torn = Some(Arc::clone(file));
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

/// What has been lost, and what was last said of it.
#[derive(Debug, Default)]
struct Losses {
    is_failing: bool,
    /// Since the last message.
    bytes: u64,
    said: Option<Instant>,
    /// Whether the last message was that it fails.
    said_failing: bool,
}

impl Losses {
    fn failed(&mut self, bytes: u64, why: &str, now: Instant) -> Option<String> {
        self.is_failing = true;
        self.bytes += bytes;
        let is_due = |said| now.saturating_duration_since(said) >= MESSAGE_INTERVAL;
        if !self.said.is_none_or(is_due) {
            return None;
        }
        self.said = Some(now);
        self.said_failing = true;
        let bytes = std::mem::take(&mut self.bytes);
        Some(format!(
            "the log cannot be written: {why}; {bytes} bytes of lines about connections are lost\n             hint: make room or name another file, then reload or send SIGUSR1"
        ))
    }

    fn recovered(&mut self) -> Option<String> {
        self.is_failing = false;
        if !std::mem::take(&mut self.said_failing) {
            return None;
        }
        let bytes = std::mem::take(&mut self.bytes);
        Some(format!(
            "the log is written again; {bytes} more bytes were lost"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Read;

    /// How long a test waits for what is bound to come.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn lines_go_where_the_target_is() {
        let (mut first, first_end) = io::pipe().unwrap();
        let (mut second, second_end) = io::pipe().unwrap();
        let log = Log::start(first_end.into(), |news| panic!("{news:?}")).unwrap();
        log.queue().append(&mut b"one\n".to_vec());
        let mut line = [0; 4];
        first.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"one\n");

        log.set_target(second_end.into());
        log.queue().append(&mut b"two\n".to_vec());
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
        let log = Log::start(full.into(), report).unwrap();
        log.queue().append(&mut b"lost\n".to_vec());
        let next = || news.recv_timeout(PATIENCE).unwrap();
        let lost = |news, expected| match news {
            LogNews::Lost { bytes, why } => {
                assert_eq!(bytes, expected);
                assert!(why.starts_with("No space left on device"), "{why}");
            }
            other => panic!("{other:?}"),
        };
        lost(next(), 5);
        assert!(matches!(next(), LogNews::Message(text) if text.contains("; 5 bytes")));
        log.queue().append(&mut b"as well\n".to_vec());
        lost(next(), 8);
        let (mut reader, end) = io::pipe().unwrap();
        log.set_target(end.into());
        log.queue().append(&mut b"kept\n".to_vec());
        assert_eq!(next(), LogNews::Recovered);
        assert!(matches!(next(), LogNews::Message(text) if text.contains("; 8 more bytes")));
        log.finish(PATIENCE);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "kept\n");
    }

    #[test]
    fn a_line_that_was_cut_spoils_no_other() {
        let (mut reader, writer) = io::pipe().unwrap();
        let file = Arc::new(File::from(OwnedFd::from(writer)));
        let mut writer = Writer {
            target: Arc::new(Mutex::new(Arc::clone(&file))),
            torn: None,
            losses: Losses::default(),
            stall: Arc::default(),
            report: drop,
        };
        // As after a failure in the middle of a line.
        writer.write(b"whole\ncu");
        writer.write(b"next\n");
        drop((writer, file));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "whole\ncu\nnext\n");
    }

    #[test]
    fn a_target_that_blocks_holds_nobody() {
        let (_reader, end) = io::pipe().unwrap();
        let log = Log::start(end.into(), drop).unwrap();
        log.queue().append(&mut vec![b'x'; 1 << 20]);
        log.finish(Duration::from_millis(1));
    }

    #[test]
    fn a_target_that_takes_nothing_is_said_once_until_it_takes_lines_again() {
        let (mut reader, end) = io::pipe().unwrap();
        let (reports, news) = channel();
        let report = move |news| reports.send(news).unwrap();
        let log = Log::start(end.into(), report).unwrap();
        log.queue().append(&mut vec![b'x'; 1 << 20]);
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
        assert!(matches!(next(), LogNews::Message(text) if text.contains("written again")));
        assert_eq!(log.stalled(later, |why| notes.push(why)), None);
        log.finish(PATIENCE);
    }

    #[test]
    fn a_log_that_fails_and_recovers_in_turn_floods_nobody() {
        let (mut losses, now) = (Losses::default(), Instant::now());
        let mut messages = 0;
        for _ in 0..100 {
            messages += usize::from(losses.failed(1, "full", now).is_some());
            messages += usize::from(losses.recovered().is_some());
        }
        assert_eq!(messages, 2);
        let said = losses.failed(1, "full", now + MESSAGE_INTERVAL).unwrap();
        assert!(said.contains("; 100 bytes"), "{said}");
    }
}
