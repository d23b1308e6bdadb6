//! For tests only: a certificate authority, temporary directories and fake servers.
//!
//! Imports no crate of the product, so that no test can depend on what it tests.
#![forbid(unsafe_code)]

pub mod authority;
pub mod chance;
pub mod client;
pub mod directory;
pub mod kernel;
pub mod leaf;
pub mod raw_client;
pub mod server;
pub mod stream;
pub mod tls_server;
