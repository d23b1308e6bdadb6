//! Takes the descriptors that a service manager passes at start (sd_listen_fds(3)), finds the
//! addresses of listeners among them, and sends descriptors to a manager that keeps them for the
//! next start (sd_pid_notify_with_fds(3)).
//!
//! The caller knows how many there are, and which descriptor is kept by which name.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::{Errno, fcntl_dupfd_cloexec, ioctl_fionbio};
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, getsockname,
    sendmsg_addr, sockopt,
};
use wire::address::{Address, UnixName};

/// Most descriptors in one message: the kernel takes 253 (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 250;

/// First descriptor after the three standard streams.
const FIRST: RawFd = 3;

/// Reason why a descriptor cannot accept connections.
#[derive(Debug)]
pub enum Unusable {
    /// Not a socket: a file or a pipe, for example.
    NoSocket,
    /// Not a stream socket: a datagram socket, for example.
    NoStream,
    /// A connection, or a socket that does not listen.
    NoListener,
    Family,
    /// Any other error of the host.
    Host(io::Error),
}

impl std::error::Error for Unusable {}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSocket => f.write_str("is no socket"),
            Self::NoStream => f.write_str("is no stream socket"),
            Self::NoListener => f.write_str("is a socket that does not listen"),
            Self::Family => f.write_str("listens at no address of IP and no Unix socket"),
            Self::Host(error) => write!(f, "cannot be used: {error}"),
        }
    }
}

impl From<Errno> for Unusable {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOTSOCK => Self::NoSocket,
            other => Self::Host(other.into()),
        }
    }
}

/// A non-blocking listener and its address.
pub type Inherited = (OwnedFd, Address);

/// Takes the `number`th, from 0 on, of the `count` descriptors that were passed, moves it away from
/// its old number and makes it close-on-exec. `None` if it is not open.
///
/// Must be called once for each, before the process opens anything.
pub fn take(number: u16, count: u16) -> io::Result<Option<OwnedFd>> {
    let number = FIRST + RawFd::from(number);
    // SAFETY: one call to the kernel is made with the number, which survives if it is not open:
    // nothing is read, written or closed.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    // The new number must lie behind all descriptors that were passed.
    let fd = match fcntl_dupfd_cloexec(given, FIRST + RawFd::from(count)) {
        Err(Errno::BADF) => return Ok(None),
        taken => taken?,
    };
    // SAFETY: it is open, as was just seen, and nobody's but the caller's, who was given it: this
    // process has opened nothing yet.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Ok(Some(fd))
}

/// Checks that a descriptor can accept connections, and prepares it for that.
pub fn listener(fd: OwnedFd) -> Result<Inherited, Unusable> {
    if sockopt::socket_type(&fd)? != SocketType::STREAM {
        return Err(Unusable::NoStream);
    }
    if !sockopt::socket_acceptconn(&fd)? {
        return Err(Unusable::NoListener);
    }
    let address = address(&fd)?;
    ioctl_fionbio(&fd, true)?;
    if let Address::Ip(_) = address {
        // As for listeners that we open: accepted connections inherit it.
        sockopt::set_tcp_nodelay(&fd, true)?;
    }
    Ok((fd, address))
}

/// Sends the manager at that name, `/path` or `@abstract`, a datagram with at most
/// [`DESCRIPTORS_MAX`] descriptors, which stay open here. Never blocks.
pub fn notify(
    socket: BorrowedFd<'_>,
    manager: &OsStr,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let to = match manager.as_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
        _ => SocketAddrUnix::new(manager)?,
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg_addr(socket, &to, &[IoSlice::new(bytes)], &mut control, flags)?;
    Ok(())
}

