//! Serves the status socket: each client gets the status document and the end of the stream.
//!
//! The socket is never read, so input cannot do harm. The document's length is limited here: with a
//! hundred thousand services it would be longer than clients read into memory. Then only the first
//! services are shown, and the number of the others.

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use super::document::StatusDocument;
use super::state::AdminState;

/// Maximum number of clients at the same time; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;

/// How long a client may take to read the document. This is generous, because the document fits
/// into a socket's buffer except with very many services. It is longer than the building of a plan
/// of very many services can keep us from writing.
const WRITE_TIME_MAX: Duration = Duration::from_secs(120);

/// Pause after a failed accept: without descriptors or memory, accept fails at once every time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until its task is dropped.
pub(super) async fn serve_status(listener: UnixListener, state: Arc<AdminState>) {
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

/// Maximum bytes of the document, a quarter below what our own commands read.
pub(super) const JSON_BYTES_MAX: usize = 48 << 20;

/// Returns one line of JSON, with as many services as fit.
pub(super) fn json_within(bytes_max: usize, mut document: StatusDocument) -> Vec<u8> {
    loop {
        let json = document.to_json();
        if json.len() <= bytes_max || document.services.is_empty() {
            return json;
        }
        // A tenth less than in proportion, because the first may be longer than the last.
        let all = document.services.len();
        let kept = all as f64 * bytes_max as f64 / json.len() as f64 * 0.9;
        document.services.truncate(kept as usize);
        document.services_left_out += (all - document.services.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use sys::usage::Usage;
    use telemetry::Registry;
    use tokio::io::AsyncReadExt;

    use super::super::document::{RightsStatus, ServiceStatus};
    use super::super::state::StartFacts;
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

    #[test]
    fn the_first_services_are_shown_and_the_others_counted() {
        let text = r#"{"version":2,"time_ms":0,"process":{"program":"","state":"serving","pid":2,
            "supervisor_pid":1,"start_ms":0,"supervisor_start_ms":0,"metrics":{}},
            "workers":[],"services":[],"bounds_us":[]}"#;
        let mut document = StatusDocument::from_json(text.as_bytes()).unwrap();
        // The first are ten times as long as the last.
        let name =
            |number| format!("{number}-{}", "x".repeat(if number < 50 { 3000 } else { 300 }));
        let service = |number| ServiceStatus { name: name(number), ..ServiceStatus::default() };
        document.services = (0..500).map(service).collect();
        let whole = json_within(usize::MAX, document.clone());
        assert_eq!(whole, document.to_json());
        let json = json_within(whole.len() / 4, document.clone());
        assert!(json.len() <= whole.len() / 4);
        let read = StatusDocument::from_json(&json).unwrap();
        assert_eq!(read.services, document.services[..read.services.len()]);
        assert!(!read.services.is_empty());
        assert_eq!(read.services.len() as u64 + read.services_left_out, 500);
        // Without any service the document cannot be shortened.
        assert!(!json_within(1, document).is_empty());
    }
}
