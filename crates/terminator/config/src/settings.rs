//! The meaning of a configuration: the Options of the parts, and the daemon's own.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use proxy::options::Facility;
use session::mesh::MeshOptions;
use tls::options::{ClientOptions, PemSource};
use tls::resumption::keys::SharedSecret;
use wire::address::{Address, Endpoint, NetworkSet, UnixName};
use zeroize::Zeroizing;

/// Everything that a configuration says.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub data_plane: proxy::options::Options,
    pub process: ProcessOptions,
    /// When it is read again.
    pub reload: ReloadOptions,
    pub control: ControlOptions,
    /// For the session cache, which all services share.
    pub sessions: session::Options,
    /// For the ticket keys, which all services share.
    pub tickets: tls::resumption::TicketOptions,
    /// For the hosts that share their sessions; `None` = there is this one alone.
    pub cluster: Option<ClusterOptions>,
    pub acme: AcmeOptions,
    /// The keys that lie in tokens.
    pub token_keys: Vec<TokenKey>,
}

/// A key that lies in a token (PKCS #11).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenKey {
    /// The path of its certificate.
    pub place: String,
    /// The URI by RFC 7512, which was parsed once.
    pub uri: String,
    pub pin: PinOrigin,
    /// The public half that it must have, by its certificate, in DER.
    pub public_key: Vec<u8>,
    /// Whether it signs for servers that ask us for a certificate; else for clients.
    pub signs_to_servers: bool,
    /// Whether the configuration is served though it cannot be opened.
    pub is_optional: bool,
}

/// The origin of a token's PIN.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PinOrigin {
    /// None is needed, or the token asks for it by itself.
    Nowhere,
    /// The first line of this file.
    File(PathBuf),
    /// The first line that a program writes.
    Command(Vec<String>),
}

/// The certificates that come by ACME.
#[derive(Clone, Debug, PartialEq)]
pub struct AcmeOptions {
    /// The folder in which accounts, keys and certificates lie.
    pub folder: PathBuf,
    /// One for each service that has some; several may have the same name, and are then one.
    pub entries: Vec<AcmeEntry>,
    /// The host's own authorities, for those that name none; `None` = nobody needs them, or the
    /// host has none.
    pub host_roots: Option<PemSource>,
}

/// A certificate that is ordered and renewed.
#[derive(Clone, Debug, PartialEq)]
pub struct AcmeEntry {
    /// For operators and in the folder: the first domain, and a digest of what makes another
    /// certificate of it.
    pub name: String,
    /// The name of the service that shows it.
    pub service: String,
    /// DNS names, some with `*.` before them, and IP addresses.
    pub domains: Vec<String>,
    /// URLs that begin with `mailto:`.
    pub contact: Vec<String>,
    /// The URL of the authority's directory.
    pub directory: String,
    /// The authorities that the directory's own certificate may lead to; empty = those of the host.
    pub roots: Vec<PemSource>,
    pub profile: Option<String>,
    /// The kinds of keys, such as `ecdsa-p256`, each of which has a certificate.
    pub keys: Vec<String>,
    pub challenge: AcmeChallenge,
    /// The external account's key id and key in base64url.
    pub eab: Option<(String, Password)>,
}

/// How an authority sees that a name is ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AcmeChallenge {
    TlsAlpn,
    Http,
    /// A program puts a record into the DNS, within a time.
    Dns {
        hook: PathBuf,
        timeout: Duration,
    },
}

/// The hosts that share their sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterOptions {
    /// The first encrypts; at least one.
    pub secrets: Vec<SharedSecret>,
    /// How stored sessions go to the other hosts; `None` = they do not.
    pub peers: Option<PeersOptions>,
    /// The store that they go to as well; `None` = there is none.
    pub store: Option<StoreOptions>,
}

/// Valkey or Redis, in which hosts find each other's sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreOptions {
    /// The server, or its nodes or sentinels; at least one.
    pub nodes: Vec<Endpoint>,
    pub kind: StoreKind,
    /// The TLS that is spoken to it; `None` = plain text.
    pub tls: Option<ClientOptions>,
    /// Networks of nodes that are not among `nodes`, and that these name.
    pub networks: NetworkSet,
    /// `None` = the default user.
    pub user: Option<String>,
    pub password: Option<Password>,
    pub database: u16,
    pub prefix: String,
    /// How long a handshake waits for it.
    pub fetch_timeout: Duration,
    /// Sessions that it is asked for per second.
    pub fetch_rate: u32,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreKind {
    Single,
    Cluster,
    /// Sentinels that say where the master is.
    Sentinel {
        service: String,
        password: Option<Password>,
    },
}

