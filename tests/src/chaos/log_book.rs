//! The log of connections as it comes out of a pipe, whose reader may be stopped for a while.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::patience::pause;

/// Interval at which a stopped reader checks whether it may go on.
const LOOK: Duration = Duration::from_millis(20);

/// The reading end of a pipe. Its thread ends with the pipe.
#[derive(Debug)]
pub(super) struct PipeReader {
    lines: Arc<Mutex<Vec<String>>>,
    is_paused: Arc<AtomicBool>,
}

impl PipeReader {
    pub(super) fn start(pipe: impl Read + Send + 'static) -> Self {
        let (lines, is_paused) = (Arc::default(), Arc::default());
        let reader = Self { lines, is_paused };
        let (lines, is_paused) = (Arc::clone(&reader.lines), Arc::clone(&reader.is_paused));
        thread::spawn(move || {
            for line in BufReader::with_capacity(4096, pipe).split(b'\n') {
                let Ok(line) = line else { return };
                lock(&lines).push(String::from_utf8_lossy(&line).into_owned());
                while is_paused.load(Ordering::Acquire) {
                    pause(LOOK);
                }
            }
        });
        reader
    }

    /// Stops the reader, so that the pipe becomes full, or lets it go on.
    pub(super) fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Release);
    }

    /// Returns the number of lines that were not taken yet.
    pub(super) fn count(&self) -> usize {
        lock(&self.lines).len()
    }

    /// Takes the lines since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.lines))
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.set_paused(false);
    }
}

fn lock(lines: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(super) struct LogBook {
    /// Connections by reason, with those whose lines were left out.
    pub(super) ended: BTreeMap<String, u64>,
    /// Lines that are no JSON: a process was killed, or a disk was full, in the midst of one.
    pub(super) torn: Vec<String>,
    /// Connections that have two lines.
    pub(super) doubled: Vec<String>,
}

impl LogBook {
    pub(super) fn read(lines: &[String]) -> Self {
        let (mut book, mut seen) = (Self::default(), HashMap::new());
        for line in lines {
            let Ok(value) = serde_json::from_str::<Value>(line) else {
                book.torn.push(line.clone());
                continue;
            };
            let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
            let reason = text("reason");
            *book.ended.entry(reason).or_default() += value["suppressed"].as_u64().unwrap_or(1);
            // A later worker process uses the number again, but not within the same second.
            let second: String = text("time").chars().take(19).collect();
            let key = [text("id"), text("client"), second];
            if value["suppressed"].is_null()
                && let Some(other) = seen.insert(key, line)
            {
                book.doubled.push(format!("{other}\n{line}"));
            }
        }
        book
    }

    pub(super) fn count(&self) -> u64 {
        self.ended.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_once_and_doubled_lines_are_seen() {
        let line = |id: &str, reason: &str| {
            format!("{{\"id\":\"{id}\",\"client\":\"127.0.0.1:7\",\"reason\":\"{reason}\"}}")
        };
        let mut lines = vec![line("1", "client-closed"), line("2", "not-tls")];
        lines.push("{\"worker\":0,\"suppressed\":5,\"reason\":\"not-tls\"}".to_owned());
        let book = LogBook::read(&lines);
        assert_eq!((book.count(), book.ended["not-tls"]), (7, 6));
        assert!(book.torn.is_empty() && book.doubled.is_empty());
        lines.extend([line("1", "client-reset"), "{\"id\":".to_owned()]);
        let book = LogBook::read(&lines);
        assert_eq!((book.torn.len(), book.doubled.len()), (1, 1));
    }
}
