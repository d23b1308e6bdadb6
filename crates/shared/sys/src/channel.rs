//! Sends messages with descriptors between two processes, over a Unix stream socket.
//!
//! Handles the frames; the caller gives the bytes a meaning. On the wire a message is `u32 length,
//! u32 descriptors` (little-endian), then one byte for each batch of descriptors, which the kernel
//! transfers with it, then the bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recv, recvmsg, send,
    sendmsg, shutdown, socketpair,
};

use crate::wait_for;

/// Largest message: 10,000 certificates with keys and chains of 8 KiB, three times over. A larger
/// one is a mistake, or an attempt to exhaust our memory.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Most descriptors in a message: as many listeners as a process may have files.
pub const DESCRIPTORS_MAX: usize = 1 << 20;

pub type Message = (Vec<u8>, Vec<OwnedFd>);

/// Most descriptors per call: the kernel takes 253 (`SCM_MAX_FD`).
const BATCH_MAX: usize = 250;

/// Step by which memory for a message grows as its bytes arrive; a length alone allocates nothing.
const STEP_BYTES: usize = 1 << 20;

const HEADER_BYTES: usize = 8;

/// Never blocks in the call: `poll` waits, because it knows the deadline of the whole message.
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// One end of a channel. Calls block. Both directions may be used at once by different threads;
/// calls in one direction take turns.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
    send_time_max: Option<Duration>,
    sending: Mutex<()>,
    receiving: Mutex<()>,
}

/// Returns a channel and its other end, which is for another process.
pub fn pair() -> io::Result<(Channel, OwnedFd)> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok((Channel::from(ours), theirs))
}

impl From<OwnedFd> for Channel {
    /// Takes a Unix stream socket as this end.
    fn from(fd: OwnedFd) -> Self {
        Self { fd, send_time_max: None, sending: Mutex::new(()), receiving: Mutex::new(()) }
    }
}

impl AsFd for Channel {
    /// Readable when a message is there or the peer has closed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Channel {
    /// Makes [`Self::send`] fail with `TimedOut` when the peer has not read a whole message within
    /// this time, however it divides its reads. The channel is unusable after that, because part of
    /// a message is in it.
    #[must_use]
    pub fn with_send_timeout(self, timeout: Duration) -> Self {
        Self { send_time_max: Some(timeout), ..self }
    }

