//! `lariat serve`: until told to stop.

use std::collections::BTreeMap;

use telemetry::message::Level;
use wire::address::{Address, UnixName};

use super::control;
use super::running::{command_line, listening_at};
use crate::commands::args::StatusSocket;
use crate::commands::console::Console;
use crate::commands::exit::Exit;
use crate::host_lack::is_lack;
use crate::messages::{self, Form};
use crate::reader::ConfigSource;
use crate::supervisor::{self, Failure, Request, Started};

pub(super) fn run(config: ConfigSource, console: Console) -> Exit {
    run_and_tell(config, console, tell)
}

/// The same with a function that is called once all addresses are listened at.
pub(super) fn run_and_tell(
    config: ConfigSource,
    console: Console,
    mut tell: impl FnMut(&Started),
) -> Exit {
    messages::suit_reader();
    let mut ended = supervisor::run(Request {
        config: config.clone(),
        started: &mut tell,
        colour: console.colour(),
    });
    if let Err(Failure::Listen(failure)) = &mut ended
        && failure.is_taken()
    {
        let address = &failure.address;
        let sockets = [StatusSocket::Of(config), StatusSocket::Usual];
        let holder = sockets.iter().find_map(|socket| holder(socket, address));
        let holder = holder.or_else(|| holder_of_another(address));
        failure.holder = holder.unwrap_or_default();
    }
    end_of(ended, console)
}

/// The lariat that listens at this address, if it answers at that status socket.
fn holder(socket: &StatusSocket, address: &Address) -> Option<String> {
    let path = control::socket(socket).ok()?;
    let answer = control::ask(&path).ok()?;
    let (document, supervisor) = (answer.document().ok()?, answer.supervisor().ok()?);
    let is_status_socket = *address == Address::Unix(UnixName::Path(path.clone()));
    let mut services = document.services.iter();
    let text = address.to_string();
    if !is_status_socket && !services.any(|service| service.listeners.contains(&text)) {
        return None;
    }
    let mut since = Vec::new();
    wire::date::put_time(&mut since, document.process.supervisor_start_ms * 1000);
    Some(format!(
        "lariat {} listens there: pid {}, since {}, started as `{}`; its status socket is {}\n\
         hint: `lariat reload` has it read its configuration again, `lariat upgrade` replaces it \
         by the program as installed now; to stand beside it, this one needs ports and a \
         `status-socket` of its own",
        document.process.program,
        supervisor.pid(),
        String::from_utf8_lossy(&since),
        command_line(supervisor.pid()),
        path.display(),
    ))
}

/// The lariat that listens at this address, wherever its status socket is.
fn holder_of_another(address: &Address) -> Option<String> {
    let Address::Ip(address) = address else {
        return None;
    };
    let pid = listening_at(*address)?.pid();
    Some(format!(
        "another lariat listens there: pid {pid}, started as `{}`\n\
         hint: `lariat upgrade`, with that configuration, replaces it by the program as installed \
         now, and `lariat drain` ends it; to stand beside it, this one needs other ports",
        command_line(pid),
    ))
}

pub(super) fn tell(started: &Started) {
    if started.is_reload {
        return;
    }
    let notice = |text: std::fmt::Arguments<'_>| messages::say(Level::Notice, text);
    let mut sharers: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (service, address) in &started.listeners {
        sharers.entry(address.to_string()).or_default().push(service);
    }
    for (service, address) in &started.listeners {
        match sharers.remove(&address.to_string()).as_deref() {
            Some([_]) => notice(format_args!("service `{service}` listens at {address}")),
            Some(all @ [first, .., last]) => {
                let count = all.len();
                notice(format_args!(
                    "{count} services, from `{first}` to `{last}`, listen at {address}"
                ));
            }
            Some([]) | None => {}
        }
    }
    if let Some(admin) = started.admin {
        notice(format_args!("status page at http://{admin}/"));
    }
    let socket = started.status_socket.display();
    notice(format_args!("status socket at {socket}"));
    notice(format_args!("the worker process {}", started.rights));
}

/// Says why the supervisor ended, and what that means for the program.
pub(crate) fn end_of(ended: Result<(), Failure>, console: Console) -> Exit {
    let Err(failure) = ended else {
        return Exit::Success;
    };
    report(&failure, console);
    exit_of(&failure)
}

fn exit_of(failure: &Failure) -> Exit {
    match failure {
        Failure::File { error, .. } if is_lack(error) => Exit::Failed,
        Failure::Config(_)
        | Failure::Plan(_)
        | Failure::Missing(_)
        | Failure::HandedOver(_)
        | Failure::Right(_)
        | Failure::File { .. } => Exit::Usage,
        Failure::Listen(_) | Failure::StatusSocket(_) => Exit::Listen,
        Failure::Host { .. }
        | Failure::Slow { .. }
        | Failure::ReaderDied(_)
        | Failure::ReadersStuck(_)
        | Failure::Rights(_)
        | Failure::Upgrade(_)
        | Failure::Lacking(_)
        | Failure::Died { .. } => Exit::Failed,
    }
}

/// The one who started the program reads the standard error; its log daemon is told as well.
fn report(failure: &Failure, console: Console) {
    let is_plain = messages::form() == Form::Plain;
    let say = |level, text: &str| {
        messages::send(level, text);
        if !is_plain {
            messages::write(level, text);
        }
    };
    match failure {
        Failure::Config(diagnostics) => {
            for one in diagnostics {
                let text = one.to_string();
                let (level, rest) = Level::split(&text).unwrap_or((Level::Error, &text));
                say(level, rest);
            }
            if is_plain {
                console.diagnostics(diagnostics);
            }
        }
        Failure::Plan(text) => {
            let (level, rest) = Level::split(text).unwrap_or((Level::Error, text));
            say(level, rest);
            if is_plain {
                console.refusal(text);
            }
        }
        other => {
            say(Level::Error, &other.to_string());
            if is_plain {
                console.error(other);
            }
        }
    }
}
