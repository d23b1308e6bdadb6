//! Opaque bytes under opaque keys: the session cache.
//!
//! Owns storing, finding and forgetting, in memory that may outlive the process; what the bytes
//! mean, and how keys are told apart between services, is for the caller to know, and so is the
//! cryptography that seals them. No socket, no clock.
#![forbid(unsafe_code)]

mod blocks;
mod breaker;
mod index;
mod key;
mod memory;
pub mod mesh;
mod shard;
mod store;
mod table;
mod tiers;
mod words;

pub use breaker::Breaker;
pub use key::{Key, Offered, Sealed, ValueCipher};
pub use memory::{Memory, Options};
pub use shard::Counters;
pub use store::{Expected, MemoryStore, StoredEntry};
pub use tiers::{FetchAnswer, Request, Tiers};
pub use words::Machine;
