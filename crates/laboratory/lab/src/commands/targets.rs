//! `lariat-lab targets`: which programs can be put under test here, and how the others are had.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use lexopt::{Arg, Parser, ValueExt};

use super::help;
use crate::exit::Exit;
use crate::process::scratch::Scratch;
use crate::scenario::catalogue as scenarios;
use crate::talk::{Talk, print};
use crate::target::catalogue::{self, CatalogueFault};
use crate::target::form::Target;
use crate::target::install;
use crate::target::program::{self, Missing, Program};
use crate::usage::{UsageError, nearest};

/// Flags, for slips.
const FLAGS: [&str; 4] = ["install", "target-folder", "program", "help"];

/// What was typed.
#[derive(Debug, Default)]
struct Typed {
    help: bool,
    install: bool,
    folder: Option<PathBuf>,
    programs: BTreeMap<String, PathBuf>,
    names: Vec<String>,
}

/// A target and what was found of it.
struct Row<'p> {
    target: &'p Target,
    found: Result<(Program, Vec<String>), Missing>,
}

/// Tells of every target, of those that are named or of those of a scenario, and installs what is
/// missing if it is asked to.
pub(super) fn run(parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    let typed = read(parser)?;
    if typed.help {
        return Ok(print(help::command("targets").unwrap_or_default()));
    }
    let all = match catalogue::load_all(typed.folder.as_deref()) {
        Ok(targets) => targets,
        Err(fault) => return Ok(tell_fault(&fault, talk)),
    };
    let chosen = chosen(&all, &typed)?;
    if typed.install && !install_missing(&chosen, &typed, talk) {
        return Ok(Exit::Failed);
    }
    let rows: Vec<_> = chosen.iter().map(|target| look(target, &typed)).collect();
    let exit = print(table(&rows));
    let missing = rows.iter().filter_map(|row| row.found.as_ref().err());
    let hints: std::collections::BTreeSet<_> = missing.map(Missing::hint).collect();
    for hint in &hints {
        talk.hint(hint);
    }
    Ok(match hints.is_empty() {
        true => exit,
        false => Exit::Partial,
    })
}

fn tell_fault(fault: &CatalogueFault, talk: Talk) -> Exit {
    talk.error(fault);
    talk.hint("--target-folder names a folder with a folder for each target, as targets/ is one");
    Exit::Usage
}

fn chosen<'p>(all: &'p [Target], typed: &Typed) -> Result<Vec<&'p Target>, UsageError> {
    let by_name = |name: &String| {
        let names = || all.iter().map(|target| target.name.as_str());
        all.iter()
            .find(|target| target.name == *name)
            .ok_or_else(|| {
                let hint = match nearest(name, names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
                };
                UsageError::new(
                    format!("there is no target or scenario `{}`", name.escape_debug()),
                    hint,
                )
            })
    };
    for name in typed.programs.keys() {
        by_name(name)?;
    }
    if typed.names.is_empty() {
        return Ok(all.iter().collect());
    }
    let scenarios = scenarios::list(None).unwrap_or_default();
    let mut wanted = Vec::new();
    for name in &typed.names {
        let scenario = scenarios.iter().find(|scenario| scenario.name == *name);
        match scenario.and_then(|scenario| scenario.form().ok()) {
            Some(form) => wanted.extend(form.file.targets),
            None => wanted.push(by_name(name)?.name.clone()),
        }
    }
    Ok(all
        .iter()
        .filter(|target| wanted.contains(&target.name))
        .collect())
}

fn install_missing(targets: &[&Target], typed: &Typed, talk: Talk) -> bool {
    let given = |target: &Target| typed.programs.contains_key(&target.name);
    let missing = targets.iter().filter(|target| !given(target));
    let missing = missing.filter(|target| program::find(target, None).is_err());
    let mut packages: Vec<_> = missing
        .flat_map(|target| target.form.packages.clone())
        .collect();
    packages.sort();
    packages.dedup();
    if packages.is_empty() {
        return true;
    }
    talk.say(format_args!("installing {}", packages.join(", ")));
    match install::install(&packages) {
        Ok(()) => true,
        Err(fault) => {
            talk.error(&fault);
            let list = packages.join(" ");
            talk.hint(format_args!("as root: apt-get install {list}"));
            false
        }
    }
}

fn look<'p>(target: &'p Target, typed: &Typed) -> Row<'p> {
    let given = typed.programs.get(&target.name).map(PathBuf::as_path);
    let found = program::find(target, given).map(|program| {
        let lines = versions(target, &program);
        (program, lines)
    });
    Row { target, found }
}

/// What it says; or why it says nothing, which is told in its place.
fn versions(target: &Target, program: &Program) -> Vec<String> {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(fault) => return vec![fault.to_string()],
    };
    let said = program::version_lines(target, program, scratch.path());
    said.unwrap_or_else(|fault| vec![fault.to_string()])
}

fn table(rows: &[Row<'_>]) -> String {
    let width = rows.iter().map(|row| row.target.name.len()).max();
    let width = width.unwrap_or(0);
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
            Err(missing) => line("", &missing.to_string()),
        }
    }
    text
}

fn place(path: &Path, program: &Program) -> String {
    format!("{} ({})", path.display(), program.from)
}

fn read(parser: &mut Parser) -> Result<Typed, UsageError> {
    let mut typed = Typed::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => typed.help = true,
            Arg::Long("install") => typed.install = true,
            Arg::Long("target-folder") => typed.folder = Some(parser.value()?.into()),
            Arg::Long("program") => {
                let (name, path) = named_program(&parser.value()?.string()?)?;
                typed.programs.insert(name, path);
            }
            Arg::Value(name) => typed.names.push(name.string()?),
            Arg::Long(flag) => return Err(unknown(flag)),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(typed)
}

/// `NAME=PATH`.
fn named_program(text: &str) -> Result<(String, PathBuf), UsageError> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), path.into()))
        }
        _ => Err(UsageError::new(
            format!("--program {} names no target and path", text.escape_debug()),
            "for example: --program haproxy-tcp=/opt/haproxy/sbin/haproxy",
        )),
    }
}

fn unknown(flag: &str) -> UsageError {
    let hint = match nearest(flag, FLAGS) {
        Some(near) => format!("did you mean `--{near}`?"),
        None => "`lariat-lab help targets` lists the flags".to_owned(),
    };
    UsageError::new(format!("there is no flag --{}", flag.escape_debug()), hint)
}
