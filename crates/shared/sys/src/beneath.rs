//! Opens files beneath a folder, and nothing outside of it whatever a path says: openat2(2) with
//! `RESOLVE_BENEATH` makes the kernel judge each step of a path as it takes it.
//!
//! Handles opening, reading and file metadata. The caller decides which paths are asked for and
//! what a client is answered. Nothing is ever written, and no call waits for the other end of a
//! pipe or for a terminal.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fstatfs, openat, openat2,
};
use rustix::io::{Errno, ReadWriteFlags, preadv, preadv2};

/// Number of tries for a path with a `..` step, as links have them: the kernel refuses it while
/// somebody renames folders, so it is worth trying again, but not without end.
const TRIES_MAX: usize = 4;

/// Distance between the bytes that [`File::cached_bytes`] samples: the kernel reads and evicts runs
/// of pages, mostly longer ones. Each sample costs a system call.
const SAMPLE_BYTES: usize = 64 << 10;

/// A folder that files are opened beneath. It stays the same folder when its path comes to mean
/// another one.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    storage: Storage,
}

/// Kind of a file system, by the waits that its calls cause.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Storage {
    /// Every call is served from memory.
    Memory,
    /// A call may wait for a disk of this host if the page cache lacks the data. Folders and inodes
    /// that were opened before are in memory.
    Disk,
    /// Any call may wait for another host or process; or the kind is unknown.
    Remote,
}

impl Storage {
    fn of(fd: &OwnedFd) -> Self {
        const MEMORY: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9fa0]; // tmpfs, ramfs, proc
        const DISK: [u64; 9] = [
            0xef53,      // ext2, ext3, ext4
            0x5846_5342, // xfs
            0x9123_683e, // btrfs
            0x2fc1_2fc1, // zfs
            0xf2f5_2010, // f2fs
            0xca45_1a4e, // bcachefs
            0x7371_7368, // squashfs
            0xe0f5_e1e2, // erofs
            0x794c_7630, // overlayfs
        ];
        let magic = fstatfs(fd).map_or(0, |stat| stat.f_type as u64 & 0xffff_ffff);
        match magic {
            magic if MEMORY.contains(&magic) => Self::Memory,
            magic if DISK.contains(&magic) => Self::Disk,
            _ => Self::Remote,
        }
    }
}

/// Manner of opening a path.
#[derive(Clone, Copy, Eq, PartialEq)]
enum OpenMode {
    Waiting,
    /// Opens only if that takes nothing but memory.
    AtOnce,
}

/// Identity of a file or folder on this host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

#[derive(Debug)]
pub enum OpenResult {
    File(File),
    Folder,
    /// Neither a file nor a folder: a device, a socket, a pipe. Opening did not wait for it.
    Other,
    /// The path names nothing, or leads out of the root.
    Missing,
    /// This process may not read the file.
    Forbidden,
    /// No descriptor or memory is left to open the file.
    Busy,
    /// The file system has failed.
    Failed,
}

/// A regular file, open to be read.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    storage: Storage,
    /// Length at the time of opening, in bytes.
    pub bytes: u64,
    /// Time of the last change of the content.
    pub modified: SystemTime,
    pub identity: Identity,
}

