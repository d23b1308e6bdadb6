//! Work on files: at once, if the kernel has them in memory, or on a thread that waits.
//!
//! Handles the calls that may wait for a disk, each in both kinds. `files` chooses between them and
//! uses the answers.

use std::io;
use std::io::{ErrorKind, IoSliceMut};
use std::sync::Arc;

use static_files::questions::FileLookup;
use sys::beneath::{File, OpenResult};

use crate::driver::PIECES_MAX;
use crate::plan::Files;

/// Bytes that one job reads into the page cache for the kernel to send.
const FETCH_BYTES: usize = 256 << 10;

#[cfg(test)]
thread_local! {
    pub(crate) static IS_COLD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Work that may have to wait for a disk.
#[derive(Debug)]
pub(crate) enum FileWork {
    Find(Vec<u8>),
    /// Reads this number of bytes from that offset, or up to the file's end.
    Read(Arc<File>, u64, usize),
    /// Reads the same range into the page cache only.
    Fetch(Arc<File>, u64, usize),
}

/// The result of a task.
#[derive(Debug)]
pub(crate) enum FileAnswer {
    Found(FileLookup, Option<Arc<File>>),
    /// Bytes read; none = the file ends there.
    Read(io::Result<Vec<u8>>),
    /// Number of bytes that are in the page cache.
    Fetched(io::Result<usize>),
}

impl Files {
    /// Performs the task, however long it takes.
    pub(crate) fn perform(&self, task: FileWork) -> FileAnswer {
        match task {
            FileWork::Find(path) => {
                let (found, open) = match &self.root {
                    Some(root) => self.judge(root.find(&path)),
                    None => (FileLookup::Missing, None),
                };
                FileAnswer::Found(found, open)
            }
            FileWork::Read(file, offset, bytes) => FileAnswer::Read(read(&file, offset, bytes)),
            FileWork::Fetch(file, offset, bytes) => {
                FileAnswer::Fetched(fetch(&file, offset, bytes))
            }
        }
    }

    /// Finds a path; `None` = only a thread that waits can tell.
    pub(crate) fn find_cached(&self, path: &[u8]) -> Option<(FileLookup, Option<Arc<File>>)> {
        #[cfg(test)]
        if IS_COLD.get() {
            return None;
        }
        match &self.root {
            Some(root) => root.find_cached(path).map(|opened| self.judge(opened)),
            None => Some((FileLookup::Missing, None)),
        }
    }

    fn judge(&self, opened: OpenResult) -> (FileLookup, Option<Arc<File>>) {
        let found = match opened {
            OpenResult::File(file) if !self.descriptors.suffice_for_file(&file) => FileLookup::Busy,
            OpenResult::File(file) => {
                let found = described(&file);
                return (found, Some(Arc::new(file)));
            }
            OpenResult::Folder => FileLookup::Folder,
            OpenResult::Other | OpenResult::Missing => FileLookup::Missing,
            OpenResult::Forbidden => FileLookup::Forbidden,
            OpenResult::Busy => FileLookup::Busy,
            OpenResult::Failed => FileLookup::Failed,
        };
        (found, None)
    }
}

fn read(file: &File, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut content = vec![0; bytes];
    let count = read_into(file, &mut content, offset)?;
    content.truncate(count);
    Ok(content)
}

fn fetch(file: &File, offset: u64, bytes: usize) -> io::Result<usize> {
    let mut room = vec![0; FETCH_BYTES];
    let mut fetched = 0;
    while fetched < bytes {
        let most = FETCH_BYTES.min(bytes - fetched);
        match read_into(file, &mut room[..most], offset + fetched as u64)? {
            0 => break,
            count => fetched += count,
        }
    }
    Ok(fetched)
}

fn read_into(file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read(&mut [IoSliceMut::new(room)], offset) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

fn described(file: &File) -> FileLookup {
    FileLookup::File {
        bytes: file.bytes,
        modified: file.modified,
        identity: file.identity.inode ^ file.identity.device.rotate_left(32),
    }
}

/// The room for responses: pieces that are filled in order.
pub(crate) struct ResponseBuffers<'a> {
    pieces: [&'a mut [u8]; PIECES_MAX],
    /// First piece that has room.
    first: usize,
    pub(crate) filled: usize,
}

impl<'a> ResponseBuffers<'a> {
    pub(crate) fn of(pieces: &mut impl Iterator<Item = &'a mut [u8]>) -> Self {
        Self {
            pieces: std::array::from_fn(|_| pieces.next().unwrap_or_default()),
            first: 0,
            filled: 0,
        }
    }

    /// Reports whether no room is left: all pieces are full, or there were none.
    pub(crate) fn is_full(&self) -> bool {
        self.pieces.get(self.first).is_none_or(|piece| piece.is_empty())
    }

    /// Returns how many bytes still fit.
    pub(crate) fn left(&self) -> usize {
        self.pieces[self.first..].iter().map(|piece| piece.len()).sum()
    }

    /// Copies as many of the bytes as fit.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_full() {
            let piece = &mut self.pieces[self.first];
            let count = piece.len().min(rest.len());
            piece[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.advance(count);
        }
        bytes.len() - rest.len()
    }

    /// Reads up to `bytes` bytes into the room that is left.
    pub(crate) fn fill(
        &mut self,
        bytes: usize,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (mut left, mut used) = (bytes, 0);
        let mut pieces = self.pieces[self.first..].iter_mut();
        let mut slices: [IoSliceMut<'_>; PIECES_MAX] = std::array::from_fn(|_| {
            let piece = pieces.next().map(|piece| &mut **piece).unwrap_or_default();
            let count = piece.len().min(left);
            left -= count;
            used += usize::from(count > 0);
            IoSliceMut::new(&mut piece[..count])
        });
        let count = read(&mut slices[..used])?;
        self.advance(count);
        Ok(count)
    }

    fn advance(&mut self, count: usize) {
        self.filled += count;
        let mut rest = count;
        while rest > 0 {
            let piece = &mut self.pieces[self.first];
            let step = piece.len().min(rest);
            *piece = &mut std::mem::take(piece)[step..];
            rest -= step;
            self.first += usize::from(piece.is_empty());
        }
    }
}

#[cfg(test)]
mod pieces_tests {
    use super::*;

    #[test]
    fn pieces_are_filled_in_order_and_to_the_last_byte() {
        let mut memory = [0; 10];
        let mut room = ResponseBuffers::of(&mut memory.chunks_mut(4));
        assert_eq!(room.put(b"012"), 3);
        let read = |slices: &mut [IoSliceMut<'_>]| {
            let sizes: Vec<_> = slices.iter().map(|slice| slice.len()).collect();
            assert_eq!(sizes, [1, 2]);
            slices.iter_mut().for_each(|slice| slice.fill(b'x'));
            Ok(3)
        };
        assert_eq!(room.fill(3, read).unwrap(), 3);
        assert!(!room.is_full());
        assert_eq!(room.put(b"6789abc"), 4);
        assert!(room.is_full());
        assert_eq!((room.put(b"d"), room.filled), (0, 10));
        assert_eq!(&memory, b"012xxx6789");
    }

    #[test]
    fn no_room_is_full() {
        let room = ResponseBuffers::of(&mut std::iter::empty());
        assert!(room.is_full());
    }
}
