//! `lariat-lab targets`: which programs can be put under test here, and how the others are had.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use options::command_line::proposals;

use super::values::BuildArguments;
use crate::console::{Console, print};
use crate::fault::{Exit, LabFault, LabResult, unknown};
use crate::process::scratch::Scratch;
use crate::run::scenario as scenarios;
use crate::targets;
use crate::targets::form::TestTarget;
use crate::targets::program::{self, Builds, PackageRoot, TargetProgram};

/// List and install the programs that can be measured
///
/// Lists all there are, or those that are named and those of the scenarios that are named: what
/// each is, where it lies, whose build it is, and what it prints about its version and its TLS
/// library; then what there is in each root. Exit code 6: some are missing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lariat-lab targets --install implementations
  lariat-lab targets --install --suite sid
  lariat-lab targets haproxy-tcp --program haproxy-tcp=/opt/haproxy-3.2/sbin/haproxy")]
pub(super) struct TargetsArguments {
    /// Targets, and scenarios that have some
    #[arg(value_name = "TARGET|SCENARIO", add = proposals(names))]
    words: Vec<String>,
    /// Install the Debian packages of those that are missing (apt-get, with sudo unless root);
    /// servers of the packages are not started. With --suite, make the root of that suite
    /// (mmdebstrap, from the mirror of this host's apt) unless all of them are in it
    #[arg(long)]
    install: bool,
    /// An option for the apt that fills a root, as apt.conf has it; may be given again
    #[arg(long, value_name = "TEXT")]
    apt_option: Vec<String>,
    #[command(flatten)]
    builds: BuildArguments,
}

/// Words that stand for targets.
fn names() -> Vec<String> {
    let all = targets::load_all(None).unwrap_or_default();
    let scenarios = scenarios::list(None).unwrap_or_default();
    let all = all.into_iter().map(|target| target.name);
    all.chain(scenarios.into_iter().map(|one| one.name)).collect()
}

struct TargetRow<'p> {
    target: &'p TestTarget,
    found: LabResult<(TargetProgram, Vec<String>)>,
}

/// Lists every target, those that are named or those of a scenario, and installs what is missing if
/// it is asked to.
pub(super) fn run(arguments: TargetsArguments, console: Console) -> LabResult<Exit> {
    let all = targets::load_all(arguments.builds.target_folder.as_deref())?;
    let installs = arguments.install;
    let builds = Builds { programs: programs(&arguments.builds, &all)?, ..Builds::default() };
    let chosen = chosen(&all, &arguments.words)?;
    if let Some(suite) = arguments.builds.suite.as_deref().filter(|_| installs) {
        make_root(suite, &arguments, &chosen, &builds, console)?;
    }
    let builds = with_root(builds, &arguments.builds)?;
    if installs && builds.root.is_none() {
        install_missing(&chosen, &builds, console)?;
    }
    let rows: Vec<_> = chosen.iter().map(|target| look(target, &builds)).collect();
    let mut text = table(&rows);
    if builds.root.is_none() {
        text += &tables_of_roots(&chosen, &builds);
    }
    let exit = print(text)?;
    let missing = rows.iter().filter_map(|row| row.found.as_ref().err());
    let hints: BTreeSet<_> = missing.map(|missing| missing.hint.as_str()).collect();
    for hint in &hints {
        console.hint(hint);
    }
    Ok(if hints.is_empty() { exit } else { Exit::Partial })
}

/// Programs that were named, of targets that there are.
pub(super) fn programs(
    arguments: &BuildArguments,
    all: &[TestTarget],
) -> LabResult<BTreeMap<String, PathBuf>> {
    let named = arguments.program.iter().map(|(name, path)| {
        check_name(name, all)?;
        Ok((name.clone(), PathBuf::from(path)))
    });
    named.collect()
}

pub(super) fn check_name(name: &str, all: &[TestTarget]) -> LabResult<()> {
    let names = all.iter().map(|target| target.name.as_str());
    if names.clone().any(|known| known == name) {
        Ok(())
    } else {
        Err(unknown("target", name, names))
    }
}

/// The builds, with the root that was chosen.
pub(super) fn with_root(builds: Builds, arguments: &BuildArguments) -> LabResult<Builds> {
    let roots = roots(arguments)?;
    let root = match (&arguments.suite, &arguments.root) {
        (Some(suite), _) => Some(program::of_suite(suite, &roots)),
        (None, Some(path)) => Some(program::at(path)),
        (None, None) => None,
    };
    Ok(Builds { root: root.transpose()?, roots, ..builds })
}

