//! The host that all schedules of a thread share: plans, listeners, keys. Making them is slow.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backend::options::{Balance, PassiveOptions, QueueOptions, ServerOptions as BackendServer};
use backend::server::Target;
use flow::options::{ProxyTlvs, SendProxy, Starttls, Timeouts};
use static_files::challenge::HttpChallenges;
use sys::beneath::Root;
use sys::socket::{ListenOptions, Liveness, PeerAddress, Transport, listen, local_address};
use telemetry::counters::ServiceCounters;
use telemetry::registry::Registry;
use testkit::authority::Authority;
use testkit::client::ClientChoice;
use testkit::directory::Directory;
use testkit::tls_server::TlsServerChoice;
use tls::options::{
    CertificateSource, ClientOptions, ExpectedName, Group, OfferedAlpn, PemSource, ServerOptions,
    ServerVerification, Suites, Tls13Sessions, UnknownName, Version,
};
use tls::resumption::{Resumption, ResumptionOptions};
use wire::address::{Address, Endpoint};
use wire::starttls::{Dialect, Policy, StarttlsSides};

use crate::file_threads::FileThreads;
use crate::options::{
    AddressFamily, BackOptions, BackTlsOptions, Envelope, FileTimeouts, FilesOptions, FrontOptions,
    FrontTls, KtlsMode, KtlsOptions, LineFormat, LogConnections, LogOptions, Options,
    ProcessLimits, ServersOptions, ServiceOptions, SourceAddress, SourceLimits, SourceRules,
    WorkerOptions,
};
use crate::plan::Plan;

pub(super) const TIMEOUTS: Timeouts = Timeouts {
    handshake: Duration::from_secs(10),
    dial: Duration::from_secs(3),
    idle: Duration::from_secs(60),
    greeting: Duration::from_secs(8),
    lifetime: None,
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FrontKind {
    Plain,
    Passthrough,
    Terminate,
    Smtp,
}

/// A service of the simulation. Servers are indices in [`SERVERS`].
#[derive(Debug)]
pub(super) struct ServiceKind {
    pub(super) name: &'static str,
    pub(super) front: FrontKind,
    pub(super) takes_header: bool,
    pub(super) sends_header: Option<u8>,
    pub(super) servers: &'static [usize],
    /// Connection limit of each server.
    pub(super) places: Option<u32>,
    pub(super) lifetime: Option<Duration>,
    /// Whether both sides are TCP.
    pub(super) is_tcp: bool,
    /// Set if the service shares the address of the one before it: the name that selects it.
    pub(super) shared_name: Option<&'static str>,
    pub(super) is_fetched: bool,
    pub(super) is_files: bool,
    pub(super) is_raced: bool,
}

const fn service(name: &'static str, front: FrontKind, servers: &'static [usize]) -> ServiceKind {
    ServiceKind {
        name,
        front,
        takes_header: false,
        sends_header: None,
        servers,
        places: None,
        lifetime: None,
        is_tcp: false,
        shared_name: None,
        is_fetched: false,
        is_files: false,
        is_raced: false,
    }
}

/// A server of the simulation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ServerKind {
    Plain,
    Tcp,
    Nobody,
    Tls,
    Smtp,
    /// SMTP with TLS requested.
    SmtpTls,
}

pub(super) const SERVERS: [ServerKind; 9] = [
    ServerKind::Plain,
    ServerKind::Plain,
    ServerKind::Nobody,
    ServerKind::Tls,
    ServerKind::Smtp,
    ServerKind::Tcp,
    ServerKind::SmtpTls,
    ServerKind::Tcp,
    ServerKind::Tcp,
];

