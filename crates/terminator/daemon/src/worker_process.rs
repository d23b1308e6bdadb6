//! The worker process: gives up its rights, takes a plan from the supervisor, and serves it.
//!
//! The threads that serve connections are `proxy`'s. All between them is here: `sandbox` gives the
//! rights up; `supervisor_link` receives the supervisor's orders, which the control thread
//! (`control`) carries out, which also takes turns with the worker processes before and after this
//! one; `plan` builds a plan of them, with stored sessions (`sessions`). Beside connections run the
//! checks of servers (`health`), of certificates that end (`tls_findings`), the thread that
//! writes lines about connections (`log`), and those that share sessions with other hosts
//! (`cluster`, `store`); what of these connects does so by `dial`.

mod cluster;
mod control;
mod dial;
mod health;
mod key_link;
mod log;
mod plan;
pub(crate) mod sandbox;
mod sessions;
mod store;
mod supervisor_link;
pub(crate) mod tls_findings;

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;

use sys::channel::Channel;
use sys::usage::{self, Usage};

use crate::handover::{Answer, SupervisorOrder, WORKER_NAME};
use crate::messages;

use supervisor_link::{next, say};

/// Serves what the supervisor at the other end of the standard input says, until it says to end
/// or is gone.
///
/// To be called by the process's first thread before it starts another.
pub(crate) fn run() -> ExitCode {
    messages::end_of_helper(WORKER_NAME, serve())
}

/// From which size on what is freed goes back to the kernel: that of the buffers of connections,
/// which come by the thousand when as many clients come at once.
const RETURNED_FROM_BYTES: u32 = 16 << 10;

fn serve() -> io::Result<()> {
    sandbox::begin(WORKER_NAME)?;
    usage::return_when_freed(RETURNED_FROM_BYTES);
    let channel = Arc::new(Channel::from(io::stdin().as_fd().try_clone_to_owned()?));
    let Some(first) = next(&channel)? else {
        return Ok(());
    };
    let (SupervisorOrder::Enter(confinement, connect_rights), roots) = (first.order, first.fds)
    else {
        return Err(io::Error::other("the supervisor began with another order"));
    };
    let usage = Usage::of_this_process();
    let given_up = sandbox::give_up(&confinement, &connect_rights, &roots);
    // Those to be served come with the plan.
    drop(roots);
    let rights = match given_up {
        Ok(rights) => rights,
        Err(message) => return say(&channel, &Answer::Stuck(message)),
    };
    say(&channel, &Answer::Entered(rights))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(control::run(channel, rights, usage))
}
