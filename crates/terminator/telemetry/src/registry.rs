//! All counters of the process: made once, asked for by worker and service, read as a snapshot.
//!
//! Services are known by name and servers by their text, so a reload goes on counting where the old
//! plan stopped. What no plan and no connection holds any more is not shown.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::counters::{ServerCounters, ServiceCells, ServiceCounters, WorkerCounters};
use crate::snapshot::{ServerSnapshot, ServiceSnapshot, Snapshot, WorkerSnapshot};

/// Names that nobody uses and that are still remembered, a list. A service that returns within as
/// many changes goes on counting; memory stays bounded however often the servers change.
const UNUSED_MAX: usize = 256;

/// All counters of the process.
#[derive(Debug)]
pub struct Registry {
    workers: Box<[Arc<WorkerCounters>]>,
    /// Locked when a plan is set up and when a snapshot is taken, never for a connection.
    services: Mutex<Vec<Service>>,
}

#[derive(Debug)]
struct Service {
    name: String,
    /// One a worker, and one for the control thread.
    cells: Box<[Arc<ServiceCells>]>,
    servers: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    name: String,
    /// One a worker, and one for the control thread.
    cells: Box<[Arc<ServerCounters>]>,
}

impl Registry {
    /// Counters for as many workers and for one control thread.
    pub fn new(workers: usize) -> Self {
        Self {
            workers: cells(workers, WorkerCounters::default),
            services: Mutex::default(),
        }
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
        let mut services = self.lock();
        let index = position_or_make(&mut services, name, slots);
        let service = &mut services[index];
        let servers = servers.iter().map(|name| {
            let index = position_or_make(&mut service.servers, name, slots);
            Arc::clone(&service.servers[index].cells[worker])
        });
        let servers = servers.collect();
        forget_unused(&mut service.servers);
        let counters = ServiceCounters::new(Arc::clone(&service.cells[worker]), servers);
        forget_unused(&mut services);
        Arc::new(counters)
    }

    /// All counts now. Each is read whole; those of one event may be read before or after it.
    pub fn snapshot(&self) -> Snapshot {
        let services = self.lock();
        let used = services.iter().filter(|service| service.is_used());
        Snapshot {
            services: used.map(|s| s.snapshot(self.workers.len())).collect(),
            workers: self.workers.iter().map(|w| worker_snapshot(w)).collect(),
        }
    }