pub(super) const SERVICES: [ServiceKind; 18] = [
    ServiceKind {
        shared_name: Some("localhost"),
        sends_header: Some(1),
        ..service("shared-tls", FrontKind::Terminate, &[0, 1])
    },
    ServiceKind {
        shared_name: Some("other.example"),
        ..service("shared-passthrough", FrontKind::Passthrough, &[1])
    },
    service("plain", FrontKind::Plain, &[0, 1]),
    ServiceKind {
        sends_header: Some(2),
        takes_header: true,
        ..service("plain-header", FrontKind::Plain, &[2, 0])
    },
    ServiceKind {
        sends_header: Some(1),
        ..service("passthrough", FrontKind::Passthrough, &[0, 1])
    },
    service("tls", FrontKind::Terminate, &[0, 1]),
    ServiceKind {
        sends_header: Some(2),
        takes_header: true,
        lifetime: Some(Duration::from_secs(20)),
        ..service("tls-header", FrontKind::Terminate, &[2, 0, 1])
    },
    ServiceKind { sends_header: Some(2), ..service("tls-tls", FrontKind::Terminate, &[3]) },
    ServiceKind { takes_header: true, ..service("plain-tls", FrontKind::Plain, &[2, 3]) },
    service("smtp", FrontKind::Smtp, &[4]),
    ServiceKind { places: Some(1), ..service("limited", FrontKind::Plain, &[0]) },
    ServiceKind { is_tcp: true, ..service("tcp", FrontKind::Plain, &[5, 0]) },
    service("tls-redialled", FrontKind::Terminate, &[2, 1]),
    ServiceKind {
        is_tcp: true,
        sends_header: Some(1),
        ..service("tcp-tls", FrontKind::Terminate, &[5])
    },
    service("smtp-tls", FrontKind::Smtp, &[6]),
    ServiceKind { is_fetched: true, ..service("fetched", FrontKind::Terminate, &[0]) },
    ServiceKind { is_files: true, ..service("files", FrontKind::Terminate, &[]) },
    ServiceKind { is_raced: true, ..service("raced", FrontKind::Plain, &[7, 8]) },
];

pub(super) struct SimulatedHost {
    /// The second plan has the servers in another order.
    pub(super) plans: [Plan; 2],
    pub(super) registry: Registry,
    pub(super) counters: [Vec<Arc<ServiceCounters>>; 2],
    /// A listener and its address for each service.
    pub(super) fronts: Vec<(OwnedFd, Address)>,
    /// A listener, if there is one, and the address of each server.
    pub(super) servers: Vec<(Option<OwnedFd>, Address)>,
    pub(super) choices: [ClientChoice; 2],
    pub(super) server_tls: TlsServerChoice,
    /// A foreign host, whose sessions nobody here has.
    foreign: TlsServerChoice,
    _folder: Directory,
    /// Threads whose answers come when the schedule says.
    pub(super) file_threads: FileThreads,
    sessions: ResumptionOptions,
    /// A hello that is passed on.
    pub(super) hello: Vec<u8>,
}

fn listening(name: &str, is_tcp: bool) -> (OwnedFd, Address) {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let options = ListenOptions { backlog: 64, fast_open: 0, reuse_port: false, unix_mode: None };
    let address = if is_tcp {
        "127.0.0.1:0".to_owned()
    } else {
        format!("unix:@lariat-{name}-{}-{number}", std::process::id())
    };
    let address: Address = address.parse().unwrap();
    let fd = listen(&address, &options).unwrap();
    match local_address(&fd) {
        Ok(PeerAddress::Ip(ip)) => (fd, Address::Ip(ip)),
        _ => (fd, address),
    }
}

impl SimulatedHost {
    pub(super) fn new() -> Self {
        let authority = Authority::root("simulation");
        let leaf = authority.leaf(&["localhost"]).issue();
        let servers: Vec<_> = SERVERS
            .iter()
            .map(|kind| {
                let (fd, address) = listening("server", *kind == ServerKind::Tcp);
                (Some(fd).filter(|_| *kind != ServerKind::Nobody), address)
            })
            .collect();
        let mut fronts: Vec<(OwnedFd, Address)> = Vec::new();
        for kind in &SERVICES {
            let with = kind.shared_name == Some("other.example");
            let shared = fronts.last().filter(|_| with);
            let front = match shared {
                Some((fd, address)) => (fd.try_clone().unwrap(), address.clone()),
                None => listening(kind.name, kind.is_tcp),
            };
            fronts.push(front);
        }
        let sessions = ResumptionOptions::new([7; 32]);
        sessions.tiers.open(|| {});
        let resumption = Arc::new(Resumption::new(&sessions));
        let folder = Directory::new();
        folder.write("a", content());
        let servers_of =
            |kind: &ServiceKind| kind.servers.iter().map(|at| servers[*at].1.clone()).collect();
        let plan = |is_reversed| {
            let built = services(&fronts, servers_of, is_reversed, (&authority, &leaf.pem()));
            let built = Plan::build(options(built), &resumption);
            let (mut plan, _) = built.expect("the options are sound");
            let root = Root::open(folder.path()).expect("it was just made");
            let files = SERVICES.iter().position(|kind| kind.is_files);
            plan.set_root(files.expect("there is one"), root);
            plan.set_target("raced", 0, &raced(&servers));
            plan
        };
        let plans = [plan(false), plan(true)];
        plans[1].succeed(&plans[0]);
        let registry = Registry::new(2);
        let counters = [0, 1].map(|plan: usize| {
            let services = plans[plan].services.iter();
            let each = services.map(|one| registry.service(0, &one.name, &one.server_names));
            each.collect()
        });
        let choices =
            [false, true].map(|is_tls13| ClientChoice::new(authority.pem(), is_tls13, &[]));
        Self {
            hello: choices[1].connect("other.example").take_wire(),
            plans,
            registry,
            counters,
            fronts,
            servers,
            choices,
            server_tls: TlsServerChoice::new(&leaf, true),
            foreign: TlsServerChoice::new(&leaf, false),
            _folder: folder,
            file_threads: FileThreads::unattended(),
            sessions,
        }
    }
}

