//! The only crate with unsafe code: sockets, epoll, affinity, sandbox, signals.
//!
//! Thin and without policy: a function here is one operation of the kernel with a safe signature.
//! Safe functions of std or rustix are used directly.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod beneath;
pub mod channel;
pub mod clock;
pub mod cpu;
pub mod datagram;
pub mod dns;
pub mod epoll;
pub mod file;
pub mod image;
pub mod inherited;
pub mod ktls;
pub mod log_socket;
pub mod memory;
pub mod packet;
pub mod peer;
pub mod process;
pub mod sandbox;
pub mod signal;
pub mod socket;
pub mod transfer;
pub mod usage;

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits for one of these events of a descriptor and returns those that occurred; none if the time
/// is over. `None`, or a time that the kernel cannot express (292 billion years), waits without
/// limit.
fn wait_for(
    fd: impl AsFd,
    events: PollFlags,
    time_max: Option<Duration>,
) -> Result<PollFlags, Errno> {
    let time_max = time_max.and_then(|time| Timespec::try_from(time).ok());
    let mut fds = [PollFd::new(&fd, events)];
    poll(&mut fds, time_max.as_ref())?;
    Ok(fds[0].revents())
}

/// Checks the result of a system call made through libc: 0 or more, or -1 and `errno`.
fn checked(answer: libc::c_int) -> std::io::Result<libc::c_int> {
    if answer < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(answer)
}
