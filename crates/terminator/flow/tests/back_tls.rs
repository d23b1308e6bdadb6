//! The state machine against a real TLS client and a real TLS server in memory, by seed.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod as_is;
mod conformance;
mod early_data;
mod originated;
mod relayed;
mod simulation;
mod started;

/// Whether the kernel is asked to seal.
const KERNEL: bool = false;

const BACK_TLS: bool = true;
