//! The sockets that services listen on. The supervisor holds them open whatever happens to the
//! worker process, and accepts nothing itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use sys::socket::{self, ListenOptions, Liveness, PeerAddress, Transport};
use wire::address::{Address, UnixName};

use super::failure::ListenFailure;
use super::service_manager::protocol::HandedOverSockets;
use super::upgrade::state::ListenerState;
use crate::handover::DescriptorRole;
use crate::messages::{error, warn};

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct WantedListener {
    pub(super) address: Address,
    pub(super) service: String,
    /// The service's place in the plan.
    pub(super) service_index: u32,
    /// The address's place in the service's list.
    pub(super) address_index: u32,
    pub(super) liveness: Liveness,
    pub(super) transport: Transport,
    pub(super) defer_accept: bool,
}

/// How long the kernel keeps a client that has sent nothing. The timeout of its handshake and the
/// rule of displacement begin after that, so it is the least that the kernel knows.
const SILENT_MAX: Duration = Duration::from_secs(1);

/// An address with what carries its connections, and how many equal ones stand before it if the
/// kernel chooses its port: then each is another one. Services share all others.
type Key = (Address, Transport, usize);

/// Open sockets, by the address as configured; one a worker.
#[derive(Debug)]
pub(super) struct Listeners {
    open: BTreeMap<Key, Vec<OwnedFd>>,
    handed_over: HandedOverSockets,
    remove: fn(Vec<PathBuf>),
    /// Paths that are not ours to remove.
    pub(super) lent: Vec<PathBuf>,
    /// Whether the service manager keeps what is open here beyond the end of this process. Then the
    /// paths of Unix sockets stay as well.
    pub(super) is_kept: bool,
}

impl Listeners {
    /// None yet. Those that were `handed_over` are not opened anew; `remove` removes the paths of
    /// sockets that are closed.
    pub(super) fn new(handed_over: HandedOverSockets, remove: fn(Vec<PathBuf>)) -> Self {
        Self { open: BTreeMap::new(), handed_over, remove, lent: Vec::new(), is_kept: false }
    }

    /// Takes what the program before listened on, or had the service manager keep. Paths stay its
    /// own while it may have to go on.
    pub(super) fn adopt(&mut self, inherited: Vec<(ListenerState, Vec<OwnedFd>)>, is_served: bool) {
        for (state, fds) in inherited {
            // An address that we cannot read is none of our configuration's.
            if let Ok(address) = state.address.parse::<Address>() {
                if is_served {
                    self.lent.extend(path_of(&address));
                }
                if state.handed_over {
                    let name = state.name.as_deref();
                    self.handed_over.inherit(&address, name, &fds);
                }
                let (interface, mptcp) = (state.interface, state.mptcp);
                let transport = Transport { interface, mptcp, ipv6_only: state.ipv6_only };
                let key = (address, transport, state.place);
                self.open.entry(key).or_default().extend(fds);
            }
        }
    }

    pub(super) fn close(&mut self) {
        if self.is_kept {
            self.lent = self.paths().collect();
        }
        self.keep(&[]);
    }

    /// All that is open, as it is handed on.
    pub(super) fn handed_on(&self) -> Vec<(ListenerState, Vec<BorrowedFd<'_>>)> {
        let each = self.open.iter().map(|((address, transport, place), fds)| {
            let state = ListenerState {
                address: address.to_string(),
                interface: transport.interface.clone(),
                mptcp: transport.mptcp,
                ipv6_only: transport.ipv6_only,
                place: *place,
                sockets: fds.len(),
                handed_over: self.handed_over.has(address),
                name: self.handed_over.name(address),
            };
            (state, fds.iter().map(AsFd::as_fd).collect())
        });
        each.collect()
    }

