//! What each command does, but for `demo`.
//!
//! Each returns how the program ends; what it says goes through `Console`, its data to the standard
//! output.

mod check;
mod control;
mod drain;
mod help;
mod manual;
mod reload;
mod running;
mod serve;
mod server;
mod status;
mod upgrade;

use std::process::ExitCode;

use crate::args::Command;
use crate::console::{Console, print};
use crate::demo;
use crate::exit::Exit;
use crate::messages;
use crate::reader::ConfigSource;
use crate::supervisor;

/// Says to a running lariat whether this program would serve in its place.
pub(crate) fn check_upgrade(config: &ConfigSource) -> ExitCode {
    let ended = supervisor::answer_check(|| check::errors(config));
    messages::end_of_helper("lariat: check", ended)
}

pub(crate) fn run(command: Command, console: Console) -> ExitCode {
    let exit = match command {
        Command::Help(topic) => {
            print(help::text(topic));
            Exit::Success
        }
        Command::HelpOnKeys(keys) => {
            let texts: Vec<_> = keys
                .iter()
                .map(|key| config::TABLE.entry_text(key))
                .collect();
            print(texts.join("\n"));
            Exit::Success
        }
        Command::Completion(shell) => manual::completion(shell),
        Command::Manual(page) => manual::page(page),
        Command::Version => {
            print(format_args!("lariat {}\n", env!("CARGO_PKG_VERSION")));
            Exit::Success
        }
        Command::Demo(options) => demo::run(options, console),
        Command::Serve(config) => serve::run(config, console),
        Command::Check(options) => check::run(&options, console),
        Command::Status { socket, json } => status::run(&socket, json, console),
        Command::Reload { socket, strict } => reload::run(&socket, strict, console),
        Command::Upgrade { socket } => upgrade::run(&socket, console),
        Command::Drain { socket } => drain::run(&socket, console),
        Command::Server {
            socket,
            change,
            name,
        } => server::run(&socket, change, &name, console),
        Command::WorkerProcess => return crate::worker_process::run(),
        Command::Reader => return crate::reader::run(),
        Command::Watcher => return crate::watcher::run(),
        Command::Resolver => return crate::resolve::run(),
    };
    exit.into()
}
