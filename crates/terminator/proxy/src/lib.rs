//! The data plane: workers, each one thread and one loop.
//!
//! The only room with an event loop. Sockets are reached through `sys`; what bytes mean is
//! `flow`'s.
#![forbid(unsafe_code)]

mod affinity;
mod allowance;
mod attempt;
mod back;
mod clock;
mod commands;
mod connection;
mod connection_log;
mod connections;
mod counts;
mod descriptors;
mod dial;
mod displaceable;
mod driver;
mod file_threads;
mod file_work;
mod files;
#[cfg(test)]
mod fixture;
mod handshakes;
pub mod heartbeat;
mod ktls_send;
pub mod line_queue;
mod lingering;
mod listeners;
pub mod options;
mod pace;
mod pieces;
mod pipes;
mod places;
pub mod plan;
pub mod plane;
mod rivals;
pub mod routes;
mod schedule;
mod service;
mod slow_client;
pub mod sources;
mod timers;
mod token;
mod worker;
