//! Descriptors and files that the supervisor keeps beside the services' listeners: the status
//! socket, the admin listener, the log, the pid file, and the socket at which datagrams of the
//! cluster's peers come. All but the log stay as they are until it ends, or the configuration names
//! another place for the cluster's; it reads nothing from any.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::{LogDaemon, LogOutput, PeerNetwork};
use sys::socket::{self, ListenOptions, PeerAddress};
use sys::{datagram, file, log_socket};
use wire::address::{Address, UnixName};

use super::failure::{Failure, ListenFailure};
use super::prepared::ConfigSummary;
use super::reading::remove;
use super::upgrade::state::ImageState;
use crate::handover::DescriptorRole;
use crate::messages::warn;
use crate::status_socket;

/// Operators come one at a time, scrapers a few.
const LISTEN: ListenOptions =
    ListenOptions { backlog: 64, fast_open: 0, reuse_port: false, unix_mode: None };

/// The pause between looks for a log daemon, however often the worker process asks for one.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// The status socket's mode: the supervisor's user and group may connect and see the status.
const STATUS_MODE: u32 = 0o660;

/// The open sockets. The files among them are removed when this is dropped.
pub(super) struct AdminSockets {
    status: OwnedFd,
    pub(super) status_path: PathBuf,
    admin: Option<OwnedFd>,
    /// Whether the service manager has opened that.
    pub(super) is_handed_over: bool,
    /// The log that is served, by its newest name.
    pub(super) log: OwnedFd,
    /// When a log daemon was looked for last.
    reconnected: Option<Instant>,
    pub(super) pid_file: Option<PathBuf>,
    /// Paths of the program before, which it may need still.
    before: Vec<PathBuf>,
    paths: Vec<PathBuf>,
}

impl AdminSockets {
    /// `log` is the log if it is a file; `admin` listens at the admin address if somebody has
    /// opened it before. What the program before has stays its own before [`Self::take_places`].
    pub(super) fn open(
        summary: &ConfigSummary,
        (log, admin): (Option<OwnedFd>, Option<OwnedFd>),
        image: Option<(OwnedFd, &ImageState)>,
    ) -> Result<Self, Failure> {
        let status_path = status_socket::path(&summary.control);
        let is_first = image.is_none();
        let before = image.as_ref().map(|(_, state)| {
            let pid_file = state.pid_file.clone();
            [Some(state.status_socket.clone()), pid_file]
        });
        let is_same = |(_, state): &(OwnedFd, &ImageState)| {
            // Somebody may have removed it.
            state.status_socket == status_path && status_path.exists()
        };
        let (status, paths) = match image.filter(is_same) {
            Some((fd, _)) => (fd, Vec::new()),
            None => (open_status(&status_path)?, vec![status_path.clone()]),
        };
        // From here on the drop removes the path.
        let mut admin_sockets = Self {
            status,
            paths,
            status_path,
            admin: None,
            is_handed_over: false,
            log: log_of(&summary.control.log, log)?,
            reconnected: None,
            pid_file: None,
            before: before.into_iter().flatten().flatten().collect(),
        };
        admin_sockets.admin = match (admin, summary.control.listen) {
            (None, Some(address)) => Some(open_admin(address)?),
            (admin, _) => admin,
        };
        admin_sockets.restore(summary)?;
        if is_first {
            admin_sockets.take_places(summary)?;
        }
        Ok(admin_sockets)
    }

    /// Undoes what a worker process, which has them too, may have done to the sockets.
    pub(super) fn restore(&mut self, summary: &ConfigSummary) -> Result<(), Failure> {
        socket::restore_listener(&self.status);
        if !socket::is_listening(&self.status) {
            say_replaced("the status socket");
            remove(vec![self.status_path.clone()]);
            self.status = open_status(&self.status_path)?;
        }
        let (Some(fd), Some(address)) = (&self.admin, summary.control.listen) else {
            return Ok(());
        };
        let _ = socket::set_nonblocking(fd);
        if !socket::is_listening(fd) {
            say_replaced("the socket of the status page");
            if self.is_handed_over {
                let again = socket::listen_again(fd, LISTEN.backlog);
                return again.map_err(Failure::host("listen again for the status page"));
            }
            let port = self.admin_address().map_or_else(|| address.port(), |actual| actual.port());
            self.admin = Some(open_admin(SocketAddr::new(address.ip(), port))?);
        }
        Ok(())
    }

