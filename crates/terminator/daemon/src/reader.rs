//! The process that touches files for the supervisor: it reads the configuration and the files that
//! this names, and opens the log.
//!
//! A file system may stop answering, and then nothing ends the wait, not even a kill. The
//! supervisor therefore starts this process, with its own rights, for one task, and waits for its
//! answers with a deadline. A process that is stuck is left behind.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use config::{
    Diagnostic, Disk, FaultLocation, Files, LoadedConfiguration, LogOutput, Recorder, Settings,
    Severity, TypedConfiguration,
};
use import::{Import, ImportOutcome, Predecessor, SourceFiles};
use options::diagnostic::{Complaint, Problem, RawLocation};
use serde::{Deserialize, Serialize};
use sys::beneath::Root;
use sys::channel::Channel;
use sys::peer::Process;
use sys::signal::Signal;
use sys::usage::Usage;
use sys::{file, process, signal, usage};
use telemetry::printable;
use wire::address::{Address, UnixName};
use zeroize::Zeroizing;

use crate::acme_folder::{self, FoundAcme};
use crate::acme_hook::Hook;
use crate::handover::{Bundle, Secret, SessionKey, WorkerUser, decode, encode};
use crate::held_keys::{self, KeyGroup};
use crate::host_lack::{file_hint, is_lack};
use crate::kernel::KernelTls;
use crate::key_process;
use crate::messages;
use crate::preflight;
use crate::status_socket;
use crate::user;
use crate::watcher::{FileStamp, Stamps};

/// First argument of the program that makes it the reader.
pub(crate) const READER_ARGUMENT: &str = "--reader-process";

pub(crate) const READER_NAME: &str = "lariat: reader";

/// Time limit of one wait for the supervisor's end, which is noticed at once.
const SUPERVISOR_LOOK: Duration = Duration::from_secs(3600);

/// Mode of the log: it has addresses of clients, which others need not read.
const LOG_MODE: u32 = 0o640;

/// Origin of a configuration, from which each reload reads it again.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum ConfigSource {
    File(PathBuf),
    /// Flags of `lariat serve`: name without dashes, and value.
    Flags(Vec<(String, String)>),
    /// Command line of hitch.
    Hitch(Vec<String>),
}

impl ConfigSource {
    pub(crate) fn read(
        &self,
        files: &mut dyn Files,
    ) -> Result<TypedConfiguration, Vec<Diagnostic>> {
        match self {
            Self::File(path) => of_file(path, files),
            Self::Flags(flags) => Ok(TypedConfiguration::Flags(flags.clone())),
            Self::Hitch(words) => of_hitch(words, files),
        }
    }
}

/// Reads the source in a file, unless the file is another program's.
fn of_file(path: &Path, files: &mut dyn Files) -> Result<TypedConfiguration, Vec<Diagnostic>> {
    let read = TypedConfiguration::read(path, files);
    let kind = match &read {
        Ok(TypedConfiguration::File { text, .. }) => import::recognise(text),
        _ => import::recognise(&String::from_utf8_lossy(&files.read(path).unwrap_or_default())),
    };
    let is_ours =
        |source| !config::inspect(source, files).diagnostics.iter().any(Diagnostic::is_error);
    match kind {
        Some(kind) if !read.as_ref().is_ok_and(is_ours) => {
            let problem = Problem::new(format!("this is a configuration of {kind}"));
            let (word, path) = (kind.word(), path.display().to_string());
            let hint = match kind {
                Predecessor::Hitch => format!(
                    "`lariat import {word} {path} -o lariat.toml`, or `lariat hitch \
                     --config={path}` serves it as it is"
                ),
                _ => format!("lariat import {word} {path} -o lariat.toml"),
            };
            let complaint = Complaint::error(RawLocation::Nowhere, problem.hint(hint));
            Err(vec![complaint.at(Some((&path, "")))])
        }
        _ => read,
    }
}

/// Imports hitch's command line and the files that it names.
pub(crate) fn hitch_import(words: &[String], files: &mut dyn Files) -> Import {
    // The importer recognizes a command line by its first word.
    let words = [OPTIONS_FOLLOW.to_owned()].into_iter().chain(words.iter().cloned());
    let words: Vec<_> = words.map(PathBuf::from).collect();
    import::import(Predecessor::Hitch, &words, &mut ImportedFiles(files), &config::TABLE)
}

/// A switch that is off.
const OPTIONS_FOLLOW: &str = "--daemon=off";

