//! Defines a transaction: the connection opened for it (the dial, a PROXY header, and the client's
//! TLS offer), the expectations during its progress, and its outcome.
//!
//! Handles a thread's TLS configurations and the sessions of its clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use measure::choice::Kind;
use rustls::SignatureScheme;
use sys::epoll::Interest;
use sys::socket::{BindSource, PeerAddress};
use wire::address::Address;
use wire::proxy_header::Addresses;
use wire::starttls::HostNames;

use crate::channel::ClientChannel;
use crate::client_pool::ClientPool;
use crate::connection::{ClientConnection, LoadStage, dial_failure};
use crate::ech;
use crate::failure::TransactionFailure;
use crate::plan::{Handshake, LoadPlan, proxy_header};
use crate::scheduler::ThreadContext;
use crate::tally::{Negotiated, TransactionTiming};
use crate::tls::{Configurations, TlsFault};

#[derive(Debug)]
pub(crate) struct Transaction {
    /// Planned instant, from which durations count.
    pub(crate) due: Instant,
    /// Index of the request in the plan; 0 without requests.
    pub(crate) request: usize,
    /// Whether to send the request with the hello.
    pub(crate) sends_early: bool,
    /// Whether a session must be resumed.
    must_resume: bool,
    offers: bool,
    kind: Kind,
    fault: Option<TransactionFailure>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TransactionVerdict {
    Success(TransactionTiming),
    Failure(TransactionFailure),
}

impl Transaction {
    pub(crate) fn new(
        (due, request): (Instant, usize),
        must_resume: bool,
        offers: bool,
        sends_early: bool,
    ) -> Self {
        Self { due, request, sends_early, must_resume, offers, kind: Kind::Full, fault: None }
    }

    pub(crate) fn plain(work: (Instant, usize)) -> Self {
        Self { kind: Kind::Plain, ..Self::new(work, false, false, false) }
    }

    /// Makes a transaction on an existing connection, with or without TLS.
    pub(crate) fn kept(work: (Instant, usize), has_tls: bool) -> Self {
        Self {
            kind: if has_tls { Kind::Kept } else { Kind::Plain },
            ..Self::new(work, false, false, false)
        }
    }

    /// Records that the connection is open, and the result of the handshake, if any.
    pub(crate) fn opened(
        &mut self,
        connection: &ClientConnection,
        signature: Option<SignatureScheme>,
    ) -> Option<Negotiated> {
        let channel = &connection.channel;
        let (session, shaken) = (channel.session()?, channel.shaken()?);
        self.kind = kind(shaken.as_kind);
        let early_data_accepted = connection.early_data_accepted();
        self.fault = self.fault(early_data_accepted);
        Some(Negotiated {
            kind: self.kind,
            version: session.protocol_version(),
            suite: session.negotiated_cipher_suite().map(|suite| suite.suite()),
            group: session.negotiated_key_exchange_group().map(|group| group.name()),
            signature: signature.filter(|_| self.kind == Kind::Full),
            alpn: session.alpn_protocol().map(<[u8]>::to_vec),
            retried: shaken.retried,
            early_data_accepted,
            ech: ech::outcome(session.ech_status()),
        })
    }

    /// Returns the fault of the handshake, by the plan.
    fn fault(&self, early_data_accepted: Option<bool>) -> Option<TransactionFailure> {
        match (self.must_resume, self.offers, self.kind.is_resumption()) {
            (true, false, _) => Some(TransactionFailure::ResumptionNotOffered),
            (true, true, false) => Some(TransactionFailure::ResumptionDeclined),
            _ if self.sends_early && early_data_accepted != Some(true) => {
                Some(TransactionFailure::EarlyDataRejected)
            }
            _ => None,
        }
    }

    /// Returns the outcome after the work is done; `asked` if a reply was expected.
    pub(crate) fn verdict(&self, connection: &ClientConnection, asked: bool) -> TransactionVerdict {
        if let Some(fault) = self.fault {
            return TransactionVerdict::Failure(fault);
        }
        let status = connection.reply.status;
        if asked && !(200..400).contains(&status) {
            return TransactionVerdict::Failure(TransactionFailure::Status(status));
        }
        let marks = &connection.marks;
        let since_due = |at: Instant| at.saturating_duration_since(self.due);
        TransactionVerdict::Success(TransactionTiming {
            kind: self.kind,
            handshake: self.handshake_duration(connection),
            first_byte: marks.first_byte.filter(|_| asked).map(since_due),
            total: match (asked, marks.open) {
                (false, Some(open)) => since_due(open),
                _ => since_due(Instant::now()),
            },
        })
    }

