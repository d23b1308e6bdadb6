//! The data plane: workers, each one thread and one loop.
//!
//! The only room with an event loop. Sockets are reached through `sys`; what bytes mean is
//! `flow`'s.
#![forbid(unsafe_code)]

mod ages;
mod allowance;
mod back;
mod commands;
mod counts;
mod descriptors;
mod dial;
mod driver;
mod file_threads;
mod file_work;
mod files;
#[cfg(test)]
mod fixture;
mod handshakes;
mod lines;
mod link;
mod links;
mod listeners;
mod offload;
pub mod options;
mod pipes;
pub mod plan;
pub mod plane;
mod room;
mod service;
mod timers;
mod token;
mod worker;
