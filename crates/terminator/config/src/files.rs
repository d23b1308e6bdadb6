//! The doors to the file system: the only place of this crate that opens something, and the
//! recording by which a process without rights repeats what another one read.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

/// What a configuration may ask of its host.
pub trait Files {
    /// The bytes of a file. A directory is an error of the kind `IsADirectory`.
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files of a directory, by path, sorted; directories in it are left out.
    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// The CPUs that this process may run on, ascending; at least one.
    fn cpus(&mut self) -> Vec<u16>;

    /// The bytes of the standard input.
    fn read_standard_input(&mut self) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether every user of the host can read a file: by its mode, and those of the directories
    /// that it lies in. `false` where that cannot be seen.
    fn is_open_to_all(&mut self, _path: &Path) -> bool {
        false
    }
}

/// The host's own file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// No certificate, bundle or revocation list is larger.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// All that there is to read, of which so many bytes are expected.
fn all_of(from: impl io::Read, expected: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    // All at once: a vector that grows leaves copies of what may be a key behind.
    let expected = expected.min(FILE_BYTES_MAX) as usize + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected));
    io::Read::read_to_end(&mut from.take(FILE_BYTES_MAX + 1), &mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

impl Files for Disk {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let file = sys::file::open_regular(path)?;
        let expected = file.metadata()?.len();
        all_of(file, expected).map(|mut bytes| std::mem::take(&mut *bytes))
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if !path.is_dir() {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn cpus(&mut self) -> Vec<u16> {
        sys::cpu::allowed_cpus()
    }

    fn read_standard_input(&mut self) -> io::Result<Vec<u8>> {
        all_of(io::stdin().lock(), 0).map(|mut bytes| std::mem::take(&mut *bytes))
    }

    fn is_open_to_all(&mut self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else {
            return false;
        };
        let mode = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.mode());
        let may_enter = |directory: &Path| mode(directory) & 0o001 != 0;
        mode(&path) & 0o004 != 0 && path.ancestors().skip(1).all(may_enter)
    }
}

/// Where hosts keep the authorities that they trust: Debian and Alpine, Fedora, SUSE, BSDs.
const HOST_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The host's bundle of authorities: its path and its bytes; `None` = it has none.
pub(crate) fn bundle_of_host(files: &mut dyn Files) -> Option<(String, Vec<u8>)> {
    HOST_BUNDLES.iter().find_map(|path| {
        let pem = files.read(Path::new(path)).ok()?;
        Some(((*path).to_owned(), pem))
    })
}

/// Hands through what another one reads, and remembers it.
#[derive(Debug)]
pub struct Recorder<F> {
    files: F,
    recording: Recording,
}

impl<F: Files> Recorder<F> {
    /// Begins with nothing read.
    pub fn new(files: F) -> Self {
        Self {
            files,
            recording: Recording::default(),
        }
    }

    /// Who reads, for what is not to be remembered.
    pub fn files(&mut self) -> &mut F {
        &mut self.files
    }

    /// All that was read.
    pub fn into_recording(self) -> Recording {
        self.recording
    }
}

impl<F: Files> Files for Recorder<F> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = self.files.read(path)?;
        self.recording.insert(path, bytes.clone());
        Ok(bytes)
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let paths = self.files.list(directory)?;
        let directory = directory.to_path_buf();
        self.recording.lists.insert(directory, paths.clone());
        Ok(paths)
    }

    fn cpus(&mut self) -> Vec<u16> {
        self.recording.cpus = self.files.cpus();
        self.recording.cpus.clone()
    }
}

/// Files in memory: what a recorder saw, or what a test puts in.
///
/// It holds private keys, so it shows nothing and is overwritten when it goes.
#[derive(Clone, Default, Deserialize, Serialize)]
pub struct Recording {
    files: BTreeMap<PathBuf, Vec<u8>>,
    lists: BTreeMap<PathBuf, Vec<PathBuf>>,
    cpus: Vec<u16>,
}

impl Recording {
    /// Adds a file.
    pub fn insert(&mut self, path: impl Into<PathBuf>, bytes: Vec<u8>) {
        if let Some(mut before) = self.files.insert(path.into(), bytes) {
            before.zeroize();
        }
    }

    /// Adds a directory with these files, which are added apart.
    pub fn insert_list(&mut self, directory: impl Into<PathBuf>, paths: Vec<PathBuf>) {
        self.lists.insert(directory.into(), paths);
    }
}

impl Files for Recording {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match self.files.get(path) {
            Some(bytes) => Ok(bytes.clone()),
            None if self.lists.contains_key(path) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let paths = self.lists.get(directory);
        paths.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn cpus(&mut self) -> Vec<u16> {
        if self.cpus.is_empty() {
            return vec![0];
        }
        self.cpus.clone()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.files.values_mut().for_each(Zeroize::zeroize);
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_repeats_what_was_read() {
        let mut origin = Recording::default();
        origin.insert("/a.pem", b"secret".to_vec());
        origin.insert_list("/d", vec!["/d/x.pem".into()]);
        let mut recorder = Recorder::new(origin);
        recorder.read(Path::new("/a.pem")).unwrap();
        recorder.list(Path::new("/d")).unwrap();
        let kind = |error: io::Error| error.kind();
        let read = |files: &mut Recording, path: &str| files.read(Path::new(path)).map_err(kind);

        let mut recording = recorder.into_recording();
        assert_eq!(read(&mut recording, "/a.pem").unwrap(), b"secret");
        assert_eq!(read(&mut recording, "/b.pem"), Err(io::ErrorKind::NotFound));
        assert_eq!(read(&mut recording, "/d"), Err(io::ErrorKind::IsADirectory));
        assert_eq!(
            recording.list(Path::new("/d")).unwrap(),
            [PathBuf::from("/d/x.pem")]
        );
    }

    #[test]
    fn debug_shows_no_byte() {
        let mut recording = Recording::default();
        recording.insert("/secret-name", b"secret".to_vec());
        assert_eq!(format!("{recording:?}"), "Recording { .. }");
    }

    #[test]
    fn the_disk_says_what_is_a_directory() {
        let error = Disk.read(Path::new("/")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
}