    fn handshake_duration(&self, connection: &ClientConnection) -> Option<Duration> {
        let (hello, open) = (connection.marks.hello?, connection.marks.open?);
        self.kind.is_handshake().then(|| open - hello)
    }
}

fn kind(shaken: Handshake) -> Kind {
    match shaken {
        // An offer is never `Any`.
        Handshake::Full | Handshake::Any => Kind::Full,
        Handshake::SessionId => Kind::SessionId,
        Handshake::Ticket => Kind::Ticket,
        Handshake::Psk => Kind::Psk,
    }
}

/// Number instead of a client's on connections without one.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A connection and its user.
pub(crate) struct ConnectionSlot {
    pub(crate) connection: ClientConnection,
    /// Client that uses the connection; [`NOBODY`] after it has left.
    pub(crate) client: u32,
    pub(crate) serial: u32,
    pub(crate) transaction: Option<Transaction>,
    /// Whether the client waits for the connection.
    pub(crate) holds_client: bool,
    /// When the connection is given up; `None` if it is idle.
    pub(crate) deadline: Option<Instant>,
    /// Whether the socket reports room.
    pub(crate) watches_room: bool,
    /// Scheme of the server's signature, once it has signed.
    pub(crate) signature: Option<SignatureScheme>,
}

impl ConnectionSlot {
    /// Makes the slot of a connection that a client has begun to open, with its transaction.
    pub(crate) fn new(
        connection: ClientConnection,
        client: u32,
        serial: u32,
        transaction: Transaction,
    ) -> Self {
        Self {
            watches_room: connection.stage == LoadStage::Dialling,
            connection,
            client,
            serial,
            transaction: Some(transaction),
            holds_client: true,
            deadline: None,
            signature: None,
        }
    }

    /// Reports whether the connection is established, and nobody waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        !self.holds_client && self.connection.stage != LoadStage::Closing
    }
}

/// Returns the events of a socket: readable, and, if requested, writable.
pub(crate) fn interest(watches_room: bool) -> Interest {
    if watches_room {
        Interest::READ | Interest::WRITE | Interest::EDGE
    } else {
        Interest::READ | Interest::EDGE
    }
}

/// Makes a token of a key and the serial number of its connection.
pub(crate) fn token(key: usize, serial: u32) -> u64 {
    (u64::from(serial) << 32) | key as u64
}

/// Returns the key and the serial number of a token.
pub(crate) fn parts(token: u64) -> (usize, u32) {
    ((token & u64::from(u32::MAX)) as usize, (token >> 32) as u32)
}

pub(crate) struct Dialler {
    plan: Arc<LoadPlan>,
    tls: Option<Configurations>,
    /// Index of our last used address.
    source: usize,
    /// Index of each client's address among the server's.
    places: Vec<usize>,
}

impl Dialler {
    /// Makes a dialler for this number of clients.
    ///
    /// # Errors
    /// Fails with [`TlsFault`].
    pub(crate) fn new(
        plan: &Arc<LoadPlan>,
        context: &ThreadContext,
        clients: usize,
    ) -> Result<Self, TlsFault> {
        let tls = match &plan.tls {
            Some(tls) => Some(Configurations::new(tls, clients)?),
            None => None,
        };
        Ok(Self {
            plan: Arc::clone(plan),
            tls,
            // Threads begin with different addresses.
            source: usize::from(context.index),
            places: (0..clients).collect(),
        })
    }

    /// Makes TLS's callbacks from now on concern this client.
    #[inline]
    pub(crate) fn turn_to(&self, client: u32) {
        if let Some(tls) = &self.tls {
            tls.sessions.turn_to(client as usize);
        }
    }

    /// Returns the scheme of the server's signature since the last call, if any.
    #[inline]
    pub(crate) fn take_signature(&self) -> Option<SignatureScheme> {
        self.tls.as_ref()?.presented.take_scheme()
    }

    /// Reports whether a connection's proper end may still bring the session that its client needs.
    pub(crate) fn awaits_session(&self, client_pool: &ClientPool, client: u32) -> bool {
        let needs = client_pool.client(client).wants != Handshake::Full;
        let has = |tls: &Configurations| tls.sessions.has_any(client as usize);
        needs && self.tls.as_ref().is_some_and(|tls| !has(tls))
    }

    /// Handles a failed connection. A TLS 1.3 session is offered once (RFC 8446, appendix C.4): if
    /// it went with the connection, the server owes no other, and the client begins anew.
    pub(crate) fn begin_anew_if_bereft(&self, client_pool: &mut ClientPool, client: u32) {
        let has = |tls: &Configurations| tls.sessions.has_any(client as usize);
        if !self.tls.as_ref().is_some_and(has) {
            client_pool.begin_anew(client);
        }
    }