#[derive(Clone, Eq, PartialEq)]
pub struct Password(pub Zeroizing<String>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// How stored sessions go to the other hosts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PeersOptions {
    pub network: PeerNetwork,
    pub mesh: MeshOptions,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PeerNetwork {
    Unicast {
        listen: SocketAddr,
        send_to: Vec<SocketAddr>,
    },
    Multicast {
        group: SocketAddr,
        /// The network interface; `None` = as the routing table says.
        interface: Option<String>,
        /// Networks that a datagram may pass.
        hops: u8,
    },
}

/// The processes and their rights.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessOptions {
    /// The user that the worker process becomes; `None` leaves the choice to the daemon.
    pub user: Option<String>,
    /// The worker's group, and further ones behind it; none are the user's own.
    pub groups: Vec<String>,
    /// The rights that the worker process loses before it sees a byte.
    pub sandbox: SandboxOptions,
    /// The TCP ports that the worker process can connect to; `None` = any.
    pub connect_ports: Option<BTreeSet<u16>>,
    /// How long connections are still accepted when a drain is asked for.
    pub drain_delay: Duration,
    /// How long connections may finish after a drain began.
    pub drain: Duration,
    pub pid_file: Option<PathBuf>,
    pub key_log: Option<KeyLogOptions>,
    /// Whether a process of their own holds the keys of certificates.
    pub key_process: bool,
}

/// The file that the secrets of connections are written to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyLogOptions {
    pub path: PathBuf,
    /// The names of the services whose connections are meant.
    pub services: Vec<String>,
}

/// When a configuration is read again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReloadOptions {
    /// Whether a change of a file that it was read from is a reload.
    pub watch: bool,
    /// How long files must stay as they are before they are read.
    pub debounce: Duration,
}

/// The parts of the sandbox.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SandboxOptions {
    /// No file can be opened (Landlock).
    pub files: bool,
    /// Only the system calls that it needs (seccomp).
    pub system_calls: bool,
}

/// The doors for those who watch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ControlOptions {
    /// The Unix socket that writes the status; `None` = the daemon's usual place.
    pub status_socket: Option<PathBuf>,
    /// The address of the status page and the metrics over HTTP; `None` = they are not served.
    pub listen: Option<SocketAddr>,
    /// Names of hosts that requests there may be for, besides `localhost` and any address.
    pub hosts: Vec<String>,
    /// The secret of those who are answered there; `None` = all are.
    pub token: Option<AdminToken>,
    pub log: LogOutput,
    /// How messages are written to the standard error.
    pub messages: MessageForm,
    /// The log daemon that messages go to; `None` = the standard error.
    pub messages_daemon: Option<LogDaemon>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageForm {
    /// As suits the reader of the standard error.
    Auto,
    Plain,
    /// With time and level before each line.
    Text,
    /// One JSON object per message.
    Json,
}

/// A secret that every client of the admin address must give.
#[derive(Clone, Eq, PartialEq)]
pub struct AdminToken(Zeroizing<String>);

impl AdminToken {
    /// Characters of a token: fewer can be guessed, and more fit into no header field.
    pub const CHARACTERS: RangeInclusive<usize> = 16..=1024;

    /// Reads a file's content; spaces and line ends around the token do not count. `None` = it has
    /// another length, or characters that a header field cannot carry (RFC 6750, section 2.1).
    pub fn read(content: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(content).ok()?.trim_ascii();
        let fits = Self::CHARACTERS.contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(Zeroizing::new(text.to_owned())))
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogOutput {
    Daemon(LogDaemon),
    File(PathBuf),
    Stderr,
    Stdout,
}

/// A program that collects the logs of others, with the socket at which it takes entries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogDaemon {
    /// RFC 5424, over a Unix datagram socket or UDP.
    Syslog {
        address: Address,
        /// The kind of program that it takes us for.
        facility: Facility,
    },
    /// The journal of systemd, at the socket of this path.
    Journal(PathBuf),
}

impl LogDaemon {
    pub fn address(&self) -> Address {
        match self {
            Self::Syslog { address, .. } => address.clone(),
            Self::Journal(path) => Address::Unix(UnixName::Path(path.clone())),
        }
    }
}

impl fmt::Display for LogDaemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Syslog { .. } => "syslog",
            Self::Journal(_) => "journald",
        };
        write!(f, "{name} at {}", self.address())
    }
}
