//! Readings of the system's clocks, and an alarm at an instant, as a descriptor
//! (timerfd_create(2)): epoll_wait(2) counts in milliseconds; this one counts in nanoseconds.
//!
//! Clocks are read by libc and not by rustix, which finds its calls in the vDSO and panics where a
//! kernel's lacks one, as that of User Mode Linux does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Reads a clock.
///
/// # Errors
/// There is no such clock, for example that of a process that has ended (`EINVAL`).
pub(crate) fn read(clock: libc::clockid_t) -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours, and lives during the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (seconds, nanoseconds) = (time.tv_sec.try_into(), time.tv_nsec.try_into());
    // None of these clocks is ever negative.
    Ok(Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default()))
}

/// The time since the host was started, without what it slept (`CLOCK_MONOTONIC`).
pub fn monotonic() -> Duration {
    // Every Linux has this clock.
    read(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

/// Whether the kernel says that its clock is kept by another one, as NTP does (adjtimex(2)).
pub fn is_synchronized() -> bool {
    // SAFETY: all zeroes are a `timex` that changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is ours, and lives during the call.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    answer >= 0 && answer != libc::TIME_ERROR
}

/// A timer that becomes readable when its time is over.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
}

impl Timer {
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { fd })
    }

    /// Becomes readable after this time, and not at an earlier one that was set before; it need
    /// not be read. At once if the time is 0.
    #[inline]
    pub fn set(&self, after: Duration) -> io::Result<()> {
        // 0 would stop it.
        let after = after.max(Duration::from_nanos(1));
        let value = Timespec::try_from(after).map_err(|_| io::ErrorKind::InvalidInput)?;
        let never_again = Timespec::default();
        let new = Itimerspec { it_interval: never_again, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &new)?;
        Ok(())
    }
}

impl AsFd for Timer {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The moment from which the system's clock for intervals counts. It is the same in all processes
/// until the system starts again, to a microsecond or so: two readings lie between them.
pub fn clock_zero() -> Instant {
    let since = monotonic();
    let now = Instant::now();
    // What the clock counts from can be told as an instant: std's is the same clock.
    now.checked_sub(since).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let before = monotonic();
        assert!(before > Duration::ZERO);
        assert!(read(libc::CLOCK_MONOTONIC).unwrap() >= before);
        assert!(read(libc::clockid_t::MAX).is_err());
    }
}

#[cfg(test)]
mod timer_tests {
    use super::*;
    use crate::epoll::{Epoll, Events, Interest};

    #[test]
    fn it_is_readable_when_its_time_is_over_and_not_before() {
        let timer = Timer::new().unwrap();
        let epoll = Epoll::new().unwrap();
        let mut events = Events::with_capacity(1);
        epoll.add(&timer, 1, Interest::READ | Interest::EDGE).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
        timer.set(Duration::ZERO).unwrap();
        assert_eq!(epoll.wait(&mut events, None).unwrap(), 1);
        timer.set(Duration::from_secs(3600)).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
        timer.set(Duration::from_micros(10)).unwrap();
        assert_eq!(epoll.wait(&mut events, None).unwrap(), 1, "again, unread");
    }

    #[test]
    fn the_clock_has_one_zero() {
        let (one, other) = (clock_zero(), clock_zero());
        assert!(other.saturating_duration_since(one) < Duration::from_secs(60));
        assert!(one < Instant::now());
    }
}
