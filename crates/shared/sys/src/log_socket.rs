//! Sends log entries to collectors over datagram sockets: each datagram is one entry.
//!
//! Handles delivery, also of entries that no datagram can hold; the caller writes the entries.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, connect, getpeername, send, sendmsg, shutdown, socket_with, sockopt,
};
use wire::address::Address;

use crate::socket::{take_error, unix_address};
use crate::{memory, wait_for};

/// Size of the kernel's queue of unread entries, in bytes, as libsystemd sets it. The kernel gives
/// at most `net.core.wmem_max`. It also limits the length of a datagram.
const SEND_BYTES: usize = 8 << 20;

const FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// Opens a socket and connects it to the collector at this address; the inner error is the reason
/// why it is not connected.
///
/// # Errors
/// Fails if no socket can be opened.
pub fn open(address: &Address) -> io::Result<(OwnedFd, io::Result<()>)> {
    let family = match address {
        Address::Unix(_) => AddressFamily::UNIX,
        Address::Ip(ip) if ip.is_ipv4() => AddressFamily::INET,
        Address::Ip(_) => AddressFamily::INET6,
        Address::Inherited(_) => return Err(io::ErrorKind::NotFound.into()),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, SocketType::DGRAM, flags, None)?;
    sockopt::set_socket_send_buffer_size(&fd, SEND_BYTES)?;
    let connected = match address {
        Address::Ip(ip) => connect(&fd, ip),
        Address::Unix(name) => unix_address(name).and_then(|name| connect(&fd, &name)),
        Address::Inherited(_) => Err(Errno::NOENT),
    };
    Ok((fd, connected.map_err(io::Error::from)))
}

/// Opens another stream to the collector of `fd`, and sends a greeting on it. A process that owns
/// it cannot shut down the first one, as shutdown(2) on a copy of that socket would.
///
/// # Errors
/// Fails if `fd` is connected to no path, or the collector takes no stream now: never waits.
pub fn open_another(fd: impl AsFd, greeting: &[u8]) -> io::Result<OwnedFd> {
    let collector = getpeername(fd)?.ok_or(io::ErrorKind::NotFound)?;
    let collector = SocketAddrUnix::try_from(collector)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&stream, &collector)?;
    shutdown(&stream, Shutdown::Read)?;
    if send(&stream, greeting, FLAGS)? < greeting.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    fcntl_setfl(&stream, fcntl_getfl(&stream)?.difference(OFlags::NONBLOCK))?;
    Ok(stream)
}

/// Sends an entry without blocking. Fails with `WouldBlock` if the collector's queue is full, and
/// with an error that [`is_too_large`] if no datagram can hold it; otherwise the collector is away.
pub fn send_entry(fd: impl AsFd, entry: &[u8]) -> io::Result<()> {
    retry_on_intr(|| send(&fd, entry, FLAGS))?;
    Ok(())
}

/// Reports whether the error means that no datagram can hold the entry.
pub fn is_too_large(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MSGSIZE)
}

/// Sends an entry that no datagram can hold, without blocking, as a sealed memory file, which
/// journald accepts.
pub fn send_large_entry(fd: impl AsFd, entry: &[u8]) -> io::Result<()> {
    let file = memory::sealed("lariat-log-entry", entry)?;
    let fds = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let nothing = [IoSlice::new(&[])];
    retry_on_intr(|| sendmsg(&fd, &nothing, &mut control, FLAGS))?;
    Ok(())
}

/// Waits at most this long for the error that answers an earlier entry.
///
/// # Errors
/// Fails with that error if it arrives.
pub fn late_error(fd: impl AsFd, time_max: Duration) -> io::Result<()> {
    wait(&fd, PollFlags::empty(), time_max)?;
    take_error(&fd)?.map_or(Ok(()), Err)
}

/// Waits until the collector's queue may have room, at most this long.
pub fn wait_for_room(fd: impl AsFd, time_max: Duration) -> io::Result<()> {
    wait(&fd, PollFlags::OUT, time_max)
}

