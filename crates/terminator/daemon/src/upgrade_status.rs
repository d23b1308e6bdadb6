//! The upgrade that is under way, as the supervisor tells it and the status shows it.

use serde::{Deserialize, Serialize};

/// An upgrade that is under way, as the status has it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct UpgradeStatus {
    pub(crate) since_ms: u64,
    /// The process that says whether the new program would serve.
    pub(crate) pid: Option<u32>,
    /// When that process is ended, if it has not said so.
    pub(crate) until_ms: Option<u64>,
    /// How far it is: words for people.
    pub(crate) stage: String,
}
