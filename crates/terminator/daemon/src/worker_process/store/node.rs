//! A connection to one node of the store, on which many requests are in progress at once, and the
//! faults of requests: the reason, whose fault it is, and the remedy.
//!
//! Owns the dial, TLS, the password, and that no node holds more of our memory or time than its
//! requests deserve: what it says unasked, what is longer than a session can be, and an answer that
//! does not come end the connection. Which node is asked is not decided here.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use telemetry::outcome::StoreFailure;
use telemetry::printable;
use tls::client::Client;
use tls::probe::Probe;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::error::Elapsed;
use tokio::time::{sleep_until, timeout};
use wire::address::{Address, Endpoint};
use wire::store::{REPLY_BYTES_MAX, Reply, request};
use zeroize::Zeroizing;

use crate::worker_process::dial::{Stream, dial, shake_hands};

/// How long connecting may take, with TLS.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// How long an answer may take, from its request to its last byte: nobody waits longer for one.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// Requests that wait until the socket takes them, or for their answers: more than the store's
/// thread has in progress.
const REQUESTS_MAX: usize = 2048;

/// Bytes of requests that the socket has not taken: a few of the longest sessions.
const UNSENT_BYTES_MAX: usize = 4 * REPLY_BYTES_MAX;

const UNASKED: &str = "the store says something that nobody asked for";

const READ_BYTES: usize = 16 << 10;

/// The addresses of nodes that have names, as the resolver says. The process that connects cannot
/// look them up. Cloning shares them.
#[derive(Clone, Default)]
pub(crate) struct StoreNames(Arc<Mutex<Addresses>>);

type Addresses = BTreeMap<(String, u16), Vec<SocketAddr>>;

impl StoreNames {
    pub(crate) fn set(&self, host: &str, port: u16, found: Vec<SocketAddr>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert((host.to_owned(), port), found);
    }

    /// The addresses of a node; empty = not known.
    pub(super) fn addresses(&self, node: &Endpoint) -> Vec<Address> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match node {
            Endpoint::Address(address) => vec![address.clone()],
            Endpoint::Name { host, port } => {
                let found = names.get(&(host.to_ascii_lowercase(), *port));
                found.into_iter().flatten().copied().map(Address::Ip).collect()
            }
            Endpoint::Service { .. } => Vec::new(),
        }
    }
}

/// Whom a node is to take us for.
#[derive(Clone, Default)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<Zeroizing<String>>,
    pub(super) database: u16,
}

#[derive(Clone)]
pub(super) struct NodeRoute {
    pub(super) node: Endpoint,
    pub(super) names: StoreNames,
    pub(super) tls: Option<Arc<Client>>,
    pub(super) login: Login,
}

/// A connection, or what is going to be one: requests wait for it. Cloning shares it; it ends with
/// the last one.
#[derive(Clone)]
pub(super) struct Node {
    requests: Sender<Request>,
    shared: Arc<StoreShared>,
}

#[derive(Default)]
struct StoreShared {
    is_up: OnceLock<()>,
    end: OnceLock<(Fault, Instant)>,
}

struct Request {
    bytes: Vec<u8>,
    answer: Answer,
}

impl Node {
    /// Connects; to be called within a runtime.
    pub(super) fn start(way: NodeRoute) -> Self {
        let (requests, asked) = channel(REQUESTS_MAX);
        let node = Self { requests, shared: Arc::default() };
        tokio::spawn(run(way, asked, Arc::clone(&node.shared)));
        node
    }

