//! The state machine against a real TLS client and a backend in memory, by seed, with a simulated
//! kernel that takes over the sealing.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod conformance;
mod early_data;
mod offloaded;
mod relayed;
mod simulation;
mod started;

/// Whether the kernel is asked to seal.
const KERNEL: bool = true;

const BACK_TLS: bool = false;
