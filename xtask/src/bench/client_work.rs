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
    /// Its words when the server's log is to tell what it did: with a request.
    pub(crate) checked_words: &'static str,
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
        checked_words: words,
        connections: MANY,
        amount,
    }
}

/// One connection after the other, without a request unless it is checked.
const fn sequential(subject: Subject, checked_words: &'static str) -> Subject {
    Subject {
        checked_words,
        connections: 1,
        ..subject
    }
}

/// As many at once as elsewhere, without a request unless it is checked.
const fn parallel(subject: Subject, checked_words: &'static str) -> Subject {
    Subject {
        checked_words,
        ..subject
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
            sequential(
                subject(
                    VERIFIED,
                    Tool::Lab,
                    "--tls 1.3 --verify signature --no-request",
                    operations(6000),
                ),
                "--tls 1.3 --verify signature",
            ),
            sequential(
                subject(
                    UNVERIFIED,
                    Tool::Lab,
                    "--tls 1.3 --verify off --no-request",
                    operations(8000),
                ),
                "--tls 1.3 --verify off",
            ),
            parallel(
                subject(
                    MANY_AT_ONCE,
                    Tool::Lab,
                    "--tls 1.3 --verify signature --no-request",
                    operations(8000),
                ),
                "--tls 1.3 --verify signature",
            ),
            sequential(
                subject("openssl s_time", Tool::STime, "-new -tls1_3", seconds(3)),
                "-new -tls1_3 -www /1k",
            ),
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
            sequential(
                subject(
                    "lariat-lab",
                    Tool::Lab,
                    "--handshake session-id --no-request",
                    operations(10_000),
                ),
                "--handshake session-id",
            ),
            parallel(
                subject(
                    MANY_AT_ONCE,
                    Tool::Lab,
                    "--handshake session-id --no-request",
                    operations(20_000),
                ),
                "--handshake session-id",
            ),
            sequential(
                subject("openssl s_time", Tool::STime, "-reuse -tls1_2", seconds(3)),
                "-reuse -tls1_2 -www /1k",
            ),
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
            sequential(
                subject(
                    "lariat-lab",
                    Tool::Lab,
                    "--handshake ticket --no-request",
                    operations(10_000),
                ),
                "--handshake ticket",
            ),
            parallel(
                subject(
                    MANY_AT_ONCE,
                    Tool::Lab,
                    "--handshake ticket --no-request",
                    operations(20_000),
                ),
                "--handshake ticket",
            ),
            sequential(
                subject("openssl s_time", Tool::STime, "-reuse -tls1_2", seconds(3)),
                "-reuse -tls1_2 -www /1k",
            ),
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
                operations(120_000),
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

const MANY_AT_ONCE: &str = "lariat-lab, 32 at once";