impl Root {
    /// Opens the folder. Fails with `Unsupported` if this kernel has no openat2(2): it is older
    /// than 5.6, or the sandbox around this process does not know the call.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Self::from(openat(CWD, path, flags, Mode::empty())?);
        match root.step(b".", flags, OpenMode::Waiting) {
            Err(Errno::NOSYS | Errno::PERM) => Err(io::ErrorKind::Unsupported.into()),
            tried => Ok(tried.map(|_| root)?),
        }
    }

    pub fn identity(&self) -> io::Result<Identity> {
        Ok(Identity::of(&fstat(&self.fd)?))
    }

    /// Opens the file at a path relative to the root; `.` is the root itself. Links within the root
    /// are followed. May wait for as long as the file system takes to answer.
    pub fn find(&self, path: &[u8]) -> OpenResult {
        self.try_find(path, OpenMode::Waiting).unwrap_or_else(OpenResult::of)
    }

    /// Like [`Self::find`], but without waiting for a disk or anybody: the path must be in the
    /// kernel's cache of names and lead into no other file system. `None` if it would wait.
    pub fn find_cached(&self, path: &[u8]) -> Option<OpenResult> {
        if self.storage == Storage::Remote {
            return None;
        }
        match self.try_find(path, OpenMode::AtOnce) {
            Ok(opened) => Some(opened),
            // Not in memory; in another file system or out of the root; a kernel before 5.12.
            Err(Errno::AGAIN | Errno::XDEV | Errno::INVAL) => None,
            Err(error) => Some(OpenResult::of(error)),
        }
    }

    fn try_find(&self, path: &[u8], manner: OpenMode) -> Result<OpenResult, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match self.step(path, flags, manner) {
            Err(Errno::ACCESS) => return self.open_closed_folder(path, manner),
            stepped => stepped?,
        };
        let stat = fstat(&fd)?;
        let storage = match manner {
            OpenMode::AtOnce => self.storage,
            OpenMode::Waiting => Storage::of(&fd),
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => OpenResult::File(File {
                fd,
                storage,
                bytes: stat.st_size as u64,
                modified: modified(&stat),
                identity: Identity::of(&stat),
            }),
            FileType::Directory => OpenResult::Folder,
            _ => OpenResult::Other,
        })
    }

    /// Opens a folder that may be passed through, but not read.
    fn open_closed_folder(&self, path: &[u8], manner: OpenMode) -> Result<OpenResult, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match self.step(path, flags, manner) {
            Ok(_) => Ok(OpenResult::Folder),
            Err(Errno::AGAIN) => Err(Errno::AGAIN),
            Err(_) => Ok(OpenResult::Forbidden),
        }
    }

    fn step(&self, path: &[u8], flags: OFlags, manner: OpenMode) -> Result<OwnedFd, Errno> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if manner == OpenMode::AtOnce {
            resolve |= ResolveFlags::NO_XDEV;
            // A file system in memory may use no cache, as proc does.
            if self.storage == Storage::Disk {
                resolve |= ResolveFlags::CACHED;
            }
        }
        let open = || openat2(&self.fd, path, flags, Mode::empty(), resolve);
        let mut opened = open();
        let tries = match manner {
            OpenMode::Waiting => TRIES_MAX,
            OpenMode::AtOnce => 1,
        };
        for _ in 1..tries {
            if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
            opened = open();
        }
        opened
    }
}

impl From<OwnedFd> for Root {
    /// Takes a folder that another process has opened.
    fn from(fd: OwnedFd) -> Self {
        let storage = Storage::of(&fd);
        Self { fd, storage }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

impl OpenResult {
    fn of(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => Self::Missing,
            // The path leads out of the root, or its links form a circle.
            Errno::XDEV | Errno::LOOP => Self::Missing,
            Errno::NXIO | Errno::NODEV => Self::Other,
            Errno::ACCESS | Errno::PERM => Self::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Self::Busy,
            _ => Self::Failed,
        }
    }
}

impl File {
    /// Whether even closing the file may wait for another host or process.
    pub fn is_remote(&self) -> bool {
        self.storage == Storage::Remote
    }

    /// Reads into the pieces in order, from `offset` on; returns 0 at the end of the file. May wait
    /// for as long as the file system takes to answer.
    #[inline]
    pub fn read(&self, pieces: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        Ok(preadv(&self.fd, pieces, offset)?)
    }

