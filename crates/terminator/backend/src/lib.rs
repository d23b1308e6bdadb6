//! Pure choice of a server: balance, health state, affinity. No socket, no clock.
//!
//! Owns what decides where a connection goes; dialling and probing are done by the crates above,
//! which report the outcome.
#![forbid(unsafe_code)]

pub mod affinity;
pub mod options;
pub mod places;
pub mod pool;
pub mod server;
