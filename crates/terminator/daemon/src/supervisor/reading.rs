//! Having files read: a reader process for each task, heard with a deadline.
//!
//! Owns the reader's life and what its replies come to. A reader that a file system holds cannot
//! be ended; it is left behind with the thread that waits for it, and there are few of them.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

use sys::beneath::{Identity, Root};
use sys::channel::{self, Channel};
use sys::{process, usage};

use super::failure::Failure;
use super::inheritance::OpenFolder;
use super::prepared::{ConfigSummary, PreparedAcme, PreparedConfiguration};
use crate::handover::{Bundle, Secret, WorkerUser, decode, encode};
use crate::held_keys::KeyGroup;
use crate::messages;
use crate::reader::{HostFindings, READER_ARGUMENT, READER_NAME, Refusal, Reply, Task};
use crate::watcher::Stamps;
use config::Diagnostic;

/// A step, such as reading one file, that takes longer without using the CPU is not going to end
/// soon.
const STEP_TIME_MAX: Duration = Duration::from_secs(10);

/// All steps together. 100,000 certificates take twenty seconds of CPU, of which a busy host may
/// give us a tenth.
const READ_TIME_MAX: Duration = Duration::from_secs(300);

/// How long the end of a socket waits for its path to be removed.
const REMOVE_TIME_MAX: Duration = Duration::from_secs(2);

/// Readers at a time, those that are stuck included: each is a process.
const READERS_MAX: usize = 4;

/// Readers that run programs at a time, those included that only wait: each is two processes.
pub(super) const HOOK_PROCESSES_MAX: usize = 32;

/// How far the clocks of hosts may be apart that share a store and are no peers: as far as those of
/// peers by default.
const TIME_WINDOW: Duration = Duration::from_secs(30);

/// A configuration that was read, and what was opened for it.
pub(super) struct Read {
    pub(super) prepared: PreparedConfiguration,
    pub(super) warnings: Vec<Diagnostic>,
    pub(super) become_user: Option<WorkerUser>,
    pub(super) folders: Vec<OpenFolder>,
    /// `None` = the log is no file.
    pub(super) log: Option<OwnedFd>,
    /// Further descriptors that a program has handed on to itself.
    pub(super) others: Vec<OwnedFd>,
}

pub(super) enum ReaderResult {
    Read(Box<Read>),
    Log(OwnedFd),
    Removed,
    Stored,
    Loaded(Secret),
    /// Whether a program ended well, and what it has written.
    Hook(bool, String),
}

#[derive(Default)]
pub(super) struct RunningReaders {
    /// One more reference for each reader that has not been reaped.
    living: Arc<()>,
}

impl RunningReaders {
    /// Starts a task. `hear` is called from a thread, once, within [`READ_TIME_MAX`] and
    /// [`STEP_TIME_MAX`], also with the files that were looked at, as they were then; `None` =
    /// nobody knows them. Returns the reader's process number.
    pub(super) fn start(
        &self,
        task: &Task,
        hear: impl FnOnce(Result<ReaderResult, Failure>, Option<Stamps>) + Send + 'static,
    ) -> Result<u32, Failure> {
        let most = match task {
            Task::Hook(_) => HOOK_PROCESSES_MAX,
            _ => READERS_MAX,
        };
        if Arc::strong_count(&self.living) > most {
            return Err(Failure::ReadersStuck(most));
        }
        let living = Arc::clone(&self.living);
        let start = || -> io::Result<u32> {
            let (channel, theirs) = channel::pair()?;
            let channel = channel.with_send_timeout(STEP_TIME_MAX);
            let hook_time = match task {
                Task::Hook(hook) => hook.timeout,
                _ => Duration::ZERO,
            };
            channel.set_receive_timeout(STEP_TIME_MAX + hook_time)?;
            // The very file that this process was started from.
            let mut command = Command::new("/proc/self/exe");
            command.arg0(READER_NAME).arg(READER_ARGUMENT);
            command.envs([messages::form_variable()]);
            process::end_child_with_us(&mut command);
            let mut process = command.stdin(Stdio::from(theirs)).spawn()?;
            let pid = process.id();
            let bytes = encode(task).map_err(io::Error::other)?;
            let attend = move || {
                let mut looked = None;
                let done = outcome(&channel, bytes.bytes(), &mut looked);
                let has_ended = done.is_ok();
                let reap = move || {
                    // It fails only for one that has ended.
                    let _ = process.kill();
                    let _ = process.wait();
                    drop(living);
                };
                // One that is stuck cannot be waited for before others hear of it; the room of one
                // that has answered is free when they do.
                if has_ended {
                    reap();
                    hear(done, looked);
                } else {
                    hear(done, looked);
                    reap();
                }
            };
            let thread = thread::Builder::new().name("reader".to_owned());
            thread.spawn(attend).map(|_| pid)
        };
        start().map_err(Failure::host("start a process to read files"))
    }
}

