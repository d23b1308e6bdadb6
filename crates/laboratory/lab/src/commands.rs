//! Defines the commands of `lariat-lab` and runs the one that is named.
//!
//! Each command has a file: `load`, `probe` and `survey`, `origin`, `targets`, `host`, `run` (with
//! its arguments in `run_arguments`), `report` (with `compare`) and `self_test`, `plan` and
//! `simulate` (with their keys in `farm_question`); `values` serves several of them. A command
//! takes its own arguments and returns the exit code; it prints messages through `Console` and data
//! to the standard output.

mod farm_question;
mod host;
mod load;
mod origin;
mod plan;
mod probe;
mod report;
mod run;
mod run_arguments;
mod self_test;
mod simulate;
mod survey;
mod targets;
mod values;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use options::command_line::{SHELLS, help, manual_page, outcome, proposals, script};

use crate::console::{Console, print};
use crate::fault::{Exit, LabResult, unknown};
use crate::process;
use ::load::options::TABLE;

/// Load TLS servers, probe them, measure them, and compare them
#[derive(Debug, Parser)]
#[command(name = "lariat-lab", version, disable_help_subcommand = true, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<LaboratoryCommand>,
}

// The doc comment of a command is its help.
#[derive(Debug, Subcommand)]
enum LaboratoryCommand {
    Load(load::LoadArguments),
    Probe(probe::ProbeArguments),
    Survey(survey::SurveyArguments),
    Origin(origin::OriginArguments),
    // `peers` is its former name.
    #[command(alias = "peers")]
    Targets(targets::TargetsArguments),
    Host(host::HostArguments),
    Run(run_arguments::RunArguments),
    Report(report::ReportArguments),
    Compare(report::CompareArguments),
    SelfTest(self_test::SelfTestArguments),
    Plan(Box<plan::PlanArguments>),
    Simulate(Box<simulate::SimulateArguments>),

    /// Explain a command
    Help {
        /// The command; without one, all of them
        #[arg(value_name = "COMMAND", add = proposals(command_names))]
        name: Option<String>,
    },

    /// Complete commands in bash, zsh or fish
    ///
    /// Prints the script by which a shell asks lariat-lab for words. Packages bring them along.
    /// Without one, `source <(lariat-lab completion bash)` in ~/.bashrc, the same with zsh in
    /// ~/.zshrc after compinit, or `lariat-lab completion fish | source` in fish's config.fish.
    Completion {
        /// The shell
        #[arg(value_parser = SHELLS)]
        shell: String,
    },

    /// Print lariat-lab(1), as man reads it
    #[command(after_help = "For example: lariat-lab manual | man -l -")]
    Manual,

    /// Print the version
    Version,
}

/// The command line, for its help, its manual and completion.
pub(crate) fn command() -> clap::Command {
    let begin = "Begin with: lariat-lab load https://127.0.0.1:8443/";
    CommandLine::command()
        .after_help(format!("{begin}\n\nExit codes:\n{}", exit_codes()))
        .mut_subcommand("load", load::completed)
}

/// Returns the meaning of each exit code, a line each.
fn exit_codes() -> String {
    Exit::ALL.map(|(exit, help)| format!("  {}  {help}\n", exit as u8)).concat()
}

fn command_names() -> Vec<String> {
    CommandLine::command().get_subcommands().map(|one| one.get_name().to_owned()).collect()
}

/// Runs the command that the arguments (without the program's name) describe.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>, console: Console) -> Exit {
    let arguments: Vec<_> = arguments.into_iter().collect();
    // Not for users: this program as a guard, which starts another and outlives us to kill it.
    if arguments.first().is_some_and(|first| first == process::COMMAND) {
        process::run(arguments.into_iter().skip(1));
        return Exit::Success;
    }
    let ended = match parse(arguments) {
        Ok(Ok(command)) => dispatch(command, console),
        Ok(Err(text)) => print(text),
        Err(text) => {
            console.error(text);
            return Exit::Usage;
        }
    };
    ended.unwrap_or_else(|fault| {
        console.error(&fault);
        fault.exit
    })
}

/// Parses the command, or a text to print instead. A fault may have lines that begin with `hint: `.
fn parse(arguments: Vec<OsString>) -> Result<Result<LaboratoryCommand, String>, String> {
    let first = arguments.first().map(|first| first.to_string_lossy().into_owned());
    let first = first.unwrap_or_default();
    let line = [OsString::from("lariat-lab")].into_iter().chain(arguments);
    let matches = command().try_get_matches_from(line);
    match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(line) => Ok(Ok(line.command.unwrap_or(LaboratoryCommand::Help { name: None }))),
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand && first.contains("://") => {
            let first = first.escape_debug();
            Err(format!(
                "there is no command `{first}`\nhint: did you mean `lariat-lab load {first}`?"
            ))
        }
        Err(error) => outcome(&error, (first == "load").then_some(&TABLE), None).map(Err),
    }
}

