//! Text and files to the Options of the parts.
//!
//! Owns what was typed and what it means: the table of options, the reading of TOML and flags,
//! and the diagnostics. The parts know no TOML, and this crate starts nothing.
#![forbid(unsafe_code)]

mod back;
mod certificates;
pub mod diagnostic;
mod document;
pub mod files;
mod flags;
mod front;
mod host;
mod key;
mod keys;
mod node;
mod quantity;
pub mod reference;
mod section;
mod services;
pub mod settings;
mod shape;
pub mod source;
pub mod table;

use proxy::options::Options;
use wire::address::Address;

pub use diagnostic::{Diagnostic, Place, Severity, nearest};
pub use files::{Disk, Files, Recorder, Recording};
pub use settings::{
    ControlOptions, LogOutput, ProcessOptions, ResumptionOptions, SandboxOptions, Settings,
};
pub use source::Source;

use certificates::Shelf;
use diagnostic::{Problem, Report};
use section::Section;

/// A configuration without errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What it means.
    pub settings: Settings,
    /// What deserves a second look.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a configuration and every file that it names.
///
/// The same source over the same files gives the same settings, in any process.
///
/// # Errors
/// All that is wrong with it, and the warnings, in the order of their places.
pub fn load(source: &Source, files: &mut dyn Files) -> Result<Loaded, Vec<Diagnostic>> {
    let report = Report::new(match source {
        Source::File { place, text } => Some((place, text)),
        Source::Flags(_) => None,
    });
    let root = match source {
        Source::File { text, .. } => document::parse(text, &report),
        Source::Flags(flags) => Some(flags::parse(flags, &report)),
    };
    let mut shelf = Shelf {
        base: source.base(),
        files,
    };
    let settings = root.and_then(|root| {
        shape::check(&root, &report);
        settings(&Section::top(&root, &report), &mut shelf)
    });
    let failed = report.errors() > 0;
    let diagnostics = report.into_diagnostics();
    match settings {
        Some(settings) if !failed => Ok(Loaded {
            settings,
            warnings: diagnostics,
        }),
        _ => Err(diagnostics),
    }
}

fn settings(top: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<Settings> {
    let services = services::read(top, shelf);
    let workers = host::workers(&top.section("workers"), shelf);
    let limits = host::limits(&top.section("limits"));
    let log = host::log(&top.section("log"));
    let process = host::process(&top.section("process"), shelf);
    let control = host::control(top, shelf);
    let resumption = host::resumption(&top.section("resumption"));
    let settings = Settings {
        plane: Options {
            services: services?,
            workers: workers?,
            limits: limits?,
            log: log?,
        },
        process: process?,
        control: control?,
        resumption: resumption?,
    };
    admin_is_apart(top, &settings)?;
    Some(settings)
}

/// A service may not listen where the status page is served.
fn admin_is_apart(top: &Section<'_>, settings: &Settings) -> Option<()> {
    let listen = settings
        .control
        .listen
        .filter(|address| address.port() != 0);
    let Some(listen) = listen.map(Address::Ip) else {
        return Some(());
    };
    let taken = |service: &&proxy::options::ServiceOptions| service.front.listen.contains(&listen);
    let Some(service) = settings.plane.services.iter().find(taken) else {
        return Some(());
    };
    let problem = Problem::new(format!(
        "{listen} is already listened at by `{}`",
        service.name
    ));
    let hint = "give the status page a port of its own";
    top.section("admin").error("listen", problem.hint(hint));
    None
}
