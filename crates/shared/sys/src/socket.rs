//! Opens stream sockets: listens, accepts, connects, reads and writes.
//!
//! All are non-blocking and closed on exec. Each call on a connection's hot path is one system
//! call. Writing to a peer that is gone fails with `EPIPE` and never raises the signal.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrAny,
    SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind, getsockname, ipproto,
    netdevice, recv, send, sendmsg, shutdown, socket_with, sockopt,
};
use rustix::process::geteuid;
use wire::address::{Address, AddressError, UnixName};

use crate::file::FolderEntry;
use crate::{checked, wait_for};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListenOptions {
    /// Connections that the kernel queues until we accept them; the kernel caps it at
    /// `net.core.somaxconn`.
    pub backlog: u32,
    /// TCP Fast Open (RFC 7413): how many unfinished handshakes may carry data; 0 = off.
    pub fast_open: u32,
    /// Whether several sockets of ours share the address, and the kernel spreads connections over
    /// them (`SO_REUSEPORT`); TCP only.
    pub reuse_port: bool,
    /// Permissions of a Unix socket's path; `None` = by the umask.
    pub unix_mode: Option<u32>,
}

/// Options of a TCP listener that apply to its connections.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Transport {
    /// The only network interface that accepts connections (`SO_BINDTODEVICE`); `None` = any.
    pub interface: Option<String>,
    /// Several paths for a client that supports them (MPTCP, RFC 8684); TCP if the kernel has no
    /// MPTCP.
    pub mptcp: bool,
    /// `[::]` takes no IPv4 (`IPV6_V6ONLY`); other addresses are of one kind in any case.
    pub ipv6_only: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BindSource {
    /// The kernel chooses the address.
    Any,
    /// An address of this host.
    Own(IpAddr),
    /// An address of another host (`IP_TRANSPARENT`), whose packets are routed back through this
    /// one. Takes `CAP_NET_RAW`.
    Foreign(IpAddr),
}

/// Settings by which the kernel detects that the peer of a TCP connection is gone.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Liveness {
    /// Idle time before keepalive probes start (`SO_KEEPALIVE`, `TCP_KEEPIDLE`), in whole seconds;
    /// `None` = no probes. A peer that answers none of four probes, sent at intervals of a quarter
    /// of that time but at least a second, is gone.
    pub keepalive: Option<Duration>,
    /// Longest wait of sent data for an acknowledgement or a window (`TCP_USER_TIMEOUT`, RFC
    /// 5482); `None` = as long as the kernel retransmits (`net.ipv4.tcp_retries2`), about 15
    /// minutes.
    pub unacknowledged: Option<Duration>,
}

/// Number of unanswered probes after which a peer is gone.
const PROBES_MAX: u32 = 4;

/// Address of the peer, or of our end.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum PeerAddress {
    /// A TCP address. An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`, on a socket bound to `[::]`)
    /// is given as IPv4.
    Ip(SocketAddr),
    /// A Unix socket; those of clients have no name.
    Unix,
}

impl PeerAddress {
    /// Returns the IP address; a Unix socket has none.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            Self::Unix => None,
        }
    }
}

/// Opens a listener; connections accepted over TCP send without delay (`TCP_NODELAY`).
///
/// `[::]` and `*` take IPv4 too, unless [`Transport::ipv6_only`] is set; on a host without IPv6
/// they then become `0.0.0.0`, as [`local_address`] tells. A path that a dead process left behind
/// is replaced. Fails with `AddrInUse` if the path is in use or is no socket.
pub fn listen(address: &Address, options: &ListenOptions) -> io::Result<OwnedFd> {
    listen_over(address, options, &Transport::default())
}

/// Like [`listen`]; fails with `NotFound` or `ENODEV` if the interface does not exist.
pub fn listen_over(
    address: &Address,
    options: &ListenOptions,
    transport: &Transport,
) -> io::Result<OwnedFd> {
    let fd = match address {
        Address::Ip(ip) => match bound_ip(*ip, options, transport) {
            Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if takes_both(ip, transport) => {
                bound_ip(SocketAddr::from(([0; 4], ip.port())), options, transport)?
            }
            bound => bound?,
        },
        Address::Unix(UnixName::Abstract(name)) => {
            let fd = stream_socket(AddressFamily::UNIX)?;
            bind(&fd, &SocketAddrUnix::new_abstract_name(name)?)?;
            fd
        }
        Address::Unix(UnixName::Path(path)) => bound_path(path, options.unix_mode)?,
        Address::Inherited(_) => return Err(io::ErrorKind::NotFound.into()),
    };
    let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
    rustix::net::listen(&fd, backlog)?;
    Ok(fd)
}

