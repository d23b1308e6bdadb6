//! Holds the process's counters: made once, looked up by worker and service, read as a snapshot.
//!
//! Services are known by name and servers by their text, so a reload continues the counts of the
//! old plan. Services and servers that no plan and no connection uses any more are not shown.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalogue::{ServerGauge, ServiceGauge};
use crate::counters::{
    Counts, ServerCounters, ServerSnapshot, ServiceCells, ServiceCounters, ServiceSnapshot,
    Snapshot, WorkerCounters,
};
use crate::outcome::Reason;

/// Most unused names per list that a sweep keeps. A service that returns within as many changes
/// continues its counts; memory stays bounded however often the servers change.
const UNUSED_MAX: usize = 256;

/// Number of looks for changes after which unused names are searched: searching reads cache lines
/// of each name that nothing else needs.
const LOOKS_PER_SWEEP: u32 = 10;

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
    /// Looks for changes so far.
    looks: u32,
}

/// Difference between two looks at the counters.
#[derive(Debug, Default)]
pub struct CounterChanges {
    /// Services that counted something, are new, or have gauges above 0. Their gauges have the
    /// peaks since the last look instead of the values; peaks of several workers are added, though
    /// they may not have occurred at the same time.
    pub services: Vec<ServiceSnapshot>,
    /// Services that no plan and no connection uses any more.
    pub gone: Vec<String>,
}

/// Names in order of arrival. They are found by an index and swept when they have doubled, because
/// ten thousand services must not cost ten thousand comparisons each.
#[derive(Debug)]
struct NamedList<T> {
    list: Vec<NamedCells<T>>,
    /// Places in the list, by the service's name and the server's.
    index: HashMap<(String, String), usize>,
    /// Length at which unused names are searched again.
    sweep_at: usize,
}

/// A service, or a server of one.
#[derive(Debug)]
struct NamedCells<T> {
    service: String,
    /// Name of the server; empty for the service.
    name: String,
    /// Cells of each worker, and of the control thread.
    cells: Box<[Arc<T>]>,
    /// Whether the next look shows it though nothing was counted.
    is_due: bool,
    /// Whether a look has shown it, and none has reported it gone.
    is_known: bool,
}

