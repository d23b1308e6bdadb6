//! A file system that answers when a test lets it: FUSE, served over `/dev/fuse` by a thread.
//!
//! Holds a few files without folders, and implements as much of the protocol (version 7.31,
//! `linux/fuse.h`) as opening and reading them takes.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Reaction of the file system to requests for a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Temper {
    Prompt,
    /// Opens the file, and gives its bytes when it is released.
    HoldsBytes,
    /// Opens the file when it is released.
    HoldsOpening,
}

/// A file system that is mounted until it is dropped.
#[derive(Debug)]
pub struct Fuse {
    at: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    device: File,
    files: BTreeMap<&'static str, (Temper, Vec<u8>)>,
    /// Answers that are held back; `None` = no longer.
    held: Mutex<Option<Vec<Vec<u8>>>>,
}

/// Sizes of the kernel's messages (`linux/fuse.h`).
const REQUEST_BYTES: usize = 1 << 20;
const HEAD_BYTES: usize = 40;
const ROOT: u64 = 1;

impl Fuse {
    /// Mounts these files at a folder, which is made. Returns `None` and prints the reason if this
    /// machine cannot mount FUSE: the kernel has none, or we are not root.
    pub fn mount(at: &Path, files: &[(&'static str, Temper, &[u8])]) -> Option<Self> {
        match Self::try_mount(at, files) {
            Ok(fuse) => Some(fuse),
            Err(error) => {
                eprintln!("skipped: no FUSE file system can be mounted here: {error}");
                None
            }
        }
    }

    fn try_mount(at: &Path, files: &[(&'static str, Temper, &[u8])]) -> io::Result<Self> {
        fs::create_dir_all(at)?;
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options).expect("no NUL is among them");
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        mount("lariat-test", at, "fuse", flags, options.as_c_str())?;
        let files = files.iter();
        let shared = Arc::new(Shared {
            device,
            files: files
                .map(|(name, temper, content)| (*name, (*temper, content.to_vec())))
                .collect(),
            held: Mutex::new(Some(Vec::new())),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || serving.serve());
        Ok(Self { at: at.to_owned(), shared })
    }

    pub fn held(&self) -> usize {
        self.shared.held().as_ref().map_or(0, Vec::len)
    }

    /// Sends the answers held back, and from now on every answer.
    pub fn release(&self) {
        let held = self.shared.held().take();
        for answer in held.into_iter().flatten() {
            self.shared.send(&answer);
        }
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.release();
        let _best_effort = unmount(&self.at, UnmountFlags::DETACH);
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Option<Vec<Vec<u8>>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers until the file system is unmounted.
    fn serve(&self) {
        let mut room = vec![0; REQUEST_BYTES];
        loop {
            match (&self.device).read(&mut room) {
                Ok(count) => self.answer(&room[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // ENOENT: a request was taken back before it was read.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => return,
            }
        }
    }

    fn send(&self, answer: &[u8]) {
        // The asking process may have gone.
        let _ = (&self.device).write(answer);
    }

    fn answer(&self, request: &[u8]) {
        let number = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().expect("4"));
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().expect("8"));
        let (operation, unique, node) = (number(4), long(8), long(16));
        let body = &request[HEAD_BYTES..];
        let file = || self.files.values().nth(node.checked_sub(ROOT + 1)? as usize);
        let temper = file().map_or(Temper::Prompt, |(temper, _)| *temper);
        let (answer, holder) = match operation {
            // FORGET, INTERRUPT, BATCH_FORGET: nobody waits for an answer.
            2 | 36 | 42 => return,
            // LOOKUP
            1 => (self.entry(body), None),
            // GETATTR: good for an hour.
            3 => {
                let bytes = file().map(|(_, content)| content.len());
                let mut answer = pack(&[3600]);
                answer.extend(pack(&[0]));
                answer.extend(attributes(node, bytes));
                (Ok(answer), None)
            }
            // OPEN: the kernel keeps no pages of the file (FOPEN_DIRECT_IO is not set).
            14 => (Ok(pack(&[0, 0])), Some(Temper::HoldsOpening)),
            // READ: of the file from an offset on, up to a size.
            15 => {
                let (offset, most) = (long(HEAD_BYTES + 8) as usize, number(HEAD_BYTES + 16));
                let content = file().map_or(&[][..], |(_, content)| content);
                let rest = content.get(offset..).unwrap_or_default();
                let part = &rest[..rest.len().min(most as usize)];
                (Ok(part.to_vec()), Some(Temper::HoldsBytes))
            }
            // STATFS
            17 => (Ok(vec![0; 80]), None),
            // RELEASE, FLUSH, RELEASEDIR
            18 | 25 | 29 => (Ok(Vec::new()), None),
            // INIT: reads may run concurrently (FUSE_ASYNC_READ).
            26 => (Ok(initial()), None),
            // OPENDIR, READDIR: nobody lists it.
            27 => (Ok(pack(&[0, 0])), None),
            28 => (Ok(Vec::new()), None),
            // ENOSYS
            _ => (Err(38), None),
        };
        let answer = framed(unique, answer);
        if holder == Some(temper)
            && let Some(held) = &mut *self.held()
        {
            return held.push(answer);
        }
        self.send(&answer);
    }

    /// Returns the file of that name; ENOENT if there is none.
    fn entry(&self, name: &[u8]) -> Result<Vec<u8>, i32> {
        let name = name.strip_suffix(b"\0").unwrap_or(name);
        let mut all = (ROOT + 1..).zip(&self.files);
        let found = all.find(|(_, (known, _))| known.as_bytes() == name);
        let (node, (_, (_, content))) = found.ok_or(2)?;
        let mut answer = pack(&[node, 0, 3600, 3600, 0]);
        answer.extend(attributes(node, Some(content.len())));
        Ok(answer)
    }
}

fn pack(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|one| one.to_ne_bytes()).collect()
}

fn pack_short(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|one| one.to_ne_bytes()).collect()
}

fn framed(unique: u64, answer: Result<Vec<u8>, i32>) -> Vec<u8> {
    let (error, body) = match answer {
        Ok(body) => (0, body),
        Err(error) => (-error, Vec::new()),
    };
    let mut framed = pack_short(&[16 + body.len() as u32, error as u32]);
    framed.extend(pack(&[unique]));
    framed.extend(body);
    framed
}

/// Makes a `struct fuse_init_out`: version, read-ahead, and the abilities that we want.
fn initial() -> Vec<u8> {
    const ASYNC_READ: u32 = 1;
    let mut answer = pack_short(&[7, 31, 128 << 10, ASYNC_READ, 0, 4096]);
    answer.resize(64, 0);
    answer
}

/// Makes a `struct fuse_attr` of a file with its number of bytes, or of the root.
fn attributes(node: u64, bytes: Option<usize>) -> Vec<u8> {
    let mode = if bytes.is_some() { 0o100_555 } else { 0o040_555 };
    let mut answer = pack(&[node, bytes.unwrap_or_default() as u64, 0, 1, 1, 1]);
    answer.extend(pack_short(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]));
    answer
}
