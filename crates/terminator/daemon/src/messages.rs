//! Messages of this program while it serves: on the standard error, in the form that its reader
//! takes, or to a log daemon.
//!
//! Owns the choice among them. `telemetry::message` writes the forms; `stderr` and `sender` send
//! messages without waiting for a reader.

pub(crate) mod sender;
pub(crate) mod stderr;

use std::backtrace::Backtrace;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use config::{ControlOptions, MessageForm};
use sys::{file, log_socket};
use telemetry::message::Level;

use crate::messages::sender::{MessageSender, Said};

/// How long the end of the program waits for a log daemon.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// How a message is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
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
static FORM: Mutex<Form> = Mutex::new(Form::Plain);

/// The log daemon that messages go to, if one is configured.
static SENDER: Mutex<Option<MessageSender>> = Mutex::new(None);

impl Form {
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
    set_form(Form::of_reader());
}

/// From now on, messages go where a configuration says, in the form that it names.
pub(crate) fn configure(control: &ControlOptions) {
    set_form(match control.messages {
        MessageForm::Auto => Form::of_reader(),
        MessageForm::Plain => Form::Plain,
        MessageForm::Text => Form::Text,
        MessageForm::Json => Form::Json,
    });
    let mut sender = lock(&SENDER);
    let daemon = &control.messages_daemon;
    if sender.as_ref().map(|sender| &sender.daemon) == daemon.as_ref() {
        return;
    }
    *sender = None;
    if let Some(daemon) = daemon {
        match MessageSender::start(daemon.clone(), |said| stderr::write(in_form(said))) {
            Ok(started) => *sender = Some(started),
            Err(error) => write(
                Level::Warning,
                &format!("messages go to the standard error: cannot start a thread: {error}"),
            ),
        }
    }
}

/// Whether messages go to a log daemon.
pub(crate) fn has_daemon() -> bool {
    lock(&SENDER).is_some()
}

/// Waits until the log daemon has all messages, but not long. To be called before the program ends,
/// and before the standard error is flushed, which gets what it does not take.
pub(crate) fn flush() {
    if let Some(sender) = &*lock(&SENDER) {
        sender.flush(FLUSH_TIME_MAX);
    }
}

/// For the environment of processes that say their last words in the form of this one.
pub(crate) fn form_variable() -> (&'static str, String) {
    (FORM_VARIABLE, format!("{:?}", form()))
}

/// Writes in the form of the process that has started this one, if that is a supervisor.
pub(crate) fn inherit_form() {
    let name = std::env::var(FORM_VARIABLE).unwrap_or_default();
    let forms = [Form::Plain, Form::Text, Form::Json, Form::Priority];
    let found = forms.into_iter().find(|form| format!("{form:?}") == name);
    found.into_iter().for_each(set_form);
}

/// How a process of this name, which serves the supervisor, ends.
pub(crate) fn end_of_helper(name: &str, ended: io::Result<()>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{name}: {error}");
            stderr::write_last_words(written(Level::Error, &text));
            ExitCode::FAILURE
        }
    }
}

fn set_form(form: Form) {
    *lock(&FORM) = form;
}

/// How messages are written now.
pub(crate) fn form() -> Form {
    *lock(&FORM)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says something. Nothing waits for the reader of this.
pub(crate) fn say(level: Level, text: impl Display) {
    let text = text.to_string();
    if !send(level, &text) {
        write(level, &text);
    }
}

/// Leaves a message to the log daemon; `false` = none is configured, or its queue is full.
pub(crate) fn send(level: Level, text: &str) -> bool {
    let sender = lock(&SENDER);
    sender.as_ref().is_some_and(|sender| sender.send(said(level, text)))
}

/// Says something on the standard error.
pub(crate) fn write(level: Level, text: &str) {
    stderr::write(written(level, text));
}

/// Says a text that may begin with its level; else it is a notice.
pub(crate) fn say_labelled(text: &str) {
    let (level, rest) = Level::split(text).unwrap_or((Level::Notice, text));
    say(level, rest);
}

pub(crate) fn note(text: impl Display) {
    say(Level::Notice, text);
}

pub(crate) fn warn(text: impl Display) {
    say(Level::Warning, text);
}

pub(crate) fn error(text: impl Display) {
    say(Level::Error, text);
}

/// Text of another process, made fit for a terminal.
pub(crate) fn printable(text: &str) -> String {
    telemetry::printable::lines(text).to_string()
}

/// Something as it is said now, with a line feed.
pub(crate) fn written(level: Level, text: &str) -> String {
    in_form(&said(level, text))
}

fn said(level: Level, text: &str) -> Said {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let time_us = since_epoch.unwrap_or_default().as_micros();
    Said { time_us: u64::try_from(time_us).unwrap_or(u64::MAX), level, text: text.to_owned() }
}

fn in_form(said: &Said) -> String {
    let message = said.message();
    match form() {
        Form::Plain => message.plain(),
        Form::Text => message.text(),
        Form::Json => message.json(),
        Form::Priority => message.priority(),
    }
}

/// The message that lines found no place in the queue.
pub(crate) fn lines_lost(count: u64) -> String {
    let text = format!("{count} messages were lost: the standard error did not take them");
    written(Level::Warning, &text)
}

/// Lets panics write their message without waiting for a reader, because the process is to end.
pub(crate) fn never_wait_in_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed");
        let backtrace = Backtrace::capture();
        let text = format!("thread `{name}` {panic}\n{backtrace}");
        stderr::write_last_words(written(Level::Error, &text));
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