    /// The answer to a request, which may be an error of the store. Requests are sent in the order
    /// of these calls, whenever their answers are waited for.
    pub(super) fn ask(&self, bytes: Vec<u8>) -> impl Future<Output = Result<Reply, Fault>> {
        let (answer, answered) = oneshot::channel();
        // One that has no room is dropped, and answered by that.
        let _ = self.requests.try_send(Request { bytes, answer });
        async {
            let full = || Fault::connection("too many requests wait for it");
            let dropped = |_| Err(self.end().map_or_else(full, |(fault, _)| fault.clone()));
            answered.await.unwrap_or_else(dropped)
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.shared.is_up.get().is_some() && self.end().is_none()
    }

    /// The reason why it has ended, and when; `None` = it has not.
    pub(super) fn end(&self) -> Option<&(Fault, Instant)> {
        self.shared.end.get()
    }
}

async fn run(way: NodeRoute, mut requests: Receiver<Request>, shared: Arc<StoreShared>) {
    let opened = timeout(CONNECT_TIME_MAX, way.open()).await;
    let (fault, waiting) = match Fault::unless(opened, CONNECT_TIME_MAX) {
        Ok((stream, tls)) => {
            let mut link = Link::new(tls, &way.login);
            let fault = link.drive(stream, &mut requests, &shared).await;
            (fault, link.waiting)
        }
        Err(fault) => (fault, VecDeque::new()),
    };
    let _ = shared.end.set((fault.clone(), Instant::now()));
    requests.close();
    let waiting = waiting.into_iter().filter_map(|one| one.answer);
    let left = std::iter::from_fn(|| requests.try_recv().ok());
    for answer in waiting.chain(left.map(|request| request.answer)) {
        let _ = answer.send(Err(fault.clone()));
    }
}

impl NodeRoute {
    async fn open(&self) -> Result<(Box<dyn Stream>, Option<Probe>), Fault> {
        let addresses = self.names.addresses(&self.node);
        let mut fault =
            Fault::connection(format!("the name {} has no address that is known here", self.node));
        for address in addresses {
            match dial(&address).await {
                Ok(mut stream) => {
                    let tls = self.secure(&mut *stream).await?;
                    return Ok((stream, tls));
                }
                Err(error) => fault = Fault::connection(error.to_string()),
            }
        }
        Err(fault)
    }

    async fn secure(&self, stream: &mut dyn Stream) -> Result<Option<Probe>, Fault> {
        let Some(client) = &self.tls else {
            return Ok(None);
        };
        let host = match &self.node {
            Endpoint::Name { host, .. } => host.clone(),
            Endpoint::Address(Address::Ip(address)) => address.ip().to_string(),
            other => return Err(Fault::connection(format!("{other} has no name for TLS"))),
        };
        let failed = |error: String| {
            let hint = if error.contains("corrupt message") {
                "if it speaks no TLS, write redis:// in `cluster.store.url`"
            } else {
                "its certificate has to be of an authority in `ca`, for this host's name"
            };
            Fault::connection(error).hinting(hint)
        };
        let probe = client.probe(0, Some(&host));
        let mut probe = probe.map_err(|fault| failed(fault.to_string()))?;
        let hands = shake_hands(stream, &mut probe).await;
        hands.map_err(|end| failed(end.to_string()))?;
        Ok(Some(probe))
    }
}

/// A request that was sent, or is about to be.
struct PendingRequest {
    since: Instant,
    /// Who asked; `None` = it is part of the login, and the node has to agree.
    answer: Option<Answer>,
}

type Answer = oneshot::Sender<Result<Reply, Fault>>;

/// The state of a connection.
#[derive(Default)]
struct Link {
    tls: Option<Probe>,
    waiting: VecDeque<PendingRequest>,
    unsent: Vec<u8>,
    received: Vec<u8>,
    has_answered: bool,
}

impl Link {
    fn new(tls: Option<Probe>, login: &Login) -> Self {
        let mut link = Self { tls, ..Self::default() };
        if let Some(password) = &login.password {
            let words = ["AUTH", login.user.as_deref().unwrap_or("default"), password];
            let words = words.map(str::as_bytes);
            // Before Redis 6 there was one user, who had no name.
            let bytes = match login.user {
                Some(_) => request(&words),
                None => request(&[words[0], words[2]]),
            };
            link.ask(&Zeroizing::new(bytes), None);
        }
        if login.database != 0 {
            let number = login.database.to_string();
            link.ask(&request(&[b"SELECT", number.as_bytes()]), None);
        }
        link
    }