/// Removes files, and waits for it, but not long.
pub(super) fn remove(paths: Vec<PathBuf>) {
    if paths.is_empty() {
        return;
    }
    let (sender, done) = mpsc::channel();
    let hear = move |done: Result<ReaderResult, Failure>, _| {
        let _ = sender.send(done.is_ok());
    };
    if RunningReaders::default().start(&Task::Remove(paths), hear).is_ok() {
        let _ = done.recv_timeout(REMOVE_TIME_MAX);
    }
}

fn outcome(
    channel: &Channel,
    task: &[u8],
    looked: &mut Option<Stamps>,
) -> Result<ReaderResult, Failure> {
    let begun = Instant::now();
    let mut step = "starting to read files".to_owned();
    let failed = |step: &str, error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut => Failure::Slow { step: step.to_owned(), time: STEP_TIME_MAX },
        _ => Failure::ReaderDied(step.to_owned()),
    };
    // What one that has died had said is still heard.
    let sent = channel.send(task, &[]);
    if let Err(error) = sent.map_err(|error| failed(&step, error))
        && matches!(error, Failure::Slow { .. })
    {
        return Err(error);
    }
    loop {
        let (bytes, fds) = next(channel).map_err(|error| failed(&step, error))?;
        let reply = decode(&bytes).map_err(|_| Failure::ReaderDied(step.clone()))?;
        match reply {
            Reply::Step(_) | Reply::Working if begun.elapsed() > READ_TIME_MAX => {
                let step = "reading the configuration".to_owned();
                return Err(Failure::Slow { step, time: READ_TIME_MAX });
            }
            Reply::Step(next) => step = next,
            Reply::Working => {}
            Reply::Looked(files) => *looked = Some(files),
            Reply::Read(found) => {
                let (bundle, _) = next(channel).map_err(|error| failed(&step, error))?;
                let (keys, _) = next(channel).map_err(|error| failed(&step, error))?;
                let (bundle, keys) = (Secret::new(bundle), Secret::new(keys));
                let groups = decode(keys.bytes());
                let keys = groups.map_err(|_| Failure::ReaderDied(step.clone()))?;
                let read = read(*found, fds, (bundle, keys))?;
                return Ok(ReaderResult::Read(Box::new(read)));
            }
            Reply::Opened => {
                let log = fds.into_iter().next();
                return log.map(ReaderResult::Log).ok_or_else(|| Failure::ReaderDied(step.clone()));
            }
            Reply::Removed => return Ok(ReaderResult::Removed),
            Reply::Stored => return Ok(ReaderResult::Stored),
            Reply::Loaded(text) => return Ok(ReaderResult::Loaded(text)),
            Reply::HookEnded(is_well, output) => return Ok(ReaderResult::Hook(is_well, output)),
            Reply::Refused(refusal) => return Err(refusal.into()),
        }
    }
}

