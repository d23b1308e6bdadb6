//! Words of memory by the page: how large pages are wanted, and how words are asked for ahead.
//!
//! Owns the mapping, of which no memory image of the process has a copy. A file whose words outlive
//! the process is `shared`'s.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::checked;

pub(crate) const WORD_BYTES: usize = size_of::<AtomicU64>();

/// Bytes that the machine reads at once, in words; x86's and most others'.
const LINE_WORDS: usize = 64 / WORD_BYTES;

/// The least memory, in bytes, for which large pages are wanted: a processor remembers where some
/// thousand pages are, small or large, and smaller memory has fewer.
const LARGE_BYTES: usize = 8 << 20;

/// Makes `words` zero words, which no image of the process has. Their pages are taken as they are
/// written, large ones where the host gives them.
///
/// If the kernel has no memory for them, they come from the allocator like anything else.
pub fn zeros(words: usize) -> Arc<dyn AsRef<[AtomicU64]> + Send + Sync> {
    match MappedWords::private(words) {
        Ok(mapped) => Arc::new(mapped),
        Err(_) => {
            let zeros = std::iter::repeat_with(|| AtomicU64::new(0));
            Arc::new(zeros.take(words).collect::<Vec<_>>())
        }
    }
}

/// Makes the machine fetch words that will be read soon. It does not wait for them.
pub fn fetch(words: &[AtomicU64]) {
    words.iter().step_by(LINE_WORDS).for_each(fetch_line);
}

#[cfg(target_arch = "x86_64")]
fn fetch_line(word: &AtomicU64) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; it reads nothing that the program could see. Every x86-64 has SSE.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
}

/// Elsewhere each line is waited for as it is read.
#[cfg(not(target_arch = "x86_64"))]
fn fetch_line(_: &AtomicU64) {}

/// Words of a mapping.
#[derive(Debug)]
pub(crate) struct MappedWords {
    /// Dangling if there are no words.
    first: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and its words are atomic.
unsafe impl Send for MappedWords {}

// SAFETY: as above.
unsafe impl Sync for MappedWords {}

impl MappedWords {
    /// Zeros of this process alone, with large pages if they are many.
    fn private(words: usize) -> io::Result<Self> {
        let mapped = Self::new(words, None)?;
        mapped.want_large_pages(LARGE_BYTES);
        Ok(mapped)
    }

    /// Maps the words that a file has, whose length can never change, or new ones.
    pub(crate) fn new(words: usize, file: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let bytes = words.checked_mul(WORD_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let first = match words {
            0 => NonNull::dangling(),
            _ => map(bytes, file)?,
        };
        let mapped = Self { first, words };
        mapped.advise(libc::MADV_DONTDUMP)?;
        Ok(mapped)
    }

    /// Asks for large pages if there are so many bytes. Where there are none, small ones do.
    pub(crate) fn want_large_pages(&self, from_bytes: usize) {
        if self.words * WORD_BYTES >= from_bytes {
            let _ = self.advise(libc::MADV_HUGEPAGE);
        }
    }

    /// Gives the kernel a piece of advice that changes nothing that the words hold.
    pub(crate) fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        if self.words == 0 {
            return Ok(());
        }
        let (first, bytes) = (self.first.as_ptr().cast(), self.words * WORD_BYTES);
        // SAFETY: the range is our own mapping, whole.
        checked(unsafe { libc::madvise(first, bytes, advice) }).map(drop)
    }
}

fn map(bytes: usize, file: Option<BorrowedFd<'_>>) -> io::Result<NonNull<AtomicU64>> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let (kind, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: a new mapping, at an address that the kernel chooses; it replaces none.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, kind, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl AsRef<[AtomicU64]> for MappedWords {
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: `first` begins so many words on a page of its own, mapped as long as `self`
        // lives, and a file cannot become shorter. Any bits are a word; others change them by the
        // machine's own stores only.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        if self.words > 0 {
            // SAFETY: our own mapping, whole; nothing borrows from it any more.
            unsafe { libc::munmap(self.first.as_ptr().cast(), self.words * WORD_BYTES) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn words_are_zero_and_can_be_fetched_and_written() {
        for count in [0, 1, 7, 512, 4096 * 512] {
            let words = zeros(count);
            let words = (*words).as_ref();
            assert_eq!(words.len(), count);
            fetch(words);
            assert!(words.iter().all(|word| word.load(Relaxed) == 0));
            if let Some(last) = words.last() {
                last.store(7, Relaxed);
                assert_eq!(last.load(Relaxed), 7);
            }
        }
    }

    #[test]
    fn what_the_kernel_cannot_map_is_an_error() {
        assert!(MappedWords::private(usize::MAX / 8).is_err());
        assert!(MappedWords::private(usize::MAX).is_err());
    }

    #[test]
    fn large_memory_asks_for_large_pages_and_is_in_no_image() {
        let flags_of = |bytes: usize| {
            let mapped = MappedWords::private(bytes / WORD_BYTES).unwrap();
            let address = format!("{:x}-", mapped.first.as_ptr() as usize);
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let ours = maps.lines().skip_while(|line| !line.starts_with(&address));
            let mut flags = ours.filter(|line| line.starts_with("VmFlags:"));
            flags.next().unwrap_or_default().to_owned()
        };
        // proc_pid_smaps(5): dd = not dumped, hg = large pages were advised.
        let large = flags_of(LARGE_BYTES);
        assert!(large.contains(" dd"), "{large}");
        let has_large_pages = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(large.contains(" hg"), has_large_pages, "{large}");
    }
}
