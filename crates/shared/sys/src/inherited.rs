//! Sockets that this process was started with, as a service manager hands them over
//! (sd_listen_fds(3)): which addresses they listen at.
//!
//! How many there are is the caller's to know.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, ioctl_fionbio};
use rustix::net::{SocketAddrUnix, SocketType, getsockname, sockopt};
use wire::address::{Address, UnixName};

/// The descriptors of a process's three standard streams come before all others.
const FIRST: RawFd = 3;

/// Why a descriptor is nothing that connections come from.
#[derive(Debug)]
pub enum Unusable {
    /// There is no such descriptor.
    Closed,
    /// It is a file, a pipe or what else.
    NoSocket,
    /// It has no streams: a datagram socket, for example.
    NoStream,
    /// It is a connection, or was never told to listen.
    NoListener,
    /// Its address is of another family.
    Family,
    /// The host said something else.
    Host(io::Error),
}

impl std::error::Error for Unusable {}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("is not open"),
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
            Errno::BADF => Self::Closed,
            Errno::NOTSOCK => Self::NoSocket,
            other => Self::Host(other.into()),
        }
    }
}

/// A socket that listens, non-blocking and closed on exec, and its address.
pub type Inherited = (OwnedFd, Address);

/// Takes the `number`th, from 0 on, of so many descriptors that were handed over. They stay open
/// for the life of the process, as they do in the manager, but are handed on to no program.
pub fn listener(number: u16, count: u16) -> Result<Inherited, Unusable> {
    let number = FIRST + RawFd::from(number);
    // SAFETY: two calls to the kernel are made with the number, which both survive if it is not
    // open: nothing is read, written or closed.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    // Ours must not be taken for one of those that come after it.
    let fd = fcntl_dupfd_cloexec(given, FIRST + RawFd::from(count))?;
    fcntl_setfd(given, FdFlags::CLOEXEC)?;
    if sockopt::socket_type(&fd)? != SocketType::STREAM {
        return Err(Unusable::NoStream);
    }
    if !sockopt::socket_acceptconn(&fd)? {
        return Err(Unusable::NoListener);
    }
    let address = address(&fd)?;
    ioctl_fionbio(&fd, true)?;
    if let Address::Ip(_) = address {
        // As for sockets of our own: what is accepted inherits it.
        sockopt::set_tcp_nodelay(&fd, true)?;
    }
    Ok((fd, address))
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
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;

    fn taken(fd: &impl AsRawFd) -> Result<Inherited, Unusable> {
        listener(u16::try_from(fd.as_raw_fd() - FIRST).unwrap(), 1)
    }

    #[test]
    fn a_listener_is_taken_with_its_address() {
        let name = format!("lariat-inherited-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = UnixListener::bind(&path).unwrap();
        let (fd, address) = taken(&tcp).unwrap();
        assert_eq!(address, Address::Ip(tcp.local_addr().unwrap()));
        let refused = crate::socket::accept(&fd).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let (_, address) = taken(&unix).unwrap();
        std::fs::remove_file(&path).unwrap();
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
        let why = |fd: &dyn AsRawFd| {
            let number = u16::try_from(fd.as_raw_fd() - FIRST).unwrap();
            super::listener(number, 1).unwrap_err().to_string()
        };
        assert_eq!(why(&client), "is a socket that does not listen");
        assert_eq!(why(&datagrams), "is no stream socket");
        assert_eq!(why(&file), "is no socket");
        let none = super::listener(u16::MAX, 1).unwrap_err();
        assert_eq!(none.to_string(), "is not open");
    }
}
