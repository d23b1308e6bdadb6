//! The messages of other threads to a worker.

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
use crate::file_work::Answer;
use crate::options::{Limits, LogOptions};
use crate::plan::{Files, ServicePlan, Shared};

/// The way to a worker, from any thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

impl Mailbox {
    /// The way to who has the other end of the channel and is woken by that.
    pub(crate) fn new(commands: Sender<Command>, waker: Arc<Waker>) -> Self {
        Self { commands, waker }
    }

    /// Tells it. A worker that has ended is drained and needs no more telling.
    pub(crate) fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }
}

/// The answer of a thread that waits for files.
pub(crate) struct Reply {
    pub(crate) token: u64,
    pub(crate) task: u64,
    pub(crate) files: Arc<Files>,
    pub(crate) answer: Answer,
}

pub(crate) enum Command {
    /// Serve this from now on; connections that are open stay with what they began with.
    Replace(Box<Assignment>, Sender<()>),
    /// Take what waits at the listeners and then leave them alone, or go on to accept.
    Accept(bool, Sender<()>),
    /// Something is known of a server.
    Server { service: Arc<str>, server: usize, news: ServerNews },
    /// Accept no more, and end when the last connection has, or at the deadline.
    Drain(Instant),
    /// Say that it goes on, by clearing this.
    Answer(Arc<AtomicBool>),
    /// A connection of files goes on.
    Replied(Box<Reply>),
    /// A session that a connection waits for was found there, or nowhere.
    SessionFetched { token: u64, tier: SessionTier },
}

/// Knowledge of a server.
#[derive(Clone)]
pub enum ServerNews {
    /// The addresses that its name stands for.
    Target(Arc<Target>),
    /// Active checks have found that these of its addresses are down, and the others are not.
    Checked(Arc<[Address]>),
    /// An operator has disabled or enabled it.
    Disabled(bool),
    /// An operator has ordered this weight, or the configured one.
    Weight(Option<u16>),
    /// An operator ends its sessions.
    Close,
}

/// A listening socket and its services.
#[derive(Debug)]
pub struct BoundListener {
    /// The services, by their indices in the options, in their order; at least one.
    pub services: Vec<usize>,
    pub address: Address,
    pub fd: OwnedFd,
    /// Whether other workers have it too.
    pub is_shared: bool,
}

pub(crate) struct Assignment {
    pub(crate) services: Vec<Arc<ServicePlan>>,
    pub(crate) counters: Vec<Arc<ServiceCounters>>,
    pub(crate) shared: Vec<Arc<Shared>>,
    pub(crate) listeners: Vec<BoundListener>,
    pub(crate) limits: Limits,
    pub(crate) log: LogOptions,
    pub(crate) descriptors: Descriptors,
}
