//! An established TLS connection: application data, alerts and key updates over records.
//!
//! The seam between record layers, which all give the same bytes to whoever sends and receives.
//! What a layer does with a record is its own; none of them holds buffers of a connection.

use crate::record::{KeyExhausted, Layout};

pub mod in_place;
mod message;

pub use crate::record::Seal;
use in_place::InPlace;
pub use message::{Incoming, TrafficFault, alert_name};

/// The most bytes that [`Traffic::seal_control`] writes: a KeyUpdate and an alert.
pub const CONTROL_BYTES_MAX: usize = 128;

/// Both directions of an established connection.
pub enum Traffic {
    /// Our own layer, with the keys that the handshake left.
    InPlace(InPlace),
}

impl Seal for Traffic {
    fn layout(&self) -> Layout {
        match self {
            Self::InPlace(layer) => layer.layout(),
        }
    }

    fn seal(&mut self, record: &mut [u8]) -> Result<(), KeyExhausted> {
        match self {
            Self::InPlace(layer) => layer.seal(record),
        }
    }
}

impl Traffic {
    /// The length of the record at the start of `bytes`; `None` = its header is not yet there.
    pub fn record_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, TrafficFault> {
        match self {
            Self::InPlace(layer) => layer.record_bytes(bytes),
        }
    }

    /// Opens one whole record into the start of `plain`, which is at least as long.
    pub fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<Incoming, TrafficFault> {
        match self {
            Self::InPlace(layer) => layer.open(record, plain),
        }
    }

    /// Whether a record of ours has to go out before more data is sealed.
    pub fn is_control_due(&self) -> bool {
        match self {
            Self::InPlace(layer) => layer.is_control_due(),
        }
    }

    /// Appends the records that are due: at most [`CONTROL_BYTES_MAX`] bytes.
    pub fn seal_control(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        match self {
            Self::InPlace(layer) => layer.seal_control(out),
        }
    }

    /// Appends close_notify.
    pub fn seal_close_notify(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        match self {
            Self::InPlace(layer) => layer.seal_close_notify(out),
        }
    }

    /// Appends a fatal alert.
    pub fn seal_alert(&mut self, description: u8, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        match self {
            Self::InPlace(layer) => layer.seal_alert(description, out),
        }
    }
}
