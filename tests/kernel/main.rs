//! Behaviour of `lariat` on kernels that have TLS: one module per behaviour.
//!
//! These tests fail on other kernels. `./run-tests` runs them in virtual machines; CONTRIBUTING.md
//! says how.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "what fails in a test's own tools fails the test")]

mod crowd;
mod early_data;
mod ends;
mod files;
mod key_update;
mod lifecycle;
mod mixture;
mod modules;
mod receiving;
mod relay;
mod settings;
mod suites;
mod system_calls;
mod systemd;
mod unix_sockets;
