//! Opaque bytes under opaque keys: the session cache.
//!
//! Owns storing, finding and forgetting, in memory that may outlive the process; what the bytes
//! mean, and how keys are told apart between services, is for the caller to know, and so is the
//! cryptography that seals them. No socket, no clock.
#![forbid(unsafe_code)]

mod blocks;
mod index;
mod memory;
pub mod mesh;
mod shard;
mod store;
mod tiers;

pub use blocks::MachineWords;
pub use memory::{Memory, Options};
pub use shard::Counters;
pub use store::{ExpectedEntry, MemoryStore, StoredEntry};
pub use tiers::{Breaker, FetchAnswer, Key, Offered, Request, Sealed, Tiers, ValueCipher};
