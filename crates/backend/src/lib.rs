//! Pure choice of a server: balance, health state, affinity. No socket, no clock.
#![forbid(unsafe_code)]

pub mod options;
