//! Maps memory as words, private to this process or backed by a file that outlives it: an anonymous
//! file whose descriptor another process keeps.
//!
//! Handles the mapping, the choice of page size, and prefetching. A file's length is sealed, so no
//! page of its mapping can vanish. Words are atomic: if another process writes them at the same
//! time, their values are wrong, and nothing worse.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;

use crate::checked;

/// Least file size, in bytes, for which huge pages are requested. A smaller file may be used
/// sparsely, and would take 2 MiB at a time.
const LARGE_FILE_BYTES: usize = 64 << 20;

/// Changes of the file that are forbidden while it is mapped.
const LENGTH: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Creates a file of `words` zero words that lives as long as a descriptor or a mapping of it. Its
/// pages are allocated as they are written. `/proc/<pid>/fd` shows `name`.
pub fn create(name: &str, words: usize) -> io::Result<OwnedFd> {
    let bytes = words.checked_mul(WORD_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
    let fd = nameless_file(name)?;
    ftruncate(&fd, bytes as u64)?;
    fcntl_add_seals(&fd, LENGTH | SealFlags::SEAL)?;
    Ok(fd)
}

/// Creates an empty anonymous file that can be sealed.
fn nameless_file(name: &str) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    }
}

/// Returns how many words such a file has. Fails with `InvalidInput` if its length could change.
pub fn words(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // The kernel has seals only for files in memory.
    match fcntl_get_seals(fd) {
        Ok(seals) if seals.contains(LENGTH) => {}
        Ok(_) | Err(Errno::INVAL) => return Err(io::ErrorKind::InvalidInput.into()),
        Err(error) => return Err(error.into()),
    }
    let length = usize::try_from(fstat(fd)?.st_size);
    Ok(length.map_err(|_| io::ErrorKind::InvalidInput)? / WORD_BYTES)
}

