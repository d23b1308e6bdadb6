//! The data plane: workers, each one thread and one event loop.
//!
//! No other crate has an event loop. Sockets are used through `sys`, and `flow` interprets the
//! bytes.
#![forbid(unsafe_code)]

mod attempt;
mod back;
mod clock;
mod commands;
mod connection;
pub mod connection_log;
mod connections;
pub mod data_plane;
mod descriptors;
mod dial;
mod displaceable;
mod driver;
mod file_threads;
mod file_work;
mod files;
mod keepalive;
mod ktls_send;
mod listeners;
pub mod options;
mod places;
pub mod plan;
pub mod routes;
mod schedule;
mod service;
mod slow_client;
pub mod sources;
#[cfg(test)]
mod tests;
mod worker;
