//! The worker process: drops its rights, takes a plan from the supervisor, and serves it.
//!
//! `proxy`'s threads serve connections; the modules here connect them with the supervisor.
//! `sandbox` drops the rights; `supervisor_link` receives the supervisor's orders for the control
//! thread (`control`), which also takes turns with the worker processes before and after this one;
//! `plan` builds plans, with stored sessions (`sessions`). Beside connections run the checks of
//! servers (`health`), the watch on certificates that expire (`tls_findings`), the thread that
//! writes the connection log (`log`), and those that share sessions with other hosts (`cluster`,
//! `store`); `dial` makes their connections.

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

use crate::handover::{SupervisorOrder, WORKER_NAME, WorkerAnswer};
use crate::messages;

use supervisor_link::{next, say};

/// Carries out the orders of the supervisor at the other end of the standard input, until it orders
/// the end or is gone.
///
/// The process's first thread must call this before it starts another.
pub(crate) fn run() -> ExitCode {
    messages::end_of_helper(WORKER_NAME, serve())
}

/// Minimum size of freed memory that is returned to the kernel: that of connection buffers, of
/// which there are thousands when as many clients connect at once.
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
    // Folders to serve come with the plan.
    drop(roots);
    let rights = match given_up {
        Ok(rights) => rights,
        Err(message) => return say(&channel, &WorkerAnswer::Stuck(message)),
    };
    say(&channel, &WorkerAnswer::Entered(rights))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(control::run(channel, rights, usage))
}
