//! The thread that writes lines about connections, so that no worker waits for a disk or a pipe.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Batches of lines under way, of some 16 KiB each; workers drop and count what comes on top.
const BATCHES_MAX: usize = 256;

/// The writer's other end.
pub(super) struct Log {
    target: Arc<Mutex<Arc<File>>>,
    thread: JoinHandle<()>,
}

impl Log {
    /// Starts to write to that descriptor what comes in by the sender.
    pub(super) fn start(fd: OwnedFd) -> io::Result<(Self, SyncSender<Vec<u8>>)> {
        let (sender, batches) = sync_channel(BATCHES_MAX);
        let target = Arc::new(Mutex::new(Arc::new(File::from(fd))));
        let of_thread = Arc::clone(&target);
        let thread = thread::Builder::new().name("log".to_owned());
        let thread = thread.spawn(move || write(&batches, &of_thread))?;
        Ok((Self { target, thread }, sender))
    }

    /// Writes there from the next batch on.
    pub(super) fn set_target(&self, fd: OwnedFd) {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        *target = Arc::new(File::from(fd));
    }

    /// Waits until all is written. To be called when every sender is gone.
    pub(super) fn finish(self) {
        // A thread that panicked has ended the process.
        let _ = self.thread.join();
    }
}

fn write(batches: &Receiver<Vec<u8>>, target: &Mutex<Arc<File>>) {
    for batch in batches {
        // Not held while writing: the target may block for ever, and be replaced for that.
        let file = Arc::clone(&target.lock().unwrap_or_else(PoisonError::into_inner));
        // A full disk or a reader that left: the lines are lost, connections are not.
        let _ = (&*file).write_all(&batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn lines_go_where_the_target_is() {
        let (mut first, first_end) = io::pipe().unwrap();
        let (mut second, second_end) = io::pipe().unwrap();
        let (log, sender) = Log::start(first_end.into()).unwrap();
        sender.send(b"one\n".to_vec()).unwrap();
        let mut line = [0; 4];
        first.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"one\n");

        log.set_target(second_end.into());
        sender.send(b"two\n".to_vec()).unwrap();
        drop(sender);
        log.finish();
        let mut rest = String::new();
        second.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two\n");
        first.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two\n");
    }

    #[test]
    fn a_reader_that_left_ends_nothing() {
        let (reader, end) = io::pipe().unwrap();
        let (log, sender) = Log::start(end.into()).unwrap();
        drop(reader);
        sender.send(b"lost\n".to_vec()).unwrap();
        let (mut reader, end) = io::pipe().unwrap();
        log.set_target(end.into());
        sender.send(b"kept\n".to_vec()).unwrap();
        drop(sender);
        log.finish();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("kept\n"), "{text}");
    }
}
