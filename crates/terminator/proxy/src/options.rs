//! The options of the data plane: plain values, no text to parse, no files to open.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flow::buffer;
pub use flow::options::{CertificateForm, ProxyTlvs, SendProxy, ServerTls, Starttls, Timeouts};
use static_files::challenge::HttpChallenges;
pub use sys::socket::{Liveness, Transport};
pub use telemetry::form::Facility;
pub use telemetry::line::{Envelope, LineFormat};
use tls::ech::EchKeySource;
use wire::address::{Address, Endpoint, Network, NetworkSet};
use wire::tunnel::Tunnel;

use crate::routes::{NamePattern, Wish};

#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// In the order of the configuration; at least one.
    pub services: Vec<ServiceOptions>,
    /// How encrypted hellos are opened; `None` = they stay closed.
    pub ech: Option<EchOptions>,
    /// The threads. Changing them takes a restart.
    pub workers: WorkerOptions,
    /// Limits of the whole process.
    pub limits: Limits,
    pub log: LogOptions,
}

/// Encrypted Client Hello, for services whose TLS stays closed.
#[derive(Clone, Debug, PartialEq)]
pub struct EchOptions {
    /// The name in clear of hellos that are encrypted.
    pub public_name: String,
    pub keys: EchKeySource,
    /// The names of the services that encrypted hellos alone lead to.
    pub services: Vec<String>,
}

/// One service: a front, a back, and what holds for a connection between them.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceOptions {
    /// Unique; in logs and labels.
    pub name: String,
    pub front: FrontOptions,
    pub back: BackOptions,
    /// The conversation before TLS, on either side; `None` = there is none.
    pub starttls: Option<Starttls>,
    /// How long each part of a connection may take.
    pub timeouts: Timeouts,
    /// Open connections of this service over all workers; `None` = only the process's limit.
    pub connections_max: Option<u32>,
}

/// The side that clients connect to.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontOptions {
    /// At least one; other services may listen there too.
    pub listen: Vec<Address>,
    /// The clients that are meant, by the server name that they ask for; empty = all whose name no
    /// other service at the address has.
    pub names: Vec<NamePattern>,
    /// The clients among them that are meant, by the protocols (RFC 7301) that they offer; empty =
    /// all.
    pub protocols: Vec<Vec<u8>>,
    /// Connections from these networks begin with a PROXY header, v1 or v2; others' must not.
    pub accept_proxy: Vec<Network>,
    pub sources: SourceRules,
    /// How a client that is gone is noticed.
    pub liveness: Liveness,
    /// The transport of connections to IP addresses of `listen`.
    pub transport: Transport,
    /// Whether the kernel keeps clients over TCP until they have sent something, for a second at
    /// most.
    pub defer_accept: bool,
    pub tls: FrontTls,
    /// The answers to authorities that ask a front without TLS.
    pub challenges: HttpChallenges,
    /// Whether the lines about connections have the JA4 fingerprints of the clients' hellos.
    pub ja4: bool,
    /// Whether the kernel encrypts what is long.
    pub ktls: KtlsOptions,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FrontTls {
    Terminate(Box<tls::options::ServerOptions>),
    /// It stays closed: servers get the clients' records as they came.
    Passthrough,
    Plain,
}

impl Options {
    /// Whether encrypted hellos alone lead to the service.
    pub fn is_hidden(&self, service: &ServiceOptions) -> bool {
        self.ech.as_ref().is_some_and(|ech| ech.services.contains(&service.name))
    }

    /// The services at each address, in their order, but for addresses whose port the kernel
    /// chooses: each of those has one service.
    pub fn sharers(&self) -> HashMap<&Address, Vec<usize>> {
        let mut sharers: HashMap<_, Vec<usize>> = HashMap::new();
        for (place, service) in self.services.iter().enumerate() {
            let fixed = service.front.listen.iter().filter(|one| !one.is_ephemeral());
            fixed.for_each(|address| sharers.entry(address).or_default().push(place));
        }
        sharers
    }
}

