//! Peers: the programs under test, as data, and the servers that they become.

pub(crate) mod wish;
