//! A connection to the store, be that one server, a cluster, or the master that sentinels name; and
//! the four commands that are asked of it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::{StoreKind, StoreOptions};
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::io::AsyncDNSResolver;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue,
    IntoConnectionInfo, RedisConnectionInfo, RedisError, RedisFuture, TlsCertificates, TlsMode,
    cmd,
};
use telemetry::outcome::StoreFailure;
use telemetry::printable;
use tokio::time::error::Elapsed;
use wire::address::{Address, Endpoint, UnixName};

/// How long connecting may take, with TLS and the password.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// Of what the store says: its errors are a line.
const TEXT_CHARACTERS_MAX: usize = 200;

/// Why a request failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Fault {
    pub(super) why: StoreFailure,
    /// For people.
    pub(super) text: String,
}

/// The addresses of nodes that have names, as the resolver says. The process that connects cannot
/// look them up. Cloning shares them.
#[derive(Clone, Default)]
pub(crate) struct StoreNames(Arc<Mutex<Addresses>>);

/// By host and port.
type Addresses = BTreeMap<(String, u16), Vec<SocketAddr>>;

/// Connects to the store.
#[derive(Clone)]
pub(super) struct Connector {
    options: StoreOptions,
    names: StoreNames,
}

/// A connection, on which many requests are in progress at once. Cloning shares it.
#[derive(Clone)]
pub(super) enum Connection {
    Server(MultiplexedConnection),
    Cluster(Box<ClusterConnection>),
}

impl Connector {
    pub(super) fn new(options: StoreOptions, names: StoreNames) -> Self {
        Self { options, names }
    }

    /// A connection on which the store has answered.
    pub(super) async fn connect(&self) -> Result<Connection, Fault> {
        let connected = tokio::time::timeout(CONNECT_TIME_MAX, async {
            let mut connection = match &self.options.kind {
                StoreKind::Single => self.connect_to_first().await?,
                StoreKind::Cluster => self.connect_to_cluster().await?,
                StoreKind::Sentinel { .. } => self.connect_to_master().await?,
            };
            connection.probe(&self.options.prefix).await?;
            Ok(connection)
        });
        Fault::unless(connected.await, CONNECT_TIME_MAX)
    }

    async fn connect_to_first(&self) -> Result<Connection, Fault> {
        let node = self.options.nodes.first().expect("a store has a place");
        self.open(node, self.user()).await.map(Connection::Server)
    }

    async fn connect_to_cluster(&self) -> Result<Connection, Fault> {
        let nodes = self.options.nodes.iter();
        let nodes: Vec<_> = nodes
            .map(|node| self.info(node, self.user()))
            .collect::<Result<_, _>>()?;
        let mut builder = ClusterClientBuilder::new(nodes)
            .connection_timeout(CONNECT_TIME_MAX)
            .response_timeout(CONNECT_TIME_MAX)
            .retries(2)
            .async_dns_resolver(self.names.clone());
        if let Some(certificates) = self.certificates() {
            builder = builder.tls(TlsMode::Secure).certs(certificates);
        }
        let connection = builder.build()?.get_async_connection().await?;
        Ok(Connection::Cluster(Box::new(connection)))
    }

    /// Asks the sentinels one after the other (Redis Sentinel's guide for clients).
    async fn connect_to_master(&self) -> Result<Connection, Fault> {
        let mut fault = Fault::of(StoreFailure::Unready, "no sentinel was asked");
        for sentinel in &self.options.nodes {
            // One that hangs must leave time for the others.
            let time = CONNECT_TIME_MAX / (self.options.nodes.len() as u32 + 1);
            let master = tokio::time::timeout(time, self.master(sentinel)).await;
            match Fault::unless(master, time) {
                Ok(master) => {
                    let opened = self.open(&master, self.user()).await;
                    return opened.map(Connection::Server).map_err(|fault| {
                        let text = format!("{master}, its master: {}", fault.text);
                        Fault { text, ..fault }
                    });
                }
                Err(why) => {
                    fault = Fault {
                        text: format!("sentinel {sentinel}: {}", why.text),
                        ..why
                    }
                }
            }
        }
        Err(fault)
    }

