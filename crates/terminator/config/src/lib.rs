//! Converts configuration text and files to the Options of the other crates.
//!
//! Handles the table of options, the parsing of TOML and flags, and the diagnostics. The other
//! crates know no TOML, and this crate starts nothing.
#![forbid(unsafe_code)]

mod acme;
mod admin;
mod back;
mod back_tls;
mod certificate_folder;
mod certificates;
mod cluster;
mod ech;
mod files;
mod front;
mod front_tls;
pub mod keys;
mod log;
mod process;
mod resolver;
mod resumption;
mod server_check;
mod servers;
mod service;
pub mod settings;
mod source;
mod store;
mod timeouts;
mod tls_choices;
mod topology;
mod tunnel;

use std::collections::BTreeSet;
use std::path::Path;

use options::{Nested, Node, RawLocation, Section};
use proxy::options::{FrontTls, Options, ServiceOptions};
use wire::address::{Address, Endpoint};

pub use acme::certificate_file;
pub use files::{Disk, Files, Recorder, Recording};
pub use front::KEPT_NAMES;
pub use keys::TABLE;
pub use options::{Diagnostic, FaultLocation, Key, Problem, Severity, nearest};
pub use resolver::problem;
pub use settings::{
    AcmeChallenge, AcmeEntry, AcmeOptions, AdminToken, ClusterOptions, ControlOptions,
    KeyLogOptions, LogDaemon, LogOutput, MessageForm, Password, PeerNetwork, PeersOptions,
    PinOrigin, ProcessOptions, ReloadOptions, SandboxOptions, Settings, StoreKind, StoreOptions,
    TokenKey,
};
pub use source::{MADE_OF_OTHERS, STANDARD_INPUT, TypedConfiguration};

use admin::WrittenAdmin;
use files::ProgramOutputs;
use keys::WrittenConfiguration;
use resolver::{FileResolver, Inspector, optional};
use resumption::Tls13Choice;
use source::{report_about, root_of};

#[derive(Clone, Debug, PartialEq)]
pub struct LoadedConfiguration {
    pub settings: Settings,
    pub warnings: Vec<Diagnostic>,
}

