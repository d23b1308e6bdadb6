//! Messages from other threads to a worker.

use backend::server::Target;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::Instant;

use sys::epoll::Waker;
use telemetry::counters::ServiceCounters;
use telemetry::outcome::SessionTier;
use wire::address::Address;

use crate::descriptors::Descriptors;
use crate::file_work::FileAnswer;
use crate::options::{LogOptions, ProcessLimits};
use crate::plan::{Files, ServicePlan, SharedAddress};

/// A worker's mailbox, usable from any thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

impl Mailbox {
    /// Makes a mailbox for the thread that reads the channel's other end and that `waker` wakes.
    pub(crate) fn new(commands: Sender<Command>, waker: Arc<Waker>) -> Self {
        Self { commands, waker }
    }

    /// Sends a command. A worker that has ended is drained and needs none.
    pub(crate) fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }
}

/// The reply of a thread that waits for disks.
pub(crate) struct Reply {
    pub(crate) token: u64,
    pub(crate) task: u64,
    pub(crate) files: Arc<Files>,
    pub(crate) answer: FileAnswer,
}

pub(crate) enum Command {
    /// Serve this from now on; open connections keep what they began with.
    Replace(Box<Assignment>, Sender<()>),
    /// Accept what waits at the listeners and then ignore them, or go on accepting.
    Accept(bool, Sender<()>),
    /// News about a server.
    Server { service: Arc<str>, server: usize, news: ServerNews },
    /// Accept no more, and end when the last connection has, or at the deadline.
    Drain(Instant),
    /// Confirm that the worker is alive, by clearing this flag.
    Answer(Arc<AtomicBool>),
    /// A thread has answered a connection that serves files.
    Replied(Box<Reply>),
    /// The session that a connection waits for was found in this tier, or nowhere.
    SessionFetched { token: u64, tier: SessionTier },
}

/// News about a server.
#[derive(Clone)]
pub enum ServerNews {
    /// Addresses of the server's name.
    Target(Arc<Target>),
    /// Active checks found these of its addresses down, and the others up.
    Checked(Arc<[Address]>),
    /// An operator has disabled or enabled the server.
    Disabled(bool),
    /// An operator has ordered this weight, or (`None`) the configured one.
    Weight(Option<u16>),
    /// An operator ends the server's sessions.
    Close,
}

/// A listening socket and its services.
#[derive(Debug)]
pub struct BoundListener {
    /// Indices of the services in the options, in their order; at least one.
    pub services: Vec<usize>,
    pub address: Address,
    pub fd: OwnedFd,
    /// Whether other workers have the listener too.
    pub is_shared: bool,
}

pub(crate) struct Assignment {
    pub(crate) services: Vec<Arc<ServicePlan>>,
    pub(crate) counters: Vec<Arc<ServiceCounters>>,
    pub(crate) shared: Vec<Arc<SharedAddress>>,
    pub(crate) listeners: Vec<BoundListener>,
    pub(crate) limits: ProcessLimits,
    pub(crate) log: LogOptions,
    pub(crate) descriptors: Descriptors,
}