    /// A panic elsewhere leaves counts as good as they were.
    fn lock(&self) -> MutexGuard<'_, Vec<Service>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is found by name.
trait Named {
    fn new(name: &str, slots: usize) -> Self;
    fn name(&self) -> &str;
    fn is_used(&self) -> bool;
}

impl Named for Service {
    fn new(name: &str, slots: usize) -> Self {
        Self {
            name: name.to_owned(),
            cells: cells(slots, ServiceCells::default),
            servers: Vec::new(),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn is_used(&self) -> bool {
        any_is_shared(&self.cells)
    }
}

impl Named for Server {
    fn new(name: &str, slots: usize) -> Self {
        Self {
            name: name.to_owned(),
            cells: cells(slots, ServerCounters::new),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn is_used(&self) -> bool {
        any_is_shared(&self.cells)
    }
}

impl Service {
    fn snapshot(&self, workers: usize) -> ServiceSnapshot {
        let used = self.servers.iter().filter(|server| server.is_used());
        let mut sums = ServiceSnapshot {
            name: self.name.clone(),
            servers: used.map(|server| server.snapshot(workers)).collect(),
            ..ServiceSnapshot::default()
        };
        for cells in &self.cells {
            cells.add_to(&mut sums);
        }
        sums
    }
}

impl Server {
    fn snapshot(&self, workers: usize) -> ServerSnapshot {
        let mut sums = ServerSnapshot {
            name: self.name.clone(),
            ..ServerSnapshot::default()
        };
        if let Some(control) = self.cells.get(workers) {
            control.add_to(&mut sums);
            sums.gauges = Default::default();
        }
        for cells in self.cells.iter().take(workers) {
            cells.add_to(&mut sums);
        }
        sums
    }
}

fn worker_snapshot(worker: &WorkerCounters) -> WorkerSnapshot {
    let mut sums = WorkerSnapshot::default();
    worker.add_to(&mut sums);
    sums
}

fn cells<T>(count: usize, make: impl Fn() -> T) -> Box<[Arc<T>]> {
    (0..count).map(|_| Arc::new(make())).collect()
}

fn any_is_shared<T>(cells: &[Arc<T>]) -> bool {
    cells.iter().any(|one| Arc::strong_count(one) > 1)
}

fn position_or_make<T: Named>(list: &mut Vec<T>, name: &str, slots: usize) -> usize {
    let found = list.iter().position(|one| one.name() == name);
    found.unwrap_or_else(|| {
        list.push(T::new(name, slots));
        list.len() - 1
    })
}

/// Drops the oldest of those that nobody uses, beyond [`UNUSED_MAX`].
fn forget_unused<T: Named>(list: &mut Vec<T>) {
    let unused = list.iter().filter(|one| !one.is_used()).count();
    let mut excess = unused.saturating_sub(UNUSED_MAX);
    list.retain(|one| {
        let forgotten = excess > 0 && !one.is_used();
        excess -= usize::from(forgotten);
        !forgotten
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::catalogue::{Histogram, ServerCounter, ServiceCounter, ServiceGauge, WorkerGauge};
    use crate::counters::Handshake;
    use crate::outcome::{HandshakeKind, Reason, Version};

    fn servers(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
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
        assert_eq!(web.counter(ServiceCounter::ConnectionsAccepted), 2);
        assert_eq!(web.counter(ServiceCounter::BytesUp), 200);
        assert_eq!(web.ended(Reason::NotTls), 2);
        assert_eq!(web.gauge(ServiceGauge::ConnectionsOpen), 1);
        assert_eq!(web.servers[0].counter(ServerCounter::Dials), 2);
        assert_eq!(snapshot.workers[1].gauge(WorkerGauge::BuffersInUse), 7);
        assert_eq!(snapshot.workers[0].gauge(WorkerGauge::BuffersInUse), 0);
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
        assert_eq!(seen.handshakes(HandshakeKind::Psk, Version::Tls13), 1);
        assert_eq!(seen.handshakes_of(HandshakeKind::Full), 0);
        assert_eq!(seen.suites().map(|(_, count)| count).sum::<u64>(), 1);
        assert!(seen.groups().any(|group| group == ("X25519MLKEM768", 1)));
        let histogram = seen.histogram(Histogram::HandshakePsk);
        assert_eq!((histogram.count(), histogram.sum_us), (1, 150));
        assert_eq!(histogram.buckets.0[2], 1);
    }

    #[test]
    fn durations_at_a_bound_and_beyond_the_last_are_counted() {
        let registry = Registry::new(1);
        let web = registry.service(0, "web", &[]);
        for duration_us in [0, 50, 51, 60_000_000, 60_000_001] {
            web.observe(Histogram::Dial, Duration::from_micros(duration_us));
        }
        let snapshot = registry.snapshot();
        let buckets = snapshot.services[0].histogram(Histogram::Dial).buckets.0;
        assert_eq!(
            (buckets[0], buckets[1], buckets[18], buckets[19]),
            (2, 1, 1, 1)
        );
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
        assert_eq!(web.counter(ServiceCounter::ConnectionsAccepted), 2);
        let names: Vec<_> = web.servers.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["b:1", "c:1"]);
        assert_eq!(web.servers[0].counter(ServerCounter::Dials), 2);
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
        assert_eq!(seen.counter(ServiceCounter::KeyUpdates), 1);
    }

    #[test]
    fn names_do_not_pile_up() {
        let registry = Registry::new(1);
        for number in 0..3 * UNUSED_MAX {
            registry.service(0, &format!("service {number}"), &servers(&["a:1"]));
        }
        assert!(registry.lock().len() <= UNUSED_MAX + 1);
    }

    #[test]
    fn a_server_is_up_while_any_worker_would_use_it() {
        let registry = Registry::new(2);
        let list = servers(&["a:1"]);
        let workers = [0, 1].map(|worker| registry.service(worker, "web", &list));
        let control = registry.service(registry.control(), "web", &list);
        control.server(0).count(ServerCounter::WentDown);
        let is_up = || registry.snapshot().services[0].servers[0].is_up();
        assert!(is_up());
        workers[0].server(0).set_up(false);
        assert!(is_up());
        workers[1].server(0).set_up(false);
        assert!(!is_up());
        let snapshot = registry.snapshot();
        let server = &snapshot.services[0].servers[0];
        assert_eq!(server.counter(ServerCounter::WentDown), 1);
    }

    #[test]
    fn cells_of_two_workers_share_no_cache_line() {
        assert!(align_of::<WorkerCounters>() >= 128);
        assert!(align_of::<ServiceCells>() >= 128);
        assert!(align_of::<ServerCounters>() >= 128);
    }
}
