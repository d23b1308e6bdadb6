//! The kinds of handshake that a transaction can begin with.

use serde::{Deserialize, Serialize};

use crate::choice::named;

named! {
    /// How a transaction came to its keys, as the client saw it.
    Kind {
        Full = "full",
        /// Resumed by session id (TLS 1.2, RFC 5246 section 7.3).
        SessionId = "session-id",
        /// Resumed by ticket (TLS 1.2, RFC 5077).
        Ticket = "ticket",
        /// Resumed by PSK (TLS 1.3, RFC 8446 section 2.2), stateless or stateful.
        Psk = "psk",
        /// None: the connection stood already.
        Kept = "kept",
        /// None: there is no TLS.
        Plain = "plain",
    }
}

impl Kind {
    /// Whether a session was resumed.
    pub fn is_resumption(self) -> bool {
        matches!(self, Self::SessionId | Self::Ticket | Self::Psk)
    }

    /// Whether there was a handshake.
    pub fn is_handshake(self) -> bool {
        !matches!(self, Self::Kept | Self::Plain)
    }
}
