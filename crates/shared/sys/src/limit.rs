//! Limits that the kernel keeps for a process.

use std::io;
use std::path::Path;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

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
