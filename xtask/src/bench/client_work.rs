//! The rows of `bench load`: what one operation is, and what each tool is told so that it does it.

use super::tool::{Amount, Tool};
use super::web::Door;

/// What the handshakes of a row must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Handshakes {
    /// None is resumed.
    Full,
    /// All are, but the first of each connection slot.
    Resumed,
    /// Of no account: connections stay, or speak no TLS.
    Few,
}

/// A tool in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    /// Its name in the table.
    pub(crate) label: &'static str,
    /// The tool.
    pub(crate) tool: Tool,
    /// Its words. `~` stands for a blank within a word.
    pub(crate) words: &'static str,
    /// Whether it asks for nothing, unless the server's log is to tell what it did.
    pub(crate) is_bare: bool,
    /// Connections at once.
    pub(crate) connections: u64,
    /// How much in a round.
    pub(crate) amount: Amount,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// For `--rows`.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// What one operation is.
    pub(crate) operation: &'static str,
    /// Which door of the server.
    pub(crate) door: Door,
    /// What the handshakes must be.
    pub(crate) handshakes: Handshakes,
    /// Whether a connection is made for each operation.
    pub(crate) connection_each: bool,
    /// The tools. Those of ours come first.
    pub(crate) subjects: &'static [Subject],
}

const MANY: u64 = 32;

const fn subject(label: &'static str, tool: Tool, words: &'static str, amount: Amount) -> Subject {
    Subject {
        label,
        tool,
        words,
        is_bare: false,
        connections: MANY,
        amount,
    }
}

/// Ours with one connection after the other, and without a request unless it is checked.
const fn ours_alone(label: &'static str, words: &'static str, count: u64) -> Subject {
    Subject {
        is_bare: true,
        connections: 1,
        ..subject(label, Tool::Lab, words, operations(count))
    }
}

/// Ours with as many connections at once as elsewhere, and without a request unless it is checked.
const fn ours_at_once(words: &'static str, count: u64) -> Subject {
    Subject {
        is_bare: true,
        ..subject(
            "lariat-lab, 32 at once",
            Tool::Lab,
            words,
            operations(count),
        )
    }
}

/// `s_time`, which knows one connection at a time.
const fn s_time(words: &'static str) -> Subject {
    Subject {
        is_bare: true,
        connections: 1,
        ..subject("openssl s_time", Tool::STime, words, seconds(3))
    }
}

const fn operations(count: u64) -> Amount {
    Amount::Operations(count)
}

const fn seconds(count: u64) -> Amount {
    Amount::Seconds(count)
}

const VERIFIED: &str = "lariat-lab --verify signature";
const UNVERIFIED: &str = "lariat-lab --verify off";
/// All rows, in their order.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "full-13",
        title: "TLS 1.3 full handshake, P-256 certificate, one after the other",
        operation: "handshake",
        door: Door::Both,
        handshakes: Handshakes::Full,
        connection_each: true,
        subjects: &[
            ours_alone("lariat-lab", "--tls 1.3 --verify signature", 6000),
            ours_alone(
                "lariat-lab --close reset",
                "--tls 1.3 --verify signature --close reset",
                8000,
            ),
            ours_alone("lariat-lab --verify off", "--tls 1.3 --verify off", 8000),
            ours_at_once("--tls 1.3 --verify signature", 10_000),
            s_time("-new -tls1_3"),
        ],
    },
    Row {
        name: "full-13-request",
        title: "TLS 1.3 full handshake, P-256 certificate, and one 1 KiB request, 32 at once",
        operation: "connection",
        door: Door::Neither,
        handshakes: Handshakes::Full,
        connection_each: true,
        subjects: &[
            subject(
                VERIFIED,
                Tool::Lab,
                "--tls 1.3 --verify signature",
                operations(9000),
            ),
            subject(
                UNVERIFIED,
                Tool::Lab,
                "--tls 1.3 --verify off",
                operations(12_000),
            ),
            subject("wrk", Tool::Wrk, "-H Connection:~close", seconds(4)),
            subject(
                "h2load",
                Tool::H2load,
                "-H Connection:~close",
                operations(3000),
            ),
            subject("ab", Tool::Ab, "-f TLS1.3", operations(3000)),
        ],
    },
    Row {
        name: "id-12",
        title: "TLS 1.2 resumed by session id, one after the other",
        operation: "handshake",
        door: Door::Ids,
        handshakes: Handshakes::Resumed,
        connection_each: true,
        subjects: &[
            ours_alone("lariat-lab", "--handshake session-id", 14_000),
            ours_alone(
                "lariat-lab --close reset",
                "--handshake session-id --close reset",
                18_000,
            ),
            ours_at_once("--handshake session-id", 30_000),
            s_time("-reuse -tls1_2"),
        ],
    },
    Row {
        name: "ticket-12",
        title: "TLS 1.2 resumed by ticket, one after the other",
        operation: "handshake",
        door: Door::Tickets,
        handshakes: Handshakes::Resumed,
        connection_each: true,
        subjects: &[
            ours_alone("lariat-lab", "--handshake ticket", 14_000),
            ours_alone(
                "lariat-lab --close reset",
                "--handshake ticket --close reset",
                18_000,
            ),
            ours_at_once("--handshake ticket", 30_000),
            s_time("-reuse -tls1_2"),
        ],
    },
    Row {
        name: "psk-13-request",
        title: "TLS 1.3 resumed by PSK, and one 1 KiB request, 32 at once",
        operation: "connection",
        door: Door::Tickets,
        handshakes: Handshakes::Resumed,
        connection_each: true,
        subjects: &[
            subject(
                "lariat-lab",
                Tool::Lab,
                "--handshake psk",
                operations(12_000),
            ),
            subject("wrk", Tool::Wrk, "-H Connection:~close", seconds(4)),
            subject(
                "h2load",
                Tool::H2load,
                "-H Connection:~close",
                operations(5000),
            ),
        ],
    },
    Row {
        name: "keep-alive",
        title: "1 KiB request on a kept connection, TLS 1.3, 32 connections",
        operation: "request",
        door: Door::Both,
        handshakes: Handshakes::Few,
        connection_each: false,
        subjects: &[
            subject(
                "lariat-lab",
                Tool::Lab,
                "--tls 1.3 --requests-per-connection unlimited",
                operations(250_000),
            ),
            subject("wrk", Tool::Wrk, "", seconds(5)),
            subject("h2load", Tool::H2load, "", operations(80_000)),
            subject("ab", Tool::Ab, "-k -f TLS1.3", operations(80_000)),
        ],
    },
    Row {
        name: "keep-alive-plain",
        title: "1 KiB request on a kept connection without TLS, 32 connections",
        operation: "request",
        door: Door::Plain,
        handshakes: Handshakes::Few,
        connection_each: false,
        subjects: &[
            subject(
                "lariat-lab",
                Tool::Lab,
                "--requests-per-connection unlimited",
                operations(120_000),
            ),
            subject("wrk", Tool::Wrk, "", seconds(5)),
            subject("h2load", Tool::H2load, "", operations(80_000)),
            subject("ab", Tool::Ab, "-k", operations(80_000)),
        ],
    },
];
