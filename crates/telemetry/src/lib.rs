//! Catalogue of metrics, outcomes, per-worker counters and their snapshot. No sockets.
#![forbid(unsafe_code)]

pub mod outcome;
