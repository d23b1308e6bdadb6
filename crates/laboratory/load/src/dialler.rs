//! Opens connections: the dial, a PROXY header, and TLS that offers what the client should offer.
//!
//! Owns a thread's TLS configurations and the sessions of its clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use rustls::SignatureScheme;
use sys::socket::{PeerAddress, Source};
use wire::address::Address;
use wire::proxy_header::Addresses;
use wire::starttls::HostNames;

use crate::channel::ClientChannel;
use crate::client_pool::ClientPool;
use crate::connection::{ClientConnection, dial_failure};
use crate::failure::TransactionFailure;
use crate::plan::{Handshake, LoadPlan, proxy_header};
use crate::scheduler::ThreadContext;
use crate::tls::{Configurations, TlsFault};
use crate::transaction::Transaction;

pub(crate) struct Dialler {
    plan: Arc<LoadPlan>,
    tls: Option<Configurations>,
    /// The last of our addresses that was used.
    source: usize,
    /// By client, the place of its address among the server's.
    places: Vec<usize>,
}

impl Dialler {
    /// For this number of clients.
    ///
    /// # Errors
    /// [`TlsFault`].
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

    /// How the server signed, if it has since the last call.
    #[inline]
    pub(crate) fn take_signature(&self) -> Option<SignatureScheme> {
        self.tls.as_ref()?.presented.take_scheme()
    }

    /// Whether a connection's proper end may still bring the session that its client needs.
    pub(crate) fn awaits_session(&self, client_pool: &ClientPool, client: u32) -> bool {
        let needs = client_pool.client(client).wants != Handshake::Full;
        let has = |tls: &Configurations| tls.sessions.has_any(client as usize);
        needs && self.tls.as_ref().is_some_and(|tls| !has(tls))
    }

    /// A client's connection has failed. A TLS 1.3 session is offered once (RFC 8446, appendix
    /// C.4): if it went with the connection, the server owes no other, and the client begins anew.
    pub(crate) fn begin_anew_if_bereft(&self, client_pool: &mut ClientPool, client: u32) {
        let has = |tls: &Configurations| tls.sessions.has_any(client as usize);
        if !self.tls.as_ref().is_some_and(has) {
            client_pool.begin_anew(client);
        }
    }

    /// A connection for a client, and what is expected of it. `work` is the planned instant and the
    /// place of the request.
    ///
    /// # Errors
    /// The reason why no connection could be made.
    pub(crate) fn dial(
        &mut self,
        client_pool: &ClientPool,
        client: u32,
        work: (Instant, usize),
    ) -> Result<(ClientConnection, Transaction), TransactionFailure> {
        let source = self.next_source();
        let address = self.next_address(client);
        let from = source.map_or(Source::Any, Source::Own);
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

    /// The place of the address that a client's last connection went to.
    pub(crate) fn address_of(&self, client: u32) -> usize {
        let target = &self.plan.target;
        let next = self.places[client as usize];
        (next - usize::from(target.moves_sessions)) % target.addresses.len()
    }

    fn preface(&self, fd: &impl AsFd, source: Option<IpAddr>, target: &Address) -> Vec<u8> {
        let version = self.plan.proxy_header;
        version.map(|it| proxy_header(it, ends(fd, source, target))).unwrap_or_default()
    }

    /// The bytes' way for a client's next connection, and what is expected of it.
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
        if !self.is_welcome(wants, channel.offered()) {
            // The server gave a session of another kind: it is not what the plan is about.
            tls.sessions.forget(index);
            channel = make(preface, false)?;
        }
        if let Some(dialect) = planned.starttls {
            let names =
                HostNames { own: &planned.ehlo_name, server: planned.server_name.as_deref() };
            channel.ask_for_tls(dialect, names, preface_bytes)?;
        }
        let offers = channel.offered() != Handshake::Full;
        let sends_early = channel.offered() == Handshake::Psk && planned.early_data;
        // Who takes what there is has not failed with a full handshake.
        let must_resume = resumes && wants != Handshake::Any;
        Ok((channel, Transaction::new(work, must_resume, offers, sends_early)))
    }

    /// Whether a hello may offer this, by the plan.
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

/// Both ends of a connection, as a PROXY header tells them. A Unix socket has none.
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