/// Checks that a TCP address is free: fails as [`listen`] would without `reuse_port`. With it, two
/// processes of one user would share the address unawares.
pub fn check_free(address: SocketAddr, transport: &Transport) -> io::Result<()> {
    let alone = ListenOptions { backlog: 0, fast_open: 0, reuse_port: false, unix_mode: None };
    match bound_ip(address, &alone, transport) {
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if takes_both(&address, transport) => Ok(()),
        bound => Ok(bound.map(drop)?),
    }
}

/// Reports whether a network interface of that name exists.
pub fn has_interface(name: &str) -> io::Result<bool> {
    match interface_number(name) {
        Ok(_) => Ok(true),
        Err(Errno::NODEV) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn interface_number(name: &str) -> Result<u32, Errno> {
    let any = stream_socket(AddressFamily::UNIX)?;
    netdevice::name_to_index(&any, name)
}

/// An address as typed: its zone, if any, may be the name of an interface of this host (RFC 4007
/// section 11), which is replaced by its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AddressWithZone<T>(pub T);

impl<T: FromStr<Err = AddressError>> FromStr for AddressWithZone<T> {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let zone = text.split_once('%').and_then(|(before, rest)| {
            let (zone, port) = rest.split_once(']')?;
            Some((before, zone, port))
        });
        let Some((before, zone, port)) = zone.filter(|_| text.starts_with('[')) else {
            return text.parse().map(Self);
        };
        let number = zone.parse();
        let number =
            number.or_else(|_| interface_number(zone).map_err(|_| AddressError::ZoneUnknown))?;
        format!("{before}%{number}]{port}").parse().map(Self)
    }
}

/// Reports whether the kernel has MPTCP and it is switched on.
pub fn has_mptcp() -> bool {
    mptcp_socket(AddressFamily::INET).is_ok()
}

fn mptcp_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, Some(ipproto::MPTCP))
}

fn bound_ip(
    address: SocketAddr,
    options: &ListenOptions,
    transport: &Transport,
) -> Result<OwnedFd, Errno> {
    let family = family_of(&address);
    let of_paths = transport.mptcp.then(|| mptcp_socket(family).ok()).flatten();
    let fd = of_paths.map_or_else(|| stream_socket(family), Ok)?;
    if let Some(name) = &transport.interface {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
        set_option(&fd, level, option, name.as_bytes())?;
    }
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if options.reuse_port {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    if address.is_ipv6() {
        // The system's default may differ (net.ipv6.bindv6only).
        sockopt::set_ipv6_v6only(&fd, !takes_both(&address, transport))?;
    }
    // Accepted connections inherit it, so that no response waits for an acknowledgement (Nagle) and
    // no connection pays a system call.
    sockopt::set_tcp_nodelay(&fd, true)?;
    bind(&fd, &address)?;
    if options.fast_open > 0 {
        let queue = i32::try_from(options.fast_open).unwrap_or(i32::MAX);
        let queue = queue.to_ne_bytes();
        set_option(&fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, &queue)?;
    }
    Ok(fd)
}

/// Reports whether the address is for both IPv6 and IPv4.
fn takes_both(address: &SocketAddr, transport: &Transport) -> bool {
    address.is_ipv6() && address.ip().is_unspecified() && !transport.ipv6_only
}

fn bound_path(path: &Path, mode: Option<u32>) -> io::Result<OwnedFd> {
    let fd = stream_socket(AddressFamily::UNIX)?;
    if let Some(mode) = mode {
        // bind(2) on Linux takes the path's permissions from here, less the umask: at no time are
        // they wider than wanted.
        rustix::fs::fchmod(&fd, mode.into())?;
    }
    let name = SocketAddrUnix::new(path)?;
    match bind(&fd, &name) {
        Err(Errno::ADDRINUSE) if is_left_behind(path, &name) => {
            std::fs::remove_file(path)?;
            bind(&fd, &name)?;
        }
        bound => bound?,
    }
    if let Some(mode) = mode {
        set_socket_mode(path, mode)?;
    }
    Ok(fd)
}

/// Sets the permissions of the socket just created at a path, which the umask may have reduced. The
/// owner of the folder may have replaced it meanwhile: therefore the change goes through a
/// descriptor, and only to a socket of ours that has no other link.
fn set_socket_mode(path: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = FolderEntry::of_name(path)?;
    let place = openat(&place.folder, &place.name, flags, Mode::empty())?;
    let found = fstat(&place)?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    if !is_socket || found.st_uid != geteuid().as_raw() || found.st_nlink != 1 {
        let message = "something else has taken the place of the socket that was just made";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    if found.st_mode & 0o7777 != mode {
        // fchmod(2) takes no descriptor that was opened with O_PATH.
        let by_descriptor = format!("/proc/self/fd/{}", place.as_raw_fd());
        rustix::fs::chmod(by_descriptor, mode.into())?;
    }
    Ok(())
}

/// Reports whether that path is a socket which no process has open.
///
/// Connects a datagram socket, so that a live stream listener sees no connection: the kernel
/// answers `EPROTOTYPE` for it, and `ECONNREFUSED` if nobody listens.
fn is_left_behind(path: &Path, name: &SocketAddrUnix) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asker = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    is_socket && asker.is_ok_and(|fd| rustix::net::connect(&fd, name) == Err(Errno::CONNREFUSED))
}

/// Sets an option that rustix does not know.
pub(crate) fn set_option(
    fd: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &[u8],
) -> Result<(), Errno> {
    let (fd, bytes) = (fd.as_fd().as_raw_fd(), value.len() as libc::socklen_t);
    // SAFETY: the kernel reads `bytes` bytes at `value`, which outlives the call.
    let answer = unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), bytes) };
    let done = checked(answer).map(drop);
    done.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Sets how the kernel detects that the peer is gone; accepted connections inherit it from a
