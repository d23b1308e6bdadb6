//! The commands of the program: `args` reads the command line, and each command has a file of its
//! name.
//!
//! `serve` and `demo` run a supervisor in this process; `check` looks at a configuration. `status`,
//! `reload`, `upgrade`, `drain`, `server` and `certificate` are about the lariat that runs, which
//! `control` asks and signals. Each returns how the program ends (`exit`); what it says goes
//! through `console`, its data to the standard output.

pub(crate) mod args;
mod certificate;
mod check;
pub(crate) mod console;
mod control;
mod demo;
mod drain;
mod ech;
pub(crate) mod exit;
mod habits;
mod help;
mod hitch;
mod import;
mod reload;
mod running;
mod serve;
mod server;
mod status;
mod upgrade;

use std::process::ExitCode;

use crate::certificates::CertificateChange;
use crate::maintenance::ChangeWord;
use crate::messages;
use crate::reader::ConfigSource;
use crate::supervisor;

use args::{CertificateAction, EchAction, TerminatorCommand as Command};
use console::{Console, print};
use demo::DemoOptions;
use exit::Exit;

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
    let exit = match command {
        Command::Text(text) => told(text),
        Command::Help { name } => told(help::text(name.as_deref())?),
        Command::Completion { shell } => told(options::command_line::script(&shell, "lariat")),
        Command::Manual { page } => told(help::page(&page)),
        Command::Version => {
            let fips = if tls::policy::is_fips() { " (FIPS)" } else { "" };
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
        Command::Status { socket, json } => status::run(&socket.into(), json, console),
        Command::Reload { socket, strict } => reload::run(&socket.into(), strict, console),
        Command::Upgrade(socket) => upgrade::run(&socket.into(), console),
        Command::Drain(socket) => drain::run(&socket.into(), console),
        Command::Server { word, name, mut weight, close, mut socket } => {
            if word != ChangeWord::Weight {
                socket = socket.with_file(&mut weight);
            }
            match word.with(weight.as_deref(), close) {
                Ok(change) => server::run(&socket.into(), change, &name, console),
                Err(fault) => {
                    console.error(fault);
                    console.hint("for example: lariat server weight web/10.0.0.3:80 10");
                    Exit::Usage
                }
            }
        }
        Command::Certificate { action } => match action {
            CertificateAction::List { json, socket } => {
                certificate::list(&socket.into(), json, console)
            }
            CertificateAction::Renew { name, socket } => {
                certificate::change(&socket.into(), CertificateChange::Renew, &name, console)
            }
            CertificateAction::Revoke { name, socket } => {
                certificate::change(&socket.into(), CertificateChange::Revoke, &name, console)
            }
        },
        Command::WorkerProcess => return Ok(crate::worker_process::run()),
        Command::Reader => return Ok(crate::reader::run()),
        Command::Watcher => return Ok(crate::watcher::run()),
        Command::Acme => return Ok(crate::acme_process::run()),
        Command::Keys => return Ok(crate::key_process::run()),
        Command::Resolver => return Ok(crate::resolve::run()),
    };
    Ok(console::unless_cut(exit).into())
}
