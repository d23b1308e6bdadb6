//! `cargo xtask bench`: what Lariat and its peers cost a server, side by side in one run.
//!
//! Owns the commands and their order; the rooms below own one thing each. It measures programs
//! from outside, as processes: nothing of Lariat is linked in.

mod arguments;
mod backend;
mod certificate;
mod certificates;
mod client;
mod client_program;
mod client_work;
mod clients;
mod host;
mod idle;
mod lines;
mod memory;
mod origins;
mod process;
mod record;
mod resumption;
mod server;
mod sessions;
mod statistics;
mod terminate;
mod tool;
mod web;
mod work;

use std::ffi::OsString;

use anyhow::Result;

use arguments::{Command, Options};

/// Runs the command in `arguments`, the words after `bench`.
///
/// # Errors
/// A wrong argument, a server that does not start, or an operation that failed: every operation
/// must succeed for its row to mean anything.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<()> {
    let options = Options::parse(arguments)?;
    match options.command {
        Command::Help => {
            print!("{}", arguments::HELP);
            return Ok(());
        }
        Command::Terminate | Command::Idle | Command::Certificates => warn_of_debug_build(),
        // Their clients are programs.
        Command::Load | Command::Origin | Command::Memory => {}
        Command::Resumption | Command::Sessions => {}
    }
    host::raise_descriptor_limit()?;
    match options.command {
        Command::Terminate => terminate::run(&options),
        Command::Idle => idle::run(&options),
        Command::Certificates => certificates::run(&options),
        Command::Load => clients::run(&options),
        Command::Origin => origins::run(&options),
        Command::Memory => memory::run(&options),
        Command::Resumption => resumption::run(&options),
        Command::Sessions => sessions::run(&options),
        Command::Help => Ok(()),
    }
}

fn warn_of_debug_build() {
    if cfg!(debug_assertions) {
        eprintln!("warning: this client is a debug build and may be the limit; see bench/run");
    }
}
