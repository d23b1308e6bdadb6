//! `cargo xtask bench`: what Lariat and its peers cost a server, side by side in one run.
//!
//! Owns the commands and their order; the rooms below own one thing each. It measures programs
//! from outside, as processes: nothing of Lariat is linked in.

mod arguments;
mod backend;
mod certificate;
mod certificates;
mod client;
mod host;
mod idle;
mod process;
mod record;
mod server;
mod statistics;
mod terminate;
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
        Command::Terminate | Command::Idle | Command::Certificates => {}
    }
    host::raise_descriptor_limit()?;
    if cfg!(debug_assertions) {
        eprintln!("warning: this client is a debug build and may be the limit; see bench/run");
    }
    match options.command {
        Command::Terminate => terminate::run(&options),
        Command::Idle => idle::run(&options),
        Command::Certificates => certificates::run(&options),
        Command::Help => Ok(()),
    }
}
