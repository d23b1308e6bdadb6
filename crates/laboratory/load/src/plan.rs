//! Defines the plan of a load: checked, complete, and free of contradictions.
//!
//! [`crate::options`] makes plans from settings; the engine trusts them. Opens nothing.

use std::net::IpAddr;
use std::time::Duration;

use wire::address::Address;
use wire::proxy_header::{Addresses, HeaderV2, write_v1};
use wire::starttls::Dialect;

use crate::ech::EchOption;

pub use measure::choice::{
    ClientSelection, ConnectionEnding, Group, Handshake, ProxyVersion, Signature, Spacing, Suite,
    Verify, Versions,
};

#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Server under load, and how to connect to it.
    pub target: PlannedTarget,
    /// Our own addresses, used in turn; empty lets the kernel choose.
    pub sources: Vec<IpAddr>,
    /// Version of a PROXY header to send first.
    pub proxy_header: Option<ProxyVersion>,
    /// TLS offer; `None` for plaintext.
    pub tls: Option<PlannedTls>,
    /// Requests on connections, each drawn by its weight; empty for handshakes alone.
    pub requests: Vec<PlannedRequest>,
    pub ending: ConnectionEnding,
    /// Clients: each has its own sessions, its own connection, and does one thing at a time.
    pub clients: Clients,
    pub arrival: ArrivalModel,
    /// Duration of the transactions before the figures begin.
    pub warm_up: Duration,
    /// Whether a closed load comes to rest after its warm-up, until
    /// [`crate::run::RunningLoad::go_on`]: what it begins after that has the server for itself from
    /// the first to the last. Open load has instants of its own and never rests.
    pub rests: bool,
    /// Whether the threads yield the CPU to others: the load is the background of a measured one.
    pub is_background: bool,
    /// How long transactions are begun, warm-up not included.
    pub duration: Duration,
    /// Maximum number of transactions, warm-up not included.
    pub count_max: Option<u64>,
    /// Time limit of a transaction from its beginning.
    pub timeout: Duration,
    /// Threads that make the load, and their CPUs.
    pub threads: Threads,
    /// Seed of random numbers; equal seeds give equal numbers.
    pub seed: u64,
}

impl LoadPlan {
    /// Reports whether the load pauses between warm-up and figures.
    pub(crate) fn has_rest(&self) -> bool {
        self.rests && matches!(self.arrival, ArrivalModel::Closed { .. })
    }

    /// Returns how many requests each arriving client makes; `None` if instants bring requests of
    /// free clients.
    pub(crate) fn requests_per_arrival(&self) -> Option<u32> {
        let ArrivalModel::Open { session_arrivals: true, .. } = self.arrival else {
            return None;
        };
        let Clients { requests_per_session, requests_per_connection, .. } = self.clients;
        Some(requests_per_session.or(requests_per_connection).unwrap_or(1))
    }
}

#[derive(Clone, Debug)]
pub struct PlannedTarget {
    pub url: String,
    /// Addresses of connections; at least one. Clients use them in turn.
    pub addresses: Vec<Address>,
    /// Whether each new connection of a client goes to the next address, with its session.
    pub moves_sessions: bool,
    pub authority: String,
}

impl PlannedTarget {
    /// Returns all addresses, as in flags.
    pub fn places(&self) -> String {
        let places: Vec<_> = self.addresses.iter().map(Address::to_string).collect();
        places.join(",")
    }
}

