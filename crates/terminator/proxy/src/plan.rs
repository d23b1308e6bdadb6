//! The plan that the workers serve: built whole from options or not at all, then shared and never
//! changed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backend::options::{Balance, PassiveOptions, QueueOptions};
use backend::server::Target;
use flow::options::{Front, Offload, SendProxy, ServerTls, Settings, Starttls, Timeouts};
use static_files::challenge::HttpChallenges;
use sys::beneath::Root;
use tls::client::Client;
use tls::ech::EchKeys;
use tls::options::{Cipher, Version};
use tls::password;
use tls::policy::SuiteOrder;
use tls::resumption::Resumption;
use tls::server::{BuildError, Server, Warning};
use wire::address::{Address, Network};

use crate::descriptors::Descriptors;
use crate::file_threads::JobSource;
use crate::options::{
    BackOptions, FileTimeouts, FrontTls, KtlsMode, KtlsOptions, Liveness, LogOptions, Options,
    ProcessLimits, ServersOptions, ServiceOptions, SourceAddress, SourceRules, WorkerOptions,
};
use crate::places::SharedPlaces;
use crate::routes::{Overlap, RouteTable};
use crate::sources::Allowance;

/// A plan that can be served. Clones share it.
#[derive(Clone)]
pub struct Plan {
    pub(crate) services: Arc<[Arc<ServicePlan>]>,
    /// Places of the services by name.
    places: Arc<HashMap<String, usize>>,
    pub(crate) shared: Arc<[Arc<SharedAddress>]>,
    pub(crate) workers: WorkerOptions,
    pub(crate) limits: ProcessLimits,
    pub(crate) log: LogOptions,
    pub(crate) descriptors: Descriptors,
}

/// One service of a plan.
pub struct ServicePlan {
    pub(crate) name: String,
    /// Settings of its connections.
    pub(crate) settings: Settings,
    pub(crate) accept_proxy: Vec<Network>,
    pub(crate) sources: SourceRules,
    pub(crate) liveness: Liveness,
    /// Time after which the kernel probes clients.
    pub(crate) front_keepalive: Option<Duration>,
    pub(crate) source: SourceAddress,
    connections_max: Option<u32>,
    workers: usize,
    /// Open connections over all workers and, after a reload, over the plans of this name.
    open: OnceLock<Allowance>,
    pub(crate) pool: backend::options::Options,
    /// Whether a server has a connection limit.
    pub(crate) is_limited: bool,
    /// Places of servers with a limit, shared as `open` is.
    places: OnceLock<Arc<SharedPlaces>>,
    /// Files in place of servers, and how they are served.
    serving: Option<(Arc<static_files::options::Options>, FileTimeouts)>,
    pub(crate) files: Option<Arc<Files>>,
    ktls: KtlsOptions,
    /// Names of the servers, in the order of the options, for logs and labels.
    pub(crate) server_names: Vec<String>,
    /// Addresses of servers' names that are known before the first connection: server and target.
    pub(crate) targets: Vec<(usize, Target)>,
    /// Servers that an operator had disabled before the first connection.
    pub(crate) disabled: Vec<usize>,
    /// Weights that an operator had ordered: server and weight.
    pub(crate) weights: Vec<(usize, u16)>,
}

/// The files of a service, or its redirects.
pub(crate) struct Files {
    /// The folder, if there is one.
    pub(crate) root: Option<Root>,
    pub(crate) serving: Arc<static_files::options::Options>,
    pub(crate) timeouts: FileTimeouts,
    pub(crate) descriptors: Descriptors,
    pub(crate) source: Arc<JobSource>,
}

/// Services that share addresses, or one that is not for all clients at its own.
pub(crate) struct SharedAddress {
    /// Places of the services in the plan.
    pub(crate) places: Vec<usize>,
    /// Settings of a connection until its hello has chosen a service.
    pub(crate) entry: Arc<ServicePlan>,
    /// Place of the service under which such a connection is counted: the default, else the first.
    pub(crate) counted_as: usize,
    /// Table of indices into `places`.
    pub(crate) table: RouteTable,
    /// Table for hellos that came encrypted.
    pub(crate) hidden: RouteTable,
}

