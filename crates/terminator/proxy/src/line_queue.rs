//! Lines about connections on their way from the workers to the thread that writes them.
//!
//! Owns how many may wait and when that thread is woken: for the first line at once, then not
//! sooner than [`INTERVAL`] later, so that few connections do not cost a switch of threads each.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// From one batch to the next one, unless much has come.
const INTERVAL: Duration = Duration::from_millis(100);

/// Lines of this many bytes are written without waiting for the interval's end.
const BATCH_BYTES: usize = 64 << 10;

/// Lines of this many bytes may wait for a writer that does not keep up.
const WAITING_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
pub struct LineQueue {
    waiting: Mutex<WaitingLines>,
    /// The writer has a reason to look.
    is_due: Condvar,
    is_written: Condvar,
}

#[derive(Debug, Default)]
struct WaitingLines {
    lines: Vec<u8>,
    /// The writer is to be woken for the next line.
    writer_sleeps: bool,
    is_writing: bool,
    is_flushing: bool,
    is_closed: bool,
}

impl WaitingLines {
    fn is_urgent(&self) -> bool {
        self.lines.len() >= BATCH_BYTES || self.is_flushing || self.is_closed
    }
}

impl LineQueue {
    /// Moves whole lines into the queue. Those that find no place are lost rather than holding up
    /// connections: returns how many bytes.
    pub fn append(&self, lines: &mut Vec<u8>) -> usize {
        let mut waiting = self.lock();
        if waiting.lines.len() + lines.len() > WAITING_BYTES_MAX {
            let lost = lines.len();
            lines.clear();
            return lost;
        }
        let was_urgent = waiting.is_urgent();
        waiting.lines.append(lines);
        let wakes = waiting.writer_sleeps || waiting.is_urgent() && !was_urgent;
        waiting.writer_sleeps = false;
        drop(waiting);
        if wakes {
            self.is_due.notify_one();
        }
        0
    }

    /// The lines to be written next; the caller has written those before. `None` = the queue was
    /// closed, and nothing is left.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut waiting = self.lock();
        if std::mem::take(&mut waiting.is_writing) {
            self.is_written.notify_all();
            let pause =
                self.is_due.wait_timeout_while(waiting, INTERVAL, |waiting| !waiting.is_urgent());
            waiting = pause.unwrap_or_else(PoisonError::into_inner).0;
        }
        while waiting.lines.is_empty() {
            waiting.is_flushing = false;
            if waiting.is_closed {
                return None;
            }
            waiting.writer_sleeps = true;
            let woken = self.is_due.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
        waiting.is_writing = true;
        Some(std::mem::take(&mut waiting.lines))
    }

    /// Waits until all lines are written, or for so long.
    pub fn flush(&self, time_max: Duration) {
        let mut waiting = self.lock();
        waiting.is_flushing = true;
        self.is_due.notify_one();
        let is_left = |waiting: &mut WaitingLines| waiting.is_writing || !waiting.lines.is_empty();
        // Whether they are is the caller's to see.
        let _ = self.is_written.wait_timeout_while(waiting, time_max, is_left);
    }

    /// Ends the queue: the writer ends when it has written what waits.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.is_due.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, WaitingLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn what_follows_the_first_lines_comes_together_and_nothing_is_left() {
        let queue = LineQueue::default();
        let append = |text: &str| queue.append(&mut text.as_bytes().to_vec());
        append("a\n");
        assert_eq!(queue.take().unwrap(), b"a\n");
        append("b\n");
        append("c\n");
        assert_eq!(queue.take().unwrap(), b"b\nc\n");
        append("d\n");
        queue.close();
        assert_eq!(queue.take().unwrap(), b"d\n");
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn lines_beyond_the_limit_are_lost_and_counted() {
        let queue = LineQueue::default();
        let mut lines = vec![b'x'; WAITING_BYTES_MAX];
        assert_eq!(queue.append(&mut lines), 0);
        lines = b"more\n".to_vec();
        assert_eq!((queue.append(&mut lines), lines.len()), (5, 0));
        assert_eq!(queue.take().unwrap().len(), WAITING_BYTES_MAX);
    }

    #[test]
    fn a_flush_returns_when_all_is_written() {
        let queue = Arc::new(LineQueue::default());
        let (written, lines) = channel();
        let of_writer = Arc::clone(&queue);
        let write = move || {
            let batches = std::iter::from_fn(|| of_writer.take());
            batches.for_each(|batch| written.send(batch).unwrap());
        };
        let writer = std::thread::spawn(write);
        for round in 1..100 {
            queue.append(&mut b"line\n".to_vec());
            queue.flush(PATIENCE);
            let all: usize = lines.try_iter().map(|batch| batch.len()).sum();
            assert_eq!(all, 5, "in round {round}");
        }
        queue.close();
        writer.join().unwrap();
    }
}
