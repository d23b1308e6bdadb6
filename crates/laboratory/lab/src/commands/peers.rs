//! `lariat-lab peers`: which programs can be put under test here, and how the others are had.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use lexopt::{Arg, Parser, ValueExt};

use super::help;
use crate::exit::Exit;
use crate::peer::catalogue::{self, CatalogueFault};
use crate::peer::form::Peer;
use crate::peer::install;
use crate::peer::program::{self, Missing, Program};
use crate::process::scratch::Scratch;
use crate::scenario::catalogue as scenarios;
use crate::talk::{Talk, print};
use crate::usage::{UsageError, nearest};

/// Flags, for slips.
const FLAGS: [&str; 4] = ["install", "peer-folder", "program", "help"];

/// What was typed.
#[derive(Debug, Default)]
struct Typed {
    help: bool,
    install: bool,
    folder: Option<PathBuf>,
    programs: BTreeMap<String, PathBuf>,
    names: Vec<String>,
}

/// A peer and what was found of it.
struct Row<'p> {
    peer: &'p Peer,
    found: Result<(Program, Vec<String>), Missing>,
}

/// Tells of every peer, of those that are named or of those of a scenario, and installs what is
/// missing if it is asked to.
pub(super) fn run(parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    let typed = read(parser)?;
    if typed.help {
        return Ok(print(help::command("peers").unwrap_or_default()));
    }
    let all = match catalogue::load_all(typed.folder.as_deref()) {
        Ok(peers) => peers,
        Err(fault) => return Ok(tell_fault(&fault, talk)),
    };
    let chosen = chosen(&all, &typed)?;
    if typed.install && !install_missing(&chosen, &typed, talk) {
        return Ok(Exit::Failed);
    }
    let rows: Vec<_> = chosen.iter().map(|peer| look(peer, &typed)).collect();
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
    talk.hint("--peer-folder names a folder with a folder for each peer, as peers/ is one");
    Exit::Usage
}

fn chosen<'p>(all: &'p [Peer], typed: &Typed) -> Result<Vec<&'p Peer>, UsageError> {
    let by_name = |name: &String| {
        let names = || all.iter().map(|peer| peer.name.as_str());
        all.iter().find(|peer| peer.name == *name).ok_or_else(|| {
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
            };
            UsageError::new(
                format!("there is no peer or scenario `{}`", name.escape_debug()),
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
            Some(form) => wanted.extend(form.file.peers),
            None => wanted.push(by_name(name)?.name.clone()),
        }
    }
    Ok(all
        .iter()
        .filter(|peer| wanted.contains(&peer.name))
        .collect())
}

fn install_missing(peers: &[&Peer], typed: &Typed, talk: Talk) -> bool {
    let given = |peer: &Peer| typed.programs.contains_key(&peer.name);
    let missing = peers.iter().filter(|peer| !given(peer));
    let missing = missing.filter(|peer| program::find(peer, None).is_err());
    let mut packages: Vec<_> = missing
        .flat_map(|peer| peer.form.packages.clone())
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

fn look<'p>(peer: &'p Peer, typed: &Typed) -> Row<'p> {
    let given = typed.programs.get(&peer.name).map(PathBuf::as_path);
    let found = program::find(peer, given).map(|program| {
        let lines = versions(peer, &program);
        (program, lines)
    });
    Row { peer, found }
}

/// What it says; or why it says nothing, which is told in its place.
fn versions(peer: &Peer, program: &Program) -> Vec<String> {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(fault) => return vec![fault.to_string()],
    };
    let said = program::version_lines(peer, program, scratch.path());
    said.unwrap_or_else(|fault| vec![fault.to_string()])
}

fn table(rows: &[Row<'_>]) -> String {
    let width = rows.iter().map(|row| row.peer.name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    let mut line = |name: &str, words: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:width$}  {words}");
    };
    for row in rows {
        line(&row.peer.name, &row.peer.form.title);
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
            Arg::Long("peer-folder") => typed.folder = Some(parser.value()?.into()),
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
            format!("--program {} names no peer and path", text.escape_debug()),
            "for example: --program haproxy-tcp=/opt/haproxy/sbin/haproxy",
        )),
    }
}

fn unknown(flag: &str) -> UsageError {
    let hint = match nearest(flag, FLAGS) {
        Some(near) => format!("did you mean `--{near}`?"),
        None => "`lariat-lab help peers` lists the flags".to_owned(),
    };
    UsageError::new(format!("there is no flag --{}", flag.escape_debug()), hint)
}
