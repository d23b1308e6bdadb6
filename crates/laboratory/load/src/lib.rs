//! A TLS client that controls every factor of the handshake, and load made of many of them.
//!
//! Owns the plan of a load, its clock and its clients; writes no file and prints nothing. It knows
//! nothing of what it loads but the standards: no room of the data plane is named here.
#![forbid(unsafe_code)]

pub mod arrival;
pub mod capacity;
mod channel;
mod client_pool;
mod clock;
mod connection;
mod deadlines;
mod dialler;
pub mod failure;
mod library;
pub mod observe;
pub mod options;
pub mod outcome;
pub mod plan;
mod recorder;
mod reply;
mod request;
mod rest;
pub mod run;
mod scheduler;
mod slot;
pub mod speed;
pub mod start_fault;
mod tally;
mod thread_context;
mod tls;
mod transaction;
mod warnings;
mod worker;