/// Services that share an address, and the tables of [`SharedAddress`].
struct SharedRoutes {
    places: Vec<usize>,
    table: RouteTable,
    hidden: RouteTable,
}

/// Result of building the TLS of one side of a service.
#[derive(Debug)]
pub struct Inspection {
    /// Place of the service in the options.
    pub service: usize,
    /// Whether this is the front, else the back.
    pub is_front: bool,
    /// Findings that deserve a second look, or why the TLS cannot be built.
    pub outcome: Result<Vec<Warning>, BuildError>,
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Tls(#[from] BuildError),
    /// Two services are for the same clients at one address.
    #[error("services `{0}` and `{1}` are for the same clients")]
    Overlap(String, String),
}

impl Plan {
    /// Builds all services; the first that cannot be built refuses the whole.
    pub fn build(
        options: Options,
        resumption: &Arc<Resumption>,
    ) -> Result<(Self, Vec<Warning>), PlanError> {
        let mut warnings = Vec::new();
        let tables = route_tables(&options)?;
        let Options { services, ech, workers, limits, log } = options;
        let ech = ech.map(|ech| Arc::new(EchKeys::new(&ech.public_name, ech.keys)));
        let count = workers.cpus.len();
        let build =
            |service| ServicePlan::build(service, count, resumption, &mut warnings).map(Arc::new);
        let services: Arc<[_]> = services.into_iter().map(build).collect::<Result<_, _>>()?;
        let shared = tables.into_iter();
        let shared =
            shared.map(|route| Arc::new(SharedAddress::new(route, ech.as_ref(), &services)));
        let shared = shared.collect();
        let descriptors = Descriptors::default();
        let places = services.iter().enumerate();
        let places = places.map(|(place, one)| (one.name.clone(), place));
        let places = Arc::new(places.collect());
        let plan = Self { shared, services, places, workers, limits, log, descriptors };
        Ok((plan, warnings))
    }

    /// Builds the TLS of each side of each service separately, so that all faults are reported.
    /// Sides that can be served are reported too, with their warnings.
    pub fn inspect(options: &Options, resumption: &Arc<Resumption>) -> Vec<Inspection> {
        let mut found = Vec::new();
        for (service, options) in options.services.iter().enumerate() {
            let name = &options.name;
            if let Some(tls) = options.front.terminated() {
                let built = Server::build(tls, name, resumption, &SuiteOrder::of_this_cpu());
                found.push(Inspection {
                    service,
                    is_front: true,
                    outcome: built.map(|(_, warnings)| warnings),
                });
            }
            if let Some(servers) = options.back.servers() {
                let mut warnings = Vec::new();
                let built = back_tls(name, servers, &mut warnings);
                found.push(Inspection {
                    service,
                    is_front: false,
                    outcome: built.map(|_| warnings),
                });
            }
        }
        found
    }

    /// Sets the addresses of a server's name, so that the first connection finds them. Called
    /// before the plan is shared; afterwards [`crate::data_plane::DataPlane::tell`] does the same.
    pub fn set_target(&mut self, service: &str, server: usize, target: &Target) {
        if let Some(plan) = self.named(service) {
            plan.targets.push((server, target.clone()));
        }
    }

    /// Disables a server before the first connection; afterwards [`crate::data_plane::DataPlane::tell`]
    /// does.
    pub fn disable(&mut self, service: &str, server: usize) {
        if let Some(plan) = self.named(service) {
            plan.disabled.push(server);
        }
    }

    /// Orders a server's weight before the first connection; afterwards
    /// [`crate::data_plane::DataPlane::tell`] does.
    pub fn order_weight(&mut self, service: &str, server: usize, weight: u16) {
        if let Some(plan) = self.named(service) {
            plan.weights.push((server, weight));
        }
    }

    /// Returns the service of that name, while the plan is not shared.
    fn named(&mut self, service: &str) -> Option<&mut ServicePlan> {
        let place = *self.places.get(service)?;
        Arc::get_mut(Arc::get_mut(&mut self.services)?.get_mut(place)?)
    }