    /// The paths among what is open.
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.open.keys().filter_map(|(address, ..)| path_of(address))
    }

    /// Opens those that are not open yet: all, or none and the failure. What a worker process has
    /// done to those that are is undone.
    pub(super) fn open(
        &mut self,
        wanted: &[WantedListener],
        workers: usize,
        options: &ListenOptions,
    ) -> Result<(), ListenFailure> {
        self.restore(wanted, options);
        let mut opened = BTreeMap::new();
        for (key, wanted) in keyed(wanted) {
            if let Some(fds) = self.open.get_mut(&key) {
                share_out(fds, wanted, workers, options);
                continue;
            }
            if opened.contains_key(&key) {
                continue;
            }
            let who = format!("service `{}`", wanted.service);
            let failed = |error| ListenFailure::new(&who, &wanted.address, error);
            if let (Address::Inherited(_), false) = (&key.0, self.handed_over.has(&key.0)) {
                return Err(failed(io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("no socket was handed over by that name; {}", self.handed_over.list()),
                )));
            }
            // The kernel gives a client to the narrowest of our addresses that has it.
            let mut all = self.open.keys().chain(opened.keys());
            let is_ours = all.any(|ours| overlap(ours, &key));
            let fds = match self.handed_over.share(&key.0, workers) {
                Some(fds) => fds,
                None => open_each(wanted, workers, options, is_ours).map_err(failed)?,
            };
            if wanted.transport.mptcp && !socket::has_mptcp() {
                warn(format_args!(
                    "service `{}`: this kernel has no MPTCP, so clients speak TCP\n\
                     hint: `sysctl net.mptcp.enabled=1` switches it on",
                    wanted.service
                ));
            }
            set(&fds, wanted);
            opened.insert(key, fds);
        }
        self.open.append(&mut opened);
        Ok(())
    }

    /// Sets sockets as they were opened, and replaces those that listen no more: a worker process
    /// has them too, and may have been in an attacker's hands.
    fn restore(&mut self, wanted: &[WantedListener], options: &ListenOptions) {
        for (key, one) in keyed(wanted) {
            let is_handed_over = self.handed_over.has(&key.0);
            let Some(fds) = self.open.get_mut(&key) else {
                continue;
            };
            for fd in &*fds {
                if is_handed_over {
                    let _ = socket::set_nonblocking(fd);
                } else {
                    socket::restore_listener(fd);
                }
            }
            if fds.iter().all(socket::is_listening) {
                continue;
            }
            let at = &one.address;
            warn(format_args!(
                "service `{}`: a socket at {at} was shut down, and is replaced: a worker process \
                 may have been in an attacker's hands",
                one.service
            ));
            if is_handed_over {
                listen_again(fds, at, options);
            } else if let Address::Unix(_) = at {
                // One that everybody has closed is opened as any other.
                self.open.remove(&key);
                (self.remove)(path_of(at).into_iter().collect());
            } else {
                replace(fds, one, options);
            }
        }
    }

    /// Closes all that are not wanted. Those that are get what an earlier plan has set otherwise.
    pub(super) fn keep(&mut self, wanted: &[WantedListener]) {
        for (key, one) in keyed(wanted) {
            self.open.get(&key).into_iter().for_each(|fds| set(fds, one));
        }
        let keys: BTreeSet<_> = keyed(wanted).map(|(key, _)| key).collect();
        let open = std::mem::take(&mut self.open).into_iter();
        let (kept, closed): (BTreeMap<_, _>, BTreeMap<_, _>) =
            open.partition(|(key, _)| keys.contains(key));
        self.open = kept;
        let closed = closed.keys().map(|(address, ..)| address);
        let closed = closed.filter(|address| !self.handed_over.has(address));
        let paths = closed.filter_map(path_of);
        let paths = paths.filter(|path| !self.lent.contains(path));
        // Nobody listens there any more; what remains would only say "connection refused".
        (self.remove)(paths.collect());
    }

    /// The sockets that a plan wants, each with its role: that of the first service that shares it.
    /// If there are more than workers, as the program before had more, all workers share the
    /// others: the kernel goes on to give them connections. If there are fewer, they share all.
    pub(super) fn roles(
        &self,
        wanted: &[WantedListener],
        workers: usize,
    ) -> Vec<(DescriptorRole, BorrowedFd<'_>)> {
        let mut seen = BTreeSet::new();
        let first = keyed(wanted).filter(|(key, _)| seen.insert(key.clone()));
        let each = first.flat_map(|(key, wanted)| {
            let fds = self.open.get(&key).into_iter().flatten();
            let is_one = !matches!(wanted.address, Address::Ip(_));
            let count = self.open.get(&key).map_or(0, Vec::len);
            fds.enumerate().flat_map(move |(number, fd)| {
                let is_for_all = number >= workers || count < workers;
                let its = if is_for_all { 0..workers } else { number..number + 1 };
                its.map(move |worker| {
                    let role = DescriptorRole::Listener {
                        // There are as many as CPUs, or as a configuration says.
                        worker: worker as u32,
                        service: wanted.service_index,
                        address: wanted.address_index,
                        is_shared: is_for_all || is_one,
                    };
                    (role, fd.as_fd())
                })
            })
        });
        each.collect()
    }

    /// The addresses that services listen at, with the ports that the kernel chose.
    pub(super) fn addresses(&self, wanted: &[WantedListener]) -> Vec<(String, Address)> {
        let each = keyed(wanted).filter_map(|(key, wanted)| {
            let first = self.open.get(&key)?.first()?;
            Some((wanted.service.clone(), actual(first, &wanted.address)))
        });
        each.collect()
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.close();
    }
}

