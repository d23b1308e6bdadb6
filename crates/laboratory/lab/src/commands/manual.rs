//! `lariat-lab manual` and `lariat-lab completion`: what is made of the helps of all commands.

use load::options::TABLE;
use options::completion::Shell;
use options::manual::{self, Program};

use super::flags::Arguments;
use super::help;
use crate::console::{Console, print};
use crate::exit::Exit;
use crate::run::scenario;
use crate::usage::{UsageError, unknown};

/// Prints the script for a shell.
pub(super) fn complete(arguments: &Arguments, _: Console) -> Result<Exit, UsageError> {
    let texts = arguments.texts()?;
    let [name] = texts.as_slice() else {
        return Err(UsageError::new(
            "completion takes the name of one shell",
            "for example: lariat-lab completion bash",
        ));
    };
    let names = Shell::ALL.map(|(name, _)| name);
    let shell = Shell::named(name).ok_or_else(|| unknown("completion for", name, names))?;
    Ok(with_program(|program| print(program.completion(shell))))
}

pub(super) fn run(_: &Arguments, _: Console) -> Result<Exit, UsageError> {
    Ok(with_program(|program| print(program.manual_page())))
}

fn with_program(act: impl FnOnce(&Program<'_>) -> Exit) -> Exit {
    let read = |help, table| manual::Command::read("lariat-lab", help, table);
    let load = help::load();
    let mut commands = vec![read(&load, Some(&TABLE))];
    commands.extend(help::TABLES.map(|command| read(command.help, None)));
    let names: Vec<_> = commands.iter().map(|command| command.name).collect();
    let scenarios = scenario::list(None).unwrap_or_default();
    for command in &mut commands {
        if command.name == "run" {
            command
                .words
                .extend(scenarios.iter().map(|one| one.name.as_str()));
        }
    }
    let mut explain = read(
        "lariat-lab help: explain a command\n\n  lariat-lab help COMMAND\n",
        None,
    );
    explain.words = names;
    commands.push(explain);
    commands.push(read("lariat-lab version: print the version\n", None));
    act(&Program {
        name: "lariat-lab",
        version: env!("CARGO_PKG_VERSION"),
        purpose: "loads TLS servers, probes them, measures them, and compares them",
        commands,
        sections: &[
            ("Exit status", &help::exit_codes()),
            ("See also", "lariat(1)\n"),
        ],
    })
}
