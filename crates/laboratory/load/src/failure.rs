//! Why a transaction failed: one reason each, with a stable name.
//!
//! Owns the catalogue that `docs/reference/failures.md` is made from.

use std::borrow::Cow;

/// A reason. Its name stands in records.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Failure {
    /// No client was free at its planned instant.
    ClientsExhausted,
    /// Our host: the load lagged behind its plan until the end.
    ScheduleOverrun,
    /// Our host: no local port was free.
    NoLocalPort,
    /// Our host: no descriptor was free.
    NoDescriptor,
    /// The server's host refused the connection.
    ConnectRefused,
    /// The connection could not be made for another reason of the network's.
    ConnectFailed,
    /// There was no answer in time.
    ConnectTimeout,
    /// The handshake was not over in time.
    HandshakeTimeout,
    /// The server reset the connection in the handshake.
    HandshakeReset,
    /// The server closed the connection in the handshake.
    HandshakeClosed,
    /// The server did not agree to TLS in the protocol that begins in plaintext.
    StarttlsFailed,
    /// What came first was no TLS.
    NotTls,
    /// A record could not be decrypted.
    BadRecord,
    /// A message had no sense, or came at the wrong time.
    ProtocolViolation,
    /// The server chose what was not offered, or nothing that we have in common.
    Incompatible,
    /// The server sent a fatal alert (RFC 8446, section 6.2), with its number.
    Alert(u8),
    /// The certificate is for another name.
    CertificateName,
    /// The certificate has expired, or is not valid yet.
    CertificateTime,
    /// The certificate was issued by nobody that we trust.
    CertificateIssuer,
    /// The certificate is that of an authority, not of a server.
    CertificateIsAuthority,
    /// The certificate is wrong in another way.
    Certificate,
    /// A session was to be resumed, but the server had given none of the kind that was wanted.
    ResumptionNotOffered,
    /// A session was offered to the server, which made a full handshake.
    ResumptionDeclined,
    /// Early data was to be sent, but the server's ticket did not allow it or it refused it.
    EarlyDataRejected,
    /// The server reset the connection before the whole reply.
    ReplyReset,
    /// The server closed the connection before the whole reply.
    ReplyClosed,
    /// The whole reply was not there in time.
    ReplyTimeout,
    /// The reply was no HTTP/1.1, or not all of it.
    ReplyMalformed,
    /// The reply had this status, which is no success.
    Status(u16),
    /// The load was stopped while it was under way.
    Interrupted,
}

impl Failure {
    /// The name in records.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        let name = match self {
            Self::Alert(number) => return Cow::Owned(format!("alert-{}", alert(number))),
            Self::Status(code) => return Cow::Owned(format!("status-{code}")),
            Self::ClientsExhausted => "clients-exhausted",
            Self::ScheduleOverrun => "schedule-overrun",
            Self::NoLocalPort => "no-local-port",
            Self::NoDescriptor => "no-descriptor",
            Self::ConnectRefused => "connect-refused",
            Self::ConnectFailed => "connect-failed",
            Self::ConnectTimeout => "connect-timeout",
            Self::HandshakeTimeout => "handshake-timeout",
            Self::HandshakeReset => "handshake-reset",
            Self::HandshakeClosed => "handshake-closed",
            Self::StarttlsFailed => "starttls-failed",
            Self::NotTls => "not-tls",
            Self::BadRecord => "bad-record",
            Self::ProtocolViolation => "protocol-violation",
            Self::Incompatible => "incompatible",
            Self::CertificateName => "certificate-name",
            Self::CertificateTime => "certificate-time",
            Self::CertificateIssuer => "certificate-issuer",
            Self::CertificateIsAuthority => "certificate-is-authority",
            Self::Certificate => "certificate",
            Self::ResumptionNotOffered => "resumption-not-offered",
            Self::ResumptionDeclined => "resumption-declined",
            Self::EarlyDataRejected => "early-data-rejected",
            Self::ReplyReset => "reply-reset",
            Self::ReplyClosed => "reply-closed",
            Self::ReplyTimeout => "reply-timeout",
            Self::ReplyMalformed => "reply-malformed",
            Self::Interrupted => "interrupted",
        };
        Cow::Borrowed(name)
    }
}

impl Failure {
    /// What it means, in a sentence or two.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        let name = match self {
            Self::Alert(_) => Cow::Borrowed("alert-NAME"),
            Self::Status(_) => Cow::Borrowed("status-CODE"),
            other => other.name(),
        };
        let known = CATALOGUE.iter().find(|(known, ..)| *known == name);
        known.map_or("", |(.., meaning)| meaning)
    }
}

