//! Reads the system's clocks, and offers a timer as a descriptor (timerfd_create(2)): epoll_wait(2)
//! counts in milliseconds, this timer in nanoseconds.
//!
//! Clocks are read by libc and not by rustix, because rustix takes its calls from the vDSO and
//! panics where a kernel's vDSO lacks one, as in User Mode Linux.

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
/// Fails if there is no such clock, for example that of a process that has ended (`EINVAL`).
pub(crate) fn read(clock: libc::clockid_t) -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours, and lives during the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (seconds, nanoseconds) = (time.tv_sec.try_into(), time.tv_nsec.try_into());
    // No clock that is read here is ever negative.
    Ok(Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default()))
}

/// Returns the time since the host booted, without time asleep (`CLOCK_MONOTONIC`).
pub fn monotonic() -> Duration {
    // Every Linux has this clock.
    read(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

/// Reports whether the kernel's clock is synchronized to another one, as by NTP (adjtimex(2)).
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

    /// Makes the timer readable after this time (at once if 0), and not at an earlier one set
    /// before. The timer need not be read.
    #[inline]
    pub fn set(&self, after: Duration) -> io::Result<()> {
        // 0 would disarm the timer.
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

/// Returns the instant from which the system's monotonic clock counts. It is the same in all
/// processes until reboot, up to a microsecond or so, because two readings lie between them.
pub fn clock_zero() -> Instant {
    let since = monotonic();
    let now = Instant::now();
    // The clock's zero can be expressed as an instant because std uses the same clock.
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
