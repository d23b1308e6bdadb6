//! Opens files without waiting for anybody, locks them, and watches for changes.
//!
//! Opening a named pipe would wait for its other end, opening a terminal for its line: neither
//! happens here. A file system that does not answer still blocks the caller. If other users may
//! change parts of a path, the folder of the name is opened component by component, and no link is
//! followed that another user could have put there. A watch (inotify(7)) reports that something has
//! happened, not what: the caller looks for itself. A network file system reports only changes by
//! this host.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::fs::{
    AtFlags, CWD, FileType as FileKind, FlockOperation, Mode, OFlags, Stat, fcntl_getfl,
    fcntl_setfl, flock, fstat, fstatfs, openat, readlinkat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::process::{getegid, geteuid};

use crate::{process, wait_for};

/// Opens a regular file for reading.
///
/// # Errors
/// Fails with `IsADirectory` for a directory, with `InvalidInput` and a message that names the kind
/// for a pipe, a device or a socket, which might never end, and with `NotFound` and a message that
/// names the target for a dangling link.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Checked before the open, because opening some devices has side effects.
    let looked_at = std::fs::metadata(path).map_err(|error| of_link(path, error))?;
    refuse_irregular(looked_at.file_type())?;
    let file = without_waiting().read(true).open(path)?;
    refuse_irregular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Checks that a file is a program for the kernel, or a script that names its interpreter.
///
/// With `process::end_child_with_us`, std starts a program by execvp(3), which gives any other file
/// to a shell.
///
/// # Errors
/// Fails with `ENOEXEC`, as execve(2) does, if it is neither. A file that cannot be read passes.
pub fn has_format_of_program(path: &Path) -> io::Result<()> {
    let mut head = Vec::new();
    match open_regular(path).and_then(|file| file.take(4).read_to_end(&mut head)) {
        Ok(_) if head != b"\x7fELF" && !head.starts_with(b"#!") => Err(Errno::NOEXEC.into()),
        _ => Ok(()),
    }
}

/// Explains `NotFound` to a user who sees the file, a dangling link, in its folder.
fn of_link(path: &Path, error: io::Error) -> io::Error {
    match std::fs::read_link(path) {
        Ok(target) if error.kind() == io::ErrorKind::NotFound => {
            let message = format!("it is a link to {}, which is not there", target.display());
            io::Error::new(io::ErrorKind::NotFound, message)
        }
        _ => error,
    }
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
    } else if kind.is_symlink() {
        "a symbolic link"
    } else {
        "a device"
    };
    let message = format!("it is {what}, and a regular file is needed");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Opens a file for appending; creates it with this mode if it does not exist. Writes to it block
/// as usual.
///
/// # Errors
/// Fails with `ENXIO` for a named pipe that nobody reads, and if a symbolic link on the way is in a
/// folder that another user may change: the link could redirect our writes to any file of ours.
pub fn open_append(path: &Path, mode: u32) -> io::Result<File> {
    let place = FolderEntry::of(path)?;
    let mut flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::NOFOLLOW, !place.is_of_proc);
    waiting(File::from(openat(&place.folder, &place.name, flags, mode.into())?))
}

/// Opens a file of secrets, with the mode 0600, for appending.
///
/// # Errors
/// Also fails with `InvalidInput` or `PermissionDenied` if the file is a symbolic link or not
/// regular, has another hard link, belongs to another user, or can be used by others.
pub fn open_private_append(path: &Path) -> io::Result<File> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        refuse_irregular(found.file_type())?;
    }
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    options.custom_flags(flags.bits().cast_signed()).create(true).mode(0o600);
    let file = open_waiting(&mut options, path)?;
    refuse_shared(&file.metadata()?)?;
    Ok(file)
}

/// Checks that [`open_private_append`] could open or create the file now. Creates nothing.
///
/// # Errors
/// Fails as that function would.
pub fn may_append_privately(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => refuse_shared(&found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().filter(|one| !one.as_os_str().is_empty());
            process::may_write(directory.unwrap_or_else(|| Path::new(".")))
        }
        Err(error) => Err(error),
    }
}