/// listener. Fails with `Unsupported`, and sets nothing, on sockets other than TCP.
pub fn set_liveness(fd: impl AsFd, liveness: &Liveness) -> io::Result<()> {
    let fd = fd.as_fd();
    set_unacknowledged(fd, liveness.unacknowledged)?;
    match liveness.keepalive {
        Some(idle) => set_keepalive(fd, idle),
        None => Ok(sockopt::set_socket_keepalive(fd, false)?),
    }
}

/// Acknowledges received data without waiting for data to send with it (`TCP_QUICKACK`).
pub fn acknowledge(fd: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(fd, true)?)
}

pub fn set_unacknowledged(fd: impl AsFd, limit: Option<Duration>) -> io::Result<()> {
    let timeout_ms = limit.map_or(0, |time| time.as_millis());
    let timeout_ms = u32::try_from(timeout_ms).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(fd, timeout_ms)?)
}

/// Sets [`Liveness::keepalive`]. Idle time before this call counts: the kernel checks it when the
/// time is set on a socket that probes already.
pub fn set_keepalive(fd: impl AsFd, idle: Duration) -> io::Result<()> {
    let fd = fd.as_fd();
    let second = Duration::from_secs(1);
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, idle.max(second))?;
    sockopt::set_tcp_keepintvl(fd, (idle / PROBES_MAX).max(second))?;
    Ok(sockopt::set_tcp_keepcnt(fd, PROBES_MAX)?)
}

/// Changes only the time of [`set_keepalive`].
pub fn set_keepalive_time(fd: impl AsFd, idle: Duration) -> io::Result<()> {
    Ok(sockopt::set_tcp_keepidle(fd, idle)?)
}

/// Sets how long the kernel holds back a client that has sent nothing from the listener
/// (`TCP_DEFER_ACCEPT`), in whole seconds; zero = not at all.
pub fn set_defer_accept(listener: impl AsFd, time: Duration) -> io::Result<()> {
    let seconds = i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
    let value = seconds.to_ne_bytes();
    let option = libc::TCP_DEFER_ACCEPT;
    Ok(set_option(listener, libc::IPPROTO_TCP, option, &value)?)
}

/// Reports whether a listener, which other processes share, still accepts connections. A listener
/// that was shut down never does again.
pub fn is_listening(listener: impl AsFd) -> bool {
    let listener = listener.as_fd();
    sockopt::socket_acceptconn(listener).unwrap_or(false) && !is_shut_down(listener)
}

