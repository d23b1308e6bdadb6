//! What the control thread asks of a worker.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use telemetry::counters::ServiceCounters;
use wire::address::Address;

use crate::options::{Limits, LogOptions};
use crate::plan::ServicePlan;

/// One thing asked.
pub(crate) enum Command {
    /// Serve this from now on; connections that are open stay with what they began with.
    Replace(Box<Assignment>, Sender<()>),
    /// A server's state has been found out.
    SetServerUp {
        service: Arc<str>,
        server: usize,
        up: bool,
    },
    /// A server's name resolves to these.
    SetAddresses {
        service: Arc<str>,
        server: usize,
        addresses: Arc<[SocketAddr]>,
    },
    /// Accept no more, and end when the last connection has, or at the deadline.
    Drain(Instant),
}

/// What a worker serves.
pub(crate) struct Assignment {
    pub(crate) services: Vec<Arc<ServicePlan>>,
    pub(crate) counters: Vec<Arc<ServiceCounters>>,
    /// Each for the service of that place.
    pub(crate) listeners: Vec<(usize, Address, OwnedFd)>,
    pub(crate) limits: Limits,
    pub(crate) log: LogOptions,
}