fn dispatch(chosen: LaboratoryCommand, console: Console) -> LabResult<Exit> {
    match chosen {
        LaboratoryCommand::Load(arguments) => load::run(arguments, console),
        LaboratoryCommand::Probe(arguments) => probe::run(arguments, console),
        LaboratoryCommand::Survey(arguments) => survey::run(arguments, console),
        LaboratoryCommand::Origin(arguments) => origin::run(arguments, console),
        LaboratoryCommand::Targets(arguments) => targets::run(arguments, console),
        LaboratoryCommand::Host(arguments) => host::run(arguments, console),
        LaboratoryCommand::Run(arguments) => run::run(arguments, console),
        LaboratoryCommand::Report(arguments) => report::run(arguments, console),
        LaboratoryCommand::Compare(arguments) => report::compare(arguments, console),
        LaboratoryCommand::SelfTest(arguments) => self_test::run(arguments, console),
        LaboratoryCommand::Plan(arguments) => plan::run(*arguments, console),
        LaboratoryCommand::Simulate(arguments) => simulate::run(*arguments, console),
        LaboratoryCommand::Help { name } => print(explained(name.as_deref())?),
        LaboratoryCommand::Completion { shell } => print(script(&shell, "lariat-lab")),
        LaboratoryCommand::Manual => print(manual_page(
            command(),
            &[("EXIT STATUS", &exit_codes()), ("SEE ALSO", "lariat(1)")],
        )),
        LaboratoryCommand::Version => {
            print(concat!("lariat-lab ", env!("CARGO_PKG_VERSION"), "\n"))
        }
    }
}

fn explained(name: Option<&str>) -> LabResult<String> {
    help(&mut command(), name).ok_or_else(|| {
        let names = command_names();
        unknown("command", name.unwrap_or_default(), names.iter().map(String::as_str))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> String {
        let words = line.split_whitespace().map(OsString::from);
        let read = parse(words.collect()).map(|read| read.unwrap());
        let ended = read.and_then(|command| {
            dispatch(command, Console::to_stderr()).map_err(|error| error.to_string())
        });
        ended.unwrap_err()
    }

    #[test]
    fn the_commands_agree_with_each_other() {
        command().debug_assert();
    }

    #[test]
    fn slips_have_remedies() {
        for (line, remedy) in [
            ("laod", "a similar subcommand exists: 'load'"),
            ("help reprot", "did you mean `report`?"),
            ("https://host/", "did you mean `lariat-lab load https://host/`?"),
            ("--colour", "--colour"),
            ("report --outptu x", "a similar argument exists: '--output'"),
            ("report -o x --output y", "cannot be used multiple times"),
            ("host eth0", "unexpected argument 'eth0'"),
            ("load https://h/ --handshaek full", "exists: '--handshake'"),
            ("load --zzz", "--help` lists the flags"),
            ("load --rate", "for example: --rate 500"),
            ("load --plan a --plan b", "cannot be used multiple times"),
            ("load -x", "unexpected argument '-x'"),
            ("plan --rate -5/s", "a value below 0 is read as a flag"),
            ("load -k", "-k of curl is --verify off here"),
            ("load --insecure", "--insecure of curl is --verify off here"),
            ("load -c 10", "is --connections here"),
            ("load -d 10s", "-d of wrk is --duration here; for example: --duration "),
        ] {
            let fault = fault(line);
            assert!(fault.contains(remedy) && fault.contains("\nhint: "), "{line}: {fault}");
        }
    }

    #[test]
    fn every_command_is_explained() {
        let program = explained(None).unwrap();
        for name in command_names() {
            let text = explained(Some(&name)).unwrap();
            let usage = format!("Usage: lariat-lab {name}");
            assert!(text.contains(&usage), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
            assert!(program.contains(&format!("\n  {name} ")));
        }
        let load = explained(Some("load")).unwrap();
        for key in TABLE.keys.iter().filter(|key| key.path != "url") {
            assert!(load.contains(&format!("--{}", key.path)), "{}", key.path);
        }
    }

    #[test]
    fn flags_of_a_load_keep_their_values() {
        let words = "load https://h/ --rate=5 --early-data --no-request=false --plan p.toml -q";
        let read = parse(words.split(' ').map(OsString::from).collect());
        let text = format!("{:?}", read.unwrap().unwrap());
        for told in [
            "\"https://h/\"",
            "\"p.toml\"",
            "(\"rate\", \"5\")",
            "(\"early-data\", \"true\")",
            "(\"no-request\", \"false\")",
            "(\"quiet\", \"true\")",
        ] {
            assert!(text.contains(told), "{told} in {text}");
        }
    }
}
