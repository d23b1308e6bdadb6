//! Identifies, signals and awaits the process at the other end of a Unix stream socket.
//!
//! All facts come from the kernel, because a peer's own claims prove nothing. The caller decides
//! which peer to trust.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::signal::{Signal, to_rustix};
use crate::{checked, wait_for};

/// Process and user that created the other end. For a client, that is the process that called
/// listen(2), whichever process accepts; both numbers are of that time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Credentials {
    /// The process; 0 if it is in another PID namespace, where we cannot see it.
    pub pid: u32,
    /// The effective user of the process.
    pub user: u32,
}

/// Returns who created the other end (`SO_PEERCRED`).
pub fn credentials(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    // SAFETY: the kernel fills a `ucred`, which holds numbers only.
    let of: libc::ucred = unsafe { option(socket, libc::SO_PEERCRED) }?;
    Ok(Credentials { pid: u32::try_from(of.pid).unwrap_or(0), user: of.uid })
}

/// A process held by a pidfd: its pid may be reused by another process, the pidfd may not.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    fd: OwnedFd,
}

impl Process {
    /// Opens the process that created the other end of the socket. Fails with `NotFound` if it has
    /// ended or is in another PID namespace.
    ///
    /// Before Linux 6.5 the kernel gives only its pid: if the process has ended, this may be
    /// another one with the same pid, so the caller must check its user.
    pub fn behind(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let pid = credentials(socket)?.pid;
        // SAFETY: the kernel fills an `int`.
        match unsafe { option::<libc::c_int>(socket, libc::SO_PEERPIDFD) } {
            Ok(fd) => {
                // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
                let fd = unsafe { OwnedFd::from_raw_fd(fd) };
                Ok(Self { pid, fd })
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Self::of(pid),
            Err(error) => Err(gone(error)),
        }
    }

    /// Opens the process that has this pid now.
    pub fn of(pid: u32) -> io::Result<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        let fd = pidfd_open(number, PidfdFlags::empty()).map_err(|error| gone(error.into()))?;
        Ok(Self { pid, fd })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns its real, effective, saved and file system user (proc_pid_status(5)).
    pub fn users(&self) -> io::Result<Vec<u32>> {
        let line = self.status("Uid:")?;
        let numbers: Result<Vec<_>, _> = line.split_whitespace().map(str::parse).collect();
        numbers.map_err(io::Error::other)
    }

    /// Returns the name of the peer's first thread, at most 15 bytes.
    pub fn name(&self) -> io::Result<String> {
        Ok(self.status("Name:")?.trim().to_owned())
    }

    /// Returns the pid of its parent, or of the process that adopted it.
    pub fn parent(&self) -> io::Result<u32> {
        self.status("PPid:")?.trim().parse().map_err(io::Error::other)
    }

    fn status(&self, key: &str) -> io::Result<String> {
        let text = std::fs::read(format!("/proc/{}/status", self.pid))?;
        // The pid may have been reused meanwhile, unless this process still lives.
        if self.has_ended_within(Duration::ZERO)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        let text = String::from_utf8_lossy(&text);
        let value = text.lines().find_map(|line| line.strip_prefix(key));
        Ok(value.ok_or(io::ErrorKind::InvalidData)?.to_owned())
    }

    /// Sends a signal to this process, never to another. Fails with `NotFound` if it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        pidfd_send_signal(&self.fd, to_rustix(signal)).map_err(|error| gone(error.into()))
    }

    /// Reports whether the process blocks a signal, as a process does that reads it.
    pub fn blocks(&self, signal: Signal) -> io::Result<bool> {
        let blocked = u64::from_str_radix(self.status("SigBlk:")?.trim(), 16);
        let number = to_rustix(signal).as_raw();
        Ok(blocked.map_err(io::Error::other)? & (1 << (number - 1)) != 0)
    }

