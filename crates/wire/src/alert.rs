//! TLS alerts that can be said before any key exists (RFC 8446 section 6).
//!
//! Owns the numbers and the seven bytes on the wire; which fault deserves which alert is said
//! where the fault is named.

/// A message of a type that has no place here.
pub const UNEXPECTED_MESSAGE: u8 = 10;
/// A record longer than the protocol allows.
pub const RECORD_OVERFLOW: u8 = 22;
/// No parameters that both sides accept.
pub const HANDSHAKE_FAILURE: u8 = 40;
/// A field that parses but contradicts the protocol or another field.
pub const ILLEGAL_PARAMETER: u8 = 47;
/// A length or a field that does not parse.
pub const DECODE_ERROR: u8 = 50;
/// A protocol version that is understood but not accepted.
pub const PROTOCOL_VERSION: u8 = 70;
/// A fault of our own, or a limit of ours.
pub const INTERNAL_ERROR: u8 = 80;
/// No server is known by the name in the hello (RFC 6066 section 3).
pub const UNRECOGNIZED_NAME: u8 = 112;

/// A fatal alert as one plaintext record, with the record version that TLS 1.2 and 1.3 share.
pub fn alert_record(description: u8) -> [u8; 7] {
    const ALERT: u8 = 21;
    const FATAL: u8 = 2;
    [ALERT, 3, 3, 0, 2, FATAL, description]
}