fn address(fd: &OwnedFd) -> Result<Address, Unusable> {
    let bound = getsockname(fd)?;
    if let Ok(ip) = SocketAddr::try_from(bound.clone()) {
        return Ok(Address::Ip(ip));
    }
    let unix = SocketAddrUnix::try_from(bound).map_err(|_| Unusable::Family)?;
    let name = match (unix.path_bytes(), unix.abstract_name()) {
        (_, Some(name)) => UnixName::Abstract(name.to_vec()),
        (Some(path), None) => UnixName::Path(PathBuf::from(OsStr::from_bytes(path))),
        (None, None) => return Err(Unusable::Family),
    };
    Ok(Address::Unix(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
    use std::os::unix::net::{UnixDatagram, UnixListener};
    use testkit::directory::Directory;

    fn taken(fd: &impl AsFd) -> Result<Inherited, Unusable> {
        listener(fd.as_fd().try_clone_to_owned().unwrap())
    }

    #[test]
    fn what_was_handed_over_is_taken_once_and_is_no_more_where_it_was() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        // A closed number may be reused by another test: this one is beyond those.
        let high = fcntl_dupfd_cloexec(&tcp, 900).unwrap();
        drop(tcp);
        let number = u16::try_from(high.into_raw_fd() - FIRST).unwrap();
        let fd = take(number, 1).unwrap().unwrap();
        assert_ne!(fd.as_raw_fd(), RawFd::from(number) + FIRST);
        assert!(take(number, 1).unwrap().is_none());
        TcpStream::connect(address).unwrap();
        drop(fd);
        // A child of another test has a copy until its exec. A full queue makes us wait.
        let ended = iter::repeat_with(|| TcpStream::connect(address)).find_map(Result::err);
        assert_eq!(ended.unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_manager_gets_words_and_descriptors() {
        use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr as UnixName};
        let name = format!("@lariat-manager-{}", std::process::id());
        let address = UnixName::from_abstract_name(&name[1..]).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let tell = |to: &str, fds: &[BorrowedFd<'_>]| {
            notify(socket.as_fd(), OsStr::new(to), b"FDSTORE=1", fds)
        };
        for count in [0, 1, DESCRIPTORS_MAX] {
            tell(&name, &vec![null.as_fd(); count]).unwrap();
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
            let mut room = [0; 16];
            let received = rustix::net::recvmsg(
                &manager,
                &mut [io::IoSliceMut::new(&mut room)],
                &mut control,
                rustix::net::RecvFlags::CMSG_CLOEXEC,
            );
            assert_eq!(&room[..received.unwrap().bytes], b"FDSTORE=1");
            let came = control.drain().map(|message| match message {
                rustix::net::RecvAncillaryMessage::ScmRights(fds) => fds.count(),
                _ => 0,
            });
            assert_eq!(came.sum::<usize>(), count);
        }
        tell(&name, &vec![null.as_fd(); DESCRIPTORS_MAX + 4]).unwrap_err();
        tell("@lariat-no-manager", &[]).unwrap_err();
        while tell(&name, &[]).is_ok() {}
        let full = tell(&name, &[]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_listener_is_taken_with_its_address() {
        let name = format!("lariat-inherited-{}", std::process::id());
        let directory = Directory::new();
        let path = directory.join("socket");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = UnixListener::bind(&path).unwrap();
        let (fd, address) = taken(&tcp).unwrap();
        assert_eq!(address, Address::Ip(tcp.local_addr().unwrap()));
        let refused = crate::socket::accept(&fd).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let (_, address) = taken(&unix).unwrap();
        assert_eq!(address.to_string(), format!("unix:{}", path.display()));
        let of_name = crate::socket::ListenOptions {
            backlog: 1,
            fast_open: 0,
            reuse_port: false,
            unix_mode: None,
        };
        let address: Address = format!("unix:@{name}").parse().unwrap();
        let unnamed = crate::socket::listen(&address, &of_name).unwrap();
        assert_eq!(taken(&unnamed).unwrap().1, address);
    }

    #[test]
    fn anything_else_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let why = |fd: &dyn AsFd| {
            let fd = fd.as_fd().try_clone_to_owned().unwrap();
            super::listener(fd).unwrap_err().to_string()
        };
        assert_eq!(why(&client), "is a socket that does not listen");
        assert_eq!(why(&datagrams), "is no stream socket");
        assert_eq!(why(&file), "is no socket");
        assert!(take(u16::MAX, 1).unwrap().is_none());
    }
}
