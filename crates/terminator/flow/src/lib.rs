//! One connection as a pure state machine: bytes, events and `now` in; bytes and actions out.
#![forbid(unsafe_code)]

pub mod actions;
mod announce;
pub mod buffer;
pub mod connection;
pub mod facts;
mod growth;
mod offload;
mod opening;
pub mod options;
mod relay;
mod stage;
