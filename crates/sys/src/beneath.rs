//! Files beneath a folder, and nothing outside of it, whatever a path says: openat2(2) with
//! `RESOLVE_BENEATH`, so that the kernel judges each step of a path as it takes it.
//!
//! Owns the opening, and what is told of a file and of a folder. Which paths are asked for, and
//! what a client is told, is not decided here. Nothing is ever written, and nothing waits for the
//! other end of a pipe or for a terminal.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, RawDirEntry, ResolveFlags, Stat, fstat, openat,
    openat2, statat,
};
use rustix::io::{Errno, preadv};

/// Bytes of a folder that are asked for at once: some hundred names.
const FOLDER_BYTES: usize = 16 << 10;

/// A step of a path by `..`, as links have them, is refused while somebody renames folders; it is
/// worth trying again, but not for ever.
const TRIES_MAX: usize = 4;

/// A folder that files are opened beneath. It stays the same folder when its path gets another
/// meaning.
#[derive(Debug)]
pub struct Root(OwnedFd);

/// What tells a file or folder from all others of this host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity {
    /// Of the file system.
    pub device: u64,
    /// Within it.
    pub inode: u64,
}

/// What is at a path.
#[derive(Debug)]
pub enum Opened {
    /// A regular file.
    File(File),
    /// A folder.
    Folder(Folder),
    /// Something that is neither: a device, a socket, a pipe. It has not been waited for.
    Other,
    /// Nothing; or the path leads out of the root.
    Missing,
    /// This process may not read it.
    Forbidden,
    /// No descriptor or memory is left for it.
    Busy,
    /// The file system has failed.
    Failed,
}

/// A regular file, open to be read.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    /// Its length when it was opened, in bytes.
    pub bytes: u64,
    /// When its content was last changed.
    pub modified: SystemTime,
    /// Which file it is.
    pub identity: Identity,
}

/// A folder beneath a root.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: Vec<u8>,
}

/// What is in a folder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entries {
    /// The files and folders, without `.` and `..`, in no order.
    pub entries: Vec<Entry>,
    /// Whether there were no more names than were looked at.
    pub is_whole: bool,
}

/// A file or folder in a folder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Its name; any bytes but `/` and NUL.
    pub name: Vec<u8>,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// The length of a file.
    pub bytes: u64,
    /// When its content was last changed.
    pub modified: SystemTime,
}

impl Root {
    /// Opens the folder. `Unsupported` = this kernel has no openat2(2): it is older than 5.6, or
    /// whoever confines this process does not know the call.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Self(openat(CWD, path, flags, Mode::empty())?);
        match root.step(b".", flags) {
            Err(Errno::NOSYS | Errno::PERM) => Err(io::ErrorKind::Unsupported.into()),
            tried => Ok(tried.map(|_| root)?),
        }
    }

    /// Which folder it is.
    pub fn identity(&self) -> io::Result<Identity> {
        Ok(Identity::of(&fstat(&self.0)?))
    }

    /// Opens what is at a path relative to the root; `.` is the root itself. Links within the root
    /// are followed.
    pub fn find(&self, path: &[u8]) -> Opened {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match self.step(path, flags) {
            Ok(fd) => fd,
            Err(Errno::ACCESS) => return self.find_closed_folder(path),
            Err(error) => return Opened::of(error),
        };
        match fstat(&fd) {
            Ok(stat) => Opened::file_or_folder(fd, &stat, path),
            Err(error) => Opened::of(error),
        }
    }

    /// A folder that may be passed through, but not read.
    fn find_closed_folder(&self, path: &[u8]) -> Opened {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match self.step(path, flags) {
            Ok(fd) => Opened::Folder(Folder::new(fd, path)),
            Err(_) => Opened::Forbidden,
        }
    }

    fn step(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let open = || openat2(&self.0, path, flags, Mode::empty(), resolve);
        let mut opened = open();
        for _ in 1..TRIES_MAX {
            if !matches!(opened, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
            opened = open();
        }
        opened
    }

    /// The files and folders in a folder of this root. At most `names_max` names are looked at,
    /// whatever they are, so that a folder of millions holds nobody up.
    pub fn entries(&self, folder: &Folder, names_max: usize) -> io::Result<Entries> {
        let (mut entries, mut left) = (Vec::new(), names_max);
        let mut room = [MaybeUninit::uninit(); FOLDER_BYTES];
        let mut names = RawDir::new(&folder.fd, &mut room);
        while let Some(named) = names.next() {
            let named = named?;
            if matches!(named.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            if left == 0 {
                let is_whole = false;
                return Ok(Entries { entries, is_whole });
            }
            left -= 1;
            entries.extend(self.entry(folder, &named));
        }
        let is_whole = true;
        Ok(Entries { entries, is_whole })
    }

    /// `None` = it is nothing that could be opened: gone since, a device, a link out of the root.
    fn entry(&self, folder: &Folder, named: &RawDirEntry<'_>) -> Option<Entry> {
        let name = named.file_name().to_bytes();
        let stat = match named.file_type() {
            FileType::RegularFile | FileType::Directory => {
                statat(&folder.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?
            }
            FileType::Symlink | FileType::Unknown => self.stat_beneath(folder, name)?,
            _ => return None,
        };
        let is_folder = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => return None,
        };
        Some(Entry {
            name: name.to_vec(),
            is_folder,
            bytes: stat.st_size as u64,
            modified: modified(&stat),
        })
    }

    fn stat_beneath(&self, folder: &Folder, name: &[u8]) -> Option<Stat> {
        let path = [&folder.path, &b"/"[..], name].concat();
        let fd = self.step(&path, OFlags::PATH | OFlags::CLOEXEC).ok()?;
        fstat(&fd).ok()
    }
}

impl From<OwnedFd> for Root {
    /// The folder that another process has opened.
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

impl Opened {
    fn file_or_folder(fd: OwnedFd, stat: &Stat, path: &[u8]) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File(File {
                fd,
                bytes: stat.st_size as u64,
                modified: modified(stat),
                identity: Identity::of(stat),
            }),
            FileType::Directory => Self::Folder(Folder::new(fd, path)),
            _ => Self::Other,
        }
    }

    fn of(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => Self::Missing,
            // Out of the root, or links in a circle.
            Errno::XDEV | Errno::LOOP => Self::Missing,
            Errno::NXIO | Errno::NODEV => Self::Other,
            Errno::ACCESS | Errno::PERM => Self::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Self::Busy,
            _ => Self::Failed,
        }
    }
}

