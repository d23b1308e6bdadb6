//! The supervisors that run on this host, or in this container, as `/proc` shows them.
//!
//! Owns who they are and where they listen; it signals none.

use std::fs;
use std::io;
use std::net::SocketAddr;

use sys::peer::Process;
use telemetry::printable::line;

use crate::handover::SUPERVISOR_NAME;

/// The supervisors that are seen here, but for this process.
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