impl FrontOptions {
    /// The clients that it is for, at an address that others may share.
    pub fn wish(&self) -> Wish<'_> {
        Wish { names: &self.names, protocols: &self.protocols }
    }

    /// How TLS is terminated, if it is.
    pub fn terminated(&self) -> Option<&tls::options::ServerOptions> {
        match &self.tls {
            FrontTls::Terminate(options) => Some(options),
            FrontTls::Passthrough | FrontTls::Plain => None,
        }
    }
}

/// The clients that may come in, by their address or the one that a PROXY header names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceRules {
    /// None but these; empty = all.
    pub allow: NetworkSet,
    /// Not these, even if they are allowed.
    pub deny: NetworkSet,
}

impl SourceRules {
    /// Whether a client from there may not come in; `None` is a client on a Unix socket.
    pub fn denies(&self, client: Option<IpAddr>) -> bool {
        let is_allowed = self.allow.is_empty() || self.allow.contains(client);
        !is_allowed || self.deny.contains(client)
    }
}

/// When the kernel encrypts what is sent to clients (kernel TLS).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KtlsOptions {
    pub mode: KtlsMode,
    /// From which length of a response on, in bytes.
    pub from: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KtlsMode {
    Off,
    Auto,
    /// A host whose kernel cannot do it for every suite of the service does not serve.
    Require,
}

#[derive(Clone, Debug, PartialEq)]
pub enum BackOptions {
    /// Servers that we connect to.
    Servers(ServersOptions),
    Files(FilesOptions),
}

impl BackOptions {
    /// The servers; `None` = files stand behind the service.
    pub fn servers(&self) -> Option<&ServersOptions> {
        match self {
            Self::Servers(servers) => Some(servers),
            Self::Files(_) => None,
        }
    }

    pub fn servers_mut(&mut self) -> Option<&mut ServersOptions> {
        match self {
            Self::Servers(servers) => Some(servers),
            Self::Files(_) => None,
        }
    }

    /// The list of servers; empty where files stand behind the service.
    pub fn server_list(&self) -> &[backend::options::ServerOptions] {
        self.servers().map_or(&[], |servers| &servers.pool.servers)
    }

    /// The PROXY header that servers get.
    pub fn send_proxy(&self) -> &SendProxy {
        self.servers().map_or(&SendProxy::Off, |servers| &servers.send_proxy)
    }

    /// The folder of files, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.files()?.folder.as_deref()
    }

    /// The files; `None` = servers stand behind the service.
    pub fn files(&self) -> Option<&FilesOptions> {
        match self {
            Self::Servers(_) => None,
            Self::Files(files) => Some(files),
        }
    }
}

/// The answers that we give by HTTP/1.1 ourselves: files beneath a folder, or redirects.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesOptions {
    /// The folder; nothing outside of it is read. `None` = there are no files.
    pub folder: Option<PathBuf>,
    pub serving: static_files::options::Options,
    /// How long what is asked may take.
    pub timeouts: FileTimeouts,
}

/// How long requests to files may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileTimeouts {
    /// From the first byte of a request to its last.
    pub request: Duration,
    /// The limit for the file system with one thing that is not in memory: a look-up, a read.
    pub file: Duration,
    /// How fast a client must take responses; `None` = as it likes.
    pub rate_min: Option<RateMin>,
}

/// How fast a client must take what it is sent, on an average.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RateMin {
    /// Bytes that it acknowledges per second.
    pub bytes_per_second: u64,
    /// The time over which they are counted.
    pub window: Duration,
}

/// The addresses of a server's name that are used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AddressFamily {
    /// All: if one does not answer, the next one is dialled.
    #[default]
    Any,
    Ipv4,
    Ipv6,
}

impl AddressFamily {
    /// Whether an address is one of these.
    pub fn has(self, address: &SocketAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Ipv4 => address.is_ipv4(),
            Self::Ipv6 => address.is_ipv6(),
        }
    }
}

