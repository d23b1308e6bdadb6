//! Describes the planned traffic (keys, groups, rates), and derives the costs of sharing sessions
//! among hosts.
//!
//! The costs come from measurements of Lariat between programs and in virtual time
//! (docs/guide/scale-out.md, "What it costs"). Its protocol is not imported, because the laboratory
//! does not depend on the terminator.

use measure::choice::Kind;

/// The key of a certificate, as far as its cost is concerned.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum PlannedKey {
    P256,
    P384,
    Ed25519,
    Rsa2048,
    Rsa3072,
    Rsa4096,
}

/// A key: its name in flags and files; its name in tables of speeds and in scenarios; and bytes to
/// the client in a full handshake of TLS 1.3 that shows a leaf and an intermediate of such keys, as
/// measured with P-256 and RSA 2048 (`docs/benchmarks.md`). For longer RSA two keys and three
/// signatures grow.
type PlannedKeyRow = (PlannedKey, &'static str, &'static str, f64);

/// Rows in the order of [`PlannedKey`].
const KEYS: [PlannedKeyRow; 6] = [
    (PlannedKey::P256, "ecdsa-p256", "P-256", 1793.0),
    (PlannedKey::P384, "ecdsa-p384", "P-384", 1793.0),
    (PlannedKey::Ed25519, "ed25519", "Ed25519", 1793.0),
    (PlannedKey::Rsa2048, "rsa-2048", "RSA 2048", 2773.0),
    (PlannedKey::Rsa3072, "rsa-3072", "RSA 3072", 2773.0 + 5.0 * 128.0),
    (PlannedKey::Rsa4096, "rsa-4096", "RSA 4096", 2773.0 + 5.0 * 256.0),
];

impl PlannedKey {
    /// Returns all keys, by their names in flags and files.
    pub fn named() -> [(&'static str, Self); 6] {
        KEYS.map(|(key, name, ..)| (name, key))
    }

    pub fn name(self) -> &'static str {
        KEYS[self as usize].1
    }

    /// Returns the name in tables of speeds and in the words of scenarios.
    pub fn title(self) -> &'static str {
        KEYS[self as usize].2
    }

    fn handshake_bytes(self) -> f64 {
        KEYS[self as usize].3
    }

    /// Finds a key by a signature's scheme; for RSA, by the first length that `words` names.
    pub fn of_signature(signature: Option<&str>, words: &str) -> Option<Self> {
        match signature? {
            "ecdsa_secp256r1_sha256" => Some(Self::P256),
            "ecdsa_secp384r1_sha384" => Some(Self::P384),
            "ed25519" => Some(Self::Ed25519),
            rsa if rsa.starts_with("rsa") => {
                let keys = [Self::Rsa2048, Self::Rsa3072, Self::Rsa4096];
                let places = keys.iter().filter_map(|key| Some((words.find(key.title())?, *key)));
                places.min_by_key(|(place, _)| *place).map(|(_, key)| key)
            }
            _ => None,
        }
    }
}

/// Groups by their names in handshakes, and in tables of speeds.
pub const GROUPS: [(&str, &str); 4] = [
    ("x25519mlkem768", "X25519MLKEM768"),
    ("x25519", "X25519"),
    ("secp256r1", "P-256"),
    ("secp384r1", "P-384"),
];

/// How hosts know sessions that other hosts made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// Each host knows only its own sessions.
    Apart,
    /// Hosts send each other every new session.
    Peers,
    /// A store outside of the hosts keeps sessions.
    Store,
    /// Tickets under keys that all hosts have.
    Tickets,
}

impl Sharing {
    pub const NAMED: [(&str, Self); 4] = [
        ("none", Self::Apart),
        ("peers", Self::Peers),
        ("store", Self::Store),
        ("tickets", Self::Tickets),
    ];

    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, sharing)| *sharing == self).map_or("", |(name, _)| name)
    }
}

/// The question, each value checked.
#[derive(Clone, Debug)]
pub struct TrafficForecast {
    pub requests_per_s: f64,
    pub requests_per_connection: f64,
    /// Share of connections that resume if every session is known everywhere, 0 to 1.
    pub resumed_share: f64,
    pub lifetime_s: f64,
    pub is_tls13: bool,
    pub key: PlannedKey,
    /// Group as handshakes name it, in lower case.
    pub group: String,
    pub body_bytes: u64,
    pub clients: f64,
    /// How long a connection stays open.
    pub connection_s: f64,
    pub p99_s: f64,
    /// Number of hosts that may fail at once.
    pub lose: u32,
    pub sharing: Sharing,
    pub cores: u32,
    pub memory_bytes: u64,
    pub files: u64,
    /// Limit of a worker's busy share on the worst day, 0 to 1.
    pub busy_max: f64,
    pub round_trip_s: f64,
    pub seed: u64,
}

