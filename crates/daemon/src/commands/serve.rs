//! `lariat serve`: until told to stop.

use crate::exit::Exit;
use crate::supervisor::{self, Failure, Origin, Request, Started};
use crate::talk::Talk;

pub(super) fn run(origin: Origin, talk: Talk) -> Exit {
    let ended = supervisor::run(Request {
        origin,
        started: &mut |started| tell(started, talk),
        colour: talk.colour(),
    });
    end_of(ended, talk)
}

fn tell(started: &Started, talk: Talk) {
    for (service, address) in &started.listeners {
        talk.say(format_args!(
            "lariat: service `{service}` listens at {address}"
        ));
    }
    if let Some(admin) = started.admin {
        talk.say(format_args!("lariat: status page at http://{admin}/"));
    }
    let socket = started.status_socket.display();
    talk.say(format_args!("lariat: status socket at {socket}"));
    talk.say(format_args!("lariat: the data process {}", started.rights));
}

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
        Failure::Config(_) | Failure::Plan(_) | Failure::User(_) => Exit::Usage,
        Failure::Listen(_) => Exit::Listen,
        Failure::Host { .. } | Failure::Rights(_) | Failure::Died { .. } => Exit::Failed,
    }
}
