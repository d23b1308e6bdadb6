//! `lariat check`: everything short of serving, and all that is wrong told at once; with `--bind`,
//! whether the addresses are free and ours to listen at, with `--host`, the limits of this host.

use std::collections::{BTreeSet, HashSet};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs, io};

use config::{
    Diagnostic, Disk, FaultLocation, PeerNetwork, Problem, Settings, Severity, TypedConfiguration,
};
use proxy::plan::{Inspection, Plan};
use serde::Serialize;
use sys::datagram::RECEIVE_BYTES;
use sys::socket::{Transport, check_free};
use sys::{process, usage};
use tls::resumption::{Resumption, ResumptionOptions};
use tls::server::{BuildError, BuildFault, WarningSubject};
use wire::address::{Address, UnixName};

use super::args::ConfigCheck;
use super::console::{Console, Exit, print};
use crate::kernel::KernelTls;
use crate::reader::ConfigSource;
use crate::supervisor::ListenFailure;
use crate::worker_process::tls_findings;
use crate::{held_keys, key_process, preflight, user};

pub(super) fn run(options: ConfigCheck, console: Console) -> Result<Exit, String> {
    let config = options.config.source()?;
    let findings = Findings::read(&config, options.bind);
    let exit = findings.exit(options.strict);
    if options.json {
        let limits = findings.limits.filter(|_| options.host);
        let good = exit == Exit::Success;
        print(json(&findings.diagnostics, good, limits));
        return Ok(exit);
    }
    console.diagnostics(&findings.diagnostics);
    let name = name(&config);
    match (&findings.summary, exit) {
        (Some(summary), Exit::Success) => {
            print(format_args!("{name}: good: {summary}\n{}", findings.note));
        }
        _ => console.say(format_args!("{name}: {}", findings.counts())),
    }
    for limit in findings.limits.into_iter().flatten().filter(|_| options.host) {
        print(format_args!("{limit}\n"));
    }
    Ok(exit)
}

/// Faults that keep a configuration from being served, as lines; `None` = nothing that is known.
pub(super) fn errors(config: &ConfigSource) -> Option<String> {
    let findings = Findings::read(config, false);
    let errors = findings.diagnostics.iter().filter(|one| one.is_error());
    let errors: Vec<_> = errors.map(Diagnostic::to_string).collect();
    (!errors.is_empty()).then(|| errors.join("\n"))
}

fn name(config: &ConfigSource) -> String {
    match config {
        ConfigSource::File(path) if path == Path::new(config::STANDARD_INPUT) => {
            "<stdin>".to_owned()
        }
        ConfigSource::File(path) => path.display().to_string(),
        ConfigSource::Flags(_) => "flags".to_owned(),
        ConfigSource::Hitch(_) => "hitch's options".to_owned(),
    }
}

/// Findings about a configuration.
struct Findings {
    diagnostics: Vec<Diagnostic>,
    /// Whether an address that would be listened at cannot be.
    is_taken: bool,
    /// A summary of what would be served; `None` = it cannot be told.
    summary: Option<String>,
    /// The kernel's part of TLS, if the configuration asks for it.
    note: String,
    /// The host's limits; `None` = the configuration could not be read.
    limits: Option<Vec<HostLimit>>,
}

impl Findings {
    fn of_nothing(diagnostics: Vec<Diagnostic>) -> Self {
        Self { diagnostics, is_taken: false, summary: None, note: String::new(), limits: None }
    }

    fn read(config: &ConfigSource, binds: bool) -> Self {
        match config.read(&mut Disk) {
            Ok(source) => Self::of(&source, binds),
            Err(diagnostics) => Self::of_nothing(diagnostics),
        }
    }

    fn of(source: &TypedConfiguration, binds: bool) -> Self {
        let inspected = config::inspect(source, &mut Disk);
        let mut findings = Self::of_nothing(inspected.diagnostics);
        if let Some(settings) = &inspected.settings {
            findings.summary = Some(summary(settings));
            findings.look_at_host(source, settings);
            findings.look_at_tls(source, settings);
            if binds {
                let refused = refusals(source, settings);
                findings.is_taken = !refused.is_empty();
                findings.diagnostics.extend(refused);
            }
        }
        findings.diagnostics.sort_by(|a, b| a.place.cmp(&b.place));
        findings
    }

