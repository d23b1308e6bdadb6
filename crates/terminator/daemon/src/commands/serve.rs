//! `lariat serve`: until told to stop; and who listens already at an address that is taken.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::{fs, io};

use sys::peer::Process;
use telemetry::message::LogLevel;
use telemetry::printable::line;
use wire::address::{Address, UnixName};

use super::args::StatusSocket;
use super::console::{Console, Exit};
use super::control;
use crate::handover::SUPERVISOR_NAME;
use crate::host_lack::is_lack;
use crate::messages::{self, MessageStyle};
use crate::reader::ConfigSource;
use crate::supervisor::{self, Failure, Request, ServingFacts};

pub(super) fn run(config: ConfigSource, console: Console) -> Exit {
    run_and_tell(config, console, tell)
}

/// The same with a function that is called once all addresses are listened at.
pub(super) fn run_and_tell(
    config: ConfigSource,
    console: Console,
    mut tell: impl FnMut(&ServingFacts),
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

pub(super) fn tell(started: &ServingFacts) {
    if started.is_reload {
        return;
    }
    let notice = |text: std::fmt::Arguments<'_>| messages::say(LogLevel::Notice, text);
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
        _ => Exit::Failed,
    }
}

/// The one who started the program reads the standard error; its log daemon is told as well.
fn report(failure: &Failure, console: Console) {
    let texts: Vec<_> = match failure {
        Failure::Config(diagnostics) => diagnostics.iter().map(ToString::to_string).collect(),
        other => vec![other.to_string()],
    };
    let is_plain = messages::form() == MessageStyle::Plain;
    for text in &texts {
        let (level, rest) = LogLevel::split(text).unwrap_or((LogLevel::Error, text));
        messages::send(level, rest);
        if !is_plain {
            messages::write(level, rest);
        }
    }
    match failure {
        _ if !is_plain => {}
        Failure::Config(diagnostics) => console.diagnostics(diagnostics),
        Failure::Plan(text) => console.refusal(text),
        other => console.error(other),
    }
}

/// The supervisors that run on this host, or in this container, as `/proc` shows them; but for this
/// process.
fn supervisors() -> io::Result<impl Iterator<Item = Process>> {
    let numbers = fs::read_dir("/proc")?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    let own = std::process::id();
    let others = numbers.filter(move |number| *number != own);
    let is_it = |process: &Process| -> bool {
        let name = process.name();
        name.is_ok_and(|name| name == SUPERVISOR_NAME) && serves(process.pid())
    };
    Ok(others.filter_map(|one| Process::of(one).ok()).filter(is_it))
}

/// Whether its command is `lariat serve` or `lariat hitch`: others have the same name.
fn serves(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = line.split(|byte| *byte == 0).nth(1);
    command.is_some_and(|command| [&b"serve"[..], b"hitch"].contains(&command))
}

/// The command line that a process was started by: words apart by spaces.
pub(crate) fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    line(&words.join(" ")).to_string()
}

/// The supervisor that listens at an address, or at all of the host's with that port. Only root
/// finds it: the descriptors of a process that forbids memory images are root's to see.
pub(crate) fn listening_at(address: SocketAddr) -> Option<Process> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let texts = tables.iter().flatten();
    let sockets: Vec<_> = texts.flat_map(|text| listeners(text, address)).collect();
    let has_one = |process: &Process| {
        let fds = fs::read_dir(format!("/proc/{}/fd", process.pid()));
        let mut links = fds.into_iter().flatten().flatten();
        links.any(|fd| {
            let link = fs::read_link(fd.path()).unwrap_or_default();
            sockets.iter().any(|socket| link.as_os_str() == &**socket)
        })
    };
    supervisors().ok()?.find(has_one)
}

/// The sockets of a table (proc_pid_net(5)) that listen there, as links to them are called.
fn listeners(table: &str, address: SocketAddr) -> Vec<String> {
    let words = |bytes: &[u8]| -> String {
        let each = bytes.as_chunks().0.iter();
        each.map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect()
    };
    let own = match address {
        SocketAddr::V4(v4) => words(&v4.ip().octets()),
        SocketAddr::V6(v6) => words(&v6.ip().octets()),
    };
    let is_any = |ip: &str| ip.bytes().all(|digit| digit == b'0');
    let found = table.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, local, _, LISTENS, _, _, _, _, _, inode, ..] = fields.as_slice() else {
            return None;
        };
        let (ip, port) = local.split_once(':')?;
        let is_there = ip == own || is_any(ip) || is_any(&own);
        (is_there && port == format!("{:04X}", address.port())).then(|| format!("socket:[{inode}]"))
    });
    found.collect()
}

/// A socket's state in the kernel's tables: TCP_LISTEN.
const LISTENS: &str = "0A";

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_listening_socket_is_found_by_its_address() {
        for (at, table) in [("127.0.0.1:0", "tcp"), ("[::1]:0", "tcp6"), ("0.0.0.0:0", "tcp")] {
            let Ok(listener) = TcpListener::bind(at) else {
                // A host without IPv6.
                continue;
            };
            let address = listener.local_addr().unwrap();
            // It has the same port and does not listen.
            let _client = TcpStream::connect(address).unwrap();
            let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap();
            let found = listeners(&text, address);
            let fd = std::os::fd::AsRawFd::as_raw_fd(&listener);
            let own = fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
            assert_eq!(found, [own.to_str().unwrap()]);
            let other = SocketAddr::new("127.0.0.9".parse().unwrap(), address.port());
            let is_any = address.ip().is_unspecified();
            assert_eq!(listeners(&text, other).is_empty(), !is_any, "{address}");
        }
    }
}
