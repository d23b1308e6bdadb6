//! Dials for the control side, which checks servers and uses the session store.
//!
//! Handles the dial and the TLS handshake; time limits are the caller's task.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use tls::probe::{Probe, ProbeFault};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use wire::address::{Address, UnixName};

/// Read size: a flight of a server's handshake seldom has more.
pub(crate) const READ_BYTES: usize = 4096;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeEnd {
    #[error(transparent)]
    Broken(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] ProbeFault),
}

pub(crate) async fn dial(address: &Address) -> io::Result<Box<dyn Stream>> {
    Ok(match address {
        Address::Ip(address) => {
            let stream = TcpStream::connect(address).await?;
            // A request must not wait for the acknowledgement of the one before it.
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Address::Unix(UnixName::Path(path)) => Box::new(UnixStream::connect(path).await?),
        Address::Unix(UnixName::Abstract(name)) => {
            // The kernel's form of an abstract address: a NUL, then the name.
            let path = [b"\0", name.as_slice()].concat();
            Box::new(UnixStream::connect(OsStr::from_bytes(&path)).await?)
        }
        Address::Inherited(_) => return Err(io::ErrorKind::NotFound.into()),
    })
}

pub(crate) async fn shake_hands(
    stream: &mut dyn Stream,
    probe: &mut Probe,
) -> Result<(), HandshakeEnd> {
    let mut buffer = [0; READ_BYTES];
    while !probe.is_done() {
        stream.write_all(&probe.output()).await?;
        let count = stream.read(&mut buffer).await?;
        if let Err(fault) = probe.input(&buffer[..count]) {
            // The alert is a courtesy: only the fault counts.
            let _ = stream.write_all(&probe.output()).await;
            return Err(fault.into());
        }
    }
    stream.write_all(&probe.output()).await?;
    Ok(())
}