fn services(
    fronts: &[(OwnedFd, Address)],
    servers_of: impl Fn(&ServiceKind) -> Vec<Address>,
    is_reversed: bool,
    keys: (&Authority, &str),
) -> Vec<ServiceOptions> {
    let all = SERVICES.iter().zip(fronts);
    let service = |(kind, (_, front)): (_, &(_, _))| {
        let mut servers = servers_of(kind);
        servers.truncate(if kind.is_raced { 1 } else { servers.len() });
        if is_reversed {
            servers.reverse();
        }
        options_of(kind, front, &servers, keys)
    };
    all.map(service).collect()
}

fn options(services: Vec<ServiceOptions>) -> Options {
    Options {
        services,
        ech: None,
        workers: WorkerOptions {
            cpus: vec![None, None],
            backlog: 16,
            fast_open: 0,
            file_threads: 1,
        },
        limits: limits(1000),
        log: LogOptions {
            connections: LogConnections::All,
            format: LineFormat::Json,
            envelope: Envelope::Bare,
            failures_per_second: 1000,
            successes_per_second: 1000,
            sample: 1,
        },
    }
}

pub(super) fn limits(connections: u32) -> ProcessLimits {
    ProcessLimits { connections, handshakes: connections, per_source: SourceLimits::OFF }
}

/// Returns the target of the service with two addresses.
fn raced(servers: &[(Option<OwnedFd>, Address)]) -> Target {
    let of = |at: usize| match &servers[at].1 {
        Address::Ip(address) => *address,
        other => panic!("{other} is not over TCP"),
    };
    Target { addresses: vec![of(7), of(8)], record: None }
}

fn endpoint(kind: &ServiceKind, server: &Address) -> Endpoint {
    let text = if kind.is_raced { "raced.example:443".to_owned() } else { server.to_string() };
    text.parse().expect("a server")
}

fn options_of(
    kind: &ServiceKind,
    front: &Address,
    servers: &[Address],
    (authority, leaf): (&Authority, &str),
) -> ServiceOptions {
    let servers = servers.iter().map(|server| BackendServer {
        endpoint: endpoint(kind, server),
        weight: 1,
        backup: false,
        connections_max: kind.places,
    });
    let pool = backend::options::Options {
        servers: servers.collect(),
        balance: Balance::RoundRobin,
        passive: PassiveOptions { failures: 3, ejection_time: Duration::from_secs(10) },
        check: None,
        slow_start: Duration::ZERO,
        on_down: backend::options::DownAction::Keep,
        queue: QueueOptions { length: 1, timeout: Duration::from_secs(5) },
    };
    let has = |server| kind.servers.iter().any(|at| SERVERS[*at] == server);
    let asks = has(ServerKind::SmtpTls);
    let has_tls = has(ServerKind::Tls) || asks;
    let is_starttls = kind.front == FrontKind::Smtp;
    ServiceOptions {
        name: kind.name.to_owned(),
        front: front_of(kind, front, leaf),
        back: if kind.is_files {
            files()
        } else {
            BackOptions::Servers(ServersOptions {
                pool,
                affinity: false,
                liveness: Liveness::default(),
                resolve: Duration::from_secs(10),
                resolve_family: AddressFamily::Any,
                source: SourceAddress::Any,
                send_proxy: match kind.sends_header {
                    None => SendProxy::Off,
                    Some(1) => SendProxy::V1,
                    Some(_) => SendProxy::V2(ProxyTlvs {
                        alpn: false,
                        authority: false,
                        ssl: true,
                        crc32c: true,
                        unique_id: true,
                        ja4: false,
                        client_certificate: None,
                    }),
                },
                tunnel: None,
                tls: has_tls.then(|| Box::new(back_tls(authority))),
            })
        },
        starttls: is_starttls.then(|| starttls(asks)),
        timeouts: Timeouts { lifetime: kind.lifetime, ..TIMEOUTS },
        connections_max: None,
    }
}

