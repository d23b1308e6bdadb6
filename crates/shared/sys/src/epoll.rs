//! Reports readiness of descriptors (epoll(7)) and wakes a loop from another thread (eventfd(2)).
//!
//! Handles the instance and the event buffer; the caller gives tokens a meaning.

use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, epoll as kernel, eventfd};
use rustix::time::Timespec;

/// Events to wait for. Errors and hang-ups are always reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interest(EventFlags);

impl Interest {
    /// Bytes to read, or the peer's end of stream (`EPOLLIN | EPOLLRDHUP`).
    pub const READ: Self = Self(EventFlags::IN.union(EventFlags::RDHUP));
    pub const WRITE: Self = Self(EventFlags::OUT);
    /// Report changes only, once each (`EPOLLET`).
    pub const EDGE: Self = Self(EventFlags::ET);
    /// Everything that arrives on a connection, once each, including urgent data of TCP, at whose
    /// mark a read stops (`EPOLLPRI`).
    pub const STREAM: Self = Self(Self::READ.0.union(EventFlags::PRI).union(EventFlags::ET));
    /// Connections to accept from a listener that several instances watch: only one of them wakes
    /// (`EPOLLEXCLUSIVE`). Only for `add`, and alone: the kernel refuses `EPOLLRDHUP` beside it.
    pub const ACCEPT_SHARED: Self = Self(EventFlags::IN.union(EventFlags::EXCLUSIVE));
}

impl BitOr for Interest {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// Opens an instance, closed on exec.
    pub fn new() -> io::Result<Self> {
        let fd = kernel::create(kernel::CreateFlags::CLOEXEC)?;
        Ok(Self { fd })
    }