fn keyed(wanted: &[WantedListener]) -> impl Iterator<Item = (Key, &WantedListener)> {
    let mut before = BTreeMap::new();
    wanted.iter().map(move |one| {
        // Nothing carries the connections of a Unix socket, and what was handed over is as it is.
        let transport = match &one.address {
            Address::Ip(_) => Transport {
                ipv6_only: one.transport.ipv6_only && one.address.is_any_v6(),
                ..one.transport.clone()
            },
            Address::Unix(_) | Address::Inherited(_) => Transport::default(),
        };
        let key = (one.address.clone(), transport);
        let equal = before.entry(key.clone()).or_insert(0);
        let number = *equal;
        *equal += usize::from(one.address.is_ephemeral());
        ((key.0, key.1, number), one)
    })
}

fn path_of(address: &Address) -> Option<PathBuf> {
    match address {
        Address::Unix(UnixName::Path(path)) => Some(path.clone()),
        Address::Unix(UnixName::Abstract(_)) | Address::Ip(_) | Address::Inherited(_) => None,
    }
}

/// Whether connections to the one may come to the other.
fn overlap((one, over, _): &Key, (other, other_over, _): &Key) -> bool {
    match (one, other) {
        (Address::Ip(one), Address::Ip(other)) => {
            let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
            let are_apart =
                one.is_ipv4() && other_over.ipv6_only || other.is_ipv4() && over.ipv6_only;
            one.port() == other.port() && !are_apart && (is_any || one.ip() == other.ip())
        }
        (one, other) => one == other,
    }
}

/// Opens as many sockets as there are workers, at least: the program before may have had fewer.
fn share_out(
    fds: &mut Vec<OwnedFd>,
    wanted: &WantedListener,
    workers: usize,
    options: &ListenOptions,
) {
    if let Address::Unix(_) = wanted.address {
        // They are one socket.
        fds.truncate(workers);
    }
    while let (Some(first), true) = (fds.first(), fds.len() < workers) {
        // Another user's, where no more can be had: the workers share those that there are.
        let Ok(fd) = another(first, wanted, options) else {
            return;
        };
        set(std::slice::from_ref(&fd), wanted);
        fds.push(fd);
    }
}

/// Opens anew what does not listen, beside it.
fn replace(fds: &mut [OwnedFd], wanted: &WantedListener, options: &ListenOptions) {
    for fd in fds.iter_mut().filter(|fd| !socket::is_listening(&**fd)) {
        let address = reopened(fd, &wanted.address);
        match socket::listen_over(&address, options, &wanted.transport) {
            Ok(next) => {
                set(std::slice::from_ref(&next), wanted);
                *fd = next;
            }
            Err(why) => error(format_args!("cannot listen at {address} again: {why}")),
        }
    }
}

/// The configured address, with the port that the kernel chose. The address of a socket that was
/// shut down may be another by now.
fn reopened(fd: &OwnedFd, address: &Address) -> Address {
    match (address, actual(fd, address)) {
        (Address::Ip(ip), Address::Ip(actual)) if ip.port() == 0 => {
            Address::Ip(SocketAddr::new(ip.ip(), actual.port()))
        }
        _ => address.clone(),
    }
}

