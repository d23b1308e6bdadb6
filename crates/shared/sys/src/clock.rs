//! Readings of the system's clocks.
//!
//! By libc and not by rustix, which finds its calls in the vDSO and panics where a kernel's lacks
//! one, as that of User Mode Linux does.

use std::io;
use std::time::Duration;

/// Reads a clock.
///
/// # Errors
/// There is no such clock, for example that of a process that has ended (`EINVAL`).
pub(crate) fn read(clock: libc::clockid_t) -> io::Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours, and lives during the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (seconds, nanoseconds) = (time.tv_sec.try_into(), time.tv_nsec.try_into());
    // None of these clocks is ever negative.
    Ok(Duration::new(
        seconds.unwrap_or_default(),
        nanoseconds.unwrap_or_default(),
    ))
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
