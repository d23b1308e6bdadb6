//! `lariat serve`: until told to stop.

use crate::ending::end_of;
use crate::exit::Exit;
use crate::reader::Origin;
use crate::supervisor::{self, Request, Started};
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
    talk.say(format_args!(
        "lariat: the worker process {}",
        started.rights
    ));
}
