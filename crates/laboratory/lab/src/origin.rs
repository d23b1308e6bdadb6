//! The origin: a plain HTTP/1.1 server of replies by size, delay and status.
//!
//! `worker` is the event loop of a thread, `connection` one client, `request` parses requests, and
//! `answer` makes replies.
//!
//! Because it stands behind a TLS terminator under load, it must cost less than the terminator:
//! epoll by hand, a thread a core, no memory for an idle client, one read and one write a request.
//! It speaks no TLS.

mod answer;
mod connection;
mod request;
mod worker;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sys::epoll::{Epoll, Events, Interest, Waker};
use sys::signal::{Signal, Signals};
use sys::socket::{self, ListenOptions, PeerAddress, Transport};
use sys::{cpu, usage};
use wire::address::{Address, UnixName};

use crate::fault::{Exit, LabFault, LabResult};
pub(crate) use connection::Totals;
use worker::{BusyWork, OriginWorker};

#[derive(Clone, Debug)]
pub(crate) struct OriginOptions {
    pub(crate) listen: Vec<Address>,
    /// Number of serving threads; at least one.
    pub(crate) threads: u16,
    /// CPUs that threads are pinned to, in turn; empty if not pinned.
    pub(crate) cpus: Vec<u16>,
    /// Time after which a client that sends no request, or reads nothing, is closed.
    pub(crate) idle_timeout: Duration,
    /// CPU time to burn in addition, as a fraction of the CPU time used.
    pub(crate) burn: Option<f64>,
    /// Called when the kernel has no more sockets.
    pub(crate) warn: fn(&io::Error),
}

/// Connections that the kernel queues, because whole populations of clients connect at once.
const BACKLOG: u32 = 4096;

/// An origin that listens and does not serve yet.
pub(crate) struct BoundOrigin {
    options: OriginOptions,
    signals: Signals,
    listeners: Vec<Vec<(Arc<OwnedFd>, bool)>>,
    /// Addresses of the listeners, with the ports that the kernel chose.
    pub(crate) addresses: Vec<Address>,
}

struct OriginShared {
    /// Woken when a worker has ended by itself.
    ended: Waker,
    failed: AtomicBool,
}

impl BoundOrigin {
    /// Opens the listeners. From now on SIGINT and SIGTERM end [`Self::serve`], not the process.
    pub(crate) fn open(options: OriginOptions) -> LabResult<Self> {
        // Before the first thread, so that no thread takes these signals.
        let signals = Signals::new(&[Signal::Interrupt, Signal::Terminate])?;
        // If the limit cannot be raised, `warn` is called when it is reached.
        let _ = usage::raise_open_files();
        let mut origin = Self {
            listeners: vec![Vec::new(); options.threads.into()],
            addresses: Vec::new(),
            options,
            signals,
        };
        for address in origin.options.listen.clone() {
            origin.listen(&address).map_err(|error| not_listening(&address, &error))?;
        }
        Ok(origin)
    }

    fn listen(&mut self, address: &Address) -> io::Result<()> {
        let threads = self.listeners.len();
        let options = ListenOptions {
            backlog: BACKLOG,
            fast_open: 0,
            reuse_port: threads > 1,
            unix_mode: None,
        };
        match address {
            Address::Ip(ip) if threads > 1 && ip.port() != 0 => {
                socket::check_free(*ip, &Transport::default())?
            }
            _ => {}
        }
        let first = socket::listen(address, &options)?;
        let bound = match socket::local_address(&first)? {
            PeerAddress::Ip(ip) => Address::Ip(ip),
            PeerAddress::Unix => address.clone(),
        };
        self.addresses.push(bound.clone());
        let first = Arc::new(first);
        for (index, listeners) in self.listeners.iter_mut().enumerate() {
            // All threads share a Unix socket; for TCP each has its own, and the kernel spreads
            // connections.
            let (listener, is_shared) = match &bound {
                _ if index == 0 => (first.clone(), matches!(bound, Address::Unix(_))),
                Address::Unix(_) | Address::Inherited(_) => (first.clone(), true),
                Address::Ip(_) => (Arc::new(socket::listen(&bound, &options)?), false),
            };
            listeners.push((listener, is_shared));
        }
        Ok(())
    }

