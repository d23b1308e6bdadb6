//! `lariat serve`: until told to stop.

use crate::console::Console;
use crate::ending::end_of;
use crate::exit::Exit;
use crate::reader::ConfigSource;
use crate::supervisor::{self, Request, Started};

pub(super) fn run(config: ConfigSource, console: Console) -> Exit {
    let ended = supervisor::run(Request {
        config,
        started: &mut |started| tell(started, console),
        colour: console.colour(),
    });
    end_of(ended, console)
}

fn tell(started: &Started, console: Console) {
    for (service, address) in &started.listeners {
        console.say(format_args!(
            "lariat: service `{service}` listens at {address}"
        ));
    }
    if let Some(admin) = started.admin {
        console.say(format_args!("lariat: status page at http://{admin}/"));
    }
    let socket = started.status_socket.display();
    console.say(format_args!("lariat: status socket at {socket}"));
    console.say(format_args!(
        "lariat: the worker process {}",
        started.rights
    ));
}
