//! The supervisor's talk, on the standard error.

use std::fmt::Display;
use std::io::{self, Write};

use config::Diagnostic;

use crate::resolve::{Name, Resolution};

/// Talk goes to stderr; if nobody listens any more, we serve on.
pub(super) fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "lariat: {text}");
}

pub(super) fn say_each(diagnostics: &[Diagnostic], colour: bool) {
    for diagnostic in diagnostics {
        let _ = writeln!(io::stderr(), "{}", diagnostic.render(colour));
    }
}

pub(super) fn say_failed(news: &Resolution) {
    if let Resolution::Failed(Name { host, port }, why) = news {
        say(format_args!("warning: cannot resolve {host}:{port}: {why}"));
    }
}

/// What the data process says of a plan.
pub(super) fn say_warnings(warnings: &[String]) {
    for warning in warnings {
        say(format_args!("warning: {}", printable(warning)));
    }
}

/// What the data process says reaches a terminal.
pub(super) fn printable(text: &str) -> String {
    telemetry::printable::lines(text).to_string()
}
