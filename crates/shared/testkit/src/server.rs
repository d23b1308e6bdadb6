//! Fake servers behind a proxy: threads on ephemeral ports that remember what they received.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crate::stream::Stream;

/// Time that a test waits for an event that is bound to come before it fails: long, because a
/// loaded machine is no failure.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Sends back what comes, and ends after the client's end.
    Echo,
    /// Answers each HTTP/1.1 request head with `200` and this body, keeping the connection.
    Http(Vec<u8>),
    /// Keeps the connection open and reads nothing.
    Hang,
    /// Waits for the first byte, then resets.
    Reset,
    /// Reads to the client's end, then sends this and ends.
    ReplyAfterEnd(Vec<u8>),
    /// Sends this at once, ends, and reads to the client's end.
    Speak(Vec<u8>),
    /// Sends this before any request, then echoes.
    Greet(Vec<u8>),
    /// Reads everything and sends nothing.
    Swallow,
}

/// A fake server. It stops accepting on drop.
#[derive(Debug)]
pub struct Server {
    address: String,
    ip: Option<SocketAddr>,
    seen: Arc<SeenConnections>,
    stopped: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct SeenConnections {
    connections: Mutex<Vec<Connection>>,
    changed: Condvar,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Connection {
    pub bytes: Vec<u8>,
    /// Whether the client's end of the stream was read.
    pub ended: bool,
    /// Whether reading or writing failed: the client reset.
    pub failed: bool,
}

impl Server {
    /// Starts a server on an ephemeral port of 127.0.0.1.
    pub fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let address = listener.local_addr().expect("a bound socket has an address");
        let mut server = Self::new(address.to_string());
        server.ip = Some(address);
        server.run(behaviour, move || {
            let stream = listener.accept()?.0;
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        server
    }

    pub fn start_unix(path: &Path, behaviour: Behaviour) -> Self {
        let listener = UnixListener::bind(path).expect("the socket's path is free");
        let server = Self::new(format!("unix:{}", path.display()));
        server.run(behaviour, move || Ok(listener.accept()?.0));
        server
    }

    /// Starts a server on the abstract Unix socket `name` (without the `@`).
    pub fn start_abstract(name: &str, behaviour: Behaviour) -> Self {
        let address = UnixAddress::from_abstract_name(name).expect("test names are short");
        let listener = UnixListener::bind_addr(&address).expect("the abstract name is free");
        let server = Self::new(format!("unix:@{name}"));
        server.run(behaviour, move || Ok(listener.accept()?.0));
        server
    }

    fn new(address: String) -> Self {
        Self { address, ip: None, seen: Arc::default(), stopped: Arc::default() }
    }

    /// Accepts until stopped or until the listener fails; one thread per connection.
    fn run<S: Stream + 'static>(
        &self,
        behaviour: Behaviour,
        accept: impl Fn() -> io::Result<S> + Send + 'static,
    ) {
        let (seen, stopped) = (Arc::clone(&self.seen), Arc::clone(&self.stopped));
        thread::spawn(move || {
            while let Ok(stream) = accept() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let visitor = Visitor { index: seen.begin(), seen: Arc::clone(&seen), stream };
                let behaviour = behaviour.clone();
                thread::spawn(move || visitor.serve(&behaviour));
            }
        });
    }

    /// Returns the address as configurations spell it: `127.0.0.1:PORT` or `unix:PATH`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the port of a TCP address.
    pub fn port(&self) -> u16 {
        self.ip.expect("it has a port").port()
    }

    /// Returns the bytes of each connection so far, in the order of acceptance.
    pub fn connections(&self) -> Vec<Connection> {
        self.seen.lock().clone()
    }

    /// Waits until `wanted` accepts the connections seen, and returns them.
    pub fn wait_until(&self, wanted: impl Fn(&[Connection]) -> bool) -> Vec<Connection> {
        let (connections, waited) = self
            .seen
            .changed
            .wait_timeout_while(self.seen.lock(), PATIENCE, |seen| !wanted(seen))
            .expect("no server thread panics while it holds the lock");
        assert!(!waited.timed_out(), "the server saw only {connections:?}");
        connections.clone()
    }

    /// Waits for `count` connections and returns the bytes of the last of them once it has ended.
    pub fn wait_for_end(&self, count: usize) -> Connection {
        let connections = self.wait_until(|seen| {
            seen.len() >= count && seen.get(count - 1).is_some_and(|one| one.ended || one.failed)
        });
        connections[count - 1].clone()
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // One more connection wakes the accepting thread, which then sees the flag.
        if let Some(address) = self.ip {
            let _woken = TcpStream::connect(address);
        } else if let Some(name) = self.address.strip_prefix("unix:@") {
            let address = UnixAddress::from_abstract_name(name).expect("it was bound");
            let _woken = UnixStream::connect_addr(&address);
        } else if let Some(path) = self.address.strip_prefix("unix:") {
            let _woken = UnixStream::connect(path);
        }
    }
}

impl SeenConnections {
    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.connections.lock().expect("no server thread panics while it holds the lock")
    }

