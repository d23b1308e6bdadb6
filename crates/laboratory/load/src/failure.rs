//! Defines reasons of failure: of a transaction, each with a stable name, and of a load that does
//! not begin.
//!
//! Holds the table from which `docs/reference/failures.md` is made.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::tls::TlsFault;

macro_rules! failures {
    ($($variant:ident $(($number:ty))?, $side:literal, $name:literal, $meaning:literal;)*) => {
        /// A reason. Records contain its name.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum TransactionFailure {
            $(#[doc = $meaning] $variant $(($number))?,)*
        }

        /// Name of every reason, its side, and its meaning.
        const ROWS: &[[&str; 3]] = &[$([$name, $side, $meaning],)*];

        impl TransactionFailure {
            fn row(self) -> [&'static str; 3] {
                match self {
                    $(Self::$variant { .. } => [$name, $side, $meaning],)*
                }
            }
        }
    };
}

failures! {
    ClientsExhausted, "client", "clients-exhausted", "Every client was busy at its planned instant: the server is too slow for the rate, or there are too few `--clients`.";
    ScheduleOverrun, "client", "schedule-overrun", "The load had not the CPU to begin it before the end, or was stopped.";
    NoLocalPort, "client", "no-local-port", "No local port was free. More `--source` addresses give more ports.";
    NoDescriptor, "client", "no-descriptor", "No file descriptor was free (`ulimit -n`).";
    ConnectRefused, "server", "connect-refused", "No program listens there, or the queue is full.";
    ConnectFailed, "network", "connect-failed", "The connection could not be made: no route, or an invalid address.";
    ConnectTimeout, "server", "connect-timeout", "The dial was not answered within `--timeout`.";
    HandshakeTimeout, "server", "handshake-timeout", "The handshake was not over within `--timeout`.";
    HandshakeReset, "server", "handshake-reset", "The connection was reset in the handshake.";
    HandshakeClosed, "server", "handshake-closed", "The connection was closed in the handshake, without an alert.";
    StarttlsFailed, "server", "starttls-failed", "The server refused TLS, does not offer it, or does not speak the protocol of `--starttls`; `lariat-lab probe --starttls` shows its words.";
    NotTls, "server", "not-tls", "The first bytes that came are no TLS, or no record that TLS allows.";
    BadRecord, "server", "bad-record", "A record could not be decrypted, or was too long.";
    ProtocolViolation, "server", "protocol-violation", "A message had no sense, or came at the wrong time.";
    Incompatible, "server", "incompatible", "The server chose what was not offered.";
    Alert(u8), "server", "alert-NAME", "The server sent this fatal alert (RFC 8446, section 6.2).";
    CertificateName, "server", "certificate-name", "Its certificate is for another name.";
    CertificateTime, "server", "certificate-time", "Its certificate has expired or is not valid yet.";
    CertificateIssuer, "server", "certificate-issuer", "Its certificate was issued by nobody in `--ca`.";
    CertificateIsAuthority, "server", "certificate-is-authority", "Its certificate is an authority's own: issue one for the server from it, or use `--verify signature`.";
    CertificateChain, "server", "certificate-chain", "It sent so many certificates that looking for a path would cost too much.";
    Certificate, "server", "certificate", "Its certificate or signature is wrong in another way.";
    EchRejected, "server", "ech-rejected", "It answered for the public name of `--ech`, and sent no newer configurations: it does not know ECH, or has it no more (RFC 9849, section 6.1.6).";
    EchOutdated, "server", "ech-outdated", "It answered for the public name of `--ech`, and sent newer configurations: those of `--ech` are outdated.";
    ResumptionNotOffered, "server", "resumption-not-offered", "A session was to be resumed, but the server had given none of the wanted kind.";
    ResumptionDeclined, "server", "resumption-declined", "A session was offered; the server made a full handshake.";
    EarlyDataRejected, "server", "early-data-rejected", "Early data was not allowed by the ticket, or refused.";
    ReplyReset, "server", "reply-reset", "The connection was reset before the whole reply.";
    ReplyClosed, "server", "reply-closed", "The connection was closed before the whole reply.";
    ReplyTimeout, "server", "reply-timeout", "The whole reply was not there within `--timeout`.";
    ReplyMalformed, "server", "reply-malformed", "The reply is no HTTP/1.1, or longer than it said.";
    Status(u16), "server", "status-CODE", "The reply has a status that is neither 2xx nor 3xx.";
    Interrupted, "client", "interrupted", "The load was stopped while the transaction was under way.";
}

impl TransactionFailure {
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Alert(number) => Cow::Owned(match wire::alert::name(number) {
                Some(name) => format!("alert-{name}"),
                None => format!("alert-{number}"),
            }),
            Self::Status(code) => Cow::Owned(format!("status-{code}")),
            _ => Cow::Borrowed(self.row()[0]),
        }
    }

    /// Returns the meaning in a sentence or two.
    pub fn meaning(self) -> &'static str {
        self.row()[2]
    }
}

/// Appends the reasons as lists in Markdown, by their side.
pub fn write_reference(out: &mut String) {
    for side in ["client", "network", "server"] {
        out.push_str(&format!("\n## Side `{side}`\n\n"));
        for [name, _, meaning] in ROWS.iter().filter(|[_, of, _]| *of == side) {
            out.push_str(&format!("- `{name}`: {meaning}\n"));
        }
    }
}

/// Reasons why a load does not begin; no packet was sent then.
#[derive(Debug, thiserror::Error)]
pub enum LoadStartFault {
    /// The plan's TLS is not available.
    #[error(transparent)]
    Tls(#[from] TlsFault),
    /// This address is not ours.
    #[error("--source {0}: {1}")]
    Source(IpAddr, std::io::Error),
    /// The kernel refused a descriptor or a CPU.
    #[error("the kernel refused: {0}")]
    Kernel(#[from] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_and_statuses_are_told_apart() {
        assert_eq!(TransactionFailure::Alert(40).name(), "alert-handshake_failure");
        assert_eq!(TransactionFailure::Alert(200).name(), "alert-200");
        assert_eq!(TransactionFailure::Status(503).name(), "status-503");
    }
}
