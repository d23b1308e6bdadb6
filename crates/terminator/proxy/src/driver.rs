//! The seam between the worker's loop and the operating system.
//!
//! Every request of a worker to the kernel for its connections goes through here: wait, accept,
//! connect, receive, send, pass on, end, reset. This driver is epoll, edge-triggered; another one
//! would replace only this file. The driver remembers readiness, so no system call is made that is
//! known to give nothing.
//!
//! An event may arrive for a connection that ended earlier in the same batch and whose place has
//! been taken since. So the token under which the kernel reports events carries, beside the place,
//! how often that place was used.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use flow::events::ReceiveResult;
use sys::epoll::{Epoll, Event, Events, Interest, Waker};
use sys::ktls::{self, Keys, KtlsDirection};
use sys::socket::{self, BindSource, PeerAddress};
use sys::transfer::{self, Pipe};
use wire::address::Address;

use crate::descriptors::Descriptors;
use crate::keepalive::spread;
use crate::slow_client::SendProgress;

/// Events taken from the kernel at once. With more, the first ones of a batch would wait long for
/// the last ones to be handled; fewer would cost system calls.
pub(crate) const EVENTS_PER_WAIT: usize = 256;

/// Largest number of pieces that one vectored read fills.
pub(crate) const PIECES_MAX: usize = flow::buffer::RECORDS_LARGE;

/// Waits for events of sockets.
pub(crate) struct Driver {
    epoll: Epoll,
    events: Events,
    pub(crate) descriptors: Descriptors,
}

/// A connected socket, or one that is being connected.
pub(crate) struct Socket {
    fd: OwnedFd,
    token: u64,
    readable: bool,
    writable: bool,
    /// Whether the peer's FIN is in the receive queue, or has been read.
    read_closed: bool,
    /// Whether a read may stop at the mark of urgent data, with more behind it.
    stops_at_mark: bool,
    failed: bool,
    /// Whether the socket has failed, and earlier bytes are still being received.
    is_broken: bool,
    is_watched: bool,
    watches_writes: bool,
    /// Bytes that the kernel has accepted for sending.
    sent: u64,
    /// Progress at the last call of [`Socket::takes`].
    looked_at: SendProgress,
}

#[cfg(test)]
thread_local! {
    /// Whether an event announces that a server is connected, as from other hosts.
    pub(crate) static CONNECTS_LATER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A connection to be made.
pub(crate) struct Connect<'a> {
    pub(crate) address: &'a Address,
    pub(crate) source: BindSource,
    /// Whether we send first, as soon as the connection is established.
    pub(crate) speaks_first: bool,
    /// Time that sent bytes may stay unacknowledged; `None` = the kernel's own limit.
    pub(crate) unacknowledged: Option<Duration>,
    pub(crate) token: u64,
}

/// Outcome of sending a range of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FileSent {
    /// Number of bytes sent.
    Bytes(usize),
    /// The file ends before the range, or cannot be read.
    NoFile,
    /// The kernel cannot send such a file; it has to be read.
    Unfit,
    Failed,
}

