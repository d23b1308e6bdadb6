//! Certificates by ACME (RFC 8555).
#![forbid(unsafe_code)]

pub mod engine;
pub mod messages;
