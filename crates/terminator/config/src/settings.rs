//! The settings of a configuration: the Options of the other crates, and the daemon's own.

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

/// All settings of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub data_plane: proxy::options::Options,
    pub process: ProcessOptions,
    /// When the configuration is read again.
    pub reload: ReloadOptions,
    pub control: ControlOptions,
    /// Options of the session cache, which all services share.
    pub sessions: session::Options,
    /// Options of the ticket keys, which all services share.
    pub tickets: tls::resumption::TicketOptions,
    /// Hosts that share their sessions; `None` = this host alone.
    pub cluster: Option<ClusterOptions>,
    pub acme: AcmeOptions,
    /// Keys in tokens.
    pub token_keys: Vec<TokenKey>,
}

/// A key in a token (PKCS #11).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenKey {
    /// Path of the certificate.
    pub place: String,
    /// URI by RFC 7512, which has been checked.
    pub uri: String,
    pub pin: PinOrigin,
    /// Public half that the key must have, from its certificate, in DER.
    pub public_key: Vec<u8>,
    /// Whether the key signs for servers that request our certificate; else for clients.
    pub signs_to_servers: bool,
    /// Whether the configuration is served though the key cannot be opened.
    pub is_optional: bool,
}

/// The origin of a token's PIN.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PinOrigin {
    /// Not needed, or the token asks for it by itself.
    Nowhere,
    /// First line of this file.
    File(PathBuf),
    /// First line of a program's output.
    Command(Vec<String>),
}

/// The certificates that come by ACME.
#[derive(Clone, Debug, PartialEq)]
pub struct AcmeOptions {
    /// Folder of accounts, keys and certificates.
    pub folder: PathBuf,
    /// One entry for each service that has some; entries of the same name are one certificate.
    pub entries: Vec<AcmeEntry>,
    /// Host's own authorities, for entries without `roots`; `None` if no entry needs them, or the
    /// host has none.
    pub host_roots: Option<PemSource>,
}

/// A certificate that is ordered and renewed.
#[derive(Clone, Debug, PartialEq)]
pub struct AcmeEntry {
    /// Name for operators and in the folder: the first domain, and a digest of everything that
    /// requires a different certificate.
    pub name: String,
    /// Name of the service that presents the certificate.
    pub service: String,
    /// DNS names, some with `*.` before them, and IP addresses.
    pub domains: Vec<String>,
    /// URLs that begin with `mailto:`.
    pub contact: Vec<String>,
    /// URL of the authority's directory.
    pub directory: String,
    /// Authorities trusted for the directory's own certificate; empty = those of the host.
    pub roots: Vec<PemSource>,
    pub profile: Option<String>,
    /// Kinds of keys, such as `ecdsa-p256`, with one certificate each.
    pub keys: Vec<String>,
    pub challenge: AcmeChallenge,
    /// Key id and key of the external account, in base64url.
    pub eab: Option<(String, Password)>,
}

/// How an authority verifies that a name is ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AcmeChallenge {
    TlsAlpn,
    Http,
    /// A program puts a record into the DNS, before a deadline.
    Dns {
        hook: PathBuf,
        timeout: Duration,
    },
}

/// The hosts that share their sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterOptions {
    /// Secrets, at least one; the first encrypts.
    pub secrets: Vec<SharedSecret>,
    /// How stored sessions reach the other hosts; `None` if they are not sent.
    pub peers: Option<PeersOptions>,
    /// Store that receives the sessions as well, if any.
    pub store: Option<StoreOptions>,
}

/// A Valkey or Redis store through which hosts share sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreOptions {
    /// Server, or its nodes or sentinels; at least one.
    pub nodes: Vec<Endpoint>,
    pub kind: StoreKind,
    /// TLS to the store; `None` = plaintext.
    pub tls: Option<ClientOptions>,
    /// Networks of nodes that are not among `nodes`, and that these name.
    pub networks: NetworkSet,
    /// User name; `None` = the default user.
    pub user: Option<String>,
    pub password: Option<Password>,
    pub database: u16,
    pub prefix: String,
    /// Time that a handshake waits for the store.
    pub fetch_timeout: Duration,
    /// Sessions that are fetched per second.
    pub fetch_rate: u32,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreKind {
    Single,
    Cluster,
    /// Sentinels that name the master.
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

/// How stored sessions reach the other hosts.
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
        /// Network interface; `None` = by the routing table.
        interface: Option<String>,
        /// Number of networks that a datagram may pass.
        hops: u8,
    },
}

/// The processes and their privileges.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessOptions {
    /// User of the worker process; `None` leaves the choice to the daemon.
    pub user: Option<String>,
    /// Primary group of the worker, then supplementary ones; empty = the user's own.
    pub groups: Vec<String>,
    /// Privileges that the worker process drops before it receives a byte.
    pub sandbox: SandboxOptions,
    /// TCP ports that the worker process can connect to; `None` = any.
    pub connect_ports: Option<BTreeSet<u16>>,
    /// How long connections are still accepted after a drain was requested.
    pub drain_delay: Duration,
    /// How long connections may take to finish after a drain began.
    pub drain: Duration,
    pub pid_file: Option<PathBuf>,
    pub key_log: Option<KeyLogOptions>,
    /// Whether a separate process holds the keys of certificates.
    pub key_process: bool,
}

/// The file that the secrets of connections are written to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyLogOptions {
    pub path: PathBuf,
    /// Names of the services whose secrets are logged.
    pub services: Vec<String>,
}

/// When a configuration is read again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReloadOptions {
    /// Whether a change of one of its files triggers a reload.
    pub watch: bool,
    /// How long files must stay unchanged before they are read.
    pub debounce: Duration,
}

/// The parts of the sandbox.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SandboxOptions {
    /// Whether opening files is forbidden (Landlock).
    pub files: bool,
    /// Whether only the necessary system calls are allowed (seccomp).
    pub system_calls: bool,
}

/// The interfaces for monitoring.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ControlOptions {
    /// Unix socket for the status; `None` = the daemon's default place.
    pub status_socket: Option<PathBuf>,
    /// Address of the status page and the metrics over HTTP; `None` if they are not served.
    pub listen: Option<SocketAddr>,
    /// Host names allowed in requests there, besides `localhost` and any address.
    pub hosts: Vec<String>,
    /// Secret that clients there must send; `None` = all clients are served.
    pub token: Option<AdminToken>,
    pub log: LogOutput,
    /// Format of messages on the standard error.
    pub messages: MessageForm,
    /// Log daemon for messages; `None` = the standard error.
    pub messages_daemon: Option<LogDaemon>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageForm {
    /// Chosen by the kind of the standard error.
    Auto,
    Plain,
    /// Time and level before each line.
    Text,
    /// One JSON object per message.
    Json,
}

/// A secret that every client of the admin address must give.
#[derive(Clone, Eq, PartialEq)]
pub struct AdminToken(Zeroizing<String>);

impl AdminToken {
    /// Length of a token: shorter ones can be guessed, and longer ones fit into no header field.
    pub const CHARACTERS: RangeInclusive<usize> = 16..=1024;

    /// Reads a token from a file's content; trims spaces and line ends. `None` if it has another
    /// length, or characters that a header field cannot carry (RFC 6750, section 2.1).
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

/// A program that collects the logs of others, with its socket for entries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogDaemon {
    /// Syslog by RFC 5424, over a Unix datagram socket or UDP.
    Syslog {
        address: Address,
        /// Facility of our messages.
        facility: Facility,
    },
    /// Journal of systemd, at the socket of this path.
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
