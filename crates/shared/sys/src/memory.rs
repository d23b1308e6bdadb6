//! The memory of this process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads how much memory the process occupies. Opened before the sandbox closes the file system,
/// it works inside it.
#[derive(Debug)]
pub struct MemoryGauge {
    statm: File,
    page_bytes: u64,
}

impl MemoryGauge {
    /// Opens the kernel's account of this process.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            statm: File::open("/proc/self/statm")?,
            page_bytes: page_bytes(),
        })
    }

    /// Resident memory, in bytes.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let mut text = [0u8; 128];
        let length = self.statm.read_at(&mut text, 0)?;
        let text = text.get(..length).unwrap_or_default();
        // proc_pid_statm(5): size, resident, shared, ... in pages.
        let pages = text.split(|&byte| byte == b' ').nth(1);
        let pages = pages.and_then(|field| str::from_utf8(field).ok()?.parse::<u64>().ok());
        let pages = pages.ok_or(io::ErrorKind::InvalidData)?;
        Ok(pages.saturating_mul(self.page_bytes))
    }
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf reads no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // POSIX: always known; x86's size otherwise.
    u64::try_from(bytes).unwrap_or(4096)
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
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) sets a number of the allocator's own.
    unsafe {
        libc::mallopt(
            libc::M_MMAP_THRESHOLD,
            libc::c_int::try_from(from_bytes).unwrap_or(libc::c_int::MAX),
        );
    }
}
