//! The program `lariat-lab`: loads, serves and measures TLS endpoints, Lariat's and others.
//!
//! Passes the arguments to a command, and returns its exit code.
#![forbid(unsafe_code)]

mod commands;
mod console;
mod fault;
mod host;
mod interrupt;
pub(crate) mod load;
mod origin;
mod pages;
pub(crate) mod process;
mod run;
pub(crate) mod targets;

use std::process::ExitCode;

use options::command_line::answer_shell;

use console::Console;

fn main() -> ExitCode {
    let (arguments, folder) = (std::env::args_os(), std::env::current_dir().ok());
    if answer_shell(commands::command, arguments, folder.as_deref()) {
        return ExitCode::SUCCESS;
    }
    commands::run(std::env::args_os().skip(1), Console::to_stderr()).into()
}
