//! The only unsafe code: sockets, epoll, affinity, sandbox, signals.
//!
//! Thin and without policy: a function here is one thing that the kernel does, with a safe
//! signature. What std or rustix offers safely is used from there.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod beneath;
pub mod brood;
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
pub mod limit;
pub mod log_socket;
pub mod packet;
pub mod peer;
pub mod process;
pub mod sandbox;
pub mod shared;
pub mod signal;
pub mod socket;
pub mod transfer;
pub mod usage;
pub mod wake;
pub mod watch;
pub mod words;

/// Checks the answer of a system call that is made through libc: 0 or more, or -1 and `errno`.
fn checked(answer: libc::c_int) -> std::io::Result<libc::c_int> {
    if answer < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(answer)
}
