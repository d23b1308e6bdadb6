//! From a bundle and its descriptors to a plan that can be served.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use backend::options::ServerOptions;
use backend::server::{Record, Target};
use config::{LogOutput, Settings, TypedConfiguration};
use proxy::data_plane::BoundListener;
use proxy::options::{AddressFamily, ServersOptions};
use proxy::plan::{Plan, PlanError};
use sys::beneath::Root;
use sys::socket::{self, PeerAddress};
use tls::ech::EchKeys;
use tls::resumption::{Resumption, ResumptionOptions};
use tls::signing;
use wire::address::{Address, Endpoint};

use crate::admin::{Access, ServedLimits, ServedPlan, ServiceFacts};
use crate::handover::{Bundle, DescriptorRole, ResolvedName, ServeOrder};
use crate::named_servers::{Instance, Name, Port, ServerName};
use crate::worker_process::health::CheckedService;
use crate::worker_process::tls_findings;

use super::cluster::ClusterSetup;
use super::key_link::KeyLink;
use super::sessions::{Inheritance, Sessions};
use super::tls_findings::{ExpiryWatch, unix_seconds};

/// A plan with what the control side must know of it.
pub(super) struct Built {
    pub(super) plan: Plan,
    pub(super) warnings: Vec<String>,
    /// One a worker: the CPU it is pinned to.
    pub(super) cpus: Vec<Option<u16>>,
    pub(super) listeners: Vec<Vec<BoundListener>>,
    pub(super) served: ServedPlan,
    pub(super) validity: ExpiryWatch,
    pub(super) checked: Vec<CheckedService>,
    pub(super) servers: Servers,
    pub(super) resumption: Arc<Resumption>,
    pub(super) descriptors: Descriptors,
    pub(super) log_output: LogOutput,
    /// How sessions go to the other hosts; `None` = they do not.
    pub(super) cluster: Option<ClusterSetup>,
}

/// Descriptors that are no service's.
#[derive(Default)]
pub(super) struct Descriptors {
    pub(super) log: Option<OwnedFd>,
    sessions: Option<OwnedFd>,
    cluster: Option<OwnedFd>,
    /// Folders of files, by their services' places.
    roots: Vec<(usize, Root)>,
    pub(super) status: Option<OwnedFd>,
    pub(super) admin: Option<OwnedFd>,
    /// The ways to the key processes, each with its group of keys.
    keys: Vec<(usize, OwnedFd)>,
}

/// Builds a plan. It takes a tenth of a millisecond a certificate and the CPU for it.
///
/// An error says what is wrong with the configuration, in sentences.
pub(super) fn build(
    mut bundle: Bundle,
    serve: &ServeOrder,
    fds: Vec<OwnedFd>,
    sessions: &Sessions,
) -> Result<Built, String> {
    let loaded = config::load(&bundle.source, &mut bundle.recording).map_err(|diagnostics| {
        let texts: Vec<_> = diagnostics.iter().map(ToString::to_string).collect();
        texts.join("\n")
    })?;
    let source = bundle.source;
    drop(bundle.recording);
    let mut settings = loaded.settings;
    settings.data_plane.workers.cpus.resize(serve.workers, None);
    let (listeners, mut descriptors) = sort(&settings, serve, fds);
    let servers = Servers::of(&settings);
    let services_checked = settings.data_plane.services.iter();
    let mut checked: Vec<_> = services_checked.filter_map(CheckedService::of).collect();
    let options = resumption_options(&settings, &sessions.inheritance);
    let resumption = sessions.next(&options, &serve.session_key, descriptors.sessions.take())?;
    let resumption = Arc::new(resumption);
    let mut served = served(&settings, serve, &listeners, &resumption);
    let cluster = settings.cluster.take().and_then(|cluster| {
        let sessions = resumption.shared_sessions();
        ClusterSetup::new(cluster, descriptors.cluster.take(), &sessions)
    });
    let cpus = settings.data_plane.workers.cpus.clone();
    let log_output = settings.control.log.clone();
    sessions.inheritance.authorities.join(&mut settings.data_plane);
    let keys = std::mem::take(&mut descriptors.keys);
    let counts = &sessions.inheritance.key_counts;
    if let Some(keys) = KeyLink::new(&serve.key_groups, keys, counts) {
        keys.join(&mut settings.data_plane);
        served.key_counts = Some(Arc::clone(counts));
        served.holds_keys = holds_keys(&settings);
    }
    let begun = unix_seconds();
    let names = settings.data_plane.services.iter().map(|one| one.name.clone());
    let names: Vec<_> = names.collect();
    let built = Plan::build(settings.data_plane, &resumption);
    let (mut plan, warnings) = built.map_err(|error| refusal(&source, &names, &error))?;
    checked.iter_mut().for_each(|one| one.set_tls(&plan));
    if let Some(kernel_tls) = &serve.kernel_tls {
        plan.set_kernel_tls(&kernel_tls.sealed(), kernel_tls.status.rekeys);
    }
    plan.keep_descriptors(serve.roles.len());
    carry_over(&mut plan, serve, &servers);
    for (service, root) in std::mem::take(&mut descriptors.roots) {
        plan.set_root(service, root);
    }
    Ok(Built {
        warnings: warnings.iter().map(tls_findings::message).collect(),
        cpus,
        listeners,
        served,
        validity: ExpiryWatch::new(&plan, begun),
        plan,
        checked,
        servers,
        resumption,
        descriptors,
        log_output,
        cluster,
    })
}

