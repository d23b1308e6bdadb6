//! A service as one worker sees it: the plan's part, the worker's own balance and counters.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use backend::pool::Pool;
use backend::server::Health;
use flow::options::{SendProxy, Settings};
use sys::socket::PeerAddress;
use telemetry::counters::ServiceCounters;
use wire::network::Network;

use crate::plan::ServicePlan;

/// One service on one worker. Connections hold it, so one that a reload has replaced lives until
/// its last connection ends.
pub(crate) struct Service {
    pub(crate) plan: Arc<ServicePlan>,
    pub(crate) settings: Rc<Settings>,
    pub(crate) pool: RefCell<Pool>,
    pub(crate) counters: Arc<ServiceCounters>,
    /// Open connections that this worker may have of it.
    connections_max: u32,
    connections: Rc<Cell<u32>>,
}

impl Service {
    pub(crate) fn new(
        plan: Arc<ServicePlan>,
        worker: usize,
        workers: usize,
        counters: Arc<ServiceCounters>,
        before: Option<&Self>,
    ) -> Self {
        let settings = Settings {
            tls: Arc::clone(&plan.tls),
            send_proxy: plan.send_proxy.clone(),
            timeouts: plan.timeouts,
        };
        let mut pool = Pool::new(&plan.pool, worker);
        for (server, addresses) in &plan.addresses {
            pool.set_addresses(*server, addresses.clone());
        }
        if let Some(before) = before {
            pool.inherit(&before.pool.borrow());
        }
        Self {
            settings: Rc::new(settings),
            pool: RefCell::new(pool),
            counters,
            connections_max: share(plan.connections_max.unwrap_or(u32::MAX), workers),
            // Connections of the plan before count too.
            connections: before.map_or_else(Rc::default, |one| Rc::clone(&one.connections)),
            plan,
        }
    }

    /// Whether a connection from there begins with a PROXY header.
    pub(crate) fn expects_proxy_header(&self, peer: PeerAddress) -> bool {
        let ip = match peer {
            PeerAddress::Ip(address) => Some(address.ip()),
            PeerAddress::Unix => None,
        };
        self.plan
            .accept_proxy
            .iter()
            .any(|network: &Network| network.contains(ip))
    }

    /// Whether somebody is told to which address a client connected.
    pub(crate) fn tells_destination(&self) -> bool {
        self.settings.send_proxy != SendProxy::Off
    }

    /// Tells the metrics whether this worker would send a connection to a server.
    pub(crate) fn tell_state(&self, server: usize) {
        let state = self.pool.borrow().state(server);
        let is_up = state.is_some_and(|state| state.health == Health::Up);
        self.counters.server(server).set_up(is_up);
    }

    /// Counts one connection more, unless there are as many as may be.
    pub(crate) fn admit(&self) -> bool {
        let open = self.connections.get();
        if open >= self.connections_max {
            return false;
        }
        self.connections.set(open + 1);
        true
    }

    /// Counts one connection less.
    pub(crate) fn release(&self) {
        self.connections.set(self.connections.get() - 1);
    }
}

/// A worker's share of a limit of the whole process, rounded up.
pub(crate) fn share(limit: u32, workers: usize) -> u32 {
    limit.div_ceil(u32::try_from(workers).unwrap_or(u32::MAX).max(1))
}
