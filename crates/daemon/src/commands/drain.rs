//! `lariat drain`: tells the running one to accept no more, and waits until it has ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sys::signal::Signal;

use super::peer::{self, PeerError, Supervisor};
use crate::exit::Exit;
use crate::talk::{Talk, print};

/// From one look at the process to the next.
const PAUSE: Duration = Duration::from_millis(25);

pub(super) fn run(socket: Option<PathBuf>, talk: Talk) -> Exit {
    match drained(&peer::socket(socket), talk) {
        Ok(()) => {
            print("drained: it has ended\n");
            Exit::Success
        }
        Err(error) => error.tell(talk),
    }
}

/// Ends when the supervisor does, which its own deadline (`process.drain`) bounds.
fn drained(path: &Path, talk: Talk) -> Result<(), PeerError> {
    let document = peer::document(path)?;
    let mut supervisor = Supervisor::of(&document)?;
    supervisor.signal(Signal::Terminate)?;
    let open: u64 = document
        .services
        .iter()
        .map(|service| service.connections.open)
        .sum();
    if open > 0 {
        talk.say(format_args!("waiting for {open} open connections"));
    }
    while !supervisor.has_ended() {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
