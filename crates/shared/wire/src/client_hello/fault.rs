//! Why the first bytes of a connection are refused.

use crate::alert;

/// The client's fault in its first bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HelloFault {
    /// No TLS record begins so.
    #[error("the first bytes are not TLS")]
    NotTls,
    /// The method of a plaintext HTTP request.
    #[error("the client speaks plaintext HTTP")]
    PlainHttp,
    /// A hello in the format of SSLv2, whatever versions it offers (RFC 8446 appendix D.5).
    #[error("the hello has the format of SSLv2")]
    Sslv2,
    /// Nothing from TLS 1.2 up is offered.
    #[error("the newest version offered is {highest:#06x}, before TLS 1.2")]
    VersionTooOld {
        /// The newest version offered that is known, as on the wire: `0x0301` is TLS 1.0.
        highest: u16,
    },
    /// TLS, but something else where the ClientHello belongs.
    #[error("not a ClientHello: {0}")]
    Unexpected(&'static str),
    /// A field is cut short, empty where it must not be, or has bytes to spare.
    #[error("the ClientHello does not parse: {0}")]
    Malformed(&'static str),
    /// Every field parses, but one says what it must not.
    #[error("the ClientHello breaks a rule: {0}")]
    Illegal(&'static str),
    /// It renegotiates a connection that there is not (RFC 5746 section 3.6).
    #[error("the ClientHello breaks a rule: renegotiation_info is not empty")]
    Renegotiation,
    /// A record whose header announces more than 2^14 bytes (RFC 8446 section 5.1).
    #[error("a plaintext record of {0} bytes")]
    RecordTooLarge(u16),
    /// A handshake header that announces more than [`super::HELLO_BYTES_MAX`] bytes.
    #[error("a ClientHello of {0} bytes")]
    TooLarge(u32),
}

impl HelloFault {
    /// The description of the fatal alert to answer with; none for who would not understand it.
    ///
    /// An SSLv2-format hello is answered, since those who still send one know TLS too.
    pub fn alert(&self) -> Option<u8> {
        match self {
            Self::NotTls | Self::PlainHttp => None,
            Self::Sslv2 | Self::VersionTooOld { .. } => Some(alert::PROTOCOL_VERSION),
            Self::Unexpected(_) => Some(alert::UNEXPECTED_MESSAGE),
            Self::Malformed(_) => Some(alert::DECODE_ERROR),
            Self::Illegal(_) | Self::TooLarge(_) => Some(alert::ILLEGAL_PARAMETER),
            Self::Renegotiation => Some(alert::HANDSHAKE_FAILURE),
            Self::RecordTooLarge(_) => Some(alert::RECORD_OVERFLOW),
        }
    }
}
