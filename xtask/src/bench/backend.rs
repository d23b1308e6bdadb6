//! The plain server behind the servers under test: one thread that must never be the limit.
//!
//! It answers the two requests of `work` and nothing else. Small replies are one write of ready
//! bytes; bulk is sent from a memory file by `sendfile`, without a copy on its side.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fs::MemfdFlags;

use super::process;
use super::work::{
    BODY_PERIOD, BULK_BODY_BYTES, BULK_REQUEST, SMALL_BODY_BYTES, SMALL_REQUEST, body_byte,
    reply_head,
};

/// Bytes of the memory file: a whole number of the body's periods.
const BULK_FILE_BYTES: usize = BODY_PERIOD * 8192;
/// Bulk bytes for one connection before the others get their turn.
const BULK_TURN_BYTES: usize = 1 << 20;
/// Above all descriptors' numbers: tokens of listeners are this and their index.
const LISTENER_TOKENS: u64 = 1 << 32;

/// Where a running backend listens; one listener for each server under test, so that their
/// connections do not share a range of ports.
pub(crate) struct Backend {
    addresses: Vec<SocketAddr>,
    accepted: Arc<Vec<AtomicU64>>,
}

impl Backend {
    /// Starts the thread on `core`; it runs until the process ends.
    pub(crate) fn start(listeners: usize, core: usize) -> Result<Self> {
        let sockets = (0..listeners)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .collect::<io::Result<Vec<_>>>()
            .context("the backend cannot listen")?;
        let addresses = sockets
            .iter()
            .map(TcpListener::local_addr)
            .collect::<io::Result<_>>()?;
        let accepted: Arc<Vec<_>> = Arc::new((0..listeners).map(|_| AtomicU64::new(0)).collect());
        let mut engine = Engine::new(sockets, Arc::clone(&accepted))?;
        thread::Builder::new()
            .name("backend".into())
            .spawn(move || {
                let outcome = process::pin_thread(core).and_then(|()| engine.run());
                if let Err(error) = outcome {
                    eprintln!("error: the backend failed: {error:#}");
                    std::process::exit(1);
                }
            })?;
        Ok(Self {
            addresses,
            accepted,
        })
    }

    /// The address of one listener.
    pub(crate) fn address(&self, listener: usize) -> SocketAddr {
        self.addresses[listener]
    }

    /// How many connections one listener has accepted.
    pub(crate) fn accepted(&self, listener: usize) -> u64 {
        self.accepted[listener].load(Ordering::Relaxed)
    }
}

struct Connection {
    stream: TcpStream,
    /// The beginning of a request that has not come wholly.
    request: Vec<u8>,
    /// Bytes of a bulk body still to send.
    owed: usize,
}

struct Engine {
    epoll: rustix::fd::OwnedFd,
    listeners: Vec<TcpListener>,
    accepted: Arc<Vec<AtomicU64>>,
    /// By descriptor.
    connections: Vec<Option<Connection>>,
    replies: Replies,
}

struct Replies {
    small: Vec<u8>,
    bulk_head: Vec<u8>,
    bulk_file: File,
}

impl Engine {
    fn new(listeners: Vec<TcpListener>, accepted: Arc<Vec<AtomicU64>>) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (listener, token) in listeners.iter().zip(LISTENER_TOKENS..) {
            listener.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(token);
            epoll::add(&epoll, listener, data, epoll::EventFlags::IN)?;
        }
        let replies = Replies::new()?;
        Ok(Self {
            epoll,
            listeners,
            accepted,
            connections: Vec::new(),
            replies,
        })
    }

    fn run(&mut self) -> Result<()> {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            for event in &events {
                match event.data.u64().checked_sub(LISTENER_TOKENS) {
                    Some(listener) => self.accept(usize::try_from(listener)?)?,
                    None => self.serve(usize::try_from(event.data.u64())?),
                }
            }
        }
    }

    fn accept(&mut self, index: usize) -> Result<()> {
        let stream = match self.listeners[index].accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.accepted[index].fetch_add(1, Ordering::Relaxed);
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let slot = usize::try_from(stream.as_raw_fd())?;
        let data = epoll::EventData::new_u64(slot as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(Connection {
            stream,
            request: Vec::new(),
            owed: 0,
        });
        Ok(())
    }

    /// A connection that fails or ends is dropped: the client notices what it lacks.
    fn serve(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let owed_before = connection.owed;
        if !matches!(connection.serve(&self.replies), Ok(true)) {
            self.connections[slot] = None;
            return;
        }
        let wanted = match (owed_before, connection.owed) {
            (0, 1..) => epoll::EventFlags::OUT,
            (1.., 0) => epoll::EventFlags::IN,
            _ => return,
        };
        let data = epoll::EventData::new_u64(slot as u64);
        if epoll::modify(&self.epoll, &connection.stream, data, wanted).is_err() {
            self.connections[slot] = None;
        }
    }
}

impl Connection {
    /// Does what can be done now; false at the end of the stream.
    fn serve(&mut self, replies: &Replies) -> io::Result<bool> {
        if self.owed > 0 {
            self.owed -= replies.send_bulk(&self.stream, self.owed)?;
            return Ok(true);
        }
        let mut buffer = [0; 4096];
        let count = match self.stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        self.request.extend_from_slice(&buffer[..count]);
        if self.request.len() < SMALL_REQUEST.len() {
            return Ok(true);
        }
        match self.request.as_slice() {
            SMALL_REQUEST => self.stream.write_all(&replies.small)?,
            BULK_REQUEST => {
                self.stream.write_all(&replies.bulk_head)?;
                self.owed = BULK_BODY_BYTES;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        self.request.clear();
        Ok(true)
    }
}

impl Replies {
    fn new() -> Result<Self> {
        let mut small = reply_head(SMALL_BODY_BYTES).into_bytes();
        small.extend((0..SMALL_BODY_BYTES).map(body_byte));
        let bulk_head = reply_head(BULK_BODY_BYTES).into_bytes();
        let mut bulk_file = File::from(rustix::fs::memfd_create("bulk", MemfdFlags::CLOEXEC)?);
        let content: Vec<u8> = (0..BULK_FILE_BYTES).map(body_byte).collect();
        bulk_file.write_all(&content)?;
        Ok(Self {
            small,
            bulk_head,
            bulk_file,
        })
    }

    /// Sends what the socket takes of the last `owed` bytes of a body; returns how many.
    fn send_bulk(&self, stream: &TcpStream, owed: usize) -> io::Result<usize> {
        let mut sent = 0;
        while sent < owed.min(BULK_TURN_BYTES) {
            let place = (BULK_BODY_BYTES - owed + sent) % BULK_FILE_BYTES;
            let mut offset = place as u64;
            let count = (BULK_FILE_BYTES - place).min(owed - sent);
            match rustix::fs::sendfile(stream, &self.bulk_file, Some(&mut offset), count) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sent)
    }
}
