//! The process that resolves names of servers, without rights: the C library's `getaddrinfo` and
//! `res_query` parse what anybody on the network may have sent, and wait for it.
//!
//! Owns the looking up and what that may read. What is looked up when, and what changes mean, is
//! the supervisor's.

use std::cmp::Reverse;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use backend::options::WEIGHT_MAX;
use serde::{Deserialize, Serialize};
use sys::channel::Channel;
use sys::dns;
use sys::sandbox::{restrict_connecting, restrict_resolver_calls, restrict_to_reading};
use wire::dns::{ServiceRecord, service_records};

use crate::handover::{Confinement, SourceRights, decode, encode};
use crate::messages;
use crate::named_servers::{ADDRESSES_MAX, Instance, Name, Port};
use crate::worker_process::sandbox;

/// The program's first argument when it is to be the resolver.
pub(crate) const RESOLVER_ARGUMENT: &str = "--resolver-process";

pub(crate) const RESOLVER_NAME: &str = "lariat: resolver";

/// Bytes of a message of the resolver: one name with its addresses.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 10;

/// Characters of the reason why a name cannot be resolved.
const REASON_CHARACTERS_MAX: usize = 500;

/// How long the hosts that records name may take: with the question for the records it is less than
/// what the supervisor waits for an answer.
const HOSTS_TIME_MAX: Duration = Duration::from_secs(15);

/// Names asked for at once, so that one whose name server is dead does not hold up all others.
const LOOKUPS_MAX: usize = 8;

/// Files that `getaddrinfo` reads: of `/etc` these alone, because keys may lie beside them. The
/// right is to the file, not to the path, so a file that has been replaced cannot be read: then
/// another process takes over.
const FILES: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/services",
    "/etc/ld.so.cache",
];

/// Directories in which the C library finds the modules that `nsswitch.conf` names.
const LIBRARIES: &[&str] = &["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"];

/// DNS over TCP, for answers that are too long for a datagram (RFC 7766). There is no other port
/// in `resolv.conf`.
const TCP_PORTS: [u16; 1] = [53];

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum ResolverRequest {
    /// The first: give up these rights.
    Enter(Confinement),
    LookUp(Vec<Name>),
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Reply {
    /// To `Enter`: it could not be done.
    Stuck(String),
    /// To `LookUp`, for each name: its servers, the best first, with at most [`ADDRESSES_MAX`]
    /// addresses in all; or why it has none.
    LookedUp(Name, Result<Vec<Instance>, String>),
    /// A file that it may read has been replaced: another process may read the new one.
    Stale,
}

/// Resolves names for the supervisor at the other end of the standard input, until that is gone.
///
/// To be called by the process's first thread before it starts another.
pub(crate) fn run() -> ExitCode {
    messages::end_of_helper(RESOLVER_NAME, serve())
}

fn serve() -> io::Result<()> {
    sandbox::begin(RESOLVER_NAME)?;
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    let confinement = match next(&channel)? {
        Some(ResolverRequest::Enter(confinement)) => confinement,
        Some(_) => return Err(io::Error::other("the supervisor began with another order")),
        None => return Ok(()),
    };
    let begin = identities();
    let enter_landlock = || {
        restrict_connecting(TCP_PORTS)?;
        restrict_to_reading(&readable())
    };
    if let Err(message) = sandbox::give_up_by(
        &confinement,
        SourceRights::Any,
        enter_landlock,
        restrict_resolver_calls,
    ) {
        return send(&channel, &Reply::Stuck(message));
    }
    let (queue, names) = mpsc::channel();
    let names = Mutex::new(names);
    thread::scope(|scope| {
        for _ in 0..LOOKUPS_MAX {
            thread::Builder::new().spawn_scoped(scope, || answer_each(&names, &channel))?;
        }
        while let Some(ResolverRequest::LookUp(asked)) = next(&channel)? {
            if identities() != begin {
                send(&channel, &Reply::Stale)?;
                break;
            }
            asked.into_iter().for_each(|name| drop(queue.send(name)));
        }
        // Lookups under way may take long, and nobody listens.
        std::process::exit(0)
    })
}

/// The files and folders that a process reads which looks up names.
pub(crate) fn readable() -> Vec<&'static Path> {
    FILES.iter().chain(LIBRARIES).map(Path::new).collect()
}

fn next(channel: &Channel) -> io::Result<Option<ResolverRequest>> {
    let Some((bytes, _)) = channel.receive()? else {
        return Ok(None);
    };
    decode(&bytes).map(Some).map_err(io::Error::other)
}

fn send(channel: &Channel, reply: &Reply) -> io::Result<()> {
    let bytes = encode(reply).map_err(io::Error::other)?;
    channel.send(bytes.bytes(), &[])
}

fn answer_each(names: &Mutex<Receiver<Name>>, channel: &Channel) {
    let next = || {
        let names = names.lock().unwrap_or_else(PoisonError::into_inner);
        names.recv().ok()
    };
    for name in std::iter::from_fn(next) {
        let found = look_up(&name).map_err(|error| {
            let text = error.to_string();
            text.chars().take(REASON_CHARACTERS_MAX).collect()
        });
        // Without a supervisor this process ends.
        let _ = send(channel, &Reply::LookedUp(name, found));
    }
}

