//! A configuration, read and understood: what the supervisor itself must know of it, and the
//! bundle for the worker process.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use config::{
    AcmeOptions, ControlOptions, PeerNetwork, ProcessOptions, ReloadOptions, SandboxOptions,
    Settings,
};
use proxy::options::{ServiceOptions, SourceAddress, WorkerOptions};
use serde::{Deserialize, Serialize};
use sys::socket::ListenOptions;
use wire::address::{Address, Endpoint, UnixName};

use super::failure::MissingRight;
use super::inheritance::ServedFolder;
use super::listeners::WantedListener;
use crate::acme_folder::FoundAcme;
use crate::handover::{Confinement, ConnectRights, Secret, SessionKey, SourceRights, WorkerUser};
use crate::held_keys::KeyGroup;
use crate::kernel::KernelTls;
use crate::named_servers::{Name, ServerName};

/// All who reach a service's Unix socket may connect, as to a port; its directory keeps others
/// out.
const SERVICE_MODE: u32 = 0o666;

/// How often names of the store are looked up again: as often as those of servers by default.
const STORE_RESOLVE: Duration = Duration::from_secs(10);

pub(super) struct PreparedConfiguration {
    pub(super) summary: ConfigSummary,
    pub(super) bundle: Secret,
    pub(super) acme: PreparedAcme,
    /// The keys that the worker process does not get; the bundle has references to them.
    pub(super) keys: Vec<KeyGroup>,
}

/// The certificates by ACME that the configuration names, and what lies in their folder.
pub(super) struct PreparedAcme {
    pub(super) options: AcmeOptions,
    pub(super) found: FoundAcme,
    /// The roots of the keys of notices to the cluster's other supervisors.
    pub(super) notice_roots: Vec<SessionKey>,
    /// How far the clocks of the cluster's hosts may be apart.
    pub(super) time_window: Duration,
}

/// The supervisor's knowledge of a configuration. No keys are in it.
pub(super) struct ConfigSummary {
    pub(super) services: usize,
    pub(super) listen: Vec<WantedListener>,
    pub(super) listen_options: ListenOptions,
    pub(super) folders: Vec<ServedFolder>,
    pub(super) workers: WorkerOptions,
    /// All servers, each with its service's name.
    servers: Vec<(String, Endpoint)>,
    /// The addresses that connections to a service's servers come from.
    sources: BTreeMap<String, SourceRights>,
    /// The names that servers have, each with the time after which it is looked up again.
    pub(super) names: BTreeMap<Name, Duration>,
    /// How long a handshake may take at any service.
    pub(super) handshake_time: Duration,
    pub(super) process: ProcessOptions,
    pub(super) reload: ReloadOptions,
    pub(super) control: ControlOptions,
    /// The network of the cluster's peers; `None` = there are none.
    pub(super) peers: Option<PeerNetwork>,
    /// The addresses of the session store, or those that lead to it.
    store: Vec<Endpoint>,
    pub(super) session_limits: session::Options,
    /// The kernel's part of TLS; `None` = nobody wants to know.
    pub(super) kernel_tls: Option<KernelTls>,
}

impl ConfigSummary {
    /// Whether supervisors of other hosts can be told something.
    pub(super) fn has_other_hosts(&self) -> bool {
        self.peers.is_some() || !self.store.is_empty()
    }

