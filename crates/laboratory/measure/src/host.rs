//! Findings of `lariat-lab host` about a host, as far as TLS depends on it.

use serde::{Deserialize, Serialize};

use crate::record::Host;

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostReport {
    pub host: Host,
    /// Features of the CPU that matter here, in the order of the table.
    pub features: Vec<Feature>,
    /// CPUs that we may use, in their order.
    pub cores: Vec<Core>,
    /// Mitigations of the CPU's faults, in the kernel's words.
    pub mitigations: Vec<HostFact>,
    /// Other things that figures depend on: clocks, frequencies, memory nodes, containers and their
    /// quotas.
    pub surroundings: Vec<HostFact>,
    /// Limits of this process and of the kernel that load runs into.
    pub limits: Vec<HostFact>,
    /// Network cards and their queues, without loopback.
    pub networks: Vec<HostFact>,
    pub abilities: Vec<Ability>,
    /// How fast keys and ciphers are, by library.
    pub speeds: Vec<Speed>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    pub name: String,
    pub is_there: bool,
    pub use_for: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    pub cpu: u16,
    /// The physical core; CPUs of the same share its units.
    pub core: u32,
    pub package: u32,
    pub node: u32,
    /// The last-level cache; CPUs with the same number share it.
    pub cache: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostFact {
    pub name: String,
    pub value: String,
    /// The remedy, where something should be done.
    pub remedy: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ability {
    pub name: String,
    pub is_there: bool,
    /// How that was found out, or why it cannot.
    pub why: String,
    /// The remedy, where something can be done.
    pub remedy: Option<String>,
}

/// How fast an operation is on one CPU.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    pub library: String,
    /// The operation: `sign`, `verify`, `agree`, `encrypt`.
    pub operation: String,
    /// With what: `RSA 2048`, `X25519`, `AES-128-GCM`.
    pub algorithm: String,
    /// Bytes at once, where it is done to bytes.
    pub size_bytes: Option<u32>,
    /// Operations per second on one CPU.
    pub per_s: f64,
}