fn roots(arguments: &BuildArguments) -> LabResult<PathBuf> {
    program::folder(arguments.root_folder.clone())
}

/// Makes the root of the suite if it lacks any of these targets.
fn make_root(
    suite: &str,
    arguments: &TargetsArguments,
    chosen: &[&TestTarget],
    builds: &Builds,
    console: Console,
) -> LabResult<()> {
    let folder = roots(&arguments.builds)?;
    program::place(suite, &folder)?;
    let is_whole = |root: PackageRoot| {
        let builds = Builds { root: Some(root), ..builds.clone() };
        chosen.iter().all(|target| builds.find(target).is_ok())
    };
    if program::of_suite(suite, &folder).is_ok_and(is_whole) {
        return Ok(());
    }
    let packages = chosen.iter().flat_map(|one| &one.form.packages).map(String::as_str);
    let packages: BTreeSet<_> = packages.chain(["openssl"]).collect();
    let packages: Vec<_> = packages.into_iter().collect();
    console.say(format_args!("making a root of {suite} with {}", packages.join(", ")));
    program::make(suite, &folder, &packages, &arguments.apt_option)
}

fn chosen<'p>(all: &'p [TestTarget], words: &[String]) -> LabResult<Vec<&'p TestTarget>> {
    if words.is_empty() {
        return Ok(all.iter().collect());
    }
    let scenarios = scenarios::list(None).unwrap_or_default();
    let names = all.iter().map(|target| target.name.as_str());
    let mut wanted = Vec::new();
    for word in words {
        let scenario = scenarios.iter().find(|scenario| scenario.name == *word);
        match scenario.and_then(|scenario| scenario.form().ok()) {
            Some(form) => wanted.extend(form.target_names().cloned()),
            None if names.clone().any(|name| name == word) => wanted.push(word.clone()),
            None => return Err(unknown("target or scenario", word, names)),
        }
    }
    let is_wanted = |target: &&TestTarget| wanted.contains(&target.name);
    Ok(all.iter().filter(is_wanted).collect())
}

fn install_missing(targets: &[&TestTarget], builds: &Builds, console: Console) -> LabResult<()> {
    let missing = targets.iter().filter(|target| {
        !builds.programs.contains_key(&target.name) && builds.find(target).is_err()
    });
    let packages: BTreeSet<_> = missing.flat_map(|target| &target.form.packages).collect();
    let packages: Vec<_> = packages.into_iter().map(String::as_str).collect();
    if packages.is_empty() {
        return Ok(());
    }
    console.say(format_args!("installing {}", packages.join(", ")));
    program::install(packages.iter().copied()).map_err(|fault| {
        LabFault::failed(fault, format_args!("as root: apt-get install {}", packages.join(" ")))
    })
}

fn look<'p>(target: &'p TestTarget, builds: &Builds) -> TargetRow<'p> {
    let found = builds.find(target).map(|program| {
        let may_run = program.root.is_none() || sys::process::is_root();
        let lines = if may_run {
            versions(target, &program)
        } else {
            vec!["only root can run it there".to_owned()]
        };
        (program, lines)
    });
    TargetRow { target, found }
}

/// Targets that are in roots, by their packages: none of them is run.
fn tables_of_roots(targets: &[&TestTarget], builds: &Builds) -> String {
    let mut text = String::new();
    for root in program::list(&builds.roots) {
        text += &format!("\nroot {} ({})\n", root.name, root.path.display());
        let of_root = Builds { root: Some(root), ..Builds::default() };
        let packaged = targets.iter().filter(|target| !target.form.packages.is_empty());
        let rows = packaged.map(|target| TargetRow {
            target,
            found: of_root.find(target).map(|program| (program, Vec::new())),
        });
        text += &table(&rows.collect::<Vec<_>>());
    }
    text
}

fn versions(target: &TestTarget, program: &TargetProgram) -> Vec<String> {
    match Scratch::new() {
        Ok(scratch) => program::version_lines(target, program, scratch.path()),
        Err(fault) => vec![fault.message],
    }
}

fn table(rows: &[TargetRow<'_>]) -> String {
    let width = rows.iter().map(|row| row.target.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut line = |name: &str, words: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:width$}  {words}");
    };
    for row in rows {
        line(&row.target.name, &row.target.form.title);
        match &row.found {
            Ok((program, lines)) => {
                line("", &place(&program.path, program));
                for version in lines {
                    line("", version);
                }
            }
            Err(missing) => line("", &missing.message),
        }
    }
    text
}

fn place(path: &Path, program: &TargetProgram) -> String {
    format!("{} ({})", path.display(), program.from)
}
