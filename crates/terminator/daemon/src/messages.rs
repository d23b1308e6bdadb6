//! What this program says while it serves, on the standard error: in the form that its reader
//! takes.
//!
//! Owns which form that is. The forms are `telemetry::message`'s, and how lines get to the standard
//! error without waiting for a reader is `stderr`'s.

use std::backtrace::Backtrace;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use config::MessageForm;
use serde::{Deserialize, Serialize};
use telemetry::message::{Level, Message};

use crate::stderr;

/// How a message is written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Form {
    /// For a person: without time.
    Plain,
    /// With time and level before each line.
    Text,
    /// One JSON object per message.
    Json,
    /// With priorities, for journald.
    Priority,
}

/// Of this process; every command but `serve` talks to a person.
static FORM: Mutex<Form> = Mutex::new(Form::Plain);

impl Form {
    /// What suits the reader of the standard error.
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

/// Writes in the form that a configuration names from now on.
pub(crate) fn configure(form: MessageForm) {
    set_form(match form {
        MessageForm::Auto => Form::of_reader(),
        MessageForm::Plain => Form::Plain,
        MessageForm::Text => Form::Text,
        MessageForm::Json => Form::Json,
    });
}

/// Writes in this form from now on.
pub(crate) fn set_form(form: Form) {
    *FORM.lock().unwrap_or_else(PoisonError::into_inner) = form;
}

/// How messages are written now.
pub(crate) fn form() -> Form {
    *FORM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says something. Nothing waits for the reader of this.
pub(crate) fn say(level: Level, text: impl Display) {
    stderr::write(written(level, &text.to_string()));
}

/// Says a text that may begin with its level.
pub(crate) fn say_labelled(text: &str) {
    let (level, rest) = Level::split(text).unwrap_or((Level::Error, text));
    say(level, rest);
}

/// Something as it is said now, with a line feed.
pub(crate) fn written(level: Level, text: &str) -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let time_us = since_epoch.unwrap_or_default().as_micros();
    let message = Message {
        time_us: u64::try_from(time_us).unwrap_or(u64::MAX),
        level,
        text,
    };
    match form() {
        Form::Plain => message.plain(),
        Form::Text => message.text(),
        Form::Json => message.json(),
        Form::Priority => message.priority(),
    }
}

/// That lines found no place in the queue.
pub(crate) fn lines_lost(count: u64) -> String {
    let text = format!("{count} messages were lost: the standard error was not read");
    written(Level::Warning, &text)
}

/// Has panics say what they have to say without waiting for a reader: the process is to end.
pub(crate) fn never_wait_in_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed");
        let backtrace = Backtrace::capture();
        let text = format!("thread `{name}` {panic}\n{backtrace}");
        stderr::write_last_words(written(Level::Error, &text));
    }));
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
