//! The commands by their names.
//!
//! Each reads its own arguments and returns how the program ends; what it says goes through
//! `Console`, its data to the standard output.

mod compare;
mod flags;
mod help;
mod host;
mod load;
mod manual;
mod origin;
mod probe;
mod report;
mod run;
mod run_arguments;
mod survey;
mod targets;

use std::ffi::OsString;

use lexopt::{Arg, Parser};

use crate::console::{Console, print};
use crate::exit::Exit;
use crate::process;
use crate::usage::{UsageError, did_you_mean};

use flags::Arguments;
use help::TABLES;

/// Does what the arguments say, which come without the program's name.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>, console: Console) -> Exit {
    dispatch(&mut Parser::from_args(arguments), console).unwrap_or_else(|error| {
        console.error(error);
        Exit::Usage
    })
}

fn dispatch(parser: &mut Parser, console: Console) -> Result<Exit, UsageError> {
    match parser.next()? {
        None | Some(Arg::Short('h') | Arg::Long("help")) => Ok(print(help::program())),
        Some(Arg::Short('V') | Arg::Long("version")) => Ok(print_version()),
        Some(Arg::Value(name)) => command(&name.to_string_lossy(), parser, console),
        Some(other) => Err(other.unexpected().into()),
    }
}

fn command(name: &str, parser: &mut Parser, console: Console) -> Result<Exit, UsageError> {
    let (table, run): (_, fn(&Arguments, Console) -> _) = match name {
        "compare" => (&compare::COMMAND, compare::run),
        "completion" => (&help::COMPLETION, manual::complete),
        "host" => (&host::COMMAND, host::run),
        "manual" => (&help::MANUAL, manual::run),
        "origin" => (&origin::COMMAND, origin::run),
        "probe" => (&probe::COMMAND, probe::run),
        "report" => (&report::COMMAND, report::run),
        "survey" => (&survey::COMMAND, survey::run),
        // `peers` is its former name.
        "targets" | "peers" => (&targets::COMMAND, targets::run),
        "help" => return explain(parser),
        "load" => return load::run(parser, console),
        "run" => return run::run(parser, console),
        process::COMMAND => return guarded(parser),
        "version" => return Ok(print_version()),
        _ => return Err(unknown(name)),
    };
    match table.parse(parser)? {
        Ok(arguments) => run(&arguments, console),
        Err(exit) => Ok(exit),
    }
}

/// Not for users: a program that we start is started by this one, which outlives us to end it.
fn guarded(parser: &mut Parser) -> Result<Exit, UsageError> {
    process::run(parser.raw_args()?);
    Ok(Exit::Success)
}

fn print_version() -> Exit {
    print(format_args!("lariat-lab {}\n", env!("CARGO_PKG_VERSION")))
}

fn explain(parser: &mut Parser) -> Result<Exit, UsageError> {
    match parser.next()? {
        None => Ok(print(help::program())),
        Some(Arg::Value(name)) => {
            let name = name.to_string_lossy();
            Ok(print(help::command(&name).ok_or_else(|| unknown(&name))?))
        }
        Some(other) => Err(other.unexpected().into()),
    }
}

fn unknown(name: &str) -> UsageError {
    let message = format!("there is no command `{}`", name.escape_debug());
    if name.contains("://") {
        let hint = format!("did you mean `lariat-lab load {}`?", name.escape_debug());
        return UsageError::new(message, hint);
    }
    let names = TABLES.map(|command| command.name);
    let names = names.into_iter().chain(["load", "help", "version"]);
    let near = did_you_mean(name, names, "lariat-lab ");
    let listed = || "`lariat-lab help` lists the commands".to_owned();
    UsageError::new(message, near.unwrap_or_else(listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> String {
        let words = line.split_whitespace().map(OsString::from);
        let mut parser = Parser::from_args(words);
        let error = dispatch(&mut parser, Console::to_stderr()).unwrap_err();
        error.to_string()
    }

    #[test]
    fn slips_have_remedies() {
        assert!(fault("laod").contains("did you mean `lariat-lab load`?"));
        assert!(fault("help reprot").contains("did you mean `lariat-lab report`?"));
        assert!(fault("https://host/").contains("did you mean `lariat-lab load https://host/`?"));
        assert!(fault("--colour").contains("--colour"));
    }

    #[test]
    fn every_command_is_explained() {
        for name in TABLES
            .map(|command| command.name)
            .into_iter()
            .chain(["load"])
        {
            let text = help::command(name).unwrap();
            assert!(text.starts_with(&format!("lariat-lab {name}: ")), "{text}");
            assert!(help::program().contains(&format!("  lariat-lab {name} ")));
        }
    }
}
