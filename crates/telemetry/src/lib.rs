//! Catalogue of metrics, outcomes, per-worker counters and their snapshot. No sockets.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod counters;
pub mod outcome;
pub mod registry;
pub mod snapshot;

pub use registry::Registry;
