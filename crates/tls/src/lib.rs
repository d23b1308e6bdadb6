//! Certificates, names, policy, tickets, handshake and records.
//! The only data-plane crate that names the TLS library.
#![forbid(unsafe_code)]

pub mod certificate;
pub mod handshake;
pub mod names;
pub mod options;
pub mod peer;
pub mod policy;
pub mod probe;
pub mod record;
pub mod resumption;
pub mod server;
pub mod traffic;
pub mod verify;

pub use server::{BuildError, Warning};
