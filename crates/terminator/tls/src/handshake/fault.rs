//! Describes the fault of a handshake, the side that caused it, and the alert for it.
//!
//! Translates the TLS library's errors. The library has no alert for some of them, and for some
//! another one than the RFC requires.

use std::fmt::{self, Display, Formatter};

use rustls::{CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};
use telemetry::outcome::Reason;
use wire::alert;

use crate::context;
use crate::options::Version;
use crate::signing::signature_fault_of;
use crate::verify::{is_empty_certificate, refusal_of, signature_fault};

/// A record after refused early data, within a message, that our keys do not open.
const UNDECRYPTABLE_AMID_MESSAGE: PeerMisbehaved =
    PeerMisbehaved::RejectedEarlyDataInterleavedWithHandshakeMessage;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HandshakeFault {
    pub reason: Reason,
    pub detail: String,
    /// Number of the fatal alert to send; `None` = none is due, or the library has sent one that we
    /// cannot read.
    pub alert: Option<u8>,
}

/// Alert that the library had ready for its error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LibraryAlert {
    Missing,
    /// This alert, which was held back.
    HeldBack(u8),
    /// An alert that we cannot read. It is sent unchanged.
    Sent,
}

impl HandshakeFault {
    /// Creates a fault of the client's, reported by this alert.
    pub(super) fn violation(alert: u8, detail: impl Into<String>) -> Self {
        Self::new(Reason::ProtocolViolation, detail, Some(alert))
    }

    /// Creates the fault of a client that has closed its stream.
    pub(super) fn closed() -> Self {
        Self::new(Reason::ClientDisconnected, "the client sent close_notify", None)
    }

    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(Reason::Internal, detail, Some(alert::INTERNAL_ERROR))
    }

    pub(crate) fn new(reason: Reason, detail: impl Into<String>, alert: Option<u8>) -> Self {
        Self { reason, detail: detail.into(), alert }
    }

    pub(super) fn of(error: &Error, said: LibraryAlert, version: Option<Version>) -> Self {
        let alert = match said {
            LibraryAlert::Sent => None,
            LibraryAlert::HeldBack(alert) => Some(mended_alert(error, version).unwrap_or(alert)),
            LibraryAlert::Missing if matches!(error, Error::AlertReceived(_)) => None,
            LibraryAlert::Missing => {
                Some(mended_alert(error, version).unwrap_or_else(|| missing_alert(error)))
            }
        };
        if let Some(reason) = refusal_of(error) {
            let refused = context::with(|context| context.refusal.take());
            // Without a refusal the certificate was good.
            let signature = signature_fault(error).filter(|_| refused.is_none());
            if let Some(what) = signature {
                let detail = format!("the client's CertificateVerify {what}");
                return Self::new(Reason::ProtocolViolation, detail, alert);
            }
            let detail = refused.unwrap_or_else(|| error.to_string());
            return Self::new(reason, detail, alert);
        }
        let is_unverified = alert == Some(alert::DECRYPT_ERROR);
        let reason = match error {
            Error::DecryptError if is_unverified => Reason::ProtocolViolation,
            error => reason_of(error),
        };
        let detail = match error {
            Error::AlertReceived(description) => {
                let label = alert::label((*description).into());
                return Self::new(reason, format!("the client sent alert {label}"), alert);
            }
            Error::DecryptError if is_unverified => "the client's Finished does not verify".into(),
            Error::DecryptError => "a record does not decrypt".into(),
            error if signature_fault_of(error).is_some() => {
                signature_fault_of(error).map(|fault| fault.to_string()).unwrap_or_default()
            }
            error => {
                let refused = context::with(|context| context.refusal.take());
                refused.unwrap_or_else(|| words_of(error))
            }
        };
        Self::new(reason, detail, alert)
    }
}

impl Display for HandshakeFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        match self.alert {
            Some(description) => write!(f, "; answered with alert {}", alert::label(description)),
            None => Ok(()),
        }
    }
}

/// Returns the library's error without the names of its code.
fn words_of(error: &Error) -> String {
    match error {
        Error::InvalidMessage(fault) => format!("malformed message: {}", in_words(fault)),
        Error::PeerMisbehaved(fault) => in_words(fault),
        Error::PeerIncompatible(fault) => in_words(fault),
        error => error.to_string(),
    }
}

