//! A TLS client that controls every factor of the handshake, and load from many such clients.
//!
//! Handles the plan of a load, its clock and its clients; writes no file and prints nothing. The
//! crate knows only the standards of the server under load: it names no part of the data plane.
#![forbid(unsafe_code)]

pub mod arrival;
pub mod capacity;
mod channel;
mod client_pool;
mod connection;
pub mod ech;
pub mod failure;
mod http;
pub mod observe;
pub mod options;
pub mod outcome;
pub mod plan;
mod recorder;
pub mod run;
mod scheduler;
pub mod speed;
mod tally;
pub(crate) mod tls;
mod transaction;
mod worker;
