//! The work on files: at once, where the kernel has it in memory, or on a thread that waits.
//!
//! Owns the calls that may wait for a disk, each in both kinds. When which is made, and what
//! becomes of the answer, is `files`'s.

use std::io::{self, ErrorKind, IoSliceMut};
use std::sync::Arc;

use static_files::questions::Found;
use sys::beneath::{File, Opened};

use crate::plan::Files;

/// Bytes that are read at once into the page cache for somebody else to send.
const FETCH_BYTES: usize = 256 << 10;

#[cfg(test)]
thread_local! {
    pub(crate) static IS_COLD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Work that may have to wait for a disk.
#[derive(Debug)]
pub(crate) enum Task {
    Find(Vec<u8>),
    /// Reads this number of bytes from that offset, or up to the file's end.
    Read(Arc<File>, u64, usize),
    /// The same into the page cache alone.
    Fetch(Arc<File>, u64, usize),
}

/// The result of a task.
#[derive(Debug)]
pub(crate) enum Answer {
    Found(Found, Option<Arc<File>>),
    /// No bytes = the file ends there.
    Read(io::Result<Vec<u8>>),
    /// This number of bytes is in the page cache.
    Fetched(io::Result<usize>),
}

impl Files {
    /// Does it, however long it takes.
    pub(crate) fn perform(&self, task: Task) -> Answer {
        match task {
            Task::Find(path) => {
                let (found, open) = match &self.root {
                    Some(root) => self.judge(root.find(&path)),
                    None => (Found::Missing, None),
                };
                Answer::Found(found, open)
            }
            Task::Read(file, offset, bytes) => Answer::Read(read(&file, offset, bytes)),
            Task::Fetch(file, offset, bytes) => Answer::Fetched(fetch(&file, offset, bytes)),
        }
    }

    /// Finds a path; `None` = only a thread that waits can tell.
    pub(crate) fn find_cached(&self, path: &[u8]) -> Option<(Found, Option<Arc<File>>)> {
        #[cfg(test)]
        if IS_COLD.get() {
            return None;
        }
        match &self.root {
            Some(root) => root.find_cached(path).map(|opened| self.judge(opened)),
            None => Some((Found::Missing, None)),
        }
    }

    fn judge(&self, opened: Opened) -> (Found, Option<Arc<File>>) {
        let found = match opened {
            Opened::File(file) if !self.descriptors.suffice_for_file(&file) => Found::Busy,
            Opened::File(file) => {
                let found = described(&file);
                return (found, Some(Arc::new(file)));
            }
            Opened::Folder => Found::Folder,
            Opened::Other | Opened::Missing => Found::Missing,
            Opened::Forbidden => Found::Forbidden,
            Opened::Busy => Found::Busy,
            Opened::Failed => Found::Failed,
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

fn described(file: &File) -> Found {
    Found::File {
        bytes: file.bytes,
        modified: file.modified,
        identity: file.identity.inode ^ file.identity.device.rotate_left(32),
    }
}
