//! How a supervisor's end is told, and what it means for the program.

use crate::exit::Exit;
use crate::supervisor::Failure;
use crate::talk::Talk;

/// Says why the supervisor ended, and what that means for the program.
pub(crate) fn end_of(ended: Result<(), Failure>, talk: Talk) -> Exit {
    let Err(failure) = ended else {
        return Exit::Success;
    };
    match &failure {
        Failure::Config(diagnostics) => talk.diagnostics(diagnostics),
        other => talk.error(other),
    }
    match failure {
        Failure::Config(_)
        | Failure::Plan(_)
        | Failure::User(_)
        | Failure::Root(_)
        | Failure::Reach(_)
        | Failure::Folder { .. }
        | Failure::File { .. } => Exit::Usage,
        Failure::Listen(_) | Failure::Place(_) => Exit::Listen,
        Failure::Host { .. }
        | Failure::Slow { .. }
        | Failure::ReaderDied(_)
        | Failure::ReadersStuck(_)
        | Failure::Rights(_)
        | Failure::Died { .. } => Exit::Failed,
    }
}
