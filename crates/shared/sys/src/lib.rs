//! The only unsafe code: sockets, epoll, affinity, sandbox, signals.
//!
//! Thin and without policy: a function here is one thing that the kernel does, with a safe
//! signature. What std or rustix offers safely is used from there.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod answer;
pub mod beneath;
pub mod channel;
pub mod clock;
pub mod cpu;
pub mod datagram;
pub mod dns;
pub mod epoll;
pub mod file;
pub mod inherited;
pub mod io_uring;
pub mod ktls;
pub mod limit;
pub mod log_socket;
pub mod memory;
pub mod own_name;
pub mod peer;
pub mod process;
pub mod sandbox;
pub mod shared;
pub mod signal;
pub mod socket;
pub mod timer;
pub mod transfer;
pub mod usage;
pub mod wake;
pub mod watch;
pub mod words;
