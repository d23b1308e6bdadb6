//! `lariat check --bind`: whether the addresses are free, and ours to listen at.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;

use config::{Diagnostic, PeerNetwork, Problem, Settings, Severity, Source};
use sys::process;
use sys::socket::{Transport, check_free};
use wire::address::{Address, UnixName};

use crate::supervisor::ListenFailure;
use crate::user;

const BEGIN: &str = "cannot listen at ";

/// How many of these are about addresses.
pub(super) fn count(diagnostics: &[Diagnostic]) -> usize {
    let about_address = |one: &&Diagnostic| one.is_error() && one.message.starts_with(BEGIN);
    diagnostics.iter().filter(about_address).count()
}

/// The addresses that cannot be listened at now, and rights that are missing.
pub(super) fn diagnostics(source: &Source, settings: &Settings) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut tell = |key: &str, address: &Address, error: io::Error| {
        found.extend(refusal(source, key, address, error));
    };
    for (number, service) in settings.plane.services.iter().enumerate() {
        let key = format!("service.{number}.front.listen");
        for address in &service.front.listen {
            let tried = match address {
                Address::Ip(ip) => check_free(*ip, &service.front.transport),
                Address::Unix(UnixName::Path(path)) => check_path(path),
                // Only the service manager that starts it knows.
                Address::Unix(UnixName::Abstract(_)) | Address::Inherited(_) => Ok(()),
            };
            if let Err(error) = tried {
                tell(&key, address, error);
            }
        }
    }
    if let Some(listen) = settings.control.listen
        && let Err(error) = check_free(listen, &Transport::default())
    {
        tell("admin.listen", &Address::Ip(listen), error);
    }
    if let Some(listen) = peers(settings)
        && let Err(error) = UdpSocket::bind(listen)
    {
        tell("cluster.peers.listen", &Address::Ip(listen), error);
    }
    // One that is not there is told without this.
    if let Err(message) = user::choose(&settings.process)
        && let Some((message, hint)) = message.split_once("\nhint: ")
    {
        let message = message.strip_prefix("process.user: ").unwrap_or(message);
        let problem = Problem::new(message).hint(hint);
        found.extend(config::diagnose(source, Severity::Error, "process.user", problem));
    }
    found
}

fn peers(settings: &Settings) -> Option<SocketAddr> {
    match &settings.cluster.as_ref()?.peers.as_ref()?.network {
        PeerNetwork::Unicast { listen, .. } => Some(*listen),
        // Several programs of a host may be in a group.
        PeerNetwork::Multicast { .. } => None,
    }
}

/// A path can be listened at if nobody listens there and its directory may be written to.
fn check_path(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    process::may_write(directory)?;
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        // One that nobody has open is replaced.
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                if ListenFailure::is_in_the_way(path) {
                    Err(io::ErrorKind::AddrInUse.into())
                } else {
                    Ok(())
                }
            }
            _ => Err(io::ErrorKind::AddrInUse.into()),
        },
    }
}

fn refusal(source: &Source, key: &str, address: &Address, error: io::Error) -> Vec<Diagnostic> {
    let failure = ListenFailure {
        who: String::new(),
        address: address.clone(),
        error,
        holder: String::new(),
    };
    let problem = Problem::new(format!("{BEGIN}{address}: {}", failure.error));
    let problem = match failure.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    };
    config::diagnose(source, Severity::Error, key, problem)
}
