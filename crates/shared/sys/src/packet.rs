//! Exchanges short messages between two threads of two processes, each delivered whole or not at
//! all (`SOCK_SEQPACKET`).
//!
//! Handles the waiting; the caller gives the bytes a meaning. No thread shares an end with another,
//! so nothing is locked.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};

use crate::wait_for;

/// Returns two ends, which are alike.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message. Fails with `WouldBlock` if the peer has not read earlier ones.
pub fn send_now(end: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retry_on_intr(|| send(&end, bytes, flags))?;
    Ok(())
}

/// Waits for the next message and returns its length; bytes beyond `room` are cut off. `None` if
/// the peer is gone.
pub fn receive(end: impl AsFd, room: &mut [u8]) -> io::Result<Option<usize>> {
    match retry_on_intr(|| recv(&end, &mut *room, RecvFlags::empty())) {
        Ok((0, _)) | Err(Errno::CONNRESET) => Ok(None),
        Ok((length, _)) => Ok(Some(length)),
        Err(error) => Err(error.into()),
    }
}

/// Like [`receive`], but fails with `TimedOut` at the deadline `until`.
pub fn receive_until(end: impl AsFd, room: &mut [u8], until: Instant) -> io::Result<Option<usize>> {
    loop {
        match retry_on_intr(|| recv(&end, &mut *room, RecvFlags::DONTWAIT)) {
            Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(None),
            Ok((length, _)) => return Ok(Some(length)),
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Err(io::ErrorKind::TimedOut.into());
        }
        retry_on_intr(|| wait_for(&end, PollFlags::IN, Some(left)))?;
    }
}

/// Shuts down both directions for all processes that have a copy of either end: nobody can send any
/// more, and nobody waits.
pub fn end(end: impl AsFd) {
    // Fails only if the other end is gone.
    let _ = shutdown(end, Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_apart_and_an_end_is_an_end() {
        let (ours, theirs) = pair().unwrap();
        send_now(&ours, b"one").unwrap();
        send_now(&ours, b"twofold").unwrap();
        let mut room = [0; 4];
        assert_eq!(receive(&theirs, &mut room).unwrap(), Some(3));
        assert_eq!(receive(&theirs, &mut room).unwrap(), Some(4));
        let none = receive_until(&theirs, &mut room, Instant::now()).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::TimedOut);
        drop(ours);
        assert_eq!(receive_until(&theirs, &mut room, Instant::now()).unwrap(), None);
        assert_eq!(send_now(&theirs, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
    #[test]
    fn an_end_holds_for_all_copies() {
        let (ours, theirs) = pair().unwrap();
        let copies = [ours.try_clone().unwrap(), theirs.try_clone().unwrap(), theirs];
        let waits = ours.try_clone().unwrap();
        let waiting = std::thread::spawn(move || receive(&waits, &mut [0; 4]).unwrap());
        end(&ours);
        assert_eq!(waiting.join().unwrap(), None);
        for copy in &copies {
            assert_eq!(receive(copy, &mut [0; 4]).unwrap(), None);
            assert_eq!(send_now(copy, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
