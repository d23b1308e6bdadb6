//! The supervisor's console, on the standard error.

use std::fmt::Display;

use config::Diagnostic;

use super::failure::Failure;
use crate::server_target::Name;
use crate::stderr;

/// Nothing waits for the reader of this.
pub(super) fn say(text: impl Display) {
    stderr::write_line(format_args!("lariat: {text}"));
}

pub(super) fn say_each(diagnostics: &[Diagnostic], colour: bool) {
    for diagnostic in diagnostics {
        stderr::write_line(diagnostic.render(colour));
    }
}

pub(super) fn say_failed(name: &Name, why: &str) {
    say(format_args!("warning: cannot resolve {name}: {why}"));
}

pub(super) fn say_kept_log(failure: &Failure) {
    say(format_args!("error: {failure}; the log goes where it went"));
}

/// What the worker process says of a plan.
pub(super) fn say_warnings(warnings: &[String]) {
    for warning in warnings {
        say(format_args!("warning: {}", printable(warning)));
    }
}

/// What the worker process says reaches a terminal.
pub(super) fn printable(text: &str) -> String {
    telemetry::printable::lines(text).to_string()
}
