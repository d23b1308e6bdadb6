//! Whether the host has what a configuration needs: users, groups, directories, and the rights of
//! the installed unit of systemd.
//!
//! Looks and changes nothing; sockets and rights are tried only when serving. `lariat check` is not
//! run by the unit, whose rights it cannot see in its own process: it reads the unit's files.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use config::{
    AcmeChallenge, AcmeEntry, Diagnostic, LogDaemon, LogOutput, PeerNetwork, Problem, Settings,
    Severity, TypedConfiguration,
};
use proxy::options::{ServiceOptions, SourceAddress};
use sys::beneath::Root;
use sys::socket::has_interface;
use sys::{file, log_socket, process, usage};
use wire::address::{Address, Endpoint, UnixName};

use crate::handover::{User, WorkerUser};
use crate::held_keys::UnopenedKey;
use crate::{acme_folder, status_socket};

/// The remedy where the file of `process.key-log` cannot be written.
pub(crate) const KEY_LOG_HINT: &str =
    "it must be a file of the supervisor's user that nobody else may read, or none";

/// Something that is not there: the key that asks for it, what is wrong, and the remedy.
type Missing = (String, String, &'static str);

/// Whether the users, groups and directories that a configuration names are there.
///
/// # Errors
/// Each that is not there, where it was written.
pub(crate) fn check(
    source: &TypedConfiguration,
    settings: &Settings,
) -> Result<(), Vec<Diagnostic>> {
    let faults = diagnostics(source, Severity::Error, missing(settings));
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// The files that serving makes or writes to, as far as this user may not: who serves may be
/// another, and tries it.
pub(crate) fn unwritable(source: &TypedConfiguration, settings: &Settings) -> Vec<Diagnostic> {
    let found = own_files(settings)
        .filter(|(key, path)| missing_directory(key, path).is_none())
        .filter_map(|(key, path)| unwritable_file(key, path));
    diagnostics(source, Severity::Error, found.collect())
}

/// The file of the log is opened as it is, if there is one; the others take another's place.
fn unwritable_file(key: &'static str, path: &Path) -> Option<Missing> {
    let directory = directory_of(path);
    let (shown, tried) = match path.try_exists() {
        Ok(true) if key == LOG_OUTPUT => (path, process::may_write_file(path)),
        _ => (directory, process::may_write(directory)),
    };
    let error = tried.err()?;
    let message = format!("{} cannot be written to: {error}", shown.display());
    Some((key.to_owned(), message, "let the user who starts lariat write there, or name another"))
}

/// Warnings about things that exist but are of no use to `reader`, the user of the worker process;
/// `None` = that user is not known.
pub(crate) fn concerns(
    source: &TypedConfiguration,
    settings: &Settings,
    reader: Option<&WorkerUser>,
) -> Vec<Diagnostic> {
    let concern = |(key, path): (String, &Path)| concern_of_folder(key, path, reader?);
    let folders = folders(settings).filter_map(concern);
    let sockets = sockets(settings).filter_map(|(key, path)| concern_of_socket(key, path, reader?));
    let others = log_daemons(settings).into_iter().chain(key_log(settings));
    let concerns: Vec<_> = folders.chain(sockets).chain(others).collect();
    let mut warnings = diagnostics(source, Severity::Warning, concerns);
    warnings.extend(scarce(source, settings));
    warnings.extend(orders(source, settings));
    warnings.extend(unit_concern(source, settings));
    warnings
}

/// Notes of what would be ordered by ACME. No authority is asked.
fn orders(source: &TypedConfiguration, settings: &Settings) -> Vec<Diagnostic> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let note = |entry: &AcmeEntry| {
        let services = &settings.data_plane.services;
        let place = services.iter().position(|one| one.name == entry.service).unwrap_or(0);
        let proof = match &entry.challenge {
            AcmeChallenge::TlsAlpn => "tls-alpn-01".to_owned(),
            AcmeChallenge::Http => "http-01".to_owned(),
            AcmeChallenge::Dns { hook, .. } => format!("dns-01 through {}", hook.display()),
        };
        let served = acme_folder::certificates(&settings.acme.folder, entry);
        let first = served.iter().map(|one| one.not_after).min();
        let when = match first.filter(|_| served.len() == entry.keys.len()) {
            Some(end) if end > now => format!(
                "there is one for {} days, renewed when the authority says so or a third of its \
                 life is left",
                (end - now) / 86_400
            ),
            _ => "it is ordered at the start".to_owned(),
        };
        let message = format!(
            "asks {} for {} with {}, proven by {proof}: {when}",
            entry.directory,
            entry.domains.join(", "),
            entry.keys.join(" and ")
        );
        let key = format!("service.{place}.front.tls.acme");
        (Severity::Note, key, Problem::new(message))
    };
    config::diagnose_all(source, settings.acme.entries.iter().map(note))
}

/// Problems with the sockets of log daemons. A daemon that is away may still start, so this is no
/// fault.
fn log_daemons(settings: &Settings) -> Vec<Missing> {
    let control = &settings.control;
    let of_lines = match &control.log {
        LogOutput::Daemon(daemon) => Some(("log.output", daemon)),
        LogOutput::File(_) | LogOutput::Stderr | LogOutput::Stdout => None,
    };
    let of_messages = control.messages_daemon.as_ref();
    let of_messages = of_messages.map(|daemon| ("log.messages-output", daemon));
    let mut outputs = vec![of_lines, of_messages];
    // One socket is one concern.
    outputs.dedup_by_key(|output| output.map(|(_, daemon)| daemon));
    let outputs = outputs.into_iter().flatten();
    outputs.filter_map(|(key, daemon)| log_daemon(key, daemon)).collect()
}

/// A problem with the file of secrets, which are dropped then.
fn key_log(settings: &Settings) -> Option<Missing> {
    let path = &settings.process.key_log.as_ref()?.path;
    let error = file::may_append_privately(path).err()?;
    let message = format!("cannot write {}, and no secret will be there: {error}", path.display());
    Some(("process.key-log.path".to_owned(), message, KEY_LOG_HINT))
}

fn log_daemon(key: &str, daemon: &LogDaemon) -> Option<Missing> {
    let (_, connected) = log_socket::open(&daemon.address()).ok()?;
    let (message, hint) = match (connected, daemon) {
        (Err(error), LogDaemon::Syslog { .. }) => (
            format!("{daemon} takes no entry now: {error}"),
            "start the daemon, or say in `log.syslog` where its datagram socket is",
        ),
        (Err(error), LogDaemon::Journal(_)) => (
            format!("{daemon} takes no entry now: {error}"),
            "without systemd there is no journal; `log.journald` says where its socket is",
        ),
        (Ok(()), LogDaemon::Syslog { address, .. }) if is_journald(address) => (
            format!("{daemon} is journald, which does not read RFC 5424: fields stay in the text"),
            "write \"journald\" in place of \"syslog\"; from there, entries may go on to syslog",
        ),
        (Ok(()), _) => return None,
    };
    Some((key.to_owned(), message, hint))
}

/// Whether a socket for syslog is the journal's.
fn is_journald(address: &Address) -> bool {
    let Address::Unix(UnixName::Path(path)) = address else {
        return false;
    };
    let path = fs::canonicalize(path).unwrap_or_default();
    path.ends_with("systemd/journal/dev-log")
}

/// A key in a token that cannot be opened, told where its certificate is named.
pub(crate) fn closed_key(
    source: &TypedConfiguration,
    settings: &Settings,
    closed: &UnopenedKey,
) -> Vec<Diagnostic> {
    let is_of = |service: &ServiceOptions| {
        let front = service.front.terminated();
        front.is_some_and(|tls| tls.certificates.iter().any(|one| one.place == closed.place))
    };
    let key = match settings.data_plane.services.iter().position(is_of) {
        Some(service) => config::key_of_certificate(source, service, Path::new(&closed.place)),
        None => "service".to_owned(),
    };
    let why = if closed.is_optional {
        format!("handshakes with its certificate fail until it opens: {}", closed.why)
    } else {
        closed.why.clone()
    };
    let (message, hint) = why.split_once("\nhint: ").unwrap_or((&why, ""));
    let problem = Problem::new(message);
    let problem = if hint.is_empty() { problem } else { problem.hint(hint) };
    let severity = if closed.is_optional { Severity::Warning } else { Severity::Error };
    config::diagnose(source, severity, &key, problem)
}

fn diagnostics(
    source: &TypedConfiguration,
    severity: Severity,
    missing: Vec<Missing>,
) -> Vec<Diagnostic> {
    let missing = missing.into_iter();
    let found =
        missing.map(|(key, message, hint)| (severity, key, Problem::new(message).hint(hint)));
    config::diagnose_all(source, found)
}

fn missing(settings: &Settings) -> Vec<Missing> {
    let process = &settings.process;
    let checks = [
        process.user.as_deref().and_then(missing_user),
        process.groups.iter().find_map(|group| missing_group(group)),
    ];
    let files = own_files(settings).filter_map(|(key, path)| missing_directory(key, path));
    let folders = folders(settings).filter_map(|(key, path)| missing_folder(key, path));
    let interfaces = settings.data_plane.services.iter().enumerate();
    let interfaces = interfaces.filter_map(|(index, service)| {
        let name = service.front.transport.interface.as_deref()?;
        let key = format!("service.{index}.front.interface");
        missing_interface(key, name)
    });
    let acme = (!settings.acme.entries.is_empty()).then_some(&settings.acme.folder);
    let acme = acme.and_then(|folder| acme_folder::fault(folder));
    let acme = acme.map(|(message, hint)| ("acme.folder".to_owned(), message, hint));
    let acme = acme.into_iter().chain(settings.acme.entries.iter().filter_map(|entry| {
        let services = &settings.data_plane.services;
        missing_hook(services.iter().position(|one| one.name == entry.service)?, entry)
    }));
    let checks = checks.into_iter().flatten().chain(files).chain(group_interface(settings));
    let checks = checks.chain(acme);
    checks.chain(folders).chain(interfaces).collect()
}

const LOG_OUTPUT: &str = "log.output";

/// The files that serving makes, each with its key.
fn own_files(settings: &Settings) -> impl Iterator<Item = (&'static str, &Path)> {
    let log = match &settings.control.log {
        LogOutput::File(path) => Some(path),
        LogOutput::Daemon(_) | LogOutput::Stderr | LogOutput::Stdout => None,
    };
    let status_socket = settings.control.status_socket.as_ref();
    // The directory of the usual place is made.
    let status_socket =
        status_socket.filter(|path| path.parent() != status_socket::default_path().parent());
    let files = [
        (LOG_OUTPUT, log),
        ("process.pid-file", settings.process.pid_file.as_ref()),
        ("admin.status-socket", status_socket),
    ];
    files.into_iter().filter_map(|(key, path)| Some((key, path?.as_path())))
}

/// The interface of the cluster's multicast group, if it is missing.
fn group_interface(settings: &Settings) -> Option<Missing> {
    let peers = settings.cluster.as_ref()?.peers.as_ref()?;
    match &peers.network {
        PeerNetwork::Multicast { interface, .. } => {
            let key = "cluster.peers.multicast.interface".to_owned();
            missing_interface(key, interface.as_deref()?)
        }
        PeerNetwork::Unicast { .. } => None,
    }
}

/// The program of a service that changes the DNS, if it cannot be run.
fn missing_hook(service: usize, entry: &AcmeEntry) -> Option<Missing> {
    let AcmeChallenge::Dns { hook, .. } = &entry.challenge else {
        return None;
    };
    let key = format!("service.{service}.front.tls.acme.challenge.dns");
    let shown = hook.display();
    let message = match fs::metadata(hook) {
        Ok(found) if found.is_file() && found.mode() & 0o111 != 0 => return None,
        Ok(_) => format!("{shown} is no program: nobody may execute it"),
        Err(error) => format!("cannot run {shown}: {error}"),
    };
    Some((key, message, "name a program that can be executed"))
}

fn missing_interface(key: String, name: &str) -> Option<Missing> {
    // Serving tells whether there is one, if nothing can be asked here.
    let is_there = has_interface(name).unwrap_or(true);
    let message = format!("there is no network interface {name}");
    (!is_there).then_some((key, message, "`ip link` lists those of this host"))
}

/// The folders of files, each with its key.
fn folders(settings: &Settings) -> impl Iterator<Item = (String, &Path)> {
    let services = settings.data_plane.services.iter().enumerate();
    services.filter_map(|(index, service)| {
        let key = format!("service.{index}.back.files.root");
        Some((key, service.back.folder()?))
    })
}

fn missing_folder(key: String, path: &Path) -> Option<Missing> {
    let error = Root::open(path).err()?;
    let shown = path.display();
    let (message, hint) = match error.kind() {
        ErrorKind::NotFound => (format!("there is no folder {shown}"), "name one that exists"),
        ErrorKind::NotADirectory => {
            (format!("{shown} is no folder"), "name the folder that the files are in")
        }
        ErrorKind::Unsupported => (
            "this kernel cannot keep paths within a folder".to_owned(),
            "Linux 5.6 can (openat2); a container must be allowed to make that call",
        ),
        _ => (
            format!("the folder {shown} cannot be opened: {error}"),
            "the user who starts lariat must be able to reach it",
        ),
    };
    Some((key, message, hint))
}

/// The descriptors of a connection: the client's socket and the server's. Further dials that race
/// with its own, and pipes, are not counted: they come out of the lower half of all descriptors
/// alone, and go back in moments.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;

/// Listeners come with each plan, and the worker process keeps room for those of two more.
const PLANS_OF_LISTENERS: u64 = 3;

/// Descriptors that the process has open beside connections and listeners: its log, its channels,
/// its event loops, and files that it serves.
const DESCRIPTORS_OF_ITSELF: u64 = 64;

/// Memory that the process takes beside connections and the cache: plans, certificates, code.
const MEMORY_OF_ITSELF: u64 = 64 << 20;

const CONNECTIONS: &str = "limits.connections";

/// Whether a diagnostic says that the host allows less than connections may take: who starts hears
/// of it, even where nobody wrote their number.
pub(crate) fn is_of_limits(one: &Diagnostic) -> bool {
    one.subject.as_deref() == Some(CONNECTIONS)
}

/// Diagnostics where the host allows less memory or fewer descriptors than connections take at
/// worst: warnings if their number is written, else notes, because the default may never be
/// reached.
fn scarce(source: &TypedConfiguration, settings: &Settings) -> Vec<Diagnostic> {
    let connections = settings.data_plane.limits.connections;
    let mib = |bytes: u64| format!("{} MiB of memory", bytes >> 20);
    let descriptors = |count: u64| format!("{count} file descriptors");
    let (memory, files) = (memory_needed(settings), descriptors_needed(settings));
    let (has_memory, has_files) = (usage::memory(), usage::descriptors().hard);
    type InWords<'a> = &'a dyn Fn(u64) -> String;
    let rows = [
        (
            files,
            has_files,
            &descriptors as InWords<'_>,
            "raise the limit (`LimitNOFILE=` of systemd, `ulimit -Hn`), or write fewer \
             connections: a client for whom no descriptor is left is reset (`descriptor-limit`), \
             or takes that of a silent connection (`displaced`)",
        ),
        (
            memory,
            has_memory,
            &mib as InWords<'_>,
            "raise the limit (`MemoryMax=` of systemd, that of the container), or write fewer \
             connections: beyond it the worker process is killed",
        ),
    ];
    let severity =
        if config::is_written(source, CONNECTIONS) { Severity::Warning } else { Severity::Note };
    let each = rows.into_iter().filter_map(|(needed, has, text, hint)| {
        let has = has.filter(|has| *has < needed)?;
        let problem = Problem::new(format!(
            "allows {connections} connections, which take {}, and this process may have {}",
            text(needed),
            text(has)
        ));
        Some(config::diagnose(source, severity, CONNECTIONS, problem.hint(hint)))
    });
    each.flatten().collect()
}

/// The file descriptors that all connections together with the listeners take.
pub(crate) fn descriptors_needed(settings: &Settings) -> u64 {
    let data_plane = &settings.data_plane;
    let listeners = data_plane.services.iter().map(|one| one.front.listen.len());
    let listeners = (listeners.sum::<usize>() * data_plane.workers.cpus.len()) as u64;
    let connections = u64::from(data_plane.limits.connections) * DESCRIPTORS_PER_CONNECTION;
    connections + listeners * PLANS_OF_LISTENERS + DESCRIPTORS_OF_ITSELF
}

/// The memory that a configuration may come to take.
pub(crate) fn memory_needed(settings: &Settings) -> u64 {
    let cache = settings.sessions.bytes_max as u64;
    settings.data_plane.memory_bytes_max() + cache + MEMORY_OF_ITSELF
}

/// The folder's own permissions are looked at; those of what is in it are seen request by request.
fn concern_of_folder(key: String, path: &Path, reader: &WorkerUser) -> Option<Missing> {
    let may_enter = may(&fs::metadata(path).ok()?, reader, SEARCH);
    let User { user, group } = reader.user;
    let message = format!(
        "the worker process, user {user} and group {group}, may not look into {}",
        path.display()
    );
    let hint = "`chmod o+rx` lets it; [process] user says who it is";
    (!may_enter).then_some((key, message, hint))
}

/// The servers at Unix sockets, each with the key of its service's list.
fn sockets(settings: &Settings) -> impl Iterator<Item = (String, &Path)> {
    let services = settings.data_plane.services.iter().enumerate();
    services.flat_map(|(index, service)| {
        let servers = service.back.server_list().iter();
        let paths = servers.filter_map(|server| match &server.endpoint {
            Endpoint::Address(Address::Unix(UnixName::Path(path))) => Some(path.as_path()),
            _ => None,
        });
        paths.map(move |path| (format!("service.{index}.back.servers"), path))
    })
}

/// A server that is not there yet may still come.
fn concern_of_socket(key: String, path: &Path, worker: &WorkerUser) -> Option<Missing> {
    let meta = fs::metadata(path).ok()?;
    let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let closed =
        folders.filter(|folder| fs::metadata(folder).is_ok_and(|meta| !may(&meta, worker, SEARCH)));
    let closed = match (may(&meta, worker, WRITE), closed.last()) {
        (_, Some(folder)) => folder.display().to_string(),
        (false, None) => "its mode".to_owned(),
        (true, None) => return None,
    };
    let User { user, group } = worker.user;
    let message = format!(
        "the worker process, user {user} and group {group}, may not connect to {}: {closed} keeps \
         it out",
        path.display()
    );
    let hint = "give it the group that the socket has (`process.group`), or open the socket to it";
    Some((key, message, hint))
}

const SEARCH: u32 = 1;
const WRITE: u32 = 2;

/// Whether a user may do that with what has these facts, by its mode.
fn may(meta: &fs::Metadata, who: &WorkerUser, right: u32) -> bool {
    let is_of_group = meta.gid() == who.user.group || who.further_groups.contains(&meta.gid());
    let shift = match (meta.uid() == who.user.user, is_of_group) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    who.user.user == 0 || meta.mode() >> shift & right != 0
}

fn missing_user(name: &str) -> Option<Missing> {
    let is_there = matches!(process::lookup_user(name), Ok(Some(_)));
    let message = format!("there is no user `{name}`");
    let hint = "name one of /etc/passwd, or give a number";
    (!is_there).then(|| ("process.user".to_owned(), message, hint))
}

fn missing_group(name: &str) -> Option<Missing> {
    let is_there = matches!(process::lookup_group(name), Ok(Some(_)));
    let message = format!("there is no group `{name}`");
    let hint = "name one of /etc/group, or give a number";
    (!is_there).then(|| ("process.group".to_owned(), message, hint))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// A problem with the directory of a file that will be made. This only looks, and makes no file.
fn missing_directory(key: &'static str, path: &Path) -> Option<Missing> {
    let directory = directory_of(path);
    let shown = directory.display();
    let message = match fs::metadata(directory) {
        Ok(meta) if !meta.is_dir() => format!("{shown} is no directory"),
        Ok(_) if path.is_dir() => format!("{} is a directory", path.display()),
        Ok(_) => return None,
        Err(error) => format!("the directory {shown} cannot be used: {error}"),
    };
    let hint = "name a file in a directory that exists and is writable";
    Some((key.to_owned(), message, hint))
}

/// A right of the unit is stated in one of these: itself, or a drop-in, by packages or by hand.
const UNIT: &str = "usr/lib/systemd/system/lariat.service";
const DROP_INS: [&str; 2] =
    ["usr/lib/systemd/system/lariat.service.d", "etc/systemd/system/lariat.service.d"];

const RIGHT: &str = "CAP_NET_RAW";

const UNIT_HINT: &str = "for the service: install -D -t /etc/systemd/system/lariat.service.d \
                    /usr/share/lariat/systemd/client-source.conf && systemctl daemon-reload";

/// A note where the installed unit does not hold the right that `back.source = "client"` takes.
pub(crate) fn unit_concern(source: &TypedConfiguration, settings: &Settings) -> Vec<Diagnostic> {
    let mut services = settings.data_plane.services.iter();
    let is_foreign = services.position(|service| {
        let pool = service.back.servers();
        pool.is_some_and(|pool| matches!(pool.source, SourceAddress::Client))
    });
    let Some(service) = is_foreign.filter(|_| lacks_right(Path::new("/"))) else {
        return Vec::new();
    };
    let problem = Problem::new(format!("{UNIT} does not hold {RIGHT}, which this takes"));
    let key = format!("service.{service}.back.source");
    config::diagnose(source, Severity::Note, &key, problem.hint(UNIT_HINT))
}

/// Whether there is a unit below this root, and neither it nor a drop-in names the right.
fn lacks_right(root: &Path) -> bool {
    let names = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| line.starts_with("CapabilityBoundingSet=") && line.contains(RIGHT))
    };
    let drop_ins = DROP_INS.iter().filter_map(|folder| fs::read_dir(root.join(folder)).ok());
    let mut drop_ins = drop_ins.flatten().flatten().map(|entry| entry.path());
    let unit = root.join(UNIT);
    unit.exists() && !names(&unit) && !drop_ins.any(|path| names(&path))
}

