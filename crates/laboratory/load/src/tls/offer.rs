//! What a ClientHello of ours offers, read off its bytes.
//!
//! What was meant to be offered proves nothing; what went out does. And a server that is offered
//! a ticket may not resume by session id (RFC 5077, section 3.4), nor one of TLS 1.3 by anything
//! but a PSK, so that the offer tells how a session was resumed.

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
    if hello
        .session_ticket()
        .is_some_and(|ticket| !ticket.is_empty())
    {
        return Handshake::Ticket;
    }
    // In TLS 1.3 the session id means nothing, but is sent (RFC 8446, appendix D.4).
    if hello.highest_version() < 0x0304 && !hello.session_id().is_empty() {
        Handshake::SessionId
    } else {
        Handshake::Full
    }
}
