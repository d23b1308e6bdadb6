//! A service with one server, for the tests of several files.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backend::options::{Balance, PassiveOptions, QueueOptions, ServerOptions as BackendServer};
use static_files::challenge::HttpChallenges;
use telemetry::registry::Registry;
use testkit::authority::Authority;
use testkit::client::ClientChoice;
use tls::options::{CertificateSource, ServerOptions, UnknownName};
use tls::resumption::{Resumption, ResumptionOptions};

use crate::commands::Mailbox;
use crate::connection_log::ConnectionLog;
use crate::file_threads::FileThreads;
use crate::files::FileContext;
use crate::options::{
    AddressFamily, BackOptions, Envelope, FrontOptions, FrontTls, KtlsMode, KtlsOptions,
    LineFormat, Liveness, LogConnections, LogOptions, Options, ProcessLimits, SendProxy,
    ServersOptions, ServiceOptions, SourceAddress, SourceRules, Timeouts, Transport, WorkerOptions,
};
use crate::plan::Plan;
use crate::service::Service;

pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    handshake: Duration::from_secs(10),
    dial: Duration::from_secs(3),
    greeting: Duration::from_secs(30),
    idle: Duration::from_secs(60),
    lifetime: None,
};

/// The server's limit: more than any test needs.
pub(crate) const SERVER_CONNECTIONS_MAX: u32 = 64;

/// A plan of one service for two workers, and clients that may connect to it.
pub(crate) struct Fixture {
    pub(crate) plan: Plan,
    pub(crate) registry: Registry,
    pub(crate) choice: ClientChoice,
}

impl Fixture {
    /// Makes a fixture; `server` is an address as configurations spell it.
    pub(crate) fn new(server: &str, limits: ProcessLimits) -> Self {
        Self::with_places(server, limits, Some(SERVER_CONNECTIONS_MAX))
    }

    /// Makes a fixture with this number of places at the server.
    pub(crate) fn with_places(server: &str, limits: ProcessLimits, places: Option<u32>) -> Self {
        let authority = Authority::root("proxy");
        let resumption = ResumptionOptions::new([7; 32]);
        let options = Options {
            services: vec![service(&authority, server, places)],
            ech: None,
            workers: WorkerOptions {
                cpus: vec![None, None],
                backlog: 16,
                fast_open: 0,
                file_threads: 1,
            },
            limits,
            log: LogOptions {
                connections: LogConnections::None,
                format: LineFormat::Json,
                envelope: Envelope::Bare,
                failures_per_second: 1,
                successes_per_second: 1,
                sample: 1,
            },
        };
        let built = Plan::build(options, &Arc::new(Resumption::new(&resumption)));
        Self {
            plan: built.expect("the options are sound").0,
            registry: Registry::new(2),
            choice: ClientChoice::new(authority.pem(), true, &[]),
        }
    }

    /// Returns the service as the first worker has it.
    pub(crate) fn service(&self) -> Rc<Service> {
        let plan = Arc::clone(&self.plan.services[0]);
        let counters = self.registry.service(0, &plan.name, &plan.server_names);
        Rc::new(Service::new(plan, 0, counters, None))
    }

    pub(crate) fn lines(&self, worker: usize) -> ConnectionLog {
        let (queue, counters) = (Arc::default(), self.registry.worker(worker));
        ConnectionLog::new(self.plan.log, worker, queue, counters)
    }
}

fn service(authority: &Authority, server: &str, places: Option<u32>) -> ServiceOptions {
    let leaf = authority.leaf(&["localhost"]).issue();
    let tls = ServerOptions {
        unknown_name: UnknownName::Refuse,
        ..ServerOptions::new(vec![CertificateSource::whole("localhost.pem", leaf.pem())])
    };
    let pool = backend::options::Options {
        servers: vec![BackendServer {
            endpoint: server.parse().expect("an address"),
            weight: 1,
            backup: false,
            connections_max: places,
        }],
        balance: Balance::RoundRobin,
        passive: PassiveOptions { failures: 3, ejection_time: Duration::from_secs(10) },
        check: None,
        slow_start: Duration::ZERO,
        on_down: backend::options::DownAction::Keep,
        queue: QueueOptions { length: 1, timeout: Duration::from_secs(60) },
    };
    ServiceOptions {
        name: "test".to_owned(),
        front: FrontOptions {
            listen: Vec::new(),
            names: Vec::new(),
            protocols: Vec::new(),
            accept_proxy: Vec::new(),
            sources: SourceRules::default(),
            liveness: Liveness::default(),
            transport: Transport::default(),
            defer_accept: false,
            challenges: HttpChallenges::default(),
            ja4: false,
            tls: FrontTls::Terminate(Box::new(tls)),
            ktls: KtlsOptions { mode: KtlsMode::Off, from: u64::MAX },
        },
        back: BackOptions::Servers(ServersOptions {
            pool,
            affinity: false,
            liveness: Liveness::default(),
            resolve: Duration::from_secs(10),
            resolve_family: AddressFamily::Any,
            source: SourceAddress::Any,
            send_proxy: SendProxy::Off,
            tunnel: None,
            tls: None,
        }),
        starttls: None,
        timeouts: TIMEOUTS,
        connections_max: None,
    }
}

/// Makes the context of files for a worker that serves none.
pub(crate) fn file_context(mailbox: Mailbox) -> Arc<FileContext> {
    Arc::new(FileContext::new(FileThreads::new(1), mailbox))
}
