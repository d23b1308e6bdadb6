//! Files: opened without waiting for anybody, locked, and watched.
//!
//! To open a named pipe waits for its other end, to open a terminal for its line. Neither happens
//! here. A file system that does not answer still holds its caller. If other users may have a hand
//! in a path, the folder that a name stands in is opened component by component, and no link is
//! followed that another user could have put there. A watch (inotify(7)) says that something has
//! happened, not what: who wants to know looks. A network file system tells only of what this host
//! does.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
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

/// Opens a regular file to be read.
///
/// # Errors
/// A directory is one of the kind `IsADirectory`; a pipe, a device or a socket, which might never
/// end, one of the kind `InvalidInput` that says what it is. A link to nothing says so, of the
/// kind `NotFound`.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Looked at first: to open some devices does something.
    let looked_at = std::fs::metadata(path).map_err(|error| of_link(path, error))?;
    refuse_irregular(looked_at.file_type())?;
    let file = without_waiting().read(true).open(path)?;
    refuse_irregular(file.metadata()?.file_type())?;
    Ok(file)
}

/// The error for who sees a file in its folder that the system says is not there.
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

/// Opens a file at its end, to be written; it is made with this mode if it is not there. Writes to
/// it wait as usual.
///
/// # Errors
/// Also if it is a named pipe that nobody reads (`ENXIO`), or a symbolic link on the way stands in
/// a folder that another user may change: it would have any file of ours written to.
pub fn open_append(path: &Path, mode: u32) -> io::Result<File> {
    let place = FolderEntry::of(path)?;
    let mut flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::NOFOLLOW, !place.is_of_proc);
    waiting(File::from(openat(&place.folder, &place.name, flags, mode.into())?))
}

/// The same for a file of secrets, which has the mode 0600.
///
/// # Errors
/// Also if a symbolic link or no regular file is there, or one that has another name too, is
/// another user's, or may be used by others (`InvalidInput`, `PermissionDenied`).
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

/// Whether [`open_private_append`] could open it now, or make it. This makes no file.
///
/// # Errors
/// As there.
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

/// Opens it at its end without waiting; writes to it wait.
fn open_waiting(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    waiting(options.append(true).open(path)?)
}

fn waiting(file: File) -> io::Result<File> {
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// Writes what there is room for, and waits for that, also if somebody who shares the open file has
/// told it not to (`O_NONBLOCK` is of the open file, not of the descriptor).
pub fn write_waiting(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match write(&fd, bytes) {
            Err(Errno::AGAIN) => {}
            done => return Ok(done?),
        }
        retry_on_intr(|| wait_for(&fd, PollFlags::OUT, None))?;
    }
}

/// The same file, to be handed to somebody who is only to write at its end: what it holds cannot be
/// written over, and a terminal that is open for both ways not be read. A pipe is opened anew where
/// it may be, so that its flags are not shared. A socket stays as it is.
pub fn to_write_only(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let (flags, kind) = (fcntl_getfl(fd)?, FileKind::from_raw_mode(fstat(fd)?.st_mode));
    if kind == FileKind::RegularFile {
        fcntl_setfl(fd, flags | OFlags::APPEND)?;
    }
    let is_both = flags.intersection(OFlags::RWMODE) == OFlags::RDWR;
    if kind == FileKind::Fifo || is_both && kind != FileKind::Socket {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        // One that belongs to another user, or has no path any more, is nothing to open anew.
        if let Ok(file) = open_waiting(&mut without_waiting(), Path::new(&path)) {
            return Ok(file.into());
        }
    }
    fd.try_clone_to_owned()
}

/// Replaces a regular file by one with these bytes, or makes it: readers see one or the other.
///
/// # Errors
/// Also if something else than a regular file is there: a symbolic link would have another file
/// written over.
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
    // What a process of this number has left behind.
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

/// Removes a file, unless a link on the way to its folder stands where another user may change it.
///
/// # Errors
/// As [`replace`].
pub fn remove(path: &Path) -> io::Result<()> {
    FolderEntry::of_name(path)?.remove()
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

/// Links on the way to a file: as many as the kernel follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A name in an open folder.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) folder: OwnedFd,
    pub(crate) name: OsString,
    /// Whether the kernel is to follow a link of that name: one of /proc is no path.
    pub(crate) is_of_proc: bool,
}

impl FolderEntry {
    /// The place of a file, behind all links.
    ///
    /// # Errors
    /// `InvalidInput` if a link on the way stands in a folder that another user may change.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        Self::find(path, true)
    }

    /// The place of a name, which may be that of a link itself.
    ///
    /// # Errors
    /// As [`Self::of`], of the folders before it.
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

    /// Removes what has the name, a folder excepted.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// The same folder with another name.
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

/// Whether another user owns a folder, or others may put links into it. The sticky bit of folders
/// for temporary files does not keep them from it: that hangs on `fs.protected_symlinks` (proc(5)).
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
    /// None yet.
    ///
    /// # Errors
    /// The user has too many (`fs.inotify.max_user_instances`).
    pub fn new() -> io::Result<Self> {
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { fd })
    }

    /// Watches the entries of a directory from now on, and the directory itself.
    ///
    /// # Errors
    /// The directory does not exist, it may not be read, or the user watches too many
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

    /// Waits until something has changed, or for this time. Whether something has.
    pub fn wait(&self, time_max: Duration) -> io::Result<bool> {
        let come = retry_on_intr(|| wait_for(&self.fd, PollFlags::IN, Some(time_max)))?;
        if come.is_empty() {
            return Ok(false);
        }
        // Longer than any one event; an error is that there are no more.
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
        // The kernel's own links are no paths.
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
        // One that can only be written has its own end, as a shell's `>` does not.
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
        // Who shares the open file can still do this to it.
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
