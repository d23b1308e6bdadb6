//! Text and files to the Options of the parts.
//!
//! Owns what was typed and what it means: the table of options, the reading of TOML and flags,
//! and the diagnostics. The parts know no TOML, and this crate starts nothing.
#![forbid(unsafe_code)]

mod back;
mod back_tls;
mod certificate_folder;
mod certificates;
mod cluster;
pub mod dialects;
mod files;
mod front;
mod host;
mod inspection;
pub mod keys;
mod log;
mod networks;
mod presets;
pub mod reference;
mod services;
pub mod settings;
pub mod source;
mod starttls;
mod store;
mod topology;

use std::collections::BTreeSet;
use std::path::Path;

use options::{Node, Report, Section, Spot, Value, document, flags};
use proxy::options::{Options, ServiceOptions};
use wire::address::{Address, Endpoint};

pub use files::{Disk, Files, Recorder, Recording};
pub use front::KEPT_NAMES;
pub use inspection::problem;
pub use keys::TABLE;
pub use options::{Diagnostic, Key, Place, Problem, Severity, nearest};
pub use settings::{
    AdminToken, ClusterOptions, ControlOptions, LogDaemon, LogOutput, MessageForm, Password,
    PeerNetwork, PeersOptions, ProcessOptions, ReloadOptions, ResumptionOptions, SandboxOptions,
    Settings, StoreKind, StoreOptions,
};
pub use source::{STANDARD_INPUT, Source};

use certificates::Shelf;
use inspection::Inspector;

#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub settings: Settings,
    /// What deserves a second look.
    pub warnings: Vec<Diagnostic>,
}

/// A configuration that may have errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspected {
    /// What it means, as far as that can be told; `None` = too much is missing.
    pub settings: Option<Settings>,
    /// All that is to be said of it, in the order of the places.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a configuration and every file that it names.
///
/// The same source over the same files gives the same settings, in any process.
///
/// # Errors
/// All that is wrong with it, and the warnings, in the order of their places.
pub fn load(source: &Source, files: &mut dyn Files) -> Result<Loaded, Vec<Diagnostic>> {
    let (read, diagnostics) = read(source, files, None);
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    match read {
        Some(read) if !failed && read.is_whole => Ok(Loaded {
            settings: read.settings,
            warnings: diagnostics,
        }),
        _ => Err(diagnostics),
    }
}

/// Reads a configuration and every file that it names, and looks into the files: all that is wrong
/// with it, told at once.
pub fn inspect(source: &Source, files: &mut dyn Files) -> Inspected {
    let inspector = Inspector::new(files);
    let (read, diagnostics) = read(source, files, Some(&inspector));
    let settings = match read {
        Some(read) if read.is_whole => Some(read.settings),
        read => without_faults(source, files, read),
    };
    Inspected {
        settings,
        diagnostics,
    }
}

/// Settings, as far as they could be read.
struct Read {
    settings: Settings,
    /// Whether no service has a fault that keeps it from being read.
    is_whole: bool,
}

/// What a faulty value's removal may bring down in turn: a list that it leaves empty, the table of
/// that list, and what needs that table.
const REMOVALS_MAX: usize = 8;