/// Sockets of a service manager are its own to open.
fn listen_again(fds: &[OwnedFd], address: &Address, options: &ListenOptions) {
    for fd in fds.iter().filter(|fd| !socket::is_listening(fd)) {
        let again = socket::listen_again(fd, options.backlog);
        if again.is_err() || !socket::is_listening(fd) {
            error(format_args!(
                "the socket at {address} that was handed over takes no connections any more\n\
                 hint: restart its socket unit, and then lariat"
            ));
        }
    }
}

/// Sets what connections inherit from the sockets of an address.
fn set(fds: &[OwnedFd], wanted: &WantedListener) {
    if let Address::Ip(_) | Address::Inherited(_) = wanted.address {
        for fd in fds {
            // The kernel takes all that a configuration can say, and no socket is lost otherwise: a
            // Unix socket among those that were handed over has nothing of that.
            let _ = socket::set_liveness(fd, &wanted.liveness);
            // A service manager may have set it (`DeferAcceptSec=`).
            if wanted.defer_accept || matches!(wanted.address, Address::Ip(_)) {
                let time = SILENT_MAX * u32::from(wanted.defer_accept);
                let _ = socket::set_defer_accept(fd, time);
            }
        }
    }
}

/// One socket a worker. The kernel spreads TCP connections over those of one address; for a Unix
/// socket there is one, which all workers share. An address that is ours already is bound once more
/// where something else is to carry its connections: both are listened at until the reload ends.
fn open_each(
    wanted: &WantedListener,
    workers: usize,
    options: &ListenOptions,
    is_ours: bool,
) -> io::Result<Vec<OwnedFd>> {
    let (address, transport) = (&wanted.address, &wanted.transport);
    if let (Address::Ip(ip), false) = (address, is_ours) {
        socket::check_free(*ip, transport)?;
    }
    let mut fds = vec![socket::listen_over(address, options, transport)?];
    while let (Some(first), true) = (fds.first(), fds.len() < workers) {
        fds.push(another(first, wanted, options)?);
    }
    Ok(fds)
}

/// One more socket of an address.
fn another(
    first: &OwnedFd,
    wanted: &WantedListener,
    options: &ListenOptions,
) -> io::Result<OwnedFd> {
    match &wanted.address {
        Address::Ip(_) => {
            socket::listen_over(&actual(first, &wanted.address), options, &wanted.transport)
        }
        Address::Unix(_) | Address::Inherited(_) => first.try_clone(),
    }
}