fn look_up(name: &Name) -> io::Result<Vec<Instance>> {
    match name.port {
        Port::Number(port) => Ok(vec![Instance {
            priority: 0,
            weight: 1,
            host: name.host.clone(),
            port,
            addresses: addresses(&name.host, port, ADDRESSES_MAX)?,
        }]),
        Port::Records(count) => {
            let answer = dns::query_service(&name.host)?;
            let records = service_records(&answer).map_err(io::Error::other)?;
            let mut instances = instances(records, count.into());
            let begin = Instant::now();
            for one in &mut instances {
                // One that has no address now keeps what it had; but not if nobody can tell.
                let most = ADDRESSES_MAX / usize::from(count);
                one.addresses = addresses(&one.host, one.port, most).unwrap_or_default();
                if begin.elapsed() > HOSTS_TIME_MAX {
                    let why = "the hosts that its SRV records name take too long to resolve";
                    return Err(io::Error::other(why));
                }
            }
            Ok(instances)
        }
    }
}

fn addresses(host: &str, port: u16, most: usize) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.take(most).collect())
}

/// The servers that records name: the lowest priority numbers first, each host and port once.
fn instances(mut records: Vec<ServiceRecord>, most: usize) -> Vec<Instance> {
    records.sort_by_key(|record| (record.priority, Reverse(record.weight)));
    let mut instances: Vec<Instance> = Vec::new();
    for record in &records {
        let is_same = |one: &Instance| (&one.host, one.port) == (&record.host, record.port);
        if instances.len() < most && !instances.iter().any(is_same) {
            instances.push(Instance {
                priority: record.priority,
                weight: weight(record, &records),
                host: record.host.clone(),
                port: record.port,
                addresses: Vec::new(),
            });
        }
    }
    instances
}

/// A weight of up to 65,535 in our measure: the largest of a priority is our largest, and one of 0,
/// whose chance is to be very small beside others (RFC 2782), our smallest.
fn weight(record: &ServiceRecord, records: &[ServiceRecord]) -> u16 {
    let peers = records.iter().filter(|one| one.priority == record.priority);
    let largest = peers.map(|one| u32::from(one.weight)).max().unwrap_or(0);
    let scaled = u32::from(record.weight) * u32::from(WEIGHT_MAX);
    scaled.checked_div(largest).unwrap_or(1).max(1) as u16
}

/// The device and inode of each of [`FILES`]; `None` = there is no such file.
fn identities() -> Vec<Option<(u64, u64)>> {
    let identity = |path: &&str| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.dev(), meta.ino()))
    };
    FILES.iter().map(identity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_resolver_knows_localhost() {
        let name = Name { host: "localhost".to_owned(), port: Port::Number(80) };
        let found = look_up(&name).unwrap().remove(0).addresses;
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
        assert!(!found.is_empty());
    }

    #[test]
    fn records_become_servers_by_priority_and_weight() {
        let record = |(priority, weight, host): (u16, u16, &str)| ServiceRecord {
            priority,
            weight,
            port: 80,
            host: host.to_owned(),
        };
        let told = |records: &[(u16, u16, &str)], most| -> Vec<(u16, u16, String)> {
            let all = instances(records.iter().copied().map(record).collect(), most);
            let each = all.into_iter();
            each.map(|one| (one.priority, one.weight, one.host)).collect()
        };
        let of = |expected: &[(u16, u16, &str)]| -> Vec<(u16, u16, String)> {
            let each = expected.iter();
            each.map(|(priority, weight, host)| (*priority, *weight, (*host).to_owned())).collect()
        };
        let records = [(9, 0, "d"), (1, 10, "b"), (1, 65535, "a"), (9, 0, "e"), (1, 0, "c")];
        let all = [(1, 256, "a"), (1, 1, "b"), (1, 1, "c"), (9, 1, "d"), (9, 1, "e")];
        assert_eq!(told(&records, 8), of(&all));
        assert_eq!(told(&records, 2), of(&all[..2]));
        assert_eq!(told(&[(0, 1, "a"), (0, 3, "b")], 8), of(&[(0, 256, "b"), (0, 85, "a")]));
        assert_eq!(told(&[(0, 1, "a"), (1, 3, "a")], 8), of(&[(0, 256, "a")]));
    }

    #[test]
    fn a_message_of_a_name_with_all_addresses_is_short_enough() {
        let name = Name { host: "x".repeat(255), port: Port::Records(64) };
        let address: SocketAddr =
            "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%7]:65535".parse().unwrap();
        let instance = |addresses| Instance {
            priority: u16::MAX,
            weight: WEIGHT_MAX,
            host: "x".repeat(255),
            port: u16::MAX,
            addresses: vec![address; addresses],
        };
        let reply = Reply::LookedUp(name.clone(), Ok(vec![instance(ADDRESSES_MAX / 64); 64]));
        assert!(encode(&reply).unwrap().bytes().len() < REPLY_BYTES_MAX);
        let reply = Reply::LookedUp(name.clone(), Ok(vec![instance(ADDRESSES_MAX)]));
        assert!(encode(&reply).unwrap().bytes().len() < REPLY_BYTES_MAX);
        let reply = Reply::LookedUp(name, Err("\u{10ffff}".repeat(REASON_CHARACTERS_MAX)));
        assert!(encode(&reply).unwrap().bytes().len() < REPLY_BYTES_MAX);
    }
}
