//! CPUs: which there are for us, and on which one a thread runs.

use std::io;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// The CPUs that this thread may run on, in ascending order; what cgroups and taskset leave of
/// the machine. On a machine with more CPUs than the kernel tells us about in 1024 bits, the
/// first so many as std finds.
pub fn allowed_cpus() -> Vec<u16> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CPUS_MAX)
            .filter(|&cpu| set.is_set(cpu.into()))
            .collect(),
        Err(_) => {
            let count = std::thread::available_parallelism().map_or(1, usize::from);
            (0..CPUS_MAX).take(count).collect()
        }
    }
}

/// `CpuSet` has 1024 bits, as glibc's `cpu_set_t`.
const CPUS_MAX: u16 = 1024;

/// Keeps the calling thread on one CPU. `InvalidInput` = there is no such CPU for us.
pub fn pin_current_thread(cpu: u16) -> io::Result<()> {
    if cpu >= CPUS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu.into());
    Ok(sched_setaffinity(None, &set)?)
}

/// CPU time that the calling thread has used since it began.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // A thread's clock is never negative.
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_its_cpu_alone() {
        let allowed = allowed_cpus();
        let last = *allowed.last().unwrap();
        let pinned = std::thread::spawn(move || {
            pin_current_thread(last).unwrap();
            allowed_cpus()
        });
        assert_eq!(pinned.join().unwrap(), [last]);
        assert_eq!(allowed_cpus(), allowed);
    }

    #[test]
    fn work_takes_time() {
        let before = thread_time();
        while thread_time() == before {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        for cpu in [1023, 1024, u16::MAX] {
            let error = pin_current_thread(cpu).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
