//! The operator's view of the running process: the status document, the metrics, the page with
//! the history that it draws.
//!
//! Owns their forms and the two sockets that serve them, HTTP and the status socket. Both only
//! write; neither takes an order.

mod access;
mod cluster;
mod cluster_text;
mod document;
mod history;
mod http;
mod page;
mod parts;
mod readiness;
mod server_watch;
mod servers;
mod socket;
mod state;
mod text;
mod units;

pub(crate) use access::Access;
pub(crate) use cluster::{ClusterFacts, ClusterSnapshot};
#[cfg(test)]
pub(crate) use document::ServiceStatus;
pub(crate) use document::{RightsStatus, RunState, ServerState, ServerStatus};
pub(crate) use document::{StatusDocument, StatusError};
pub(crate) use document::{StoreState, StoreStatus};
pub(crate) use http::serve_http;
pub(crate) use servers::HealthReport;
pub(crate) use socket::serve_status;
pub(crate) use state::{AdminState, Limits, Served, ServiceFacts, StartFacts, record_history};
pub(crate) use text::render_status_text;