/// Returns the source that hitch's command line means. Its status socket is beside its pid file, or
/// has the port in its name, so that several of them can run on a host.
fn of_hitch(
    words: &[String],
    files: &mut dyn Files,
) -> Result<TypedConfiguration, Vec<Diagnostic>> {
    let import = hitch_import(words, files);
    let refused =
        import.findings().iter().filter(|one| matches!(one.outcome, ImportOutcome::Fault { .. }));
    let faults = refused.chain(import.unknown()).filter_map(|one| match &one.outcome {
        ImportOutcome::Fault { why, remedy } | ImportOutcome::Unmapped { why, remedy } => {
            Some(Diagnostic {
                severity: Severity::Error,
                subject: Some(one.option.clone()),
                message: why.clone(),
                place: FaultLocation::File { path: one.place.to_string(), line: 0, column: 0 },
                excerpt: None,
                hint: Some(remedy.clone()),
            })
        }
        _ => None,
    });
    let faults: Vec<_> = faults.collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    let socket = match import.setting("pidfile") {
        Some(path) => PathBuf::from(format!("{path}.status")),
        None => {
            let address = import.first_address().unwrap_or_default();
            let port = address.rsplit(':').next().filter(|port| !port.contains('/'));
            let name = format!("hitch-{}.sock", port.unwrap_or("unix"));
            status_socket::default_path().with_file_name(name)
        }
    };
    let text = format!("{}\n[admin]\nstatus-socket = {socket:?}\n", import.toml());
    Ok(TypedConfiguration::of_text(config::MADE_OF_OTHERS, text))
}

/// Access of an importer to files, through the reader of configurations.
struct ImportedFiles<'f>(&'f mut dyn Files);

