//! A TLS client that controls every factor of the handshake, and load made of many of them.
//!
//! Owns the plan of a load, its clock and its clients; writes no file and prints nothing. It knows
//! nothing of what it loads but the standards: no room of the data plane is named here.
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
