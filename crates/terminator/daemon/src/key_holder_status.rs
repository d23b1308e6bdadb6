//! The state of a process that holds keys, as the supervisor says it to the worker process, and
//! that in the status.

use serde::{Deserialize, Serialize};

/// A process that holds keys, as a program hands it on that may come back.
#[derive(Deserialize, Serialize)]
pub(crate) struct LentKeyProcess {
    /// The number under which the state names it; `None` = it is away.
    pub(crate) process: Option<u64>,
    /// The count of its channels.
    pub(crate) channels: u32,
    /// The reasons of the keys that it could not open.
    pub(crate) unopened: Vec<String>,
    pub(crate) is_pin_refused: bool,
    /// They are tried again.
    pub(crate) is_retried: bool,
}

/// The state of a process that holds keys.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct KeyHolderStatus {
    /// `files`, or the token.
    pub(crate) keys: String,
    pub(crate) count: u64,
    /// `None` = there is none.
    pub(crate) pid: Option<u32>,
    /// Processes started again for these keys, since the supervisor started.
    pub(crate) restarts: u64,
    /// The reason why it signs nothing; `None` = it is there.
    pub(crate) away: Option<String>,
    /// Since when, in milliseconds since the epoch.
    pub(crate) away_since_ms: Option<u64>,
    /// Keys that it cannot open.
    pub(crate) unopened: u64,
    /// The reasons of the first of them.
    pub(crate) reasons: Vec<String>,
}
