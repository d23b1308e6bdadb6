//! Certificates, names, policy, tickets, handshake and records.
//! The only data-plane crate that names the TLS library.
#![forbid(unsafe_code)]

// A test file is shared with a fuzz target, which knows this crate by this name only.
#[cfg(test)]
extern crate self as tls;

pub mod certificate;
pub mod challenge;
pub mod client;
mod compression;
mod context;
pub mod ech;
pub mod handshake;
mod hidden_name;
pub mod identity;
mod kept;
pub mod key_holder;
pub mod key_log;
pub mod names;
pub mod options;
pub mod password;
pub mod policy;
pub mod probe;
pub mod record;
pub mod resumption;
mod secrets;
pub mod self_signed;
pub mod server;
pub mod signing;
pub mod traffic;
pub mod validity;
pub mod verify;

pub use server::{BuildError, Warning};