/// Reports whether a socket without a peer was shut down (`shutdown`): a Unix listener reports that
/// it listens all the same.
pub(crate) fn is_shut_down(fd: impl AsFd) -> bool {
    let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let come = wait_for(fd, PollFlags::RDHUP, Some(Duration::ZERO));
    come.is_ok_and(|come| come.intersects(ends))
}

/// Makes a socket non-blocking, whatever another process that shares it has set.
pub fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    Ok(ioctl_fionbio(fd, true)?)
}

/// Restores the options that [`listen`] sets, in case another process that shares the listener has
/// changed them; not its [`Liveness`]. Errors are ignored: some sockets do not know an option.
pub fn restore_listener(listener: impl AsFd) {
    let listener = listener.as_fd();
    let _ = set_nonblocking(listener);
    let _ = sockopt::set_socket_linger(listener, None);
    let _ = sockopt::set_tcp_nodelay(listener, true);
    let _ = set_option(listener, libc::IPPROTO_IP, libc::IP_TRANSPARENT, &0_i32.to_ne_bytes());
}

/// Makes a socket that was handed over listen again.
pub fn listen_again(fd: impl AsFd, backlog: u32) -> io::Result<()> {
    Ok(rustix::net::listen(fd, i32::try_from(backlog).unwrap_or(i32::MAX))?)
}

/// Returns the number of sent bytes that the peer has not acknowledged (`SIOCOUTQ`).
pub fn unacknowledged_bytes(fd: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one `int` at the address, which outlives the call.
    let answer = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    checked(answer)?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

fn stream_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None)
}

fn family_of(address: &SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// Accepts one connection. Fails with `WouldBlock` if none is queued.
#[inline]
pub fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, PeerAddress)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (fd, peer) = acceptfrom_with(listener, flags)?;
    Ok((fd, peer.map_or(PeerAddress::Unix, peer_of)))
}

/// Returns the address of our end.
#[inline]
pub fn local_address(fd: impl AsFd) -> io::Result<PeerAddress> {
    Ok(peer_of(getsockname(fd)?))
}

#[inline]
fn peer_of(address: SocketAddrAny) -> PeerAddress {
    match SocketAddr::try_from(address) {
        Ok(mut ip) => {
            // A link-local address keeps its zone.
            ip.set_ip(ip.ip().to_canonical());
            PeerAddress::Ip(ip)
        }
        Err(_) => PeerAddress::Unix,
    }
}

/// Starts to connect and returns whether the connection is established already. If not, the socket
/// becomes writable when it is, or has an error for [`take_error`].
///
/// TCP sockets send without delay (`TCP_NODELAY`). Fails with `WouldBlock` if the queue of a Unix
/// listener is full; waiting does not help then.
#[inline]
pub fn connect(address: &Address) -> io::Result<(OwnedFd, bool)> {
    connect_as(BindSource::Any, address, false)
}

/// Like [`connect`], from that source address; the kernel chooses the port when it knows the
/// destination, so that connections to different places may share it. Unix sockets have no source.
/// If we `speak_first`, at once, the last packet of TCP's handshake is saved, because it goes out
/// with our data; if we send nothing, it goes out after some 40 ms.
#[inline]
pub fn connect_as(
    source: BindSource,
    address: &Address,
    speak_first: bool,
) -> io::Result<(OwnedFd, bool)> {
    let (fd, begun) = match address {
        Address::Ip(ip) => {
            let fd = stream_socket(family_of(ip))?;
            sockopt::set_tcp_nodelay(&fd, true)?;
            if let BindSource::Foreign(source) = source {
                set_transparent(&fd, source)?;
            }
            if let BindSource::Own(source) | BindSource::Foreign(source) = source {
                let on = 1_i32.to_ne_bytes();
                set_option(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on)?;
                bind(&fd, &SocketAddr::new(source, 0))?;
            }
            if speak_first {
                sockopt::set_tcp_quickack(&fd, false)?;
            }
            let begun = rustix::net::connect(&fd, ip);
            (fd, begun)
        }
        Address::Unix(name) => {
            let fd = stream_socket(AddressFamily::UNIX)?;
            let begun = rustix::net::connect(&fd, &unix_address(name)?);
            (fd, begun)
        }
        Address::Inherited(_) => return Err(io::ErrorKind::NotFound.into()),
    };
    match begun {
        Ok(()) => Ok((fd, true)),
        // Within one host the handshake is over when the call returns, but only Unix sockets report
        // that. Asking costs less than waiting for an event that is there already.
        Err(Errno::INPROGRESS) => {
            let is_connected = is_connected(&fd);
            Ok((fd, is_connected))
        }
        Err(error) => Err(error.into()),
    }
}

