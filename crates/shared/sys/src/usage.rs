//! This process's use of the host: CPU, memory, descriptors; and the limits that the kernel keeps.
//!
//! Owns two descriptors of `/proc`, opened while files may be opened: what is read of them later
//! takes no right. Where `/proc` is not mounted, only the CPU is known.

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

/// Bytes of `/proc/self/status`: some sixty lines, of which the longest names every CPU.
const STATUS_BYTES_MAX: usize = 16 << 10;

/// The means to read it. The default knows of nothing but the CPU.
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
    /// Opens the files of this process. To be called while it may open files.
    pub fn of_this_process() -> Self {
        Self {
            status: File::open("/proc/self/status").ok(),
            descriptors: File::open("/proc/self/fd").ok(),
        }
    }

    /// Time that all threads have spent on CPUs, in user space and in the kernel.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        clock::read(libc::CLOCK_PROCESS_CPUTIME_ID)
    }

    /// The memory that it holds; `None` = not known.
    pub fn memory(&self) -> Option<Memory> {
        let status = self.status()?;
        Some(Memory {
            resident_bytes: field(&status, "VmRSS:")? << 10,
            virtual_bytes: field(&status, "VmSize:")? << 10,
        })
    }

    /// How many descriptors are open; `None` = not known.
    ///
    /// Costs up to a system call a descriptor before Linux 6.2.
    pub fn open_descriptors(&self) -> Option<u64> {
        // Since 6.2 the folder's size is their number; before, it is 0.
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

/// The size that fstat(2) reports. Not by libc, which may make a call with a path instead of it,
/// and such calls are forbidden to processes that open no files.
fn size(file: &File) -> Option<u64> {
    // SAFETY: all zeroes are a `stat`.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor lives during the call, and so does `facts`, which is ours.
    let answer = unsafe { libc::syscall(libc::SYS_fstat, file.as_raw_fd(), &raw mut facts) };
    (answer == 0).then(|| facts.st_size.try_into().ok())?
}

/// The number in the line that begins with this name.
fn field(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// How many of the lowest `numbers` are descriptors. Not by poll(2), which may wait for the server
/// of a file system in user space.
fn count_open(numbers: u64) -> u64 {
    let is_open = |number: &libc::c_int| {
        // SAFETY: a number only, and the answer is another.
        unsafe { libc::fcntl(*number, libc::F_GETFD) >= 0 }
    };
    let numbers = libc::c_int::try_from(numbers).unwrap_or(libc::c_int::MAX);
    (0..numbers).filter(is_open).count() as u64
}

/// Gives memory back to the kernel that was freed and that the allocator keeps for later. It
/// takes milliseconds; worth it after something large and rare.
pub fn return_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) works on the allocator's own free blocks, under its own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes allocations of this size or more, in bytes, come from the kernel one by one and go back to
/// it when they are freed. Among smaller ones that stay they would leave holes: memory that is
/// freed and occupied all the same.
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

/// Raises the number of descriptors that this process may have open to what it is allowed to
/// raise it to, and returns it; `u64::MAX` = without limit.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// The number of descriptors that this process may have open; `u64::MAX` = without limit.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A limit of this process; `None` = without limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limit {
    /// The limit that holds now; the process itself may raise it to the hard one.
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

/// How many descriptors this process may have open.
pub fn descriptors() -> Limit {
    limit(Resource::Nofile)
}

/// How many bytes of memory this process may lock.
pub fn locked_memory() -> Limit {
    limit(Resource::Memlock)
}

fn limit(resource: Resource) -> Limit {
    let limit = getrlimit(resource);
    Limit { soft: limit.current, hard: limit.maximum }
}

/// The memory that this process and those beside it in its control groups may have, in bytes
/// (cgroup v2); `None` = any, or it is not known.
pub fn memory() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limit = |group: &Path| {
        let file = Path::new("/sys/fs/cgroup").join(group).join("memory.max");
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    Path::new(own).ancestors().filter_map(limit).min()
}

/// Writes no memory image if the process crashes, and lets no other process of the same user
/// read its memory: keys are in it. A change of user undoes this on some systems; call it after.
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
