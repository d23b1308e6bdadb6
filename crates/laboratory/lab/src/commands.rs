//! The commands by their names.
//!
//! Each reads its own arguments and returns how the program ends; what it says goes through
//! `Talk`, its data to the standard output.

mod compare;
mod help;
mod host;
mod load;
mod origin;
mod report;
mod run;
mod targets;

use std::ffi::OsString;

use lexopt::{Arg, Parser};

use crate::exit::Exit;
use crate::process::guard;
use crate::talk::{Talk, print};
use crate::usage::{UsageError, nearest};

/// What `help` and a mistyped command look among.
const NAMES: [&str; 9] = [
    "compare", "host", "load", "origin", "targets", "report", "run", "help", "version",
];

/// Does what the arguments say, which come without the program's name.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>, talk: Talk) -> Exit {
    dispatch(&mut Parser::from_args(arguments), talk).unwrap_or_else(|error| {
        talk.error(error);
        Exit::Usage
    })
}

fn dispatch(parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    match parser.next()? {
        None | Some(Arg::Short('h') | Arg::Long("help")) => Ok(print(help::program())),
        Some(Arg::Short('V') | Arg::Long("version")) => Ok(print_version()),
        Some(Arg::Value(name)) => command(&name.to_string_lossy(), parser, talk),
        Some(other) => Err(other.unexpected().into()),
    }
}

fn command(name: &str, parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    match name {
        "compare" => compare::run(parser, talk),
        "help" => explain(parser),
        "host" => host::run(parser, talk),
        "load" => load::run(parser, talk),
        "origin" => origin::run(parser, talk),
        // `peers` is its former name.
        "targets" | "peers" => targets::run(parser, talk),
        "report" => report::run(parser, talk),
        "run" => run::run(parser, talk),
        guard::COMMAND => Ok(guarded(parser)?),
        "version" => Ok(print_version()),
        _ => Err(unknown(name)),
    }
}

/// Not for users: a program that we start is started by this one, which outlives us to end it.
fn guarded(parser: &mut Parser) -> Result<Exit, UsageError> {
    guard::run(parser.raw_args()?);
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
    match nearest(name, NAMES) {
        Some(near) => UsageError::new(message, format!("did you mean `lariat-lab {near}`?")),
        None => UsageError::new(message, "`lariat-lab help` lists the commands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> String {
        let words = line.split_whitespace().map(OsString::from);
        let mut parser = Parser::from_args(words);
        let error = dispatch(&mut parser, Talk::to_stderr()).unwrap_err();
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
        for name in [
            "compare", "host", "load", "origin", "targets", "report", "run",
        ] {
            let text = help::command(name).unwrap();
            assert!(text.starts_with(&format!("lariat-lab {name}: ")), "{text}");
            assert!(help::program().contains(&format!("  lariat-lab {name} ")));
        }
    }
}
