//! One connection as a pure state machine: bytes, events and `now` in; bytes and actions out.
#![forbid(unsafe_code)]

pub mod actions;
mod back_tls;
pub mod buffer;
pub mod connection;
mod conversation;
pub mod events;
pub mod facts;
mod handshaking;
mod ktls_state;
pub mod options;
mod proxy_header_out;
mod record_sizing;
mod relay;
mod stage;
