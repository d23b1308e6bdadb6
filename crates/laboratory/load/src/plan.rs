//! The plan of a load: checked, complete, and free of contradictions.
//!
//! [`crate::options`] makes plans from settings; the engine believes them. Opens nothing.

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
    /// The server, and what to ask it for.
    pub target: PlannedTarget,
    /// Our own addresses, taken in turn; none = the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// A PROXY header before anything else.
    pub proxy_header: Option<ProxyVersion>,
    /// How TLS is spoken; `None` = it is not.
    pub tls: Option<PlannedTls>,
    /// The requests on connections, one drawn by its weight for each; none = the handshake is all.
    pub requests: Vec<PlannedRequest>,
    pub ending: ConnectionEnding,
    /// The clients: each has its own sessions, its own connection, and does one thing at a time.
    pub clients: Clients,
    pub arrival: ArrivalModel,
    /// Transactions before the figures begin, for this long.
    pub warm_up: Duration,
    /// Whether a closed load comes to rest after its warm-up, until [`crate::run::RunningLoad::go_on`]:
    /// what it begins after that has the server for itself from the first to the last. Open load
    /// has instants of its own and never rests.
    pub rests: bool,
    /// Whether its threads let others have the CPU first: it stands in the background of a load
    /// that is measured.
    pub is_background: bool,
    /// For how long transactions are begun, warm-up not included.
    pub duration: Duration,
    /// At most this number of transactions, warm-up not included.
    pub count_max: Option<u64>,
    /// A transaction may take this long from when it began; then it has failed.
    pub timeout: Duration,
    /// Threads that make the load, and where they run.
    pub threads: Threads,
    /// Chance repeats itself with the same number.
    pub seed: u64,
}

impl LoadPlan {
    /// Whether it rests between warm-up and figures.
    pub(crate) fn has_rest(&self) -> bool {
        self.rests && matches!(self.arrival, ArrivalModel::Closed { .. })
    }

    /// How many requests each arriving client makes; `None` = instants bring requests of free
    /// clients.
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
    /// Addresses of connections; at least one. Clients have them in turn.
    pub addresses: Vec<Address>,
    /// Whether each new connection of a client goes to the next address, with its session.
    pub moves_sessions: bool,
    pub authority: String,
}

impl PlannedTarget {
    /// All addresses, as flags name them.
    pub fn places(&self) -> String {
        let places: Vec<_> = self.addresses.iter().map(Address::to_string).collect();
        places.join(",")
    }
}

#[derive(Clone, Debug)]
pub struct PlannedTls {
    /// The protocol in which the server is asked for TLS first; `None` = TLS begins at once.
    pub starttls: Option<Dialect>,
    /// The name that servers of mail are told before they are asked.
    pub ehlo_name: String,
    /// The versions that are offered where the kind of handshake does not say it.
    pub versions: Versions,
    /// Handshakes that clients want, in turn: the first client wants the first, and so on. Never
    /// empty.
    pub handshakes: Vec<Handshake>,
    /// Suites that are offered, in this order. At least one for each version offered.
    pub suites: Vec<Suite>,
    /// Groups that are offered, in this order; the first has the key share. Never empty.
    pub groups: Vec<Group>,
    /// Signature schemes that are offered, in this order. Never empty.
    pub signatures: Vec<Signature>,
    /// Application protocols that are offered; none = no such extension.
    pub alpn: Vec<Vec<u8>>,
    /// The name in SNI, and the one that a certificate is checked for; `None` = no SNI.
    pub server_name: Option<String>,
    /// The certificate that is sent if the server asks for one.
    pub client_certificate: Option<OwnCertificate>,
    /// How the server's certificate is judged.
    pub verification: Verification,
    /// Whether TLS 1.2 tickets (RFC 5077) are offered and used.
    pub tickets: bool,
    /// Whether TLS 1.2 session ids are kept and offered.
    pub session_ids: bool,
    /// Whether the request of a connection that resumes by PSK goes as early data.
    pub early_data: bool,
    /// Whether servers may compress their certificates (RFC 8879).
    pub certificate_compression: bool,
    /// How the hello is encrypted (RFC 9849); `None` = it is not.
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
    /// The chain as PEM, leaf first.
    pub chain_pem: Vec<u8>,
    pub key_pem: Vec<u8>,
}

/// How the server's certificate is judged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verification {
    /// Not at all: neither who signed it nor whether the server has its key. The cheapest.
    Off,
    /// It must be one of these (PEM), byte by byte; whether the server has its key does not matter.
    These(Vec<u8>),
    /// The server must have the key of its certificate; who it is does not matter.
    Signature,
    /// It must be issued by one of these (PEM), for the server name, and be in time.
    Authority(Vec<u8>),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlannedRequest {
    pub method: String,
    pub path: String,
    /// Further headers, without `Host`, `Connection` and `Content-Length`.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The share of all requests, relative to the others'; at least 1.
    pub weight: u32,
}

/// The clients, and how often they make requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clients {
    /// How many there are; at least one a thread. With session arrivals, how many there can be
    /// at once.
    pub count: u32,
    /// Requests with one session: the first handshake of a session is full, the others resume it.
    /// `None` = as long as the server resumes it.
    pub requests_per_session: Option<u32>,
    /// Requests on one connection; `None` = as many as the server allows.
    pub requests_per_connection: Option<u32>,
    /// How long a client rests between two transactions.
    pub think: Duration,
    /// The order in which free clients are taken.
    pub selection: ClientSelection,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalModel {
    /// When one is done, the next begins: a fixed number at once.
    Closed {
        /// Transactions under way at any moment, over all threads.
        connections: u32,
    },
    /// At instants that do not depend on the server.
    Open {
        /// Stretches of time with their rates, one after the other; they fill the duration.
        stretches: Vec<Stretch>,
        spacing: Spacing,
        /// Whether each instant brings a new client without a session, in place of a request of a
        /// free client. Its first request is due at that instant, each other one when the one
        /// before it has succeeded and the client has rested. They are as many as the session may
        /// have or, where none is resumed, the connection. A client whose request fails gives up.
        /// Rates stay those of requests.
        session_arrivals: bool,
    },
}

impl ArrivalModel {
    /// The rate that open load begins with; 0 of closed load, which has none.
    pub fn first_per_s(&self) -> f64 {
        match self {
            Self::Open { stretches, .. } => stretches.first().map_or(0.0, |one| one.from_per_s),
            Self::Closed { .. } => 0.0,
        }
    }
}

/// A stretch of time in which the rate goes evenly from one value to another.
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
    /// The CPUs that they are pinned to, in turn; none = not pinned.
    pub cpus: Vec<u16>,
}