/// Allows a source address that is not of this host.
fn set_transparent(fd: &OwnedFd, source: IpAddr) -> Result<(), Errno> {
    let (level, option) = match source {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT),
    };
    set_option(fd, level, option, &1_i32.to_ne_bytes())
}

pub(crate) fn unix_address(name: &UnixName) -> Result<SocketAddrUnix, Errno> {
    match name {
        UnixName::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
        UnixName::Path(path) => SocketAddrUnix::new(path.as_path()),
    }
}

/// Reports whether the connection is established.
#[inline]
pub fn is_connected(fd: impl AsFd) -> bool {
    rustix::net::getpeername(fd).is_ok()
}

/// Takes the socket's pending error, once (`SO_ERROR`).
#[inline]
pub fn take_error(fd: impl AsFd) -> io::Result<Option<io::Error>> {
    Ok(sockopt::socket_error(fd)?.err().map(io::Error::from))
}

/// Reads available bytes; 0 at the peer's end of stream. Fails with `WouldBlock` if none are there.
#[inline]
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (bytes, _) = recv(fd, buffer, RecvFlags::empty())?;
    Ok(bytes)
}

/// Reads available bytes without consuming them.
#[inline]
pub fn peek(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (bytes, _) = recv(fd, buffer, RecvFlags::PEEK)?;
    Ok(bytes)
}

/// Reads available bytes into several buffers in turn.
#[inline]
pub fn read_vectored(fd: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    Ok(rustix::io::readv(fd, buffers)?)
}

/// Writes as much as there is room for. Fails with `WouldBlock` if there is none.
#[inline]
pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(fd, bytes, SendFlags::NOSIGNAL)?)
}

/// Like [`write`], for bytes that others follow at once: the kernel may wait for them to fill a
/// segment, or a record if it encrypts ([`crate::ktls`]).
#[inline]
pub fn write_more(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::MORE)?)
}

/// Writes as much of several buffers as there is room for.
#[inline]
pub fn write_vectored(fd: impl AsFd, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    // writev(2) would raise SIGPIPE.
    let mut no_control = SendAncillaryBuffer::default();
    Ok(sendmsg(fd, buffers, &mut no_control, SendFlags::NOSIGNAL)?)
}

/// Ends our stream; written data still arrives, and the peer's stream continues.
#[inline]
pub fn shutdown_write(fd: impl AsFd) -> io::Result<()> {
    Ok(shutdown(fd, Shutdown::Write)?)
}