    /// Gives the folder to a service of files, by its number in the options. Called before the plan
    /// is shared; without a folder the service has nothing to serve.
    pub fn set_root(&mut self, service: usize, root: Root) {
        let services = Arc::get_mut(&mut self.services);
        let plan = services.and_then(|all| Arc::get_mut(all.get_mut(service)?));
        if let Some(plan) = plan
            && let Some((serving, timeouts)) = &plan.serving
        {
            plan.files = Some(Files::new(Some(root), serving, *timeouts));
        }
    }

    /// Keeps room for reloads of a plan that takes `count` descriptors. Called before the plan is
    /// shared.
    pub fn keep_descriptors(&mut self, count: usize) {
        self.descriptors = Descriptors::besides(self.workers.cpus.len(), count);
    }

    /// Sets what the kernel can encrypt, and whether it can change the keys of a connection. Called
    /// before the plan is shared; without it the kernel is assumed to encrypt nothing.
    pub fn set_kernel_tls(&mut self, sealed: &[(Version, Cipher)], rekeys: bool) {
        let services = Arc::get_mut(&mut self.services).into_iter().flatten();
        for plan in services.filter_map(Arc::get_mut) {
            plan.settings.offload = offload_of(plan.ktls, sealed, rekeys);
        }
    }

    /// Takes over the counts of the plan before. Called before this plan is served.
    pub(crate) fn succeed(&self, before: &Self) {
        let before: HashMap<_, _> = before.services.iter().map(|one| (&one.name, one)).collect();
        for service in self.services.iter() {
            if let Some(same) = before.get(&service.name) {
                // Set already only if this very plan has been served before.
                let _ = service.open.set(same.open().clone());
                let _ = service.places.set(Arc::clone(same.places()));
                service.places().set_limits(&service.pool);
            }
        }
    }

    /// Returns the services, in the order of the options.
    pub fn services(&self) -> &[Arc<ServicePlan>] {
        &self.services
    }

