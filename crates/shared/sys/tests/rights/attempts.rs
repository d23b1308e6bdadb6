//! Attempts of a compromised process; the cases decide which succeed.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::net::{self, AddressFamily, Protocol, SendAncillaryBuffer, SendFlags, SocketType};

const FAST_OPEN: SendFlags = SendFlags::from_bits_retain(libc::MSG_FASTOPEN as u32);

pub(super) fn open_by_openat2(path: &Path, flags: libc::c_int) -> io::Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
    let resolve = ResolveFlags::empty();
    Ok(openat2(CWD, path, flags, Mode::empty(), resolve)?)
}

/// Requests a signal to ourselves when a descriptor is readable; it could go to others as well.
pub(super) fn owned_by_a_signal() -> io::Result<()> {
    let (read, _write) = io::pipe().unwrap();
    // SAFETY: numbers only.
    answered(unsafe { libc::fcntl(read.as_raw_fd(), libc::F_SETOWN, libc::getpid()) })
}

pub(super) fn signal_a_thread_of(other: u32) -> io::Result<()> {
    // Signal 0 only checks whether it could be sent.
    // SAFETY: numbers only.
    answered(unsafe { libc::syscall(libc::SYS_tgkill, other, other, 0) } as libc::c_int)
}

/// Sets the limit to its current value, which changes nothing.
pub(super) fn limit_files_of(other: u32) -> io::Result<()> {
    use rustix::process::{Pid, Resource, getrlimit, prlimit};
    let other = Pid::from_raw(other.try_into().unwrap());
    prlimit(other, Resource::Nofile, getrlimit(Resource::Nofile))?;
    Ok(())
}

pub(super) fn let_run_only_when_idle(other: u32) -> io::Result<()> {
    // SAFETY: all zeros is a `sched_param`.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    let (other, none) = (other.cast_signed(), -1);
    // SAFETY: it is read alone. There is no such policy: nothing changes.
    answered(unsafe { libc::sched_setscheduler(other, none, &raw const parameters) })
}

/// Pins to the CPUs that this process may use anyway.
pub(super) fn pin(other: u32) -> io::Result<()> {
    use rustix::process::Pid;
    use rustix::thread::{sched_getaffinity, sched_setaffinity};
    let cpus = sched_getaffinity(None)?;
    let other = Pid::from_raw(other.try_into().unwrap());
    Ok(sched_setaffinity(other, &cpus)?)
}

pub(super) fn set_flags(fd: &impl AsFd, flags: OFlags) -> io::Result<()> {
    Ok(rustix::fs::fcntl_setfl(fd, flags)?)
}

/// Writes at the beginning, whatever the flags of the file (`RWF_NOAPPEND`, Linux 6.9).
pub(super) fn overwrite(fd: &impl AsFd) -> io::Result<()> {
    const RWF_NOAPPEND: libc::c_int = 0x20;
    let bytes = libc::iovec { iov_base: b"xxxx".as_ptr().cast_mut().cast(), iov_len: 4 };
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the bytes are read alone, and outlive the call.
    let wrote = unsafe { libc::pwritev2(fd, &raw const bytes, 1, 0, RWF_NOAPPEND) };
    answered(wrote as libc::c_int)
}

pub(super) fn call_of_x32(number: libc::c_long) -> io::Result<()> {
    // SAFETY: of calls without arguments alone.
    answered(unsafe { libc::syscall(0x4000_0000 | number) } as libc::c_int)
}

/// A pipe is no terminal, which gives another error than a forbidden call.
pub(super) fn type_into_a_terminal() -> io::Result<()> {
    let (read, _write) = io::pipe().unwrap();
    // SAFETY: it is read alone.
    answered(unsafe { libc::ioctl(read.as_raw_fd(), libc::TIOCSTI, c"x".as_ptr()) })
}

fn answered(answer: libc::c_int) -> io::Result<()> {
    match answer {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(super) fn limit_files() -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    Ok(rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)?)
}

pub(super) fn executable_memory() -> io::Result<()> {
    let (read, execute) = (libc::PROT_READ, libc::PROT_EXEC);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping where the kernel likes, which nothing refers to.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, read, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    // SAFETY: the page is ours and nothing refers to it.
    answered(unsafe { libc::mprotect(page, 4096, read | execute) })
}

/// Opens a stream socket of this protocol.
pub(super) fn stream(protocol: Protocol) -> io::Result<OwnedFd> {
    Ok(net::socket(AddressFamily::INET, SocketType::STREAM, Some(protocol))?)
}

/// Connects without connect(2): by the first bytes.
pub(super) fn send_to(socket: &OwnedFd, address: &SocketAddr) -> io::Result<usize> {
    Ok(net::sendto(socket, b"x", FAST_OPEN, address)?)
}

pub(super) fn send_message_to(socket: &OwnedFd, address: &SocketAddr) -> io::Result<usize> {
    let (bytes, mut control) = ([IoSlice::new(b"x")], SendAncillaryBuffer::default());
    Ok(net::sendmsg_addr(socket, address, &bytes, &mut control, FAST_OPEN)?)
}
