//! The CPUs this process may use, and pinning of threads.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::clock;

/// Returns the CPUs that this thread may run on, in ascending order: those that cgroups and taskset
/// leave of the machine. On a machine with more CPUs than the kernel reports in 1024 bits, the
/// first ones, as many as std counts.
pub fn allowed_cpus() -> Vec<u16> {
    match sched_getaffinity(None) {
        Ok(set) => listed(&set),
        Err(_) => {
            let count = std::thread::available_parallelism().map_or(1, usize::from);
            (0..CPUS_MAX).take(count).collect()
        }
    }
}

/// Returns how many threads can run at once: the number of CPUs, or the quota of a control group
/// rounded down; at least one.
pub fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `CpuSet` has 1024 bits, as glibc's `cpu_set_t`.
const CPUS_MAX: u16 = 1024;

/// Returns the CPUs that a thread of any process may run on, in ascending order. Fails with
/// `NotFound` if no such thread exists.
pub fn cpus_of(thread: u32) -> io::Result<Vec<u16>> {
    let set = sched_getaffinity(Some(known(thread)?)).map_err(gone)?;
    Ok(listed(&set))
}

fn listed(set: &CpuSet) -> Vec<u16> {
    let all = 0..CPUS_MAX;
    all.filter(|&cpu| set.is_set(cpu.into())).collect()
}

/// Restricts a thread of any process to some CPUs. Fails with `NotFound` if no such thread exists.
pub fn confine(thread: u32, cpus: &[u16]) -> io::Result<()> {
    let set = set_of(cpus)?;
    sched_setaffinity(Some(known(thread)?), &set).map_err(gone)
}

/// Restricts the calling thread, and threads that it starts later, to some CPUs. Fails with
/// `InvalidInput` if this process may use none of them.
pub fn confine_current_thread(cpus: &[u16]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &set_of(cpus)?)?)
}

fn set_of(cpus: &[u16]) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CPUS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu.into());
    }
    Ok(set)
}

/// Returns the CPU time that all threads of a process have used since it started, ended threads
/// included. The count of a running thread lags by up to a tick. Fails with `NotFound` if no such
/// process exists.
pub fn process_time(process: u32) -> io::Result<Duration> {
    let id = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::NotFound)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is ours, and lives during the call.
    let answer = unsafe { libc::clock_getcpuclockid(id, &raw mut clock) };
    if answer != 0 {
        return Err(gone(Errno::from_raw_os_error(answer)));
    }
    clock::read(clock).map_err(|_| io::ErrorKind::NotFound.into())
}

fn known(thread: u32) -> io::Result<Pid> {
    let id = i32::try_from(thread).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn gone(error: Errno) -> io::Error {
    match error {
        Errno::SRCH => io::ErrorKind::NotFound.into(),
        other => other.into(),
    }
}

/// Pins the calling thread to one CPU. Fails with `InvalidInput` if this process may not use it.
pub fn pin_current_thread(cpu: u16) -> io::Result<()> {
    confine_current_thread(&[cpu])
}

/// Lowers the priority of the calling thread (nice 19).
pub fn give_way_on_current_thread() -> io::Result<()> {
    // On Linux, niceness belongs to the thread, not to the process.
    rustix::process::nice(19)?;
    Ok(())
}

/// Returns the CPU time of children of this process that ended and were reaped, their own children
/// included.
pub fn ended_children_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills what is ours, and it lives during the call.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) } != 0 {
        // Fails only for a wrong first argument.
        return Duration::ZERO;
    }
    // SAFETY: the call succeeded, so it is filled.
    let usage = unsafe { usage.assume_init() };
    let of = |time: libc::timeval| {
        let (seconds, microseconds) = (time.tv_sec.try_into(), time.tv_usec.try_into());
        Duration::from_secs(seconds.unwrap_or_default())
            + Duration::from_micros(microseconds.unwrap_or_default())
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Returns the CPU time that the calling thread has used since it started.
pub fn thread_time() -> Duration {
    // Every Linux has this clock.
    clock::read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

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
    fn others_threads_are_confined_and_asked() {
        let allowed = allowed_cpus();
        let first = allowed[0];
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(cpus_of(child.id()).unwrap(), allowed);
        confine(child.id(), &[first]).unwrap();
        assert_eq!(cpus_of(child.id()).unwrap(), [first]);
        drop(child.stdin.take());
        child.wait().unwrap();
        for error in [
            cpus_of(child.id()).map(drop).unwrap_err(),
            confine(child.id(), &[first]).unwrap_err(),
            process_time(child.id()).map(drop).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn a_process_is_charged_for_threads_that_have_ended() {
        let worker = std::thread::spawn(|| {
            while thread_time() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        });
        worker.join().unwrap();
        let time = process_time(std::process::id()).unwrap();
        assert!(time >= Duration::from_millis(20), "{time:?}");
    }

    #[test]
    fn a_child_is_charged_when_it_has_ended() {
        let before = ended_children_time();
        let mut child = Command::new("sh");
        let status = child.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        assert!(status.status().unwrap().success());
        assert!(ended_children_time() > before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        for cpu in [1023, 1024, u16::MAX] {
            let error = pin_current_thread(cpu).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