    /// Returns how many workers the plan wants.
    pub fn worker_count(&self) -> usize {
        self.workers.cpus.len()
    }
}

/// Builds the tables of all services that share addresses, with their places.
fn route_tables(options: &Options) -> Result<Vec<SharedRoutes>, PlanError> {
    let services = &options.services;
    let mut lists: Vec<_> = options.sharers().into_values().collect();
    let is_ephemeral =
        |service: &ServiceOptions| service.front.listen.iter().any(Address::is_ephemeral);
    let alone = services.iter().enumerate();
    let alone = alone.filter(|(_, one)| is_ephemeral(one));
    lists.extend(alone.map(|(place, _)| vec![place]));
    lists.sort_unstable();
    lists.dedup();
    let is_default = |place: &usize| services[*place].front.selector().is_default();
    lists.retain(|list| list.len() > 1 || !list.iter().all(is_default));
    let tables = |places: Vec<usize>| {
        let table = |is_hidden: bool| {
            let numbered = places.iter().map(|place| &services[*place]).enumerate();
            let those = numbered.filter(|(_, one)| options.is_hidden(one) == is_hidden);
            let selectors = those.map(|(number, one)| (number, one.front.selector()));
            let name = |number: usize| services[places[number]].name.clone();
            RouteTable::build(selectors).map_err(|overlaps| {
                let Overlap { first, second, .. } = overlaps[0];
                PlanError::Overlap(name(first), name(second))
            })
        };
        let (table, hidden) = (table(false)?, table(true)?);
        Ok(SharedRoutes { places, table, hidden })
    };
    lists.into_iter().map(tables).collect()
}

impl Files {
    fn new(
        root: Option<Root>,
        serving: &Arc<static_files::options::Options>,
        timeouts: FileTimeouts,
    ) -> Arc<Self> {
        Arc::new(Self {
            root,
            serving: Arc::clone(serving),
            timeouts,
            descriptors: Descriptors::default(),
            source: Arc::default(),
        })
    }
}

impl SharedAddress {
    fn new(
        SharedRoutes { places, table, hidden }: SharedRoutes,
        ech: Option<&Arc<EchKeys>>,
        services: &[Arc<ServicePlan>],
    ) -> Self {
        let all: Vec<_> = places.iter().map(|place| &*services[*place]).collect();
        let default = table.default_service().unwrap_or(0);
        let mut entry = ServicePlan::entry(all[default], &all);
        entry.settings.ech = ech.filter(|_| !hidden.is_empty()).cloned();
        Self { entry: Arc::new(entry), hidden, counted_as: places[default], places, table }
    }
}

impl ServicePlan {
    /// Makes the settings before one of these services is chosen: a time that suits them all, and
    /// rules about sources only if they are the same for all.
    fn entry(counted_as: &Self, all: &[&Self]) -> Self {
        let are_same = all.iter().all(|one| one.sources == counted_as.sources);
        let sources = Some(&counted_as.sources).filter(|_| are_same);
        let handshake = all.iter().map(|one| one.settings.timeouts.handshake).max();
        let timeouts = counted_as.settings.timeouts;
        let mut headers = all.iter().map(|one| &one.settings.send_proxy);
        // The choice decides whether a received header is kept, and the destination asked for.
        let passed = headers.clone().find(|one| **one == SendProxy::Pass);
        let header = passed.or_else(|| headers.find(|one| **one != SendProxy::Off));
        Self {
            name: counted_as.name.clone(),
            settings: Settings {
                front: Front::Shared,
                send_proxy: header.cloned().unwrap_or(SendProxy::Off),
                ja4: false,
                accepts_proxy: counted_as.settings.accepts_proxy,
                passing_sessions: None,
                ech: None,
                back_tls: None,
                tunnel: None,
                starttls: None,
                timeouts: Timeouts {
                    handshake: handshake.unwrap_or(timeouts.handshake),
                    ..timeouts
                },
                offload: None,
            },
            accept_proxy: counted_as.accept_proxy.clone(),
            sources: sources.cloned().unwrap_or_default(),
            connections_max: None,
            workers: counted_as.workers,
            open: OnceLock::new(),
            pool: no_servers(),
            serving: None,
            files: None,
            ktls: counted_as.ktls,
            liveness: Liveness::default(),
            front_keepalive: counted_as.front_keepalive,
            source: SourceAddress::Any,
            is_limited: false,
            places: OnceLock::new(),
            server_names: Vec::new(),
            targets: Vec::new(),
            disabled: Vec::new(),
            weights: Vec::new(),
        }
    }

