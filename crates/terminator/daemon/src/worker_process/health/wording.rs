//! The texts of a check: the request of an `http` check with the names in it, and the outcome in
//! the words that operators read.

use std::net::IpAddr;
use std::time::Duration;
use std::{fmt, io};

use backend::options::{HttpCheck, HttpMethod};
use wire::address::{Address, Endpoint, without_zone};
use wire::starttls;
use wire::tunnel::TunnelFault;

use crate::worker_process::dial::HandshakeEnd;

/// The value of the `Host` field for a server: a Unix socket has no host, and what HTTP client
/// there is says `localhost` then.
pub(super) fn host_of(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Address(Address::Unix(_)) => "localhost".to_owned(),
        Endpoint::Service { host, .. } => host.clone(),
        other => without_zone(&other.to_string()),
    }
}

/// The name that a `Host` field has for SNI: no port, and no address (RFC 6066 section 3).
pub(super) fn server_name(host: &str) -> Option<String> {
    let is_address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    (!is_address(host) && !is_address(name)).then(|| name.to_owned())
}

/// A request for one path, after whose answer the connection ends.
pub(super) fn request(check: &HttpCheck, host: &str) -> Vec<u8> {
    let agent = concat!("lariat-check/", env!("CARGO_PKG_VERSION"));
    let path = &check.path;
    let (method, length) = match check.method {
        HttpMethod::Get => ("GET", ""),
        HttpMethod::Head => ("HEAD", ""),
        HttpMethod::Options => ("OPTIONS", ""),
        HttpMethod::Post => ("POST", "Content-Length: 0\r\n"),
    };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\
         {length}Connection: close\r\n\r\n"
    )
    .into_bytes()
}

/// The head of an answer, with those of interim responses (1xx) before it: four times what servers
/// send by their own limits.
pub(super) const HEAD_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PassedStep {
    Connected,
    Expected,
    Greeted,
    Handshake,
    Login,
    Status(u16),
}

impl fmt::Display for PassedStep {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_whole() {
        let check = HttpCheck::of("/health?a=b");
        let request = String::from_utf8(request(&check, "app.example:80")).unwrap();
        assert!(request.starts_with("GET /health?a=b HTTP/1.1\r\nHost: app.example:80\r\n"));
        assert!(request.ends_with("\r\nConnection: close\r\n\r\n"));
    }

    #[test]
    fn a_host_names_a_server_unless_it_is_an_address() {
        for (host, name) in [
            ("db.example:8008", Some("db.example")),
            ("db.example", Some("db.example")),
            ("10.0.0.3:8008", None),
            ("[::1]:8008", None),
            ("::1", None),
        ] {
            assert_eq!(server_name(host).as_deref(), name, "{host}");
        }
    }
}