    pub(super) fn of(settings: Settings, kernel_tls: Option<KernelTls>) -> Self {
        let workers = &settings.data_plane.workers;
        let services = || (0..).zip(&settings.data_plane.services);
        let listen = services().flat_map(|(service_index, service)| {
            (0..).zip(&service.front.listen).map(move |(address_index, address)| WantedListener {
                address: address.clone(),
                service: service.name.clone(),
                service_index,
                address_index,
                liveness: service.front.liveness,
                transport: service.front.transport.clone(),
                defer_accept: service.front.defer_accept,
            })
        });
        let folders = services().filter_map(|(service_index, service)| {
            Some(ServedFolder {
                folder: service.back.folder()?.to_owned(),
                service: service.name.clone(),
                service_index,
            })
        });
        let servers = services().flat_map(|(_, service)| {
            let each = service.back.server_list().iter();
            each.map(|server| (service.name.clone(), server.endpoint.clone()))
        });
        let servers: Vec<_> = servers.collect();
        let sources = services().filter_map(|(_, service)| {
            let sources = match service.back.servers()?.source {
                SourceAddress::Any => SourceRights::Any,
                SourceAddress::Own(_) => SourceRights::Own,
                SourceAddress::Client => SourceRights::Foreign,
            };
            Some((service.name.clone(), sources))
        });
        let sources = sources.collect();
        let handshake_time = services().map(|(_, one)| one.timeouts.handshake).max();
        let cluster = settings.cluster.map(|cluster| (cluster.peers, cluster.store));
        let (peers, store) = cluster.unwrap_or_default();
        let store = store.map_or_else(Vec::new, |store| store.nodes);
        Self {
            services: settings.data_plane.services.len(),
            listen: listen.collect(),
            listen_options: ListenOptions {
                backlog: workers.backlog,
                fast_open: workers.fast_open,
                reuse_port: true,
                unix_mode: Some(SERVICE_MODE),
            },
            folders: folders.collect(),
            workers: workers.clone(),
            names: names(&settings.data_plane.services, &store),
            servers,
            sources,
            handshake_time: handshake_time.unwrap_or_default(),
            process: settings.process,
            reload: settings.reload,
            control: settings.control,
            peers: peers.map(|peers| peers.network),
            store,
            session_limits: settings.sessions,
            kernel_tls,
        }
    }

    /// Whether a service, or the status page, listens there.
    pub(super) fn listens_at(&self, address: &Address) -> bool {
        let admin = self.control.listen.map(Address::Ip);
        self.listen.iter().any(|one| one.address == *address) || admin.as_ref() == Some(address)
    }

    pub(super) fn server_names(&self) -> impl Iterator<Item = ServerName> {
        self.servers.iter().map(|(service, server)| ServerName {
            service: service.clone(),
            server: server.to_string(),
        })
    }

    /// The rights that a worker process gives up which is started for it.
    pub(super) fn confinement(&self, become_user: Option<WorkerUser>) -> Confinement {
        Confinement::of(&self.process, become_user)
    }

    /// The addresses that a worker process can connect to which is started for it.
    pub(super) fn connect_rights(&self) -> ConnectRights {
        let is_abstract = |(_, server): &(String, Endpoint)| {
            matches!(server, Endpoint::Address(Address::Unix(UnixName::Abstract(_))))
        };
        let is_limited = self.process.sandbox.files;
        let ports = self.process.connect_ports.clone();
        ConnectRights {
            tcp_ports: ports.filter(|_| is_limited),
            abstract_sockets: !is_limited || self.servers.iter().any(is_abstract),
            sources: self.sources.values().max().copied().unwrap_or_default(),
        }
    }

    /// Sees whether a worker process that can connect to these places can serve it.
    pub(super) fn is_within(&self, connect_rights: &ConnectRights) -> Result<(), MissingRight> {
        let is_beyond =
            |(_, sources): &(&String, &SourceRights)| **sources > connect_rights.sources;
        if let Some((service, _)) = self.sources.iter().find(is_beyond) {
            let service = service.clone();
            return Err(MissingRight::Source { service });
        }
        if let Some((service, server)) =
            self.servers.iter().find(|(_, at)| !connect_rights.includes(at))
        {
            let (service, server) = (service.clone(), server.clone());
            return Err(MissingRight::Server { service, server });
        }
        let store = self.store.iter().find(|node| !connect_rights.includes(node));
        store.map_or(Ok(()), |node| Err(MissingRight::Store { node: node.clone() }))
    }

    /// Parts that no reload changes.
    pub(super) fn fixed_parts(&self) -> FixedParts {
        let SandboxOptions { files, system_calls } = self.process.sandbox;
        FixedParts {
            cpus: self.workers.cpus.clone(),
            file_threads: self.workers.file_threads,
            user: self.process.user.clone(),
            groups: self.process.groups.clone(),
            sandbox: [files, system_calls],
            connect_ports: self.process.connect_ports.clone(),
            pid_file: self.process.pid_file.clone(),
            status_socket: self.control.status_socket.clone(),
            admin: self.control.listen,
        }
    }

    /// Takes those that run, whatever the files say.
    pub(super) fn keep_fixed_parts(&mut self, parts: FixedParts) {
        let (workers, process, control) = (&mut self.workers, &mut self.process, &mut self.control);
        let [files, system_calls] = parts.sandbox;
        (workers.cpus, workers.file_threads) = (parts.cpus, parts.file_threads);
        (process.user, process.groups) = (parts.user, parts.groups);
        process.sandbox = SandboxOptions { files, system_calls };
        (process.connect_ports, process.pid_file) = (parts.connect_ports, parts.pid_file);
        (control.status_socket, control.listen) = (parts.status_socket, parts.admin);
    }
}