    fn look_at_host(&mut self, source: &TypedConfiguration, settings: &Settings) {
        let missing = preflight::check(source, settings).err();
        self.diagnostics.extend(missing.into_iter().flatten());
        self.diagnostics.extend(preflight::unwritable(source, settings));
        // Who it will be that cannot be found out is told when serving.
        let reader = user::choose(&settings.process).ok();
        let reader = reader.map(user::of_worker);
        let mut concerns = preflight::concerns(source, settings, reader.as_ref());
        // A key that cannot be read has its default here, which nobody has written.
        concerns.retain(|one| {
            let is_same = |other: &&Diagnostic| other.is_error() && other.subject == one.subject;
            one.subject.is_none() || self.diagnostics.iter().find(is_same).is_none()
        });
        self.diagnostics.extend(concerns);
        self.diagnostics.extend(keys_that_do_not_open(source, settings));
        let kernel_tls = KernelTls::try_for(settings);
        self.limits = Some(limits(settings, kernel_tls.as_ref()));
        let Some(kernel_tls) = kernel_tls else {
            return;
        };
        let lacking = kernel_tls.check(source, settings).err();
        self.diagnostics.extend(lacking.into_iter().flatten());
        let services = 0..settings.data_plane.services.len();
        let mut keys = services.map(|number| format!("service.{number}.front.tls.ktls"));
        if config::is_any_written(source, &mut keys) {
            self.note = format!("kernel TLS: {kernel_tls}\n");
        }
    }

    /// Judges by the TLS library and the order of certificates.
    fn look_at_tls(&mut self, source: &TypedConfiguration, settings: &Settings) {
        let known = self.diagnostics.iter().map(|one| one.message.clone());
        let mut known: HashSet<String> = known.collect();
        // No session will ever be stored in it, so its secret may be known.
        let resumption = Arc::new(Resumption::new(&ResumptionOptions::new([0; 32])));
        for inspection in Plan::inspect(&settings.data_plane, &resumption) {
            // Files have been looked into where the configuration names them. Here a certificate
            // may lack its key for no fault but that of the key's file.
            let of_file = |error: &BuildError| matches!(error.fault, BuildFault::Certificate(_));
            if inspection.outcome.as_ref().is_err_and(of_file) {
                continue;
            }
            for found in diagnostics(source, &inspection) {
                if known.insert(found.message.clone()) {
                    self.diagnostics.push(found);
                }
            }
        }
    }

    fn count(&self, severity: Severity) -> usize {
        let all = self.diagnostics.iter();
        all.filter(|one| one.severity == severity).count()
    }

    fn counts(&self) -> String {
        [
            counted(self.count(Severity::Error), "error", "errors"),
            counted(self.count(Severity::Warning), "warning", "warnings"),
        ]
        .join(", ")
    }

    fn exit(&self, strict: bool) -> Exit {
        let errors = self.count(Severity::Error);
        match (errors, self.count(Severity::Warning)) {
            (0, 0) => Exit::Success,
            (0, _) if !strict => Exit::Success,
            _ if self.is_taken && errors == count_refused(&self.diagnostics) => Exit::Listen,
            _ => Exit::Usage,
        }
    }
}

/// Opens the keys in tokens; each that cannot be is told where its certificate is named.
fn keys_that_do_not_open(source: &TypedConfiguration, settings: &Settings) -> Vec<Diagnostic> {
    let become_user = user::choose(&settings.process).ok().flatten();
    let confinement = key_process::fences_of_trial(settings, become_user);
    match held_keys::grouped(held_keys::of(settings, &mut Disk)) {
        Ok(groups) => {
            let closed = key_process::try_out(&groups, &confinement, |_| {});
            closed.iter().flat_map(|one| preflight::closed_key(source, settings, one)).collect()
        }
        Err(why) => {
            let (message, hint) = why.split_once("\nhint: ").unwrap_or((&why, ""));
            let problem = Problem::new(message).hint(hint);
            config::diagnose(source, Severity::Error, "service", problem)
        }
    }
}

/// The diagnostics of the outcome for one side of a service.
fn diagnostics(source: &TypedConfiguration, inspection: &Inspection) -> Vec<Diagnostic> {
    let service = inspection.service;
    let warnings = match &inspection.outcome {
        Err(error) => return tls_findings::fault(source, service, error),
        Ok(warnings) => warnings.iter(),
    };
    let side = if inspection.is_front { "front" } else { "back" };
    let each = warnings.flat_map(|warning| {
        let key = match &warning.concern {
            WarningSubject::Certificate { place, .. }
            | WarningSubject::CertificateUnused(place)
            | WarningSubject::CertificateRevoked(place) => {
                config::key_of_certificate(source, service, Path::new(place))
            }
            _ => format!("service.{service}.{side}.tls"),
        };
        let problem = config::problem(&warning.concern.to_string());
        config::diagnose(source, Severity::Warning, &key, problem)
    });
    each.collect()
}

