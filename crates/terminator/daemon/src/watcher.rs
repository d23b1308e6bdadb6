//! The process that waits for changes of the configuration and of the files that it names, and ends
//! when it has reported one.
//!
//! It reads only times of change, and opens no file. Changes are found by comparing those times
//! with the ones when the files were read, so that nothing in between is missed; the kernel's
//! events only end the wait. Changes without events (network file systems, lost events) are found
//! by periodic checks. A file system that does not answer blocks this process alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sys::channel::Channel;
use sys::file::Watch;
use sys::usage;

use crate::handover::{decode, encode};
use crate::messages;
use crate::worker_process::sandbox;

/// First argument of the program that makes it the watcher.
pub(crate) const WATCHER_ARGUMENT: &str = "--watcher-process";

pub(crate) const WATCHER_NAME: &str = "lariat: watcher";

/// Maximum bytes of a message of the watcher: the paths that it shows.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 10;

/// Pause between two checks without kernel events: as the kubelet checks its volumes about once a
/// minute, this adds little. Checking 10,000 files takes some 20 ms.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Multiple of the debounce time after which files that keep changing are read all the same.
const SETTLING_MAX: u32 = 10;

/// Changed files that a message names.
const NAMED_MAX: usize = 5;

/// Links that lead to one file; the kernel's own limit is 40.
const LINKS_MAX: usize = 40;

/// Metadata of files, known without opening them: `None` if a file is absent or cannot be seen.
pub(crate) type Stamps = BTreeMap<PathBuf, Option<FileStamp>>;

/// Metadata that differ after a file, or the list of a directory's entries, has changed, been
/// replaced or become readable. Links are followed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct WatchRequest {
    /// Files as they were when they were read.
    pub(crate) files: Stamps,
    /// Time that files must stay unchanged before a change is reported.
    pub(crate) debounce: Duration,
    /// Pause before the first check.
    pub(crate) pause: Duration,
}

/// Report of changed files: some of them, and how many more.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ChangedFiles {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) more: usize,
}

/// Watches for the supervisor at the other end of the standard input, until there is a change to
/// report.
pub(crate) fn run() -> ExitCode {
    messages::end_of_helper(WATCHER_NAME, serve())
}

fn serve() -> io::Result<()> {
    sandbox::begin(WATCHER_NAME)?;
    // This process has the supervisor's rights, and the worker process may have its user.
    usage::forbid_core_dumps()?;
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some((bytes, _)) = channel.receive()? else {
        return Ok(());
    };
    let ask: WatchRequest = decode(&bytes).map_err(io::Error::other)?;
    thread::sleep(ask.pause);
    let changed = first_change(&ask);
    let bytes = encode(&changed).map_err(io::Error::other)?;
    channel.send(bytes.bytes(), &[])
}

/// Waits until files have changed, and then until they stay as they are.
fn first_change(ask: &WatchRequest) -> ChangedFiles {
    let mut is_woken = false;
    loop {
        // Armed before the check: a later change ends the wait.
        let watch = armed(ask.files.keys());
        if let Some(changed) = settled(ask) {
            return changed;
        }
        if std::mem::take(&mut is_woken) {
            // Another file changed, and may go on to do so without end.
            thread::sleep(ask.debounce);
            continue;
        }
        match watch.map(|watch| watch.wait(LOOK_INTERVAL)) {
            Some(Ok(woken)) => is_woken = woken,
            Some(Err(_)) | None => thread::sleep(LOOK_INTERVAL),
        }
    }
}

/// Returns the change, once it stays so; `None` if there is none.
fn settled(ask: &WatchRequest) -> Option<ChangedFiles> {
    let mut now = look(ask.files.keys());
    for _ in 0..SETTLING_MAX {
        if now == ask.files {
            return None;
        }
        thread::sleep(ask.debounce);
        let next = look(ask.files.keys());
        if next == now {
            break;
        }
        now = next;
    }
    let is_changed = |path: &&PathBuf| ask.files.get(*path) != now.get(*path);
    let mut changed: Vec<_> = now.keys().filter(is_changed).cloned().collect();
    let more = changed.len().saturating_sub(NAMED_MAX);
    changed.truncate(NAMED_MAX);
    (!changed.is_empty()).then_some(ChangedFiles { files: changed, more })
}

fn look<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Stamps {
    paths.map(|path| (path.clone(), FileStamp::of(path))).collect()
}

/// Watches all directories in which a change may change one of these paths; `None` if the kernel
/// has no watch to give.
fn armed<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Option<Watch> {
    let watch = Watch::new().ok()?;
    let directories: BTreeSet<PathBuf> = paths.flat_map(|path| directories_of(path)).collect();
    for directory in directories {
        // A directory that cannot be watched is checked periodically.
        let _ = watch.add(&directory);
    }
    Some(watch)
}

