//! What the peers' tier has done since its process started.

use telemetry::outcome::{ClusterRejection, ClusterUpdate, SessionTier};

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MeshCounters {
    /// Datagrams sent, one for each peer that it went to.
    pub datagrams_sent: u64,
    /// Their bytes, without the headers of UDP and IP.
    pub bytes_sent: u64,
    pub datagrams_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    rejections: [u64; ClusterRejection::ALL.len()],
    updates: [u64; ClusterUpdate::ALL.len()],
    fetches: [u64; SessionTier::ALL.len()],
}

impl MeshCounters {
    pub(crate) fn reject(&mut self, why: ClusterRejection) {
        self.rejections[why as usize] += 1;
    }

    pub(crate) fn update(&mut self, what: ClusterUpdate) {
        self.updates[what as usize] += 1;
    }

    pub(crate) fn fetched(&mut self, from: SessionTier) {
        self.fetches[from as usize] += 1;
    }

    /// Datagrams that were dropped for this reason.
    pub fn rejections(&self, why: ClusterRejection) -> u64 {
        self.rejections[why as usize]
    }

    /// Sessions of which this became.
    pub fn updates(&self, what: ClusterUpdate) -> u64 {
        self.updates[what as usize]
    }

    /// Sessions that were looked for, by where they were found.
    pub fn fetches(&self, from: SessionTier) -> u64 {
        self.fetches[from as usize]
    }
}
