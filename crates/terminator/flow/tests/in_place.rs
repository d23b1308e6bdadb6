//! The state machine against a real TLS client and a backend in memory, by seed, with our own
//! record layer.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod as_is;
mod conformance;
mod early_data;
mod fetched;
mod relayed;
mod simulation;
mod started;
mod tunnelled;

/// Whether the kernel is asked to seal.
const KERNEL: bool = false;

const BACK_TLS: bool = false;