    /// Watches a descriptor. The kernel removes it when its last copy is closed.
    #[inline]
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(kernel::add(&self.fd, fd, kernel::EventData::new_u64(token), interest.0)?)
    }

    /// Changes the events to wait for, or re-arms an edge.
    #[inline]
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(kernel::modify(&self.fd, fd, kernel::EventData::new_u64(token), interest.0)?)
    }

    /// Stops watching a descriptor.
    #[inline]
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(kernel::delete(&self.fd, fd)?)
    }

    /// Waits until something is ready or the time is over, and returns the number of events; 0 if
    /// the time is over or a signal came. `None` waits without limit; the kernel counts in whole
    /// milliseconds, rounded up.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        events.list.clear();
        // A duration that the kernel cannot express (292 billion years) counts as no limit.
        let timeout = timeout.and_then(|time| Timespec::try_from(time.min(WAIT_MAX)).ok());
        match kernel::wait(&self.fd, spare_capacity(&mut events.list), timeout.as_ref()) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Epoll {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// epoll_pwait(2) takes an `int` of milliseconds; a day is well below its maximum.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Events of one wait. Reused from wait to wait: no allocation after the first.
pub struct Events {
    list: Vec<kernel::Event>,
}

impl Events {
    /// Reserves room for `count` events per wait (at least 1).
    pub fn with_capacity(count: usize) -> Self {
        let list = Vec::with_capacity(count.max(1));
        Self { list }
    }

    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        self.list.iter().map(Event::from_kernel)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Event {
    /// The caller's name for the descriptor.
    pub token: u64,
    /// Bytes or the end of the stream can be read (`EPOLLIN`).
    pub readable: bool,
    /// Urgent data is there (`EPOLLPRI`).
    pub urgent: bool,
    /// Writing would not block (`EPOLLOUT`).
    pub writable: bool,
    /// The peer has shut down its writing side (`EPOLLRDHUP`).
    pub read_closed: bool,
    /// Both directions are shut down (`EPOLLHUP`).
    pub hung_up: bool,
    /// The descriptor has an error, to be read with `socket::take_error` (`EPOLLERR`).
    pub error: bool,
}

impl Event {
    #[inline]
    fn from_kernel(event: &kernel::Event) -> Self {
        let (flags, data) = (event.flags, event.data);
        Self {
            token: data.u64(),
            readable: flags.contains(EventFlags::IN),
            urgent: flags.contains(EventFlags::PRI),
            writable: flags.contains(EventFlags::OUT),
            read_closed: flags.contains(EventFlags::RDHUP),
            hung_up: flags.contains(EventFlags::HUP),
            error: flags.contains(EventFlags::ERR),
        }
    }
}

const PARAMS_BYTES: usize = 120;

/// Opens a ring of one entry and closes it. Fails with `Unsupported` if the kernel has none, and
/// with `PermissionDenied` if a setting, a sandbox or a container forbids it.
pub fn probe_io_uring() -> io::Result<()> {
    let mut params = [0_u64; PARAMS_BYTES / 8];
    // SAFETY: the kernel reads and writes PARAMS_BYTES at `params`, which is as long, aligned as
    // the struct's widest field, and outlives the call; zeros ask for nothing special.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
    let Ok(descriptor) = libc::c_int::try_from(answer) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    Ok(())
}

/// A descriptor that becomes readable when any thread calls [`Waker::wake`].
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd })
    }

    /// Makes the descriptor readable; may be called from any thread, any number of times.
    #[inline]
    pub fn wake(&self) {
        // Fails only with EAGAIN, at 2^64 - 1 wakes not drained: then it is readable anyway.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Resets the waker. The caller then handles everything that it was woken for before this call.
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
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn wait(epoll: &Epoll, timeout: Option<Duration>) -> Vec<Event> {
        let mut events = Events::with_capacity(8);
        epoll.wait(&mut events, timeout).unwrap();
        events.iter().collect()
    }

    #[test]
    fn each_side_of_a_pair_says_what_happened_to_it() {
        let epoll = Epoll::new().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let both = Interest::READ | Interest::WRITE | Interest::EDGE;
        epoll.add(&ours, 7, both).unwrap();
        let events = wait(&epoll, None);
        assert!(matches!(
            events[..],
            [Event { urgent: false, token: 7, readable: false, writable: true, .. }]
        ));

        theirs.write_all(b"x").unwrap();
        assert!(wait(&epoll, None)[0].readable);

        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let event = wait(&epoll, None)[0];
        assert!(event.read_closed && !event.hung_up);

        drop(theirs);
        assert!(wait(&epoll, None)[0].hung_up);
    }

    #[test]
    fn an_edge_is_told_once_and_again_when_re_armed() {
        let epoll = Epoll::new().unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let edge = Interest::WRITE | Interest::EDGE;
        epoll.add(&ours, 1, edge).unwrap();
        assert_eq!(wait(&epoll, None).len(), 1);
        assert_eq!(wait(&epoll, Some(Duration::ZERO)).len(), 0);
        epoll.modify(&ours, 2, edge).unwrap();
        assert_eq!(wait(&epoll, None)[0].token, 2);
        epoll.remove(&ours).unwrap();
        assert_eq!(wait(&epoll, Some(Duration::ZERO)).len(), 0);
    }

    #[test]
    fn a_shared_listener_may_be_watched_exclusively() {
        let epoll = Epoll::new().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        epoll.add(&ours, 1, Interest::ACCEPT_SHARED).unwrap();
        theirs.write_all(b"x").unwrap();
        assert!(wait(&epoll, None)[0].readable);
    }

    #[test]
    fn the_longest_wait_is_accepted() {
        let epoll = Epoll::new().unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        epoll.add(&ours, 1, Interest::WRITE).unwrap();
        assert_eq!(wait(&epoll, Some(Duration::MAX)).len(), 1);
    }

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

    #[test]
    fn a_ring_is_made_or_refused_with_a_reason() {
        use io::ErrorKind::{OutOfMemory, PermissionDenied, Unsupported};
        match probe_io_uring() {
            Ok(()) => {}
            Err(error) => {
                let kinds = [PermissionDenied, Unsupported, OutOfMemory];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
        }
    }
}
