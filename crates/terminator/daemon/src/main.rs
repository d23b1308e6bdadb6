//! The program `lariat`: terminates TLS in front of any TCP service.
//!
//! Owns only the way from the arguments to a command, and from its end to the exit code.
#![forbid(unsafe_code)]

mod admin;
mod args;
mod commands;
mod demo;
mod ending;
mod exit;
mod ground;
mod handover;
mod health;
mod kernel;
mod place;
mod reader;
mod resolve;
mod stderr;
mod supervisor;
mod talk;
mod user;
mod worker_process;

use std::process::ExitCode;

use exit::Exit;
use talk::Talk;

fn main() -> ExitCode {
    stderr::never_wait_in_panics();
    let talk = Talk::to_stderr();
    let code = match args::parse(std::env::args_os().skip(1)) {
        Ok(command) => commands::run(command, talk),
        Err(error) => {
            talk.error(error);
            Exit::Usage.into()
        }
    };
    stderr::flush();
    code
}
