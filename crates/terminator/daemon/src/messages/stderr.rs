//! The way of lines to the standard error, on which nobody waits.
//!
//! The reader of a pipe may stop: the pipe fills, and a write to it never returns. So the
//! supervisor leaves its lines in a queue of limited size, and a thread writes them. Owns the queue
//! and what is said about lines that found no place in it, not what the lines say.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use sys::file;

/// Bytes of lines that wait. A refused configuration has a few kilobytes of diagnostics; who reads
/// nothing for longer than this lasts has lost interest.
const QUEUE_BYTES_MAX: usize = 1 << 20;

/// How long the end of the program, or of a thread that panicked, waits for a reader.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Writes a line, or leaves it for the thread that [`write_in_background`] has started. If nobody
/// reads it any more, that is their choice.
pub(crate) fn write_line(line: impl Display) {
    write(format!("{line}\n"));
}

/// The same of whole lines, each with its end.
pub(crate) fn write(lines: String) {
    match QUEUE.get() {
        Some(queue) => queue.put(lines),
        None => drop(StandardError.write_all(lines.as_bytes())),
    }
}

/// From now on lines are written by a thread. To be called after signals have been blocked. `lost`
/// makes the line that says how many found no place.
///
/// # Errors
/// No thread can be started.
pub(crate) fn write_in_background(lost: fn(u64) -> String) -> io::Result<()> {
    let queue = Queue::start(StandardError, lost)?;
    // A second call leaves an idle thread behind, and nothing else.
    let _ = QUEUE.set(queue);
    Ok(())
}

/// Waits until all lines are written, but not long. To be called before the program ends.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_TIME_MAX);
    }
}

/// Writes why this process is about to end; if nobody reads it, it ends all the same.
pub(crate) fn write_last_words(text: String) {
    write_within(StandardError, text, FLUSH_TIME_MAX);
}

/// Writes for so long at most; a write that does not return is left to a thread.
fn write_within(mut target: impl Write + Send + 'static, text: String, time_max: Duration) {
    let (done, is_done) = mpsc::channel();
    let write = move || {
        let _ = target.write_all(text.as_bytes());
        let _ = done.send(());
    };
    if thread::Builder::new().spawn(write).is_ok() {
        let _ = is_done.recv_timeout(time_max);
    }
}

/// Waits for its reader whatever another process that shares it has set, because a line that is
/// refused for want of room would be lost unseen.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        file::write_waiting(io::stderr(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines under way to one target.
#[derive(Clone, Debug)]
struct Queue(Arc<(Mutex<Waiting>, Condvar)>);

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that found no place since this was last said.
    lost: u64,
    is_writing: bool,
}

impl Queue {
    fn start(mut target: impl Write + Send + 'static, lost: fn(u64) -> String) -> io::Result<Self> {
        let queue = Self(Arc::default());
        let of_thread = queue.clone();
        let write = move || {
            // Lines that the target did not take. They are said before the next one, and not at
            // once, because a reader may have left for good.
            let mut refused = 0;
            loop {
                let line = of_thread.next(lost);
                if refused > 0 && target.write_all(lost(refused).as_bytes()).is_ok() {
                    refused = 0;
                }
                refused += u64::from(target.write_all(line.as_bytes()).is_err());
            }
        };
        thread::Builder::new().name("stderr".to_owned()).spawn(write)?;
        Ok(queue)
    }

    fn put(&self, line: String) {
        let mut waiting = self.lock();
        if waiting.bytes + line.len() > QUEUE_BYTES_MAX {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        self.0.1.notify_all();
    }

    /// The next line to write, once there is one. The one before it has been written.
    fn next(&self, lost: fn(u64) -> String) -> String {
        let mut waiting = self.lock();
        waiting.is_writing = false;
        self.0.1.notify_all();
        let is_idle = |waiting: &mut Waiting| waiting.lines.is_empty() && waiting.lost == 0;
        let waited = self.0.1.wait_while(waiting, is_idle);
        waiting = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.is_writing = true;
        match waiting.lines.pop_front() {
            Some(line) => {
                waiting.bytes -= line.len();
                line
            }
            None => lost(std::mem::take(&mut waiting.lost)),
        }
    }

    fn flush(&self, time_max: Duration) {
        let is_busy = |waiting: &mut Waiting| {
            waiting.is_writing || !waiting.lines.is_empty() || waiting.lost > 0
        };
        let condition = &self.0.1;
        // Whatever has not been written by then is lost with the process.
        drop(condition.wait_timeout_while(self.lock(), time_max, is_busy));
    }

    /// A thread that panicked has ended the process.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    /// How long a test waits for what is bound to come.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn lines_arrive_in_order_before_the_flush_returns() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = Queue::start(writer, |lost| format!("{lost} were lost\n")).unwrap();
        (0..100).for_each(|number| queue.put(format!("{number}\n")));
        queue.flush(PATIENCE);
        let lines = BufReader::new(reader).lines().take(100);
        let read: Vec<String> = lines.map(Result::unwrap).collect();
        let expected: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_reader_that_stops_holds_nobody_and_hears_how_many_lines_it_lost() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = Queue::start(writer, |lost| format!("{lost} were lost\n")).unwrap();
        let line = format!("{}\n", "x".repeat(1023));
        // The pipe and the queue hold less than half of them.
        let count = 4 * QUEUE_BYTES_MAX / line.len();
        (0..count).for_each(|_| queue.put(line.clone()));
        queue.flush(Duration::from_millis(1));
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let kept = lines.by_ref().take_while(|one| one.starts_with('x'));
        // `take_while` also takes the first line that is another.
        let kept = kept.count();
        assert!(kept < count);
        queue.put("the next\n".to_owned());
        assert_eq!(lines.next().unwrap(), "the next");
        assert_eq!(queue.lock().lost, 0);
    }

    #[test]
    fn lines_that_are_refused_for_a_while_are_counted_and_said() {
        /// A disk that is full for the first lines.
        struct Full(u32, io::PipeWriter);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.saturating_sub(1);
                if self.0 > 0 {
                    Err(io::ErrorKind::StorageFull.into())
                } else {
                    self.1.write(bytes)
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (reader, writer) = io::pipe().unwrap();
        // Three lines, and two attempts to say that some were lost.
        let full = Full(6, writer);
        let queue = Queue::start(full, |lost| format!("{lost} were lost\n")).unwrap();
        (0..4).for_each(|number| queue.put(format!("{number}\n")));
        let lines = BufReader::new(reader).lines().take(2);
        let read: Vec<String> = lines.map(Result::unwrap).collect();
        assert_eq!(read, ["3 were lost", "3"]);
    }

    #[test]
    fn the_last_words_of_a_panic_wait_for_nobody() {
        let (_reader, writer) = io::pipe().unwrap();
        write_within(writer, "x".repeat(1 << 20), Duration::from_millis(1));
    }
}