/// The address with the port that the kernel chose.
fn actual(fd: &OwnedFd, address: &Address) -> Address {
    match (socket::local_address(fd), address) {
        (Ok(PeerAddress::Ip(actual)), Address::Ip(_) | Address::Inherited(_)) => {
            Address::Ip(actual)
        }
        _ => address.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use testkit::directory::Directory;

    const OPTIONS: ListenOptions =
        ListenOptions { backlog: 16, fast_open: 0, reuse_port: true, unix_mode: None };

    fn listeners() -> Listeners {
        Listeners::new(HandedOverSockets::default(), |paths| {
            for path in paths {
                std::fs::remove_file(path).unwrap();
            }
        })
    }

    fn wanted(service_index: u32, address: &str) -> WantedListener {
        WantedListener {
            address: address.parse().unwrap(),
            service: format!("s{service_index}"),
            service_index,
            address_index: 0,
            liveness: Liveness::default(),
            transport: Transport::default(),
            defer_accept: false,
        }
    }

    fn port_of(listeners: &Listeners, wanted: &[WantedListener]) -> u16 {
        match listeners.addresses(wanted)[0].1 {
            Address::Ip(ip) => ip.port(),
            Address::Unix(_) | Address::Inherited(_) => panic!("no TCP address"),
        }
    }

    #[test]
    fn workers_share_an_address_that_the_kernel_chose() {
        let (mut listeners, wanted) = (listeners(), [wanted(0, "127.0.0.1:0")]);
        listeners.open(&wanted, 3, &OPTIONS).unwrap();
        let roles = listeners.roles(&wanted, 3);
        assert_eq!(roles.len(), 3);
        let ports = roles.iter().map(|(_, fd)| socket::local_address(fd).unwrap());
        let mut ports: Vec<_> = ports.map(|at| format!("{at:?}")).collect();
        ports.dedup();
        assert_eq!(ports.len(), 1);
        let worker =
            |worker| DescriptorRole::Listener { worker, service: 0, address: 0, is_shared: false };
        assert_eq!(roles.iter().map(|(role, _)| *role).collect::<Vec<_>>(), [0, 1, 2].map(worker));
    }

    #[test]
    fn a_socket_stays_as_long_as_it_is_wanted() {
        let mut listeners = listeners();
        let first = [wanted(0, "127.0.0.1:0")];
        listeners.open(&first, 1, &OPTIONS).unwrap();
        let port = port_of(&listeners, &first);
        // Another service has the address now, and there is one more.
        let second = [wanted(0, "127.0.0.2:0"), wanted(1, "127.0.0.1:0")];
        listeners.open(&second, 1, &OPTIONS).unwrap();
        listeners.keep(&second);
        assert_eq!(port_of(&listeners, &second[1..]), port);
        listeners.keep(&second[..1]);
        TcpStream::connect(("127.0.0.1", port)).unwrap_err();
    }

    #[test]
    fn one_that_cannot_be_opened_opens_none() {
        let mut listeners = listeners();
        let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = holder.local_addr().unwrap().to_string();
        let both = [wanted(0, "127.0.0.1:0"), wanted(1, &taken)];
        let failure = listeners.open(&both, 2, &OPTIONS).unwrap_err();
        assert_eq!(failure.who, "service `s1`");
        assert!(listeners.roles(&both, 2).is_empty());
    }

    #[test]
    fn services_share_an_address_and_its_sockets_until_the_last_has_gone() {
        let mut listeners = listeners();
        let at = socket_address();
        let both = [wanted(0, &at), wanted(1, &at)];
        listeners.open(&both, 2, &OPTIONS).unwrap();
        assert_eq!(listeners.addresses(&both).len(), 2);
        let services = |wanted: &[WantedListener]| {
            let roles = listeners.roles(wanted, 2);
            let service = |role: &DescriptorRole| match role {
                DescriptorRole::Listener { service, .. } => *service,
                other => panic!("{other:?}"),
            };
            roles.iter().map(|(role, _)| service(role)).collect::<Vec<_>>()
        };
        assert_eq!(services(&both), [0, 0], "one a worker, for the first");
        assert_eq!(services(&both[1..]), [1, 1]);
        listeners.keep(&both[1..]);
        TcpStream::connect(&at).unwrap();
        listeners.keep(&[]);
        TcpStream::connect(&at).unwrap_err();
    }

    fn socket_address() -> String {
        let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        holder.local_addr().unwrap().to_string()
    }

    #[test]
    fn an_address_is_kept_when_something_else_carries_its_connections() {
        let mut listeners = listeners();
        let at = socket_address();
        let directory = Directory::new();
        let path = directory.join("socket");
        let unix = format!("unix:{}", path.display());
        let over = |transport: &Transport| {
            [wanted(0, &at), wanted(0, &unix)]
                .map(|one| WantedListener { transport: transport.clone(), ..one })
        };
        let plain = Transport::default();
        let by_loopback = Transport { interface: Some("lo".to_owned()), ..plain };
        let several_paths = Transport { mptcp: true, ..plain.clone() };
        for transport in [&plain, &by_loopback, &plain, &several_paths, &plain] {
            let wanted = over(transport);
            listeners.open(&wanted, 2, &OPTIONS).unwrap();
            listeners.keep(&wanted);
            assert_eq!(listeners.roles(&wanted, 2).len(), 4);
            assert_eq!(listeners.open.len(), 2);
            TcpStream::connect(&at).unwrap();
            std::os::unix::net::UnixStream::connect(&path).unwrap();
        }
        drop(listeners);
        TcpStream::connect(&at).unwrap_err();
    }

    #[test]
    fn what_a_worker_process_has_done_to_a_socket_is_undone() {
        let directory = Directory::new();
        let path = directory.join("socket");
        let unix = format!("unix:{}", path.display());
        let abstract_name = format!("unix:@lariat-listeners-{}", std::process::id());
        let wanted = [
            wanted(0, "127.0.0.1:0"),
            wanted(1, &socket_address()),
            wanted(2, &unix),
            wanted(3, &abstract_name),
        ];
        let mut listeners = listeners();
        listeners.open(&wanted, 2, &OPTIONS).unwrap();
        let addresses = listeners.addresses(&wanted);
        for fd in listeners.open.values().flatten() {
            // The calls are the same for any socket.
            let socket = TcpStream::from(fd.try_clone().unwrap());
            socket.shutdown(std::net::Shutdown::Both).unwrap();
            socket.set_nonblocking(false).unwrap();
        }
        let dial = || {
            let each = addresses.iter().map(|(_, address)| match address {
                Address::Ip(ip) => TcpStream::connect(ip).is_ok(),
                unix => socket::connect(unix).is_ok(),
            });
            each.collect::<Vec<_>>()
        };
        assert_eq!(dial(), [false; 4]);
        listeners.open(&wanted, 2, &OPTIONS).unwrap();
        assert_eq!(listeners.addresses(&wanted), addresses);
        assert_eq!(dial(), [true; 4]);
        assert_eq!(listeners.roles(&wanted, 2).len(), 8);
        // None waits for a client.
        listeners.open.values().flatten().for_each(|fd| while socket::accept(fd).is_ok() {});
    }

    /// The listeners as the next program inherits them.
    fn inherited(from: &Listeners) -> Listeners {
        let mut listeners = listeners();
        let copy = |fds: Vec<BorrowedFd<'_>>| {
            let each = fds.iter().map(|fd| fd.try_clone_to_owned().unwrap());
            each.collect()
        };
        let states = from.handed_on().into_iter();
        let states = states.map(|(state, fds)| (state, copy(fds)));
        listeners.adopt(states.collect(), true);
        listeners
    }

    #[test]
    fn the_next_program_listens_on_every_socket_whatever_its_number_of_workers() {
        let directory = Directory::new();
        let path = directory.join("socket");
        let unix = format!("unix:{}", path.display());
        let wanted = [wanted(0, "127.0.0.1:0"), wanted(1, "127.0.0.1:0"), wanted(2, &unix)];
        for (before, after) in [(1, 1), (1, 3), (3, 1), (3, 2), (2, 3)] {
            let mut first = listeners();
            first.open(&wanted, before, &OPTIONS).unwrap();
            let mut second = inherited(&first);
            second.open(&wanted, after, &OPTIONS).unwrap();
            let addresses = second.addresses(&wanted);
            assert_eq!(addresses, first.addresses(&wanted));
            assert_ne!(addresses[0].1, addresses[1].1, "each port 0 is another port");
            let roles = second.roles(&wanted, after);
            let named = |index: u32, number: usize| {
                let is_it = |(role, _): &&(DescriptorRole, BorrowedFd<'_>)| {
                    matches!(role, DescriptorRole::Listener { worker, service, .. }
                        if *service == index && *worker == number as u32)
                };
                roles.iter().filter(is_it).count()
            };
            for worker in 0..after {
                // Its own, and those that the first one had beyond that.
                let each = 1 + before.saturating_sub(after);
                assert_eq!(named(0, worker), each, "{before} to {after}");
                assert_eq!(named(1, worker), each);
                assert_eq!(named(2, worker), 1, "a Unix socket is one");
            }
            let shared = roles.iter().filter(|(role, _)| {
                matches!(role, DescriptorRole::Listener { is_shared: true, service: 0, .. })
            });
            assert_eq!(shared.count(), before.saturating_sub(after) * after);
            // One that fails takes no path with it.
            drop(inherited(&first));
            assert!(path.exists());
            first.lent = second.paths().collect();
            drop(first);
            assert!(path.exists());
            second.lent.clear();
            drop(second);
            assert!(!path.exists());
        }
    }
}
