//! The PROXY protocol, versions 1 and 2 (HAProxy's `doc/proxy-protocol.txt`): who the client of a
//! proxied connection is, said before its first byte.
//!
//! Owns reading and writing of the header; whether a peer may send one at all is for others to
//! say. "Source" is the client, "destination" the address it connected to.

mod header;
mod v1;
mod v2;

pub use header::{Addresses, Command, Header, ProxyFault, Ssl, Tlv, Tlvs, Version, kind};
pub use v1::{LINE_BYTES_MAX, write_v1};
pub use v2::{ClientTls, HEADER_BYTES_MAX, HeaderTooLong, HeaderV2};

/// A header, and how many bytes of input it took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parsed<'a> {
    pub header: Header<'a>,
    /// The length of the header; a pass-through sends these bytes on as they are.
    pub wire_bytes: usize,
}

/// Reads a header; `None` while it is incomplete.
///
/// The answer depends on the bytes alone, not on how they were cut: a fault that a prefix shows is
/// the fault of the whole.
///
/// # Errors
/// The [`ProxyFault`], as early as the bytes show it.
pub fn read(bytes: &[u8]) -> Result<Option<Parsed<'_>>, ProxyFault> {
    let read = match bytes.first() {
        None => return Ok(None),
        Some(b'P') => v1::read(bytes)?,
        Some(_) => v2::read(bytes)?,
    };
    Ok(read.map(|(header, wire_bytes)| Parsed { header, wire_bytes }))
}

/// Whether bytes begin a PROXY header, valid or not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Likeness {
    No,
    /// They may yet, with more of them.
    Perhaps,
    /// They do: no TLS client, and no other protocol we front, begins so.
    Yes,
}

/// Tells a PROXY header by its signature, for connections that must not send one.
///
/// Undecided for at most 11 bytes, and by the first byte (`P`, carriage return) for none of TLS.
pub fn likeness(bytes: &[u8]) -> Likeness {
    let of = |signature: &[u8]| {
        if bytes.starts_with(signature) {
            Likeness::Yes
        } else if signature.starts_with(bytes) {
            Likeness::Perhaps
        } else {
            Likeness::No
        }
    };
    match of(v1::SIGNATURE) {
        Likeness::No => of(&v2::SIGNATURE),
        likeness => likeness,
    }
}