    fn begin(&self) -> usize {
        let mut connections = self.lock();
        connections.push(Connection::default());
        self.changed.notify_all();
        connections.len() - 1
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut Connection)) {
        change(&mut self.lock()[index]);
        self.changed.notify_all();
    }
}

struct Visitor<S> {
    index: usize,
    seen: Arc<SeenConnections>,
    stream: S,
}

impl<S: Stream> Visitor<S> {
    fn serve(mut self, behaviour: &Behaviour) {
        if self.act(behaviour).is_err() {
            self.seen.change(self.index, |connection| connection.failed = true);
        }
    }

    fn act(&mut self, behaviour: &Behaviour) -> io::Result<()> {
        match behaviour {
            Behaviour::Echo => self.echo(),
            Behaviour::Greet(words) => {
                self.stream.write_all(words)?;
                self.echo()
            }
            Behaviour::Hang => {
                // Open as long as the process is: a hung server does not close either.
                loop {
                    thread::park();
                }
            }
            Behaviour::Http(body) => self.http(body),
            Behaviour::ReplyAfterEnd(words) => {
                self.swallow()?;
                self.stream.write_all(words)?;
                self.stream.end()
            }
            Behaviour::Reset => {
                // Closing a socket with unread bytes makes the kernel send RST.
                self.stream.wait_for_byte()?;
                Ok(())
            }
            Behaviour::Speak(words) => {
                self.stream.write_all(words)?;
                self.stream.end()?;
                self.swallow()
            }
            Behaviour::Swallow => self.swallow(),
        }
    }

    /// Reads some bytes and remembers them; returns none at the end.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; 64 * 1024];
        let length = self.stream.read(&mut buffer)?;
        buffer.truncate(length);
        self.seen.change(self.index, |connection| {
            connection.bytes.extend_from_slice(&buffer);
            connection.ended = buffer.is_empty();
        });
        Ok(buffer)
    }

    fn swallow(&mut self) -> io::Result<()> {
        while !self.read()?.is_empty() {}
        Ok(())
    }

    fn echo(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.read()?;
            if bytes.is_empty() {
                return self.stream.end();
            }
            self.stream.write_all(&bytes)?;
        }
    }

    fn http(&mut self, body: &[u8]) -> io::Result<()> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let reply = [head.as_bytes(), body].concat();
        let mut waiting = Vec::new();
        loop {
            let bytes = self.read()?;
            if bytes.is_empty() {
                return self.stream.end();
            }
            waiting.extend_from_slice(&bytes);
            while let Some(end) = waiting.windows(4).position(|four| four == b"\r\n\r\n") {
                waiting.drain(..end + 4);
                self.stream.write_all(&reply)?;
            }
        }
    }
}

/// Returns an address on which nobody listens, and that no other caller gets.
///
/// The port lies below those that the kernel chooses by itself (from 32768 on), because one of
/// these could become the local end of another connection before it is used.
pub fn free_address() -> SocketAddr {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static ASKED: AtomicU32 = AtomicU32::new(0);
    // Programs that test at the same time begin at different places.
    let start = std::process::id().wrapping_mul(997);
    let next = || FIRST + start.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % COUNT;
    let ports = (0..COUNT).map(|_| u16::try_from(next()).expect("it is below 30,000"));
    let mut free = ports.filter(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok());
    let port = free.next().expect("one of 20,000 ports is free");
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