    fn build(
        options: ServiceOptions,
        workers: usize,
        resumption: &Arc<Resumption>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, BuildError> {
        let servers = options.back.servers();
        let liveness = servers.map(|servers| servers.liveness);
        let source = servers.map(|servers| servers.source.clone());
        let tunnel = servers.and_then(|servers| servers.tunnel.clone());
        let has_affinity = servers.is_some_and(|servers| servers.affinity);
        let front = front(&options, resumption, warnings)?;
        let back_tls = match options.back.servers() {
            Some(servers) => back_tls(&options.name, servers, warnings)?,
            None => None,
        };
        let starttls = options.starttls;
        if starttls.as_ref().is_some_and(Starttls::needs_password_key) {
            // Prepared here, because no worker waits for it here.
            password::prepare();
        }
        let (pool, send_proxy, serving, files) = match options.back {
            BackOptions::Servers(servers) => (servers.pool, servers.send_proxy, None, None),
            BackOptions::Files(files) => {
                let serving = Arc::new(files.serving);
                let rootless = files.folder.is_none();
                let rootless = rootless.then(|| Files::new(None, &serving, files.timeouts));
                let serving = Some((serving, files.timeouts));
                (no_servers(), SendProxy::Off, serving, rootless)
            }
        };
        Ok(Self {
            settings: Settings {
                front,
                ja4: options.front.ja4 || matches!(&send_proxy, SendProxy::V2(tlvs) if tlvs.ja4),
                send_proxy,
                accepts_proxy: !options.front.accept_proxy.is_empty(),
                passing_sessions: has_affinity.then(|| resumption.passing_sessions(&options.name)),
                ech: None,
                back_tls,
                tunnel,
                starttls,
                timeouts: options.timeouts,
                offload: offload_of(options.front.ktls, &[], false),
            },
            accept_proxy: options.front.accept_proxy,
            sources: options.front.sources,
            liveness: liveness.unwrap_or_default(),
            front_keepalive: options.front.liveness.keepalive,
            source: source.unwrap_or_default(),
            serving,
            files,
            ktls: options.front.ktls,
            connections_max: options.connections_max,
            workers,
            open: OnceLock::new(),
            server_names: pool.servers.iter().map(|one| one.endpoint.to_string()).collect(),
            is_limited: pool.servers.iter().any(|one| one.connections_max.is_some()),
            places: OnceLock::new(),
            pool,
            targets: Vec::new(),
            disabled: Vec::new(),
            weights: Vec::new(),
            name: options.name,
        })
    }

    /// Returns the largest number of connections.
    pub(crate) fn connections_max(&self) -> u32 {
        self.connections_max.unwrap_or(u32::MAX)
    }

    /// Returns the count of open connections.
    pub(crate) fn open(&self) -> &Allowance {
        self.open.get_or_init(|| Allowance::new(self.workers))
    }

    /// Returns the places of servers with a limit.
    pub(crate) fn places(&self) -> &Arc<SharedPlaces> {
        self.places.get_or_init(Arc::default)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn tls(&self) -> Option<&Server> {
        match &self.settings.front {
            Front::Terminate(server) => Some(server),
            Front::Passthrough | Front::Plain(_) | Front::Shared => None,
        }
    }

    /// Returns the TLS towards the servers; `None` = they get plaintext.
    pub fn back_tls(&self) -> Option<&ServerTls> {
        self.settings.back_tls.as_ref()
    }

    /// Returns the conversation before TLS, on either side.
    pub fn starttls(&self) -> Option<&Starttls> {
        self.settings.starttls.as_ref()
    }

    /// Returns the servers' names, as in logs and labels.
    pub fn server_names(&self) -> &[String] {
        &self.server_names
    }
}

fn front(
    options: &ServiceOptions,
    resumption: &Arc<Resumption>,
    warnings: &mut Vec<Warning>,
) -> Result<Front, BuildError> {
    Ok(match &options.front.tls {
        FrontTls::Terminate(tls) => {
            let built = Server::build(tls, &options.name, resumption, &SuiteOrder::of_this_cpu())?;
            warnings.extend(built.1);
            Front::Terminate(Arc::new(built.0))
        }
        FrontTls::Passthrough => Front::Passthrough,
        // `static-files` answers the challenges beside the files.
        FrontTls::Plain if options.back.files().is_some() => {
            Front::Plain(HttpChallenges::default())
        }
        FrontTls::Plain => Front::Plain(options.front.challenges.clone()),
    })
}

fn back_tls(
    service: &str,
    servers: &ServersOptions,
    warnings: &mut Vec<Warning>,
) -> Result<Option<ServerTls>, BuildError> {
    let Some(options) = &servers.tls else {
        return Ok(None);
    };
    let hosts = servers.hosts();
    let (client, concerns) =
        Client::build(&options.client, service, &hosts, &SuiteOrder::of_this_cpu())?;
    warnings.extend(concerns);
    Ok(Some(ServerTls { client: Arc::new(client), header_inside: options.header_inside }))
}

fn offload_of(options: KtlsOptions, taken: &[(Version, Cipher)], rekeys: bool) -> Option<Offload> {
    let offload = Offload { from: options.from, taken: taken.to_vec(), rekeys };
    (options.mode != KtlsMode::Off).then_some(offload)
}

fn no_servers() -> backend::options::Options {
    backend::options::Options {
        servers: Vec::new(),
        balance: Balance::RoundRobin,
        passive: PassiveOptions { failures: 0, ejection_time: Duration::ZERO },
        check: None,
        slow_start: Duration::ZERO,
        on_down: backend::options::DownAction::Keep,
        queue: QueueOptions { length: 0, timeout: Duration::ZERO },
    }
}
