//! All counters of the process: made once, asked for by worker and service, read as a snapshot.
//!
//! Services are known by name and servers by their text, so a reload goes on counting where the old
//! plan stopped. What no plan and no connection holds any more is not shown.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalogue::{ServerGauge, ServiceGauge};
use crate::counters::{
    Counts, ServerCounters, ServerSnapshot, ServiceCells, ServiceCounters, ServiceSnapshot,
    Snapshot, WorkerCounters,
};

/// Names that nobody uses and that a sweep leaves, per list. A service that returns within as many
/// changes goes on counting; memory stays bounded however often the servers change.
const UNUSED_MAX: usize = 256;

/// All counters of the process.
#[derive(Debug)]
pub struct Registry {
    workers: Box<[Arc<WorkerCounters>]>,
    /// Locked when a plan is set up and when a snapshot is taken, never for a connection.
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    services: NamedList<ServiceCells>,
    servers: NamedList<ServerCounters>,
}

/// Names in the order in which they came. They are found by an index and swept when they have
/// doubled, because ten thousand services must not cost ten thousand looks at each.
#[derive(Debug)]
struct NamedList<T> {
    list: Vec<Named<T>>,
    /// The places in the list, by the service's name and the server's.
    index: HashMap<(String, String), usize>,
    /// The length at which unused ones are looked for again.
    sweep_at: usize,
}

/// A service, or a server of one.
#[derive(Debug)]
struct Named<T> {
    service: String,
    /// The server's; empty for the service.
    name: String,
    /// One per worker, and one for the control thread.
    cells: Box<[Arc<T>]>,
}