    fn ask(&mut self, bytes: &[u8], answer: Option<Answer>) {
        let since = Instant::now();
        self.waiting.push_back(PendingRequest { since, answer });
        match &mut self.tls {
            Some(tls) => {
                tls.send(bytes);
                self.unsent.extend(tls.output());
            }
            None => self.unsent.extend_from_slice(bytes),
        }
    }

    /// Until it ends: why it does.
    async fn drive(
        &mut self,
        stream: Box<dyn Stream>,
        requests: &mut Receiver<Request>,
        shared: &StoreShared,
    ) -> Fault {
        let (mut reader, mut writer) = split(stream);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let oldest = self.waiting.front();
            if oldest.is_none_or(|one| one.answer.is_some()) {
                let _ = shared.is_up.set(());
            }
            let due = oldest.map(|one| one.since + ANSWER_TIME_MAX);
            let has_room =
                self.unsent.len() < UNSENT_BYTES_MAX && self.waiting.len() < REQUESTS_MAX;
            let done = tokio::select! {
                read = reader.read(&mut buffer) => match read {
                    Ok(0) => Err(self.ended("the store closed the connection")),
                    Ok(count) => self.take(&buffer[..count]),
                    Err(error) => Err(self.ended(&error.to_string())),
                },
                wrote = writer.write(&self.unsent), if !self.unsent.is_empty() => match wrote {
                    Ok(count) => {
                        self.unsent.drain(..count);
                        Ok(())
                    }
                    // It may have said why before it closed.
                    Err(error) => match reader.read(&mut buffer).await {
                        Ok(count @ 1..) => self.take(&buffer[..count]),
                        _ => Err(self.ended(&error.to_string())),
                    },
                },
                request = requests.recv(), if has_room => match request {
                    Some(Request { bytes, answer }) => {
                        self.ask(&bytes, Some(answer));
                        Ok(())
                    }
                    None => Err(Fault::connection("nobody asks it any more")),
                },
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {
                    Err(Fault::late(ANSWER_TIME_MAX))
                }
            };
            if let Err(fault) = done {
                return fault;
            }
        }
    }

    fn ended(&self, text: &str) -> Fault {
        let hint = match (&self.tls, self.has_answered) {
            (None, false) => "if it wants TLS, write rediss:// in `cluster.store.url`",
            _ => "",
        };
        Fault::connection(text).hinting(hint)
    }

    /// Takes what came, and hands out the answers in it.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match &mut self.tls {
            Some(tls) => {
                let took = tls.data(bytes, &mut self.received);
                self.unsent.extend(tls.output());
                took.map_err(|fault| Fault::connection(fault.to_string()))?;
            }
            None => self.received.extend_from_slice(bytes),
        }
        let mut at = 0;
        loop {
            let read = Reply::read(&self.received[at..]);
            let Some((reply, count)) = read.map_err(|fault| self.ended(&fault.to_string()))? else {
                break;
            };
            at += count;
            self.answer(reply)?;
        }
        self.received.drain(..at);
        if self.waiting.is_empty() && !self.received.is_empty() {
            return Err(self.ended(UNASKED));
        }
        Ok(())
    }

    fn answer(&mut self, reply: Reply) -> Result<(), Fault> {
        let asked = match (self.waiting.pop_front(), &reply) {
            (Some(asked), _) => asked,
            // One that takes no more clients, or not this one, says so before it is asked.
            (None, Reply::Error(error)) => return Err(Fault::answered(error)),
            (None, _) => return Err(self.ended(UNASKED)),
        };
        if let Some(tls) = &mut self.tls {
            tls.answered();
        }
        self.has_answered = true;
        match (asked.answer, reply) {
            // Who has asked may wait no longer.
            (Some(answer), reply) => drop(answer.send(Ok(reply))),
            (None, Reply::Error(error)) => return Err(Fault::answered(shown_of_login(&error))),
            (None, _) => {}
        }
        Ok(())
    }
}

/// An error that answers the login, as it may be shown: others than Redis' own may repeat what they
/// were sent, which is the password.
fn shown_of_login(error: &str) -> &str {
    let own = ["WRONGPASS", "NOAUTH", "NOPERM", "LOADING"];
    match error.split(' ').next() {
        Some(code) if own.contains(&code) => error,
        _ => "ERR the login (AUTH, SELECT) is refused",
    }
}

