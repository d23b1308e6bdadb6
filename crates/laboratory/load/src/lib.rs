//! A TLS client that controls every factor of the handshake, and load made of many of them.
//!
//! Owns the plan of a load, its clock and its clients; writes no file and prints nothing. It knows
//! nothing of what it loads but the standards: no room of the data plane is named here.
#![forbid(unsafe_code)]

mod agenda;
pub mod arrival;
pub mod capacity;
mod channel;
mod clock;
mod connection;
mod crowd;
mod deadlines;
mod dialler;
mod doubts;
pub mod failure;
mod ledger;
mod library;
pub mod options;
pub mod outcome;
pub mod plan;
mod reply;
mod request;
mod rest;
pub mod run;
mod share;
mod slot;
pub mod speed;
pub mod start_fault;
mod tally;
mod tls;
mod transaction;
mod worker;
