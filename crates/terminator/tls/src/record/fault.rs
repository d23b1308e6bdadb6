//! What can be wrong with a record, and which alert says so.

use wire::alert;

/// What is wrong with a record that came in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordFault {
    #[error("a record does not decrypt")]
    BadMac,
    /// Its type is unknown or not allowed here.
    #[error("a record has a type that is not allowed here")]
    Unexpected,
    #[error("a record has a version that is not one of TLS")]
    Version,
    /// It is longer than TLS allows.
    #[error("a record is longer than TLS allows")]
    Overflow,
    /// It is too short to carry its tag.
    #[error("a record is too short to carry its tag")]
    Underflow,
    /// The sequence number is used up.
    #[error("no further record can be numbered")]
    Exhausted,
}

impl RecordFault {
    /// The alert that RFC 8446 section 6.2 wants.
    pub fn alert(self) -> u8 {
        match self {
            // What is too short for its tag fails to decrypt (section 5.2).
            Self::BadMac | Self::Underflow => alert::BAD_RECORD_MAC,
            Self::Unexpected => alert::UNEXPECTED_MESSAGE,
            Self::Version => alert::PROTOCOL_VERSION,
            Self::Overflow => alert::RECORD_OVERFLOW,
            Self::Exhausted => alert::INTERNAL_ERROR,
        }
    }
}