/// Parts of a configuration that hold from the start of a supervisor to its end; a program that
/// comes back after a failed upgrade has them from what it handed on.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct FixedParts {
    /// See [`WorkerOptions`].
    cpus: Vec<Option<u16>>,
    file_threads: usize,
    user: Option<String>,
    groups: Vec<String>,
    /// See [`SandboxOptions`].
    sandbox: [bool; 2],
    connect_ports: Option<BTreeSet<u16>>,
    pid_file: Option<PathBuf>,
    status_socket: Option<PathBuf>,
    admin: Option<SocketAddr>,
}

impl FixedParts {
    /// The keys by which others differ.
    pub(super) fn changed(&self, new: &Self) -> Vec<&'static str> {
        let changes = [
            ("workers.threads", self.cpus != new.cpus),
            ("workers.file-threads", self.file_threads != new.file_threads),
            ("process.user", self.user != new.user),
            ("process.group", self.groups != new.groups),
            ("process.sandbox", self.sandbox != new.sandbox),
            ("process.connect-ports", self.connect_ports != new.connect_ports),
            ("process.pid-file", self.pid_file != new.pid_file),
            ("admin.status-socket", self.status_socket != new.status_socket),
            ("admin.listen", self.admin != new.admin),
        ];
        let changed = changes.into_iter().filter(|(_, changed)| *changed);
        changed.map(|(key, _)| key).collect()
    }
}

/// The names of all servers, and of the store. One that several have is looked up as often as any
/// of them wants.
fn names(services: &[ServiceOptions], store: &[Endpoint]) -> BTreeMap<Name, Duration> {
    let of_store = store.iter().filter_map(Name::of);
    let mut names: BTreeMap<_, _> = of_store.map(|(name, _)| (name, STORE_RESOLVE)).collect();
    for servers in services.iter().filter_map(|service| service.back.servers()) {
        for server in &servers.pool.servers {
            let Some((name, _)) = Name::of(&server.endpoint) else {
                continue;
            };
            let interval = names.entry(name).or_insert(servers.resolve);
            *interval = servers.resolve.min(*interval);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Recording, TypedConfiguration};
    use std::os::unix::fs::PermissionsExt;
    use testkit::directory::Directory;

    use crate::supervisor::listeners::Listeners;

    fn certificate() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().pem() + &key.serialize_pem()
    }

    fn summary(listen: &str, flag: (&str, &str)) -> ConfigSummary {
        let mut files = Recording::default();
        files.insert("/site.pem", certificate().into_bytes());
        let flags =
            [("listen", listen), ("certificate", "/site.pem"), ("backend", "127.0.0.1:9"), flag];
        let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let loaded = config::load(&TypedConfiguration::Flags(flags.to_vec()), &mut files).unwrap();
        ConfigSummary::of(loaded.settings, None)
    }

    #[test]
    fn what_only_a_restart_changes_is_named() {
        for (flag, [before, after], named) in [
            ("file-threads", ["2", "3"], vec!["workers.file-threads"]),
            ("sandbox", ["on", "off"], vec!["process.sandbox"]),
            ("admin", ["127.0.0.1:1", "127.0.0.1:2"], vec!["admin.listen"]),
            ("drain-timeout", ["1s", "2s"], vec![]),
        ] {
            let of = |value| summary("127.0.0.1:0", (flag, value));
            let parts = |value| of(value).fixed_parts();
            let mut served = of(after);
            assert_eq!(parts(before).changed(&served.fixed_parts()), named, "{flag}");
            served.keep_fixed_parts(parts(before));
            assert_eq!(served.fixed_parts().changed(&parts(after)), named, "{flag}");
            assert!(served.fixed_parts().changed(&parts(before)).is_empty(), "{flag}");
        }
    }

    #[test]
    fn every_user_may_connect_to_a_service() {
        let directory = Directory::new();
        let socket = directory.join("socket");
        let listen = format!("unix:{}", socket.display());
        let summary = summary(&listen, ("name", "web"));
        let mut listeners = Listeners::new(Default::default(), drop);
        let opened = listeners.open(&summary.listen, 1, &summary.listen_options);
        opened.unwrap();
        let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
    }
}
