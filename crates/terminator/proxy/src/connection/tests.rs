//! A connection between a real TLS client and a server over real sockets, by seed: bytes in pieces
//! of any size, queues that are full, ends, resets, stalls, servers that refuse.
//!
//! Only the clock is virtual, and all runs in one thread, so that a seed repeats what happens as
//! far as the kernel does.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Duration;

use flow::facts::{Facts, Route};
use sys::wake::Waker;
use telemetry::outcome::Reason;
use testkit::chance::Chance;
use testkit::client::Client;

use super::*;
use crate::commands::Mailbox;
use crate::fixture::{Fixture, file_context};
use crate::options::{Limits, SourceLimits};
use crate::token::{ConnectionId, EventSource};

const LIMITS: Limits = Limits { connections: 10, handshakes: 10, per_source: SourceLimits::OFF };

/// A peer's socket, and what came out of it.
struct Peer {
    stream: Option<Stream>,
    got: Vec<u8>,
    is_ended: bool,
    is_reset: bool,
    has_shut: bool,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Peer {
    fn new(stream: Stream) -> Self {
        match &stream {
            Stream::Tcp(tcp) => tcp.set_nonblocking(true),
            Stream::Unix(unix) => unix.set_nonblocking(true),
        }
        .unwrap();
        Self {
            stream: Some(stream),
            got: Vec::new(),
            is_ended: false,
            is_reset: false,
            has_shut: false,
        }
    }

    /// Sends some of these bytes, and takes out those that went.
    fn send(&mut self, bytes: &mut Vec<u8>, most: usize) {
        let count = bytes.len().min(most);
        let written = match &mut self.stream {
            Some(Stream::Tcp(tcp)) => tcp.write(&bytes[..count]),
            Some(Stream::Unix(unix)) => unix.write(&bytes[..count]),
            None => return,
        };
        let written = written.unwrap_or(0);
        bytes.drain(..written);
    }

    /// Receives at most `most` bytes; returns how many.
    fn receive(&mut self, most: usize) -> usize {
        let mut room = vec![0; most.max(1)];
        let result = match &mut self.stream {
            Some(_) if self.is_ended || self.is_reset => return 0,
            Some(Stream::Tcp(tcp)) => tcp.read(&mut room),
            Some(Stream::Unix(unix)) => unix.read(&mut room),
            None => return 0,
        };
        match result {
            Ok(0) => self.is_ended = true,
            Ok(count) => {
                self.got.extend_from_slice(&room[..count]);
                return count;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.is_reset = true,
        }
        0
    }

    fn shut(&mut self) {
        self.has_shut = true;
        // It may have been reset.
        let _ = match &self.stream {
            Some(Stream::Tcp(tcp)) => tcp.shutdown(std::net::Shutdown::Write),
            Some(Stream::Unix(unix)) => unix.shutdown(std::net::Shutdown::Write),
            None => Ok(()),
        };
    }

    fn reset(&mut self) {
        if let Some(Stream::Tcp(tcp)) = &self.stream {
            sys::socket::reset_on_close(tcp).unwrap();
        }
        self.stream = None;
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    None,
    ClientResets,
    ClientLeaves,
    ServerResets,
    Drain,
    Stall,
}

const FAULTS: [Fault; 6] = [
    Fault::None,
    Fault::ClientResets,
    Fault::ClientLeaves,
    Fault::ServerResets,
    Fault::Drain,
    Fault::Stall,
];

struct Run {
    chance: Chance,
    driver: Driver,
    pool: Pool,
    pipes: Pipes,
    file_context: Arc<FileContext>,
    sources: Rc<Sources>,
    calls: Calls,
    connection: Connection,
    now: Instant,
    client: Client,
    front: Peer,
    wire: Vec<u8>,
    plain: Vec<u8>,
    client_closed: bool,
    listener: Option<TcpListener>,
    server: Option<Peer>,
    reply: Vec<u8>,
    is_over: bool,
}

impl Run {
    fn new(fixture: &Fixture, listener: Option<TcpListener>, seed: u64) -> Self {
        let driver = Driver::new().unwrap();
        let (ours, theirs) = front(seed.is_multiple_of(2));
        let id = ConnectionId::of(1);
        let socket = driver.adopt(ours, EventSource::Front(id).token()).unwrap();
        let service = fixture.service();
        let (now, mut chance) = (Instant::now(), Chance::new(seed));
        let route = Route { source: None, destination: None };
        let flow = Flow::new(Rc::clone(&service.settings), false, Facts::new(seed, route, now));
        let size = [0, 1, 3000, 40_000, 1_000_000][chance.below(5)];
        Self {
            reply: chance.bytes(size),
            connection: Connection::new(
                flow,
                service,
                "test".into(),
                socket,
                EventSource::Back(id).token(),
            ),
            chance,
            driver,
            pool: Pool::new(),
            pipes: Pipes::default(),
            file_context: file_context(Mailbox::new(channel().0, Arc::new(Waker::new().unwrap()))),
            calls: Calls::new(&Arc::new(Waker::new().unwrap())).0,
            sources: Rc::new(Sources::new(Arc::default(), SourceLimits::OFF)),
            now,
            client: fixture.choice.connect("localhost"),
            front: Peer::new(theirs),
            wire: Vec::new(),
            plain: Vec::new(),
            client_closed: false,
            listener,
            server: None,
            is_over: false,
        }
    }

    fn step(&mut self, unsent: &mut Vec<u8>) {
        let size = [1, 100, 5000, 300_000][self.chance.below(4)];
        match self.chance.below(4) {
            0 => {
                self.wire.extend(self.client.take_wire());
                self.front.send(&mut self.wire, size);
            }
            1 => {
                let before = self.front.got.len();
                self.front.receive(size);
                let bytes = self.front.got.split_off(before);
                self.client.receive(&bytes, &mut self.plain).unwrap();
            }
            2 => self.serve(unsent, size),
            _ => self.turn(),
        }
    }

    fn serve(&mut self, unsent: &mut Vec<u8>, size: usize) {
        if self.server.is_none()
            && let Some(listener) = &self.listener
            && let Ok((stream, _)) = listener.accept()
        {
            self.server = Some(Peer::new(Stream::Tcp(stream)));
        }
        if let Some(server) = &mut self.server {
            server.receive(size);
            server.send(unsent, size);
        }
    }

    fn turn(&mut self) {
        if self.is_over {
            return;
        }
        self.now += Duration::from_micros(self.chance.below(500) as u64);
        let mut batch = Vec::new();
        self.driver.wait(Some(Duration::ZERO), &mut batch).unwrap();
        for event in &batch {
            let is_back = matches!(EventSource::of(event.token), EventSource::Back(_));
            self.connection.note(event, is_back);
        }
        self.pump();
    }

    fn pump(&mut self) {
        let mut context = Context {
            driver: &self.driver,
            pool: &mut self.pool,
            pipes: &mut self.pipes,
            file_context: &self.file_context,
            sources: &self.sources,
            calls: &self.calls,
            now: self.now,
            is_draining: false,
            bulk_bytes: [BYTES_PER_TURN[0]; 2],
            moved: 0,
        };
        self.is_over |= self.connection.pump(&mut context) == Turn::Over;
    }

    /// Nobody moves any more but the clock.
    fn time_out(&mut self) {
        for _ in 0..100 {
            let Some(deadline) = self.connection.deadline().filter(|_| !self.is_over) else {
                break;
            };
            self.now = self.now.max(deadline);
            self.connection.time_out(self.now, &mut self.pool);
            self.turn();
        }
    }

    fn happen(&mut self, fault: Fault) {
        match fault {
            Fault::None | Fault::Stall => {}
            Fault::ClientResets => self.front.reset(),
            Fault::ClientLeaves => self.front.shut(),
            Fault::ServerResets => {
                if let Some(server) = &mut self.server {
                    server.reset();
                }
            }
            Fault::Drain => {
                let stopped = Event::Stopped(Reason::Drained);
                self.connection.flow.handle(stopped, self.now, &mut self.pool);
            }
        }
    }
}

/// Both ends of a client's connection.
fn front(is_unix: bool) -> (OwnedFd, Stream) {
    if is_unix {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        return (ours.into(), Stream::Unix(theirs));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = listener.accept().unwrap().0;
    ours.set_nonblocking(true).unwrap();
    (ours.into(), Stream::Tcp(theirs))
}

fn server() -> (TcpListener, Fixture) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, Fixture::new(&address, LIMITS))
}

/// Reads what still comes, to the end: the connection holds no descriptor any more.
fn drain(peer: &mut Peer) {
    let begun = Instant::now();
    while peer.stream.is_some() && !peer.is_ended && !peer.is_reset {
        peer.receive(1 << 16);
        assert!(begun.elapsed() < Duration::from_secs(30), "it is still open");
    }
}

/// Runs one seed to its end; says why it ended.
fn run(
    fixture: &Fixture,
    listener: Option<TcpListener>,
    seed: u64,
) -> (Reason, Option<TcpListener>) {
    let mut run = Run::new(fixture, listener, seed);
    let fault = FAULTS[run.chance.below(FAULTS.len())];
    let request_bytes = [1, 3000, 40_000, 1_000_000][run.chance.below(4)];
    let request = run.chance.bytes(request_bytes);
    let mut unsent = run.reply.clone();
    run.client.send(&request);
    let steps = match fault {
        Fault::None => usize::MAX,
        _ => run.chance.below(400),
    };
    for step in 0.. {
        let served = run.server.as_ref().map_or(0, |server| server.got.len());
        if unsent.is_empty() && served == request.len() && !run.server.as_ref().unwrap().has_shut {
            run.server.as_mut().unwrap().shut();
        }
        if run.client.is_closed_by_server() && !run.client_closed {
            run.client_closed = true;
            run.client.close();
        }
        if run.client_closed && run.wire.is_empty() && !run.front.has_shut {
            run.wire.extend(run.client.take_wire());
            if run.wire.is_empty() {
                run.front.shut();
            }
        }
        if step >= steps
            || run.is_over
            || run.listener.is_none() && run.connection.flow.ending().is_some()
        {
            break;
        }
        assert!(step < 1_000_000, "seed {seed}: it never ends");
        run.step(&mut unsent);
    }
    run.happen(fault);
    run.turn();
    run.time_out();
    check(run, &request, fault, seed)
}

/// Checks all that holds of every connection that is over.
fn check(mut run: Run, request: &[u8], fault: Fault, seed: u64) -> (Reason, Option<TcpListener>) {
    let place = format!("seed {seed}, {fault:?}");
    assert!(run.is_over, "{place}: it never ends");
    let reason = run.connection.flow.ending().expect("an end has a reason").reason;
    assert_eq!(run.connection.deadline(), None, "{place}");
    assert_eq!(run.pool.in_use(), 0, "{place}: every buffer has gone back");
    let open = run.connection.service.pool.borrow().state(0).map(|state| state.open);
    assert_eq!(open, Some(0), "{place}: no dial is counted any more");
    let Run { connection, .. } = run;
    drop(connection);
    if run.server.is_none()
        && let Some(listener) = &run.listener
        && let Ok((stream, _)) = listener.accept()
    {
        run.server = Some(Peer::new(Stream::Tcp(stream)));
    }
    let before = run.front.got.len();
    drain(&mut run.front);
    let rest = run.front.got.split_off(before);
    let heard = run.client.receive(&rest, &mut run.plain);
    let is_told = fault != Fault::None || reason == Reason::BackendRefused;
    assert!(heard.is_ok() || is_told, "{place}: {heard:?}");
    assert!(run.reply.starts_with(&run.plain), "{place}: a wrong byte");
    if run.client.is_closed_by_server() {
        assert!(run.plain == run.reply, "{place}: a part looks whole");
    }
    if let Some(server) = &mut run.server {
        drain(server);
        assert!(request.starts_with(&server.got), "{place}: a wrong byte");
        // An end without close_notify is passed on as it came, and a Unix socket knows no other.
        let is_unix = seed.is_multiple_of(2);
        let is_end = fault == Fault::ClientLeaves || fault == Fault::ClientResets && is_unix;
        if server.is_ended && !is_end {
            assert!(server.got == request, "{place}: a part looks whole");
        }
    }
    (reason, run.listener)
}

#[test]
fn whatever_happens_on_either_side_no_byte_is_wrong_and_nothing_is_kept() {
    let (listener, fixture) = server();
    let mut listener = Some(listener);
    let mut reasons = std::collections::HashSet::new();
    for seed in 0..200 {
        let (reason, back) = run(&fixture, listener, seed);
        listener = back;
        reasons.insert(reason);
        // Connections that nobody has taken are not the next one's.
        while listener.as_ref().unwrap().accept().is_ok() {}
    }
    assert!(reasons.len() >= 6, "the seeds reach many ends: {reasons:?}");
}

#[test]
fn a_server_that_refuses_leads_to_an_alert_and_a_reason() {
    let (listener, fixture) = server();
    drop(listener);
    for seed in 0..10 {
        let (reason, _) = run(&fixture, None, seed * 7);
        let others = [Reason::ClientReset, Reason::ClientDisconnected, Reason::Drained];
        let is_known = reason == Reason::BackendRefused || others.contains(&reason);
        assert!(is_known || reason == Reason::HandshakeTimeout, "{reason:?}");
    }
}
