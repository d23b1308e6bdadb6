//! `lariat upgrade`: has another process of the program take over from the running one.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sys::channel::Channel;
use telemetry::printable::line;

use super::control::{self, ControlError};
use crate::args::StatusSocket;
use crate::console::{Console, print};
use crate::exit::Exit;
use crate::takeover::{
    PREDECESSOR_BYTES_MAX, Predecessor, Successor, decode, encode, printable, socket_path,
};

/// More than the running one waits for its successor's steps, and for a reload before them.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(480);

pub(super) fn run(socket: &StatusSocket, console: Console) -> Exit {
    let _waits = control::say_if_slow(
        console,
        "waiting for a new process to take over; the messages of the running lariat say how far it \
         is",
    );
    let answer = control::socket(socket).and_then(|path| {
        asked(&socket_path(&path)).map_err(|error| match error {
            // The socket for this command is no file that its reader would know.
            ControlError::Silent { error, .. } if UnixStream::connect(&path).is_err() => {
                ControlError::Absent { path, error }
            }
            other => other,
        })
    });
    let answer = match answer {
        Ok(bytes) => decode(&bytes),
        Err(error) => return error.tell(console),
    };
    match answer {
        Ok(Predecessor::Upgraded { pid, program }) => {
            let program = line(&program);
            print(format_args!(
                "process {pid}, lariat {program}, has taken over\n"
            ));
            Exit::Success
        }
        Ok(Predecessor::Refused { why }) => {
            console.refusal(&printable(&why));
            console.error("no new process has taken over; the running one stays");
            Exit::Refused
        }
        Ok(_) | Err(_) => {
            console
                .error("the running lariat ended, or the connection to it, before another served");
            console.hint("its standard error says why");
            Exit::Failed
        }
    }
}

/// What the running one says of its successor; nothing if it ended.
fn asked(path: &Path) -> Result<Vec<u8>, ControlError> {
    let answer = || {
        let channel = Channel::from(OwnedFd::from(UnixStream::connect(path)?));
        channel.set_receive_timeout(ANSWER_TIME_MAX)?;
        channel.send(encode(&Successor::Upgrade).bytes(), &[])?;
        let message = channel.receive_up_to(PREDECESSOR_BYTES_MAX, 0)?;
        Ok(message.unwrap_or_default().0)
    };
    answer().map_err(|error| control::unheard(path, error))
}
