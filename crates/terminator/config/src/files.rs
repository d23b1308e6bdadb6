//! Access to the host: the only module of this crate that opens something, and the recording by
//! which a process without rights repeats the reads of another.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{fmt, thread};

use serde::{Deserialize, Serialize};
use sys::process::ProgramTree;
use zeroize::{Zeroize, Zeroizing};

/// The host's files and properties that a configuration depends on.
pub trait Files {
    /// Reads a file. A directory is an error of the kind `IsADirectory`.
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;

    /// Lists the paths in a directory, sorted.
    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// Returns the CPUs that this process may run on, ascending; at least one.
    fn cpus(&mut self) -> Vec<u16>;

    /// Returns the number of threads that can run at once: the CPUs, or fewer by the quota of a
    /// control group; at least one.
    fn parallelism(&mut self) -> usize {
        self.cpus().len()
    }

    /// Reads the standard input.
    fn read_standard_input(&mut self) -> io::Result<Vec<u8>> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Returns an environment variable; `None` if it is not set, or not UTF-8.
    fn variable(&mut self, _name: &str) -> Option<String> {
        None
    }

    /// Forgets the bytes of a useless file, because nobody else needs them.
    fn forget(&mut self, _path: &Path) {}

    /// Replaces the recorded bytes of a file, for later readers of the recording.
    fn replace(&mut self, _path: &Path, _bytes: &[u8]) {}

    /// Returns the secret that a program writes to its standard output. The first word is its path.
    ///
    /// # Errors
    /// Fails if the program cannot be run, fails, writes more than 64 KiB, or takes more than 5 s,
    /// after which it and its descendants are killed.
    fn output_of(&mut self, _words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
        Err(ErrorKind::Unsupported.into())
    }

    /// Whether every user of the host can read a file, by its mode and those of the directories
    /// above it. `false` if that is unknown.
    fn is_open_to_all(&mut self, _path: &Path) -> bool {
        false
    }
}

/// The host's own file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

/// Maximum size of a file: no certificate, bundle or revocation list is larger.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Most entries of a folder of certificates: each certificate takes three, read at every reload.
const FOLDER_ENTRIES_MAX: usize = 200_000;

/// Reads to the end; about `expected` bytes are expected.
fn all_of(from: impl Read, expected: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    // Allocated at once, because a growing vector leaves copies of a possible key behind.
    let expected = expected.min(FILE_BYTES_MAX) as usize + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected));
    from.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ErrorKind::FileTooLarge.into());
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
            paths.push(entry?.path());
            if paths.len() > FOLDER_ENTRIES_MAX {
                let message = format!("it has more than {FOLDER_ENTRIES_MAX} entries");
                return Err(io::Error::other(message));
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn cpus(&mut self) -> Vec<u16> {
        sys::cpu::allowed_cpus()
    }

    fn parallelism(&mut self) -> usize {
        sys::cpu::parallelism()
    }

    fn read_standard_input(&mut self) -> io::Result<Vec<u8>> {
        all_of(io::stdin().lock(), 0).map(|mut bytes| std::mem::take(&mut *bytes))
    }

    fn variable(&mut self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn output_of(&mut self, words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
        output_of(words)
    }

    fn is_open_to_all(&mut self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        let mode = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.mode());
        let may_enter = |directory: &Path| mode(directory) & 0o001 != 0;
        mode(&path) & 0o004 != 0 && path.ancestors().skip(1).all(may_enter)
    }
}

/// Files with the authorities that a host trusts: Debian and Alpine, Fedora, SUSE, BSDs.
const HOST_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the path and bytes of the host's bundle of authorities; `None` if it has none.
pub(crate) fn bundle_of_host(files: &mut dyn Files) -> Option<(String, Vec<u8>)> {
    HOST_BUNDLES.iter().find_map(|path| {
        let pem = files.read(Path::new(path)).ok()?;
        Some(((*path).to_owned(), pem))
    })
}