fn refuse_shared(facts: &Metadata) -> io::Result<()> {
    refuse_irregular(facts.file_type())?;
    let is_own = facts.uid() == geteuid().as_raw() && facts.nlink() == 1;
    if !is_own || facts.mode() & 0o077 != 0 {
        let message = "it has another name, another owner, or may be used by others";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Opens a file for appending without waiting; writes to it block.
fn open_waiting(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    waiting(options.append(true).open(path)?)
}

fn waiting(file: File) -> io::Result<File> {
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// Writes as many bytes as fit, and waits for room even if another process that shares the open
/// file description has set `O_NONBLOCK`, which belongs to the description, not to the descriptor.
pub fn write_waiting(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match write(&fd, bytes) {
            Err(Errno::AGAIN) => {}
            done => return Ok(done?),
        }
        retry_on_intr(|| wait_for(&fd, PollFlags::OUT, None))?;
    }
}

/// Returns a descriptor of the same file for a process that may only append: it cannot overwrite
/// the file, nor read a terminal that is open both ways. A pipe is reopened if permitted, so that
/// its flags are not shared. A socket stays as it is.
pub fn to_write_only(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let (flags, kind) = (fcntl_getfl(fd)?, FileKind::from_raw_mode(fstat(fd)?.st_mode));
    if kind == FileKind::RegularFile {
        fcntl_setfl(fd, flags | OFlags::APPEND)?;
    }
    let is_both = flags.intersection(OFlags::RWMODE) == OFlags::RDWR;
    if kind == FileKind::Fifo || is_both && kind != FileKind::Socket {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        // A file of another user, or one without a path, cannot be reopened.
        if let Ok(file) = open_waiting(&mut without_waiting(), Path::new(&path)) {
            return Ok(file.into());
        }
    }
    fd.try_clone_to_owned()
}

/// Replaces or creates a regular file atomically: readers see the old bytes or the new ones.
///
/// # Errors
/// Also fails if anything but a regular file has this path: a symbolic link would have another file
/// overwritten.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let place = FolderEntry::of_name(path)?;
    match statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileKind::from_raw_mode(found.st_mode) != FileKind::RegularFile => {
            let found = std::fs::symlink_metadata(path)?;
            refuse_irregular(found.file_type())?;
        }
        Ok(_) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let number = std::process::id();
    let new = place.with_name(format!(".{}.{number}", place.name.to_string_lossy()).into())?;
    // Leftover of an earlier process with the same pid.
    let _ = new.remove();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let mut file = File::from(openat(&new.folder, &new.name, flags, mode)?);
    let replaced = io::Write::write_all(&mut file, bytes)
        .and_then(|()| Ok(renameat(&new.folder, &new.name, &place.folder, &place.name)?));
    if replaced.is_err() {
        let _ = new.remove();
    }
    replaced
}

/// Removes a file, unless a link on the way to its folder is where another user may change it.
///
/// # Errors
/// Fails like [`replace`].
pub fn remove(path: &Path) -> io::Result<()> {
    FolderEntry::of_name(path)?.remove()
}

fn without_waiting() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed());
    options
}

/// Takes the lock of an open file until it is closed (flock(2)); returns whether it was free.
///
/// # Errors
/// Fails if the file system has no locks.
pub fn lock(file: &impl AsFd) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Most links on the way to a file: as many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A name in an open folder.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) folder: OwnedFd,
    pub(crate) name: OsString,
    /// Whether the kernel must follow a link of that name: links in /proc have no real paths.
    pub(crate) is_of_proc: bool,
}

impl FolderEntry {
    /// Finds the place of a file, behind all links.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if a link on the way is in a folder that another user may change.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        Self::find(path, true)
    }

    /// Finds the place of a name, which may itself be a link.
    ///
    /// # Errors
    /// Fails like [`Self::of`], for the folders on the way.
    pub(crate) fn of_name(path: &Path) -> io::Result<Self> {
        Self::find(path, false)
    }

    fn find(path: &Path, are_links_followed: bool) -> io::Result<Self> {
        let mut rest = components(path);
        let mut folder = openat(CWD, root_of(path), FOLDER, Mode::empty())?;
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            let is_of_proc = fstatfs(&folder)?.f_type == libc::PROC_SUPER_MAGIC;
            if rest.is_empty() && (is_of_proc || !are_links_followed) {
                return Ok(Self { folder, name, is_of_proc });
            }
            let target = match readlinkat(&folder, &name, Vec::new()) {
                Ok(target) if !is_of_proc => OsString::from_vec(target.into_bytes()),
                _ if rest.is_empty() => return Ok(Self { folder, name, is_of_proc }),
                _ => {
                    let follow = if is_of_proc { OFlags::empty() } else { OFlags::NOFOLLOW };
                    folder = openat(&folder, &name, FOLDER | follow, Mode::empty())?;
                    continue;
                }
            };
            if is_anothers(&fstat(&folder)?) {
                let name = name.display();
                let message =
                    format!("{name} is a symbolic link, in a folder that another user may change");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            let target = Path::new(&target);
            if target.is_absolute() {
                folder = openat(CWD, "/", FOLDER, Mode::empty())?;
            }
            for name in components(target).into_iter().rev() {
                rest.push_front(name);
            }
        }
        Err(io::ErrorKind::IsADirectory.into())
    }

    /// Removes the file or link of this name; not a folder.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Returns another name in the same folder.
    pub(crate) fn with_name(&self, name: OsString) -> io::Result<Self> {
        let folder = self.folder.as_fd().try_clone_to_owned()?;
        Ok(Self { folder, name, is_of_proc: self.is_of_proc })
    }
}