impl File {
    /// Reads into the pieces, in their order, from `offset` on; 0 = the file ends there.
    #[inline]
    pub fn read(&self, pieces: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        Ok(preadv(&self.fd, pieces, offset)?)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Folder {
    fn new(fd: OwnedFd, path: &[u8]) -> Self {
        let path = path.to_vec();
        Self { fd, path }
    }
}

/// As exact as the file system tells, before 1970 as well.
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
    use std::sync::atomic::{AtomicU32, Ordering};

    /// `secret` lies beside the root, which is `root`.
    struct Scene(PathBuf);

    impl Scene {
        fn new() -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("lariat-beneath-{}-{number}", std::process::id());
            let base = std::env::temp_dir().join(name);
            fs::create_dir_all(base.join("root/folder")).unwrap();
            fs::write(base.join("secret"), "secret").unwrap();
            fs::write(base.join("root/file"), "0123456789").unwrap();
            fs::write(base.join("root/folder/inner"), "inner").unwrap();
            Self(base)
        }

        fn root(&self) -> Root {
            Root::open(&self.0.join("root")).unwrap()
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.join("root").join(path)
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn file(opened: Opened) -> File {
        match opened {
            Opened::File(file) => file,
            other => panic!("no file: {other:?}"),
        }
    }

    fn folder(opened: Opened) -> Folder {
        match opened {
            Opened::Folder(folder) => folder,
            other => panic!("no folder: {other:?}"),
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
        assert_eq!(
            file.read(&mut [IoSliceMut::new(&mut first)], 10).unwrap(),
            0
        );
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
            assert!(matches!(found, Opened::Missing), "{path}: {found:?}");
        }
        let long = [&b"a/"[..]; 3000].concat();
        assert!(matches!(root.find(&long), Opened::Missing));
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
            assert!(matches!(root.find(path), Opened::Other));
        }
        let devices = Root::open(Path::new("/dev")).unwrap();
        assert!(matches!(devices.find(b"null"), Opened::Other));
    }

    #[test]
    fn a_folder_tells_what_is_in_it() {
        let scene = Scene::new();
        symlink("../file", scene.at("folder/link")).unwrap();
        symlink("../../secret", scene.at("folder/out")).unwrap();
        symlink("nowhere", scene.at("folder/dead")).unwrap();
        let _listener = UnixListener::bind(scene.at("folder/socket")).unwrap();
        fs::create_dir(scene.at("folder/deep")).unwrap();
        let root = scene.root();
        let list = |path, most| root.entries(&folder(root.find(path)), most).unwrap();
        let Entries {
            mut entries,
            is_whole,
        } = list(b"folder", 6);
        assert!(is_whole);
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let told: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name.as_slice(), entry.is_folder))
            .collect();
        let expected = [(&b"deep"[..], true), (b"inner", false), (b"link", false)];
        assert_eq!(told, expected);
        assert_eq!((entries[1].bytes, entries[2].bytes), (5, 10));
        // Names that lead nowhere are looked at as well.
        let some = list(b"folder", 5);
        assert!(some.entries.len() <= 3 && !some.is_whole);
        assert_eq!(list(b".", 9).entries.len(), 2);
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
            // Root reads everything; the black-box tests see to other users.
            assert_eq!(file(root.find(b"file")).bytes, 10);
            return;
        }
        assert!(matches!(root.find(b"file"), Opened::Forbidden));
        assert_eq!(file(root.find(b"folder/inner")).bytes, 5);
        assert!(root.entries(&folder(root.find(b"folder")), 9).is_err());
    }
}
