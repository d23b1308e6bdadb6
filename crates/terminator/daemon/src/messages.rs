//! Messages of this program while it serves: on the standard error, in the form that its reader
//! takes, or to a log daemon.
//!
//! Owns the choice among them and the way to the standard error, on which nobody waits: the reader
//! of a pipe may stop, the pipe fills, and a write to it never returns. So the supervisor leaves
//! its lines in a queue of limited size, and a thread writes them. `telemetry::message` writes the
//! forms; `sender` sends messages to a log daemon without waiting either.

pub(crate) mod sender;

use std::backtrace::Backtrace;
use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::{ControlOptions, MessageForm};
use sys::{file, log_socket};
use telemetry::message::LogLevel;

use sender::{LogMessage, MessageSender};

/// How long the end of the program waits for a log daemon, and it or a thread that panicked for a
/// reader of the standard error.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// How a message is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MessageStyle {
    /// For a person: without time.
    Plain,
    /// With time and level before each line.
    Text,
    /// One JSON object per message.
    Json,
    Priority,
}

/// The variable by which a process that the supervisor starts is given its form.
const FORM_VARIABLE: &str = "LARIAT_MESSAGE_FORM";

/// The form of this process's messages; every command but `serve` talks to a person.
static FORM: Mutex<MessageStyle> = Mutex::new(MessageStyle::Plain);

/// The log daemon that messages go to, if one is configured.
static SENDER: Mutex<Option<MessageSender>> = Mutex::new(None);

impl MessageStyle {
    /// The form that suits the reader of the standard error.
    fn of_reader() -> Self {
        if is_journal() {
            Self::Priority
        } else if io::stderr().is_terminal() {
            Self::Plain
        } else {
            Self::Text
        }
    }
}

/// Writes in the form that suits the reader from now on, until a configuration names one.
pub(crate) fn suit_reader() {
    *lock(&FORM) = MessageStyle::of_reader();
}

/// From now on, messages go where a configuration says, in the form that it names.
pub(crate) fn configure(control: &ControlOptions) {
    *lock(&FORM) = match control.messages {
        MessageForm::Auto => MessageStyle::of_reader(),
        MessageForm::Plain => MessageStyle::Plain,
        MessageForm::Text => MessageStyle::Text,
        MessageForm::Json => MessageStyle::Json,
    };
    let mut sender = lock(&SENDER);
    let daemon = &control.messages_daemon;
    if sender.as_ref().map(|sender| &sender.daemon) == daemon.as_ref() {
        return;
    }
    *sender = None;
    if let Some(daemon) = daemon {
        match MessageSender::start(daemon.clone(), |said| write_lines(in_form(said))) {
            Ok(started) => *sender = Some(started),
            Err(error) => write(
                LogLevel::Warning,
                &format!("messages go to the standard error: cannot start a thread: {error}"),
            ),
        }
    }
}

/// Whether messages go to a log daemon.
pub(crate) fn has_daemon() -> bool {
    lock(&SENDER).is_some()
}

/// Waits until the log daemon has all messages, and the standard error what that did not take; not
/// long for either. To be called before the program ends.
pub(crate) fn flush() {
    if let Some(sender) = &*lock(&SENDER) {
        sender.flush(FLUSH_TIME_MAX);
    }
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_TIME_MAX);
    }
}

/// For the environment of processes that say their last words in the form of this one.
pub(crate) fn form_variable() -> (&'static str, String) {
    (FORM_VARIABLE, format!("{:?}", form()))
}

/// Writes in the form of the process that has started this one, if that is a supervisor.
pub(crate) fn inherit_form() {
    let name = std::env::var(FORM_VARIABLE).unwrap_or_default();
    let forms =
        [MessageStyle::Plain, MessageStyle::Text, MessageStyle::Json, MessageStyle::Priority];
    let found = forms.into_iter().find(|form| format!("{form:?}") == name);
    found.into_iter().for_each(|form| *lock(&FORM) = form);
}

/// How a process of this name, which serves the supervisor, ends.
pub(crate) fn end_of_helper(name: &str, ended: io::Result<()>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{name}: {error}");
            write_last_words(written(LogLevel::Error, &text));
            ExitCode::FAILURE
        }
    }
}