/// Bytes to the client in a resumption, and how many fewer a full handshake of TLS 1.2 has:
/// `lariat-lab load --no-request --handshake psk` (`ticket`, `full`) counted them.
const RESUMED_TLS13_BYTES: f64 = 453.0;
const RESUMED_TLS12_BYTES: f64 = 363.0;
const TLS12_LESS_BYTES: f64 = 236.0;

impl TrafficForecast {
    pub fn connections_per_s(&self) -> f64 {
        self.requests_per_s / self.requests_per_connection
    }

    /// Returns the bytes that all hosts send to clients: bodies and handshakes, without headers of
    /// replies, which are unknown, and of packets.
    pub fn sent_bytes_per_s(&self) -> f64 {
        let full = self.key.handshake_bytes();
        let (full, resumed) = if self.is_tls13 {
            (full, RESUMED_TLS13_BYTES)
        } else {
            (full - TLS12_LESS_BYTES, RESUMED_TLS12_BYTES)
        };
        let handshake = full * (1.0 - self.resumed_share) + resumed * self.resumed_share;
        self.requests_per_s * self.body_bytes as f64 + self.connections_per_s() * handshake
    }

    /// Returns the kind of a resumption.
    pub fn resumption(&self) -> Kind {
        match (self.is_tls13, self.sharing) {
            (true, _) => Kind::Psk,
            (false, Sharing::Tickets) => Kind::Ticket,
            (false, _) => Kind::SessionId,
        }
    }

    /// Returns the greatest share of connections that could resume, clients returning at random.
    ///
    /// With TLS 1.3 each connection brings a new session: a client resumes if it returns within the
    /// lifetime. With TLS 1.2 a session ends its lifetime after the full handshake, so that one
    /// full handshake comes before as many resumptions as fall within it (renewal theory).
    pub fn resumed_most(&self) -> f64 {
        let returns = self.connections_per_s() / self.clients * self.lifetime_s;
        if self.is_tls13 { 1.0 - (-returns).exp() } else { returns / (1.0 + returns) }
    }

    /// Returns the distinct clients that return within a lifetime: the sessions worth keeping. Che,
    /// Tung and Wang, "Hierarchical Web caching systems", IEEE JSAC 20 (2002), for equal clients.
    pub fn sessions_alive(&self) -> f64 {
        let returns = self.connections_per_s() / self.clients * self.lifetime_s;
        self.clients * (1.0 - (-returns).exp())
    }
}

/// Bytes of a session to one peer, in a datagram with others: 216 for one, 3240 for 15.
pub const BYTES_PER_PEER: f64 = 216.0;

/// Bytes for a session that is sent to a store: the same sealed session and the command around it.
pub const BYTES_TO_STORE: f64 = 250.0;

/// CPU time of the host that made a session and sends it to peers, in µs (58 to 92).
const SEND_US: f64 = 80.0;

/// CPU time of each host that receives and keeps it, in µs (19 to 35).
const RECEIVE_US: f64 = 28.0;

/// CPU time for a session that is sent to a store, in µs (61 to 78).
const STORE_US: f64 = 70.0;

/// Bytes of a session in the cache.
pub const CACHE_BYTES: f64 = 364.0;

/// Limit of peers' traffic on a host's network: 100 Mbit/s, a tenth of a slow card.
pub const MESH_BYTES_PER_S_MAX: f64 = 12.5e6;

/// New sessions per second that one core of a store takes (some 50 µs each).
pub const STORE_SESSIONS_PER_S_MAX: f64 = 20_000.0;

/// Returns the CPU seconds per second of a host, for `made` new sessions per second on each of
/// `hosts`.
pub fn cpu_share(sharing: Sharing, hosts: u32, made: f64) -> f64 {
    let others = f64::from(hosts.saturating_sub(1));
    let us = match sharing {
        Sharing::Peers if hosts > 1 => made * (SEND_US + others * RECEIVE_US),
        Sharing::Store => made * STORE_US,
        _ => 0.0,
    };
    us / 1e6
}

/// Returns the bytes per second that a host sends.
pub fn bytes_per_s(sharing: Sharing, hosts: u32, made: f64) -> f64 {
    match sharing {
        Sharing::Peers => made * BYTES_PER_PEER * f64::from(hosts.saturating_sub(1)),
        Sharing::Store => made * BYTES_TO_STORE,
        Sharing::Apart | Sharing::Tickets => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rsa_key_is_as_long_as_the_nearest_words_say() {
        let of = PlannedKey::of_signature;
        let words = "TLS 1.2, RSA 2048, session ids. RSA 4096 elsewhere";
        assert_eq!(of(Some("rsa_pss_rsae_sha256"), words), Some(PlannedKey::Rsa2048));
        assert_eq!(of(Some("rsa_pss_rsae_sha256"), "no key"), None);
        assert_eq!(of(Some("ecdsa_secp256r1_sha256"), ""), Some(PlannedKey::P256));
        assert_eq!(of(None, words), None);
    }
}