fn summary(settings: &Settings) -> String {
    let services = &settings.data_plane.services;
    let sum = |count: fn(&proxy::options::ServiceOptions) -> usize| -> usize {
        services.iter().map(count).sum()
    };
    let addresses = services.iter().flat_map(|service| &service.front.listen);
    let addresses: BTreeSet<_> = addresses.collect();
    let parts = [
        counted(services.len(), "service", "services"),
        counted(addresses.len(), "address", "addresses"),
        counted(
            sum(|service| {
                let tls = service.front.terminated();
                tls.map_or(0, |tls| tls.certificates.len())
            }),
            "certificate",
            "certificates",
        ),
        counted(sum(|service| service.back.server_list().len()), "server", "servers"),
    ];
    let folders = sum(|service| usize::from(service.back.folder().is_some()));
    let folders = (folders > 0).then(|| counted(folders, "folder", "folders"));
    let parts: Vec<_> = parts.into_iter().chain(folders).collect();
    parts.join(", ")
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

const LISTEN_REFUSED: &str = "cannot listen at ";

/// How many of these are about addresses that cannot be listened at.
fn count_refused(diagnostics: &[Diagnostic]) -> usize {
    let about_address =
        |one: &&Diagnostic| one.is_error() && one.message.starts_with(LISTEN_REFUSED);
    diagnostics.iter().filter(about_address).count()
}

/// The addresses that cannot be listened at now, and rights that are missing.
fn refusals(source: &TypedConfiguration, settings: &Settings) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut tell = |key: &str, address: &Address, error: io::Error| {
        found.extend(refusal(source, key, address, error));
    };
    for (number, service) in settings.data_plane.services.iter().enumerate() {
        let key = format!("service.{number}.front.listen");
        for address in &service.front.listen {
            let tried = match address {
                Address::Ip(ip) => check_free(*ip, &service.front.transport),
                Address::Unix(UnixName::Path(path)) => check_path(path),
                // Only the service manager that starts it knows.
                Address::Unix(UnixName::Abstract(_)) | Address::Inherited(_) => Ok(()),
            };
            if let Err(error) = tried {
                tell(&key, address, error);
            }
        }
    }
    if let Some(listen) = settings.control.listen
        && let Err(error) = check_free(listen, &Transport::default())
    {
        tell("admin.listen", &Address::Ip(listen), error);
    }
    if let Some(listen) = peers(settings)
        && let Err(error) = UdpSocket::bind(listen)
    {
        tell("cluster.peers.listen", &Address::Ip(listen), error);
    }
    // One that is not there is told without this.
    if let Err(message) = user::choose(&settings.process)
        && let Some((message, hint)) = message.split_once("\nhint: ")
    {
        let message = message.strip_prefix("process.user: ").unwrap_or(message);
        let problem = Problem::new(message).hint(hint);
        found.extend(config::diagnose(source, Severity::Error, "process.user", problem));
    }
    found
}

fn peers(settings: &Settings) -> Option<SocketAddr> {
    match &settings.cluster.as_ref()?.peers.as_ref()?.network {
        PeerNetwork::Unicast { listen, .. } => Some(*listen),
        // Several programs of a host may be in a group.
        PeerNetwork::Multicast { .. } => None,
    }
}

/// A path can be listened at if nobody listens there and its directory may be written to.
fn check_path(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    process::may_write(directory)?;
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        // One that nobody has open is replaced.
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                if ListenFailure::is_in_the_way(path) {
                    Err(io::ErrorKind::AddrInUse.into())
                } else {
                    Ok(())
                }
            }
            _ => Err(io::ErrorKind::AddrInUse.into()),
        },
    }
}

fn refusal(
    source: &TypedConfiguration,
    key: &str,
    address: &Address,
    error: io::Error,
) -> Vec<Diagnostic> {
    let failure = ListenFailure {
        who: String::new(),
        address: address.clone(),
        error,
        holder: String::new(),
    };
    let problem = Problem::new(format!("{LISTEN_REFUSED}{address}: {}", failure.error));
    let problem = match failure.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    };
    config::diagnose(source, Severity::Error, key, problem)
}

/// The form of the document for programs; a later one may have more fields.
const JSON_VERSION: u32 = 1;

#[derive(Serialize)]
struct CheckDocument<'a> {
    version: u32,
    good: bool,
    diagnostics: Vec<Entry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Vec<HostLimit>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    severity: &'static str,
    file: Option<&'a str>,
    line: Option<usize>,
    column: Option<usize>,
    key: Option<&'a str>,
    message: &'a str,
    hint: Option<&'a str>,
}