    /// Opens a connection for a client, and returns it with its expectations. `work` is the planned
    /// instant and the index of the request.
    ///
    /// # Errors
    /// Fails with the reason why no connection could be made.
    pub(crate) fn dial(
        &mut self,
        client_pool: &ClientPool,
        client: u32,
        work: (Instant, usize),
    ) -> Result<(ClientConnection, Transaction), TransactionFailure> {
        let source = self.next_source();
        let address = self.next_address(client);
        let from = source.map_or(BindSource::Any, BindSource::Own);
        let dialled = sys::socket::connect_as(from, &address, false);
        let (fd, is_connected) = dialled.map_err(|error| dial_failure(&error))?;
        let preface = self.preface(&fd, source, &address);
        let (channel, transaction) = self.channel(client_pool, client, work, preface)?;
        Ok((ClientConnection::new(fd, is_connected, channel), transaction))
    }

    fn next_source(&mut self) -> Option<IpAddr> {
        self.source += 1;
        let sources = &self.plan.sources;
        sources.get(self.source % sources.len().max(1)).copied()
    }

    fn next_address(&mut self, client: u32) -> Address {
        let target = &self.plan.target;
        let place = &mut self.places[client as usize];
        let address = target.addresses[*place % target.addresses.len()].clone();
        *place += usize::from(target.moves_sessions);
        address
    }

    /// Returns the index of the address of a client's last connection.
    pub(crate) fn address_of(&self, client: u32) -> usize {
        let target = &self.plan.target;
        let next = self.places[client as usize];
        (next - usize::from(target.moves_sessions)) % target.addresses.len()
    }

    fn preface(&self, fd: &impl AsFd, source: Option<IpAddr>, target: &Address) -> Vec<u8> {
        let version = self.plan.proxy_header;
        version.map(|it| proxy_header(it, ends(fd, source, target))).unwrap_or_default()
    }

    /// Makes the channel of a client's next connection, with its expectations.
    fn channel(
        &self,
        client_pool: &ClientPool,
        client: u32,
        work: (Instant, usize),
        preface: Vec<u8>,
    ) -> Result<(ClientChannel, Transaction), TransactionFailure> {
        let (Some(tls), Some(planned)) = (&self.tls, &self.plan.tls) else {
            return Ok((ClientChannel::plain(preface), Transaction::plain(work)));
        };
        let preface_bytes = preface.len();
        let (index, wants) = (client as usize, client_pool.client(client).wants);
        if client_pool.begins_session(client) {
            tls.sessions.forget(index);
        }
        tls.sessions.turn_to(index);
        let resumes = wants != Handshake::Full && !client_pool.begins_session(client);
        let make = |preface, reads_offer| {
            ClientChannel::tls(tls.of(wants), tls.name.clone(), preface, reads_offer)
                .map_err(|_| TransactionFailure::Incompatible)
        };
        let mut channel = make(preface.clone(), resumes && tls.sessions.has_any(index))?;
        if !self.is_welcome(wants, channel.offered) {
            // A session of another kind, which the plan does not want.
            tls.sessions.forget(index);
            channel = make(preface, false)?;
        }
        if let Some(dialect) = planned.starttls {
            let names =
                HostNames { own: &planned.ehlo_name, server: planned.server_name.as_deref() };
            channel.ask_for_tls(dialect, names, preface_bytes)?;
        }
        let offers = channel.offered != Handshake::Full;
        let sends_early = channel.offered == Handshake::Psk && planned.early_data;
        // A client that accepts any handshake has not failed with a full one.
        let must_resume = resumes && wants != Handshake::Any;
        Ok((channel, Transaction::new(work, must_resume, offers, sends_early)))
    }

    /// Reports whether the plan allows a hello to offer this.
    fn is_welcome(&self, wants: Handshake, offered: Handshake) -> bool {
        match (wants, offered) {
            (_, Handshake::Full) => true,
            (Handshake::Any, Handshake::SessionId) => {
                self.plan.tls.as_ref().is_some_and(|tls| tls.session_ids)
            }
            (Handshake::Any, _) => true,
            (wants, offered) => wants == offered,
        }
    }
}

/// Returns both ends of a connection for a PROXY header. A Unix socket has none.
fn ends(fd: &impl AsFd, source: Option<IpAddr>, target: &Address) -> Addresses<'static> {
    let unknown = SocketAddr::from((source.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), 0));
    let source = match sys::socket::local_address(fd) {
        Ok(PeerAddress::Ip(address)) => address,
        _ => unknown,
    };
    match target {
        Address::Ip(destination) => Addresses::tcp(source, *destination),
        Address::Unix(_) | Address::Inherited(_) => Addresses::Unknown,
    }
}
