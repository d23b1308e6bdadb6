//! A fake server's stream, TCP or Unix.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

pub trait Stream: Read + Send + Write {
    /// Sends FIN: the peer reads the end of the stream, and we still read what it sends.
    fn end(&self) -> io::Result<()>;

    /// Waits until at least one byte can be read, and leaves it there; false at the stream's end.
    fn wait_for_byte(&self) -> io::Result<bool>;
}

impl Stream for TcpStream {
    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn wait_for_byte(&self) -> io::Result<bool> {
        Ok(self.peek(&mut [0])? > 0)
    }
}

impl Stream for UnixStream {
    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn wait_for_byte(&self) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
