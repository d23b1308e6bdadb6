//! Reads this process's use of CPU, memory and descriptors, and the limits of the kernel.
//!
//! Keeps two descriptors of `/proc`, opened while files may be opened: reading them later needs no
//! right. Without a mounted `/proc`, only the CPU time is known.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

use crate::clock;

/// Room for `/proc/self/status`: some sixty lines, of which the longest names every CPU.
const STATUS_BYTES_MAX: usize = 16 << 10;

/// Open files to read the usage from. The default knows only the CPU time.
#[derive(Debug, Default)]
pub struct Usage {
    status: Option<File>,
    descriptors: Option<File>,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Memory {
    pub resident_bytes: u64,
    /// Mapped, whether or not it is used.
    pub virtual_bytes: u64,
}

impl Usage {
    /// Opens the files of this process. Must be called while it may open files.
    pub fn of_this_process() -> Self {
        Self {
            status: File::open("/proc/self/status").ok(),
            descriptors: File::open("/proc/self/fd").ok(),
        }
    }

    /// Returns the CPU time of all threads, in user space and in the kernel.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        clock::read(libc::CLOCK_PROCESS_CPUTIME_ID)
    }

    /// Returns the memory of the process; `None` if unknown.
    pub fn memory(&self) -> Option<Memory> {
        let status = self.status()?;
        Some(Memory {
            resident_bytes: field(&status, "VmRSS:")? << 10,
            virtual_bytes: field(&status, "VmSize:")? << 10,
        })
    }

    /// Returns the number of open descriptors; `None` if unknown.
    ///
    /// Costs up to a system call per descriptor before Linux 6.2.
    pub fn open_descriptors(&self) -> Option<u64> {
        // Since 6.2 the folder's size is the number of descriptors; before, it is 0.
        match size(self.descriptors.as_ref()?)? {
            0 => Some(count_open(field(&self.status()?, "FDSize:")?)),
            open => Some(open),
        }
    }

    fn status(&self) -> Option<String> {
        let mut bytes = vec![0; STATUS_BYTES_MAX];
        let length = self.status.as_ref()?.read_at(&mut bytes, 0).ok()?;
        bytes.truncate(length);
        String::from_utf8(bytes).ok()
    }
}

/// Returns the size from fstat(2). Calls the kernel directly, because libc may make a call with a
/// path instead, and such calls are forbidden to processes that open no files.
fn size(file: &File) -> Option<u64> {
    // SAFETY: all zeroes are a `stat`.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor lives during the call, and so does `facts`, which is ours.
    let answer = unsafe { libc::syscall(libc::SYS_fstat, file.as_raw_fd(), &raw mut facts) };
    (answer == 0).then(|| facts.st_size.try_into().ok())?
}

/// Returns the number in the line that begins with this name.
fn field(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Counts open descriptors below `numbers`. Does not use poll(2), which may wait for the server of
/// a FUSE file system.
fn count_open(numbers: u64) -> u64 {
    let is_open = |number: &libc::c_int| {
        // SAFETY: a number only, and the answer is another.
        unsafe { libc::fcntl(*number, libc::F_GETFD) >= 0 }
    };
    let numbers = libc::c_int::try_from(numbers).unwrap_or(libc::c_int::MAX);
    (0..numbers).filter(is_open).count() as u64
}

/// Returns freed memory that the allocator keeps to the kernel. Takes milliseconds; worth it after
/// something large and rare.
pub fn return_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) works on the allocator's own free blocks, under its own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes allocations of this size or more, in bytes, come from the kernel one by one, to be
/// returned when freed. On the heap, smaller ones that stay would pin memory that is free but not
/// returned.
pub fn return_when_freed(from_bytes: u32) {
    #[cfg(not(target_env = "gnu"))]
    let _ = from_bytes;
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) sets a number of the allocator's own.
    unsafe {
        libc::mallopt(
            libc::M_MMAP_THRESHOLD,
            libc::c_int::try_from(from_bytes).unwrap_or(libc::c_int::MAX),
        );
    }
}

/// Raises the limit of open descriptors of this process to its hard limit, and returns it;
/// `u64::MAX` = without limit.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Returns the limit of open descriptors of this process; `u64::MAX` = without limit.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A limit of this process; `None` = without limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ResourceLimit {
    /// Limit in force; the process itself may raise it to the hard one.
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

/// Returns the limit of open descriptors of this process.
pub fn descriptors() -> ResourceLimit {
    limit(Resource::Nofile)
}

/// Returns the limit of locked memory of this process, in bytes.
pub fn locked_memory() -> ResourceLimit {
    limit(Resource::Memlock)
}

fn limit(resource: Resource) -> ResourceLimit {
    let limit = getrlimit(resource);
    ResourceLimit { soft: limit.current, hard: limit.maximum }
}

/// Returns the memory limit, in bytes, of this process together with the others in its control
/// groups (cgroup v2); `None` if there is none or it is unknown.
pub fn memory() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limit = |group: &Path| {
        let file = Path::new("/sys/fs/cgroup").join(group).join("memory.max");
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    Path::new(own).ancestors().filter_map(limit).min()
}

/// Disables core dumps, and forbids other processes of the same user to read our memory, because it
/// holds keys. A change of user undoes this on some systems: call it afterwards.
pub fn forbid_core_dumps() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::of_this_process();
        let memory = usage.memory().unwrap();
        assert!(memory.resident_bytes > 100_000, "{memory:?}");
        assert!(memory.virtual_bytes > memory.resident_bytes, "{memory:?}");
        assert!(usage.open_descriptors().unwrap() >= 5);
        assert!(usage.cpu_time().unwrap() > Duration::ZERO);
    }

    #[test]
    fn both_ways_of_counting_count_the_same() {
        // Other tests open and close descriptors meanwhile.
        let agree = || {
            let usage = Usage::of_this_process();
            let table = field(&usage.status().unwrap(), "FDSize:").unwrap();
            usage.open_descriptors() == Some(count_open(table))
        };
        assert!((0..10_000).any(|_| agree()));
    }

    #[test]
    fn without_proc_only_the_cpu_is_known() {
        let usage = Usage::default();
        assert_eq!((usage.memory(), usage.open_descriptors()), (None, None));
        assert!(usage.cpu_time().is_ok());
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let status = "Name:\tlariat\nVmRSS:\t    1234 kB\nFDSize:\t256\n";
        assert_eq!(field(status, "VmRSS:"), Some(1234));
        assert_eq!(field(status, "FDSize:"), Some(256));
        assert_eq!(field(status, "VmSize:"), None);
        assert_eq!(field("VmRSS:\n", "VmRSS:"), None);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let raised = raise_open_files().unwrap();
        assert_eq!(open_files(), raised);
        assert_eq!(raise_open_files().unwrap(), raised);
    }

    #[test]
    fn no_soft_limit_is_above_the_hard_one() {
        let bytes = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        for limit in [descriptors(), locked_memory()] {
            assert!(bytes(limit.soft) <= bytes(limit.hard), "{limit:?}");
        }
    }

    #[test]
    fn a_process_may_leave_no_image() {
        forbid_core_dumps().unwrap();
        let now = rustix::process::dumpable_behavior().unwrap();
        assert_eq!(now, DumpableBehavior::NotDumpable);
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
    }
}