impl Registry {
    /// Creates counters for this many workers and for one control thread.
    pub fn new(workers: usize) -> Self {
        Self { workers: cells(workers, WorkerCounters::default), names: Mutex::default() }
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns the index of the control thread's counters, which count the decisions of checks.
    /// They are ignored when it comes to whether a server is up.
    pub fn control(&self) -> usize {
        self.workers.len()
    }

    /// Returns a worker's own counters; panics beyond the last worker.
    pub fn worker(&self, index: usize) -> Arc<WorkerCounters> {
        Arc::clone(&self.workers[index])
    }

    /// Returns a service's counters on one worker, created if need be, with those of its servers in
    /// the order given; panics beyond [`Self::control`].
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

    /// Returns all counts now. Each is read whole; an event may be counted in part.
    pub fn snapshot(&self) -> Snapshot {
        let worker = |cells: &Arc<WorkerCounters>| {
            let mut counts = Counts::default();
            cells.add_to(&mut counts);
            counts
        };
        Snapshot {
            services: self.services(|_| true),
            workers: self.workers.iter().map(worker).collect(),
        }
    }

    /// Returns the counts of the services whose names are chosen.
    pub fn services(&self, is_chosen: impl Fn(&str) -> bool) -> Vec<ServiceSnapshot> {
        let names = self.lock();
        let list = names.services.list.iter();
        let chosen = list.filter(|service| service.is_used() && is_chosen(&service.service));
        let chosen: Vec<_> = chosen.collect();
        let servers = names.servers_of(&chosen);
        chosen.into_iter().map(|one| self.service_snapshot(one, &servers)).collect()
    }

    /// Returns a gauge's sum over all workers and services.
    pub fn sum(&self, gauge: ServiceGauge) -> u64 {
        let names = self.lock();
        let cells = names.services.list.iter().flat_map(|service| &service.cells);
        cells.map(|cells| cells.gauge(gauge)).fold(0, u64::saturating_add)
    }

    /// Returns the number of connections that ended for this reason, over all workers and services.
    pub fn ended(&self, reason: Reason) -> u64 {
        let names = self.lock();
        let cells = names.services.list.iter().flat_map(|service| &service.cells);
        cells.map(|cells| cells.ended_for(reason)).fold(0, u64::saturating_add)
    }

    /// Returns the changes since the last look, for a single reader. An idle service costs a read
    /// of one cache line for each of its workers and servers.
    pub fn changes(&self) -> CounterChanges {
        let mut names = self.lock();
        let sweeps = names.looks.is_multiple_of(LOOKS_PER_SWEEP);
        names.looks = names.looks.wrapping_add(1);
        let Names { services, servers, .. } = &mut *names;
        let mut with_servers = HashSet::new();
        for server in &mut servers.list {
            if server.take_due(ServerCounters::take_changed) {
                with_servers.insert(server.service.clone());
            }
        }
        let (mut due, mut gone) = (Vec::new(), Vec::new());
        for (at, service) in services.list.iter_mut().enumerate() {
            let counted = service.take_due(ServiceCells::take_changed);
            let is_due = counted || with_servers.contains(&service.service);
            if (is_due || sweeps) && !service.is_used() {
                // A service that returns is shown at once.
                service.is_due = true;
                let was_known = std::mem::take(&mut service.is_known);
                gone.extend(was_known.then(|| service.service.clone()));
            } else if is_due {
                service.is_known = true;
                due.push(at);
            }
        }
        let changed: Vec<_> = due.iter().map(|at| &names.services.list[*at]).collect();
        let servers = names.servers_of(&changed);
        let peaks = changed.into_iter().map(|named| {
            let mut service = self.service_snapshot(named, &servers);
            for gauge in ServiceGauge::RAISED {
                let peaks = named.cells.iter().map(|cells| cells.take_peak(gauge));
                service.counts.set(gauge, peaks.sum());
            }
            (service, named.has_gauges())
        });
        let (changed, has_gauges): (Vec<_>, Vec<_>) = peaks.unzip();
        for (at, has_gauges) in due.into_iter().zip(has_gauges) {
            names.services.list[at].is_due = has_gauges;
        }
        CounterChanges { services: changed, gone }
    }

    /// Makes the next look show all services, whatever has changed.
    pub fn look_anew(&self) {
        self.lock().services.list.iter_mut().for_each(|service| service.is_due = true);
    }

    fn service_snapshot(
        &self,
        service: &NamedCells<ServiceCells>,
        servers: &HashMap<&str, Vec<&NamedCells<ServerCounters>>>,
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

    fn server_snapshot(&self, server: &NamedCells<ServerCounters>) -> ServerSnapshot {
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

    /// Poison is ignored, because a panic elsewhere leaves the counts intact.
    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    /// Returns the servers in use of these services, by the service's name.
    fn servers_of<'n>(
        &'n self,
        services: &[&'n NamedCells<ServiceCells>],
    ) -> HashMap<&'n str, Vec<&'n NamedCells<ServerCounters>>> {
        let names = services.iter().map(|service| (&*service.service, Vec::new()));
        let mut servers: HashMap<&str, Vec<_>> = names.collect();
        for server in self.servers.list.iter().filter(|_| !services.is_empty()) {
            if let Some(list) = servers.get_mut(&*server.service)
                && server.is_used()
            {
                list.push(server);
            }
        }
        servers
    }
}

impl<T> NamedCells<T> {
    fn is_used(&self) -> bool {
        self.cells.iter().any(|one| Arc::strong_count(one) > 1)
    }

    /// Reports whether it is due, or `take_changed` finds a change on any worker.
    fn take_due(&mut self, take_changed: impl Fn(&T) -> bool) -> bool {
        let is_due = std::mem::take(&mut self.is_due);
        self.cells.iter().fold(is_due, |is_due, cells| take_changed(cells) || is_due)
    }
}

impl NamedCells<ServiceCells> {
    /// Reports whether anything is open, in progress or waiting now.
    fn has_gauges(&self) -> bool {
        let any = |cells: &Arc<ServiceCells>| {
            ServiceGauge::RAISED.iter().any(|gauge| cells.gauge(*gauge) > 0)
        };
        self.cells.iter().any(any)
    }
}

fn cells<T>(count: usize, make: impl Fn() -> T) -> Box<[Arc<T>]> {
    (0..count).map(|_| Arc::new(make())).collect()
}

impl<T> NamedList<T> {
    fn find_or_make(
        &mut self,
        service: &str,
        name: &str,
        make: impl FnOnce() -> Box<[Arc<T>]>,
    ) -> &[Arc<T>] {
        let Self { list, index, .. } = self;
        let key = (service.to_owned(), name.to_owned());
        let at = *index.entry(key).or_insert_with(|| {
            list.push(NamedCells {
                service: service.to_owned(),
                name: name.to_owned(),
                cells: make(),
                is_due: true,
                is_known: false,
            });
            list.len() - 1
        });
        &list[at].cells
    }

    /// Drops the oldest unused names beyond [`UNUSED_MAX`].
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
        let peak = || {
            let changes = registry.changes();
            changes.services.first().map_or(0, |service| service.counts.get(gauge))
        };
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
    fn what_rests_is_looked_at_no_further() {
        let registry = Registry::new(2);
        let names = ["web", "mail", "idle"];
        let all = names.map(|name| registry.service(1, name, &servers(&["a:1"])));
        let looked = || {
            let services = registry.changes().services.into_iter();
            services.map(|one| (one.name, one.servers.len())).collect::<Vec<_>>()
        };
        let one = |name: &str| vec![(name.to_owned(), 1)];
        assert_eq!(looked().len(), 3);
        assert_eq!(looked(), []);
        all[0].count(ServiceCounter::KeyUpdates);
        assert_eq!((looked(), looked()), (one("web"), vec![]));
        all[1].server(0).set_up(true);
        assert_eq!(looked(), []);
        all[1].server(0).set_up(false);
        assert_eq!((looked(), looked()), (one("mail"), vec![]));
        all[1].server(0).set_addresses_down(["a:1".to_owned()].into_iter());
        assert_eq!((looked(), looked()), (one("mail"), vec![]));
        // A service with open connections is shown in each interval.
        all[0].raise(ServiceGauge::ConnectionsOpen);
        assert_eq!((looked(), looked()), (one("web"), one("web")));
        all[0].lower(ServiceGauge::ConnectionsOpen);
        assert_eq!((looked(), looked()), (one("web"), vec![]));
        registry.look_anew();
        assert_eq!(looked().len(), 3);
        assert_eq!(registry.sum(ServiceGauge::ConnectionsOpen), 0);
        drop(all);
        let gone: Vec<_> = (0..LOOKS_PER_SWEEP).flat_map(|_| registry.changes().gone).collect();
        assert_eq!(gone, names);
        let _back = registry.service(0, "web", &[]);
        assert_eq!(looked(), [("web".to_owned(), 0)]);
    }

    /// Counts 128 bytes as one line, because lines come in pairs (Intel's spatial prefetcher).
    #[test]
    fn no_line_of_memory_is_written_by_two_workers() {
        const LINE_BYTES: usize = 128;
        const WORKERS: usize = 4;
        fn lines<T>(cells: &[Arc<T>]) -> impl Iterator<Item = (usize, usize)> {
            cells.iter().enumerate().flat_map(|(writer, cells)| {
                let begin = Arc::as_ptr(cells).addr();
                let range = begin / LINE_BYTES..=(begin + size_of::<T>() - 1) / LINE_BYTES;
                range.map(move |line| (line, writer))
            })
        }
        let registry = Registry::new(WORKERS);
        for name in 0..16 {
            registry.service(0, &format!("service {name}"), &servers(&["a:1", "b:1"]));
        }
        let names = registry.lock();
        let of_services = names.services.list.iter().flat_map(|one| lines(&one.cells));
        let of_servers = names.servers.list.iter().flat_map(|one| lines(&one.cells));
        let all = lines(&registry.workers).chain(of_services).chain(of_servers);
        let mut writers: HashMap<usize, BTreeSet<usize>> = HashMap::new();
        all.for_each(|(line, writer)| {
            writers.entry(line).or_default().insert(writer);
        });
        assert!(writers.len() > 48 * WORKERS);
        assert!(writers.values().all(|writers| writers.len() == 1));
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
}
