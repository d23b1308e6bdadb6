//! Chooses a server: balance, health state, affinity. No socket, no clock.
//!
//! Decides where a connection goes; the crates above dial and probe, and report the outcome.
#![forbid(unsafe_code)]

pub mod affinity;
pub mod options;
pub mod places;
pub mod pool;
pub mod server;
