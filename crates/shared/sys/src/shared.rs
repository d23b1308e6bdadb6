//! Memory that outlives the process that uses it: a file without a name, whose descriptor another
//! process keeps.
//!
//! Owns the file's form: its length is sealed, so that no page of a mapping can go away. Words are
//! atomic: should another process write them at the same time, they are wrong,
//! and nothing worse.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;

use crate::words::{MappedWords, WORD_BYTES};

/// The least memory, in bytes, for which large pages are wanted. Smaller memory may be used a
/// little everywhere, and would be taken 2 MiB at a time.
const LARGE_BYTES: usize = 64 << 20;

/// Changes of the file that are forbidden while it is mapped.
const LENGTH: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Makes a file of `words` zero words that lives as long as a descriptor or a mapping of it. Its
/// pages are taken as they are written. `/proc/<pid>/fd` shows `name`.
pub fn create(name: &str, words: usize) -> io::Result<OwnedFd> {
    let bytes = words.checked_mul(WORD_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
    let fd = nameless_file(name)?;
    ftruncate(&fd, bytes as u64)?;
    fcntl_add_seals(&fd, LENGTH | SealFlags::SEAL)?;
    Ok(fd)
}

/// Makes an empty file that lives as long as its descriptors, and can be sealed.
fn nameless_file(name: &str) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    }
}

/// How many words such a file has. `InvalidInput` = it is another one: its length could change.
pub fn words(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // The kernel knows seals of files in memory alone.
    match fcntl_get_seals(fd) {
        Ok(seals) if seals.contains(LENGTH) => {}
        Ok(_) | Err(Errno::INVAL) => return Err(io::ErrorKind::InvalidInput.into()),
        Err(error) => return Err(error.into()),
    }
    let length = usize::try_from(fstat(fd)?.st_size);
    Ok(length.map_err(|_| io::ErrorKind::InvalidInput)? / WORD_BYTES)
}

/// A file in memory that holds these bytes and can never hold others.
pub fn sealed(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(nameless_file(name)?);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, LENGTH | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(file.into())
}

/// The bytes of such a file, at most so many. `InvalidInput` = it is another one.
pub fn sealed_bytes(fd: OwnedFd, bytes_max: usize) -> io::Result<Vec<u8>> {
    let length = words(fd.as_fd()).map(|_| fstat(&fd))??.st_size;
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    if !fcntl_get_seals(&fd)?.contains(SealFlags::WRITE) || length > bytes_max {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = vec![0; length];
    // From its beginning: who wrote it left its place at the end.
    File::from(fd).read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The whole of such a file, in this process's memory. No memory image and no child has it.
#[derive(Debug)]
pub struct SharedMemory(MappedWords);

impl SharedMemory {
    /// Maps a file of [`create`]. `InvalidInput` = it is another one: its length could change.
    pub fn map(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let mapped = MappedWords::new(words(fd)?, Some(fd))?;
        mapped.advise(libc::MADV_DONTFORK)?;
        mapped.want_large_pages(LARGE_BYTES);
        Ok(Self(mapped))
    }
}

impl AsRef<[AtomicU64]> for SharedMemory {
    fn as_ref(&self) -> &[AtomicU64] {
        self.0.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

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
}
