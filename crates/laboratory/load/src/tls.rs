//! TLS as a client of ours speaks it: the only part of this crate that makes handshakes.
//!
//! [`configurations`] turns a plan into what the library wants, [`sessions`] keeps each client's
//! sessions apart, [`verifier`] judges certificates, [`offer`] reads what we really offered.

pub(crate) mod configurations;
pub(crate) mod offer;
pub(crate) mod sessions;
pub(crate) mod verifier;