impl SourceFiles for ImportedFiles<'_> {
    fn read(&mut self, path: &Path) -> Result<String, String> {
        let bytes = self.0.read(path).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&mut self, directory: &Path) -> Result<Vec<PathBuf>, String> {
        self.0.list(directory).map_err(|error| error.to_string())
    }

    /// Reading the configuration reports faults of each file.
    fn exists(&mut self, _: &Path) -> bool {
        true
    }

    fn variable(&mut self, name: &str) -> Option<String> {
        self.0.variable(name)
    }
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Task {
    /// Read a configuration and all that it names; open its folders and its log.
    Read(ConfigSource),
    /// Open a log that has this path.
    OpenLog(PathBuf),
    Remove(Vec<PathBuf>),
    /// Store files in the folder of certificates obtained by ACME, each replacing its predecessor
    /// or not at all.
    Store(PathBuf, Vec<(PathBuf, Secret)>),
    /// Read a file of that folder.
    Load(PathBuf),
    /// Run a program.
    Hook(Hook),
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Reply {
    /// Beginning of a step, such as `reading /etc/lariat/site.pem`.
    Step(String),
    /// The step goes on: it uses the CPU, so no file system blocks it.
    Working,
    /// To `Read`: the bundle is the next message, and then come the keys that the worker process
    /// does not get ([`KeyGroup`]). The descriptors of the folders are sent along, and then the
    /// log's if it is a file.
    Read(Box<HostFindings>),
    /// To `Read`, before its outcome: stamps of the files and directories that were looked at,
    /// taken then.
    Looked(Stamps),
    /// To `OpenLog`: the log is sent along.
    Opened,
    /// To `Remove`: the files have been removed, as far as possible.
    Removed,
    /// To `Store`: the files are on the disk.
    Stored,
    /// To `Load`: bytes of the file.
    Loaded(Secret),
    /// To `Hook`: whether the program ended well, and its output.
    HookEnded(bool, String),
    Refused(Refusal),
}

/// Outcome of reading a valid configuration on this host.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct HostFindings {
    /// User that the worker process becomes; `None` = our own.
    pub(crate) become_user: Option<WorkerUser>,
    /// Kernel TLS of this host; `None` if the configuration does not ask for it.
    pub(crate) kernel_tls: Option<KernelTls>,
    /// Warnings that deserve a second look.
    pub(crate) concerns: Vec<Diagnostic>,
    /// Folders that services serve, each once, with their devices and inodes.
    pub(crate) folders: Vec<(PathBuf, [u64; 2])>,
    /// Contents of the folder of certificates obtained by ACME.
    pub(crate) acme: FoundAcme,
    /// Roots of the keys of notices, for each secret of the cluster: the bundle lacks them because
    /// worker processes receive it.
    pub(crate) notice_roots: Vec<SessionKey>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Refusal {
    /// The configuration is invalid on this host.
    Config(Vec<Diagnostic>),
    /// The host lacks something named, or packing failed: a sentence with its hint.
    Missing(String),
    /// The host temporarily lacks room or descriptors: a sentence with its hint.
    Lacking(String),
}

/// Does the one task of the supervisor at the other end of the standard input.
pub(crate) fn run() -> ExitCode {
    messages::end_of_helper(READER_NAME, work())
}

fn work() -> io::Result<()> {
    // The terminal and service managers signal every process; the supervisor ends this one.
    use Signal::{Hangup, Interrupt, Terminate, User1, User2};
    signal::ignore(&[Hangup, Interrupt, Terminate, User1, User2])?;
    // Keys pass through this process.
    usage::forbid_core_dumps()?;
    process::end_with_parent()?;
    process::set_name(READER_NAME)?;
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some((bytes, _)) = channel.receive()? else {
        return Ok(());
    };
    let task: Task = decode(&bytes).map_err(io::Error::other)?;
    if matches!(task, Task::Read(_) | Task::Hook(_)) {
        end_with_supervisor()?;
    }
    match task {
        Task::Read(config) => match read(&channel, &config) {
            Ok(read) => {
                let mut fds: Vec<_> = read.roots.iter().map(AsFd::as_fd).collect();
                fds.extend(read.log.as_ref().map(AsFd::as_fd));
                reply(&channel, &Reply::Read(Box::new(read.found)), &fds)?;
                channel.send(read.bundle.bytes(), &[])?;
                channel.send(encode(&read.keys).map_err(io::Error::other)?.bytes(), &[])
            }
            Err(refusal) => reply(&channel, &Reply::Refused(refusal), &[]),
        },
        Task::OpenLog(path) => match open_log(&channel, &path) {
            Ok(log) => reply(&channel, &Reply::Opened, &[log.as_fd()]),
            Err(refusal) => reply(&channel, &Reply::Refused(refusal), &[]),
        },
        Task::Remove(paths) => {
            for path in paths {
                let _ = file::remove(&path);
            }
            reply(&channel, &Reply::Removed, &[])
        }
        Task::Store(folder, files) => match acme_folder::store(&folder, &files) {
            Ok(()) => reply(&channel, &Reply::Stored, &[]),
            Err(why) => reply(&channel, &Reply::Refused(Refusal::Missing(why)), &[]),
        },
        Task::Load(path) => match fs::read(&path) {
            Ok(bytes) => reply(&channel, &Reply::Loaded(Secret::new(bytes)), &[]),
            Err(error) => {
                let why = format!("cannot read {}: {error}", path.display());
                reply(&channel, &Reply::Refused(Refusal::Missing(why)), &[])
            }
        },
        Task::Hook(hook) => {
            let (is_well, output) = hook.run();
            // The supervisor may be another program by now, which only waits for this process.
            let _ = reply(&channel, &Reply::HookEnded(is_well, output), &[]);
            Ok(())
        }
    }
}

/// Ends this process when the supervisor is gone, and with it the running program of an operator,
/// which the kernel's signal would leave behind. A supervisor that becomes another program, which
/// ends the channel, is not gone, and the operator's program ends by itself.
fn end_with_supervisor() -> io::Result<()> {
    // The supervisor lives: else the kernel's signal would have ended this process.
    let supervisor = Process::of(process::parent())?;
    let end = move || {
        while let Ok(false) = supervisor.has_ended_within(SUPERVISOR_LOOK) {}
        process::end_current_program();
        std::process::exit(0)
    };
    thread::Builder::new().name("supervisor".to_owned()).spawn(end)?;
    process::outlive_parent()
}

fn reply(channel: &Channel, reply: &Reply, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = encode(reply).map_err(io::Error::other)?;
    channel.send(bytes.bytes(), fds)
}

/// Announces a step that may take long. Without a supervisor this process ends.
fn announce(channel: &Channel, step: String) {
    let _ = reply(channel, &Reply::Step(step), &[]);
}

/// Outcome of reading a configuration, with its descriptors.
struct Read {
    found: HostFindings,
    roots: Vec<Root>,
    log: Option<OwnedFd>,
    bundle: Secret,
    keys: Vec<KeyGroup>,
}

/// Loads a configuration with all files that it names.
fn load(
    files: AnnouncingFiles<'_>,
    config: &ConfigSource,
) -> Result<(Bundle, LoadedConfiguration), Refusal> {
    let mut recorder = Recorder::new(files);
    let source = config.read(&mut *recorder.files());
    let source = source.map_err(Refusal::Config)?;
    let loaded = config::load(&source, &mut recorder).map_err(Refusal::Config)?;
    let recording = recorder.into_recording();
    Ok((Bundle { source, recording }, loaded))
}

/// Pause between two checks whether a step computes.
const PULSE: Duration = Duration::from_secs(1);

/// CPU time in that interval that shows a computation; the checks themselves take less.
const PULSE_CPU_MIN: Duration = Duration::from_millis(5);

/// Reports that steps go on while they compute: checks of ten thousand services take longer than
/// the deadline for a file system, on a host that has other work.
fn pulse(channel: &Channel, ended: &Receiver<()>) {
    let cpu_time = || Usage::default().cpu_time().unwrap_or_default();
    let mut before = cpu_time();
    while ended.recv_timeout(PULSE) == Err(RecvTimeoutError::Timeout) {
        let now = cpu_time();
        if now.saturating_sub(before) >= PULSE_CPU_MIN {
            let _ = reply(channel, &Reply::Working, &[]);
        }
        before = now;
    }
}

fn read(channel: &Channel, config: &ConfigSource) -> Result<Read, Refusal> {
    thread::scope(|scope| {
        let (goes_on, ended) = mpsc::channel();
        scope.spawn(move || pulse(channel, &ended));
        let read = read_steps(channel, config);
        drop(goes_on);
        read
    })
}

fn read_steps(channel: &Channel, config: &ConfigSource) -> Result<Read, Refusal> {
    let mut looked = Stamps::new();
    let files = AnnouncingFiles { channel, looked: &mut looked, disk: Disk };
    let loaded = load(files, config);
    // The stamps are useful whatever their contents.
    let _ = reply(channel, &Reply::Looked(looked), &[]);
    let (mut bundle, loaded) = loaded?;
    let settings = &loaded.settings;
    held_keys::take_out(settings, &mut bundle.recording);
    let source = &bundle.source;
    for directory in directories(settings) {
        announce(channel, format!("looking at {}", directory.display()));
        // Faults here are reported where the directory is needed.
        let _ = fs::metadata(directory);
    }
    preflight::check(source, settings).map_err(Refusal::Config)?;
    let become_user = user::choose(&settings.process).map_err(Refusal::Missing)?;
    let mut concerns =
        preflight::concerns(source, settings, Some(&user::of_worker(become_user.clone())));
    // Other notes are for `lariat check`.
    concerns.retain(|one| one.severity == Severity::Warning || preflight::is_of_limits(one));
    announce(channel, "trying the kernel's TLS".to_owned());
    let kernel_tls = KernelTls::try_for(settings);
    if let Some(kernel_tls) = &kernel_tls {
        let checked = kernel_tls.check(source, settings);
        checked.map_err(Refusal::Config)?;
    }
    let (folders, roots) = open_folders(settings)?;
    if !settings.acme.entries.is_empty() {
        announce(channel, format!("looking at {}", settings.acme.folder.display()));
    }
    let acme = acme_folder::look(&settings.acme).map_err(Refusal::Missing)?;
    let log = match &settings.control.log {
        LogOutput::File(path) => Some(open_log(channel, path)?),
        LogOutput::Daemon(_) | LogOutput::Stdout | LogOutput::Stderr => None,
    };
    let mut looked = Stamps::new();
    let mut files = AnnouncingFiles { channel, looked: &mut looked, disk: Disk };
    let keys = held_keys::grouped(held_keys::of(settings, &mut files));
    let mut keys = keys.map_err(Refusal::Missing)?;
    let confinement = key_process::fences_of_trial(settings, become_user.clone());
    let secrets = settings.cluster.iter().flat_map(|cluster| &cluster.secrets);
    let notice_roots = secrets.filter_map(|one| one.notices().copied().map(SessionKey)).collect();
    let announce_trial = |token: &str| announce(channel, format!("opening the keys in {token}"));
    let unopened = key_process::try_out(&keys, &confinement, announce_trial);
    for group in &mut keys {
        group.withhold_pins(&unopened).map_err(Refusal::Missing)?;
    }
    for unopened in unopened {
        if !unopened.is_optional {
            return Err(Refusal::Missing(unopened.why));
        }
        concerns.extend(preflight::closed_key(source, settings, &unopened));
    }
    announce(channel, "packing the configuration".to_owned());
    let bundle = encode(&bundle);
    Ok(Read {
        found: HostFindings { become_user, kernel_tls, concerns, folders, acme, notice_roots },
        roots,
        log,
        bundle: bundle
            .map_err(|error| Refusal::Missing(format!("cannot pack the configuration: {error}")))?,
        keys,
    })
}

/// Files of the host, each announced before it is touched.
struct AnnouncingFiles<'c> {
    channel: &'c Channel,
    looked: &'c mut Stamps,
    disk: Disk,
}

