//! TLS as a client of ours speaks it: the only part of this crate that makes handshakes.
//!
//! [`configurations`] turns a plan into what the library wants, [`sessions`] keeps each client's
//! sessions apart, [`verifier`] judges certificates, [`offer`] reads what we really offered.

pub(crate) mod configurations;
pub(crate) mod sessions;
pub(crate) mod verifier;

use wire::client_hello::{Peek, read};

use crate::plan::Handshake;

/// The kind of resumption that the bytes of a hello offer; `Full` = none.
pub(crate) fn offered(hello: &[u8]) -> Handshake {
    let Ok(Peek::Hello(hello)) = read(hello) else {
        return Handshake::Full;
    };
    if hello.psk_identities().next().is_some() {
        return Handshake::Psk;
    }
    if hello.session_ticket().is_some_and(|ticket| !ticket.is_empty()) {
        return Handshake::Ticket;
    }
    // In TLS 1.3 the session id means nothing, but is sent (RFC 8446, appendix D.4).
    if hello.highest_version() < 0x0304 && !hello.session_id().is_empty() {
        Handshake::SessionId
    } else {
        Handshake::Full
    }
}