    /// Like [`Self::read`], but only from the page cache. Fails with `WouldBlock` if the first byte
    /// is not cached and with `Unsupported` if this file system cannot tell.
    ///
    /// The call waits at most until the kernel starts its read-ahead.
    #[inline]
    pub fn read_cached(&self, pieces: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        match self.storage {
            Storage::Memory => self.read(pieces, offset),
            Storage::Disk => match preadv2(&self.fd, pieces, offset, ReadWriteFlags::NOWAIT) {
                // The sandbox around this process may not know the call.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                    Err(io::ErrorKind::Unsupported.into())
                }
                read => Ok(read?),
            },
            Storage::Remote => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns how many of the `count` bytes from `offset` on are in the page cache, judged by one
    /// byte in each 64 KiB; 0 if the first is not. Asking for all without copying them is
    /// impossible: `mincore(2)` and `cachestat(2)` answer a file's owner only, and also count pages
    /// that are not read yet.
    ///
    /// # Errors
    /// Fails like [`Self::read_cached`]: with `Unsupported` if this file system cannot tell.
    pub fn cached_bytes(&self, offset: u64, count: usize) -> io::Result<usize> {
        if self.storage == Storage::Memory || count == 0 {
            return Ok(count);
        }
        for sample in (0..count).step_by(SAMPLE_BYTES).chain([count - 1]) {
            let mut byte = [0];
            match self.read_cached(&mut [IoSliceMut::new(&mut byte)], offset + sample as u64) {
                // The file may also end earlier: the sender's next read finds that out.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(sample / SAMPLE_BYTES * SAMPLE_BYTES);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the modification time, as exact as the file system keeps it, also before 1970.
fn modified(stat: &Stat) -> SystemTime {
    let nanoseconds = Duration::from_nanos(stat.st_mtime_nsec);
    let seconds = Duration::from_secs(stat.st_mtime.unsigned_abs());
    let whole = match stat.st_mtime {
        0.. => UNIX_EPOCH.checked_add(seconds),
        _ => UNIX_EPOCH.checked_sub(seconds),
    };
    whole.map_or(UNIX_EPOCH, |whole| whole + nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use testkit::directory::Directory;

    /// A root folder `root` with the file `secret` beside it.
    struct Scene(Directory);

    impl Scene {
        fn new() -> Self {
            let base = Directory::new();
            base.write("secret", "secret");
            base.write("root/file", "0123456789");
            base.write("root/folder/inner", "inner");
            Self(base)
        }

        fn root(&self) -> Root {
            Root::open(&self.0.join("root")).unwrap()
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.join("root").join(path)
        }
    }

    fn file(opened: OpenResult) -> File {
        match opened {
            OpenResult::File(file) => file,
            other => panic!("no file: {other:?}"),
        }
    }

    #[test]
    fn a_file_is_described_and_read_into_pieces() {
        let scene = Scene::new();
        let file = file(scene.root().find(b"folder/../file"));
        assert_eq!(file.bytes, 10);
        let told = fs::metadata(scene.at("file")).unwrap();
        assert_eq!(file.modified, told.modified().unwrap());
        let (mut first, mut second) = ([0; 3], [0; 4]);
        let mut pieces = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(file.read(&mut pieces, 2).unwrap(), 7);
        assert_eq!((&first, &second), (b"234", b"5678"));
        let mut pieces = [IoSliceMut::new(&mut first)];
        assert_eq!(file.read(&mut pieces, 9).unwrap(), 1);
        assert_eq!(file.read(&mut [IoSliceMut::new(&mut first)], 10).unwrap(), 0);
    }

    #[test]
    fn what_is_not_in_memory_is_not_read_at_once() {
        // The kernel may keep several megabytes as one folio.
        const SIZE: usize = 16 << 20;
        let scene = Scene::new();
        let content = vec![7; SIZE];
        fs::write(scene.at("large"), &content).unwrap();
        let root = scene.root();
        let file = file(root.find(b"large"));
        let read = |offset| file.read_cached(&mut [IoSliceMut::new(&mut [0; 9])], offset);
        match (file.storage, read(0)) {
            (Storage::Disk, Ok(9)) => {}
            // The file system is in memory, or of a kind that cannot tell.
            (Storage::Memory, Ok(9)) => return,
            (_, Err(error)) => return assert_eq!(error.kind(), io::ErrorKind::Unsupported),
            other => panic!("{other:?}"),
        }
        assert_eq!(file.cached_bytes(0, SIZE).unwrap(), SIZE);
        assert_eq!(file.cached_bytes(1, SIZE - 1).unwrap(), SIZE - 1);
        let written = fs::File::open(scene.at("large")).unwrap();
        written.sync_all().unwrap();
        // The kernel keeps a page that another process uses: every page is dropped again.
        let forget = |offset, length| {
            rustix::fs::fadvise(&written, offset, length, rustix::fs::Advice::DontNeed).unwrap();
        };
        forget(SIZE as u64 / 2, None);
        assert_eq!(file.cached_bytes(0, SIZE).unwrap(), SIZE / 2);
        forget(0, None);
        assert_eq!(read(0).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(file.read(&mut [IoSliceMut::new(&mut [0; 9])], 0).unwrap(), 9);
        assert_eq!(read(0).unwrap(), 9);
        assert_eq!(read(SIZE as u64).unwrap(), 0);
    }

    #[test]
    fn what_was_looked_up_is_found_at_once() {
        let scene = Scene::new();
        let root = scene.root();
        if root.storage == Storage::Remote {
            assert!(root.find_cached(b"file").is_none());
            return;
        }
        for path in [&b"folder/inner"[..], b"missing", b"folder"] {
            let waited = root.find(path);
            let at_once = root.find_cached(path).expect("it was just looked up");
            let kind = std::mem::discriminant::<OpenResult>;
            assert_eq!(kind(&waited), kind(&at_once));
        }
        assert!(root.find_cached(b"../secret").is_none());
        // `/proc` is another file system.
        let system = Root::open(Path::new("/")).unwrap();
        assert!(matches!(system.find(b"proc/self/status"), OpenResult::File(_)));
        assert!(system.find_cached(b"proc/self/status").is_none());
        let proc = Root::open(Path::new("/proc")).unwrap();
        assert_eq!(proc.storage, Storage::Memory);
        assert!(matches!(proc.find_cached(b"self/status"), Some(OpenResult::File(_))));
    }

    #[test]
    fn a_file_before_1970_keeps_its_time() {
        let scene = Scene::new();
        let past = UNIX_EPOCH - Duration::from_millis(1500);
        let file_of_scene = fs::File::options().append(true).open(scene.at("file"));
        file_of_scene.unwrap().set_modified(past).unwrap();
        assert_eq!(file(scene.root().find(b"file")).modified, past);
    }

    #[test]
    fn nothing_leads_out() {
        let scene = Scene::new();
        symlink("../secret", scene.at("out")).unwrap();
        symlink(scene.0.join("secret"), scene.at("absolute")).unwrap();
        symlink(scene.at("file"), scene.at("absolute-within")).unwrap();
        symlink("../..", scene.at("folder/up")).unwrap();
        symlink("loop", scene.at("loop")).unwrap();
        symlink("/proc/self/root", scene.at("magic")).unwrap();
        let root = scene.root();
        for path in [
            "../secret",
            "folder/../../secret",
            "/etc/passwd",
            "out",
            "absolute",
            "absolute-within",
            "folder/up/secret",
            "loop",
            "magic/etc/passwd",
            "file/",
            "file/x",
            "",
            "nothing",
            "fi\0le",
        ] {
            let found = root.find(path.as_bytes());
            assert!(matches!(found, OpenResult::Missing), "{path}: {found:?}");
        }
        let long = [&b"a/"[..]; 3000].concat();
        assert!(matches!(root.find(&long), OpenResult::Missing));
    }

    #[test]
    fn links_within_are_followed() {
        let scene = Scene::new();
        symlink("folder/../file", scene.at("link")).unwrap();
        symlink("../file", scene.at("folder/link")).unwrap();
        for path in [&b"link"[..], b"folder/link"] {
            assert_eq!(file(scene.root().find(path)).bytes, 10);
        }
    }

    #[test]
    fn a_root_that_was_moved_is_the_same() {
        let scene = Scene::new();
        let root = scene.root();
        let before = root.identity().unwrap();
        fs::rename(scene.0.join("root"), scene.0.join("moved")).unwrap();
        fs::create_dir(scene.0.join("root")).unwrap();
        assert_eq!(file(root.find(b"file")).bytes, 10);
        assert_eq!(root.identity().unwrap(), before);
        assert_ne!(scene.root().identity().unwrap(), before);
        assert!(Root::open(&scene.0.join("secret")).is_err());
    }

    #[test]
    fn what_is_neither_file_nor_folder_is_not_waited_for() {
        let scene = Scene::new();
        let pipe = scene.at("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _listener = UnixListener::bind(scene.at("socket")).unwrap();
        let root = scene.root();
        for path in [&b"pipe"[..], b"socket"] {
            assert!(matches!(root.find(path), OpenResult::Other));
        }
        let devices = Root::open(Path::new("/dev")).unwrap();
        assert!(matches!(devices.find(b"null"), OpenResult::Other));
    }

    #[test]
    fn what_may_not_be_read_is_forbidden() {
        let scene = Scene::new();
        let mode = |path: &str, mode| {
            fs::set_permissions(scene.at(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("file", 0);
        mode("folder", 0o311);
        let root = scene.root();
        if crate::process::is_root() {
            // Root reads everything; the black-box tests cover other users.
            assert_eq!(file(root.find(b"file")).bytes, 10);
            return;
        }
        assert!(matches!(root.find(b"file"), OpenResult::Forbidden));
        assert_eq!(file(root.find(b"folder/inner")).bytes, 5);
        assert!(matches!(root.find(b"folder"), OpenResult::Folder));
    }
}