impl AnnouncingFiles<'_> {
    /// Announces a step on a path, and records the path's stamp before it.
    fn announce(&mut self, doing: &str, path: &Path) {
        let name = path.display().to_string();
        announce(self.channel, format!("{doing} {}", printable::line(&name)));
        if !self.looked.contains_key(path) {
            self.looked.insert(path.to_owned(), FileStamp::of(path));
        }
    }
}

impl Files for AnnouncingFiles<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.announce("reading", path);
        self.disk.read(path)
    }

    fn output_of(&mut self, words: &[String]) -> io::Result<Zeroizing<Vec<u8>>> {
        self.announce("running", Path::new(words.first().map_or("", String::as_str)));
        self.disk.output_of(words)
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.announce("listing", directory);
        self.disk.list(directory)
    }

    fn cpus(&mut self) -> Vec<u16> {
        self.disk.cpus()
    }

    fn parallelism(&mut self) -> usize {
        self.disk.parallelism()
    }

    fn variable(&mut self, name: &str) -> Option<String> {
        self.disk.variable(name)
    }
}

/// Returns the directories and folders that the supervisor or the worker process will use.
fn directories(settings: &Settings) -> Vec<PathBuf> {
    let services = &settings.data_plane.services;
    let folders = services.iter().filter_map(|service| service.back.folder());
    let folders = folders.map(Path::to_owned);
    let listen = services.iter().flat_map(|service| &service.front.listen);
    let sockets = listen.filter_map(|address| match address {
        Address::Unix(UnixName::Path(path)) => Some(path.clone()),
        Address::Unix(UnixName::Abstract(_)) | Address::Ip(_) | Address::Inherited(_) => None,
    });
    let log = match &settings.control.log {
        LogOutput::File(path) => Some(path.clone()),
        LogOutput::Daemon(_) | LogOutput::Stdout | LogOutput::Stderr => None,
    };
    let ours =
        [log, settings.process.pid_file.clone(), Some(status_socket::path(&settings.control))];
    let files = sockets.chain(ours.into_iter().flatten());
    let parents = files.filter_map(|file| file.parent().map(Path::to_owned));
    folders.chain(parents).collect()
}

