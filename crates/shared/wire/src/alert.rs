//! TLS alerts (RFC 8446 section 6): their numbers, their names, and an alert that can be sent
//! before any key exists.
//!
//! Handles numbers, names and the seven bytes on the wire; the types of faults decide which alert a
//! fault deserves.

macro_rules! alerts {
    ($($(#[$doc:meta])* $constant:ident = $number:literal, $name:literal;)*) => {
        $($(#[$doc])* pub const $constant: u8 = $number;)*

        /// Returns the registered name of an alert; `None` if it has none.
        pub fn name(description: u8) -> Option<&'static str> {
            match description {
                $($number => Some($name),)*
                _ => None,
            }
        }
    };
}

alerts! {
    /// The end of the sender's stream.
    CLOSE_NOTIFY = 0, "close_notify";
    /// A message of a type that has no place here.
    UNEXPECTED_MESSAGE = 10, "unexpected_message";
    /// A record that does not decrypt.
    BAD_RECORD_MAC = 20, "bad_record_mac";
    /// A record that does not decrypt, in TLS 1.0 and before.
    DECRYPTION_FAILED = 21, "decryption_failed";
    /// A record longer than the protocol allows.
    RECORD_OVERFLOW = 22, "record_overflow";
    /// A record that does not decompress, in TLS 1.2 and before.
    DECOMPRESSION_FAILURE = 30, "decompression_failure";
    /// No parameters that both sides accept.
    HANDSHAKE_FAILURE = 40, "handshake_failure";
    /// SSL 3.0: the client has no certificate.
    NO_CERTIFICATE = 41, "no_certificate";
    /// A certificate that cannot be read, or has a wrong signature.
    BAD_CERTIFICATE = 42, "bad_certificate";
    /// A certificate of an unknown kind.
    UNSUPPORTED_CERTIFICATE = 43, "unsupported_certificate";
    /// A certificate that its issuer has revoked.
    CERTIFICATE_REVOKED = 44, "certificate_revoked";
    /// A certificate outside of its validity.
    CERTIFICATE_EXPIRED = 45, "certificate_expired";
    /// A certificate that is unacceptable for another reason.
    CERTIFICATE_UNKNOWN = 46, "certificate_unknown";
    /// A field that parses but contradicts the protocol or another field.
    ILLEGAL_PARAMETER = 47, "illegal_parameter";
    /// A certificate of an issuer that is not known.
    UNKNOWN_CA = 48, "unknown_ca";
    /// A valid certificate whose owner has no access.
    ACCESS_DENIED = 49, "access_denied";
    /// A length or a field that does not parse.
    DECODE_ERROR = 50, "decode_error";
    /// A signature, a Finished or a binder that does not verify.
    DECRYPT_ERROR = 51, "decrypt_error";
    /// A protocol version that is understood but not accepted.
    PROTOCOL_VERSION = 70, "protocol_version";
    /// No parameter in common is strong enough.
    INSUFFICIENT_SECURITY = 71, "insufficient_security";
    /// A fault of our own, or a limit of ours.
    INTERNAL_ERROR = 80, "internal_error";
    /// A second attempt with an older version than both sides speak (RFC 7507).
    INAPPROPRIATE_FALLBACK = 86, "inappropriate_fallback";
    /// The user ended the handshake.
    USER_CANCELED = 90, "user_canceled";
    /// Renegotiation is refused (RFC 5246 section 7.2.2).
    NO_RENEGOTIATION = 100, "no_renegotiation";
    /// An extension that the protocol requires is not there.
    MISSING_EXTENSION = 109, "missing_extension";
    /// An extension that is not allowed in this message.
    UNSUPPORTED_EXTENSION = 110, "unsupported_extension";
    /// RFC 6066: no certificate at the address given.
    CERTIFICATE_UNOBTAINABLE = 111, "certificate_unobtainable";
    /// No server is known by the name in the hello (RFC 6066 section 3).
    UNRECOGNIZED_NAME = 112, "unrecognized_name";
    /// A stapled OCSP response that is not good.
    BAD_CERTIFICATE_STATUS_RESPONSE = 113, "bad_certificate_status_response";
    /// RFC 6066: a certificate whose hash differs from the given one.
    BAD_CERTIFICATE_HASH_VALUE = 114, "bad_certificate_hash_value";
    /// No key is known by the identity in the hello.
    UNKNOWN_PSK_IDENTITY = 115, "unknown_psk_identity";
    /// TLS 1.3: a client certificate is required and none came.
    CERTIFICATE_REQUIRED = 116, "certificate_required";
    /// No protocol in common (RFC 7301).
    NO_APPLICATION_PROTOCOL = 120, "no_application_protocol";
    /// Encrypted ClientHello is required (RFC 9849).
    ECH_REQUIRED = 121, "ech_required";
}

/// Returns an alert for a log: its name, or its number if it has none.
pub fn label(description: u8) -> String {
    name(description).map_or_else(|| format!("alert {description}"), str::to_owned)
}

/// Makes a fatal alert: one plaintext record of the version that TLS 1.2 and 1.3 share.
pub fn alert_record(description: u8) -> [u8; 7] {
    const ALERT: u8 = 21;
    const FATAL: u8 = 2;
    [ALERT, 3, 3, 0, 2, FATAL, description]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_the_names_of_the_registry() {
        assert_eq!(label(CERTIFICATE_REQUIRED), "certificate_required");
        assert_eq!(label(10), "unexpected_message");
        assert_eq!(label(200), "alert 200");
    }
}