    /// The program before needs its files no more.
    pub(super) fn take_places(&mut self, summary: &ConfigSummary) -> Result<(), Failure> {
        let pid_file = summary.process.pid_file.as_deref();
        self.pid_file = pid_file.filter(|path| !is_of_another(path)).map(Path::to_owned);
        let paths = [Some(self.status_path.clone()), self.pid_file.clone()];
        self.paths = paths.into_iter().flatten().collect();
        self.before.retain(|path| !self.paths.contains(path));
        remove(std::mem::take(&mut self.before));
        if let Some(path) = &self.pid_file {
            let pid = format!("{}\n", std::process::id());
            let written = file::replace(path, pid.as_bytes());
            written.map_err(Failure::file("write the pid file", path))?;
        }
        Ok(())
    }

    pub(super) fn status(&self) -> BorrowedFd<'_> {
        self.status.as_fd()
    }

    pub(super) fn admin(&self) -> Option<BorrowedFd<'_>> {
        self.admin.as_ref().map(AsFd::as_fd)
    }

    /// The same, unless the service manager has opened it, which then keeps it anyway.
    pub(super) fn kept(&self) -> Option<BorrowedFd<'_>> {
        self.admin().filter(|_| !self.is_handed_over)
    }

    /// Takes a socket to a log daemon that was away, if it is there again and was not looked for
    /// just now.
    pub(super) fn reconnect(&mut self, daemon: &LogDaemon, now: Instant) -> bool {
        let is_due = |then: Instant| now.saturating_duration_since(then) >= RECONNECT_INTERVAL;
        if !self.reconnected.is_none_or(is_due) {
            return false;
        }
        self.reconnected = Some(now);
        match log_socket::open(&daemon.address()) {
            Ok((socket, Ok(()))) => self.log = socket,
            _ => return false,
        }
        true
    }

    pub(super) fn log(&self) -> BorrowedFd<'_> {
        self.log.as_fd()
    }

    pub(super) fn roles(&self) -> Vec<(DescriptorRole, BorrowedFd<'_>)> {
        let status = (DescriptorRole::StatusSocket, self.status.as_fd());
        [status]
            .into_iter()
            .chain(self.admin().map(|fd| (DescriptorRole::AdminListener, fd)))
            .collect()
    }

    /// The address of the status page, with the port that the kernel chose.
    pub(super) fn admin_address(&self) -> Option<SocketAddr> {
        match socket::local_address(self.admin.as_ref()?) {
            Ok(PeerAddress::Ip(address)) => Some(address),
            Ok(PeerAddress::Unix) | Err(_) => None,
        }
    }
}

impl Drop for AdminSockets {
    fn drop(&mut self) {
        remove(std::mem::take(&mut self.paths));
    }
}

/// Whether a pid file names another process that runs: it is left to it, because its program's own
/// commands would signal us.
fn is_of_another(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pid = text.trim().parse::<u32>().ok().filter(|pid| *pid != std::process::id());
    let name = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    let (Some(pid), Some(name)) = (pid, name) else {
        return false;
    };
    warn(format_args!(
        "the pid file {} is not written: it is that of process {pid} ({}), which runs\nhint: give \
         `process.pid-file` a path of its own, or remove the file if that process is not its owner",
        path.display(),
        name.trim()
    ));
    true
}

fn say_replaced(which: &str) {
    warn(format_args!(
        "{which} was shut down, and is replaced: a worker process may have been in an attacker's \
         hands"
    ));
}

fn open_status(path: &Path) -> Result<OwnedFd, Failure> {
    status_socket::make_directory(path)?;
    let address = Address::Unix(UnixName::Path(path.to_owned()));
    let options = ListenOptions { unix_mode: Some(STATUS_MODE), ..LISTEN };
    listen("the status socket", &address, &options)
}

fn open_admin(address: SocketAddr) -> Result<OwnedFd, Failure> {
    listen("the status page", &Address::Ip(address), &LISTEN)
}

fn listen(who: &str, address: &Address, options: &ListenOptions) -> Result<OwnedFd, Failure> {
    let failed = |error| ListenFailure::new(who, address, error);
    Ok(socket::listen(address, options).map_err(failed)?)
}

/// The log of a plan: the file that was `opened`, or else a descriptor that has been ours from the
/// start, or a socket to a daemon.
pub(super) fn log_of(output: &LogOutput, opened: Option<OwnedFd>) -> Result<OwnedFd, Failure> {
    let handed = match (output, opened) {
        (LogOutput::Stdout, _) => file::to_write_only(io::stdout().as_fd()),
        (LogOutput::Stderr, _) => file::to_write_only(io::stderr().as_fd()),
        // One that is away is looked for again: [`AdminSockets::reconnect`].
        (LogOutput::Daemon(daemon), _) => {
            log_socket::open(&daemon.address()).map(|(socket, _)| socket)
        }
        (LogOutput::File(_), Some(file)) => return Ok(file),
        (LogOutput::File(path), None) => {
            return Err(Failure::file("open the log", path)(io::ErrorKind::NotFound.into()));
        }
    };
    handed.map_err(Failure::host("open the log"))
}