impl Driver {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new()?,
            events: Events::with_capacity(EVENTS_PER_WAIT),
            descriptors: Descriptors::default(),
        })
    }

    /// Waits for events, at most for this time (`None` = without limit), and puts them into
    /// `batch`; returns whether there may be more.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        batch: &mut Vec<Event>,
    ) -> io::Result<bool> {
        let count = self.epoll.wait(&mut self.events, timeout)?;
        batch.clear();
        batch.extend(self.events.iter());
        Ok(count == EVENTS_PER_WAIT)
    }

    /// Watches a listener. A listener that several workers share wakes only one of them.
    pub(crate) fn listen(&self, fd: &OwnedFd, token: u64, is_shared: bool) -> io::Result<()> {
        let interest = if is_shared { Interest::ACCEPT_SHARED } else { Interest::READ };
        self.epoll.add(fd, token, interest)
    }

    pub(crate) fn ignore(&self, fd: &OwnedFd) {
        // An error means that the listener was not watched; either way it is not watched now.
        let _ = self.epoll.remove(fd);
    }

    /// Watches for wake-ups by other threads.
    pub(crate) fn watch_waker(&self, waker: &Waker, token: u64) -> io::Result<()> {
        self.epoll.add(waker, token, Interest::READ)
    }

    /// Accepts the next connection in a listener's queue.
    pub(crate) fn accept(&self, listener: &OwnedFd) -> io::Result<(OwnedFd, PeerAddress)> {
        socket::accept(listener)
    }

    /// Watches a connection that was accepted.
    pub(crate) fn adopt(&self, fd: OwnedFd, token: u64) -> io::Result<Socket> {
        self.epoll.add(&fd, token, Interest::STREAM)?;
        // A client has often sent its first bytes by now: try before waiting.
        Ok(Socket::new(fd, token, true))
    }

    /// Resets a connection that was accepted.
    pub(crate) fn refuse(&self, fd: OwnedFd) {
        // The connection is closed either way.
        let _ = socket::reset_on_close(&fd);
    }

    /// Begins to connect; returns whether the socket is connected already.
    pub(crate) fn connect(&self, dial: &Connect<'_>) -> io::Result<(Socket, bool)> {
        let &Connect { address, token, .. } = dial;
        let (fd, connected) = socket::connect_as(dial.source, address, dial.speaks_first)?;
        if !self.descriptors.suffice_for_connection(&fd) {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        #[cfg(test)]
        let connected = connected && !CONNECTS_LATER.get();
        if let (Address::Ip(_), limit @ Some(_)) = (address, dial.unacknowledged) {
            socket::set_unacknowledged(&fd, limit)?;
        }
        let interest =
            if connected { Interest::STREAM } else { Interest::STREAM | Interest::WRITE };
        self.epoll.add(&fd, token, interest)?;
        let mut socket = Socket::new(fd, token, false);
        socket.writable = connected;
        socket.watches_writes = !connected;
        Ok((socket, connected))
    }

    /// Reports whether a socket may be kept for a dial that races with another one.
    pub(crate) fn has_descriptor_to_race(&self, socket: &Socket) -> bool {
        self.descriptors.suffice_for_extra(&socket.fd)
    }

    /// Reports whether a socket may be kept for the trial of an ejected address. Only the last
    /// descriptors are barred, because an address has one trial in an ejection time.
    pub(crate) fn has_descriptor_to_try(&self, socket: &Socket) -> bool {
        self.descriptors.suffice_for_file(&socket.fd)
    }

    /// Reports a socket's events under another token from now on. Past events are reported again.
    pub(crate) fn rename(&self, socket: &mut Socket, token: u64) {
        if std::mem::replace(&mut socket.token, token) != token {
            (socket.writable, socket.watches_writes) = (false, false);
            self.watch_writes(socket);
        }
    }

    /// Removes a socket from epoll; returns whether it is out.
    pub(crate) fn unwatch(&self, socket: &mut Socket) -> bool {
        socket.is_watched = self.epoll.remove(&socket.fd).is_err();
        socket.watches_writes &= socket.is_watched;
        !socket.is_watched
    }

    /// Adds a socket to epoll again, which reports what came meanwhile. If the socket cannot be
    /// added, the connection has failed, and no event reports it.
    pub(crate) fn watch(&self, socket: &mut Socket) {
        let add = || self.epoll.add(&socket.fd, socket.token, Interest::STREAM);
        if !socket.is_watched && add().is_err() {
            socket.failed = true;
        }
        socket.is_watched = true;
    }

    /// Asks for an event when a socket that took no more bytes takes them again.
    pub(crate) fn watch_writes(&self, socket: &mut Socket) {
        if !socket.writable && !socket.watches_writes {
            self.watch(socket);
            socket.watches_writes = true;
            let interest = Interest::STREAM | Interest::WRITE;
            if self.epoll.modify(&socket.fd, socket.token, interest).is_err() {
                socket.failed = true;
            }
        }
    }
}