/// The diagnostics for programs: one document, in one line.
fn json(diagnostics: &[Diagnostic], good: bool, host: Option<Vec<HostLimit>>) -> String {
    let json = CheckDocument {
        version: JSON_VERSION,
        good,
        diagnostics: diagnostics.iter().map(json_entry).collect(),
        host,
    };
    let text = serde_json::to_string(&json).expect("texts and numbers can be written");
    text + "\n"
}

fn json_entry(diagnostic: &Diagnostic) -> Entry<'_> {
    let (file, line, column) = match &diagnostic.place {
        FaultLocation::File { path, line: 0, .. } => (Some(&**path), None, None),
        FaultLocation::File { path, line, column } => (Some(&**path), Some(*line), Some(*column)),
        FaultLocation::Flag(_) | FaultLocation::Nowhere => (None, None, None),
    };
    Entry {
        severity: diagnostic.severity.word(),
        file,
        line,
        column,
        key: diagnostic.subject.as_deref(),
        message: &diagnostic.message,
        hint: diagnostic.hint.as_deref(),
    }
}

/// A limit of the host.
#[derive(Debug, Eq, PartialEq, Serialize)]
struct HostLimit {
    /// The setting, or what it is of.
    name: &'static str,
    here: String,
    wanted: String,
    /// The setting to raise if that is more; `None` = it is enough.
    remedy: Option<String>,
}

/// Memory that the kernel may hold for one TCP socket while data waits in it: four pages. Sockets
/// of connections that wait hold none.
const PAGES_PER_SOCKET: u64 = 4;

/// A connection has the client's socket and the server's.
const SOCKETS_PER_CONNECTION: u64 = 2;

/// The number that counts of those that a file holds.
type Of = fn(&[u64]) -> Option<u64>;

/// A setting, the number of it that counts, what is wanted, and what to set then.
type Row = (&'static str, Of, u64, fn(u64) -> String);

/// All limits that there are.
fn limits(settings: &Settings, kernel_tls: Option<&KernelTls>) -> Vec<HostLimit> {
    let numbers = |name: &str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let text = fs::read_to_string(path).ok()?;
        let numbers = text.split_whitespace().map(|one| one.parse().ok());
        numbers.collect::<Option<Vec<u64>>>()
    };
    let mut limits =
        vec![open_files(settings, usage::descriptors().hard), memory(settings, usage::memory())];
    limits.extend(of_kernel(settings, numbers));
    limits.extend(kernel_tls.map(|kernel_tls| HostLimit {
        name: "kernel TLS",
        here: kernel_tls.status.sentence.clone(),
        wanted: "by `ktls`".to_owned(),
        remedy: kernel_tls.status.remedy.clone(),
    }));
    limits
}

fn open_files(settings: &Settings, here: Option<u64>) -> HostLimit {
    let wanted = preflight::descriptors_needed(settings);
    let remedy = format!("LimitNOFILE={wanted} in the unit, or `ulimit -n {wanted}`");
    own("open files (ulimit -Hn)", here, wanted, remedy)
}

fn memory(settings: &Settings, here: Option<u64>) -> HostLimit {
    let wanted = preflight::memory_needed(settings) >> 20;
    let remedy = format!("MemoryMax={wanted}M in the unit, or fewer `limits.connections`");
    own("memory in MiB (MemoryMax=)", here.map(|bytes| bytes >> 20), wanted, remedy)
}

/// A limit of the process; `here` is `None` where the process is not limited.
fn own(name: &'static str, here: Option<u64>, wanted: u64, remedy: String) -> HostLimit {
    HostLimit {
        name,
        here: here.map_or_else(|| "unlimited".to_owned(), |here| here.to_string()),
        wanted: wanted.to_string(),
        remedy: here.filter(|here| *here < wanted).map(|_| remedy),
    }
}