/// Outputs of programs: each program runs once, though a faulty configuration is read more than
/// once, because a program that fails may have prompted a user.
#[derive(Default)]
pub(crate) struct ProgramOutputs(BTreeMap<Vec<String>, Result<Zeroizing<Vec<u8>>, String>>);

impl ProgramOutputs {
    pub(crate) fn of(
        &mut self,
        words: &[String],
        files: &mut dyn Files,
    ) -> io::Result<Zeroizing<Vec<u8>>> {
        let known = self.0.entry(words.to_vec());
        let output = known.or_insert_with(|| files.output_of(words).map_err(|why| why.to_string()));
        output.clone().map_err(io::Error::other)
    }
}

/// Passes on the reads of another [`Files`] and records them: a file that many services name is
/// read once, so that all of them get the same bytes.
#[derive(Debug)]
pub struct Recorder<F> {
    files: F,
    recording: Recording,
    /// Files whose recorded bytes differ from the bytes read.
    altered: BTreeSet<PathBuf>,
    /// Missing files, with the error number of the system.
    missing: BTreeMap<PathBuf, i32>,
}

impl<F: Files> Recorder<F> {
    pub fn new(files: F) -> Self {
        Self {
            files,
            recording: Recording::default(),
            altered: BTreeSet::new(),
            missing: BTreeMap::new(),
        }
    }

    /// Returns the underlying reader, for reads that must not be recorded.
    pub fn files(&mut self) -> &mut F {
        &mut self.files
    }

    pub fn into_recording(self) -> Recording {
        self.recording
    }
}

impl<F: Files> Files for Recorder<F> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        if let Some(number) = self.missing.get(path) {
            return Err(io::Error::from_raw_os_error(*number));
        }
        if let Some(bytes) = self.recording.files.get(path)
            && !self.altered.contains(path)
        {
            return Ok(bytes.clone());
        }
        match self.files.read(path) {
            Ok(bytes) => {
                self.recording.insert(path, bytes.clone());
                self.altered.remove(path);
                Ok(bytes)
            }
            Err(error) => {
                match (error.kind(), error.raw_os_error()) {
                    (ErrorKind::NotFound, Some(number)) => {
                        self.missing.insert(path.to_owned(), number);
                    }
                    (ErrorKind::NotFound | ErrorKind::IsADirectory, _) => {}
                    _ => {
                        let failures = &mut self.recording.failures;
                        failures.insert(path.to_owned(), error.to_string());
                    }
                }
                Err(error)
            }
        }
    }

    fn forget(&mut self, path: &Path) {
        self.replace(path, FORGOTTEN);
    }

    fn replace(&mut self, path: &Path, bytes: &[u8]) {
        self.recording.insert(path, bytes.to_vec());
        self.altered.insert(path.to_owned());
    }

    fn output_of(&mut self, words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
        self.files.output_of(words)
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        if let Some(paths) = self.recording.lists.get(directory) {
            return Ok(paths.clone());
        }
        let paths = self.files.list(directory)?;
        let directory = directory.to_path_buf();
        self.recording.lists.insert(directory, paths.clone());
        Ok(paths)
    }

    fn cpus(&mut self) -> Vec<u16> {
        self.recording.cpus = self.files.cpus();
        self.recording.cpus.clone()
    }

    fn parallelism(&mut self) -> usize {
        let parallelism = self.files.parallelism();
        self.recording.parallelism = Some(parallelism);
        parallelism
    }
}

/// Record of a useless file: a block that is neither certificate nor key.
const FORGOTTEN: &[u8] = b"-----BEGIN PARAMETERS-----\n-----END PARAMETERS-----\n";

/// Files in memory: recorded by a [`Recorder`], or inserted by a test.
///
/// Holds private keys, so `Debug` shows nothing and the memory is overwritten on drop.
#[derive(Clone, Default, Deserialize, Serialize)]
pub struct Recording {
    files: BTreeMap<PathBuf, Vec<u8>>,
    lists: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// Files that exist but could not be read, and why.
    failures: BTreeMap<PathBuf, String>,
    cpus: Vec<u16>,
    parallelism: Option<usize>,
    variables: BTreeMap<String, String>,
}

