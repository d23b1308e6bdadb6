//! Certificates, names, policy, tickets, handshake and records.
//! The only data-plane crate that names the TLS library.
#![forbid(unsafe_code)]

pub mod options;