#[cfg(test)]
mod tests {
    use testkit::directory::Directory;

    use super::*;

    fn message(path: &str) -> Option<String> {
        missing_directory("log.output", Path::new(path)).map(|(_, message, _)| message)
    }

    #[test]
    fn a_file_needs_a_directory() {
        assert_eq!(message("lariat.log"), None);
        assert_eq!(message("/dev/null"), None);
        let shown = message("/nonexistent/x.log").unwrap();
        assert!(shown.starts_with("the directory /nonexistent cannot be used: "), "{shown}");
        assert_eq!(message("/dev/null/x.log").unwrap(), "/dev/null is no directory");
        assert_eq!(message("/").unwrap(), "/ is a directory");
        assert_eq!(message("/dev").unwrap(), "/dev is a directory");
    }

    #[test]
    fn files_need_a_folder() {
        let message =
            |path| missing_folder("k".to_owned(), Path::new(path)).map(|missing| missing.1);
        assert_eq!(message("/dev"), None);
        assert_eq!(message("/nonexistent/x").unwrap(), "there is no folder /nonexistent/x");
        assert_eq!(message("/dev/null").unwrap(), "/dev/null is no folder");
    }

    #[test]
    fn a_folder_is_of_use_to_those_who_may_look_into_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = Directory::new();
        let path = directory.path();
        let meta = fs::metadata(path).unwrap();
        let (user, group) = (meta.uid(), meta.gid());
        let (stranger, other) = (user + 1, group + 1);
        let mut told = Vec::new();
        for mode in [0o700, 0o710, 0o701] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            let readers = [(user, other), (stranger, group), (stranger, other)];
            told.push(readers.map(|(user, group)| {
                let user = User { user, group };
                let reader = WorkerUser { user, further_groups: Vec::new() };
                concern_of_folder("k".to_owned(), path, &reader).is_some()
            }));
        }
        assert_eq!(told[0], [false, true, true]);
        assert_eq!(told[1], [false, false, true]);
        assert_eq!(told[2], [false, true, false]);
    }

    #[test]
    fn a_socket_is_of_use_to_those_who_may_write_to_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = Directory::new();
        let path = directory.join("app.sock");
        let worker = |further_groups| {
            let user = User { user: 4_000_000, group: 4_000_000 };
            WorkerUser { user, further_groups }
        };
        let told = |worker: &WorkerUser| concern_of_socket(String::new(), &path, worker).is_some();
        assert!(!told(&worker(Vec::new())), "it may still come");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let group = fs::metadata(&path).unwrap().gid();
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (folder, socket, of_others, of_group) in [
            (0o755, 0o666, false, false),
            (0o755, 0o660, true, false),
            (0o755, 0o600, true, true),
            (0o700, 0o666, true, true),
        ] {
            open(directory.path(), folder);
            open(&path, socket);
            let found = (told(&worker(Vec::new())), told(&worker(vec![group])));
            assert_eq!(found, (of_others, of_group), "{folder:o} {socket:o}");
        }
        open(directory.path(), 0o700);
    }

    #[test]
    fn a_log_daemon_is_looked_for() {
        let directory = Directory::new();
        let path = directory.join("log");
        let daemon = LogDaemon::Journal(path.clone());
        let (key, message, _) = log_daemon("log.output", &daemon).unwrap();
        assert_eq!(key, "log.output");
        assert!(message.ends_with("takes no entry now: No such file or directory (os error 2)"));
        let _socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        assert!(log_daemon("log.output", &daemon).is_none());
    }

    #[test]
    fn users_and_groups_are_looked_up() {
        assert!(missing_user("root").is_none());
        assert!(missing_group("0").is_none());
        assert_eq!(missing_user("no such user").unwrap().0, "process.user");
        assert_eq!(missing_group("no such group").unwrap().0, "process.group");
    }

    #[test]
    fn a_unit_without_the_right_lacks_it_until_a_drop_in_brings_it() {
        let directory = Directory::new();
        let root = directory.path();
        assert!(!lacks_right(root), "without a unit there is nothing to say");
        let pkg = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../pkg/systemd");
        let put = |from: &str, to: &Path| {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(pkg.join(from), to).unwrap();
        };
        put("lariat.service", &root.join(UNIT));
        assert!(lacks_right(root));
        put("client-source.conf", &root.join(DROP_INS[1]).join("client-source.conf"));
        assert!(!lacks_right(root));
    }
}
