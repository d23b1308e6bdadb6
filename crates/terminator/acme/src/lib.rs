//! Certificates by ACME (RFC 8555): when they are ordered, and the dialog with an authority.
#![forbid(unsafe_code)]

mod certificate;
pub mod engine;
mod http;
pub mod messages;
mod order;
pub mod schedule;
pub mod stored;
