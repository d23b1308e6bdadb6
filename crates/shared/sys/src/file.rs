//! Opening files without waiting for anybody, and locks on them.
//!
//! To open a named pipe waits for its other end, to open a terminal for its line. Neither happens
//! here. A file system that does not answer still holds its caller.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, fcntl_getfl, fcntl_setfl, flock};
use rustix::io::Errno;

/// Opens a regular file to be read.
///
/// # Errors
/// A directory is one of the kind `IsADirectory`; a pipe, a device or a socket, which might never
/// end, one of the kind `InvalidInput` that says what it is.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Looked at first: to open some devices does something.
    refuse_irregular(std::fs::metadata(path)?.file_type())?;
    let file = without_waiting().read(true).open(path)?;
    refuse_irregular(file.metadata()?.file_type())?;
    Ok(file)
}

fn refuse_irregular(kind: FileType) -> io::Result<()> {
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    let message = format!("it is {what}, and a regular file is needed");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Opens a file at its end, to be written; it is made with this mode if it is not there. Writes to
/// it wait as usual.
///
/// # Errors
/// Also if it is a named pipe that nobody reads (`ENXIO`).
pub fn open_append(path: &Path, mode: u32) -> io::Result<File> {
    let file = without_waiting()
        .append(true)
        .create(true)
        .mode(mode)
        .open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// Replaces what is in a file, which is made if it is not there.
///
/// # Errors
/// Also if it is a named pipe that nobody reads (`ENXIO`), or whose reader is slow.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = without_waiting();
    let mut file = options.write(true).create(true).truncate(true).open(path)?;
    io::Write::write_all(&mut file, bytes)
}

fn without_waiting() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed());
    options
}

/// Takes the lock of an open file, which it has until it is closed (flock(2)). Whether it was free.
///
/// # Errors
/// The file system knows no locks.
pub fn lock(file: &impl AsFd) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use testkit::directory::Directory;

    #[test]
    fn only_regular_files_are_opened_to_be_read_and_nothing_waits() {
        let base = Directory::new();
        let [regular, pipe, socket] = ["regular", "pipe", "socket"].map(|name| base.join(name));
        std::fs::write(&regular, "text").unwrap();
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let mut text = String::new();
        let mut opened = open_regular(&regular).unwrap();
        opened.read_to_string(&mut text).unwrap();
        let refused = |path: &Path| open_regular(path).unwrap_err();
        let [of_pipe, of_socket, of_folder] = [&pipe, &socket, base.path()].map(refused);
        let unread = open_append(&pipe, 0o600).unwrap_err();
        let unread_too = replace(&pipe, b"1").unwrap_err();
        assert_eq!(text, "text");
        assert!(
            of_pipe.to_string().contains("it is a named pipe"),
            "{of_pipe}"
        );
        assert!(
            of_socket.to_string().contains("it is a socket"),
            "{of_socket}"
        );
        assert_eq!(of_folder.kind(), io::ErrorKind::IsADirectory);
        assert!(
            refused(Path::new("/dev/zero"))
                .to_string()
                .contains("it is a device")
        );
        let no_reader = Some(Errno::NXIO.raw_os_error());
        assert_eq!(unread.raw_os_error(), no_reader);
        assert_eq!(unread_too.raw_os_error(), no_reader);
    }

    #[test]
    fn a_file_is_written_at_its_end_and_writes_wait() {
        let directory = Directory::new();
        let path = directory.join("file");
        replace(&path, b"long before").unwrap();
        replace(&path, b"one\n").unwrap();
        let mut file = open_append(&path, 0o600).unwrap();
        file.write_all(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
    }

    #[test]
    fn a_lock_is_had_once() {
        let directory = Directory::new();
        let path = directory.join("lock");
        let (first, second) = (File::create(&path).unwrap(), File::create(&path).unwrap());
        assert!(lock(&first).unwrap());
        assert!(!lock(&second).unwrap());
        drop(first);
        assert!(lock(&second).unwrap());
    }
}