impl Socket {
    fn new(fd: OwnedFd, token: u64, readable: bool) -> Self {
        Self {
            fd,
            token,
            readable,
            writable: true,
            read_closed: false,
            stops_at_mark: false,
            failed: false,
            is_broken: false,
            is_watched: true,
            watches_writes: false,
            sent: 0,
            looked_at: SendProgress::default(),
        }
    }

    pub(crate) fn note(&mut self, event: &Event) {
        self.readable |= event.readable || event.read_closed || event.hung_up || event.urgent;
        self.stops_at_mark |= event.urgent;
        self.writable |= event.writable;
        // After a reset the kernel reports both as well, and no FIN has come.
        self.read_closed |= (event.read_closed || event.hung_up) && !event.error;
        self.failed |= event.error;
    }

    /// Marks the socket readable: bytes may have come while it was not in epoll.
    pub(crate) fn look(&mut self) {
        self.readable = true;
    }

    /// Reports whether the socket is in epoll.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Asks the kernel whether the socket is connected.
    pub(crate) fn is_connected(&self) -> bool {
        socket::is_connected(&self.fd)
    }

    /// Reports whether the kernel has reported an error; `take_error` returns it.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns the error that the kernel has reported.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.failed = false;
        socket::take_error(&self.fd).ok().flatten()
    }

    /// Notes that nothing can be sent any more. Bytes that came before the failure can still be
    /// received; the end after them counts as a failure, unless a FIN had been seen.
    pub(crate) fn break_off(&mut self) {
        self.failed = false;
        self.is_broken = true;
        self.readable = true;
    }

    /// Returns the received bytes, up to the length of `room`, without removing them.
    pub(crate) fn peek<'a>(&self, room: &'a mut [u8]) -> &'a [u8] {
        // A failure shows when the bytes are received.
        let count = socket::peek(&self.fd, room).unwrap_or(0);
        room.get(..count).unwrap_or_default()
    }

    pub(crate) fn receive(&mut self, room: &mut [u8]) -> ReceiveResult {
        let result = socket::read(&self.fd, room);
        self.received(result, room.len())
    }

    /// Receives into several pieces, in order.
    pub(crate) fn receive_pieces(&mut self, pieces: &mut [IoSliceMut<'_>]) -> ReceiveResult {
        let room = pieces.iter().map(|piece| piece.len()).sum();
        let result = socket::read_vectored(&self.fd, pieces);
        self.received(result, room)
    }

    fn received(&mut self, result: io::Result<usize>, room: usize) -> ReceiveResult {
        match result {
            Ok(0) => {
                self.readable = false;
                if self.is_broken && !self.read_closed {
                    ReceiveResult::Failed
                } else {
                    ReceiveResult::End
                }
            }
            // Fewer bytes than the room: the queue is empty (epoll(7)), and if the FIN was known to
            // be in it before, it has been reached.
            Ok(count) if count < room && !self.stops_at_mark => {
                // No event follows on a failed connection: its end is found by reading.
                self.readable = self.is_broken;
                if self.read_closed {
                    ReceiveResult::Last(count)
                } else {
                    ReceiveResult::Bytes(count)
                }
            }
            Ok(count) => ReceiveResult::Bytes(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                ReceiveResult::Nothing
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => ReceiveResult::Nothing,
            Err(_) => {
                self.readable = false;
                ReceiveResult::Failed
            }
        }
    }

    /// Sends as many bytes as the kernel takes; `None` = the connection is broken.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Option<usize> {
        let result = socket::write(&self.fd, bytes);
        self.sent(result, bytes.len())
    }

    /// Sends two pieces in order, like [`Socket::send`].
    pub(crate) fn send_pieces(&mut self, pieces: [&[u8]; 2]) -> Option<usize> {
        let size = pieces[0].len() + pieces[1].len();
        let result = socket::write_vectored(&self.fd, &pieces.map(IoSlice::new));
        self.sent(result, size)
    }

    fn sent(&mut self, result: io::Result<usize>, size: usize) -> Option<usize> {
        match result {
            Ok(count) => {
                self.writable = count == size;
                self.sent += count as u64;
                Some(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.writable = false;
                Some(0)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Some(0),
            Err(_) => None,
        }
    }

    /// Sends bytes that others follow at once, like [`Socket::send`].
    pub(crate) fn send_more(&mut self, bytes: &[u8]) -> Option<usize> {
        let result = socket::write_more(&self.fd, bytes);
        self.sent(result, bytes.len())
    }

    /// Sends a range of a file without reading it.
    pub(crate) fn send_file(&mut self, file: impl AsFd, offset: u64, count: usize) -> FileSent {
        match transfer::send_file(&self.fd, file, offset, count) {
            Ok(0) => FileSent::NoFile,
            // A short count says nothing: the file may have become shorter, and then no event would
            // announce room that was there all the time. The next call shows it.
            Ok(sent) => {
                self.sent += sent as u64;
                FileSent::Bytes(sent)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => {
                    self.writable = false;
                    FileSent::Bytes(0)
                }
                ErrorKind::Interrupted => FileSent::Bytes(0),
                ErrorKind::InvalidInput | ErrorKind::Unsupported => FileSent::Unfit,
                _ if is_of_socket(&error) => FileSent::Failed,
                _ => FileSent::NoFile,
            },
        }
    }

    /// Reports whether bytes may be received into a pipe. splice(2) does not pass the mark of
    /// urgent data, where recv(2) does.
    pub(crate) fn can_fill(&self) -> bool {
        self.readable && !self.stops_at_mark
    }

    /// Receives into a pipe that is empty. At the mark of urgent data, which no event may have
    /// reported yet, splice(2) mistakes the peer's FIN behind it for the next thing to come.
    pub(crate) fn fill(&mut self, pipe: &Pipe) -> ReceiveResult {
        let result = pipe.fill(&self.fd, pipe.capacity());
        if matches!(result, Ok(0)) && !self.peek(&mut [0]).is_empty() {
            self.stops_at_mark = true;
            return ReceiveResult::Nothing;
        }
        // The count that fits depends on the sizes of the packets: only an empty queue proves that
        // it is empty.
        self.received(result, 0)
    }

    /// Sends what is in a pipe, like [`Socket::send`]. After a short count only the next call shows
    /// whether the socket takes more, because the kernel may stop between two pieces.
    pub(crate) fn drain(&mut self, pipe: &Pipe, count: usize) -> Option<usize> {
        let result = pipe.drain(&self.fd, count, false);
        let sent = *result.as_ref().unwrap_or(&count);
        self.sent(result, sent)
    }

    /// Makes the kernel, which encrypts, send a record of that type; returns whether it took it.
    /// `None` = the connection is broken.
    ///
    /// The record waits for room in the queue, because it may be the stream's last: without room it
    /// would be lost when the connection is closed.
    pub(crate) fn send_record(&mut self, kind: u8, content: &[u8]) -> Option<bool> {
        if !ktls::has_room(&self.fd).ok()? {
            self.writable = false;
            return Some(false);
        }
        let result = ktls::send_record(&self.fd, kind, content).map(|()| content.len());
        Some(self.sent(result, content.len())? > 0)
    }

    /// Makes the kernel encrypt, with these keys, everything that is sent from now on.
    pub(crate) fn hand_over(&self, keys: &Keys<'_>, is_attached: bool) -> io::Result<()> {
        if !is_attached {
            ktls::attach(self.fd.as_fd())?;
        }
        ktls::install(self.fd.as_fd(), KtlsDirection::Send, keys)
    }

    /// Acknowledges received bytes at once.
    pub(crate) fn acknowledge(&self) {
        // A Unix socket has nothing to acknowledge.
        let _ = socket::acknowledge(&self.fd);
    }

    /// Ends our stream; the peer's goes on.
    pub(crate) fn end(&self) {
        // An error means that the connection is gone, which the next event reports.
        let _ = socket::shutdown_write(&self.fd);
    }

    /// Makes the close send a reset.
    pub(crate) fn reset_on_close(&self) {
        // As above: a connection that is gone needs no reset.
        let _ = socket::reset_on_close(&self.fd);
    }

    /// Makes the kernel probe the peer when nothing has come for this time.
    pub(crate) fn keep_alive(&self, idle: Duration) {
        // A Unix socket's peer cannot be lost.
        let number = self.fd.as_raw_fd().unsigned_abs();
        let _ = socket::set_keepalive(&self.fd, spread(idle, number));
    }

    /// Returns how many bytes were sent, and how many the peer has. Headers of records that the
    /// kernel makes count only in the second number: a percent.
    pub(crate) fn progress(&self) -> SendProgress {
        let waiting = socket::unacknowledged_bytes(&self.fd).unwrap_or(0);
        SendProgress { sent: self.sent, acknowledged: self.sent.saturating_sub(waiting) }
    }

    /// Reports whether the peer takes what waits for it in the kernel, which holds some MiB. `None`
    /// = more was sent since the last call, so that the caller has to ask again.
    pub(crate) fn takes(&mut self) -> Option<bool> {
        let now = self.progress();
        let before = std::mem::replace(&mut self.looked_at, now);
        if now.acknowledged == now.sent {
            return Some(false);
        }
        (before.sent == now.sent).then_some(before.acknowledged < now.acknowledged)
    }

    /// Returns the local address.
    pub(crate) fn local_address(&self) -> Option<PeerAddress> {
        socket::local_address(&self.fd).ok()
    }
}

/// Reports whether sending failed because of the connection, and not of the file.
fn is_of_socket(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
    ) || is_unreachable(error)
}

/// Reports whether TCP has given the peer up, or no route leads to it any more.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
    )
}