fn wait(fd: &impl AsFd, events: PollFlags, time_max: Duration) -> io::Result<()> {
    match wait_for(fd, events, Some(time_max)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::fs::FileExt;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    use wire::address::UnixName;

    use super::*;
    use testkit::directory::Directory;

    fn collector(directory: &Directory) -> (Address, UnixDatagram) {
        let path = directory.join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        (Address::Unix(UnixName::Path(path)), socket)
    }

    #[test]
    fn entries_arrive_until_the_collector_is_away_and_after() {
        let directory = Directory::new();
        let (address, socket) = collector(&directory);
        let (fd, connected) = open(&address).unwrap();
        connected.unwrap();
        send_entry(&fd, b"one").unwrap();
        let mut room = [0; 16];
        let count = socket.recv(&mut room).unwrap();
        assert_eq!(&room[..count], b"one");
        drop(socket);
        std::fs::remove_file(directory.join("socket")).unwrap();
        let error = send_entry(&fd, b"two").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let (unconnected, connected) = open(&address).unwrap();
        assert_eq!(connected.unwrap_err().kind(), io::ErrorKind::NotFound);
        let error = send_entry(&unconnected, b"three").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }

    #[test]
    fn what_is_done_to_a_further_stream_leaves_the_first() {
        let directory = Directory::new();
        let listener = UnixListener::bind(directory.join("socket")).unwrap();
        let mut own = UnixStream::connect(directory.join("socket")).unwrap();
        let (mut first, _) = listener.accept().unwrap();
        let further = open_another(&own, b"greeting\n").unwrap();
        let (second, _) = listener.accept().unwrap();
        rustix::io::ioctl_fionbio(&further, true).unwrap();
        shutdown(&further, Shutdown::Both).unwrap();
        assert_eq!(io::read_to_string(second).unwrap(), "greeting\n");
        assert!(!fcntl_getfl(&own).unwrap().contains(OFlags::NONBLOCK));
        own.write_all(b"x").unwrap();
        first.read_exact(&mut [0]).unwrap();
        // A socket pair has no path.
        let (near, _far) = UnixStream::pair().unwrap();
        open_another(&near, b"greeting").unwrap_err();
    }

    #[test]
    fn an_entry_over_udp_that_nobody_takes_is_refused_late() {
        let holder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = Address::Ip(holder.local_addr().unwrap());
        let (fd, _) = open(&address).unwrap();
        send_entry(&fd, b"one").unwrap();
        late_error(&fd, Duration::ZERO).unwrap();
        drop(holder);
        send_entry(&fd, b"two").unwrap();
        let error = late_error(&fd, Duration::from_secs(10)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_full_queue_takes_nothing_until_it_is_read() {
        let directory = Directory::new();
        let (address, socket) = collector(&directory);
        let (fd, _) = open(&address).unwrap();
        let full = loop {
            if let Err(error) = send_entry(&fd, b"entry") {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        wait_for_room(&fd, Duration::ZERO).unwrap();
        socket.recv(&mut [0; 16]).unwrap();
        wait_for_room(&fd, Duration::from_secs(10)).unwrap();
        send_entry(&fd, b"entry").unwrap();
    }

    #[test]
    fn an_entry_of_any_length_arrives_in_a_file_that_nobody_can_change() {
        let directory = Directory::new();
        let (address, socket) = collector(&directory);
        let (fd, _) = open(&address).unwrap();
        let entry = vec![b'x'; 3 * SEND_BYTES];
        let error = send_entry(&fd, &entry).unwrap_err();
        assert!(is_too_large(&error), "{error}");
        send_large_entry(&fd, &entry).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(&socket, &mut [], &mut control, RecvFlags::empty()).unwrap();
        assert_eq!(received.bytes, 0);
        let fds = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let file = File::from(fds.unwrap().next().unwrap());
        let mut read = vec![0; entry.len()];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read == entry);
        assert_eq!(file.metadata().unwrap().len(), entry.len() as u64);
        file.write_at(b"y", 0).unwrap_err();
        file.set_len(0).unwrap_err();
    }
}
