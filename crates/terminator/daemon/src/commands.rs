//! The commands of the program: `args` reads the command line.
//!
//! `serve`, `hitch` and `demo` run a supervisor in this process; `check` looks at a configuration.
//! `operate` has the commands about the lariat that runs, which `control` asks and signals. Each
//! returns how the program ends; what it says goes through `console`, its data to the standard
//! output.

pub(crate) mod args;
mod check;
pub(crate) mod console;
mod control;
mod demo;
mod ech;
mod habits;
mod help;
mod hitch;
mod import;
mod operate;
mod serve;

use std::process::ExitCode;

use crate::certificates::CertificateChange;
use crate::named_servers::ChangeWord;
use crate::reader::ConfigSource;
use crate::{messages, supervisor};

use args::{CertificateAction, EchAction, TerminatorCommand as Command};
use console::{Console, Exit, print};
use control::ControlError;
use demo::DemoOptions;

/// Says to a running lariat whether this program would serve in its place.
pub(crate) fn check_upgrade(config: &ConfigSource) -> ExitCode {
    let ended = supervisor::answer_check(|| check::errors(config));
    messages::end_of_helper("lariat: check", ended)
}

/// How the program ends; or what is wrong with its arguments, with lines that begin with `hint: `.
pub(crate) fn run(command: Command, console: Console) -> Result<ExitCode, String> {
    let told = |text: String| {
        print(text);
        Exit::Success
    };
    let ordered = |ended: Result<Exit, ControlError>| -> Exit {
        ended.unwrap_or_else(|error| error.tell(console))
    };
    let exit = match command {
        Command::Text(text) => told(text),
        Command::Help { name } => told(help::text(name.as_deref())?),
        Command::Completion { shell } => told(options::command_line::script(&shell, "lariat")),
        Command::Manual { page } => told(help::page(&page)),
        Command::Version => {
            let fips = if tls::fips::is_on() { " (FIPS)" } else { "" };
            told(format!("lariat {}{fips}\n", env!("CARGO_PKG_VERSION")))
        }
        Command::Demo { listen, admin } => demo::run(DemoOptions { listen, admin }, console),
        Command::Serve(arguments) => serve::run(arguments.source_to_serve()?, console),
        Command::Hitch { words } => hitch::run(words, console),
        Command::Ech { action: EchAction::Show { config, json } } => {
            ech::show(config, json, console)?
        }
        Command::Check(options) => check::run(options, console)?,
        Command::Import { kind, files, output } => {
            import::run(kind, &files, output.as_deref(), console)
        }
        Command::Status { socket, json } => ordered(operate::status(&socket.into(), json, console)),
        Command::Reload { socket, strict } => {
            ordered(operate::reload(&socket.into(), strict, console))
        }
        Command::Upgrade(socket) => ordered(operate::upgrade(&socket.into(), console)),
        Command::Drain(socket) => ordered(operate::drain(&socket.into(), console)),
        Command::Server { word, name, mut weight, close, mut socket } => {
            if word != ChangeWord::Weight {
                socket = socket.with_file(&mut weight);
            }
            match word.with(weight.as_deref(), close) {
                Ok(change) => {
                    ordered(operate::change_server(&socket.into(), change, &name, console))
                }
                Err(fault) => {
                    console.error(fault);
                    console.hint("for example: lariat server weight web/10.0.0.3:80 10");
                    Exit::Usage
                }
            }
        }
        Command::Certificate { action } => ordered(match action {
            CertificateAction::List { json, socket } => {
                operate::list_certificates(&socket.into(), json, console)
            }
            CertificateAction::Renew { name, socket } => {
                let renew = CertificateChange::Renew;
                operate::change_certificate(&socket.into(), renew, &name, console)
            }
            CertificateAction::Revoke { name, socket } => {
                let revoke = CertificateChange::Revoke;
                operate::change_certificate(&socket.into(), revoke, &name, console)
            }
        }),
        Command::WorkerProcess => return Ok(crate::worker_process::run()),
        Command::Reader => return Ok(crate::reader::run()),
        Command::Watcher => return Ok(crate::watcher::run()),
        Command::Acme => return Ok(crate::acme_process::run()),
        Command::Keys => return Ok(crate::key_process::run()),
        Command::Resolver => return Ok(crate::resolve::run()),
    };
    Ok(console::unless_cut(exit).into())
}
