//! The session cache: opaque bytes under opaque keys.
//!
//! Handles storing, finding and forgetting, in memory that may outlive the process. The meaning of
//! the bytes, the separation of keys between services, and the cryptography that seals them are the
//! caller's task. No socket, no clock.
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
