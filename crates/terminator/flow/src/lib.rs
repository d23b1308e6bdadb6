//! One connection as a pure state machine: bytes, events and `now` in; bytes and actions out.
#![forbid(unsafe_code)]

mod back_end;
pub mod buffer;
pub mod connection;
pub mod events;
pub mod facts;
mod front_end;
pub mod options;
mod record_sizing;
mod relay;
mod state;