/// The socket of a plan.
#[derive(Debug)]
pub(super) struct ClusterSocket {
    network: PeerNetwork,
    fd: OwnedFd,
}

impl ClusterSocket {
    /// The socket for a plan; one `before` it at the same address is the same, whatever the list of
    /// peers, unless a worker process has made it useless.
    pub(super) fn of_plan(
        network: Option<&PeerNetwork>,
        before: Option<(String, BorrowedFd<'_>)>,
    ) -> Result<Option<Self>, Failure> {
        let Some(network) = network.cloned() else {
            return Ok(None);
        };
        let fd = match before.filter(|(name, _)| *name == name_of(&network)) {
            Some((_, fd)) if datagram::is_open_to_all(fd) => {
                fd.try_clone_to_owned().map_err(Failure::host("keep a socket"))?
            }
            Some((_, fd)) => {
                warn(
                    "the socket of the cluster's peers was tied to one peer or shut down, and is \
                     replaced: a worker process may have been in an attacker's hands",
                );
                open(&network, Some(fd))?
            }
            None => open(&network, None)?,
        };
        Ok(Some(Self { network, fd }))
    }

    /// The socket as it is handed on, with the name that distinguishes it.
    pub(super) fn handed_on(&self) -> (String, BorrowedFd<'_>) {
        (name_of(&self.network), self.fd.as_fd())
    }

    pub(super) fn role(&self) -> (DescriptorRole, BorrowedFd<'_>) {
        (DescriptorRole::ClusterSocket, self.fd.as_fd())
    }
}

/// The same for two sockets that can take each other's place.
fn name_of(network: &PeerNetwork) -> String {
    match network {
        PeerNetwork::Unicast { listen, .. } => listen.to_string(),
        PeerNetwork::Multicast { group, interface, hops } => {
            let interface = interface.as_deref().unwrap_or("any interface");
            format!("{group} on {interface}, {hops} hops")
        }
    }
}

/// Opens one, beside one `before` it at the same address.
fn open(network: &PeerNetwork, before: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Failure> {
    let (address, opened) = match network {
        PeerNetwork::Unicast { listen, .. } => {
            let opened = match before {
                Some(before) => datagram::open_beside(*listen, before),
                None => datagram::open(*listen),
            };
            (*listen, opened)
        }
        PeerNetwork::Multicast { group, interface, hops } => {
            (*group, datagram::join(*group, interface.as_deref(), *hops))
        }
    };
    let address = Address::Ip(address);
    let failed = |error| ListenFailure::new("the cluster's peers", &address, error);
    Ok(opened.map_err(failed)?)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn network(listen: &str, peer: &str) -> PeerNetwork {
        PeerNetwork::Unicast {
            listen: listen.parse().unwrap(),
            send_to: vec![peer.parse().unwrap()],
        }
    }

    fn address(socket: &ClusterSocket) -> SocketAddr {
        UdpSocket::from(socket.fd.try_clone().unwrap()).local_addr().unwrap()
    }

    #[test]
    fn a_socket_stays_while_its_address_does() {
        let any = network("127.0.0.1:0", "127.0.0.9:1");
        let first = ClusterSocket::of_plan(Some(&any), None).unwrap().unwrap();
        let next = |listen, peer| {
            ClusterSocket::of_plan(Some(&network(listen, peer)), Some(first.handed_on()))
        };
        let same = next("127.0.0.1:0", "127.0.0.9:2").unwrap().unwrap();
        assert_eq!(address(&same), address(&first), "only the list is another");
        let other = next("127.0.0.2:0", "127.0.0.9:1").unwrap().unwrap();
        assert_ne!(address(&other), address(&first));
        let at = address(&first);
        let named = at.to_string();
        next(&named, "127.0.0.9:1").unwrap_err();
        let tied = UdpSocket::from(first.fd.try_clone().unwrap());
        tied.connect("127.0.0.9:1").unwrap();
        let replaced = next("127.0.0.1:0", "127.0.0.9:1").unwrap().unwrap();
        assert_eq!(address(&replaced), at);
        assert!(datagram::is_open_to_all(&replaced.fd));
    }
}