fn root_of(path: &Path) -> &'static str {
    if path.is_absolute() { "/" } else { "." }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|one| match one {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    names.collect()
}

/// Reports whether another user owns a folder, or may put links into it. The sticky bit of folders
/// for temporary files does not prevent that: it depends on `fs.protected_symlinks` (proc(5)).
fn is_anothers(folder: &Stat) -> bool {
    let is_ours = [0, geteuid().as_raw()].contains(&folder.st_uid);
    let is_of_our_group = [0, getegid().as_raw()].contains(&folder.st_gid);
    let others = if is_of_our_group { libc::S_IWOTH } else { libc::S_IWOTH | libc::S_IWGRP };
    !is_ours || folder.st_mode & others != 0
}

#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
}

impl Watch {
    /// Creates an empty watch.
    ///
    /// # Errors
    /// Fails if the user has too many (`fs.inotify.max_user_instances`).
    pub fn new() -> io::Result<Self> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { fd })
    }

    /// Watches the entries of a directory from now on, and the directory itself.
    ///
    /// # Errors
    /// Fails if the directory does not exist or may not be read, or if the user watches too many
    /// (`fs.inotify.max_user_watches`).
    pub fn add(&self, directory: &Path) -> io::Result<()> {
        let changes = WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        add_watch(&self.fd, directory, changes)?;
        Ok(())
    }

    /// Waits until something changes, at most this long; returns whether something did.
    pub fn wait(&self, time_max: Duration) -> io::Result<bool> {
        let come = retry_on_intr(|| wait_for(&self.fd, PollFlags::IN, Some(time_max)))?;
        if come.is_empty() {
            return Ok(false);
        }
        // The buffer holds any single event; an error means that no more are queued.
        while read(&self.fd, &mut [0u8; 4096]).is_ok_and(|length| length > 0) {}
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use testkit::directory::Directory;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_to_be_read_and_nothing_waits() {
        let base = Directory::new();
        let [regular, pipe, socket] = ["regular", "pipe", "socket"].map(|name| base.join(name));
        fs::write(&regular, "text").unwrap();
        let mode = Mode::RWXU;
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let mut text = String::new();
        let mut opened = open_regular(&regular).unwrap();
        opened.read_to_string(&mut text).unwrap();
        let refused = |path: &Path| open_regular(path).unwrap_err();
        let [of_pipe, of_socket, of_folder] = [&pipe, &socket, base.path()].map(refused);
        let unread = open_append(&pipe, 0o600).unwrap_err();
        let of_pipe_too = replace(&pipe, b"1").unwrap_err();
        assert_eq!(text, "text");
        assert!(of_pipe.to_string().contains("it is a named pipe"), "{of_pipe}");
        assert!(of_socket.to_string().contains("it is a socket"), "{of_socket}");
        assert_eq!(of_folder.kind(), io::ErrorKind::IsADirectory);
        let link = base.join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let of_link = refused(&link);
        assert_eq!(of_link.kind(), io::ErrorKind::NotFound);
        assert!(of_link.to_string().contains("a link to nowhere, which"), "{of_link}");
        assert!(refused(Path::new("/dev/zero")).to_string().contains("it is a device"));
        let no_reader = Some(Errno::NXIO.raw_os_error());
        assert_eq!(unread.raw_os_error(), no_reader);
        assert_eq!(of_pipe_too.to_string(), of_pipe.to_string());
    }

    #[test]
    fn a_file_is_written_at_its_end_and_writes_wait() {
        let directory = Directory::new();
        let path = directory.join("file");
        replace(&path, b"long before").unwrap();
        replace(&path, b"one\n").unwrap();
        let mut file = open_append(&path, 0o600).unwrap();
        file.write_all(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
    }

    #[test]
    fn links_of_our_own_are_followed_to_the_end() {
        let directory = Directory::new();
        let logs = directory.join("logs");
        fs::create_dir(&logs).unwrap();
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, directory.join(name)).unwrap();
        };
        link("logs", "var");
        link("./var/../var/log", "log");
        open_append(&directory.join("log"), 0o600).unwrap().write_all(b"one").unwrap();
        assert_eq!(fs::read(logs.join("log")).unwrap(), b"one");
        replace(&directory.join("var/pid"), b"1").unwrap();
        assert_eq!(fs::read(logs.join("pid")).unwrap(), b"1");
        remove(&directory.join("var/pid")).unwrap();
        assert!(!logs.join("pid").exists());
        link("round", "round");
        open_append(&directory.join("round"), 0o600).unwrap_err();
        // The kernel's links in /proc have no real paths.
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        open_append(Path::new(&path), 0o600).unwrap().write_all(b"x").unwrap();
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"x");
    }

    #[test]
    fn no_link_is_followed_in_a_folder_that_others_may_change() {
        let directory = Directory::new();
        let victim = directory.write("victim", "");
        let folder = directory.join("folder");
        fs::create_dir(&folder).unwrap();
        let link = folder.join("log");
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let set_mode = |mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(&folder, mode).unwrap();
        };
        set_mode(0o755);
        open_append(&link, 0o600).unwrap().write_all(b"ours\n").unwrap();
        let behind = folder.join("folder");
        std::os::unix::fs::symlink(directory.join("."), &behind).unwrap();
        let is_refused = || {
            for path in [&link, &behind.join("victim")] {
                let refused = open_append(path, 0o600).unwrap_err();
                assert!(refused.to_string().contains("a symbolic link"), "{refused}");
            }
            replace(&behind.join("victim"), b"lost").unwrap_err();
            remove(&behind.join("victim")).unwrap_err();
            open_append(&folder.join("file"), 0o600).unwrap();
        };
        open_append(&behind.join("victim"), 0o600).unwrap();
        for mode in [0o777, 0o1777] {
            set_mode(mode);
            is_refused();
        }
        if geteuid().is_root() {
            std::os::unix::fs::chown(&folder, None, Some(1)).unwrap();
            set_mode(0o775);
            is_refused();
            set_mode(0o755);
            open_append(&link, 0o600).unwrap();
            std::os::unix::fs::chown(&folder, Some(1), None).unwrap();
            is_refused();
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "ours\n");
    }

    #[test]
    fn a_file_is_replaced_whole_and_no_other_by_a_link() {
        let directory = Directory::new();
        let [path, other, link] = ["file", "other", "link"].map(|name| directory.join(name));
        fs::write(&other, "other").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let refused = replace(&link, b"1").unwrap_err();
        assert!(refused.to_string().contains("a symbolic link"), "{refused}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        replace(&path, b"before").unwrap();
        let reader = File::open(&path).unwrap();
        replace(&path, b"after").unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "before");
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        let names = fs::read_dir(directory.path()).unwrap();
        assert_eq!(names.count(), 3, "nothing is left beside them");
    }

    #[test]
    fn what_is_handed_over_to_be_written_is_neither_read_nor_written_over() {
        let directory = Directory::new();
        let path = directory.write("log", "before\n");
        let mut options = File::options();
        let both = options.read(true).write(true).open(&path).unwrap();
        let mut handed = File::from(to_write_only(both.as_fd()).unwrap());
        assert!(handed.read(&mut [0]).is_err());
        handed.write_all(b"after\n").unwrap();
        // A file opened only for writing may lack append mode, as with a shell's `>`.
        let written = File::options().write(true).open(&path).unwrap();
        let mut handed = File::from(to_write_only(written.as_fd()).unwrap());
        handed.write_all(b"last\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\nafter\nlast\n");
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut handed = File::from(to_write_only(near.as_fd()).unwrap());
        handed.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn what_is_handed_over_of_a_pipe_shares_no_flags_and_a_wait_is_one_all_the_same() {
        let (mut reader, writer) = io::pipe().unwrap();
        let handed = to_write_only(writer.as_fd()).unwrap();
        rustix::io::ioctl_fionbio(&handed, true).unwrap();
        assert!(!fcntl_getfl(&writer).unwrap().contains(OFlags::NONBLOCK));
        while write(&handed, &[b'x'; 4096]).is_ok() {}
        // Any process that shares the open file description can still do this.
        let copy = writer.try_clone().unwrap();
        rustix::io::ioctl_fionbio(&copy, true).unwrap();
        let full = (&writer).write(b"message").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let waits = std::thread::spawn(move || write_waiting(&writer, b"message").unwrap());
        drop((handed, copy));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(waits.join().unwrap(), 7);
        assert!(text.ends_with("xmessage"));
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

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_change_of_an_entry_and_of_the_directory_ends_the_wait() {
        let directory = Directory::new();
        let path = directory.path();
        let watch = Watch::new().unwrap();
        watch.add(path).unwrap();
        assert!(!watch.wait(Duration::ZERO).unwrap());
        fs::write(path.join("a"), "x").unwrap();
        assert!(watch.wait(LONG).unwrap());
        assert!(!watch.wait(Duration::ZERO).unwrap(), "it has been told");
        fs::rename(path.join("a"), path.join("b")).unwrap();
        assert!(watch.wait(LONG).unwrap());
        assert!(watch.add(&path.join("b")).is_err(), "no directory");
        fs::remove_dir_all(path).unwrap();
        assert!(watch.wait(LONG).unwrap());
        assert!(watch.add(path).is_err());
    }
}