/// Returns the content of a file of the service of files.
pub(super) fn content() -> Vec<u8> {
    (0..20_000).map(|at| (at / 7) as u8).collect()
}

fn starttls(back: bool) -> Starttls {
    Starttls {
        dialect: Dialect::Smtp,
        sides: StarttlsSides { front: Some(Policy::Required), back },
        server_name: None,
        own_name: "mx.example".to_owned(),
    }
}

fn files() -> BackOptions {
    BackOptions::Files(FilesOptions {
        folder: None,
        serving: static_files::options::Options::default(),
        timeouts: FileTimeouts {
            request: Duration::from_secs(10),
            file: Duration::from_secs(20),
            rate_min: None,
        },
    })
}

fn front_of(kind: &ServiceKind, front: &Address, leaf: &str) -> FrontOptions {
    let tls = ServerOptions {
        unknown_name: UnknownName::Refuse,
        tls13_sessions: Tls13Sessions::Tickets,
        ..ServerOptions::new(vec![CertificateSource::whole("localhost.pem", leaf)])
    };
    FrontOptions {
        listen: vec![front.clone()],
        names: kind.shared_name.iter().map(|name| name.parse().expect("a name")).collect(),
        protocols: Vec::new(),
        accept_proxy: if kind.takes_header {
            vec!["unix".parse().expect("a network")]
        } else {
            Vec::new()
        },
        sources: SourceRules::default(),
        liveness: Liveness::default(),
        transport: Transport::default(),
        defer_accept: false,
        challenges: HttpChallenges::default(),
        ja4: false,
        tls: match kind.front {
            FrontKind::Plain => FrontTls::Plain,
            FrontKind::Passthrough => FrontTls::Passthrough,
            FrontKind::Terminate | FrontKind::Smtp => FrontTls::Terminate(Box::new(tls)),
        },
        ktls: KtlsOptions { mode: KtlsMode::Off, from: u64::MAX },
    }
}

fn back_tls(authority: &Authority) -> BackTlsOptions {
    let authority = PemSource { place: "authority.pem".to_owned(), pem: authority.pem().into() };
    BackTlsOptions {
        client: ClientOptions {
            verification: Some(ServerVerification {
                authorities: vec![authority],
                ..ServerVerification::default()
            }),
            pins: Vec::new(),
            name: ExpectedName::Fixed("localhost".to_owned()),
            certificate: None,
            version_min: Version::Tls12,
            version_max: Version::Tls13,
            suites: Suites::Auto,
            groups: vec![Group::X25519],
            alpn: OfferedAlpn::Fixed(Vec::new()),
            resumption: true,
            key_log: false,
            certificate_compression: true,
        },
        header_inside: true,
    }
}

impl SimulatedHost {
    /// Answers that sessions were found nowhere.
    pub(super) fn answer_fetches(&self) {
        self.sessions.tiers.close();
        self.sessions.tiers.open(|| {});
    }

    /// Returns a client's choice with a session that was made on another host.
    pub(super) fn with_foreign_session(&self) -> ClientChoice {
        let choice = self.choices[0].without_tickets();
        let (mut client, mut server) = (choice.connect("localhost"), self.foreign.accept());
        let mut nothing = Vec::new();
        while !client.is_established() {
            nothing.extend(server.receive(&client.take_wire()));
            client.receive(&server.take_wire(), &mut nothing).expect("they agree");
        }
        choice
    }
}
