//! Opaque bytes under opaque keys: the session cache.
//!
//! Owns storing, finding and forgetting; what the bytes mean, and how keys are told apart
//! between services, is for the caller to know. No socket, no clock.
#![forbid(unsafe_code)]

mod memory;
mod shard;

pub use memory::{Counters, MemoryStore, Options};
