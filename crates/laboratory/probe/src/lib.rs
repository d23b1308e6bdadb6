//! Probes TLS endpoints for versions, suites, certificates and resumption, and judges the findings.
//!
//! Handles the connections of a probe, the facts for expectations, and the judgement.
//! [`ProbeOptions`] says which addresses to probe and how. `load`'s client makes the handshakes,
//! and handwritten hellos ask the rest. Files, output and name resolution are the caller's task.
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
    /// Hosts without an address, with the reason.
    pub unresolved: Vec<(String, String)>,
    /// The name in SNI; `None` sends no SNI.
    pub server_name: Option<String>,
    /// Name or address that certificates should be for.
    pub expected_name: Option<String>,
    /// Version of a PROXY header to send first.
    pub proxy: Option<ProxyVersion>,
    /// Dialect of the request for TLS; `None` if TLS begins at once.
    pub starttls: Option<Dialect>,
    /// Client name to send to mail servers before the request for TLS.
    pub ehlo_name: String,
    /// Certificate to send if the server requests one.
    pub client_certificate: Option<OwnCertificate>,
    /// ECHConfigList to encrypt hellos with; `None` sends GREASE ECH alone.
    pub ech: Option<Vec<u8>>,
    /// Trusted roots as PEM; `None` leaves chains unchecked.
    pub roots_pem: Option<Vec<u8>>,
    /// Whether these roots are the system's rather than the user's own.
    pub roots_of_system: bool,
    /// Earlier probe of the same hosts.
    pub earlier: Option<ProbeReport>,
    /// Request to send for a reply; empty sends none.
    pub request: Vec<u8>,
    pub limits: WaitLimits,
    /// Number of times to offer a session at the same address.
    pub attempts: u32,
    /// Current time in seconds of Unix time.
    pub now_s: u64,
}

/// Limits of waiting.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WaitLimits {
    pub connection: Duration,
    /// Additional time if the server must be asked for TLS, because it may greet after a pause.
    pub greeting: Duration,
    pub address: Duration,
}

impl ProbeOptions {
    /// Returns the names for the dialogue before TLS.
    pub(crate) fn names(&self) -> HostNames<'_> {
        HostNames { own: &self.ehlo_name, server: self.server_name.as_deref() }
    }
}