#[derive(Clone, Debug)]
pub struct PlannedTls {
    /// Protocol in which to request TLS first; `None` if TLS begins at once.
    pub starttls: Option<Dialect>,
    /// Client name to send to mail servers before the request for TLS.
    pub ehlo_name: String,
    /// Versions to offer if the kind of handshake does not determine them.
    pub versions: Versions,
    /// Handshakes that clients want, in turn: the first client wants the first, and so on. Never
    /// empty.
    pub handshakes: Vec<Handshake>,
    /// Suites to offer, in this order. At least one for each version offered.
    pub suites: Vec<Suite>,
    /// Groups to offer, in this order; the first has the key share. Never empty.
    pub groups: Vec<Group>,
    /// Signature schemes to offer, in this order. Never empty.
    pub signatures: Vec<Signature>,
    /// Application protocols to offer; empty for no such extension.
    pub alpn: Vec<Vec<u8>>,
    /// Name in SNI, and to check in a certificate; `None` for no SNI.
    pub server_name: Option<String>,
    /// Certificate to send if the server requests one.
    pub client_certificate: Option<OwnCertificate>,
    /// How to verify the server's certificate.
    pub verification: Verification,
    /// Whether TLS 1.2 tickets (RFC 5077) are offered and used.
    pub tickets: bool,
    /// Whether TLS 1.2 session IDs are kept and offered.
    pub session_ids: bool,
    /// Whether the request of a connection that resumes by PSK goes as early data.
    pub early_data: bool,
    /// Whether servers may compress their certificates (RFC 8879).
    pub certificate_compression: bool,
    /// How to encrypt the hello (RFC 9849); `None` if it is not encrypted.
    pub ech: Option<EchOption>,
}

pub fn proxy_header(version: ProxyVersion, addresses: Addresses<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    match version {
        ProxyVersion::V1 => write_v1(&addresses, &mut bytes),
        ProxyVersion::V2 => {
            let header = HeaderV2 { addresses, ..HeaderV2::default() };
            header.write(&mut bytes).expect("addresses alone are far below the limit");
        }
    }
    bytes
}

/// A certificate of ours with its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnCertificate {
    /// Chain as PEM, leaf first.
    pub chain_pem: Vec<u8>,
    pub key_pem: Vec<u8>,
}

/// How to verify the server's certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verification {
    /// Not at all: neither the issuer nor the possession of the key. The cheapest.
    Off,
    /// The certificate must be one of these (PEM), byte by byte; its key is not checked.
    These(Vec<u8>),
    /// The server must have the key of its certificate; its identity does not matter.
    Signature,
    /// The certificate must be issued by one of these (PEM), for the server name, and be in time.
    Authority(Vec<u8>),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlannedRequest {
    pub method: String,
    pub path: String,
    /// Further headers, without `Host`, `Connection` and `Content-Length`.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Weight relative to the other requests; at least 1.
    pub weight: u32,
}

/// Clients, and how often they make requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clients {
    /// Number of clients; at least one a thread. With session arrivals, the maximum at once.
    pub count: u32,
    /// Requests with one session: the first handshake of a session is full, the others resume it.
    /// `None` for as long as the server resumes it.
    pub requests_per_session: Option<u32>,
    /// Requests on one connection; `None` for as many as the server allows.
    pub requests_per_connection: Option<u32>,
    /// Rest of a client between two transactions.
    pub think: Duration,
    /// Order in which free clients are taken.
    pub selection: ClientSelection,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalModel {
    /// Each transaction that ends starts the next: a fixed number at once.
    Closed {
        /// Transactions in progress at any moment, over all threads.
        connections: u32,
    },
    /// Instants that do not depend on the server.
    Open {
        /// Stretches of time with their rates, in order; they fill the duration.
        stretches: Vec<Stretch>,
        spacing: Spacing,
        /// Whether each instant brings a new client without a session, instead of a request of a
        /// free client. The client's first request is due at that instant, each further one when
        /// the one before it has succeeded and the client has rested. Their number is that of the
        /// session or, if none is resumed, of the connection. A client whose request fails gives
        /// up. Rates stay those of requests.
        session_arrivals: bool,
    },
}

impl ArrivalModel {
    /// Returns the first rate of open load; 0 for closed load, which has none.
    pub fn first_per_s(&self) -> f64 {
        match self {
            Self::Open { stretches, .. } => stretches.first().map_or(0.0, |one| one.from_per_s),
            Self::Closed { .. } => 0.0,
        }
    }
}

/// A stretch of time in which the rate changes evenly from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    pub length: Duration,
    /// Transactions a second at its beginning.
    pub from_per_s: f64,
    /// Transactions a second at its end.
    pub to_per_s: f64,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Threads {
    pub count: u16,
    /// CPUs for the threads to be pinned to, in turn; empty for no pinning.
    pub cpus: Vec<u16>,
}