/// Returns the directories whose entries decide what is at a path: its own, and that of each link
/// on the way; and the path, if it is a directory. If something is missing, the directory in which
/// it would be made.
fn directories_of(path: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let Ok(mut path) = std::path::absolute(path) else {
        return found;
    };
    for _ in 0..LINKS_MAX {
        match first_link(&path) {
            PathStep::Link { directory, target } => {
                found.insert(directory);
                path = target;
            }
            PathStep::End(directory) => {
                found.insert(directory);
                if path.is_dir() {
                    found.insert(path);
                }
                break;
            }
        }
    }
    found
}

/// Extent to which a path leads.
enum PathStep {
    /// To a link in this directory; the whole path continues as this one.
    Link { directory: PathBuf, target: PathBuf },
    /// To its end, or to where there is nothing: in this directory.
    End(PathBuf),
}

fn first_link(path: &Path) -> PathStep {
    let mut at = PathBuf::new();
    let mut components = path.components();
    while let Some(component) = components.next() {
        if component == Component::ParentDir {
            at.pop();
            continue;
        }
        let directory = at.clone();
        at.push(component);
        if let Ok(target) = fs::read_link(&at) {
            let target = directory.join(target).join(components.as_path());
            return PathStep::Link { directory, target };
        }
        let is_last = components.as_path().as_os_str().is_empty();
        if is_last || fs::symlink_metadata(&at).is_err() {
            return PathStep::End(directory);
        }
    }
    PathStep::End(at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use testkit::directory::Directory;

    /// Returns a new directory, and its path without links.
    fn directory() -> (Directory, PathBuf) {
        let directory = Directory::new();
        let path = directory.path().canonicalize().unwrap();
        (directory, path)
    }

    fn ask(paths: &[PathBuf]) -> WatchRequest {
        WatchRequest {
            files: look(paths.iter()),
            debounce: Duration::from_millis(10),
            pause: Duration::ZERO,
        }
    }

    #[test]
    fn links_of_kubernetes_are_followed_to_their_directories() {
        let (_directory, base) = directory();
        fs::create_dir(base.join("..2024")).unwrap();
        fs::write(base.join("..2024/tls.crt"), "1").unwrap();
        symlink("..2024", base.join("..data")).unwrap();
        symlink("..data/tls.crt", base.join("tls.crt")).unwrap();
        let found = directories_of(&base.join("tls.crt"));
        assert_eq!(found, [base.clone(), base.join("..2024")].into());
        let missing = directories_of(&base.join("none/below/x.pem"));
        assert_eq!(missing, [base.clone()].into());
        let folder = base.join("..2024");
        assert_eq!(directories_of(&folder), [base.clone(), folder].into());
        symlink("turn", base.join("turn")).unwrap();
        assert_eq!(directories_of(&base.join("turn")), [base.clone()].into());
    }

    #[test]
    fn each_kind_of_change_is_told_and_nothing_else() {
        type Act = fn(&Path);
        let changes: [(&str, Act); 6] = [
            ("written", |base| fs::write(base.join("a"), "longer").unwrap()),
            ("replaced", |base| {
                fs::write(base.join("new"), "1").unwrap();
                fs::rename(base.join("new"), base.join("a")).unwrap();
            }),
            ("removed", |base| fs::remove_file(base.join("a")).unwrap()),
            ("made", |base| fs::write(base.join("later"), "").unwrap()),
            ("swapped", |base| {
                fs::create_dir(base.join("two")).unwrap();
                fs::write(base.join("two/x"), "1").unwrap();
                symlink("two", base.join("data_tmp")).unwrap();
                fs::rename(base.join("data_tmp"), base.join("data")).unwrap();
            }),
            ("all", |base| fs::remove_dir_all(base).unwrap()),
        ];
        for (name, change) in changes {
            let (_directory, base) = directory();
            fs::write(base.join("a"), "1").unwrap();
            fs::create_dir(base.join("one")).unwrap();
            fs::write(base.join("one/x"), "1").unwrap();
            symlink("one", base.join("data")).unwrap();
            let ask = ask(&["a", "later", "data/x"].map(|file| base.join(file)));
            assert!(settled(&ask).is_none());
            fs::write(base.join("other"), "").unwrap();
            assert!(settled(&ask).is_none(), "{name}: another file");
            let waiting = thread::spawn(move || first_change(&ask));
            change(&base);
            let changed = waiting.join().unwrap();
            assert!(!changed.files.is_empty(), "{name}");
        }
    }
}
