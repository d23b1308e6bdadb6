//! Messages of the supervisor, on the standard error.

use std::fmt::Display;

use config::Diagnostic;
use telemetry::message::Level;

use super::failure::Failure;
use crate::handover::{Fence, Rights};
use crate::messages::stderr;
use crate::messages::{self, Form};

/// Says a text that may begin with its level; else it is a notice.
pub(super) fn say(text: impl Display) {
    let text = text.to_string();
    let (level, rest) = Level::split(&text).unwrap_or((Level::Notice, &text));
    messages::say(level, rest);
}

pub(super) fn warn(text: impl Display) {
    messages::say(Level::Warning, text);
}

pub(super) fn say_each(diagnostics: &[Diagnostic], colour: bool) {
    for diagnostic in diagnostics {
        if messages::form() == Form::Plain && !messages::has_daemon() {
            stderr::write_line(diagnostic.render(colour));
        } else {
            messages::say_labelled(&diagnostic.to_string());
        }
    }
}

pub(super) fn say_kept_log(failure: &Failure) {
    messages::say(Level::Error, format_args!("{failure}; the log goes where it went"));
}

/// Names what the kernel cannot take from the worker process.
pub(super) fn warn_of_rights(rights: Rights) {
    if ![rights.files, rights.tcp_ports, rights.system_calls].contains(&Fence::Absent) {
        return;
    }
    let hint = if rights.files == Fence::Absent && rights.reads_folders {
        "\nhint: start the kernel with Landlock (`lsm=landlock,...`), or a lariat apart for \
         the files, whose user owns nothing else"
    } else {
        ""
    };
    warn(format_args!("the worker process {rights}{hint}"));
}

/// Messages of the worker process about a plan: warnings, but for texts that begin with their
/// level.
pub(super) fn say_warnings(warnings: &[String]) {
    labelled(warnings).iter().for_each(say);
}

pub(super) fn say_all(messages: &[(u8, String)]) {
    for (severity, text) in messages {
        messages::say(Level::of_severity(*severity), text);
    }
}

/// The same as a status has them.
pub(super) fn labelled(warnings: &[String]) -> Vec<String> {
    let label = |text: &String| match Level::split(text) {
        Some(_) => text.clone(),
        None => format!("warning: {text}"),
    };
    warnings.iter().map(label).collect()
}

/// Text of the worker process, made fit for a terminal.
pub(super) fn printable(text: &str) -> String {
    telemetry::printable::lines(text).to_string()
}
