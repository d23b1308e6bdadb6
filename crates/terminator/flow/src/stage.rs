//! Where a connection is in its life, and how long it may stay there.

use std::time::{Duration, Instant};

use telemetry::outcome::Reason;

use crate::facts::Ending;
use crate::options::Timeouts;
use crate::relay::StreamEnd;

/// How long a client that has been sent an alert may take to read it and close. Closing at once
/// would reset the connection if bytes of the client's were unread, and lose the alert.
const CLOSING_MAX: Duration = Duration::from_secs(2);

/// How long a client that has been sent the server's end may go on without a byte. What it still
/// sends has a reader only if the server closed one direction, and few do.
const HALF_CLOSED_MAX: Duration = Duration::from_secs(60);

pub(crate) enum Stage {
    /// Up to the end of the handshake, or to the first byte of early data.
    Handshaking,
    /// No server is connected yet.
    Dialling { since: Instant },
    /// Bytes go both ways.
    Relaying,
    /// Last bytes go to the client, what it still sends is dropped.
    Closing { until: Instant, dropped: usize },
    /// Nothing is left to do but to close.
    Over,
}

/// What has happened on the server's side and has to wait for the end of a handshake that early
/// data came before.
pub(crate) enum Postponed {
    /// The server's stream has ended.
    BackEnd,
    /// No server could be connected, or it broke the connection off.
    BackFailure(Ending),
}

/// The side that ended its stream first has ended the connection.
pub(crate) fn first_to_end(up: Option<StreamEnd>, is_down_ended: bool) -> Option<Reason> {
    match (up, is_down_ended) {
        (Some(StreamEnd::CloseNotify | StreamEnd::Plain), _) => Some(Reason::ClientClosed),
        (Some(StreamEnd::Fin), _) => Some(Reason::ClientTruncated),
        (None, true) => Some(Reason::BackendClosed),
        (None, false) => None,
    }
}

impl Stage {
    /// The last bytes go to the client.
    pub(crate) fn closing(now: Instant) -> Self {
        Self::Closing {
            until: now + CLOSING_MAX,
            dropped: 0,
        }
    }

    /// Starts the time of a dial, if one is under way.
    pub(crate) fn restart_dial(&mut self, now: Instant) {
        if let Self::Dialling { since } = self {
            *since = now;
        }
    }

    /// When it has lasted too long. The handshake has a limit of its own.
    pub(crate) fn deadline(
        &self,
        timeouts: &Timeouts,
        last_byte: Instant,
        is_half_closed: bool,
    ) -> Option<Instant> {
        match self {
            Self::Handshaking | Self::Over => None,
            Self::Dialling { since } => Some(*since + timeouts.dial),
            Self::Relaying if is_half_closed => {
                Some(last_byte + timeouts.idle.min(HALF_CLOSED_MAX))
            }
            Self::Relaying => Some(last_byte + timeouts.idle),
            Self::Closing { until, .. } => Some(*until),
        }
    }
}
