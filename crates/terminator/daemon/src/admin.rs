//! The operator's view of the running process: status document, metrics, page and history, and the
//! sockets that serve them.
//!
//! `state` holds what is known, set by the control thread and the watching threads; `state::views`
//! builds the `document` and the metrics from it. `servers` and `server_watch` determine for each
//! server whether it is up, since when and why; `cluster` does so for peers and store. `socket`
//! (the status socket) and `http` (the admin address: page, `history`, and `readiness` for
//! balancers; `access` checks who is answered) serve the document. Neither takes orders. `text`,
//! `paragraphs` and `units` print it for people, as `lariat status` does.

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
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use tokio::task::AbortHandle;

use http::serve_http;
use socket::serve_status;

pub(crate) use access::Access;
pub(crate) use cluster::{ClusterFacts, ClusterSnapshot};
#[cfg(test)]
pub(crate) use document::ServiceStatus;
pub(crate) use document::{AcmeStatus, StatusDocument, StatusError};
pub(crate) use document::{RightsStatus, RunState, ServerState, ServerStatus};
pub(crate) use document::{StoreState, StoreStatus};
pub(crate) use paragraphs::acme_text;
pub(crate) use servers::HealthReport;
pub(crate) use state::{AdminState, Limits, Served, ServiceFacts, StartFacts, record_history};
pub(crate) use text::render_status_text;

/// The sockets that serve operators: the status socket and the admin address.
pub(crate) struct Doors {
    status: Option<UnixListener>,
    admin: Option<TcpListener>,
    served: Vec<AbortHandle>,
}

impl Doors {
    /// Serves on both sockets at once if `opens`, else after `open`.
    pub(crate) fn new(
        status: Option<OwnedFd>,
        admin: Option<OwnedFd>,
        state: &Arc<AdminState>,
        opens: bool,
    ) -> io::Result<Self> {
        let (status, admin) = (status.map(UnixListener::from), admin.map(TcpListener::from));
        let mut doors = Self { status, admin, served: Vec::new() };
        if opens {
            doors.open(state)?;
        }
        Ok(doors)
    }

    pub(crate) fn open(&mut self, state: &Arc<AdminState>) -> io::Result<()> {
        if let Some(listener) = self.status.take() {
            let serve = tokio::spawn(serve_status(listener, Arc::clone(state)));
            self.served.push(serve.abort_handle());
        }
        if let Some(listener) = self.admin.take() {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let serve = tokio::spawn(serve_http(listener, Arc::clone(state)));
            self.served.push(serve.abort_handle());
        }
        Ok(())
    }

    /// Stops accepting on both sockets; open connections continue.
    pub(crate) fn close(&self) {
        self.served.iter().for_each(AbortHandle::abort);
    }
}