    /// Serves until a signal, and returns the totals.
    pub(crate) fn serve(mut self) -> LabResult<Totals> {
        let shared =
            Arc::new(OriginShared { ended: Waker::new()?, failed: AtomicBool::new(false) });
        let end = Waker::new()?;
        let mut threads = Vec::new();
        for (index, listeners) in self.listeners.drain(..).enumerate() {
            let OriginOptions { idle_timeout, warn, burn, .. } = self.options;
            let mut worker = OriginWorker::new(listeners, &end, idle_timeout, warn)?;
            worker.busy_work = burn.map(BusyWork::new);
            let cpu = pick(&self.options.cpus, index);
            threads.push(start(index, cpu, worker, shared.clone())?);
        }
        self.wait(&shared)?;
        end.wake();
        let totals = sum(threads);
        self.remove_paths();
        totals
    }

    fn wait(&self, shared: &OriginShared) -> io::Result<()> {
        let epoll = Epoll::new()?;
        epoll.add(&self.signals, 0, Interest::READ)?;
        epoll.add(&shared.ended, 1, Interest::READ)?;
        let mut events = Events::with_capacity(2);
        while self.signals.next().is_none() && !shared.failed.load(Ordering::Acquire) {
            epoll.wait(&mut events, None)?;
        }
        Ok(())
    }

    fn remove_paths(&self) {
        for address in &self.addresses {
            if let Address::Unix(UnixName::Path(path)) = address {
                // Another process may have removed the socket.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn not_listening(address: &Address, error: &io::Error) -> LabFault {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => {
            "another program has it (`ss -ltnp` says which); port 0 takes a free one"
        }
        ErrorKind::PermissionDenied => "ports below 1024 and other users' folders need root",
        ErrorKind::AddrNotAvailable => "the address must be one of this host (`ip address`)",
        _ => "--listen takes ADDRESS:PORT, --unix a path in a folder that is there",
    };
    LabFault::new(format!("cannot listen at {address}: {error}"), hint).with(Exit::Address)
}

fn pick(cpus: &[u16], index: usize) -> Option<u16> {
    cpus.get(index.checked_rem(cpus.len())?).copied()
}

type OriginThread = JoinHandle<LabResult<Totals>>;

fn start(
    index: usize,
    cpu: Option<u16>,
    worker: OriginWorker,
    shared: Arc<OriginShared>,
) -> io::Result<OriginThread> {
    let serve = move || {
        let totals = pin(cpu).and_then(|()| Ok(worker.run()?));
        if totals.is_err() {
            shared.failed.store(true, Ordering::Release);
            shared.ended.wake();
        }
        totals
    };
    thread::Builder::new().name(format!("origin-{index}")).spawn(serve)
}

fn pin(cpu: Option<u16>) -> LabResult<()> {
    match cpu {
        Some(cpu) => cpu::pin_current_thread(cpu).map_err(|error| {
            let hint = "--cpus takes CPUs that this process may use, or none";
            LabFault::new(format_args!("cannot run on CPU {cpu}: {error}"), hint)
        }),
        None => Ok(()),
    }
}

/// Sums the totals of all threads, or returns why one of them failed.
fn sum(threads: Vec<OriginThread>) -> LabResult<Totals> {
    let mut sum = Totals::default();
    let mut fault = None;
    for thread in threads {
        match thread.join().expect("a panic ends the process") {
            Ok(totals) => sum.add(&totals),
            Err(found) => fault = Some(found),
        }
    }
    fault.map_or(Ok(sum), Err)
}

/// Formats an address as people type it into a client.
pub(crate) fn url(address: &Address) -> String {
    match address {
        Address::Ip(ip) if ip.ip().is_unspecified() => {
            let loopback = SocketAddr::from(([127, 0, 0, 1], ip.port()));
            format!("http://{loopback} (every address)")
        }
        Address::Ip(ip) => format!("http://{ip}"),
        Address::Unix(_) | Address::Inherited(_) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_cpus_in_turn() {
        let cpus = |index| pick(&[4, 6], index);
        assert_eq!([cpus(0), cpus(1), cpus(2)], [Some(4), Some(6), Some(4)]);
        assert_eq!(pick(&[], 3), None);
    }

    #[test]
    fn a_printed_address_can_be_typed() {
        let shown = |text: &str| url(&text.parse().unwrap());
        assert_eq!(shown("127.0.0.1:8000"), "http://127.0.0.1:8000");
        assert_eq!(shown("[::1]:8000"), "http://[::1]:8000");
        assert_eq!(shown("*:8000"), "http://127.0.0.1:8000 (every address)");
        assert_eq!(shown("unix:/run/o.sock"), "unix:/run/o.sock");
    }
}
