//! Costs of session sharing, from what was measured of Lariat between programs and in virtual time
//! (docs/guide/scale-out.md, "What it costs"). Its protocol is not imported: the laboratory does
//! not know the terminator.

use crate::traffic::Sharing;

/// Bytes for a session that goes to one peer, in a datagram with others: 216 for one, 3240 for 15.
pub const BYTES_PER_PEER: f64 = 216.0;

/// Bytes for a session that goes to a store: the same sealed session and the command around it.
pub const BYTES_TO_STORE: f64 = 250.0;

/// CPU time of the host that made a session and sends it to peers, in µs (58 to 92).
const SEND_US: f64 = 80.0;

/// CPU time of each host that receives and keeps it, in µs (19 to 35).
const RECEIVE_US: f64 = 28.0;

/// CPU time for a session that goes to a store, in µs (61 to 78).
const STORE_US: f64 = 70.0;

/// Bytes of a session in the cache.
pub const CACHE_BYTES: f64 = 364.0;

/// As much as peers should fill of a host's network: 100 Mbit/s, a tenth of a slow card.
pub const MESH_BYTES_PER_S_MAX: f64 = 12.5e6;

/// New sessions per second that one core of a store takes (some 50 µs each).
pub const STORE_SESSIONS_PER_S_MAX: f64 = 20_000.0;

/// CPU time of a host per second, in seconds, for `made` new sessions per second of each of
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

/// Bytes per second that a host sends.
pub fn bytes_per_s(sharing: Sharing, hosts: u32, made: f64) -> f64 {
    match sharing {
        Sharing::Peers => made * BYTES_PER_PEER * f64::from(hosts.saturating_sub(1)),
        Sharing::Store => made * BYTES_TO_STORE,
        Sharing::Apart | Sharing::Tickets => 0.0,
    }
}