    /// Where a sentinel says that the master is.
    async fn master(&self, sentinel: &Endpoint) -> Result<Endpoint, Fault> {
        let StoreKind::Sentinel { service, password } = &self.options.kind else {
            return Err(Fault::of(
                StoreFailure::Unready,
                "no sentinel is configured",
            ));
        };
        let mut user = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = password {
            user = user.set_password(password.0.as_str());
        }
        let mut connection = self.open(sentinel, user).await?;
        let mut ask = cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        let master: Option<(String, u16)> = ask.query_async(&mut connection).await?;
        let unknown = || format!("it knows no service \"{service}\"");
        let (host, port) = master.ok_or_else(|| Fault::of(StoreFailure::Refused, unknown()))?;
        let address = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let parsed = address.parse();
        parsed.map_err(|_| Fault::of(StoreFailure::Refused, format!("it names \"{address}\"")))
    }

    async fn open(
        &self,
        node: &Endpoint,
        user: RedisConnectionInfo,
    ) -> Result<MultiplexedConnection, Fault> {
        let info = self.info(node, user)?;
        let client = match self.certificates() {
            Some(certificates) => Client::build_with_tls(info, certificates)?,
            None => Client::open(info)?,
        };
        // Who asks knows how long to wait.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIME_MAX))
            .set_response_timeout(None)
            .set_dns_resolver(self.names.clone());
        let connected = client.get_multiplexed_async_connection_with_config(&config);
        Ok(connected.await?)
    }

    fn info(&self, node: &Endpoint, user: RedisConnectionInfo) -> Result<ConnectionInfo, Fault> {
        let (host, port) = match node {
            Endpoint::Address(Address::Ip(address)) => (address.ip().to_string(), address.port()),
            Endpoint::Address(Address::Unix(UnixName::Path(path))) => {
                let address = ConnectionAddr::Unix(path.clone());
                return Ok(address.into_connection_info()?.set_redis_settings(user));
            }
            Endpoint::Name { host, port } => (host.clone(), *port),
            Endpoint::Address(Address::Unix(UnixName::Abstract(_)) | Address::Inherited(_))
            | Endpoint::Service { .. } => {
                return Err(Fault::of(
                    StoreFailure::Connection,
                    format!("{node} is no node"),
                ));
            }
        };
        let address = match self.options.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
        };
        Ok(address.into_connection_info()?.set_redis_settings(user))
    }

    /// Of the store itself.
    fn user(&self) -> RedisConnectionInfo {
        let mut user = RedisConnectionInfo::default()
            .set_skip_set_lib_name()
            .set_db(self.options.database.into());
        if let Some(name) = &self.options.user {
            user = user.set_username(name);
        }
        if let Some(password) = &self.options.password {
            user = user.set_password(password.0.as_str());
        }
        user
    }

    fn certificates(&self) -> Option<TlsCertificates> {
        let authorities = self.options.tls.as_ref()?;
        Some(TlsCertificates {
            client_tls: None,
            root_cert: Some(authorities.0.clone()),
        })
    }
}

impl Connection {
    /// The value of that name; with `once`, it is deleted in the same step.
    pub(super) async fn get(&mut self, name: &str, once: bool) -> Result<Option<Vec<u8>>, Fault> {
        let verb = if once { "GETDEL" } else { "GET" };
        self.ask(cmd(verb).arg(name)).await
    }

    /// Proves that the user may read, and that the store is ready.
    pub(super) async fn probe(&mut self, prefix: &str) -> Result<(), Fault> {
        self.get(&format!("{prefix}probe"), false).await.map(drop)
    }

    /// Stores a value for so many seconds.
    pub(super) async fn set(
        &mut self,
        name: &str,
        value: &[u8],
        seconds: u64,
    ) -> Result<(), Fault> {
        self.ask(cmd("SET").arg(name).arg(value).arg("EX").arg(seconds))
            .await
    }

