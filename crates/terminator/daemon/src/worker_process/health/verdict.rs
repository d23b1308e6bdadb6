//! The outcome of a check, in the words that operators read.

use std::fmt;
use std::io;
use std::time::Duration;

use wire::starttls;
use wire::tunnel::TunnelFault;

use crate::worker_process::dial::HandshakeEnd;

/// The head of an answer, with those of interim responses (1xx) before it: four times what servers
/// send by their own limits.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Passed {
    Connected,
    Expected,
    Greeted,
    Handshake,
    Login,
    Status(u16),
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("accepted the connection"),
            Self::Expected => f.write_str("answered as expected"),
            Self::Greeted => f.write_str("greeted"),
            Self::Handshake => f.write_str("finished a TLS handshake"),
            Self::Login => f.write_str("answered a login"),
            Self::Status(code) => write!(f, "answered with status {code}"),
        }
    }
}

/// The fault of a check; each is the server's fault, or its host's.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeFault {
    #[error("closed before it answered")]
    Closed,
    #[error("could not be dialled: {0}")]
    Dial(io::Error),
    #[error("broke the connection: {0}")]
    Broken(#[from] io::Error),
    #[error("answered with something that is not HTTP/1")]
    NotHttp,
    #[error("answered with a Content-Length that is no length, or with several")]
    Length,
    #[error("answered with a head of more than {HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
    #[error("answered with status {0}")]
    Status(u16),
    #[error("answered with status {0}, and `expect-body` is not in its content")]
    Content(u16),
    #[error("answered \"{}\", in which `expect` is not", .0.escape_debug())]
    Unexpected(String),
    #[error("did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("was not heard: this process was stalled")]
    Stalled,
    #[error("{0}")]
    Mysql(String),
    #[error("{0}")]
    Starttls(starttls::Fault),
    #[error("{0}")]
    Tunnel(#[from] TunnelFault),
    #[error("{0}")]
    Tls(#[from] tls::probe::ProbeFault),
}

impl From<HandshakeEnd> for ProbeFault {
    fn from(end: HandshakeEnd) -> Self {
        match end {
            HandshakeEnd::Broken(error) => Self::Broken(error),
            HandshakeEnd::Tls(fault) => Self::Tls(fault),
        }
    }
}
