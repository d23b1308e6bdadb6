//! Polls signals (signalfd(2)), ignores and sends them.
//!
//! A mask is inherited by threads and by programs that are started; std empties it for the programs
//! that `Command` starts.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::{Pid, kill_process, kill_process_group};

use crate::checked;

/// Signals that the program uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Signal {
    /// SIGCHLD: a child has ended.
    Child,
    /// SIGCONT: the process was stopped, or might have been, and runs again.
    Continue,
    Hangup,
    Interrupt,
    /// SIGRTMIN, with a number that encodes the order; each one sent is read.
    Order,
    Pipe,
    /// SIGTSTP: the terminal asks the process to stop.
    Suspend,
    Terminate,
    User1,
    User2,
}

impl Signal {
    fn number(self) -> libc::c_int {
        to_rustix(self).as_raw()
    }
}

/// Blocked signals that are read from a descriptor.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    /// Signals that the descriptor reports.
    signals: Vec<Signal>,
}

impl Signals {
    /// Blocks these signals in the calling thread and those that it starts later, and opens the
    /// descriptor that is readable when one is pending. Must be called before the first thread is
    /// started, because a thread that does not block a signal would take it.
    ///
    /// Stops ignoring [`Signal::Child`], in case the program that started this one ignored it: the
    /// kernel would report no child's exit status.
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        // SAFETY: no handler is installed, and no memory of ours is read.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let set = set_of(signals);
        change_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: `set` is initialised and lives during the call.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        let fd = checked(fd)?;
        // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, signals: signals.to_vec() })
    }

    /// Reads the next pending signal, if any, with the number that was sent with it, or 0. Several
    /// of one kind count as one, except for [`Signal::Order`].
    pub fn next(&self) -> Option<(Signal, u64)> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        let length = rustix::io::read(&self.fd, &mut info).ok()?;
        if length < info.len() {
            return None;
        }
        // signalfd_siginfo begins with ssi_signo, a u32.
        let number = libc::c_int::from_ne_bytes(*info.first_chunk()?);
        let signal = *self.signals.iter().find(|one| one.number() == number)?;
        let value = info.get(offset_of!(libc::signalfd_siginfo, ssi_ptr)..)?;
        Some((signal, u64::from_ne_bytes(*value.first_chunk()?)))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes the process ignore these signals.
pub fn ignore(signals: &[Signal]) -> io::Result<()> {
    for signal in signals {
        // SAFETY: SIG_IGN is no handler; no code of ours runs on the signal.
        let answer = unsafe { libc::signal(signal.number(), libc::SIG_IGN) };
        if answer == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Unblocks all signals in the calling thread.
pub fn unblock_all() -> io::Result<()> {
    change_mask(libc::SIG_SETMASK, &set_of(&[]))
}

/// Sends a signal to a process.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    Ok(kill_process(number(pid)?, to_rustix(signal))?)
}

/// Kills a process at once (SIGKILL).
pub fn kill(pid: u32) -> io::Result<()> {
    Ok(kill_process(number(pid)?, rustix::process::Signal::KILL)?)
}

/// Kills a process group at once (SIGKILL), by the pid of the process that founded it.
pub fn kill_group(founder: u32) -> io::Result<()> {
    Ok(kill_process_group(number(founder)?, rustix::process::Signal::KILL)?)
}

/// Stops the process as an unhandled SIGTSTP does, and returns when it continues. The kernel does
/// not stop a process that no shell could continue (an orphaned process group).
pub fn suspend() -> io::Result<()> {
    let set = set_of(&[Signal::Suspend]);
    // SAFETY: no memory is passed, and no handler of ours runs.
    let raised = unsafe { libc::raise(Signal::Suspend.number()) };
    change_mask(libc::SIG_UNBLOCK, &set)?;
    // The process stops and continues here.
    change_mask(libc::SIG_BLOCK, &set)?;
    checked(raised).map(drop)
}

/// Rejects 0, which would mean our whole process group.
fn number(pid: u32) -> io::Result<Pid> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

pub(crate) fn to_rustix(signal: Signal) -> rustix::process::Signal {
    use rustix::process::Signal as Kernel;
    match signal {
        Signal::Child => Kernel::CHILD,
        Signal::Continue => Kernel::CONT,
        Signal::Hangup => Kernel::HUP,
        Signal::Interrupt => Kernel::INT,
        // SAFETY: the C library names it, so it is a signal, and none that it keeps for itself.
        Signal::Order => unsafe { Kernel::from_raw_unchecked(libc::SIGRTMIN()) },
        Signal::Pipe => Kernel::PIPE,
        Signal::Suspend => Kernel::TSTP,
        Signal::Terminate => Kernel::TERM,
        Signal::User1 => Kernel::USR1,
        Signal::User2 => Kernel::USR2,
    }
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set is initialised; the number is a signal's.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal.number()) };
    }
    // SAFETY: sigemptyset has initialised it.
    unsafe { set.assume_init() }
}

fn change_mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is initialised; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn a_blocked_signal_is_read_not_suffered() {
        // Runs in its own thread, because the mask is the thread's.
        let test = std::thread::spawn(|| {
            let signals = Signals::new(&[Signal::User1, Signal::Hangup]).unwrap();
            assert_eq!(signals.next(), None);
            for signal in [libc::SIGUSR1, libc::SIGUSR1] {
                // SAFETY: the signal goes to this thread, which blocks it.
                unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
            }
            poll(&mut [PollFd::new(&signals, PollFlags::IN)], None).unwrap();
            assert_eq!(signals.next(), Some((Signal::User1, 0)));
            assert_eq!(signals.next(), None);
            unblock_all().unwrap();
        });
        test.join().unwrap();
    }

    #[test]
    fn every_order_is_read_with_its_number() {
        let test = std::thread::spawn(|| {
            let signals = Signals::new(&[Signal::Order]).unwrap();
            for value in [7, u64::MAX, 7] {
                let value = libc::sigval { sival_ptr: value as *mut libc::c_void };
                // SAFETY: the signal goes to this thread, which blocks it.
                let sent = unsafe {
                    libc::pthread_sigqueue(libc::pthread_self(), libc::SIGRTMIN(), value)
                };
                assert_eq!(sent, 0);
            }
            let read = std::iter::from_fn(|| signals.next());
            let read: Vec<_> = read.map(|(_, value)| value).collect();
            assert_eq!(read, [7, u64::MAX, 7]);
        });
        test.join().unwrap();
    }

    #[test]
    fn an_ignored_signal_does_nothing() {
        ignore(&[Signal::Pipe, Signal::Interrupt]).unwrap();
        send(std::process::id(), Signal::Interrupt).unwrap();
    }

    #[test]
    fn no_process_has_that_number() {
        assert!(send(0, Signal::Hangup).is_err());
        assert!(send(u32::MAX, Signal::Hangup).is_err());
    }
}
