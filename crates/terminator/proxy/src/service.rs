//! A service as one worker sees it: the plan's part, the worker's own balance and counters.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use backend::options::DownAction;
use backend::pool::Pool;
use backend::server::{Health, ServerId};
use flow::connection::Flow;
use flow::facts::{ConnectionEnd, ConnectionFacts};
use flow::options::{SendProxy, Settings};
use sys::socket::PeerAddress;
use telemetry::catalogue::ServerGauge;
use telemetry::counters::ServiceCounters;
use telemetry::outcome::Reason;
use wire::address::{Address, Network};

use crate::clock;
use crate::commands::ServerNews;
use crate::displaceable::Displaceable;
use crate::plan::{ServicePlan, SharedAddress};

/// Services that share addresses, on one worker.
pub(crate) struct SharedServices {
    plan: Arc<SharedAddress>,
    services: Vec<Rc<Service>>,
}

impl SharedServices {
    pub(crate) fn new(plan: Arc<SharedAddress>, all: &[Rc<Service>]) -> Self {
        let services = plan.places.iter().map(|place| Rc::clone(&all[*place]));
        Self { services: services.collect(), plan }
    }

    /// Returns the service that a connection's hello is for.
    pub(crate) fn choose(&self, flow: &Flow) -> Option<Rc<Service>> {
        let hello = flow.hello()?;
        let name = flow.facts().server_name.as_deref();
        let table = if flow.is_hidden() { &self.plan.hidden } else { &self.plan.table };
        let number = table.choose(name, hello.alpn_protocols())?;
        self.services.get(number).cloned()
    }
}

/// One service on one worker. Connections hold it, so one that a reload has replaced lives until
/// its last connection ends.
pub(crate) struct Service {
    pub(crate) plan: Arc<ServicePlan>,
    pub(crate) settings: Rc<Settings>,
    pub(crate) pool: RefCell<Pool>,
    pub(crate) counters: Arc<ServiceCounters>,
    /// Connections that have relayed nothing yet, those of earlier plans among them.
    pub(crate) displaceable: Rc<RefCell<Displaceable>>,
    /// For each server: whether it is down, as far as ending sessions is concerned.
    down: RefCell<Vec<bool>>,
    /// Servers whose sessions are to end, and why.
    closing: RefCell<Vec<(usize, Reason)>>,
}

impl Service {
    /// Returns the ending if no server is up; names disabled ones, as that can be undone.
    pub(crate) fn none_available(&self) -> ConnectionEnd {
        match self.pool.borrow().taken_out() {
            (0, _) => ConnectionEnd::new(Reason::NoServerAvailable),
            (out, all) => {
                let detail = format!(
                    "{out} of {all} servers are disabled by `lariat server`, or have weight 0 by it"
                );
                ConnectionEnd::with(Reason::NoServerAvailable, detail)
            }
        }
    }

    /// Returns the ending if all servers are full, and the queue is too.
    pub(crate) fn queue_full(&self, servers: usize) -> ConnectionEnd {
        let length = self.plan.pool.queue.length;
        let detail = format!(
            "all {servers} servers have `max-connections`, and {length} connections wait \
             (`back.queue.length`)"
        );
        ConnectionEnd::with(Reason::ServerQueueFull, detail)
    }

    pub(crate) fn new(
        plan: Arc<ServicePlan>,
        worker: usize,
        counters: Arc<ServiceCounters>,
        before: Option<&Self>,
    ) -> Self {
        let mut pool = Pool::new(&plan.pool, worker);
        for (server, target) in &plan.targets {
            pool.set_target(*server, target);
        }
        for server in &plan.disabled {
            pool.set_disabled(*server, true, clock::now());
        }
        for (server, weight) in &plan.weights {
            pool.order_weight(*server, Some(*weight));
        }
        if let Some(before) = before {
            pool.inherit(&before.pool.borrow());
        }
        let service = Self {
            settings: Rc::new(plan.settings.clone()),
            pool: RefCell::new(pool),
            displaceable: before.map_or_else(Rc::default, |before| Rc::clone(&before.displaceable)),
            counters,
            down: RefCell::default(),
            closing: RefCell::default(),
            plan,
        };
        // A server that is down from the start has no sessions of this plan, and those of the plan
        // before were ended when it went down.
        *service.down.borrow_mut() = service.servers_down();
        (0..service.plan.server_names.len()).for_each(|server| service.tell_state(server, true));
        service
    }

