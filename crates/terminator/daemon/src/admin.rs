//! The operator's view of the running process: status document, metrics, page and history; and the
//! doors where it is asked, of which the status socket is here: each client gets the status
//! document and the end of the stream. It never reads, so nothing that is sent to it can do harm.
//!
//! `state` is what is known; it is told so by the control thread and by those who watch, and
//! `state::views` makes the `document` and the metrics of it. `servers` and `server_watch` say of
//! each server whether it is up, since when and why; `cluster` does so of peers and store. The
//! admin address is `http`'s: a page, `history`, and `readiness` for balancers; `access` says who
//! is answered. Neither door takes an order. `text`, `paragraphs` and `units` print the document
//! for people, as `lariat status` does.

mod access;
mod cluster;
mod document;
mod history;
mod http;
mod paragraphs;
mod readiness;
mod server_watch;
mod servers;
mod state;
mod text;
mod units;

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use document::{JSON_BYTES_MAX, json_within};
use http::serve_http;

pub(crate) use crate::status_parts::milliseconds;
pub(crate) use access::Access;
pub(crate) use cluster::{ClusterFacts, ClusterSnapshot};
#[cfg(test)]
pub(crate) use document::ServiceStatus;
pub(crate) use document::{AcmeStatus, StatusDocument, StatusError};
pub(crate) use document::{RightsStatus, RunState, ServerState, ServerStatus};
pub(crate) use document::{StoreState, StoreStatus};
pub(crate) use paragraphs::acme_text;
pub(crate) use servers::HealthReport;
pub(crate) use state::{
    AdminState, ServedLimits, ServedPlan, ServiceFacts, StartFacts, record_history,
};
pub(crate) use text::render_status_text;

/// The sockets that serve operators: the status socket and the admin address.
pub(crate) struct AdminDescriptors {
    status: Option<UnixListener>,
    admin: Option<TcpListener>,
    served: Vec<AbortHandle>,
}

impl AdminDescriptors {
    /// Serves on both sockets at once if `opens`, else after `open`.
    pub(crate) fn new(
        status: Option<OwnedFd>,
        admin: Option<OwnedFd>,
        state: &Arc<AdminState>,
        opens: bool,
    ) -> io::Result<Self> {
        let (status, admin) = (status.map(UnixListener::from), admin.map(TcpListener::from));
        let mut admin_descriptors = Self { status, admin, served: Vec::new() };
        if opens {
            admin_descriptors.open(state)?;
        }
        Ok(admin_descriptors)
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

/// Maximum number of clients at the same time; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;

/// How long a client may take to read the document. This is generous, because the document fits
/// into a socket's buffer except with very many services. It is longer than the building of a plan
/// of very many services can keep us from writing.
const WRITE_TIME_MAX: Duration = Duration::from_secs(120);

/// Pause after a failed accept: without descriptors or memory, accept fails at once every time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until its task is dropped.
async fn serve_status(listener: UnixListener, state: Arc<AdminState>) {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, because of types that lend others' files"
    )]
    let listener = AsyncFd::new(listener);
    // Errors come only from the reactor, which lives as long as this task.
    let Ok(listener) = listener else {
        return;
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match accept(&listener).await {
            Ok(stream) => {
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    tell(stream, &state).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Accepts a client. Another process that has the listener may shut it down: the kernel then
/// reports readiness without a client, and tokio's own call would loop without end.
async fn accept(listener: &AsyncFd<UnixListener>) -> io::Result<UnixStream> {
    loop {
        let mut ready = listener.readable().await?;
        match ready.try_io(|listener| listener.get_ref().accept()) {
            Ok(accepted) => {
                let (stream, _) = accepted?;
                stream.set_nonblocking(true)?;
                return UnixStream::from_std(stream);
            }
            Err(_) if ready.ready().is_read_closed() => {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Err(_) => {}
        }
    }
}

/// Sends the document. A client that leaves early loses the rest, which is no fault of ours.
async fn tell(mut stream: UnixStream, state: &AdminState) {
    let document = json_within(JSON_BYTES_MAX, state.document());
    let told = async {
        stream.write_all(&document).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(WRITE_TIME_MAX, told).await;
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use sys::usage::Usage;
    use telemetry::Registry;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn a_client_gets_the_document_and_is_not_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let directory = testkit::directory::Directory::new();
            let path = directory.join("status");
            let listener = UnixListener::bind(&path).unwrap();
            listener.set_nonblocking(true).unwrap();
            let start = StartFacts {
                program: "1.2.3",
                supervisor_pid: 7,
                supervisor_start: SystemTime::now(),
                restarts: 0,
                dying: None,
                worker_cpus: Vec::new(),
                rights: RightsStatus::default(),
            };
            let state = AdminState::new(Arc::new(Registry::new(1)), start, Usage::default());
            tokio::spawn(serve_status(listener, Arc::new(state)));
            for _ in 0..2 * CONNECTIONS_MAX {
                let mut stream = UnixStream::connect(&path).await.unwrap();
                let mut told = Vec::new();
                stream.read_to_end(&mut told).await.unwrap();
                let document = StatusDocument::from_json(&told).unwrap();
                assert_eq!(document.process.supervisor_pid, 7);
            }
        });
    }
}