/// Gives a new plan the addresses that names resolved to, and what operators ordered of servers.
fn carry_over(plan: &mut Plan, serve: &ServeOrder, servers: &Servers) {
    for resolved in &serve.resolved {
        for (service, server, target) in servers.named(resolved) {
            plan.set_target(service, server, &target);
        }
    }
    for (service, server, name) in servers.all() {
        if serve.disabled.contains(&name) {
            plan.disable(service, server);
        }
        let mut ordered = serve.weights.iter();
        if let Some((_, weight)) = ordered.find(|(ordered, _)| *ordered == name) {
            plan.order_weight(service, server, *weight);
        }
    }
}

/// The reason why a plan cannot be built of a configuration whose services have these names.
fn refusal(source: &TypedConfiguration, names: &[String], error: &PlanError) -> String {
    let PlanError::Tls(fault) = error else {
        return error.to_string();
    };
    let number = names.iter().position(|name| **name == *fault.service);
    let found = number.map(|number| tls_findings::fault(source, number, fault));
    match found.as_deref() {
        Some([one]) => one.to_string(),
        _ => error.to_string(),
    }
}

/// Whether the key of a front's certificate is in this process.
fn holds_keys(settings: &Settings) -> bool {
    let fronts = settings.data_plane.services.iter().filter_map(|one| one.front.terminated());
    fronts.flat_map(|tls| &tls.certificates).any(|one| signing::key_of(one).is_some())
}

fn resumption_options(settings: &Settings, inheritance: &Inheritance) -> ResumptionOptions {
    ResumptionOptions {
        secret: inheritance.secret,
        tiers: Arc::clone(&inheritance.tiers),
        tickets: settings.tickets.clone(),
        sessions: settings.sessions,
    }
}

fn served(
    settings: &Settings,
    serve: &ServeOrder,
    listeners: &[Vec<BoundListener>],
    resumption: &Arc<Resumption>,
) -> ServedPlan {
    let (limits, sessions) = (&settings.data_plane.limits, settings.sessions);
    let ech = settings.data_plane.ech.as_ref();
    ServedPlan {
        generation: serve.generation,
        services: facts(settings, listeners),
        limits: ServedLimits {
            connections: limits.connections.into(),
            handshakes: limits.handshakes.into(),
            session_entries: sessions.entries_max as u64,
            session_bytes: sessions.bytes_max as u64,
        },
        kernel_tls: serve.kernel_tls.as_ref().map(|kernel_tls| kernel_tls.status.clone()),
        access: Some(Access::of(&settings.control)),
        key_log: settings.process.key_log.clone(),
        key_counts: None,
        holds_keys: true,
        resumption: Some(Arc::clone(resumption)),
        ech: ech.map(|ech| EchKeys::new(&ech.public_name, ech.keys.clone())),
    }
}

/// Gives each descriptor to its part. The supervisor made the roles from the same settings.
fn sort(
    settings: &Settings,
    serve: &ServeOrder,
    fds: Vec<OwnedFd>,
) -> (Vec<Vec<BoundListener>>, Descriptors) {
    let mut listeners: Vec<Vec<_>> = (0..serve.workers).map(|_| Vec::new()).collect();
    let mut descriptors = Descriptors::default();
    let sharers = settings.data_plane.sharers();
    for (role, fd) in serve.roles.iter().zip(fds) {
        match *role {
            DescriptorRole::Log => descriptors.log = Some(fd),
            DescriptorRole::Sessions => descriptors.sessions = Some(fd),
            DescriptorRole::ClusterSocket => descriptors.cluster = Some(fd),
            DescriptorRole::StatusSocket => descriptors.status = Some(fd),
            DescriptorRole::AdminListener => descriptors.admin = Some(fd),
            DescriptorRole::KeyChannel { group } => descriptors.keys.push((group as usize, fd)),
            DescriptorRole::FilesRoot { service } => {
                descriptors.roots.push((service as usize, fd.into()))
            }
            DescriptorRole::Listener { worker, service, address, is_shared } => {
                let place = (service as usize, address as usize);
                let bound = bound_listener(settings, &sharers, place, (fd, is_shared));
                if let (Some(list), Some(bound)) = (listeners.get_mut(worker as usize), bound) {
                    list.push(bound);
                }
            }
        }
    }
    (listeners, descriptors)
}

