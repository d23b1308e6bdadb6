//! One connection as a pure state machine.
#![forbid(unsafe_code)]
