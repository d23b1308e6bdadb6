//! Waking a loop from another thread (eventfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that becomes readable when anybody calls [`Waker::wake`].
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd })
    }

    /// Makes the descriptor readable; from any thread, any number of times.
    #[inline]
    pub fn wake(&self) {
        // It fails only with EAGAIN, at 2^64 - 1 wakes not drained: then it is readable anyway.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Puts the waker to rest. Wakes before this call are answered by what follows it.
    #[inline]
    pub fn drain(&self) {
        // EAGAIN: nobody woke us.
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
    }
}

impl AsFd for Waker {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_awake(waker: &Waker) -> bool {
        let mut fds = [PollFd::new(waker, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn many_wakes_are_one() {
        let waker = Waker::new().unwrap();
        assert!(!is_awake(&waker));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| waker.wake());
            }
        });
        assert!(is_awake(&waker));
        waker.drain();
        assert!(!is_awake(&waker));
        waker.drain();
    }
}