fn bound_listener(
    settings: &Settings,
    sharers: &HashMap<&Address, Vec<usize>>,
    (service, address): (usize, usize),
    (fd, is_shared): (OwnedFd, bool),
) -> Option<BoundListener> {
    let configured = settings.data_plane.services.get(service)?.front.listen.get(address)?;
    let services = sharers.get(configured);
    let services = services.cloned().unwrap_or_else(|| vec![service]);
    let address = match socket::local_address(&fd) {
        // With the port that the kernel chose.
        Ok(PeerAddress::Ip(ip)) => Address::Ip(ip),
        Ok(PeerAddress::Unix) | Err(_) => configured.clone(),
    };
    Some(BoundListener { services, address, fd, is_shared })
}

fn facts(settings: &Settings, listeners: &[Vec<BoundListener>]) -> Vec<ServiceFacts> {
    let mut listened: HashMap<_, Vec<_>> = HashMap::new();
    for listener in listeners.iter().take(1).flatten() {
        for service in &listener.services {
            let addresses = listened.entry(*service).or_default();
            let address = listener.address.to_string();
            // It may have several sockets of one address.
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    let services = settings.data_plane.services.iter().enumerate();
    let each = services.map(|(index, service)| ServiceFacts {
        name: service.name.clone(),
        listeners: listened.remove(&index).unwrap_or_default(),
        ktls: Some(service.front.ktls),
        server_tls: service.back.servers().map_or("", server_tls),
        serves_files: service.back.files().is_some(),
        queue_limit: service.back.servers().map_or(0, |servers| servers.pool.queue.length as u64),
        server_limits: server_limits(service.back.server_list()),
        ..ServiceFacts::default()
    });
    each.collect()
}

fn server_limits(servers: &[ServerOptions]) -> BTreeMap<String, u64> {
    let limited = servers.iter().filter_map(|server| {
        let limit = server.connections_max?;
        Some((server.endpoint.to_string(), limit.into()))
    });
    limited.collect()
}

fn server_tls(servers: &ServersOptions) -> &'static str {
    let Some(tls) = &servers.tls else {
        return "";
    };
    match (&tls.client.verification, tls.client.pins.is_empty()) {
        (Some(_), true) => "verified",
        (Some(_), false) => "verified and pinned",
        (None, false) => "pinned",
        (None, true) => "NOT VERIFIED",
    }
}

/// The servers of all services, by place and by name.
#[derive(Default)]
pub(super) struct Servers {
    endpoints: BTreeMap<String, Vec<Endpoint>>,
    names: BTreeMap<Name, Vec<NamedServer>>,
}

/// A server that has a name.
struct NamedServer {
    service: String,
    /// The place among its service's.
    server: usize,
    /// The place among the instances of its name.
    place: usize,
    family: AddressFamily,
}

impl Servers {
    fn of(settings: &Settings) -> Self {
        let mut all = Self::default();
        for service in &settings.data_plane.services {
            let family = service.back.servers().map(|servers| servers.resolve_family);
            let family = family.unwrap_or_default();
            let mut endpoints = Vec::new();
            for (server, one) in service.back.server_list().iter().enumerate() {
                if let Some((name, place)) = Name::of(&one.endpoint) {
                    let service = service.name.clone();
                    let named = NamedServer { service, server, place, family };
                    all.names.entry(name).or_default().push(named);
                }
                endpoints.push(one.endpoint.clone());
            }
            all.endpoints.insert(service.name.clone(), endpoints);
        }
        all
    }

    pub(super) fn label(&self, service: &str, server: usize) -> Option<String> {
        Some(self.endpoints.get(service)?.get(server)?.to_string())
    }

    /// All of them: service, place and name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, usize, ServerName)> {
        self.endpoints.iter().flat_map(|(service, endpoints)| {
            let each = endpoints.iter().enumerate();
            each.map(move |(server, endpoint)| {
                let name = ServerName { service: service.clone(), server: endpoint.to_string() };
                (service.as_str(), server, name)
            })
        })
    }

    /// The services and places of the servers that have this name.
    pub(super) fn named<'s>(
        &'s self,
        resolved: &'s ResolvedName,
    ) -> impl Iterator<Item = (&'s str, usize, Target)> {
        let servers = self.names.get(&resolved.name).into_iter().flatten();
        servers.map(|one| {
            let instance = resolved.instances.get(one.place);
            let target = instance.and_then(|instance| target(&resolved.name, instance.as_ref()));
            let mut target = target.unwrap_or_default();
            target.addresses.retain(|address| one.family.has(address));
            (one.service.as_str(), one.server, target)
        })
    }
}

/// The target of one of the servers that a name stands for; `None` = there are fewer servers.
fn target(name: &Name, instance: Option<&Instance>) -> Option<Target> {
    let Instance { priority, weight, addresses, .. } = instance?.clone();
    let record = Record { priority, weight };
    Some(Target { addresses, record: matches!(name.port, Port::Records(_)).then_some(record) })
}