    /// Deletes the value of that name, if there is one.
    pub(super) async fn delete(&mut self, name: &str) -> Result<(), Fault> {
        self.ask(cmd("DEL").arg(name)).await
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Fault> {
        let answered = match self {
            Self::Server(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(&mut **connection).await,
        };
        Ok(answered?)
    }
}

impl Fault {
    pub(super) fn of(why: StoreFailure, text: impl Into<String>) -> Self {
        // What a server says may be of many lines, and of any length.
        let text = printable::line(&text.into()).to_string();
        let text = text.chars().take(TEXT_CHARACTERS_MAX).collect();
        Self { why, text }
    }

    /// What came within that time.
    pub(super) fn unless<T>(
        came: Result<Result<T, Self>, Elapsed>,
        time: Duration,
    ) -> Result<T, Self> {
        came.unwrap_or_else(|_| Err(Self::late(time)))
    }

    fn late(time: Duration) -> Self {
        let text = format!("no answer within {} ms", time.as_millis());
        Self::of(StoreFailure::Timeout, text)
    }

    /// What the operator can do about it, as far as the answer says.
    pub(super) fn remedy(&self) -> &'static str {
        match self.why {
            StoreFailure::Authentication => {
                "\nhint: its user needs the password of `cluster.store`, the commands GET, GETDEL, SET \
                 and DEL, and names that begin with `prefix`"
            }
            StoreFailure::Full => {
                "\nhint: give it more memory, or have it evict: maxmemory-policy volatile-ttl"
            }
            StoreFailure::Refused if self.text.contains("MOVED") => {
                "\nhint: it belongs to a Redis Cluster: list some of its nodes in `nodes`"
            }
            StoreFailure::Refused if self.text.contains("unknown command") => {
                "\nhint: GETDEL needs Redis 6.2 or newer, or Valkey"
            }
            _ => "",
        }
    }
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        let why = match error.code() {
            Some("OOM") => StoreFailure::Full,
            Some("READONLY" | "MISCONF" | "NOREPLICAS") => StoreFailure::ReadOnly,
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => StoreFailure::Authentication,
            Some("LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN") => StoreFailure::Unready,
            Some(_) => StoreFailure::Refused,
            None if error.kind() == ErrorKind::AuthenticationFailed => StoreFailure::Authentication,
            None if error.is_timeout() => StoreFailure::Timeout,
            None => StoreFailure::Connection,
        };
        // What the server says is short, and what operators look for.
        let text = match (error.code(), error.detail()) {
            (Some(code), Some(detail)) => format!("{code} {detail}"),
            _ => error.to_string(),
        };
        Self::of(why, text)
    }
}

impl StoreNames {
    /// What the resolver says of a name.
    pub(crate) fn set(&self, host: &str, port: u16, found: Vec<SocketAddr>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert((host.to_owned(), port), found);
    }

    fn find(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, RedisError> {
        if let Ok(ip) = host.parse() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = names.get(&(host.to_ascii_lowercase(), port));
        let found = found.filter(|addresses| !addresses.is_empty());
        found.cloned().ok_or_else(|| {
            let text = format!("the name {host}:{port} has no address that is known here");
            io::Error::new(io::ErrorKind::NotFound, text).into()
        })
    }
}

impl AsyncDNSResolver for StoreNames {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        host: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        let found = self.find(host, port);
        Box::pin(async move {
            let addresses: Box<dyn Iterator<Item = SocketAddr> + Send> =
                Box::new(found?.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says_is_one_short_line() {
        let fault = Fault::of(StoreFailure::Refused, "ERR a\nhint: b\u{1b}");
        assert_eq!(fault.text, r"ERR a\u000ahint: b\u001b");
        let fault = Fault::of(StoreFailure::Refused, "\n".repeat(1 << 20));
        assert_eq!(fault.text.len(), TEXT_CHARACTERS_MAX);
    }
}