    /// Reports whether a connection from there begins with a PROXY header.
    pub(crate) fn expects_proxy_header(&self, peer: PeerAddress) -> bool {
        let ip = peer.ip();
        self.plan.accept_proxy.iter().any(|network: &Network| network.contains(ip))
    }

    /// Reports whether servers learn the address that a client connected to.
    pub(crate) fn tells_destination(&self) -> bool {
        self.settings.send_proxy != SendProxy::Off
    }

    /// Notes news about a server.
    pub(crate) fn note(&self, server: usize, news: &ServerNews) {
        let now = clock::now();
        let mut pool = self.pool.borrow_mut();
        match news {
            ServerNews::Target(target) => pool.set_target(server, target),
            ServerNews::Checked(down) => pool.set_checked(server, down, now),
            ServerNews::Disabled(disabled) => pool.set_disabled(server, *disabled, now),
            ServerNews::Weight(weight) => pool.order_weight(server, *weight),
            ServerNews::Close => {}
        }
        drop(pool);
        let closes = self.plan.pool.on_down == DownAction::Close;
        let ends = match news {
            ServerNews::Disabled(is_so) => *is_so && closes,
            ServerNews::Close => true,
            _ => false,
        };
        if ends {
            self.closing.borrow_mut().push((server, Reason::ServerDisabled));
        }
        self.tell_state(server, true);
    }

    /// Takes the servers whose sessions are to end, by their ids, and why.
    pub(crate) fn take_closing(&self) -> Vec<(ServerId, Reason)> {
        if self.closing.borrow().is_empty() {
            return Vec::new();
        }
        let pool = self.pool.borrow();
        let all = self.closing.take().into_iter();
        all.filter_map(|(server, reason)| Some((pool.id(server)?, reason))).collect()
    }

    pub(crate) fn has_closing(&self) -> bool {
        !self.closing.borrow().is_empty()
    }

    fn servers_down(&self) -> Vec<bool> {
        let pool = self.pool.borrow();
        let all = 0..self.plan.server_names.len();
        all.map(|server| pool.state(server).is_some_and(|state| is_down(state.health))).collect()
    }

    /// Notes that a server went down or came back.
    fn note_health(&self, server: usize, health: Health) {
        let mut down = self.down.borrow_mut();
        let Some(was_down) = down.get_mut(server) else {
            return;
        };
        let went_down = !std::mem::replace(was_down, is_down(health)) && is_down(health);
        let closes = self.plan.pool.on_down == DownAction::Close;
        if went_down && closes && health != Health::Disabled {
            self.closing.borrow_mut().push((server, Reason::ServerDown));
        }
    }

    /// Updates the metrics: whether this worker would send a connection to a server, and when its
    /// slow start ends; also to which of its addresses, if that has changed.
    pub(crate) fn tell_state(&self, server: usize, has_changed: bool) {
        let pool = self.pool.borrow();
        let Some(state) = pool.state(server) else {
            return;
        };
        self.note_health(server, state.health);
        let counters = self.counters.server(server);
        counters.set_up(state.health == Health::Up);
        if has_changed {
            counters.set(ServerGauge::Addresses, state.addresses as u64);
            counters.set_addresses_down(pool.addresses_down(server).map(Address::to_string));
        }
        if let Some(end) = pool.slow_start_end(server) {
            let end = SystemTime::now() + end.saturating_duration_since(clock::now());
            let since_epoch = end.duration_since(UNIX_EPOCH).unwrap_or_default();
            counters.set(ServerGauge::SlowStartEnd, since_epoch.as_secs());
        }
    }
}

fn is_down(health: Health) -> bool {
    matches!(health, Health::Disabled | Health::CheckedDown | Health::Ejected)
}

/// Knowledge about the session that a client offers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Affinity {
    #[default]
    None,
    /// The client offers one, and no server is known to have it.
    Unknown,
    Home(ServerId),
}

impl Affinity {
    pub(crate) fn home(self) -> Option<ServerId> {
        match self {
            Self::Home(server) => Some(server),
            Self::None | Self::Unknown => None,
        }
    }
}

/// Looks up the session that the client offers.
pub(crate) fn affinity_of(service: &Service, facts: &ConnectionFacts) -> Affinity {
    let session = facts.passing_session.as_ref();
    let offered = session.and_then(|one| one.offered);
    let (Some(sessions), Some(id)) = (&service.settings.passing_sessions, offered) else {
        return Affinity::None;
    };
    match sessions.find(id.as_bytes()) {
        Some(server) => Affinity::Home(ServerId::from_bits(server)),
        None if session.is_some_and(|one| one.may_be_random) => Affinity::None,
        None => Affinity::Unknown,
    }
}
