//! The operator's view of the running process: status document, metrics, page and history.
//!
//! `state` is what is known; it is told so by the control thread and by those who watch, and
//! `state::views` makes the `document` and the metrics of it. `servers` and `server_watch` say of
//! each server whether it is up, since when and why; `cluster` does so of peers and store. The
//! document is served by `socket` (the status socket) and `http` (the admin address: a page,
//! `history`, and `readiness` for balancers; `access` says who is answered). Neither takes an
//! order.
//! `text`, `paragraphs` and `units` print it for people, as `lariat status` does.

mod access;
mod cluster;
mod document;
mod history;
mod http;
mod paragraphs;
mod readiness;
mod server_watch;
mod servers;
mod socket;
mod state;
mod text;
mod units;

pub(crate) use crate::status_parts::milliseconds;
pub(crate) use access::Access;
pub(crate) use cluster::{ClusterFacts, ClusterSnapshot};
#[cfg(test)]
pub(crate) use document::ServiceStatus;
pub(crate) use document::{AcmeStatus, StatusDocument, StatusError};
pub(crate) use document::{RightsStatus, RunState, ServerState, ServerStatus};
pub(crate) use document::{StoreState, StoreStatus};
pub(crate) use http::serve_http;
pub(crate) use paragraphs::acme_text;
pub(crate) use servers::HealthReport;
pub(crate) use socket::serve_status;
pub(crate) use state::{AdminState, Limits, Served, ServiceFacts, StartFacts, record_history};
pub(crate) use text::render_status_text;
