//! Moves bytes from one descriptor to another within the kernel: sendfile(2) and splice(2).
//!
//! Non-blocking. The process does not copy the bytes; the caller decides whether that pays.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

/// A pipe: the kernel's buffer between two calls of splice(2).
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    capacity: usize,
}

impl Pipe {
    /// Opens a pipe that holds up to `wanted` bytes, or as much as the system allows
    /// (`fs.pipe-max-size`, `fs.pipe-user-pages-soft`).
    pub fn new(wanted: usize) -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let capacity = match fcntl_setpipe_size(&writer, wanted) {
            Ok(capacity) => capacity,
            Err(_) => fcntl_getpipe_size(&writer)?,
        };
        Ok(Self { reader, writer, capacity })
    }

    /// Returns how many bytes the pipe holds if each of its pages is full.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Reads up to `count` bytes from a stream; 0 = end of stream. Fails with `WouldBlock` if the
    /// stream has none or the pipe is full.
    #[inline]
    pub fn fill(&self, stream: impl AsFd, count: usize) -> io::Result<usize> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        Ok(rustix::pipe::splice(stream, None, &self.writer, None, count, flags)?)
    }

    /// Writes up to `count` of its bytes to a stream; `has_more` = others follow at once, so that
    /// segments and records are filled. Fails with `EPIPE` if the peer is gone; the caller must
    /// ignore `SIGPIPE`, as Rust programs do.
    #[inline]
    pub fn drain(&self, stream: impl AsFd, count: usize, has_more: bool) -> io::Result<usize> {
        let mut flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        if has_more {
            flags |= SpliceFlags::MORE;
        }
        Ok(rustix::pipe::splice(&self.reader, None, stream, None, count, flags)?)
    }
}

/// The end that is filled, which was opened last.
impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }
}

/// Sends up to `count` bytes of a file from `offset` on; 0 = the file ends at or before `offset`.
/// Fails with `WouldBlock` if the stream takes nothing now, and with `EPIPE` and the signal, as
/// with [`Pipe::drain`], if the peer is gone.
#[inline]
pub fn send_file(
    stream: impl AsFd,
    file: impl AsFd,
    offset: u64,
    count: usize,
) -> io::Result<usize> {
    let mut offset = offset;
    Ok(rustix::fs::sendfile(stream, file, Some(&mut offset), count)?)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, server)
    }

    fn file_of(content: &[u8]) -> std::fs::File {
        let memory = rustix::fs::memfd_create("content", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = std::fs::File::from(memory);
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn a_stretch_of_a_file_is_sent() {
        let (mut client, server) = pair();
        let file = file_of(b"0123456789");
        assert_eq!(send_file(&server, &file, 3, 4).unwrap(), 4);
        // The file ends first.
        assert_eq!(send_file(&server, &file, 8, 100).unwrap(), 2);
        assert_eq!(send_file(&server, &file, 10, 100).unwrap(), 0);
        drop(server);
        let mut got = String::new();
        client.read_to_string(&mut got).unwrap();
        assert_eq!(got, "345689");
    }

    #[test]
    fn a_stream_that_takes_nothing_is_not_waited_for() {
        let (_client, server) = pair();
        server.set_nonblocking(true).unwrap();
        let file = file_of(&vec![7; 1 << 20]);
        let error = loop {
            if let Err(error) = send_file(&server, &file, 0, 1 << 20) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn bytes_pass_through_a_pipe() {
        let (mut client, server) = pair();
        let (target, mut sink) = pair();
        server.set_nonblocking(true).unwrap();
        let pipe = Pipe::new(1 << 16).unwrap();
        assert!(pipe.capacity() >= 1 << 12);
        let nothing = pipe.fill(&server, 100).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        client.write_all(b"some words").unwrap();
        let mut waiting = [0];
        server.set_nonblocking(false).unwrap();
        server.peek(&mut waiting).unwrap();
        assert_eq!(pipe.fill(&server, 100).unwrap(), 10);
        assert_eq!(pipe.drain(&target, 4, true).unwrap(), 4);
        assert_eq!(pipe.drain(&target, 100, false).unwrap(), 6);
        drop(client);
        assert_eq!(pipe.fill(&server, 100).unwrap(), 0);
        drop(target);
        let mut got = String::new();
        sink.read_to_string(&mut got).unwrap();
        assert_eq!(got, "some words");
    }
}
