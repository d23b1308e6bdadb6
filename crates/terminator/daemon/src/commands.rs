//! What each command does, but for `demo`.
//!
//! Each returns how the program ends; what it says goes through `Talk`, its data to the standard
//! output.

mod check;
mod drain;
mod help;
mod peer;
mod reload;
mod serve;
mod status;

use std::process::ExitCode;

use crate::args::Command;
use crate::demo;
use crate::exit::Exit;
use crate::talk::{Talk, print};

/// Does it.
pub(crate) fn run(command: Command, talk: Talk) -> ExitCode {
    let exit = match command {
        Command::Help(topic) => {
            print(help::text(topic));
            Exit::Success
        }
        Command::Version => {
            print(format_args!("lariat {}\n", env!("CARGO_PKG_VERSION")));
            Exit::Success
        }
        Command::Demo(options) => demo::run(options, talk),
        Command::Serve(origin) => serve::run(origin, talk),
        Command::Check(origin) => check::run(&origin, talk),
        Command::Status { socket, json } => status::run(socket, json, talk),
        Command::Reload { socket } => reload::run(socket, talk),
        Command::Drain { socket } => drain::run(socket, talk),
        Command::WorkerProcess => return crate::worker_process::run(),
        Command::Reader => return crate::reader::run(),
        Command::Resolver => return crate::resolve::run(),
    };
    exit.into()
}