/// What a configuration means without the values at fault, so that one fault does not hide what
/// only the host and the TLS library can tell; else `first`, or what comes nearest to the whole.
/// Errors that follow from what is removed are none.
fn without_faults(source: &Source, files: &mut dyn Files, first: Option<Read>) -> Option<Settings> {
    let mut nearest = first.map(|read| read.settings);
    let mut root = root_of(source, &report_about(source))?;
    for _ in 0..REMOVALS_MAX {
        let report = report_about(source);
        let mut shelf = Shelf {
            base: source.base(),
            files: &mut *files,
            inspector: None,
            skipped: None,
        };
        match settings(&Section::top(&TABLE, &root, &report), &mut shelf) {
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
    source: &Source,
    files: &mut dyn Files,
    inspector: Option<&Inspector>,
) -> (Option<Read>, Vec<Diagnostic>) {
    let report = report_about(source);
    let root = root_of(source, &report);
    let mut shelf = Shelf {
        base: source.base(),
        files,
        inspector,
        skipped: None,
    };
    let read = root.and_then(|root| {
        options::check(&root, &TABLE, &report);
        settings(&Section::top(&TABLE, &root, &report), &mut shelf)
    });
    (read, report.into_diagnostics())
}

/// An error about a key such as `process.user` that only the host can tell, at the place where
/// the key was written. A table of a list is told by its number: `service.0.back.files`.
pub fn fault(source: &Source, key: &str, message: &str, hint: &str) -> Vec<Diagnostic> {
    diagnose(
        source,
        Severity::Error,
        key,
        Problem::new(message).hint(hint),
    )
}

/// The same of any severity.
pub fn diagnose(
    source: &Source,
    severity: Severity,
    key: &str,
    problem: Problem,
) -> Vec<Diagnostic> {
    // What is wrong with the text has been told before.
    let empty = || Node::new(Value::Table(Vec::new()), Spot::Nowhere);
    let root = root_of(source, &report_about(source)).unwrap_or_else(empty);
    let report = report_about(source);
    let (section, name) = section_of(&Section::top(&TABLE, &root, &report), key);
    section.say(severity, name, problem);
    report.into_diagnostics()
}

/// The key of a service that names a certificate's file, as [`fault`] takes it: the service's
/// number and the file's path. A folder names all that is in it.
pub fn key_of_certificate(source: &Source, service: usize, file: &Path) -> String {
    let report = report_about(source);
    let list = format!("service.{service}.front.tls.certificates");
    let root = root_of(source, &report);
    let entries = root.as_ref().map_or(0, |root| {
        let (tls, name) = section_of(&Section::top(&TABLE, root, &report), &list);
        tls.sections(name).len()
    });
    let base = source.base();
    let is_named = |key: &String| {
        let root = root.as_ref()?;
        let (entry, name) = section_of(&Section::top(&TABLE, root, &report), key);
        let named = base.join(entry.text_quietly(name)?);
        // A folder, or one in it.
        let mut places = file.ancestors().take(3);
        places.any(|place| place == named).then_some(())
    };
    let mut keys = (0..entries).map(|number| format!("{list}.{number}.chain"));
    keys.find(|key| is_named(key).is_some()).unwrap_or(list)
}

/// Whether somebody wrote a key, told as to [`fault`].
pub fn is_written(source: &Source, key: &str) -> bool {
    let report = report_about(source);
    root_of(source, &report).is_some_and(|root| {
        let (section, name) = section_of(&Section::top(&TABLE, &root, &report), key);
        section.has(name)
    })
}

/// The status socket that a configuration names; `None` = it leaves it where it usually is. Nothing
/// else of it is judged, and no other file is read: it may be half edited. Where that hides the
/// key, nobody knows which lariat is meant.
pub fn status_socket(source: &Source) -> Result<Option<std::path::PathBuf>, Vec<Diagnostic>> {
    let report = report_about(source);
    let (root, is_whole) = match source {
        Source::File { text, .. } => {
            let (root, is_whole) = document::recovered(text, &report);
            (Some(root), is_whole)
        }
        Source::Flags(_) => (root_of(source, &report), true),
    };
    let named = root.and_then(|root| {
        let top = Section::top(&TABLE, &root, &report);
        top.section("admin").text_if_written("status-socket")
    });
    match named {
        Some(Some(path)) => Ok(Some(source.base().join(path))),
        Some(None) if is_whole => Ok(None),
        _ => Err(report.into_diagnostics()),
    }
}

/// The table that a key stands in, and the key's name.
fn section_of<'a, 'k>(top: &Section<'a>, key: &'k str) -> (Section<'a>, &'k str) {
    let (tables, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut section = *top;
    for table in tables.split('.').filter(|table| !table.is_empty()) {
        section = match table.parse() {
            Ok(number) => section.nth(number),
            Err(_) => section.section(table),
        };
    }
    (section, name)
}

fn report_about(source: &Source) -> Report<'_> {
    Report::new(match source {
        Source::File { place, text } => Some((place, text)),
        Source::Flags(_) => None,
    })
}

fn root_of(source: &Source, report: &Report<'_>) -> Option<Node> {
    match source {
        Source::File { text, .. } => document::parse(text, report),
        Source::Flags(flags) => {
            let flags = flags
                .iter()
                .map(|(name, text)| (name.as_str(), text.as_str()));
            Some(flags::parse(flags, &TABLE, report))
        }
    }
}

fn settings(top: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<Read> {
    let services = services::read(top, shelf);
    let workers = host::workers(&top.section("workers"), shelf);
    let limits = host::limits(&top.section("limits"), shelf);
    let log = log::lines(&top.section("log"));
    let process = host::process(&top.section("process"), shelf);
    let reload = host::reload(&top.section("reload"));
    let control = host::control(top, shelf);
    let resumption = host::resumption(&top.section("resumption"));
    let cluster = cluster::read(top, shelf);
    let secrets = cluster.iter().flatten().flat_map(|one| one.secrets.clone());
    let tickets = host::tickets(&top.section("resumption"), secrets.collect(), shelf);
    // The rest can still be judged.
    if let Some(control) = &control {
        admin_is_apart(top, control, &services.options);
    }
    let ports = process.as_ref().and_then(|one| one.connect_ports.as_ref());
    if let Some(ports) = ports {
        let store = cluster.iter().flatten().find_map(|one| one.store.as_ref());
        servers_can_be_reached(top, ports, &services.options, store);
    }
    Some(Read {
        is_whole: services.are_whole,
        settings: Settings {
            plane: Options {
                services: services.options,
                workers: workers?,
                limits: limits?,
                log: log?,
            },
            process: process?,
            reload: reload?,
            control: control?,
            resumption: resumption?,
            tickets: tickets?,
            cluster: cluster?,
        },
    })
}

/// Every server has a port that the worker process may connect to.
fn servers_can_be_reached(
    top: &Section<'_>,
    ports: &BTreeSet<u16>,
    services: &[ServiceOptions],
    store: Option<&StoreOptions>,
) {
    let sections = top.sections("service");
    for (section, service) in sections.iter().zip(services) {
        let servers = service.back.server_list();
        if servers.is_empty() {
            continue;
        }
        let sections = section.section("back").sections("servers");
        let of_port = servers.iter().filter(|one| first_instance(&one.endpoint));
        for (section, server) in sections.iter().zip(of_port) {
            let listed = |port: &u16| ports.contains(port);
            let Some(port) = server.endpoint.tcp_port().filter(|port| !listed(port)) else {
                continue;
            };
            let problem = Problem::new(format!(
                "has port {port}, which process.connect-ports lacks"
            ));
            section.error("address", problem.hint(format!("list {port} there too")));
        }
    }
    for node in store.iter().flat_map(|store| &store.nodes) {
        let Some(port) = node.tcp_port().filter(|port| !ports.contains(port)) else {
            continue;
        };
        let problem = Problem::new(format!(
            "leads to port {port}, which process.connect-ports lacks"
        ));
        let hint = "list there the ports of all its nodes";
        let section = top.section("cluster").section("store");
        section.error("url", problem.hint(hint));
    }
}

/// Whether it is the first, or only, server that its address stands for.
fn first_instance(endpoint: &Endpoint) -> bool {
    !matches!(endpoint, Endpoint::Service { number: 2.., .. })
}

/// A service may not listen where the status page is served.
fn admin_is_apart(top: &Section<'_>, control: &ControlOptions, services: &[ServiceOptions]) {
    let listen = control.listen.filter(|address| address.port() != 0);
    let Some(listen) = listen else {
        return;
    };
    let is_taken = |one: &Address| match one {
        Address::Ip(one) => *one == listen || topology::overlap(*one, listen),
        Address::Unix(_) | Address::Inherited(_) => false,
    };
    let taken = |service: &&ServiceOptions| service.front.listen.iter().any(is_taken);
    let Some(service) = services.iter().find(taken) else {
        return;
    };
    let problem = Problem::new(format!(
        "{listen} is already listened at by `{}`",
        service.name
    ));
    let hint = "give the status page a port of its own";
    top.section("admin").error("listen", problem.hint(hint));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_stands_where_its_key_was_written() {
        let told = |source: &Source| {
            let faults = fault(source, "log.output", "has no directory", "make one");
            assert_eq!(faults.len(), 1);
            faults[0].to_string()
        };
        let place = || "a.toml".to_owned();
        for text in ["log = \"/x/y\"\n", "[log]\noutput = \"/x/y\"\n"] {
            let text = text.to_owned();
            let line = text.lines().count();
            let told = told(&Source::File {
                place: place(),
                text,
            });
            assert!(
                told.starts_with("error: log.output: has no directory\n"),
                "{told}"
            );
            assert!(told.contains(&format!("--> a.toml:{line}:")), "{told}");
            assert!(told.ends_with("hint: make one"), "{told}");
        }
        let flags = Source::Flags(vec![("log".into(), "/x/y".into())]);
        assert!(told(&flags).starts_with("error: --log: has no directory"));
    }

    #[test]
    fn a_status_socket_is_found_in_a_file_that_is_otherwise_wrong() {
        let found = |text: &str| {
            let (place, text) = ("/etc/lariat/a.toml".to_owned(), text.to_owned());
            status_socket(&Source::File { place, text })
        };
        let path = |path: &str| Ok(Some(std::path::PathBuf::from(path)));
        assert_eq!(
            found("[admin]\nstatus-socket = '/run/a'\nx = 1\n"),
            path("/run/a")
        );
        assert_eq!(
            found("admin = { status-socket = 'a' }"),
            path("/etc/lariat/a")
        );
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
        let flags = Source::Flags(vec![("status-socket".into(), "b".into())]);
        assert_eq!(status_socket(&flags), path("b"));
    }

    #[test]
    fn a_fault_of_a_service_stands_in_that_service() {
        let text = "[[service]]\nname = \"a\"\nback.files = \"/a\"\n\n[[service]]\n\
                    back = { files = { root = \"/b\" } }\n";
        let source = Source::File {
            place: "a.toml".to_owned(),
            text: text.to_owned(),
        };
        for (key, place) in [
            ("service.0.back.files.root", " --> a.toml:3:14\n"),
            ("service.1.back.files.root", " --> a.toml:6:27\n"),
            ("service.1.front.tls.ktls", " --> a.toml:5:1\n"),
        ] {
            let told = fault(&source, key, "is not there", "make it")[0].to_string();
            assert!(told.contains(place), "{key}: {told}");
        }
        let flags = Source::Flags(vec![("files".into(), "/x/y".into())]);
        let told = fault(&flags, "service.0.back.files.root", "no", "make it")[0].to_string();
        assert!(told.starts_with("error: --files: no"), "{told}");
        assert!(is_written(&source, "service.1.back.files"));
        assert!(!is_written(&source, "service.1.front.tls.ktls"));
        assert!(is_written(&flags, "service.0.back.files.root"));
    }
}