impl Registry {
    /// Counters for as many workers and for one control thread.
    pub fn new(workers: usize) -> Self {
        Self { workers: cells(workers, WorkerCounters::default), names: Mutex::default() }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The index under which the control thread asks for a service's counters: what checks decide
    /// is counted there. Its word on whether a server is up does not count.
    pub fn control(&self) -> usize {
        self.workers.len()
    }

    /// A worker's own counters; panics beyond the last worker.
    pub fn worker(&self, index: usize) -> Arc<WorkerCounters> {
        Arc::clone(&self.workers[index])
    }

    /// A service's counters on one worker, made if need be, with those of its servers in the order
    /// given; panics beyond [`Self::control`].
    pub fn service(&self, worker: usize, name: &str, servers: &[String]) -> Arc<ServiceCounters> {
        let slots = self.workers.len() + 1;
        let mut names = self.lock();
        let of_service = || cells(slots, ServiceCells::default);
        let service = names.services.find_or_make(name, "", of_service);
        let service = Arc::clone(&service[worker]);
        let servers = servers.iter().map(|server| {
            let of_all =
                names.servers.find_or_make(name, server, || cells(slots, ServerCounters::up));
            Arc::clone(&of_all[worker])
        });
        let counters = Arc::new(ServiceCounters::new(service, servers.collect()));
        names.services.forget_unused();
        names.servers.forget_unused();
        counters
    }

    /// All counts now. Each is read whole; those of one event may be read before or after it.
    pub fn snapshot(&self) -> Snapshot {
        let names = self.lock();
        let services = names.services.list.iter().filter(|service| service.is_used());
        let mut servers: HashMap<&str, Vec<&Named<ServerCounters>>> = HashMap::new();
        for server in names.servers.list.iter().filter(|server| server.is_used()) {
            servers.entry(&server.service).or_default().push(server);
        }
        let worker = |cells: &Arc<WorkerCounters>| {
            let mut counts = Counts::default();
            cells.add_to(&mut counts);
            counts
        };
        Snapshot {
            services: services.map(|one| self.service_snapshot(one, &servers)).collect(),
            workers: self.workers.iter().map(worker).collect(),
        }
    }

    /// The same with the peaks of services' gauges since the last call in the place of their values
    /// now. Peaks of several workers are added, though they may not have been at the same time.
    pub fn peaks(&self) -> Snapshot {
        let mut snapshot = self.snapshot();
        let names = self.lock();
        for service in &mut snapshot.services {
            let Some(named) = names.services.find(&service.name) else {
                continue;
            };
            for gauge in ServiceGauge::RAISED {
                let peaks = named.cells.iter().map(|cells| cells.take_peak(gauge));
                service.counts.set(gauge, peaks.sum());
            }
        }
        snapshot
    }

    fn service_snapshot(
        &self,
        service: &Named<ServiceCells>,
        servers: &HashMap<&str, Vec<&Named<ServerCounters>>>,
    ) -> ServiceSnapshot {
        let mut counts = Counts::default();
        for cells in &service.cells {
            cells.add_to(&mut counts);
        }
        let servers = servers.get(&*service.service).into_iter().flatten();
        ServiceSnapshot {
            name: service.service.clone(),
            counts,
            servers: servers.map(|one| self.server_snapshot(one)).collect(),
        }
    }

    fn server_snapshot(&self, server: &Named<ServerCounters>) -> ServerSnapshot {
        let mut counts = Counts::default();
        for cells in &server.cells {
            cells.add_to(&mut counts);
        }
        let workers = server.cells.iter().take(self.workers.len());
        let workers_up = workers.map(|one| one.get(ServerGauge::WorkersUp)).sum();
        counts.set(ServerGauge::WorkersUp, workers_up);
        counts.set(ServerGauge::Up, u64::from(workers_up > 0));
        for gauge in [ServerGauge::SlowStartEnd, ServerGauge::Addresses] {
            let cells = server.cells.iter();
            let most = cells.map(|one| one.get(gauge)).max();
            counts.set(gauge, most.unwrap_or(0));
        }
        let cells = server.cells.iter();
        let addresses_down: BTreeSet<_> = cells.flat_map(|one| one.addresses_down()).collect();
        counts.set(ServerGauge::AddressesDown, addresses_down.len() as u64);
        ServerSnapshot { name: server.name.clone(), addresses_down, counts }
    }

    /// A panic elsewhere leaves counts as good as they were.
    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Named<T> {
    fn is_used(&self) -> bool {
        self.cells.iter().any(|one| Arc::strong_count(one) > 1)
    }
}

fn cells<T>(count: usize, make: impl Fn() -> T) -> Box<[Arc<T>]> {
    (0..count).map(|_| Arc::new(make())).collect()
}

impl<T> NamedList<T> {
    fn find(&self, service: &str) -> Option<&Named<T>> {
        let at = self.index.get(&(service.to_owned(), String::new()))?;
        self.list.get(*at)
    }

    fn find_or_make(
        &mut self,
        service: &str,
        name: &str,
        make: impl FnOnce() -> Box<[Arc<T>]>,
    ) -> &[Arc<T>] {
        let Self { list, index, .. } = self;
        let key = (service.to_owned(), name.to_owned());
        let at = *index.entry(key).or_insert_with(|| {
            list.push(Named { service: service.to_owned(), name: name.to_owned(), cells: make() });
            list.len() - 1
        });
        &list[at].cells
    }

    /// Drops the oldest of those that nobody uses, beyond [`UNUSED_MAX`].
    fn forget_unused(&mut self) {
        if self.list.len() < self.sweep_at {
            return;
        }
        let unused = self.list.iter().filter(|one| !one.is_used()).count();
        let mut excess = unused.saturating_sub(UNUSED_MAX);
        self.list.retain(|one| {
            let forgotten = excess > 0 && !one.is_used();
            excess -= usize::from(forgotten);
            !forgotten
        });
        let used = self.list.len() - unused.min(UNUSED_MAX);
        self.sweep_at = 2 * (used + UNUSED_MAX);
        let keys = self.list.iter().map(|one| (one.service.clone(), one.name.clone()));
        self.index = keys.zip(0..).collect();
    }
}

impl<T> Default for NamedList<T> {
    fn default() -> Self {
        Self { list: Vec::new(), index: HashMap::new(), sweep_at: 2 * UNUSED_MAX }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::catalogue::{
        Breakdown, Histogram, ServerCounter, Service, ServiceCounter, WorkerGauge,
    };
    use crate::counters::Handshake;
    use crate::outcome::{HandshakeKind, Reason, Version};

    fn servers(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn ended(counts: &Counts<Service>, reason: Reason) -> u64 {
        let mut reasons = counts.by(Breakdown::Ended);
        reasons.find(|(labels, _)| labels[0] == reason.name()).unwrap().1
    }

    #[test]
    fn counts_are_summed_over_workers() {
        let registry = Registry::new(2);
        let list = servers(&["192.0.2.1:80"]);
        let handles = [0, 1].map(|worker| registry.service(worker, "web", &list));
        for handle in &handles {
            handle.count(ServiceCounter::ConnectionsAccepted);
            handle.add(ServiceCounter::BytesUp, 100);
            handle.ended(Reason::NotTls);
            handle.raise(ServiceGauge::ConnectionsOpen);
            handle.server(0).count(ServerCounter::Dials);
        }
        handles[0].lower(ServiceGauge::ConnectionsOpen);
        registry.worker(1).set(WorkerGauge::BuffersInUse, 7);

        let snapshot = registry.snapshot();
        let web = &snapshot.services[0];
        assert_eq!(web.counts.get(ServiceCounter::ConnectionsAccepted), 2);
        assert_eq!(web.counts.get(ServiceCounter::BytesUp), 200);
        assert_eq!(ended(&web.counts, Reason::NotTls), 2);
        assert_eq!(web.counts.get(ServiceGauge::ConnectionsOpen), 1);
        assert_eq!(web.servers[0].counts.get(ServerCounter::Dials), 2);
        assert_eq!(snapshot.workers[1].get(WorkerGauge::BuffersInUse), 7);
        assert_eq!(snapshot.workers[0].get(WorkerGauge::BuffersInUse), 0);
    }

    #[test]
    fn a_handshake_is_counted_in_all_its_breakdowns() {
        let registry = Registry::new(1);
        let web = registry.service(0, "web", &[]);
        web.handshake(Handshake {
            kind: HandshakeKind::Psk,
            version: Version::Tls13,
            suite: 0x1301,
            group: 0x11ec,
            duration: Duration::from_micros(150),
        });
        let snapshot = registry.snapshot();
        let seen = &snapshot.services[0];
        for (breakdown, labels) in [
            (Breakdown::Handshakes, &["psk", "TLSv1.3"][..]),
            (Breakdown::Suites, &["TLS_AES_128_GCM_SHA256"]),
            (Breakdown::Groups, &["X25519MLKEM768"]),
        ] {
            let counted = seen.counts.by(breakdown).filter(|(_, count)| *count > 0);
            assert_eq!(counted.collect::<Vec<_>>(), [(labels, 1)]);
        }
        let histogram = seen.counts.durations(Histogram::HandshakePsk);
        assert_eq!((histogram.count(), histogram.sum_us), (1, 150));
        assert_eq!(histogram.buckets[2], 1);
    }

    #[test]
    fn a_peak_is_not_lost_and_counts_once() {
        let registry = Registry::new(2);
        let workers = [0, 1].map(|worker| registry.service(worker, "web", &[]));
        let gauge = ServiceGauge::ConnectionsOpen;
        let peak = || registry.peaks().services[0].counts.get(gauge);
        (0..3).for_each(|_| workers[0].raise(gauge));
        workers[1].raise(gauge);
        (0..2).for_each(|_| workers[0].lower(gauge));
        let now = registry.snapshot().services[0].counts.get(gauge);
        assert_eq!((now, peak(), peak()), (2, 4, 2));
        workers[0].raise(gauge);
        workers[1].lower(gauge);
        assert_eq!((peak(), peak()), (3, 2));
    }

    #[test]
    fn durations_at_a_bound_and_beyond_the_last_are_counted() {
        let registry = Registry::new(1);
        let web = registry.service(0, "web", &[]);
        for duration_us in [0, 50, 51, 60_000_000, 60_000_001] {
            web.observe(Histogram::Dial, Duration::from_micros(duration_us));
        }
        let snapshot = registry.snapshot();
        let buckets = snapshot.services[0].counts.durations(Histogram::Dial).buckets;
        assert_eq!((buckets[0], buckets[1], buckets[18], buckets[19]), (2, 1, 1, 1));
    }

    #[test]
    fn counts_survive_a_reload_that_moves_the_servers() {
        let registry = Registry::new(1);
        let old = registry.service(0, "web", &servers(&["a:1", "b:1"]));
        old.server(1).count(ServerCounter::Dials);
        old.count(ServiceCounter::ConnectionsAccepted);
        let new = registry.service(0, "web", &servers(&["b:1", "c:1"]));
        new.server(0).count(ServerCounter::Dials);
        new.count(ServiceCounter::ConnectionsAccepted);

        let with_both = registry.snapshot();
        assert_eq!(with_both.services[0].servers.len(), 3);
        drop(old);
        let snapshot = registry.snapshot();
        let web = &snapshot.services[0];
        assert_eq!(web.counts.get(ServiceCounter::ConnectionsAccepted), 2);
        let names: Vec<_> = web.servers.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["b:1", "c:1"]);
        assert_eq!(web.servers[0].counts.get(ServerCounter::Dials), 2);
    }

    #[test]
    fn what_nobody_uses_is_hidden_and_comes_back_with_its_counts() {
        let registry = Registry::new(1);
        let web = registry.service(0, "web", &[]);
        web.count(ServiceCounter::KeyUpdates);
        drop(web);
        assert!(registry.snapshot().services.is_empty());
        let _web = registry.service(0, "web", &[]);
        let snapshot = registry.snapshot();
        let seen = &snapshot.services[0];
        assert_eq!(seen.counts.get(ServiceCounter::KeyUpdates), 1);
    }

    #[test]
    fn names_do_not_pile_up() {
        let registry = Registry::new(1);
        for number in 0..5 * UNUSED_MAX {
            registry.service(0, &format!("service {number}"), &servers(&["a:1"]));
        }
        assert!(registry.lock().services.list.len() <= 2 * UNUSED_MAX);
        assert!(registry.lock().servers.list.len() <= 2 * UNUSED_MAX);
    }

    #[test]
    fn a_server_is_up_while_any_worker_would_use_it() {
        let registry = Registry::new(2);
        let list = servers(&["a:1"]);
        let workers = [0, 1].map(|worker| registry.service(worker, "web", &list));
        let control = registry.service(registry.control(), "web", &list);
        control.server(0).count(ServerCounter::WentDown);
        let is_up = || registry.snapshot().services[0].servers[0].counts.get(ServerGauge::Up) > 0;
        assert!(is_up());
        workers[0].server(0).set_up(false);
        assert!(is_up());
        workers[1].server(0).set_up(false);
        assert!(!is_up());
        let snapshot = registry.snapshot();
        let server = &snapshot.services[0].servers[0];
        assert_eq!(server.counts.get(ServerCounter::WentDown), 1);
    }

    #[test]
    fn cells_of_two_workers_share_no_cache_line() {
        assert!(align_of::<WorkerCounters>() >= 128);
        assert!(align_of::<ServiceCells>() >= 128);
        assert!(align_of::<ServerCounters>() >= 128);
    }
}
