//! State of a process that holds keys, as the supervisor sends it to the worker process, which
//! shows it in the status.

use serde::{Deserialize, Serialize};

/// A process that holds keys, as handed to a new program by one that may come back.
#[derive(Deserialize, Serialize)]
pub(crate) struct LentKeyProcess {
    /// Number that identifies the process in the state; `None` if there is no process.
    pub(crate) process: Option<u64>,
    /// Number of its channels.
    pub(crate) channels: u32,
    /// Reasons of the keys that it could not open.
    pub(crate) unopened: Vec<String>,
    pub(crate) is_pin_refused: bool,
    /// Whether these keys are tried again.
    pub(crate) is_retried: bool,
}

/// State of a process that holds keys.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct KeyHolderStatus {
    /// `files`, or the token.
    pub(crate) keys: String,
    pub(crate) count: u64,
    /// Process number; `None` if there is no process.
    pub(crate) pid: Option<u32>,
    /// Processes restarted for these keys since the supervisor started.
    pub(crate) restarts: u64,
    /// Reason why the process signs nothing; `None` if it is available.
    pub(crate) away: Option<String>,
    /// Beginning of the absence, in milliseconds since the epoch.
    pub(crate) away_since_ms: Option<u64>,
    /// Number of keys that it cannot open.
    pub(crate) unopened: u64,
    /// Reasons of the first of these keys.
    pub(crate) reasons: Vec<String>,
}