impl Recording {
    pub fn insert(&mut self, path: impl Into<PathBuf>, bytes: Vec<u8>) {
        if let Some(mut before) = self.files.insert(path.into(), bytes) {
            before.zeroize();
        }
    }

    /// Adds a directory with the paths of these files, whose bytes are added separately.
    pub fn insert_list(&mut self, directory: impl Into<PathBuf>, paths: Vec<PathBuf>) {
        self.lists.insert(directory.into(), paths);
    }

    /// Sets an environment variable.
    pub fn insert_variable(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Replaces each file for which `other` returns another text.
    pub fn replace_files(&mut self, mut other: impl FnMut(&[u8]) -> Option<Vec<u8>>) {
        for bytes in self.files.values_mut() {
            if let Some(other) = other(bytes) {
                bytes.zeroize();
                *bytes = other;
            }
        }
    }

    /// Sets the CPUs of the host, and how many threads of this process can run on them at once.
    pub fn insert_cpus(&mut self, cpus: Vec<u16>, parallelism: usize) {
        self.cpus = cpus;
        self.parallelism = Some(parallelism);
    }
}

impl Files for Recording {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match (self.files.get(path), self.failures.get(path)) {
            (Some(bytes), _) => Ok(bytes.clone()),
            (None, Some(why)) => Err(io::Error::other(why.clone())),
            _ if self.lists.contains_key(path) => Err(ErrorKind::IsADirectory.into()),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let paths = self.lists.get(directory);
        paths.cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn cpus(&mut self) -> Vec<u16> {
        if self.cpus.is_empty() {
            return vec![0];
        }
        self.cpus.clone()
    }

    fn parallelism(&mut self) -> usize {
        self.parallelism.unwrap_or_else(|| self.cpus().len())
    }

    fn variable(&mut self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
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

/// Deadline of a program: a reload waits, and the supervisor stops a reader's step after 10 s.
const DEADLINE: Duration = Duration::from_secs(5);

/// Time for which a program's leftover processes may hold its output open.
const LEFT_TIME_MAX: Duration = Duration::from_secs(1);

const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// Runs a program and returns its standard output; kills it and its descendants at the deadline.
/// Processes left behind by then, such as an agent, go on unless they hold the output open.
fn output_of(words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
    output_within(DEADLINE, words)
}

fn output_within(deadline: Duration, words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
    let (program, arguments) = words.split_first().ok_or(ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let (program_tree, mut child) = ProgramTree::start(&mut command)?;
    let stdout = child.stdout.take();
    let (read, written) = mpsc::channel();
    // Closed after the maximum, or a program that never stops writing would never end.
    let all_of = |stdout: ChildStdout| all_of(stdout.take(OUTPUT_BYTES_MAX + 1), OUTPUT_BYTES_MAX);
    thread::spawn(move || read.send(stdout.map_or(Ok(Zeroizing::default()), all_of)));
    let (ended, status) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait()));
    let late = || {
        program_tree.end();
        io::Error::other(format!("it took longer than {} s", deadline.as_secs()))
    };
    let status = status.recv_timeout(deadline).map_err(|_| late())??;
    let output = written.recv_timeout(LEFT_TIME_MAX).or_else(|_| {
        program_tree.end();
        written.recv_timeout(LEFT_TIME_MAX)
    });
    let output = output.map_err(|_| io::Error::other("its output is held open by another"))??;
    match output.len() as u64 {
        ..=OUTPUT_BYTES_MAX if status.success() => Ok(output),
        ..=OUTPUT_BYTES_MAX => Err(io::Error::other(format!("it ended with {status}"))),
        _ => Err(io::Error::other("it writes more than 64 KiB")),
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
        recorder.files().insert_cpus(vec![0, 1, 2], 2);
        assert_eq!((recorder.cpus().len(), recorder.parallelism()), (3, 2));
        let kind = |error: io::Error| error.kind();
        let read = |files: &mut Recording, path: &str| files.read(Path::new(path)).map_err(kind);

        let mut recording = recorder.into_recording();
        assert_eq!(read(&mut recording, "/a.pem").unwrap(), b"secret");
        assert_eq!((recording.cpus().len(), recording.parallelism()), (3, 2));
        assert_eq!(read(&mut recording, "/b.pem"), Err(ErrorKind::NotFound));
        assert_eq!(read(&mut recording, "/d"), Err(ErrorKind::IsADirectory));
        assert_eq!(recording.list(Path::new("/d")).unwrap(), [PathBuf::from("/d/x.pem")]);
    }

    /// Files that differ at each read, answered by its number.
    struct Counted(u8);

    impl Files for Counted {
        fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
            self.0 += 1;
            if path.ends_with("absent") {
                Disk.read(Path::new("/proc/self/absent"))
            } else {
                Ok(vec![self.0])
            }
        }

        fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
            self.0 += 1;
            Ok(vec![directory.join(self.0.to_string())])
        }