/// Creates a file in memory with these bytes, which can never change.
pub fn sealed(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(nameless_file(name)?);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, LENGTH | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Reads such a file, up to a limit. Fails with `InvalidInput` for any other or a longer file.
pub fn sealed_bytes(fd: OwnedFd, bytes_max: usize) -> io::Result<Vec<u8>> {
    let length = words(fd.as_fd()).map(|_| fstat(&fd))??.st_size;
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    if !fcntl_get_seals(&fd)?.contains(SealFlags::WRITE) || length > bytes_max {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = vec![0; length];
    // Read from offset 0, because the writer left the file position at the end.
    File::from(fd).read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// A whole file mapped into this process. Core dumps and children do not contain it.
#[derive(Debug)]
pub struct SharedMemory(MappedWords);

impl SharedMemory {
    /// Maps a file of [`create`]. Fails with `InvalidInput` if the length of the file could change.
    pub fn map(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let mapped = MappedWords::new(words(fd)?, Some(fd))?;
        mapped.advise(libc::MADV_DONTFORK)?;
        mapped.want_large_pages(LARGE_FILE_BYTES);
        Ok(Self(mapped))
    }
}

impl AsRef<[AtomicU64]> for SharedMemory {
    fn as_ref(&self) -> &[AtomicU64] {
        self.0.as_ref()
    }
}

pub(crate) const WORD_BYTES: usize = size_of::<AtomicU64>();

/// Words of a cache line, as on x86 and most other machines.
const LINE_WORDS: usize = 64 / WORD_BYTES;

/// Least memory, in bytes, for which huge pages are requested: a TLB holds some thousand pages,
/// small or large, and smaller memory has fewer.
const LARGE_BYTES: usize = 8 << 20;

/// Allocates `words` zero words, which core dumps do not contain. Pages are allocated as they are
/// written, huge ones if the host gives them.
///
/// If the kernel cannot map them, they come from the ordinary allocator.
pub fn zeros(words: usize) -> Arc<dyn AsRef<[AtomicU64]> + Send + Sync> {
    match MappedWords::private(words) {
        Ok(mapped) => Arc::new(mapped),
        Err(_) => {
            let zeros = std::iter::repeat_with(|| AtomicU64::new(0));
            Arc::new(zeros.take(words).collect::<Vec<_>>())
        }
    }
}

/// Prefetches words that will be read soon, without waiting for them.
pub fn fetch(words: &[AtomicU64]) {
    words.iter().step_by(LINE_WORDS).for_each(fetch_line);
}

#[cfg(target_arch = "x86_64")]
fn fetch_line(word: &AtomicU64) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; it reads nothing that the program could see. Every x86-64 has SSE.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
}

/// Does nothing: on other machines each line is loaded when it is read.
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
    /// Maps private zeros, with huge pages if they are many.
    fn private(words: usize) -> io::Result<Self> {
        let mapped = Self::new(words, None)?;
        mapped.want_large_pages(LARGE_BYTES);
        Ok(mapped)
    }

    /// Maps the words of a file whose length can never change, or new ones.
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

    /// Requests huge pages if the mapping has at least `from_bytes`. Without them the
    /// kernel uses small ones.
    pub(crate) fn want_large_pages(&self, from_bytes: usize) {
        if self.words * WORD_BYTES >= from_bytes {
            let _ = self.advise(libc::MADV_HUGEPAGE);
        }
    }

    /// Gives the kernel advice that does not change the content of the words.
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
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn words_outlive_their_mapping() {
        let fd = create("test", 1000).unwrap();
        let first = SharedMemory::map(fd.as_fd()).unwrap();
        first.as_ref()[999].store(7, Relaxed);
        let second = SharedMemory::map(fd.as_fd()).unwrap();
        drop(first);
        assert_eq!(second.as_ref().len(), 1000);
        assert_eq!(second.as_ref()[999].load(Relaxed), 7);
        assert_eq!(second.as_ref()[0].load(Relaxed), 0);
    }

    #[test]
    fn nobody_can_change_the_length() {
        let fd = create("test", 1000).unwrap();
        for bytes in [0, 7999, 8001] {
            assert_eq!(ftruncate(&fd, bytes).unwrap_err(), Errno::PERM);
        }
        assert!(fcntl_add_seals(&fd, SealFlags::WRITE).is_err());
    }

    #[test]
    fn a_file_whose_length_may_change_is_not_mapped() {
        let fd = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, 4096).unwrap();
        let error = SharedMemory::map(fd.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn sealed_bytes_are_read_as_they_were_and_from_such_a_file_alone() {
        let read = |fd: &OwnedFd| sealed_bytes(fd.try_clone().unwrap(), 7);
        let fd = sealed("test", b"a state").unwrap();
        for _ in 0..2 {
            assert_eq!(read(&fd).unwrap(), b"a state");
        }
        assert!(File::from(fd).write_all(b"x").is_err());
        let open = create("test", 0).unwrap();
        let disk = File::open("/dev/null").unwrap().into();
        for other in [open, disk, sealed("test", b"too long").unwrap()] {
            let error = read(&other).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn no_words_are_no_mapping() {
        let fd = create("test", 0).unwrap();
        let memory = SharedMemory::map(fd.as_fd()).unwrap();
        assert!(memory.as_ref().is_empty());
    }

    #[test]
    fn no_image_of_the_process_has_the_words() {
        let fd = create("shown in maps", 1000).unwrap();
        let _memory = SharedMemory::map(fd.as_fd()).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let ours = maps.split_once("shown in maps").unwrap().1;
        let flags = ours.lines().find(|line| line.starts_with("VmFlags:")).unwrap();
        // proc_pid_smaps(5): dd = not dumped, dc = not copied on fork.
        assert!(flags.contains(" dd") && flags.contains(" dc"), "{flags}");
    }

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
        // proc_pid_smaps(5): dd = not dumped, hg = huge pages were advised.
        let large = flags_of(LARGE_BYTES);
        assert!(large.contains(" dd"), "{large}");
        let has_large_pages = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(large.contains(" hg"), has_large_pages, "{large}");
    }
}
