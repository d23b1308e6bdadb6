//! Provides the catalogue of metrics, outcomes, per-worker counters and their snapshot; writes
//! lines about connections and messages, also as entries for log daemons, with values that are safe
//! to show. No sockets, no clock.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod counters;
pub mod exposition;
pub mod form;
pub mod history;
pub mod line;
pub mod message;
pub mod outcome;
pub mod registry;

pub use registry::Registry;
pub use wire::text as printable;
