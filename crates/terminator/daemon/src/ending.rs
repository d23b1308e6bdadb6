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
    match (&failure, messages::form()) {
        (Failure::Config(diagnostics), Form::Plain) => console.diagnostics(diagnostics),
        (Failure::Config(diagnostics), _) => diagnostics
            .iter()
            .for_each(|one| messages::say_labelled(&one.to_string())),
        (other, Form::Plain) => console.error(other),
        (other, _) => messages::say(Level::Error, other),
    }
    match failure {
        Failure::Config(_)
        | Failure::Plan(_)
        | Failure::User(_)
        | Failure::HandedOver(_)
        | Failure::Root(_)
        | Failure::Reach(_)
        | Failure::Folder { .. }
        | Failure::File { .. } => Exit::Usage,
        Failure::Listen(_) | Failure::StatusSocket(_) => Exit::Listen,
        Failure::Takeover(_) => Exit::Refused,
        Failure::Host { .. }
        | Failure::Slow { .. }
        | Failure::ReaderDied(_)
        | Failure::ReadersStuck(_)
        | Failure::Rights(_)
        | Failure::Died { .. } => Exit::Failed,
    }
}