/// How messages are written now.
pub(crate) fn form() -> MessageStyle {
    *lock(&FORM)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says something. Nothing waits for the reader of this.
pub(crate) fn say(level: LogLevel, text: impl Display) {
    let text = text.to_string();
    if !send(level, &text) {
        write(level, &text);
    }
}

/// Leaves a message to the log daemon; `false` = none is configured, or its queue is full.
pub(crate) fn send(level: LogLevel, text: &str) -> bool {
    let sender = lock(&SENDER);
    sender.as_ref().is_some_and(|sender| sender.send(said(level, text)))
}

/// Says something on the standard error.
pub(crate) fn write(level: LogLevel, text: &str) {
    write_lines(written(level, text));
}

/// Says a text that may begin with its level; else it is a notice.
pub(crate) fn say_labelled(text: &str) {
    let (level, rest) = LogLevel::split(text).unwrap_or((LogLevel::Notice, text));
    say(level, rest);
}

pub(crate) fn note(text: impl Display) {
    say(LogLevel::Notice, text);
}

pub(crate) fn warn(text: impl Display) {
    say(LogLevel::Warning, text);
}

pub(crate) fn error(text: impl Display) {
    say(LogLevel::Error, text);
}

/// Text of another process, made fit for a terminal.
pub(crate) fn printable(text: &str) -> String {
    telemetry::printable::lines(text).to_string()
}

/// Something as it is said now, with a line feed.
fn written(level: LogLevel, text: &str) -> String {
    in_form(&said(level, text))
}

fn said(level: LogLevel, text: &str) -> LogMessage {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let time_us = since_epoch.unwrap_or_default().as_micros();
    LogMessage { time_us: u64::try_from(time_us).unwrap_or(u64::MAX), level, text: text.to_owned() }
}

fn in_form(said: &LogMessage) -> String {
    let message = said.message();
    match form() {
        MessageStyle::Plain => message.plain(),
        MessageStyle::Text => message.text(),
        MessageStyle::Json => message.json(),
        MessageStyle::Priority => message.priority(),
    }
}

/// The message that lines found no place in the queue.
fn lines_lost(count: u64) -> String {
    let text = format!("{count} messages were lost: the standard error did not take them");
    written(LogLevel::Warning, &text)
}

/// Lets panics write their message without waiting for a reader, because the process is to end.
pub(crate) fn never_wait_in_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed");
        let backtrace = Backtrace::capture();
        let text = format!("thread `{name}` {panic}\n{backtrace}");
        write_last_words(written(LogLevel::Error, &text));
    }));
}

/// Begins a stream to the journal as sd_journal_stream_fd(3) does: our name, no unit, the priority
/// of lines that name none, that lines may name theirs, and that none goes elsewhere.
const JOURNAL_GREETING: &[u8] = b"lariat\n\n6\n1\n0\n0\n0\n";

/// The standard error for a process that may fall into an attacker's hands: where it can be, an
/// open file of its own, so that nothing done to it silences ours.
pub(crate) fn standard_error_for_another() -> io::Result<OwnedFd> {
    let own = io::stderr();
    if is_journal()
        && let Ok(stream) = log_socket::open_another(&own, JOURNAL_GREETING)
    {
        return Ok(stream);
    }
    file::to_write_only(own.as_fd())
}

/// Whether the standard error is the journal, by the device and inode that the service manager has
/// named (systemd.exec(5), `$JOURNAL_STREAM`): a program that was started by a service and has
/// another standard error has inherited the variable.
fn is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").ok();
    let ours = std::fs::metadata("/proc/self/fd/2").ok();
    let Some((named, ours)) = named.zip(ours) else {
        return false;
    };
    named == format!("{}:{}", ours.dev(), ours.ino())
}

/// Bytes of lines that wait. A refused configuration has a few kilobytes of diagnostics; who reads
/// nothing for longer than this lasts has lost interest.
const QUEUE_BYTES_MAX: usize = 1 << 20;

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Writes a line, or leaves it for the thread that [`write_in_background`] has started. If nobody
/// reads it any more, that is their choice.
pub(crate) fn write_line(line: impl Display) {
    write_lines(format!("{line}\n"));
}

/// The same of whole lines, each with its end.
fn write_lines(lines: String) {
    match QUEUE.get() {
        Some(queue) => queue.put(lines),
        None => drop(StandardError.write_all(lines.as_bytes())),
    }
}

/// From now on lines are written by a thread. To be called after signals have been blocked.
///
/// # Errors
/// No thread can be started.
pub(crate) fn write_in_background() -> io::Result<()> {
    let queue = Queue::start(StandardError, lines_lost)?;
    // A second call leaves an idle thread behind, and nothing else.
    let _ = QUEUE.set(queue);
    Ok(())
}

/// Writes why this process is about to end; if nobody reads it, it ends all the same.
fn write_last_words(text: String) {
    write_within(StandardError, text, FLUSH_TIME_MAX);
}

/// Writes for so long at most; a write that does not return is left to a thread.
fn write_within(mut target: impl Write + Send + 'static, text: String, time_max: Duration) {
    let (done, is_done) = mpsc::channel();
    let write = move || {
        let _ = target.write_all(text.as_bytes());
        let _ = done.send(());
    };
    if thread::Builder::new().spawn(write).is_ok() {
        let _ = is_done.recv_timeout(time_max);
    }
}

