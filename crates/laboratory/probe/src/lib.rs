//! Probes of TLS endpoints: versions, suites, certificates, resumption; and whether that is good.
//!
//! Owns the connections of a probe, the facts by which expectations are written, and the
//! judgement. Handshakes are made by `load`'s client, or are hellos by hand whose answers are read.
//! It reads no file, prints nothing, and resolves no name.
#![forbid(unsafe_code)]

mod certificate;
mod ech;
pub mod expect;
pub mod facts;
mod hello;
mod judge;
mod node;
mod offers;
mod openssl;
mod options;
pub mod points;
mod reach;
mod registry;
mod resumption;
pub mod run;
mod staple;

pub use judge::judge;
