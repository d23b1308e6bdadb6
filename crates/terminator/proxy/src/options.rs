//! Options of the data plane: plain values, no text to parse, no files to open.

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

use crate::routes::{ClientSelector, NamePattern};

#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Services in the order of the configuration; at least one.
    pub services: Vec<ServiceOptions>,
    /// Settings that open encrypted hellos; `None` = they stay encrypted.
    pub ech: Option<EchOptions>,
    /// The worker threads. A change takes a restart.
    pub workers: WorkerOptions,
    /// Limits of the whole process.
    pub limits: ProcessLimits,
    pub log: LogOptions,
}

/// Encrypted Client Hello, for services whose TLS is passed through.
#[derive(Clone, Debug, PartialEq)]
pub struct EchOptions {
    /// Public name, in clear in encrypted hellos.
    pub public_name: String,
    pub keys: EchKeySource,
    /// Names of the services that only encrypted hellos reach.
    pub services: Vec<String>,
}

/// One service: a front, a back, and the settings of a connection between them.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceOptions {
    /// Unique name, for logs and labels.
    pub name: String,
    pub front: FrontOptions,
    pub back: BackOptions,
    /// The conversation before TLS, on either side; `None` = there is none.
    pub starttls: Option<Starttls>,
    /// Limits of time for each part of a connection.
    pub timeouts: Timeouts,
    /// Limit of open connections over all workers; `None` = only the process's limit.
    pub connections_max: Option<u32>,
}

/// The side that clients connect to.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontOptions {
    /// Addresses to listen on, at least one; other services may share them.
    pub listen: Vec<Address>,
    /// Server names that the service's clients ask for; empty = all names that no other service at
    /// the address has.
    pub names: Vec<NamePattern>,
    /// Protocols (RFC 7301) of which the service's clients offer one; empty = all.
    pub protocols: Vec<Vec<u8>>,
    /// Networks whose connections begin with a PROXY header, v1 or v2; others' must not.
    pub accept_proxy: Vec<Network>,
    pub sources: SourceRules,
    /// Detection of lost clients.
    pub liveness: Liveness,
    /// Transport of connections to IP addresses of `listen`.
    pub transport: Transport,
    /// Whether the kernel keeps TCP clients until they have sent something, for at most a second.
    pub defer_accept: bool,
    pub tls: FrontTls,
    /// Answers to ACME authorities that ask a front without TLS.
    pub challenges: HttpChallenges,
    /// Whether log lines show the JA4 fingerprints of the clients' hellos.
    pub ja4: bool,
    /// Whether the kernel encrypts long responses.
    pub ktls: KtlsOptions,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FrontTls {
    Terminate(Box<tls::options::ServerOptions>),
    /// TLS is passed through: servers get the clients' records unchanged.
    Passthrough,
    Plain,
}

impl Options {
    /// Reports whether only encrypted hellos reach the service.
    pub fn is_hidden(&self, service: &ServiceOptions) -> bool {
        self.ech.as_ref().is_some_and(|ech| ech.services.contains(&service.name))
    }

    /// Returns the services at each address, in their order. Addresses whose port the kernel
    /// chooses are left out, because each of them has one service.
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
    /// Returns which clients the service is for, at an address that others may share.
    pub fn selector(&self) -> ClientSelector<'_> {
        ClientSelector { names: &self.names, protocols: &self.protocols }
    }

    /// Returns how TLS is terminated, if it is.
    pub fn terminated(&self) -> Option<&tls::options::ServerOptions> {
        match &self.tls {
            FrontTls::Terminate(options) => Some(options),
            FrontTls::Passthrough | FrontTls::Plain => None,
        }
    }
}

/// The clients that are admitted, by their address or the one in a PROXY header.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceRules {
    /// Only these are admitted; empty = all.
    pub allow: NetworkSet,
    /// These are refused, even if they are allowed.
    pub deny: NetworkSet,
}

impl SourceRules {
    /// Reports whether a client from there is refused; `None` is a client on a Unix socket.
    pub fn denies(&self, client: Option<IpAddr>) -> bool {
        let is_allowed = self.allow.is_empty() || self.allow.contains(client);
        !is_allowed || self.deny.contains(client)
    }
}

/// Use of the kernel to encrypt what is sent to clients (kernel TLS).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KtlsOptions {
    pub mode: KtlsMode,
    /// Smallest length of such a response, in bytes.
    pub from: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KtlsMode {
    Off,
    Auto,
    /// The host does not serve if its kernel cannot encrypt every suite of the service.
    Require,
}

#[derive(Clone, Debug, PartialEq)]
pub enum BackOptions {
    /// Servers that we connect to.
    Servers(ServersOptions),
    Files(FilesOptions),
}

