//! `lariat drain`: tells the running one to accept no more, and waits until it has ended.

use std::time::Duration;

use sys::signal::Signal;
use telemetry::catalogue::ServiceGauge;

use super::control::{ControlError, RunningLariat};
use crate::admin::RunState;
use crate::commands::args::StatusSocket;
use crate::commands::console::{Console, print};
use crate::commands::exit::Exit;

/// The time between looks at the process.
const WAIT: Duration = Duration::from_secs(60);

pub(super) fn run(socket: &StatusSocket, console: Console) -> Exit {
    match drained(socket, console) {
        Ok(()) => {
            print("drained: it has ended\n");
            Exit::Success
        }
        Err(error) => error.tell(console),
    }
}

/// Ends when the supervisor does, which its own deadline (`process.drain`) bounds.
fn drained(socket: &StatusSocket, console: Console) -> Result<(), ControlError> {
    let RunningLariat { document, supervisor, .. } = RunningLariat::find(socket, console)?;
    if document.process.state == RunState::Draining {
        console.say("it drains already; a signal to it would end it at once");
    } else {
        // Not the one by which a service manager restarts it: this one is not to come back.
        supervisor.signal(Signal::Interrupt)?;
    }
    let services = document.services.iter();
    let counts = services.map(|one| one.metrics.get(ServiceGauge::ConnectionsOpen));
    let open = counts.fold(0, u64::saturating_add);
    if open > 0 {
        console.say(format_args!(
            "waiting for {open} open connections; the last message of lariat says how many the \
             deadline cut"
        ));
    }
    while !supervisor.has_ended_within(WAIT) {}
    Ok(())
}