/// A configuration that may have errors.
#[derive(Clone, Debug, PartialEq)]
pub struct InspectedConfiguration {
    /// The settings, as far as they can be read; `None` = too much is missing.
    pub settings: Option<Settings>,
    /// All diagnostics, in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a configuration and every file that it names.
///
/// The same source over the same files gives the same settings, in any process.
///
/// # Errors
/// All that is wrong with it, and the warnings, in the order of their places.
pub fn load(
    source: &TypedConfiguration,
    files: &mut dyn Files,
) -> Result<LoadedConfiguration, Vec<Diagnostic>> {
    let (read, diagnostics) = read(source, (files, &mut ProgramOutputs::default()), None);
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    match read {
        Some(read) if !failed && read.is_whole => {
            Ok(LoadedConfiguration { settings: read.settings, warnings: diagnostics })
        }
        _ => Err(diagnostics),
    }
}

/// Reads a configuration and every file that it names, and looks into the files. Reports all
/// errors at once.
pub fn inspect(source: &TypedConfiguration, files: &mut dyn Files) -> InspectedConfiguration {
    let (inspector, mut outputs) = (Inspector::new(files), ProgramOutputs::default());
    let (read, diagnostics) = read(source, (&mut *files, &mut outputs), Some(&inspector));
    let settings = match read {
        Some(read) if read.is_whole => Some(read.settings),
        read => without_faults(source, (files, &mut outputs), read),
    };
    InspectedConfiguration { settings, diagnostics }
}

/// Settings, as far as they could be read.
struct ConfigurationRead {
    settings: Settings,
    /// Whether all services are free of errors that keep them from being read.
    is_whole: bool,
}

/// Longest chain of errors caused by the removal of a value: a list that becomes empty, its table,
/// and keys that need that table.
const REMOVALS_MAX: usize = 8;

/// Returns the settings without the invalid values, so that one error does not hide another that
/// only the host and the TLS library can see; else `first`, or the settings nearest to complete.
/// Errors that follow from a removal are not reported.
fn without_faults(
    source: &TypedConfiguration,
    (files, outputs): (&mut dyn Files, &mut ProgramOutputs),
    first: Option<ConfigurationRead>,
) -> Option<Settings> {
    let mut nearest = first.map(|read| read.settings);
    let mut root = root_of(source, &report_about(source))?;
    for _ in 0..REMOVALS_MAX {
        let report = report_about(source);
        let mut resolver = FileResolver::new(source.base(), (&mut *files, &mut *outputs), None);
        match settings(&WrittenConfiguration::of_root(&root, &report), &mut resolver) {
            Some(read) if read.is_whole => return Some(read.settings),
            read => nearest = nearest.or_else(|| read.map(|read| read.settings)),
        }
        if !root.remove(&report.faulty()) {
            break;
        }
    }
    nearest
}

fn read(
    source: &TypedConfiguration,
    (files, outputs): (&mut dyn Files, &mut ProgramOutputs),
    inspector: Option<&Inspector>,
) -> (Option<ConfigurationRead>, Vec<Diagnostic>) {
    let report = report_about(source);
    let root = root_of(source, &report);
    let mut resolver = FileResolver::new(source.base(), (files, outputs), inspector);
    let read = root.and_then(|root| {
        options::check(&root, &TABLE, &report);
        settings(&WrittenConfiguration::of_root(&root, &report), &mut resolver)
    });
    (read, report.into_diagnostics())
}

/// Makes a diagnostic of the host's finding about a key such as `process.user`, at the place where
/// the key was written. A table of a list is named by its index: `service.0.back.files`.
pub fn diagnose(
    source: &TypedConfiguration,
    severity: Severity,
    key: &str,
    problem: Problem,
) -> Vec<Diagnostic> {
    diagnose_all(source, [(severity, key.to_owned(), problem)])
}

/// Makes diagnostics of many findings, in the order of their places; parses the text only once.
pub fn diagnose_all(
    source: &TypedConfiguration,
    found: impl IntoIterator<Item = (Severity, String, Problem)>,
) -> Vec<Diagnostic> {
    let mut found = found.into_iter().peekable();
    if found.peek().is_none() {
        return Vec::new();
    }
    // What is wrong with the text has been told before.
    let empty = || Node::empty(RawLocation::Nowhere);
    let root = root_of(source, &report_about(source)).unwrap_or_else(empty);
    let report = report_about(source);
    let top = Section::top(&TABLE, &root, &report);
    for (severity, key, problem) in found {
        match top.find(&key) {
            Some(place) => place.say(severity, problem),
            None => report.say(severity, &RawLocation::Nowhere, Some(&key), problem),
        }
    }
    report.into_diagnostics()
}

/// The key of a service that names a certificate's file, as [`diagnose`] takes it: the service's
/// number and the file's path. A folder names all that is in it.
pub fn key_of_certificate(source: &TypedConfiguration, service: usize, file: &Path) -> String {
    let report = report_about(source);
    let list = format!("service.{service}.front.tls.certificates");
    let root = root_of(source, &report);
    let written = root.as_ref().map(|root| WrittenConfiguration::of_root(root, &report));
    let services = written.as_ref().map(|written| &written.service.tables);
    let Some(service) = services.and_then(|services| services.get(service)) else { return list };
    let base = source.base();
    let is_named = |named: &str| {
        // A folder, or a folder in it.
        let mut places = file.ancestors().take(3);
        places.any(|place| place == base.join(named))
    };
    let mut entries = service.front.tls.certificates.tables.iter();
    match entries.position(|entry| entry.chain.value.as_deref().is_some_and(is_named)) {
        Some(number) => format!("{list}.{number}.chain"),
        None => list,
    }
}

/// Whether a key is written; the key's name has the form that [`diagnose`] takes.
pub fn is_written(source: &TypedConfiguration, key: &str) -> bool {
    is_any_written(source, std::iter::once(key.to_owned()))
}

/// Whether somebody wrote one of these keys, each named as to [`diagnose`].
pub fn is_any_written(source: &TypedConfiguration, mut keys: impl Iterator<Item = String>) -> bool {
    let report = report_about(source);
    root_of(source, &report).is_some_and(|root| {
        let top = Section::top(&TABLE, &root, &report);
        keys.any(|key| top.find(&key).is_some_and(|place| place.is_written()))
    })
}

/// The status socket that a configuration names; `None` = it leaves it where it usually is. Nothing
/// else of it is judged, and no other file is read: it may be half edited. Where that hides the
/// key, nobody knows which lariat is meant.
pub fn status_socket(
    source: &TypedConfiguration,
) -> Result<Option<std::path::PathBuf>, Vec<Diagnostic>> {
    let report = report_about(source);
    let (root, is_whole) = source::recovered(source, &report);
    let place = Section::top(&TABLE, &root, &report).at(const { &WrittenAdmin::KEY });
    let named = WrittenAdmin::read(place).status_socket.value;
    match named {
        Some(Some(path)) => Ok(Some(source.base().join(path))),
        Some(None) if is_whole => Ok(None),
        _ => Err(report.into_diagnostics()),
    }
}

fn settings(
    written: &WrittenConfiguration<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<ConfigurationRead> {
    resolver.acme_folder = acme::folder(&written.acme, &resolver.base);
    let mut services = services(written, resolver);
    let key_log =
        process::key_log_options(written.process.key_log.as_ref(), &mut services.options, resolver);
    let workers = process::worker_options(&written.workers, resolver);
    let limits = process::limits(&written.limits, resolver);
    let log = log::lines(&written.log);
    let process = key_log.and_then(|one| process::process_options(&written.process, one, resolver));
    let reload = process::reload_options(&written.reload);
    let control = admin::control_options(&written.admin, &written.log, resolver);
    let sessions = resumption::session_options(&written.resumption.session_cache);
    let cluster = written.cluster.as_ref();
    let cluster = optional(cluster.map(|one| cluster::cluster_options(one, resolver)));
    let secrets = cluster.iter().flatten().flat_map(|one| one.secrets.clone());
    let secrets: Vec<_> = secrets.collect();
    let ech = written.ech.as_ref();
    let ech = ech.map(|one| ech::ech_options(one, secrets.clone(), &services.options, resolver));
    let tickets = resumption::ticket_options(&written.resumption.tickets, secrets, resolver);
    // The rest can still be judged.
    if let Some(control) = &control {
        admin_is_apart(&written.admin, control, &services.options);
    }
    let ports = process.as_ref().and_then(|one| one.connect_ports.as_ref());
    if let Some(ports) = ports {
        let store = cluster.iter().flatten().find_map(|one| one.store.as_ref());
        servers_can_be_reached(written, ports, &services.options, store);
    }
    Some(ConfigurationRead {
        is_whole: services.are_whole,
        settings: Settings {
            data_plane: Options {
                services: services.options,
                ech: optional(ech)?,
                workers: workers?,
                limits: limits?,
                log: log?,
            },
            process: process?,
            reload: reload?,
            control: control?,
            sessions: sessions?,
            tickets: tickets?,
            cluster: cluster?,
            acme: acme::options(resolver),
            token_keys: std::mem::take(&mut resolver.token_keys),
        },
    })
}

/// All services, by index.
struct Services {
    options: Vec<ServiceOptions>,
    /// Whether all are free of errors that keep them from being read.
    are_whole: bool,
}

fn services(written: &WrittenConfiguration<'_>, resolver: &mut FileResolver<'_>) -> Services {
    let tables = written.service.required();
    let (tls13, group) = (written.resumption.tls13.value, written.resumption.group.value);
    let read = |table| service::read(table, tls13.unwrap_or(Tls13Choice::Auto), resolver);
    let read: Vec<_> = tables.iter().map(read).collect();
    topology::names_differ(tables);
    let with_front = tables.iter().zip(&read).filter(|(_, one)| one.has_front);
    topology::addresses_are_shared_well(with_front.map(|(keys, one)| (&keys.front, &one.options)));
    let are_whole = tls13.is_some()
        && group.is_some()
        && !read.is_empty()
        && read.iter().all(|one| one.is_whole);
    let mut options: Vec<_> = read.into_iter().map(|one| one.options).collect();
    for service in &mut options {
        if let (FrontTls::Terminate(tls), Some(group)) = (&mut service.front.tls, group) {
            tls.resumption_group = group;
        }
    }
    topology::servers_are_no_loop(tables, &options);
    topology::certificates_can_be_ordered(tables, &options, &resolver.acme);
    Services { options, are_whole }
}

/// Checks that the worker process may connect to the port of every server.
fn servers_can_be_reached(
    written: &WrittenConfiguration<'_>,
    ports: &BTreeSet<u16>,
    services: &[ServiceOptions],
    store: Option<&StoreOptions>,
) {
    for (keys, service) in written.service.tables.iter().zip(services) {
        let check = service.back.servers().and_then(|servers| servers.pool.check.as_ref());
        if let (Some(port), Some(check)) = (check.and_then(|one| one.port), &keys.back.check)
            && !ports.contains(&port)
        {
            let message = format!("is {port}, which process.connect-ports lacks");
            check.port.refuse(message, format!("list {port} there too"));
        }
        let servers = service.back.server_list().iter();
        let of_keys =
            servers.filter(|one| !matches!(one.endpoint, Endpoint::Service { number: 2.., .. }));
        for (keys, server) in keys.back.servers.tables.iter().zip(of_keys) {
            let listed = |port: &u16| ports.contains(port);
            if let Some(port) = server.endpoint.tcp_port().filter(|port| !listed(port)) {
                let message = format!("has port {port}, which process.connect-ports lacks");
                keys.address.refuse(message, format!("list {port} there too"));
            }
        }
    }
    let Some(keys) = written.cluster.iter().find_map(|one| one.store.as_ref()) else { return };
    for node in store.iter().flat_map(|store| &store.nodes) {
        if let Some(port) = node.tcp_port().filter(|port| !ports.contains(port)) {
            let message = format!("leads to port {port}, which process.connect-ports lacks");
            keys.url.refuse(message, "list there the ports of all its nodes");
        }
    }
}

/// Checks that no service listens at the address of the status page.
fn admin_is_apart(admin: &WrittenAdmin<'_>, control: &ControlOptions, services: &[ServiceOptions]) {
    let listen = control.listen.filter(|address| address.port() != 0);
    let Some(listen) = listen else { return };
    let taken = |service: &&ServiceOptions| {
        let (all, over) = (&service.front.listen, &service.front.transport);
        all.iter().any(|one| match one {
            Address::Ip(one) => *one == listen || topology::overlap(*one, over, listen),
            Address::Unix(_) | Address::Inherited(_) => false,
        })
    };
    let Some(service) = services.iter().find(taken) else { return };
    let message = format!("{listen} is already listened at by `{}`", service.name);
    admin.listen.refuse(message, "give the status page a port of its own");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(source: &TypedConfiguration, key: &str, message: &str, hint: &str) -> Vec<Diagnostic> {
        diagnose(source, Severity::Error, key, Problem::new(message).hint(hint))
    }

    #[test]
    fn a_fault_stands_where_its_key_was_written() {
        let told = |source: &TypedConfiguration| {
            let faults = fault(source, "log.output", "has no directory", "make one");
            assert_eq!(faults.len(), 1);
            faults[0].to_string()
        };
        let place = || "a.toml".to_owned();
        for text in ["log = \"/x/y\"\n", "[log]\noutput = \"/x/y\"\n"] {
            let text = text.to_owned();
            let line = text.lines().count();
            let told = told(&TypedConfiguration::of_text(place(), text));
            assert!(told.starts_with("error: log.output: has no directory\n"), "{told}");
            assert!(told.contains(&format!("--> a.toml:{line}:")), "{told}");
            assert!(told.ends_with("hint: make one"), "{told}");
        }
        let flags = TypedConfiguration::Flags(vec![("log".into(), "/x/y".into())]);
        assert!(told(&flags).starts_with("error: --log: has no directory"));
    }

    #[test]
    fn a_status_socket_is_found_in_a_file_that_is_otherwise_wrong() {
        let found = |text: &str| {
            let (place, text) = ("/etc/lariat/a.toml".to_owned(), text.to_owned());
            status_socket(&TypedConfiguration::of_text(place, text))
        };
        let path = |path: &str| Ok(Some(std::path::PathBuf::from(path)));
        assert_eq!(found("[admin]\nstatus-socket = '/run/a'\nx = 1\n"), path("/run/a"));
        assert_eq!(found("admin = { status-socket = 'a' }"), path("/etc/lariat/a"));
        assert_eq!(found("[[service]]\n"), Ok(None));
        for broken in ["[[service\n", "x = [1,\n", "x = 'a\n", "= 7\n[b]\n"] {
            let before = format!("{broken}[admin]\nstatus-socket = '/run/a'\n");
            let after = format!("[admin]\nstatus-socket = '/run/a'\n{broken}");
            assert_eq!(found(&after), path("/run/a"), "{after}");
            if !broken.contains('[') {
                assert_eq!(found(&before), path("/run/a"), "{before}");
            }
        }
        for wrong in ["[admin]\nstatus-socket = 7\n", "[admin\n"] {
            assert_eq!(found(wrong).unwrap_err().len(), 1, "{wrong}");
        }
        let flags = TypedConfiguration::Flags(vec![("status-socket".into(), "b".into())]);
        assert_eq!(status_socket(&flags), path("b"));
    }

    #[test]
    fn a_fault_of_a_service_stands_in_that_service() {
        let text = "[[service]]\nname = \"a\"\nback.files = \"/a\"\n\n[[service]]\n\
                    back = { files = { root = \"/b\" } }\n";
        let source = TypedConfiguration::of_text("a.toml", text);
        for (key, place) in [
            ("service.0.back.files.root", " --> a.toml:3:14\n"),
            ("service.1.back.files.root", " --> a.toml:6:27\n"),
            ("service.1.front.tls.ktls", " --> a.toml:5:1\n"),
        ] {
            let told = fault(&source, key, "is not there", "make it")[0].to_string();
            assert!(told.contains(place), "{key}: {told}");
        }
        let flags = TypedConfiguration::Flags(vec![("files".into(), "/x/y".into())]);
        let told = fault(&flags, "service.0.back.files.root", "no", "make it")[0].to_string();
        assert!(told.starts_with("error: --files: no"), "{told}");
        assert!(is_written(&source, "service.1.back.files"));
        assert!(!is_written(&source, "service.1.front.tls.ktls"));
        assert!(is_written(&flags, "service.0.back.files.root"));
    }
}
