//! Converts hostile bytes to values and back: no socket, file, clock or environment.
#![forbid(unsafe_code)]

pub mod address;
pub mod alert;
pub mod certificate_chain;
pub mod client_hello;
pub mod cluster;
mod cursor;
pub mod date;
pub mod dns;
pub mod ech;
pub mod http;
pub mod ocsp;
pub mod pkcs11_uri;
pub mod proxy_header;
pub mod server_session;
pub mod starttls;
pub mod store;
pub mod text;
pub mod tunnel;
