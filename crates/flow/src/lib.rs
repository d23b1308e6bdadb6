//! One connection as a pure state machine: bytes, events and `now` in; bytes and actions out.
#![forbid(unsafe_code)]

pub mod options;