    /// Gives up with `TimedOut` when nothing arrives for this time. Only for a peer that is trusted
    /// not to send a message byte by byte, because each byte that arrives restarts the time.
    pub fn set_receive_timeout(&self, timeout: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(&self.fd, Timeout::Recv, Some(timeout))?)
    }

    /// Sends a message; the caller's descriptors stay open.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.len() > MESSAGE_BYTES_MAX || fds.len() > DESCRIPTORS_MAX {
            return Err(invalid("the message is too large to send"));
        }
        let _turn = turn(&self.sending);
        let until = self.send_time_max.map(|max| Instant::now() + max);
        // Both lengths are far below 2^32.
        let header = [bytes.len() as u32, fds.len() as u32].map(u32::to_le_bytes);
        if fds.is_empty() {
            return self.send_both(header.as_flattened(), bytes, until);
        }
        self.send_all(header.as_flattened(), until)?;
        for batch in fds.chunks(BATCH_MAX) {
            self.send_batch(batch, until)?;
        }
        self.send_all(bytes, until)
    }

    /// Shuts the channel down for all processes that have a copy of either end. Messages that were
    /// sent before can still be received.
    pub fn end(&self) {
        // Fails only for a channel that is shut down already.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// Waits until a message is there or the peer has closed; returns `false` if only `stop` became
    /// readable. Reads nothing.
    pub fn awaits(&self, stop: &impl AsFd) -> io::Result<bool> {
        let mut fds = [&self.fd as &dyn AsFd, stop]
            .map(|one| PollFd::from_borrowed_fd(one.as_fd(), PollFlags::IN));
        retry_on_intr(|| poll(&mut fds, None))?;
        let [own, _] = fds;
        Ok(!own.revents().is_empty())
    }

    /// Receives the next message; `None` if the peer has closed its end or died.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        self.receive_up_to(MESSAGE_BYTES_MAX, DESCRIPTORS_MAX)
    }

    /// Receives the next message of a peer that may send no more than these limits.
    pub fn receive_up_to(&self, bytes_max: usize, fds_max: usize) -> io::Result<Option<Message>> {
        match self.receive_in_part(bytes_max, fds_max)? {
            Some((_, missing)) if missing > 0 => Err(invalid(
                "descriptors of the message are missing: this process may open no more files",
            )),
            received => Ok(received.map(|(message, _)| message)),
        }
    }

    /// Like [`Self::receive_up_to`], but returns the number of missing descriptors: the kernel
    /// drops those beyond what this process may open. The next message can be received after it.
    pub fn receive_in_part(
        &self,
        bytes_max: usize,
        fds_max: usize,
    ) -> io::Result<Option<(Message, usize)>> {
        let _turn = turn(&self.receiving);
        let Some(header) = self.receive_header()? else {
            return Ok(None);
        };
        let (length, count) = header;
        if length > bytes_max || count > fds_max {
            return Err(invalid("the message is larger than its limit"));
        }
        let fds = self.receive_descriptors(count)?;
        let bytes = self.receive_bytes(length)?;
        let missing = count - fds.len();
        Ok(Some(((bytes, fds), missing)))
    }

    /// Sends two pieces by one call, as far as the socket has room: a process that is stopped
    /// between two calls would leave half a message, and its peer would wait for the rest.
    fn send_both(&self, head: &[u8], bytes: &[u8], until: Option<Instant>) -> io::Result<()> {
        let pieces = [head, bytes].map(IoSlice::new);
        let sent = self.when_writable(until, || {
            sendmsg(&self.fd, &pieces, &mut SendAncillaryBuffer::default(), SEND_FLAGS)
        })?;
        self.send_all(head.get(sent..).unwrap_or_default(), until)?;
        self.send_all(bytes.get(sent.saturating_sub(head.len())..).unwrap_or_default(), until)
    }

    fn send_all(&self, mut bytes: &[u8], until: Option<Instant>) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.when_writable(until, || send(&self.fd, bytes, SEND_FLAGS))?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Makes a non-blocking call, and repeats it each time the socket has room, until it succeeds
    /// or the deadline passes.
    fn when_writable<T>(
        &self,
        until: Option<Instant>,
        mut call: impl FnMut() -> Result<T, Errno>,
    ) -> io::Result<T> {
        loop {
            match call() {
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => continue,
                done => return Ok(done?),
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            retry_on_intr(|| wait_for(&self.fd, PollFlags::OUT, left))?;
        }
    }

    fn send_batch(&self, batch: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH_MAX))];
        let carrier = [IoSlice::new(&[0])];
        self.when_writable(until, || {
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(batch));
            sendmsg(&self.fd, &carrier, &mut control, SEND_FLAGS)
        })?;
        Ok(())
    }

    fn receive_header(&self) -> io::Result<Option<(usize, usize)>> {
        let mut header = [0; HEADER_BYTES];
        match self.fill(&mut header) {
            Ok(HEADER_BYTES) => {}
            // End of stream between two messages is an orderly close; a peer that died with
            // messages of ours unread causes a reset.
            Ok(0) | Err(Errno::CONNRESET) => return Ok(None),
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => return Err(receive_error(error)),
        }
        let (length, count) = header.split_at(HEADER_BYTES / 2);
        let field = |bytes: &[u8]| bytes.first_chunk().copied().map_or(0, u32::from_le_bytes);
        Ok(Some((field(length) as usize, field(count) as usize)))
    }

    fn receive_descriptors(&self, count: usize) -> io::Result<Vec<OwnedFd>> {
        let mut fds = Vec::with_capacity(count.min(BATCH_MAX));
        for _ in 0..count.div_ceil(BATCH_MAX) {
            self.receive_batch(&mut fds)?;
            if fds.len() > count {
                return Err(invalid("more descriptors came than the message has"));
            }
        }
        Ok(fds)
    }

    fn receive_batch(&self, fds: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut carrier = [0u8];
        let received = retry_on_intr(|| {
            let mut room = [IoSliceMut::new(&mut carrier)];
            recvmsg(&self.fd, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC)
        });
        let received = received.map_err(receive_error)?;
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(batch) = message {
                fds.extend(batch);
            }
        }
        Ok(())
    }

    fn receive_bytes(&self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // Reserves address space only: pages are allocated as they are written.
        let reserved = bytes.try_reserve_exact(length);
        reserved.map_err(|_| io::ErrorKind::OutOfMemory)?;
        while bytes.len() < length {
            let from = bytes.len();
            bytes.resize(length.min(from.saturating_add(STEP_BYTES)), 0);
            let room = bytes.get_mut(from..).unwrap_or_default();
            if self.fill(room).map_err(receive_error)? < room.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(bytes)
    }

    /// Receives until `room` is full; returns less if the peer closes first.
    fn fill(&self, room: &mut [u8]) -> Result<usize, Errno> {
        let mut filled = 0;
        while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match recv(&self.fd, rest, RecvFlags::empty()) {
                Ok((0, _)) => break,
                Ok((bytes, _)) => filled += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// Poison is ignored: a thread that panics while sending ends the whole process.
fn turn(lock: &Mutex<()>) -> MutexGuard<'_, ()> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maps `EAGAIN`, which the kernel returns when `SO_RCVTIMEO` expires, to `TimedOut`.
fn receive_error(error: Errno) -> io::Error {
    match error {
        Errno::AGAIN => io::ErrorKind::TimedOut.into(),
        error => error.into(),
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn channels() -> (Channel, Channel) {
        let (ours, theirs) = pair().unwrap();
        (ours, Channel::from(theirs))
    }

    #[test]
    fn bytes_and_descriptors_arrive_in_order() {
        let (ours, theirs) = channels();
        // More than two batches; each descriptor is recognized by what it reads.
        let pipes: Vec<_> = (0..600u32).map(|n| (n, UnixStream::pair().unwrap())).collect();
        for (n, (_, write)) in &pipes {
            (&*write).write_all(&n.to_le_bytes()).unwrap();
        }
        let fds: Vec<_> = pipes.iter().map(|(_, (read, _))| read.as_fd()).collect();
        let large = vec![7; 3 * STEP_BYTES + 1];
        let (large, _) = std::thread::scope(|scope| {
            scope.spawn(|| {
                ours.send(b"", &[]).unwrap();
                ours.send(b"listeners", &fds).unwrap();
                ours.send(&large, &[]).unwrap();
            });
            assert_eq!(theirs.receive().unwrap().unwrap().0, b"");
            let (bytes, fds) = theirs.receive().unwrap().unwrap();
            assert_eq!((bytes.as_slice(), fds.len()), (&b"listeners"[..], 600));
            for (n, fd) in (0..600u32).zip(fds) {
                let mut word = [0; 4];
                UnixStream::from(fd).read_exact(&mut word).unwrap();
                assert_eq!(u32::from_le_bytes(word), n);
            }
            theirs.receive().unwrap().unwrap()
        });
        assert_eq!(large.len(), 3 * STEP_BYTES + 1);
    }

    #[test]
    fn received_descriptors_are_closed_on_exec() {
        let (ours, theirs) = channels();
        ours.send(b"", &[ours.as_fd()]).unwrap();
        let (_, fds) = theirs.receive().unwrap().unwrap();
        let flags = rustix::io::fcntl_getfd(&fds[0]).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn the_end_is_told_from_a_message_cut_short() {
        let (ours, theirs) = channels();
        drop(ours);
        assert!(theirs.receive().unwrap().is_none());
        theirs.send(b"x", &[]).unwrap_err();

        for cut in [&[1][..], &[9, 0, 0, 0, 0, 0, 0, 0, 1], &[0, 0, 0, 0, 1, 0, 0, 0]] {
            let (ours, theirs) = channels();
            ours.send_all(cut, None).unwrap();
            drop(ours);
            let error = theirs.receive().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{cut:?}");
        }
    }

    #[test]
    fn a_peer_that_died_with_a_message_unread_is_gone() {
        let (ours, theirs) = channels();
        theirs.send(b"x", &[]).unwrap();
        drop(ours);
        assert!(theirs.receive().unwrap().is_none());
    }

    #[test]
    fn more_than_the_limit_is_refused_unread() {
        let (ours, theirs) = channels();
        ours.send(b"123456789", &[]).unwrap();
        let error = theirs.receive_up_to(8, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);

        let (ours, theirs) = channels();
        ours.send(b"", &[ours.as_fd()]).unwrap();
        let error = theirs.receive_up_to(8, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);

        let too_large = vec![0; MESSAGE_BYTES_MAX + 1];
        let error = ours.send(&too_large, &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn missing_descriptors_are_noticed_and_the_next_message_follows() {
        let (ours, theirs) = channels();
        for _ in 0..2 {
            ours.send_all(&[1, 0, 0, 0, 1, 0, 0, 0, 0, b'a'], None).unwrap();
        }
        ours.send(b"b", &[]).unwrap();
        let ((bytes, fds), missing) = theirs.receive_in_part(1, 1).unwrap().unwrap();
        assert_eq!((&bytes[..], fds.len(), missing), (&b"a"[..], 0, 1));
        let error = theirs.receive().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(theirs.receive().unwrap().unwrap().0, b"b");
    }

    #[test]
    fn a_peer_that_takes_nothing_does_not_hold_us() {
        let (ours, _theirs) = channels();
        let ours = ours.with_send_timeout(Duration::from_millis(1));
        let error = ours.send(&vec![0; 16 << 20], &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_peer_that_reads_byte_by_byte_does_not_hold_us() {
        let (ours, theirs) = pair().unwrap();
        let ours = ours.with_send_timeout(Duration::from_millis(20));
        let mut theirs = UnixStream::from(theirs);
        let reader = std::thread::spawn(move || {
            // Each of these reads would restart a timeout of the socket's own.
            let mut byte = [0];
            while theirs.read(&mut byte).is_ok_and(|bytes| bytes > 0) {}
        });
        // The kernel cannot deliver so many single bytes in that time.
        let error = ours.send(&vec![0; 64 << 20], &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        ours.end();
        drop(ours);
        reader.join().unwrap();
    }

    #[test]
    fn a_wait_ends_by_a_message_or_from_outside() {
        let (ours, theirs) = channels();
        let stop = crate::epoll::Waker::new().unwrap();
        stop.wake();
        assert!(!ours.awaits(&stop).unwrap());
        theirs.send(b"x", &[]).unwrap();
        assert!(ours.awaits(&stop).unwrap());
        assert_eq!(ours.receive().unwrap().unwrap().0, b"x");
        assert!(!ours.awaits(&stop).unwrap());
        drop(theirs);
        assert!(ours.awaits(&stop).unwrap());
    }

    #[test]
    fn a_peer_that_says_nothing_does_not_hold_us() {
        // No byte, part of a header, a header without descriptors, one with part of its bytes.
        for begun in [&[][..], &[9], &[0, 0, 0, 0, 1, 0, 0, 0], &[9, 0, 0, 0, 0, 0, 0, 0, 1]] {
            let (ours, theirs) = channels();
            ours.set_receive_timeout(Duration::from_millis(1)).unwrap();
            theirs.send_all(begun, None).unwrap();
            let error = ours.receive().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{begun:?}");
        }
    }
}