impl BackOptions {
    /// Returns the servers; `None` = the service has files.
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

    /// Returns the list of servers; empty if the service has files.
    pub fn server_list(&self) -> &[backend::options::ServerOptions] {
        self.servers().map_or(&[], |servers| &servers.pool.servers)
    }

    /// Returns the PROXY header that servers get.
    pub fn send_proxy(&self) -> &SendProxy {
        self.servers().map_or(&SendProxy::Off, |servers| &servers.send_proxy)
    }

    /// Returns the folder of files, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.files()?.folder.as_deref()
    }

    /// Returns the files; `None` = the service has servers.
    pub fn files(&self) -> Option<&FilesOptions> {
        match self {
            Self::Servers(_) => None,
            Self::Files(files) => Some(files),
        }
    }
}

/// Answers that we give by HTTP/1.1 ourselves: files beneath a folder, or redirects.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesOptions {
    /// The folder; nothing outside of it is read. `None` = there are no files.
    pub folder: Option<PathBuf>,
    pub serving: static_files::options::Options,
    /// Limits of time for requests.
    pub timeouts: FileTimeouts,
}

/// Limits of time for requests to files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileTimeouts {
    /// Time from the first byte of a request to its last.
    pub request: Duration,
    /// Time that the file system may take for one operation outside of memory: a look-up, a read.
    pub file: Duration,
    /// Rate at which a client must take responses; `None` = any.
    pub rate_min: Option<RateMin>,
}

/// Average rate at which a client must take what it is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RateMin {
    /// Bytes that the client acknowledges per second.
    pub bytes_per_second: u64,
    /// Time over which the bytes are counted.
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
    /// Reports whether an address is of this family.
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
    /// Whether a session of TLS 1.2 goes to the server that it belongs to, where clients' TLS is
    /// passed through. This precedes the balance.
    pub affinity: bool,
    /// The servers and the choice among them.
    pub pool: backend::options::Options,
    /// Detection of lost servers.
    pub liveness: Liveness,
    /// Time from an answer about a server's name to its next look-up.
    pub resolve: Duration,
    pub resolve_family: AddressFamily,
    pub source: SourceAddress,
    /// Header that tells a server about the client, before the first byte.
    pub send_proxy: SendProxy,
    /// Host to ask the servers for, if they are proxies; `None` = they are the servers.
    pub tunnel: Option<Arc<Tunnel>>,
    /// TLS towards the servers; `None` = they get plaintext.
    pub tls: Option<Box<BackTlsOptions>>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum SourceAddress {
    /// An address that the kernel chooses.
    #[default]
    Any,
    /// The one of these addresses that has the server's family; at most one per family.
    Own(Vec<IpAddr>),
    /// The client's own address; any, if it has none.
    Client,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BackTlsOptions {
    /// Offers to servers, and what they have to prove.
    pub client: tls::options::ClientOptions,
    /// Whether the PROXY header goes inside of TLS; else before it.
    pub header_inside: bool,
}

impl ServersOptions {
    /// Returns the hosts by which the servers' certificates are judged: those of their addresses,
    /// or the one behind proxies. `None` is a Unix socket, or a server named by DNS records.
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
pub struct ProcessLimits {
    pub connections: u32,
    pub handshakes: u32,
    pub per_source: SourceLimits,
}

/// Largest memory of a connection and its TLS apart from bytes in buffers: measured, and doubled.
const CONNECTION_STATE_BYTES: usize = 10 << 10;

impl Options {
    /// Returns the largest memory that connections may take: each with bytes waiting in both
    /// directions, and as many handshakes as allowed with the longest messages waiting.
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

/// Limits of one source over all workers: an IPv4 address, or an IPv6 network. 0 = no limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceLimits {
    pub connections: u32,
    pub handshakes: u32,
    /// New connections per second; as many may come at once.
    pub connections_per_second: u32,
    /// Bits of an IPv6 address that identify a source.
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
    /// One entry per worker, which is pinned to the CPU if one is named.
    pub cpus: Vec<Option<u16>>,
    /// Length of the kernel's queue of connections not yet accepted, per listener.
    pub backlog: u32,
    /// Length of the queue of TCP Fast Open (RFC 7413); 0 = off.
    pub fast_open: u32,
    /// Threads that wait for disks, where files are served; stuck ones are not counted.
    pub file_threads: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogOptions {
    pub connections: LogConnections,
    /// Format of a line.
    pub format: LineFormat,
    pub envelope: Envelope,
    /// Lines per second and worker for each reason of failure; more are only counted.
    pub failures_per_second: u32,
    /// Lines per second and worker for each reason that is no failure.
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
