//! Serves static files over HTTP/1.1, as a pure conversation: request bytes in; questions about the
//! file system and response bytes out. Opens no file and reads no clock.
#![forbid(unsafe_code)]

pub mod challenge;
pub mod conversation;
pub mod options;
pub mod questions;
mod redirect;
mod representation;
mod request;
mod response;
mod search;
mod target;
mod validators;

pub use request::{HEAD_BYTES_MAX, TARGET_BYTES_MAX};
