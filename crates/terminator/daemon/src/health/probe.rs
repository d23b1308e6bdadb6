//! One check of one server at one address: the dial and the dialog.
//!
//! Owns what counts as an answer; time limits are the caller's.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use backend::options::{CheckKind, CheckOptions};
use tls::probe::Probe;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use wire::address::{Address, Endpoint, UnixName};
use wire::http;

/// The bytes of a status line that decide: `HTTP/1.1 200` and what follows the number.
const STATUS_BYTES: usize = 13;

/// A flight of a server's handshake seldom has more.
const READ_BYTES: usize = 4096;

/// What is asked of a server, made ready.
#[derive(Clone, Debug)]
pub(super) struct Target {
    preface: Vec<u8>,
    question: Question,
}

#[derive(Clone, Debug)]
enum Question {
    Http { request: Vec<u8> },
    Tcp,
    Tls { name: Option<String> },
}

/// What a server answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Passed {
    Connected,
    Handshake,
    Status(u16),
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("accepted the connection"),
            Self::Handshake => f.write_str("finished a TLS handshake"),
            Self::Status(code) => write!(f, "answered with status {code}"),
        }
    }
}

/// Why a check failed; each is the server's fault, or its host's.
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
    #[error("answered with status {0}")]
    Status(u16),
    #[error("did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("{0}")]
    Tls(#[from] tls::probe::ProbeFault),
}

impl Target {
    /// `preface` is sent before all else.
    pub(super) fn new(check: &CheckOptions, endpoint: &Endpoint, preface: &[u8]) -> Self {
        let question = match &check.kind {
            CheckKind::Http { path, host } => {
                let host = host.clone().unwrap_or_else(|| host_of(endpoint));
                Question::Http {
                    request: request(path, &host),
                }
            }
            CheckKind::Tcp => Question::Tcp,
            CheckKind::Tls { name } => Question::Tls { name: name.clone() },
        };
        Self {
            preface: preface.to_vec(),
            question,
        }
    }

    /// Dials and asks.
    pub(super) async fn probe(&self, address: &Address) -> Result<Passed, ProbeFault> {
        let mut stream = dial(address).await.map_err(ProbeFault::Dial)?;
        if !self.preface.is_empty() {
            stream.write_all(&self.preface).await?;
        }
        match &self.question {
            Question::Http { request } => ask_http(&mut *stream, request).await,
            Question::Tcp => Ok(Passed::Connected),
            Question::Tls { name } => shake_hands(&mut *stream, name.as_deref()).await,
        }
    }
}

/// What the `Host` field says of a server: a Unix socket has no host, and what HTTP client there
/// is says `localhost` then.
fn host_of(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Address(Address::Unix(_)) => "localhost".to_owned(),
        other => other.to_string(),
    }
}

/// A request for one path, after whose answer the connection ends.
fn request(path: &str, host: &str) -> Vec<u8> {
    let agent = concat!("lariat-check/", env!("CARGO_PKG_VERSION"));
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n"
    )
    .into_bytes()
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn dial(address: &Address) -> io::Result<Box<dyn Stream>> {
    Ok(match address {
        Address::Ip(address) => Box::new(TcpStream::connect(address).await?),
        Address::Unix(UnixName::Path(path)) => Box::new(UnixStream::connect(path).await?),
        Address::Unix(UnixName::Abstract(name)) => {
            // As the kernel writes it: a NUL, then the name.
            let path = [b"\0", name.as_slice()].concat();
            Box::new(UnixStream::connect(OsStr::from_bytes(&path)).await?)
        }
    })
}

async fn ask_http(stream: &mut dyn Stream, request: &[u8]) -> Result<Passed, ProbeFault> {
    stream.write_all(request).await?;
    let mut answer = [0; STATUS_BYTES];
    let mut length = 0;
    loop {
        match http::status_code(&answer[..length]) {
            Ok(Some(code @ 200..=399)) => return Ok(Passed::Status(code)),
            Ok(Some(code)) => return Err(ProbeFault::Status(code)),
            Ok(None) => {}
            Err(_) => return Err(ProbeFault::NotHttp),
        }
        match stream.read(&mut answer[length..]).await? {
            0 => return Err(ProbeFault::Closed),
            count => length += count,
        }
    }
}

async fn shake_hands(stream: &mut dyn Stream, name: Option<&str>) -> Result<Passed, ProbeFault> {
    let mut probe = Probe::new(name)?;
    let mut buffer = [0; READ_BYTES];
    while !probe.is_done() {
        stream.write_all(&probe.output()).await?;
        let count = stream.read(&mut buffer).await?;
        if let Err(fault) = probe.input(&buffer[..count]) {
            // The alert is a courtesy: the fault is what counts.
            let _ = stream.write_all(&probe.output()).await;
            return Err(fault.into());
        }
    }
    // So is the end, which spares the server an error in its log.
    let _ = stream.write_all(&probe.close()).await;
    Ok(Passed::Handshake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_whole() {
        let request = String::from_utf8(request("/health?a=b", "app.example:80")).unwrap();
        assert!(request.starts_with("GET /health?a=b HTTP/1.1\r\nHost: app.example:80\r\n"));
        assert!(request.ends_with("\r\nConnection: close\r\n\r\n"));
    }
}