/// Converts the name of a library fault to words: `MissingData("u8")` is "missing data".
fn in_words(fault: &impl fmt::Debug) -> String {
    let name = format!("{fault:?}");
    let mut words = String::new();
    for letter in name.chars().take_while(|one| one.is_ascii_alphanumeric()) {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

fn reason_of(error: &Error) -> Reason {
    match error {
        Error::AlertReceived(_) => Reason::ClientAlert,
        Error::NoCertificatesPresented => Reason::ClientCertificateMissing,
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Reason::NoCommonParameters,
        Error::DecryptError | Error::PeerSentOversizedRecord => Reason::RecordInvalid,
        Error::PeerMisbehaved(UNDECRYPTABLE_AMID_MESSAGE) => Reason::RecordInvalid,
        Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::InvalidMessage(_)
        | Error::PeerMisbehaved(_) => Reason::ProtocolViolation,
        error if signature_fault_of(error).is_some() => Reason::KeyUnavailable,
        _ => Reason::Internal,
    }
}

/// Returns the RFC's alert if the library's own is another.
fn mended_alert(error: &Error, version: Option<Version>) -> Option<u8> {
    let is_tls13 = version == Some(Version::Tls13);
    match error {
        // RFC 8446 section 9.2.
        Error::PeerIncompatible(
            PeerIncompatible::KeyShareExtensionRequired
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired
            | PeerIncompatible::NamedGroupsExtensionRequired,
        ) if is_tls13 => Some(alert::MISSING_EXTENSION),
        // RFC 8446 sections 4.2.10 and 5.2.
        Error::PeerMisbehaved(UNDECRYPTABLE_AMID_MESSAGE) => Some(alert::BAD_RECORD_MAC),
        // TLS 1.2 has no certificate_required (RFC 5246 section 7.4.6).
        Error::NoCertificatesPresented if !is_tls13 => Some(alert::HANDSHAKE_FAILURE),
        error if is_empty_certificate(error) => Some(alert::DECODE_ERROR),
        // An alert without content (RFC 8446 section 5.4).
        Error::InvalidMessage(InvalidMessage::MissingData("AlertLevel")) => {
            Some(alert::UNEXPECTED_MESSAGE)
        }
        Error::InvalidMessage(InvalidMessage::InvalidEmptyPayload) => {
            Some(alert::UNEXPECTED_MESSAGE)
        }
        _ => None,
    }
}

/// Returns the alert for errors for which the library has none.
fn missing_alert(error: &Error) -> u8 {
    match error {
        Error::InvalidMessage(_) => alert::DECODE_ERROR,
        Error::DecryptError => alert::BAD_RECORD_MAC,
        Error::PeerSentOversizedRecord => alert::RECORD_OVERFLOW,
        Error::NoApplicationProtocol => alert::NO_APPLICATION_PROTOCOL,
        Error::PeerIncompatible(_) => alert::HANDSHAKE_FAILURE,
        Error::InvalidCertificate(CertificateError::Expired) => alert::CERTIFICATE_EXPIRED,
        Error::InvalidCertificate(_) => alert::BAD_CERTIFICATE,
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            alert::UNEXPECTED_MESSAGE
        }
        Error::PeerMisbehaved(PeerMisbehaved::UnsolicitedCertExtension) => {
            alert::UNSUPPORTED_EXTENSION
        }
        Error::PeerMisbehaved(
            PeerMisbehaved::InvalidKeyShare | PeerMisbehaved::ServerNameDifferedOnRetry,
        ) => alert::ILLEGAL_PARAMETER,
        // Messages and records out of place, and too many of an allowed kind.
        Error::PeerMisbehaved(_) => alert::UNEXPECTED_MESSAGE,
        _ => alert::INTERNAL_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_names_become_words() {
        let cut = Error::InvalidMessage(InvalidMessage::MissingData("u8"));
        let fault = HandshakeFault::of(&cut, LibraryAlert::Missing, None);
        assert_eq!(fault.detail, "malformed message: missing data");
        let twice = PeerMisbehaved::DuplicateClientHelloExtensions.into();
        let fault = HandshakeFault::of(&twice, LibraryAlert::Missing, None);
        assert_eq!(fault.detail, "duplicate client hello extensions");
    }

    #[test]
    fn a_record_that_no_key_opens_amid_a_message_is_bad_record_mac() {
        let error = UNDECRYPTABLE_AMID_MESSAGE.into();
        for said in [LibraryAlert::Missing, LibraryAlert::HeldBack(alert::UNEXPECTED_MESSAGE)] {
            let fault = HandshakeFault::of(&error, said, Some(Version::Tls13));
            let found = (fault.alert, fault.reason);
            assert_eq!(found, (Some(alert::BAD_RECORD_MAC), Reason::RecordInvalid));
        }
    }
}