/// Waits for its reader whatever another process that shares it has set, because a line that is
/// refused for want of room would be lost unseen.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        file::write_waiting(io::stderr(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines under way to one target.
#[derive(Clone, Debug)]
struct Queue(Arc<(Mutex<UnwrittenLines>, Condvar)>);

#[derive(Debug, Default)]
struct UnwrittenLines {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that found no place since this was last said.
    lost: u64,
    is_writing: bool,
}

impl Queue {
    fn start(mut target: impl Write + Send + 'static, lost: fn(u64) -> String) -> io::Result<Self> {
        let queue = Self(Arc::default());
        let of_thread = queue.clone();
        let write = move || {
            // Lines that the target did not take. They are said before the next one, and not at
            // once, because a reader may have left for good.
            let mut refused = 0;
            loop {
                let line = of_thread.next(lost);
                if refused > 0 && target.write_all(lost(refused).as_bytes()).is_ok() {
                    refused = 0;
                }
                refused += u64::from(target.write_all(line.as_bytes()).is_err());
            }
        };
        thread::Builder::new().name("stderr".to_owned()).spawn(write)?;
        Ok(queue)
    }

    fn put(&self, line: String) {
        let mut waiting = self.lock();
        if waiting.bytes + line.len() > QUEUE_BYTES_MAX {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        self.0.1.notify_all();
    }

    /// The next line to write, once there is one. The one before it has been written.
    fn next(&self, lost: fn(u64) -> String) -> String {
        let mut waiting = self.lock();
        waiting.is_writing = false;
        self.0.1.notify_all();
        let is_idle = |waiting: &mut UnwrittenLines| waiting.lines.is_empty() && waiting.lost == 0;
        let waited = self.0.1.wait_while(waiting, is_idle);
        waiting = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.is_writing = true;
        match waiting.lines.pop_front() {
            Some(line) => {
                waiting.bytes -= line.len();
                line
            }
            None => lost(std::mem::take(&mut waiting.lost)),
        }
    }

    fn flush(&self, time_max: Duration) {
        let is_busy = |waiting: &mut UnwrittenLines| {
            waiting.is_writing || !waiting.lines.is_empty() || waiting.lost > 0
        };
        let condition = &self.0.1;
        // Whatever has not been written by then is lost with the process.
        drop(condition.wait_timeout_while(self.lock(), time_max, is_busy));
    }

    /// A thread that panicked has ended the process.
    fn lock(&self) -> MutexGuard<'_, UnwrittenLines> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// How long a test waits for what is bound to come.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn lines_arrive_in_order_before_the_flush_returns() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = Queue::start(writer, |lost| format!("{lost} were lost\n")).unwrap();
        (0..100).for_each(|number| queue.put(format!("{number}\n")));
        queue.flush(PATIENCE);
        let lines = BufReader::new(reader).lines().take(100);
        let read: Vec<String> = lines.map(Result::unwrap).collect();
        let expected: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_reader_that_stops_holds_nobody_and_hears_how_many_lines_it_lost() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = Queue::start(writer, |lost| format!("{lost} were lost\n")).unwrap();
        let line = format!("{}\n", "x".repeat(1023));
        // The pipe and the queue hold less than half of them.
        let count = 4 * QUEUE_BYTES_MAX / line.len();
        (0..count).for_each(|_| queue.put(line.clone()));
        queue.flush(Duration::from_millis(1));
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let kept = lines.by_ref().take_while(|one| one.starts_with('x'));
        // `take_while` also takes the first line that is another.
        let kept = kept.count();
        assert!(kept < count);
        queue.put("the next\n".to_owned());
        assert_eq!(lines.next().unwrap(), "the next");
        assert_eq!(queue.lock().lost, 0);
    }

    #[test]
    fn lines_that_are_refused_for_a_while_are_counted_and_said() {
        /// A disk that is full for the first lines.
        struct Full(u32, io::PipeWriter);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.saturating_sub(1);
                if self.0 > 0 {
                    Err(io::ErrorKind::StorageFull.into())
                } else {
                    self.1.write(bytes)
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (reader, writer) = io::pipe().unwrap();
        // Three lines, and two attempts to say that some were lost.
        let full = Full(6, writer);
        let queue = Queue::start(full, |lost| format!("{lost} were lost\n")).unwrap();
        (0..4).for_each(|number| queue.put(format!("{number}\n")));
        let lines = BufReader::new(reader).lines().take(2);
        let read: Vec<String> = lines.map(Result::unwrap).collect();
        assert_eq!(read, ["3 were lost", "3"]);
    }

    #[test]
    fn the_last_words_of_a_panic_wait_for_nobody() {
        let (_reader, writer) = io::pipe().unwrap();
        write_within(writer, "x".repeat(1 << 20), Duration::from_millis(1));
    }
}
