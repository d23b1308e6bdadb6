//! How a supervisor's end is told, and what it means for the program.

use telemetry::message::Level;

use crate::console::Console;
use crate::exit::Exit;
use crate::messages::{self, Form};
use crate::supervisor::Failure;

/// Says why the supervisor ended, and what that means for the program.
pub(crate) fn end_of(ended: Result<(), Failure>, console: Console) -> Exit {
    let Err(failure) = ended else {
        return Exit::Success;
    };
    report(&failure, console);
    exit_of(&failure)
}

pub(crate) fn exit_of(failure: &Failure) -> Exit {
    match failure {
        Failure::Config(_)
        | Failure::Plan(_)
        | Failure::Missing(_)
        | Failure::HandedOver(_)
        | Failure::Right(_)
        | Failure::File { .. } => Exit::Usage,
        Failure::Listen(_) | Failure::StatusSocket(_) => Exit::Listen,
        Failure::Host { .. }
        | Failure::Slow { .. }
        | Failure::ReaderDied(_)
        | Failure::ReadersStuck(_)
        | Failure::Rights(_)
        | Failure::Upgrade(_)
        | Failure::Died { .. } => Exit::Failed,
    }
}

/// The one who started the program reads the standard error; its log daemon is told as well.
fn report(failure: &Failure, console: Console) {
    let is_plain = messages::form() == Form::Plain;
    let say = |level, text: &str| {
        messages::send(level, text);
        if !is_plain {
            messages::write(level, text);
        }
    };
    match failure {
        Failure::Config(diagnostics) => {
            for one in diagnostics {
                let text = one.to_string();
                let (level, rest) = Level::split(&text).unwrap_or((Level::Error, &text));
                say(level, rest);
            }
            if is_plain {
                console.diagnostics(diagnostics);
            }
        }
        Failure::Plan(text) => {
            let (level, rest) = Level::split(text).unwrap_or((Level::Error, text));
            say(level, rest);
            if is_plain {
                console.refusal(text);
            }
        }
        other => {
            say(Level::Error, &other.to_string());
            if is_plain {
                console.error(other);
            }
        }
    }
}
