//! Capacity of a farm of TLS terminators, reckoned from records.
//!
//! [`observation`] reads what records say of CPU time, [`cost`] makes costs of connections of it,
//! [`queue`] the tail of a worker by simulation, [`hosts`] a number of hosts, [`validation`] sets
//! predictions beside measurements. [`farm`] is the farm second by second, [`script`] what happens
//! to it.
//!
//! Pure: records in, answers out; chance comes from a seed. It knows no program under test: how
//! sessions are shared is modelled from measured figures ([`sharing`]), not imported.
#![forbid(unsafe_code)]

pub mod cost;
pub mod farm;
pub mod fault;
pub mod hosts;
pub mod observation;
pub mod queue;
mod resample;
pub mod scalability;
pub mod script;
pub mod sharing;
pub mod traffic;
pub mod validation;
