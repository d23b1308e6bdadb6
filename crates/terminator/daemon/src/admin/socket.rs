//! The status socket: each client gets the status document and the end of the stream.
//!
//! It never reads, so nothing that is sent to it can do harm.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::io::unix::AsyncFd;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::bounded::{JSON_BYTES_MAX, json_within};
use super::state::AdminState;

/// Clients that are connected at the same time; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;

/// How long somebody may take to read the document: it fits into a socket's buffer but for very
/// many services, so this is generous. It is longer than we may be kept from writing, because a
/// plan of very many services is being built.
const WRITE_TIME_MAX: Duration = Duration::from_secs(120);

/// Accepting fails for want of descriptors or memory, and does so at once until there are some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until its task is dropped.
pub(crate) async fn serve_status(listener: UnixListener, state: Arc<AdminState>) {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, because of types that lend others' files"
    )]
    let listener = listener.into_std().and_then(AsyncFd::new);
    // The only errors are of the reactor, which is there as long as this task.
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

/// Takes a client. Another process that has the listener may shut it down: the kernel says then
/// that it is ready and that nobody is there, and tokio's own call would ask without end.
async fn accept(listener: &AsyncFd<std::os::unix::net::UnixListener>) -> io::Result<UnixStream> {
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

/// A client that leaves before the end loses the rest; that is no fault of ours.
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

    use telemetry::Registry;
    use tokio::io::AsyncReadExt;

    use super::super::document::{RightsStatus, StatusDocument};
    use super::super::state::StartFacts;
    use super::*;

    #[test]
    fn a_client_gets_the_document_and_is_not_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let directory = testkit::directory::Directory::new();
            let path = directory.join("status");
            let listener = UnixListener::bind(&path).unwrap();
            let start = StartFacts {
                program: "1.2.3",
                supervisor_pid: 7,
                supervisor_start: SystemTime::now(),
                restarts: 0,
                dying: None,
                worker_cpus: Vec::new(),
                rights: RightsStatus::default(),
            };
            let state = AdminState::new(Arc::new(Registry::new(1)), start);
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
