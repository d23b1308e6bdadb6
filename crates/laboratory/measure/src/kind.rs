//! The kinds of handshake that a transaction can begin with.

use serde::{Deserialize, Serialize};

/// How a transaction came to its keys, as the client saw it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A full handshake.
    Full,
    /// Resumed by session id (TLS 1.2, RFC 5246 section 7.3).
    SessionId,
    /// Resumed by ticket (TLS 1.2, RFC 5077).
    Ticket,
    /// Resumed by PSK (TLS 1.3, RFC 8446 section 2.2), stateless or stateful.
    Psk,
    /// None: the connection stood already.
    Kept,
    /// None: there is no TLS.
    Plain,
}

impl Kind {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::Full,
        Self::SessionId,
        Self::Ticket,
        Self::Psk,
        Self::Kept,
        Self::Plain,
    ];

    /// The name in records, flags and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::SessionId => "session-id",
            Self::Ticket => "ticket",
            Self::Psk => "psk",
            Self::Kept => "kept",
            Self::Plain => "plain",
        }
    }

    /// Whether a session was resumed.
    pub fn is_resumption(self) -> bool {
        matches!(self, Self::SessionId | Self::Ticket | Self::Psk)
    }

    /// Whether there was a handshake.
    pub fn is_handshake(self) -> bool {
        !matches!(self, Self::Kept | Self::Plain)
    }
}