fn of_kernel(settings: &Settings, numbers: impl Fn(&str) -> Option<Vec<u64>>) -> Vec<HostLimit> {
    let data_plane = &settings.data_plane;
    let connections = u64::from(data_plane.limits.connections);
    let descriptors = preflight::descriptors_needed(settings);
    let backlog = u64::from(data_plane.workers.backlog);
    let sockets = connections * SOCKETS_PER_CONNECTION;
    let peers = settings.cluster.as_ref().and_then(|one| one.peers.as_ref());
    let datagrams = peers.map_or(0, |_| RECEIVE_BYTES as u64);
    let first = |numbers: &[u64]| numbers.first().copied();
    let third = |numbers: &[u64]| numbers.get(2).copied();
    let ports = |numbers: &[u64]| Some(numbers.get(1)? + 1 - numbers.first()?);
    let rows: [Row; 7] = [
        ("fs.nr_open", first, descriptors, |wanted| wanted.to_string()),
        ("fs.file-max", first, descriptors, |wanted| wanted.to_string()),
        ("net.core.somaxconn", first, backlog, |wanted| wanted.to_string()),
        ("net.ipv4.ip_local_port_range", ports, ports_wanted(settings), |_| {
            "1024 65535".to_owned()
        }),
        ("net.ipv4.tcp_mem", third, sockets * PAGES_PER_SOCKET, |wanted| {
            format!("{} {} {wanted}", wanted / 2, wanted / 4 * 3)
        }),
        ("net.core.rmem_max", first, datagrams, |wanted| wanted.to_string()),
        ("net.netfilter.nf_conntrack_max", first, sockets, |wanted| wanted.to_string()),
    ];
    let each = rows.into_iter().filter_map(|(name, of, wanted, value)| {
        let here = of(&numbers(name).filter(|_| wanted > 0)?)?;
        let set = || format!("sysctl -w {name}=\"{}\"", value(wanted));
        let remedy = (here < wanted).then(set);
        Some(HostLimit {
            name,
            here: here.to_string(),
            wanted: wanted.to_string(),
            remedy: remedy.map(|remedy| match name {
                "net.ipv4.ip_local_port_range" => {
                    format!("{remedy}; beyond that, more servers, or Unix sockets")
                }
                "net.netfilter.nf_conntrack_max" => {
                    format!("{remedy}, or exempt the ports from tracking (notrack)")
                }
                _ => remedy,
            }),
        })
    });
    each.collect()
}

/// The connections that all go to one server: each has a port of its own on this host (RFC 9293
/// section 3.3.2). Those to Unix sockets have none.
fn ports_wanted(settings: &Settings) -> u64 {
    let process = settings.data_plane.limits.connections;
    let services = settings.data_plane.services.iter().map(|service| {
        let servers = service.back.server_list().iter();
        let servers = servers.filter(|one| one.endpoint.tcp_port().is_some()).count() as u64;
        let most = u64::from(service.connections_max.unwrap_or(process).min(process));
        most.checked_div(servers).unwrap_or(0)
    });
    services.max().unwrap_or(0)
}

impl fmt::Display for HostLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, here, wanted, remedy } = self;
        write!(f, "{name}: {here}, wanted {wanted}")?;
        match remedy {
            Some(remedy) => write!(f, "\n  hint: {remedy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use config::{Recording, TypedConfiguration};

    use super::*;

    fn settings(connections: &str) -> Settings {
        let flags = [
            ("listen", "127.0.0.1:0"),
            ("tls", "off"),
            ("backend", "127.0.0.1:9"),
            ("backend", "127.0.0.1:10"),
            ("backend", "unix:/x"),
            ("connections", connections),
            ("backlog", "512"),
        ];
        let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let source = TypedConfiguration::Flags(flags.to_vec());
        let loaded = config::load(&source, &mut Recording::default());
        loaded.unwrap().settings
    }

    /// The limits that are too low on a host that has these.
    fn lacking(connections: &str) -> Vec<&'static str> {
        let host = |name: &str| {
            Some(match name {
                "fs.nr_open" | "fs.file-max" => vec![50_000],
                "net.core.somaxconn" => vec![512],
                "net.ipv4.ip_local_port_range" => vec![32_768, 60_999],
                "net.ipv4.tcp_mem" => vec![1, 2, 400_000],
                _ => return None,
            })
        };
        let limits = of_kernel(&settings(connections), host);
        assert_eq!(limits.len(), 5, "what there is not is left out");
        let lacking = limits.iter().filter(|one| one.remedy.is_some());
        lacking.map(|one| one.name).collect()
    }

    #[test]
    fn a_limit_below_what_is_wanted_has_a_remedy() {
        assert_eq!(lacking("20000"), [""; 0]);
        assert_eq!(lacking("40000"), ["fs.nr_open", "fs.file-max"]);
        assert_eq!(
            lacking("60000"),
            ["fs.nr_open", "fs.file-max", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_mem"]
        );
    }

    #[test]
    fn descriptors_are_the_process_own() {
        let limit = |here| open_files(&settings("1000"), here).remedy.is_some();
        assert_eq!([Some(100), Some(5000), None].map(limit), [true, false, false]);
    }
}