fn next(channel: &Channel) -> io::Result<channel::Message> {
    let message = channel.receive()?;
    message.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Makes of a bundle what the supervisor must know of it: the same as the worker process does.
pub(super) fn read(
    found: HostFindings,
    fds: Vec<OwnedFd>,
    (bundle, keys): (Secret, Vec<KeyGroup>),
) -> Result<Read, Failure> {
    let unpack = |error| Failure::host("unpack the configuration")(io::Error::other(error));
    let Bundle { source, mut recording } = decode(bundle.bytes()).map_err(unpack)?;
    let loaded = config::load(&source, &mut recording).map_err(Failure::Config)?;
    let settings = &loaded.settings;
    let peers = settings.cluster.as_ref().and_then(|cluster| cluster.peers.as_ref());
    let acme = PreparedAcme {
        options: settings.acme.clone(),
        found: found.acme,
        notice_roots: found.notice_roots,
        time_window: peers.map_or(TIME_WINDOW, |peers| peers.mesh.time_window),
    };
    let summary = ConfigSummary::of(loaded.settings, found.kernel_tls);
    drop((source, recording));
    // The recording and the settings, which hold every file.
    usage::return_freed();
    let mut fds = fds.into_iter();
    // The folders' descriptors come first.
    let opened = found.folders.into_iter().zip(fds.by_ref());
    let folders = opened.map(|((folder, [device, inode]), fd)| OpenFolder {
        folder,
        root: Root::from(fd),
        identity: Identity { device, inode },
    });
    Ok(Read {
        folders: folders.collect(),
        log: fds.next(),
        others: fds.collect(),
        prepared: PreparedConfiguration { summary, bundle, acme, keys },
        warnings: [loaded.warnings, found.concerns].concat(),
        become_user: found.become_user,
    })
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Config(diagnostics) => Self::Config(diagnostics),
            Refusal::Missing(sentence) => Self::Missing(sentence),
            Refusal::Lacking(sentence) => Self::Lacking(sentence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of a reader that says this and then nothing; it goes if `ends`.
    fn outcome_of(replies: &[Reply], ends: bool) -> Result<ReaderResult, Failure> {
        let (ours, theirs) = channel::pair().unwrap();
        ours.set_receive_timeout(Duration::from_millis(1)).unwrap();
        let theirs = Channel::from(theirs);
        for reply in replies {
            theirs.send(encode(reply).unwrap().bytes(), &[]).unwrap();
        }
        // Kept until the end unless it is to go.
        let kept = (!ends).then_some(theirs);
        let outcome = outcome(&ours, b"", &mut None);
        drop(kept);
        outcome
    }

    fn failure_of(replies: &[Reply], ends: bool) -> String {
        let Err(failure) = outcome_of(replies, ends) else {
            panic!("it has not failed");
        };
        failure.to_string()
    }

    #[test]
    fn a_reader_that_is_stuck_is_given_up_and_the_path_named() {
        let steps = ["reading /a.toml", "reading /mnt/x.pem"];
        let [first, second] = steps.map(|step| Reply::Step(step.to_owned()));
        let said = failure_of(&[first, Reply::Working, second, Reply::Working], false);
        assert!(said.starts_with("reading /mnt/x.pem took more than 10 s"), "{said}");
        assert!(said.contains("\nhint: "), "{said}");
    }

    #[test]
    fn a_reader_that_dies_or_talks_nonsense_says_no_more_than_that() {
        let step = || Reply::Step("reading /a.toml".to_owned());
        let said = failure_of(&[step()], true);
        assert!(said.contains("while reading /a.toml"), "{said}");
        let (ours, theirs) = channel::pair().unwrap();
        Channel::from(theirs).send(&[0xff; 9], &[]).unwrap();
        assert!(matches!(outcome(&ours, b"", &mut None), Err(Failure::ReaderDied(_))));
        // A log without a descriptor.
        assert!(failure_of(&[step(), Reply::Opened], false).contains("/a.toml"));
    }

    #[test]
    fn stuck_readers_are_few() {
        let readers = RunningReaders::default();
        let _stuck: Vec<_> = (0..READERS_MAX).map(|_| Arc::clone(&readers.living)).collect();
        let refused = readers.start(&Task::Remove(Vec::new()), |_, _| {}).unwrap_err();
        assert!(matches!(refused, Failure::ReadersStuck(READERS_MAX)));
    }
}
