//! An established TLS connection: application data, alerts and key updates over records.
//!
//! The seam between record layers, all of which send and receive the same bytes.
//! What a layer does with a record is its own; none of them holds buffers of a connection.

use crate::record::{KeyExhausted, Layout};

pub mod in_place;
pub mod kernel;
pub mod library;
mod message;
#[cfg(test)]
mod tests;

pub use crate::record::RecordSealer;
use in_place::InPlace;
use kernel::{ControlRecord, Keys};
use library::Library;
pub use message::{Incoming, TrafficFault};

/// The most bytes that [`Traffic::seal_control`] writes: a KeyUpdate and an alert.
pub const CONTROL_BYTES_MAX: usize = 128;

/// Does the same with either layer.
macro_rules! either {
    ($traffic:ident, $layer:ident => $does:expr) => {
        match $traffic {
            Self::InPlace($layer) => $does,
            Self::Library($layer) => $does,
        }
    };
}

/// Both directions of an established connection.
pub enum Traffic {
    /// Our own layer, with the keys that the handshake left.
    InPlace(InPlace),
    Library(Box<Library>),
}

impl RecordSealer for Traffic {
    fn layout(&self) -> Layout {
        either!(self, layer => layer.layout())
    }

    fn seal(&mut self, record: &mut [u8]) -> Result<(), KeyExhausted> {
        either!(self, layer => layer.seal(record))
    }
}

impl Traffic {
    /// The length of the record at the start of `bytes`; `None` = its header is not yet there. A
    /// record that can never be valid is refused from its header alone.
    pub fn record_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, TrafficFault> {
        either!(self, layer => layer.record_bytes(bytes))
    }

    /// Opens one whole record into the start of `plain`, which is at least as long.
    pub fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<Incoming, TrafficFault> {
        either!(self, layer => layer.open(record, plain))
    }

    /// Whether a record of ours has to go out before more data is sealed.
    pub fn is_control_due(&self) -> bool {
        either!(self, layer => layer.is_control_due())
    }

    /// Appends the records that are due: at most [`CONTROL_BYTES_MAX`] bytes.
    pub fn seal_control(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        either!(self, layer => layer.seal_control(out))
    }

    pub fn seal_close_notify(&mut self, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        either!(self, layer => layer.seal_close_notify(out))
    }

    /// Appends a fatal alert; the last record that is sealed. The library's layer prefers the one
    /// that the library has for its own error.
    pub fn seal_alert(&mut self, description: u8, out: &mut Vec<u8>) -> Result<(), KeyExhausted> {
        either!(self, layer => layer.seal_alert(description, out))
    }

    /// The keys to hand to the kernel, so that it encrypts from now on: those in use, or after the
    /// hand-over those that follow a KeyUpdate. `None` = there are none, or no kernel knows the
    /// cipher.
    pub fn kernel_keys(&self) -> Option<Keys<'_>> {
        match self {
            Self::InPlace(layer) => layer.kernel_keys(),
            Self::Library(_) => None,
        }
    }

    /// The kernel will not be asked: keeps its keys no longer.
    pub fn forget_kernel_keys(&mut self) {
        match self {
            Self::InPlace(layer) => layer.forget_kernel_keys(),
            Self::Library(_) => {}
        }
    }

    /// Takes note that the kernel has got [`Self::kernel_keys`]. What is sealed is plaintext now,
    /// and control records go by [`Self::kernel_control`].
    pub fn hand_over(&mut self) {
        match self {
            Self::InPlace(layer) => layer.hand_over(),
            Self::Library(_) => {}
        }
    }

    /// Takes note of plaintext that the kernel was given to seal, past our buffers.
    pub fn count_passed(&mut self, bytes: usize) -> Result<(), KeyExhausted> {
        match self {
            Self::InPlace(layer) => layer.count_passed(bytes),
            Self::Library(_) => Err(KeyExhausted),
        }
    }

    /// Whether the kernel needs a new key before it may send more data.
    pub fn is_kernel_key_due(&self) -> bool {
        match self {
            Self::InPlace(layer) => layer.is_kernel_key_due(),
            Self::Library(_) => false,
        }
    }

    /// The next record that is due where the kernel encrypts. Behind a KeyUpdate the kernel must be
    /// given [`Self::kernel_keys`] before anything else.
    ///
    /// # Errors
    /// There are no further keys.
    pub fn kernel_control(&mut self) -> Result<Option<ControlRecord>, KeyExhausted> {
        match self {
            Self::InPlace(layer) => layer.kernel_control(),
            Self::Library(_) => Ok(None),
        }
    }
}