/// Every reason, with what it means and whose side it is on.
pub const CATALOGUE: &[(&str, &str, &str)] = &[
    (
        "clients-exhausted",
        "client",
        "Every client was busy at its planned instant: the server is too slow for the rate, or \
         there are too few `--clients`.",
    ),
    (
        "schedule-overrun",
        "client",
        "The load had not the CPU to begin it before the end.",
    ),
    (
        "no-local-port",
        "client",
        "No local port was free. More `--source` addresses give more ports.",
    ),
    (
        "no-descriptor",
        "client",
        "No file descriptor was free (`ulimit -n`).",
    ),
    (
        "connect-refused",
        "server",
        "No program listens there, or the queue is full.",
    ),
    (
        "connect-failed",
        "network",
        "The connection could not be made: no route, or an invalid address.",
    ),
    (
        "connect-timeout",
        "server",
        "The dial was not answered within `--timeout`.",
    ),
    (
        "handshake-timeout",
        "server",
        "The handshake was not over within `--timeout`.",
    ),
    (
        "handshake-reset",
        "server",
        "The connection was reset in the handshake.",
    ),
    (
        "handshake-closed",
        "server",
        "The connection was closed in the handshake, without an alert.",
    ),
    (
        "starttls-failed",
        "server",
        "The server refused TLS, does not offer it, or does not speak the protocol of \
         `--starttls`; `lariat-lab probe --starttls` shows its words.",
    ),
    (
        "not-tls",
        "server",
        "The first bytes that came are no TLS, or no record that TLS allows.",
    ),
    (
        "bad-record",
        "server",
        "A record could not be decrypted, or was too long.",
    ),
    (
        "protocol-violation",
        "server",
        "A message had no sense, or came at the wrong time.",
    ),
    (
        "incompatible",
        "server",
        "The server chose what was not offered.",
    ),
    (
        "alert-NAME",
        "server",
        "The server sent this fatal alert (RFC 8446, section 6.2).",
    ),
    (
        "certificate-name",
        "server",
        "Its certificate is for another name.",
    ),
    (
        "certificate-time",
        "server",
        "Its certificate has expired or is not valid yet.",
    ),
    (
        "certificate-issuer",
        "server",
        "Its certificate was issued by nobody in `--ca`.",
    ),
    (
        "certificate-is-authority",
        "server",
        "Its certificate is an authority's own, as `openssl req -x509` makes it, and no server's: \
         issue one for the server from it, or use `--verify signature`.",
    ),
    (
        "certificate",
        "server",
        "Its certificate or signature is wrong in another way.",
    ),
    (
        "resumption-not-offered",
        "server",
        "A session was to be resumed, but the server had given none of the wanted kind.",
    ),
    (
        "resumption-declined",
        "server",
        "A session was offered; the server made a full handshake.",
    ),
    (
        "early-data-rejected",
        "server",
        "Early data was not allowed by the ticket, or refused.",
    ),
    (
        "reply-reset",
        "server",
        "The connection was reset before the whole reply.",
    ),
    (
        "reply-closed",
        "server",
        "The connection was closed before the whole reply.",
    ),
    (
        "reply-timeout",
        "server",
        "The whole reply was not there within `--timeout`.",
    ),
    (
        "reply-malformed",
        "server",
        "The reply is no HTTP/1.1, or longer than it said.",
    ),
    (
        "status-CODE",
        "server",
        "The reply has a status that is neither 2xx nor 3xx.",
    ),
    (
        "interrupted",
        "client",
        "The load was stopped while the transaction was under way.",
    ),
];

/// Appends the table of reasons, as Markdown.
pub fn write_reference(out: &mut String) {
    out.push_str("| reason | side | meaning |\n|---|---|---|\n");
    for (name, side, meaning) in CATALOGUE {
        out.push_str(&format!("| `{name}` | {side} | {meaning} |\n"));
    }
}

/// The name of an alert in RFC 8446, section 6; others by their number.
fn alert(number: u8) -> Cow<'static, str> {
    let name = match number {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => return Cow::Owned(number.to_string()),
    };
    Cow::Borrowed(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_has_every_reason() {
        use Failure::*;
        let all = [
            ClientsExhausted,
            ScheduleOverrun,
            NoLocalPort,
            NoDescriptor,
            ConnectRefused,
            ConnectFailed,
            ConnectTimeout,
            HandshakeTimeout,
            HandshakeReset,
            HandshakeClosed,
            StarttlsFailed,
            NotTls,
            BadRecord,
            ProtocolViolation,
            Incompatible,
            CertificateName,
            CertificateTime,
            CertificateIssuer,
            CertificateIsAuthority,
            Certificate,
            ResumptionNotOffered,
            ResumptionDeclined,
            EarlyDataRejected,
            ReplyReset,
            ReplyClosed,
            ReplyTimeout,
            ReplyMalformed,
            Interrupted,
        ];
        for failure in all {
            let known = CATALOGUE.iter().any(|(name, ..)| *name == failure.name());
            assert!(known, "{failure:?}");
            assert!(!failure.meaning().is_empty(), "{failure:?}");
        }
        assert_eq!(CATALOGUE.len(), all.len() + 2);
        assert_eq!(Alert(40).name(), "alert-handshake_failure");
        assert_eq!(Alert(200).name(), "alert-200");
        assert_eq!(Status(503).name(), "status-503");
    }
}
