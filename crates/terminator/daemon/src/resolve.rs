//! The process that resolves names of servers, without rights: the C library's `getaddrinfo`
//! parses what anybody on the network may have sent, and waits for it.
//!
//! Owns the looking up and what that may read. What is looked up when, and what changes mean, is
//! the supervisor's.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};
use sys::channel::Channel;
use sys::process;
use sys::sandbox::{restrict_connecting, restrict_resolver_calls, restrict_to_reading};

use crate::handover::{Fences, Sources, decode, encode};
use crate::stderr;
use crate::worker_process::rights;

/// The program's first argument when it is to be the resolver.
pub(crate) const RESOLVER_ARGUMENT: &str = "--resolver-process";

/// What `ps` shows for it.
pub(crate) const RESOLVER_NAME: &str = "lariat: resolver";

/// Bytes of a message of the resolver: one name with its addresses.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 10;

/// Addresses of a name. Who has more does not balance by DNS alone; the first ones will do.
pub(crate) const ADDRESSES_MAX: usize = 256;

/// Characters of the reason why a name cannot be resolved.
const REASON_CHARACTERS_MAX: usize = 500;

/// Names asked for at once, so that one whose name server is dead does not hold up all others.
const LOOKUPS_MAX: usize = 8;

/// What `getaddrinfo` reads: of `/etc` these files alone, since keys may lie beside them. A right
/// is to the file, not to the path, so one that has been replaced cannot be read: then another
/// process takes over.
const FILES: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/services",
    "/etc/ld.so.cache",
];

/// Where the C library has the modules that `nsswitch.conf` names.
const LIBRARIES: &[&str] = &["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"];

/// DNS over TCP, for answers that are too long for a datagram (RFC 7766). There is no other port
/// in `resolv.conf`.
const TCP_PORTS: [u16; 1] = [53];

/// A name and a port, as in `app.example:8080`.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Name {
    /// A host name.
    pub(crate) host: String,
    /// A TCP port.
    pub(crate) port: u16,
}

/// What the supervisor says.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Ask {
    /// The first: give up these rights.
    Enter(Fences),
    /// Look these up.
    LookUp(Vec<Name>),
}

/// What the resolver says.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Reply {
    /// To `Enter`: it could not be done.
    Stuck(String),
    /// To `LookUp`, for each name: its addresses, at most [`ADDRESSES_MAX`], with the name's port;
    /// or why it has none.
    LookedUp(Name, Result<Vec<SocketAddr>, String>),
    /// A file that it may read has been replaced: another process may read the new one.
    Stale,
}

/// Resolves names for the supervisor at the other end of the standard input, until that is gone.
///
/// To be called by the process's first thread before it starts another.
pub(crate) fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            stderr::write_last_words(format!("{RESOLVER_NAME}: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    rights::ignore_signals()?;
    process::set_name(RESOLVER_NAME)?;
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some(Ask::Enter(fences)) = next(&channel)? else {
        return Err(io::Error::other(
            "this is started by `lariat serve`, not by hand",
        ));
    };
    let begin = identities();
    let readable: Vec<_> = FILES.iter().chain(LIBRARIES).map(Path::new).collect();
    let enter_landlock = || {
        restrict_connecting(TCP_PORTS)?;
        restrict_to_reading(&readable)
    };
    if let Err(message) = rights::give_up_by(
        &fences,
        Sources::Any,
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
        while let Some(Ask::LookUp(asked)) = next(&channel)? {
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

fn next(channel: &Channel) -> io::Result<Option<Ask>> {
    let Some((bytes, _)) = channel.receive()? else {
        return Ok(None);
    };
    decode(&bytes).map(Some).map_err(io::Error::other)
}

fn send(channel: &Channel, reply: &Reply) -> io::Result<()> {
    let bytes = encode(reply).map_err(io::Error::other)?;
    channel.send(bytes.bytes(), &[])
}

/// Looks up one name after the other.
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

fn look_up(name: &Name) -> io::Result<Vec<SocketAddr>> {
    let found = (name.host.as_str(), name.port).to_socket_addrs()?;
    Ok(found.take(ADDRESSES_MAX).collect())
}

/// Which files the names of what may be read stand for.
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
        let name = Name {
            host: "localhost".to_owned(),
            port: 80,
        };
        let found = look_up(&name).unwrap();
        assert!(
            found
                .iter()
                .all(|address| address.ip().is_loopback() && address.port() == 80)
        );
        assert!(!found.is_empty());
    }

    #[test]
    fn a_message_of_a_name_with_all_addresses_is_short_enough() {
        let name = Name {
            host: "x".repeat(255),
            port: u16::MAX,
        };
        let address: SocketAddr = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%7]:65535"
            .parse()
            .unwrap();
        let reply = Reply::LookedUp(name.clone(), Ok(vec![address; ADDRESSES_MAX]));
        assert!(encode(&reply).unwrap().bytes().len() < REPLY_BYTES_MAX);
        let reply = Reply::LookedUp(name, Err("\u{10ffff}".repeat(REASON_CHARACTERS_MAX)));
        assert!(encode(&reply).unwrap().bytes().len() < REPLY_BYTES_MAX);
    }
}
