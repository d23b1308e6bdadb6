//! Probes of TLS endpoints: versions, suites, certificates, resumption; and whether that is good.
//!
//! Owns the connections of a probe, the facts by which expectations are written, and the
//! judgement. [`ProbeOptions`] say what is probed and what is said there. Handshakes are made by
//! `load`'s client, or are hellos by hand whose answers are read. It reads no file, prints nothing,
//! and resolves no name.
#![forbid(unsafe_code)]

mod certificate;
pub mod expect;
pub mod facts;
mod hello;
mod judge;
mod node;
mod offers;
mod openssl;
pub mod points;
mod reach;
mod registry;
mod resumption;
pub mod run;

use std::net::SocketAddr;
use std::time::Duration;

use load::plan::{OwnCertificate, ProxyVersion};
use measure::probe::ProbeReport;
use wire::starttls::{Dialect, HostNames};

#[derive(Clone, Debug, Default)]
pub struct ProbeOptions {
    pub hosts: Vec<String>,
    pub addresses: Vec<SocketAddr>,
    /// Hosts that have no address, with the reason.
    pub unresolved: Vec<(String, String)>,
    /// The name in SNI; `None` = no SNI.
    pub server_name: Option<String>,
    /// The name or address that certificates should be for.
    pub expected_name: Option<String>,
    /// A PROXY header before anything else.
    pub proxy: Option<ProxyVersion>,
    /// The dialect in which TLS is asked for; `None` = TLS begins at once.
    pub starttls: Option<Dialect>,
    /// The name that servers of mail are told before they are asked.
    pub ehlo_name: String,
    /// Sent if the server asks for it.
    pub client_certificate: Option<OwnCertificate>,
    /// An ECHConfigList, by which hellos are encrypted; `None` = ECH is asked for by GREASE alone.
    pub ech: Option<Vec<u8>>,
    /// Trusted roots as PEM; `None` = chains are not checked.
    pub roots_pem: Option<Vec<u8>>,
    /// Whether these are the system's, and not somebody's own.
    pub roots_of_system: bool,
    /// An earlier probe of the same hosts.
    pub earlier: Option<ProbeReport>,
    /// The request that gets a reply; empty = none.
    pub request: Vec<u8>,
    pub limits: WaitLimits,
    /// How often a session is offered at the same address.
    pub attempts: u32,
    /// Now, in seconds of Unix time.
    pub now_s: u64,
}

/// How long is waited at the most.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WaitLimits {
    pub connection: Duration,
    /// In addition where TLS is asked for, and servers may greet after a pause.
    pub greeting: Duration,
    pub address: Duration,
}

impl ProbeOptions {
    /// The names that a dialog before TLS tells.
    pub(crate) fn names(&self) -> HostNames<'_> {
        HostNames { own: &self.ehlo_name, server: self.server_name.as_deref() }
    }
}
