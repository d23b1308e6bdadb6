//! The program `lariat`: terminates TLS in front of any TCP service.
//!
//! Handles only the dispatch of arguments to a command, and of its result to the exit code.
#![forbid(unsafe_code)]

mod acme_folder;
mod acme_hook;
mod acme_process;
mod admin;
mod commands;
mod handover;
mod held_keys;
mod host_lack;
mod kernel;
mod key_holder_status;
mod key_process;
mod messages;
mod named_servers;
mod preflight;
mod reader;
mod resolve;
mod status_parts;
mod status_socket;
mod supervisor;
mod user;
mod watcher;
mod worker_process;

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use options::command_line::answer_shell;

use commands::args::TerminatorCommand;
use commands::console::{Console, Exit};
use reader::ConfigSource;

fn main() -> ExitCode {
    let (arguments, folder) = (std::env::args_os(), std::env::current_dir().ok());
    if answer_shell(commands::args::command, arguments, folder.as_deref()) {
        return ExitCode::SUCCESS;
    }
    messages::inherit_form();
    messages::never_wait_in_panics();
    let console = Console::to_stderr();
    if std::env::args_os().next().is_some_and(|name| Path::new(&name).ends_with("hitch")) {
        console.error(become_hitch());
        return Exit::Failed.into();
    }
    let mut arguments = std::env::args_os().skip(1).peekable();
    let is_check = arguments.next_if(|first| first == supervisor::CHECK_ARGUMENT);
    let command = commands::args::parse(arguments);
    let ended = command.and_then(|command| match command {
        TerminatorCommand::Serve(arguments) if is_check.is_some() => {
            Ok(commands::check_upgrade(&arguments.source()?))
        }
        TerminatorCommand::Hitch { words } if is_check.is_some() => {
            Ok(commands::check_upgrade(&ConfigSource::Hitch(words)))
        }
        command => commands::run(command, console),
    });
    let code = ended.unwrap_or_else(|fault| {
        console.error(fault);
        Exit::Usage.into()
    });
    messages::flush();
    code
}

/// Executes `lariat hitch` if started by the name `hitch`, so that an upgrade finds the program by
/// its own path. Returns only if that fails.
fn become_hitch() -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    Command::new(program).arg("hitch").args(std::env::args_os().skip(1)).exec()
}