/// The host has no descriptor left.
pub(crate) const ENFILE: i32 = 23;

/// The process has no descriptor left.
pub(crate) const EMFILE: i32 = 24;

pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EventSource {
    /// The client's socket of a connection.
    Front(ConnectionId),
    /// The server's socket of a connection.
    Back(ConnectionId),
    /// A rival dial of a connection.
    Rival(ConnectionId),
    /// A listener, by its place.
    Listener(usize),
    Waker,
}

/// A connection's place, and the use of that place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ConnectionId {
    pub(crate) place: u32,
    /// Number of earlier uses of the place, modulo 2^29: two uses that far apart never meet in one
    /// batch.
    pub(crate) generation: u32,
}

const KIND_BITS: u32 = 3;
pub(crate) const GENERATION_MASK: u32 = (1 << 29) - 1;

impl EventSource {
    pub(crate) fn token(self) -> u64 {
        let (kind, rest) = match self {
            Self::Front(id) => (0, id.bits()),
            Self::Back(id) => (1, id.bits()),
            Self::Listener(place) => (2, place as u64),
            Self::Waker => (3, 0),
            Self::Rival(id) => (4, id.bits()),
        };
        rest << KIND_BITS | kind
    }

    pub(crate) fn of(token: u64) -> Self {
        let rest = token >> KIND_BITS;
        match token & ((1 << KIND_BITS) - 1) {
            0 => Self::Front(ConnectionId::of(rest)),
            1 => Self::Back(ConnectionId::of(rest)),
            2 => Self::Listener(rest as usize),
            4 => Self::Rival(ConnectionId::of(rest)),
            _ => Self::Waker,
        }
    }
}

impl ConnectionId {
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    pub(crate) fn of(bits: u64) -> Self {
        Self { place: bits as u32, generation: (bits >> 32) as u32 & GENERATION_MASK }
    }
}

#[cfg(test)]
mod tests;
