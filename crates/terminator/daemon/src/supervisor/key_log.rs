//! Writes the file of `process.key-log`, which the supervisor alone can open.
//!
//! Handles the thread that writes, so that neither a full disk nor a file system that does not
//! answer blocks the supervisor or a handshake: lines without room are dropped, and the log says
//! how many.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use sys::file;
use tls::key_log::{KeyLines, is_key_line};

use crate::messages::{note, warn};
use crate::preflight::KEY_LOG_HINT;

/// Time that the end of the program, or the next one, waits for the disk.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// Batches that wait for the disk, each of at most 1 MiB.
const BATCHES_MAX: usize = 8;

/// The key log; nothing is written while it has no path.
#[derive(Default)]
pub(super) struct KeyLog {
    writer: Option<KeyLogWriter>,
}

struct KeyLogWriter {
    path: PathBuf,
    queue: SyncSender<KeyLogTask>,
    dropped: Arc<AtomicU64>,
}

enum KeyLogTask {
    /// Open the file anew.
    Open,
    Write(String),
    /// Confirm that all earlier lines are written.
    Flush(SyncSender<()>),
}

impl KeyLog {
    /// Writes to this path from now on. The file is opened anew: it may have been moved away.
    pub(super) fn follow(&mut self, path: Option<&Path>) {
        match (&self.writer, path) {
            (Some(writer), Some(path)) if writer.path == path => {
                drop(writer.queue.try_send(KeyLogTask::Open));
            }
            (_, None) => self.writer = None,
            (_, Some(path)) => self.writer = start(path),
        }
    }

    /// Writes the well-formed lines among those of a worker process.
    pub(super) fn write(&self, lines: KeyLines) {
        let Some(writer) = &self.writer else {
            return;
        };
        writer.dropped.fetch_add(lines.dropped, Ordering::Relaxed);
        let good = lines.text.lines().filter(|line| is_key_line(line));
        let text: String = good.flat_map(|line| [line, "\n"]).collect();
        let count = text.lines().count() as u64;
        if writer.queue.try_send(KeyLogTask::Write(text)).is_err() {
            writer.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Waits until all is written, up to a time limit.
    pub(super) fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        if let Some(writer) = &self.writer
            && writer.queue.try_send(KeyLogTask::Flush(done)).is_ok()
        {
            // Lines not written by then are lost.
            let _ = is_done.recv_timeout(FLUSH_TIME_MAX);
        }
    }
}

fn start(path: &Path) -> Option<KeyLogWriter> {
    let (queue, tasks) = sync_channel(BATCHES_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    let (file, count) = (path.to_owned(), Arc::clone(&dropped));
    let thread = thread::Builder::new().name("key log".to_owned());
    match thread.spawn(move || write_all(&file, &tasks, &count)) {
        Ok(_) => Some(KeyLogWriter { path: path.to_owned(), queue, dropped }),
        Err(error) => {
            warn(format_args!("process.key-log: cannot start a thread: {error}"));
            None
        }
    }
}

/// Does the tasks until the queue ends. A fault is reported once, and its cost at its end.
fn write_all(path: &Path, tasks: &Receiver<KeyLogTask>, dropped: &AtomicU64) {
    let shown = path.display();
    let (mut file, mut is_failing, mut is_torn) = (None, false, false);
    // The file is made before there is a line for it, so that a fault shows at start.
    let mut next = Some(KeyLogTask::Open);
    while let Some(task) = next {
        let is_anew = matches!(task, KeyLogTask::Open);
        if is_anew || file.as_ref().is_some_and(is_gone) {
            file = None;
        }
        let text = match task {
            KeyLogTask::Write(text) => text,
            KeyLogTask::Open => String::new(),
            KeyLogTask::Flush(done) => {
                // The caller may have stopped waiting.
                let _ = done.send(());
                String::new()
            }
        };
        match write_batch(path, &mut file, &mut is_torn, &text) {
            Ok(()) if is_failing => {
                is_failing = false;
                note(format_args!("process.key-log: {shown} is written again"));
            }
            Ok(()) => {}
            Err(error) => {
                dropped.fetch_add(text.lines().count() as u64, Ordering::Relaxed);
                if !std::mem::replace(&mut is_failing, true) {
                    warn(format_args!(
                        "process.key-log: cannot write {shown}, and secrets are dropped: {error}\n\
                         hint: {KEY_LOG_HINT}"
                    ));
                }
            }
        }
        let lost = if is_failing { 0 } else { dropped.swap(0, Ordering::Relaxed) };
        if lost > 0 {
            warn(format_args!("process.key-log: {lost} lines found no room and were dropped"));
        }
        next = tasks.recv().ok();
    }
}

fn is_gone(file: &File) -> bool {
    file.metadata().is_ok_and(|facts| facts.nlink() == 0)
}

fn write_batch(
    path: &Path,
    file: &mut Option<File>,
    is_torn: &mut bool,
    text: &str,
) -> std::io::Result<()> {
    let file = match file {
        Some(file) => file,
        None => file.insert(file::open_private_append(path)?),
    };
    // A line that a full disk has cut ends here.
    if *is_torn {
        file.write_all(b"\n")?;
    }
    *is_torn = true;
    file.write_all(text.as_bytes())?;
    *is_torn = false;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use testkit::directory::Directory;

    use super::*;

    #[test]
    fn after_a_full_disk_a_line_begins_anew() {
        let directory = Directory::new();
        let path = directory.join("keys.log");
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (mut file, mut is_torn) = (Some(full), false);
        assert!(write_batch(&path, &mut file, &mut is_torn, "a\n").is_err());
        file = None;
        write_batch(&path, &mut file, &mut is_torn, "b\n").unwrap();
        write_batch(&path, &mut file, &mut is_torn, "c\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\nb\nc\n");
    }
}