        fn cpus(&mut self) -> Vec<u16> {
            Vec::new()
        }
    }

    #[test]
    fn what_many_name_is_read_once_and_all_get_the_same() {
        let mut recorder = Recorder::new(Counted(0));
        let (file, absent, folder) = (Path::new("/a"), Path::new("/absent"), Path::new("/d"));
        let mut look = || {
            let error = recorder.read(absent).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            (recorder.read(file).unwrap(), recorder.list(folder).unwrap(), error.to_string())
        };
        assert_eq!(look(), look());
        assert_eq!(recorder.files().0, 3);
        // The recording gets the replacement; a second read gets the file.
        recorder.replace(file, b"opened");
        assert_eq!(recorder.read(file).unwrap(), [4]);
        recorder.replace(file, b"opened");
        assert_eq!(recorder.into_recording().read(file).unwrap(), b"opened");
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
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    }

    fn of(script: &str) -> Result<Vec<u8>, String> {
        within(DEADLINE, script)
    }

    fn within(deadline: Duration, script: &str) -> Result<Vec<u8>, String> {
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        output_within(deadline, &words)
            .map(|output| output.to_vec())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn programs_end_well_or_their_fault_is_named() {
        assert_eq!(of("printf secret"), Ok(b"secret".to_vec()));
        assert_eq!(of("printf secret; exit 3"), Err("it ended with exit status: 3".into()));
        assert_eq!(of("exec cat /dev/zero"), Err("it writes more than 64 KiB".into()));
        let missing = output_of(&["/no/such/program".to_owned()]).expect_err("no program");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    /// Runs a script with growing deadlines until it has written a pid; that process must be gone.
    fn leaves_nobody(deadline: Duration, script: &str) -> Result<Vec<u8>, String> {
        let directory = testkit::directory::Directory::new();
        let pid = directory.path().join("pid");
        let ended = within(deadline, &script.replace("PID", &pid.display().to_string()));
        let pid = std::fs::read_to_string(&pid).unwrap_or_default();
        if pid.is_empty() {
            assert!(deadline < Duration::from_secs(60), "{ended:?}");
            return leaves_nobody(2 * deadline, script);
        }
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        assert!(state.as_ref().map_or(true, |state| state.contains(") Z ")), "{state:?}");
        ended
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        for child in ["sleep 1000 & echo $! > PID;", "setsid sh -c 'echo $$ > PID; sleep 1000' &"] {
            let ended = leaves_nobody(Duration::from_secs(1), &format!("{child} wait"));
            let said = ended.expect_err("it hangs");
            assert!(said.starts_with("it took longer than "), "{said}");
        }
    }

    #[test]
    fn what_is_left_behind_with_the_output_holds_nobody_up() {
        let script = "setsid sh -c 'echo $$ > PID; exec sleep 1000' & printf secret; \
                      while [ ! -s PID ]; do :; done";
        assert_eq!(leaves_nobody(Duration::from_secs(60), script), Ok(b"secret".to_vec()));
    }
}