/// The longest text of the store: its errors are a line.
const TEXT_CHARACTERS_MAX: usize = 200;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Fault {
    pub(super) why: StoreFailure,
    pub(super) text: String,
    /// The operator's remedy; empty = nothing that would be known here.
    hint: &'static str,
}

impl Fault {
    pub(super) fn of(why: StoreFailure, text: impl Into<String>) -> Self {
        // What a server says may be of many lines, and of any length.
        let text = printable::line(&text.into()).to_string();
        let text: String = text.chars().take(TEXT_CHARACTERS_MAX).collect();
        let hint = match why {
            StoreFailure::Authentication => {
                "its user needs the password of `cluster.store`, the commands GET, GETDEL, SET \
                 and DEL, and names that begin with `prefix`"
            }
            StoreFailure::Full => {
                "give it more memory, or have it evict: maxmemory-policy volatile-ttl"
            }
            StoreFailure::Redirect => {
                "if it is a node of yours, list it in `nodes`, or its network in `networks` of \
                 `cluster.store`"
            }
            StoreFailure::Refused if text.starts_with("MOVED") => {
                "it belongs to a Redis Cluster: list some of its nodes in `nodes`"
            }
            StoreFailure::Refused if text.contains("unknown command") => {
                "GETDEL needs Redis 6.2 or newer, or Valkey"
            }
            _ => "",
        };
        Self { why, text, hint }
    }

    /// An error that the store answered with; what it says is short, and what operators look for.
    pub(super) fn answered(error: &str) -> Self {
        let why = match error.split(' ').next().unwrap_or_default() {
            "OOM" => StoreFailure::Full,
            "READONLY" | "MISCONF" | "NOREPLICAS" => StoreFailure::ReadOnly,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => StoreFailure::Authentication,
            // A server without a password.
            "ERR" if error.contains("AUTH") => StoreFailure::Authentication,
            "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" => StoreFailure::Unready,
            _ => StoreFailure::Refused,
        };
        Self::of(why, error)
    }

    /// There is no connection, or it has ended.
    pub(super) fn connection(text: impl Into<String>) -> Self {
        Self::of(StoreFailure::Connection, text)
    }

    /// The same with where it happened.
    pub(super) fn at(self, place: impl std::fmt::Display) -> Self {
        let text = format!("{place}: {}", self.text);
        Self { text, ..self }
    }

    /// The same with that remedy.
    pub(super) fn hinting(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn unless<T>(
        came: Result<Result<T, Self>, Elapsed>,
        time: Duration,
    ) -> Result<T, Self> {
        came.unwrap_or_else(|_| Err(Self::late(time)))
    }

    pub(super) fn late(time: Duration) -> Self {
        let text = format!("no answer within {} ms", time.as_millis());
        Self::of(StoreFailure::Timeout, text)
    }

    /// The operator's remedy, as a line of its own.
    pub(super) fn remedy(&self) -> String {
        match self.hint {
            "" => String::new(),
            hint => format!("\nhint: {hint}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_repeat_the_password_is_not_shown() {
        for own in ["WRONGPASS invalid username-password pair", "NOAUTH x", "LOADING x"] {
            assert_eq!(shown_of_login(own), own);
        }
        for other in ["ERR unknown command 'AUTH', with args 'secret'", "-secret", "secret", ""] {
            assert_eq!(shown_of_login(other), "ERR the login (AUTH, SELECT) is refused");
        }
    }

    #[test]
    fn what_a_store_says_is_one_short_line() {
        let fault = Fault::of(StoreFailure::Refused, "ERR a\nhint: b\u{1b}");
        assert_eq!(fault.text, r"ERR a\u000ahint: b\u001b");
        let fault = Fault::of(StoreFailure::Refused, "\n".repeat(1 << 20));
        assert_eq!(fault.text.len(), TEXT_CHARACTERS_MAX);
    }
}