/// The servers that we connect to.
#[derive(Clone, Debug, PartialEq)]
pub struct ServersOptions {
    /// Whether a session of TLS 1.2 goes to the server that it belongs to, where clients' TLS stays
    /// closed. This counts before the balance.
    pub affinity: bool,
    /// The servers and the choice among them.
    pub pool: backend::options::Options,
    /// How a server that is gone is noticed.
    pub liveness: Liveness,
    /// From an answer about a server's name to the next look-up of it.
    pub resolve: Duration,
    pub resolve_family: AddressFamily,
    pub source: SourceAddress,
    /// The header that tells a server about the client, before the first byte.
    pub send_proxy: SendProxy,
    /// The host that they, which are proxies, are asked for; `None` = they are the servers.
    pub tunnel: Option<Arc<Tunnel>>,
    /// How TLS is originated towards them; `None` = they get plaintext.
    pub tls: Option<Box<BackTlsOptions>>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum SourceAddress {
    /// An address that the kernel chooses.
    #[default]
    Any,
    /// The one of these that is of the server's family; at most one of each.
    Own(Vec<IpAddr>),
    /// The client's own; any, if it has none.
    Client,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BackTlsOptions {
    /// The offers to servers, and what they have to prove.
    pub client: tls::options::ClientOptions,
    /// Whether the PROXY header goes inside of TLS; else before it.
    pub header_inside: bool,
}

impl ServersOptions {
    /// The hosts of the servers' addresses, or the one behind proxies, by which their certificates
    /// are judged; `None` is a Unix socket, or a server that records name.
    pub fn hosts(&self) -> Vec<Option<String>> {
        let host = |server: &backend::options::ServerOptions| match &server.endpoint {
            _ if self.tunnel.is_some() => self.tunnel.as_ref().map(|one| one.host.clone()),
            Endpoint::Address(Address::Ip(address)) => Some(address.ip().to_string()),
            Endpoint::Address(Address::Unix(_) | Address::Inherited(_))
            | Endpoint::Service { .. } => None,
            Endpoint::Name { host, .. } => Some(host.clone()),
        };
        self.pool.servers.iter().map(host).collect()
    }
}

/// Limits of the whole process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    pub connections: u32,
    pub handshakes: u32,
    pub per_source: SourceLimits,
}

/// The most that a connection and its TLS hold beside what waits in buffers: measured without it,
/// and doubled.
const CONNECTION_STATE_BYTES: usize = 10 << 10;

impl Options {
    /// The memory that connections may come to take: each with bytes waiting in both directions,
    /// and as many handshakes as there may be with the longest messages waiting.
    pub fn memory_bytes_max(&self) -> u64 {
        let each = [
            (
                self.limits.connections as usize,
                buffer::CONNECTION_BYTES_MAX + CONNECTION_STATE_BYTES,
            ),
            (
                self.limits.handshakes.min(self.limits.connections) as usize,
                tls::handshake::WAITING_BYTES_MAX,
            ),
            (self.workers.cpus.len(), buffer::WORKER_BYTES_MAX),
        ];
        each.iter().map(|(count, bytes)| (count * bytes) as u64).sum()
    }
}

/// The limits of one source over all workers: an IPv4 address, or an IPv6 network. 0 = no limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceLimits {
    pub connections: u32,
    pub handshakes: u32,
    /// New connections per second; as many may come at once.
    pub connections_per_second: u32,
    /// The bits of an IPv6 address that make a source.
    pub ipv6_prefix_bits: u8,
    pub exempt: NetworkSet,
}

impl SourceLimits {
    pub const OFF: Self = Self {
        connections: 0,
        handshakes: 0,
        connections_per_second: 0,
        ipv6_prefix_bits: 64,
        exempt: NetworkSet::EMPTY,
    };
}

/// The threads that carry connections.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkerOptions {
    /// One worker an entry, pinned to that CPU if it names one.
    pub cpus: Vec<Option<u16>>,
    /// The kernel's queue of connections not yet accepted, a listener.
    pub backlog: u32,
    /// TCP Fast Open (RFC 7413): the queue's length; 0 = off.
    pub fast_open: u32,
    /// Threads that wait for disks, where files are served; those that are stuck not counted.
    pub file_threads: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogOptions {
    pub connections: LogConnections,
    /// How a line is written.
    pub format: LineFormat,
    pub envelope: Envelope,
    /// Lines a second and worker for each reason of failure; more are counted, not written.
    pub failures_per_second: u32,
    /// The same for each reason that is no failure.
    pub successes_per_second: u32,
    /// One of this many connections that ended well gets a line; at least 1.
    pub sample: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogConnections {
    All,
    Failed,
    None,
}