/// Makes the next close a reset that drops unsent data (`SO_LINGER` of 0 seconds).
#[inline]
pub fn reset_on_close(fd: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(fd, Some(Duration::ZERO))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use testkit::directory::Directory;

    const PLAIN: ListenOptions =
        ListenOptions { backlog: 16, fast_open: 0, reuse_port: false, unix_mode: None };

    fn assert_fails<T>(result: io::Result<T>, kind: ErrorKind) {
        assert_eq!(result.map(|_| ()).unwrap_err().kind(), kind);
    }

    fn wait(fd: &OwnedFd, what: PollFlags) {
        wait_for(fd, what, None).unwrap();
    }

    fn address_of(fd: &OwnedFd) -> Address {
        match local_address(fd).unwrap() {
            PeerAddress::Ip(ip) => Address::Ip(ip),
            PeerAddress::Unix => panic!("no TCP socket"),
        }
    }

    fn accept_one(listener: &OwnedFd) -> (OwnedFd, PeerAddress) {
        wait(listener, PollFlags::IN);
        accept(listener).unwrap()
    }

    /// Connects a client to a server end, over a listener on that address.
    fn pair_over(address: &str) -> (OwnedFd, OwnedFd) {
        let listener = listen(&address.parse().unwrap(), &PLAIN).unwrap();
        let (client, _) = connect(&address_of(&listener)).unwrap();
        let (server, _) = accept_one(&listener);
        wait(&client, PollFlags::OUT);
        assert!(take_error(&client).unwrap().is_none());
        (client, server)
    }

    /// Returns a path for a socket, and the address there.
    fn socket_path(directory: &Directory) -> (PathBuf, Address) {
        let path = directory.join("socket");
        (path.clone(), Address::Unix(UnixName::Path(path)))
    }

    #[test]
    fn bytes_go_both_ways_and_ends_are_seen() {
        let (client, server) = pair_over("127.0.0.1:0");
        assert!(sockopt::tcp_nodelay(&server).unwrap(), "it is inherited from the listener");
        assert_eq!(write(&client, b"hello ").unwrap(), 6);
        let parts = [IoSlice::new(b"wor"), IoSlice::new(b"ld")];
        assert_eq!(write_vectored(&client, &parts).unwrap(), 5);
        shutdown_write(&client).unwrap();

        let (mut head, mut tail) = ([0; 6], [0; 16]);
        wait(&server, PollFlags::RDHUP);
        let mut room = [IoSliceMut::new(&mut head), IoSliceMut::new(&mut tail)];
        assert_eq!(read_vectored(&server, &mut room).unwrap(), 11);
        assert_eq!((&head, &tail[..5]), (b"hello ", &b"world"[..]));
        assert_eq!(read(&server, &mut tail).unwrap(), 0);

        assert_eq!(write(&server, b"bye").unwrap(), 3);
        wait(&client, PollFlags::IN);
        assert_eq!(read(&client, &mut tail).unwrap(), 3);
    }

    #[test]
    fn what_a_listener_accepts_notices_a_lost_peer_as_it_does() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap(), &PLAIN).unwrap();
        let (minute, quarter) = (Duration::from_secs(60), Duration::from_secs(15));
        let liveness =
            Liveness { keepalive: Some(minute), unacknowledged: Some(Duration::from_millis(2500)) };
        set_liveness(&listener, &liveness).unwrap();
        let (_client, _) = connect(&address_of(&listener)).unwrap();
        let (server, _) = accept_one(&listener);
        assert!(sockopt::socket_keepalive(&server).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&server).unwrap(), minute);
        assert_eq!(sockopt::tcp_keepintvl(&server).unwrap(), quarter);
        assert_eq!(sockopt::tcp_keepcnt(&server).unwrap(), PROBES_MAX);
        assert_eq!(sockopt::tcp_user_timeout(&server).unwrap(), 2500);
        set_liveness(&server, &Liveness::default()).unwrap();
        assert!(!sockopt::socket_keepalive(&server).unwrap());
        assert_eq!(sockopt::tcp_user_timeout(&server).unwrap(), 0);
    }

    #[test]
    fn a_client_is_kept_until_it_sends() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap(), &PLAIN).unwrap();
        set_defer_accept(&listener, Duration::from_secs(600)).unwrap();
        let (silent, _) = connect(&address_of(&listener)).unwrap();
        let (client, _) = connect(&address_of(&listener)).unwrap();
        wait(&silent, PollFlags::OUT);
        wait(&client, PollFlags::OUT);
        assert_fails(accept(&listener), ErrorKind::WouldBlock);
        write(&client, b"x").unwrap();
        let (_server, peer) = accept_one(&listener);
        assert_eq!(peer, local_address(&client).unwrap());

        set_defer_accept(&listener, Duration::ZERO).unwrap();
        let (_other, _) = connect(&address_of(&listener)).unwrap();
        accept_one(&listener);
    }

    #[test]
    fn what_the_peer_has_not_taken_is_counted_once_it_takes_no_more() {
        let (client, server) = pair_over("127.0.0.1:0");
        assert_eq!(unacknowledged_bytes(&client).unwrap(), 0);
        let (bytes, mut sent) = (vec![0; 1 << 20], 0);
        while let Ok(count) = write(&client, &bytes) {
            sent += count;
        }
        let waiting = unacknowledged_bytes(&client).unwrap() as usize;
        assert!(0 < waiting && waiting < sent, "{waiting} of {sent}");
        drop(server);
    }

    #[test]
    fn a_listener_may_be_of_one_interface_and_of_many_paths() {
        let address = "127.0.0.1:0".parse().unwrap();
        let on = |interface: &str, mptcp| {
            let interface = Some(interface.to_owned());
            Transport { interface, mptcp, ..Transport::default() }
        };
        for mptcp in [false, true] {
            let listener = listen_over(&address, &PLAIN, &on("lo", mptcp)).unwrap();
            let (_client, _) = connect(&address_of(&listener)).unwrap();
            accept_one(&listener);
        }
        let missing = listen_over(&address, &PLAIN, &on("none-such", false));
        assert_eq!(missing.unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn a_source_address_is_kept() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap(), &PLAIN).unwrap();
        let source = IpAddr::from([127, 0, 0, 7]);
        let (_client, _) =
            connect_as(BindSource::Own(source), &address_of(&listener), false).unwrap();
        let (_server, peer) = accept_one(&listener);
        assert!(matches!(peer, PeerAddress::Ip(address) if address.ip() == source));
    }

    #[test]
    fn nothing_waits() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap(), &PLAIN).unwrap();
        assert_fails(accept(&listener), ErrorKind::WouldBlock);
        let (client, _server) = pair_over("127.0.0.1:0");
        assert_fails(read(&client, &mut [0]), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_reset_is_an_error_for_the_other_end_and_no_signal() {
        let (client, server) = pair_over("127.0.0.1:0");
        reset_on_close(&client).unwrap();
        drop(client);
        wait(&server, PollFlags::IN);
        let error = take_error(&server).unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_fails(write(&server, b"x"), ErrorKind::BrokenPipe);
        assert_fails(write_vectored(&server, &[IoSlice::new(b"x")]), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_refused_dial_leaves_its_reason() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap(), &PLAIN).unwrap();
        let address = address_of(&listener);
        drop(listener);
        let refused = match connect(&address) {
            Ok((fd, _)) => {
                wait(&fd, PollFlags::OUT);
                take_error(&fd).unwrap().unwrap()
            }
            Err(error) => error,
        };
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn all_addresses_of_ipv6_take_ipv4_too() {
        let listener = listen(&"*:0".parse().unwrap(), &PLAIN).unwrap();
        let Address::Ip(bound) = address_of(&listener) else { panic!("no TCP socket") };
        let v4 = Address::Ip(SocketAddr::from(([127, 0, 0, 1], bound.port())));
        let (client, _) = connect(&v4).unwrap();
        let (server, peer) = accept_one(&listener);
        assert_eq!(PeerAddress::Ip(into_ip(address_of(&client))), peer);
        assert!(into_ip(address_of(&client)).is_ipv4());
        assert_eq!(address_of(&server), v4);
    }

    #[test]
    fn all_addresses_of_ipv6_alone_leave_ipv4_to_others() {
        let of_ipv6 = Transport { ipv6_only: true, ..Transport::default() };
        let listener = listen_over(&"[::]:0".parse().unwrap(), &PLAIN, &of_ipv6).unwrap();
        let port = into_ip(address_of(&listener)).port();
        let v6 = Address::Ip(SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)));
        let (_client, _) = connect(&v6).unwrap();
        assert_eq!(address_of(&accept_one(&listener).0), v6);
        let v4 = SocketAddr::from(([0; 4], port));
        check_free(v4, &Transport::default()).unwrap();
        let _other = listen(&Address::Ip(v4), &PLAIN).unwrap();
    }

    fn into_ip(address: Address) -> SocketAddr {
        match address {
            Address::Ip(ip) => ip,
            Address::Unix(_) | Address::Inherited(_) => panic!("no TCP address"),
        }
    }

    #[test]
    fn an_address_is_shared_only_by_those_who_say_so() {
        let shared = ListenOptions { reuse_port: true, fast_open: 16, ..PLAIN };
        let first = listen(&"127.0.0.1:0".parse().unwrap(), &shared).unwrap();
        let address = address_of(&first);
        let _second = listen(&address, &shared).unwrap();
        assert_fails(
            check_free(into_ip(address.clone()), &Transport::default()),
            ErrorKind::AddrInUse,
        );
        assert_fails(listen(&address, &PLAIN), ErrorKind::AddrInUse);
    }

    #[test]
    fn an_address_that_nobody_has_is_free() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap(), &PLAIN).unwrap();
        let address = into_ip(address_of(&listener));
        assert!(check_free(address, &Transport::default()).is_err());
        drop(listener);
        check_free(address, &Transport::default()).unwrap();
        check_free(address, &Transport::default()).unwrap();
    }

    #[test]
    fn a_listener_that_was_shut_down_is_known() {
        let directory = Directory::new();
        let (_, at_path) = socket_path(&directory);
        for address in ["127.0.0.1:0".parse().unwrap(), at_path] {
            let listener = listen(&address, &PLAIN).unwrap();
            // A client that waits to be accepted is no shutdown.
            let _client = connect(&address_or(&listener, &address)).unwrap();
            wait(&listener, PollFlags::IN);
            assert!(is_listening(&listener), "{address}");
            shutdown(&listener, Shutdown::Both).unwrap();
            assert!(!is_listening(&listener), "{address}");
        }
        let (client, _server) = pair_over("127.0.0.1:0");
        assert!(!is_listening(&client));
    }

    fn address_or(listener: &OwnedFd, address: &Address) -> Address {
        match address {
            Address::Ip(_) => address_of(listener),
            other => other.clone(),
        }
    }

    #[test]
    fn a_listener_is_set_as_it_was_opened() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap(), &PLAIN).unwrap();
        ioctl_fionbio(&listener, false).unwrap();
        sockopt::set_tcp_nodelay(&listener, false).unwrap();
        sockopt::set_socket_linger(&listener, Some(Duration::ZERO)).unwrap();
        restore_listener(&listener);
        assert_fails(accept(&listener), ErrorKind::WouldBlock);
        assert!(sockopt::tcp_nodelay(&listener).unwrap());
        assert_eq!(sockopt::socket_linger(&listener).unwrap(), None);
    }

    #[test]
    fn a_path_left_behind_is_replaced_and_a_living_one_is_not() {
        let directory = Directory::new();
        let (_, address) = socket_path(&directory);
        let first = listen(&address, &PLAIN).unwrap();
        assert_fails(listen(&address, &PLAIN), ErrorKind::AddrInUse);
        // No connection arrived.
        assert_fails(accept(&first), ErrorKind::WouldBlock);
        drop(first);

        let listener = listen(&address, &PLAIN).unwrap();
        let (client, connected) = connect(&address).unwrap();
        assert!(connected);
        let (server, peer) = accept_one(&listener);
        assert_eq!(peer, PeerAddress::Unix);
        assert_eq!(local_address(&server).unwrap(), PeerAddress::Unix);
        write(&client, b"x").unwrap();
        assert_eq!(read(&server, &mut [0; 2]).unwrap(), 1);
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let directory = Directory::new();
        let (path, address) = socket_path(&directory);
        std::fs::write(&path, b"precious").unwrap();
        assert_fails(listen(&address, &PLAIN), ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_path_has_the_permissions_asked_for() {
        let directory = Directory::new();
        let (path, address) = socket_path(&directory);
        let options = ListenOptions { unix_mode: Some(0o666), ..PLAIN };
        let _listener = listen(&address, &options).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
    }

    #[test]
    fn no_other_file_gets_the_permissions_of_a_socket() {
        let directory = Directory::new();
        let victim = directory.write("victim", "secret");
        let mode_of = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        std::fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
        let [link, socket, other] = ["link", "socket", "other"].map(|name| directory.join(name));
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, Permissions::from_mode(0o600)).unwrap();
        std::fs::hard_link(&socket, &other).unwrap();
        for place in [&link, &victim, &other] {
            assert_fails(set_socket_mode(place, 0o666), ErrorKind::PermissionDenied);
        }
        assert_eq!((mode_of(&victim), mode_of(&socket)), (0o600, 0o600));
        std::fs::remove_file(&other).unwrap();
        set_socket_mode(&socket, 0o666).unwrap();
        assert_eq!(mode_of(&socket), 0o666);
    }

    #[test]
    fn an_abstract_name_leaves_no_trace() {
        let name = format!("unix:@lariat-sys-{}", std::process::id());
        let address: Address = name.parse().unwrap();
        let listener = listen(&address, &PLAIN).unwrap();
        assert_fails(listen(&address, &PLAIN), ErrorKind::AddrInUse);
        assert!(connect(&address).unwrap().1);
        drop(listener);
        assert_fails(connect(&address), ErrorKind::ConnectionRefused);
    }
}