/// Returns the folders that services serve, each once.
#[allow(
    clippy::type_complexity,
    reason = "two lists of which the first is said and the second is handed over"
)]
fn open_folders(settings: &Settings) -> Result<(Vec<(PathBuf, [u64; 2])>, Vec<Root>), Refusal> {
    let services = settings.data_plane.services.iter();
    let (mut folders, mut roots) = (Vec::new(), Vec::new());
    let mut known = HashSet::new();
    for folder in services.filter_map(|service| service.back.folder()) {
        if !known.insert(folder) {
            continue;
        }
        let failed = |error: io::Error| {
            let folder = folder.display();
            Refusal::Missing(format!(
                "cannot open the folder {folder}: {error}\nhint: name a folder that exists"
            ))
        };
        let root = Root::open(folder).map_err(failed)?;
        let identity = root.identity().map_err(failed)?;
        folders.push((folder.to_owned(), [identity.device, identity.inode]));
        roots.push(root);
    }
    Ok((folders, roots))
}

fn open_log(channel: &Channel, path: &Path) -> Result<OwnedFd, Refusal> {
    announce(channel, format!("opening the log {}", path.display()));
    let log = file::open_append(path, LOG_MODE).map_err(|error| {
        let (path, hint) = (path.display(), file_hint(&error));
        let sentence = format!("cannot open the log {path}: {error}\nhint: {hint}");
        if is_lack(&error) { Refusal::Lacking(sentence) } else { Refusal::Missing(sentence) }
    })?;
    Ok(log.into())
}
