//! The rows of the benchmark: what one operation is, in which unit its cost is told.
//!
//! Also owns the two requests and the replies to them, on which client and backend agree.

use std::time::Duration;

/// Bytes of the body of a small reply.
pub(crate) const SMALL_BODY_BYTES: usize = 1024;
/// Bytes of the body of a bulk reply.
pub(crate) const BULK_BODY_BYTES: usize = 64 << 20;
/// Asks for a small reply.
pub(crate) const SMALL_REQUEST: &[u8] = b"GET /small HTTP/1.1\r\nHost: bench.test\r\n\r\n";
/// Asks for a bulk reply; as long as the other, so that the backend need not parse.
pub(crate) const BULK_REQUEST: &[u8] = b"GET /bulk_ HTTP/1.1\r\nHost: bench.test\r\n\r\n";
const _: () = assert!(SMALL_REQUEST.len() == BULK_REQUEST.len());
/// The longest that nothing may happen before a run is given up.
pub(crate) const STALL_MAX: Duration = Duration::from_secs(15);

/// The head of a reply with a body of so many bytes.
pub(crate) fn reply_head(body_bytes: usize) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: {body_bytes:08}\r\n\r\n"
    )
}

/// The byte of any body at an offset; its period is no power of two, so that a lost or doubled
/// buffer shows.
pub(crate) fn body_byte(offset: usize) -> u8 {
    u8::try_from(offset % BODY_PERIOD).unwrap_or(u8::MAX)
}

/// A body repeats after so many bytes.
pub(crate) const BODY_PERIOD: usize = 251;

/// A version of TLS, the only one that the client offers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// How handshakes are to go; an operation that goes otherwise fails its row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Handshakes {
    /// Full, never resumed.
    Full,
    /// Resumed by session id, no ticket offered (TLS 1.2).
    SessionId,
    /// Resumed by ticket: RFC 5077 in TLS 1.2, a PSK in TLS 1.3.
    Ticket,
}

/// What is asked after the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exchange {
    /// Nothing: the handshake is the operation.
    Nothing,
    /// One small request, then the connection ends: both are the operation.
    OneRequest,
    /// Small requests on connections that stay: a request is the operation.
    SmallRequests,
    /// Bulk requests on connections that stay: a request is the operation.
    BulkRequests,
}

impl Exchange {
    /// Whether the connection stays open when an operation is done.
    pub(crate) fn keeps_connection(self) -> bool {
        matches!(self, Self::SmallRequests | Self::BulkRequests)
    }

    /// What is sent; empty if nothing is.
    pub(crate) fn request(self) -> &'static [u8] {
        match self {
            Self::Nothing => b"",
            Self::OneRequest | Self::SmallRequests => SMALL_REQUEST,
            Self::BulkRequests => BULK_REQUEST,
        }
    }

    /// Bytes of the body that comes back.
    pub(crate) fn body_bytes(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::OneRequest | Self::SmallRequests => SMALL_BODY_BYTES,
            Self::BulkRequests => BULK_BODY_BYTES,
        }
    }
}

/// How the client ends a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// close_notify and FIN; then it reads until the server's FIN.
    Close,
    /// RST, at once.
    Reset,
}

/// What one operation of a row is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The version of TLS.
    pub(crate) version: Version,
    /// Full or resumed.
    pub(crate) handshakes: Handshakes,
    /// What follows the handshake.
    pub(crate) exchange: Exchange,
    /// How the connection ends.
    pub(crate) ending: Ending,
}

/// The unit that a cost is told in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    /// Its name.
    pub(crate) name: &'static str,
    /// Multiplies nanoseconds per operation.
    pub(crate) factor: f64,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// For `--rows`.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// What an operation is.
    pub(crate) work: Work,
    /// Operations a round.
    pub(crate) operations: u32,
    /// At most so many connections at once.
    pub(crate) connections_max: usize,
    /// The unit of the cost.
    pub(crate) unit: Unit,
}

const MICROSECONDS: f64 = 1e-3;
const PER_CONNECTION: Unit = Unit {
    name: "µs per connection",
    factor: MICROSECONDS,
};
const PER_REQUEST: Unit = Unit {
    name: "µs per request",
    factor: MICROSECONDS,
};
/// An operation is 1/16 GiB; nanoseconds to milliseconds.
const PER_GIB: Unit = Unit {
    name: "ms per GiB",
    factor: 16.0 * 1e-6,
};
const _: () = assert!(BULK_BODY_BYTES * 16 == 1 << 30);

const fn connections(
    name: &'static str,
    title: &'static str,
    operations: u32,
    work: (Version, Handshakes, Exchange, Ending),
) -> Row {
    let (version, handshakes, exchange, ending) = work;
    let work = Work {
        version,
        handshakes,
        exchange,
        ending,
    };
    Row {
        name,
        title,
        work,
        operations,
        connections_max: usize::MAX,
        unit: PER_CONNECTION,
    }
}

const STAYING: Work = Work {
    version: Version::Tls13,
    handshakes: Handshakes::Full,
    exchange: Exchange::SmallRequests,
    ending: Ending::Close,
};

/// All rows, in the order in which they run.
pub(crate) const ROWS: &[Row] = {
    use Ending::{Close, Reset};
    use Exchange::{Nothing, OneRequest};
    use Handshakes::{Full, SessionId, Ticket};
    use Version::{Tls12, Tls13};
    &[
        connections(
            "full-13",
            "TLS 1.3 full handshake, client closes",
            4000,
            (Tls13, Full, Nothing, Close),
        ),
        connections(
            "full-13-reset",
            "TLS 1.3 full handshake, client resets",
            4000,
            (Tls13, Full, Nothing, Reset),
        ),
        connections(
            "full-13-request",
            "TLS 1.3 full handshake and one 1 KiB request",
            4000,
            (Tls13, Full, OneRequest, Close),
        ),
        connections(
            "id-12",
            "TLS 1.2 resumed by session id, client closes",
            8000,
            (Tls12, SessionId, Nothing, Close),
        ),
        connections(
            "id-12-reset",
            "TLS 1.2 resumed by session id, client resets",
            8000,
            (Tls12, SessionId, Nothing, Reset),
        ),
        connections(
            "id-12-request",
            "TLS 1.2 resumed by session id and one 1 KiB request",
            8000,
            (Tls12, SessionId, OneRequest, Close),
        ),
        connections(
            "ticket-12-request",
            "TLS 1.2 resumed by ticket and one 1 KiB request",
            8000,
            (Tls12, Ticket, OneRequest, Close),
        ),
        connections(
            "psk-13-request",
            "TLS 1.3 resumed by PSK and one 1 KiB request",
            8000,
            (Tls13, Ticket, OneRequest, Close),
        ),
        Row {
            name: "keep-alive",
            title: "1 KiB request on a kept connection, TLS 1.3",
            work: STAYING,
            operations: 50_000,
            connections_max: usize::MAX,
            unit: PER_REQUEST,
        },
        Row {
            name: "relay",
            title: "relay to the client, four connections, TLS 1.3",
            work: Work {
                exchange: Exchange::BulkRequests,
                ..STAYING
            },
            operations: 32,
            connections_max: 4,
            unit: PER_GIB,
        },
    ]
};

/// What an idle connection did before it fell idle.
pub(crate) const IDLE: Work = STAYING;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_of_one_length() {
        assert_eq!(
            reply_head(SMALL_BODY_BYTES).len(),
            reply_head(BULK_BODY_BYTES).len(),
        );
    }

    #[test]
    fn names_of_rows_are_unique() {
        let names: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }
}