    /// Sends [`Signal::Order`] with a number. Fails with `Unsupported` if the process does not read
    /// orders (one would kill it), `WouldBlock` if too many are queued, `NotFound` if it has ended.
    pub fn order(&self, value: u64) -> io::Result<()> {
        let number = to_rustix(Signal::Order).as_raw();
        if !self.blocks(Signal::Order)? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let info = QueuedSignal {
            number,
            error: 0,
            code: libc::SI_QUEUE,
            padding: 0,
            sender: 0,
            user: 0,
            value,
            rest: [0; 12],
        };
        let call = libc::SYS_pidfd_send_signal;
        // SAFETY: the descriptor is a process's, and `info` is a whole siginfo_t.
        let sent = unsafe { libc::syscall(call, self.fd.as_raw_fd(), number, &raw const info, 0) };
        if sent == 0 {
            return Ok(());
        }
        Err(gone(io::Error::last_os_error()))
    }

    /// Waits at most this long for the end of the process, whether its parent has reaped it or not.
    pub fn has_ended_within(&self, time: Duration) -> io::Result<bool> {
        match wait_for(&self.fd, PollFlags::IN, Some(time)) {
            Err(Errno::INTR) => Ok(false),
            come => Ok(!come?.is_empty()),
        }
    }
}

/// A siginfo_t that carries a number (sigqueue(3)), on 64-bit systems.
#[repr(C)]
struct QueuedSignal {
    number: libc::c_int,
    error: libc::c_int,
    code: libc::c_int,
    padding: libc::c_int,
    sender: libc::pid_t,
    user: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<QueuedSignal>() == size_of::<libc::siginfo_t>());

fn gone(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ESRCH | libc::ENODATA | libc::EINVAL) => io::ErrorKind::NotFound.into(),
        _ => error,
    }
}

/// Reads a socket option of the level `SOL_SOCKET`.
///
/// # Safety
/// Every bit pattern that the kernel may write must be a `T`.
unsafe fn option<T: Copy>(socket: BorrowedFd<'_>, name: libc::c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, which `value` has room for.
    let answer = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    checked(answer)?;
    // SAFETY: it is zeroed and then the kernel's; the caller vouches for both.
    Ok(unsafe { value.assume_init() })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use testkit::directory::Directory;

    /// Starts a process that waits until its standard input ends.
    fn waiting() -> Child {
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cat = cat.spawn().unwrap();
        // The echo shows that exec has happened.
        cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        cat
    }

    #[test]
    fn the_listener_is_named_to_every_user() {
        let directory = Directory::new();
        let path = directory.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let own = Credentials { pid: std::process::id(), user: crate::process::identity().user };
        assert_eq!(credentials(client.as_fd()).unwrap(), own);
        let process = Process::behind(client.as_fd()).unwrap();
        assert_eq!(process.pid(), own.pid);
        assert_eq!(process.users().unwrap(), [own.user; 4]);
        assert!(!process.has_ended_within(Duration::ZERO).unwrap());
        drop(listener);
    }

    #[test]
    fn a_signal_and_the_end_are_those_of_one_process() {
        let mut child = waiting();
        let process = Process::of(child.id()).unwrap();
        assert_eq!(process.name().unwrap(), "cat");
        assert!(!process.blocks(Signal::Hangup).unwrap());
        assert!(!process.has_ended_within(Duration::ZERO).unwrap());
        // The order would kill the process.
        let order = process.order(1).unwrap_err();
        assert_eq!(order.kind(), io::ErrorKind::Unsupported);
        process.signal(Signal::Terminate).unwrap();
        // Nobody has reaped it yet.
        assert!(process.has_ended_within(Duration::from_secs(60)).unwrap());
        assert_eq!(process.name().unwrap_err().kind(), io::ErrorKind::NotFound);
        child.wait().unwrap();
        let late = process.order(1).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::NotFound);
        let late = process.signal(Signal::Terminate).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::NotFound);
        assert_eq!(Process::of(0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
