//! Log lines about connections: one for each that ends, within limits; and their way from the
//! workers to the thread that writes them.
//!
//! Decides which connections get a line, when lines leave the worker, how many may wait, and when
//! the writer is woken: for the first line at once, then not sooner than [`INTERVAL`] later,
//! because a thread switch for each of few connections would cost too much. `telemetry::line`
//! formats lines, and the caller writes them to a file.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flow::facts::ConnectionEnd;
use sys::socket::PeerAddress;
use telemetry::catalogue::{ServiceCounter, WorkerCounter};
use telemetry::counters::WorkerCounters;
use telemetry::line::{ClientAddress, ConnectionLine, LineLimiter, SuppressedLine};
use telemetry::outcome::{EncryptedBy, Reason, Version};

use crate::connection::Connection;
use crate::listeners::Listener;
use crate::options::{LogConnections, LogOptions};
use crate::service::Service;

/// Bytes of lines that make a batch leave the worker; a batch also leaves at the end of a turn in
/// which the worker has nothing else to do.
const BATCH_BYTES: usize = 16 << 10;

pub(crate) struct ConnectionLog {
    options: LogOptions,
    worker: usize,
    limiter: LineLimiter,
    /// Connections that ended well since one of them was sampled.
    successes: u32,
    summary_due: Option<Instant>,
    batch: Vec<u8>,
    queue: Arc<LineQueue>,
    counters: Arc<WorkerCounters>,
}

impl ConnectionLog {
    pub(crate) fn new(
        options: LogOptions,
        worker: usize,
        queue: Arc<LineQueue>,
        counters: Arc<WorkerCounters>,
    ) -> Self {
        Self {
            options,
            worker,
            limiter: limiter(options),
            successes: 0,
            summary_due: None,
            batch: Vec::new(),
            queue,
            counters,
        }
    }

    /// Adopts the options of a new plan.
    pub(crate) fn set_options(&mut self, options: LogOptions) {
        if self.options != options {
            self.limiter = limiter(options);
            self.options = options;
        }
    }

    /// Writes a line about a connection that has ended, if it is to have one.
    pub(crate) fn report(
        &mut self,
        connection: &Connection,
        ending: &ConnectionEnd,
        open_for: Duration,
        now: Instant,
    ) {
        if self.admit(&connection.service, ending.reason, now) {
            self.write(connection, ending, open_for, now);
        }
    }

    /// Reports whether a line is wanted, and allowed now.
    fn admit(&mut self, service: &Service, reason: Reason, now: Instant) -> bool {
        let is_wanted = match self.options.connections {
            LogConnections::All => reason.is_fault() || self.is_sampled(),
            LogConnections::Failed => reason.is_fault(),
            LogConnections::None => false,
        };
        if !is_wanted || self.limiter.admit(reason, now) {
            return is_wanted;
        }
        service.counters.count(ServiceCounter::LogLinesSuppressed);
        self.summary_due.get_or_insert(now + Duration::from_secs(1));
        false
    }

    /// Reports whether a connection that ended well is sampled: one of every `sample` is.
    fn is_sampled(&mut self) -> bool {
        self.successes += 1;
        let is_sampled = self.successes >= self.options.sample;
        if is_sampled {
            self.successes = 0;
        }
        is_sampled
    }

    /// Writes about a connection that was refused at once, as [`ConnectionLog::report`] does.
    pub(crate) fn report_refused(
        &mut self,
        id: u64,
        listener: &Listener,
        peer: PeerAddress,
        reason: Reason,
        now: Instant,
    ) {
        if !self.admit(&listener.service, reason, now) {
            return;
        }
        self.put(&ConnectionLine {
            time_us: unix_us(now, now),
            id,
            worker: self.worker,
            service: &listener.service.plan.name,
            client: match peer {
                PeerAddress::Ip(address) => ClientAddress::Ip(address),
                PeerAddress::Unix => ClientAddress::Text("unix"),
            },
            listener: &listener.text,
            sni: None,
            ja4: None,
            version: None,
            suite: None,
            group: None,
            handshake: None,
            resumption_miss: None,
            session_tier: None,
            early_data: None,
            alpn: None,
            encrypted_by: None,
            client_cn: None,
            server: None,
            server_version: None,
            server_suite: None,
            server_resumed: None,
            bytes_up: 0,
            bytes_down: 0,
            handshake_us: None,
            dial_us: None,
            total_us: 0,
            retries: 0,
            sampled: sampled(self.options, reason),
            reason,
            detail: None,
        });
    }

    fn write(
        &mut self,
        connection: &Connection,
        ending: &ConnectionEnd,
        open_for: Duration,
        now: Instant,
    ) {
        let facts = connection.flow.facts();
        let agreed = facts.agreed.as_ref();
        let certificate = agreed.and_then(|agreed| agreed.client_certificate.as_deref());
        let client_cn = certificate.and_then(tls::identity::common_name);
        let server = connection.dial.server();
        let back = facts.back_agreed.as_ref();
        self.put(&ConnectionLine {
            time_us: unix_us(facts.accepted, now),
            id: facts.id,
            worker: self.worker,
            service: &connection.service.plan.name,
            client: facts.route.source.map_or(ClientAddress::Text("unix"), ClientAddress::Ip),
            listener: &connection.listener,
            sni: facts.server_name.as_deref().or(facts.other_name.as_deref()),
            ja4: facts.ja4.as_deref(),
            version: agreed.map(|agreed| version_of(agreed.version)),
            suite: agreed.and_then(|agreed| agreed.suite).map(|suite| suite.name()),
            group: agreed.and_then(|agreed| agreed.group).map(|group| group.name()),
            handshake: facts.handshake.filter(|_| agreed.is_some()),
            resumption_miss: facts.resumption_miss,
            session_tier: facts.session_tier,
            early_data: facts.early_data,
            alpn: agreed.and_then(|agreed| agreed.alpn.as_deref()),
            encrypted_by: agreed.map(|_| {
                if facts.offloaded { EncryptedBy::Kernel } else { EncryptedBy::UserSpace }
            }),
            client_cn: client_cn.as_deref(),
            server: server
                .and_then(|index| connection.service.plan.server_names.get(index))
                .map(String::as_str),
            server_version: back.map(|agreed| version_of(agreed.version)),
            server_suite: back.and_then(|agreed| Some(agreed.suite?.name())),
            server_resumed: back.map(|agreed| agreed.resumed),
            bytes_up: facts.bytes_up,
            bytes_down: facts.bytes_down,
            handshake_us: facts.handshake_time().map(micros),
            // Files were not dialled.
            dial_us: facts
                .connected
                .zip(connection.dial.started())
                .map(|(at, started)| micros(at.saturating_duration_since(started))),
            total_us: micros(open_for),
            retries: connection.dial.retries(),
            sampled: sampled(self.options, ending.reason),
            reason: ending.reason,
            detail: ending.detail.as_deref(),
        });
    }

    fn put(&mut self, line: &ConnectionLine<'_>) {
        line.write(self.options.format, self.options.envelope, &mut self.batch);
        if self.batch.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    pub(crate) fn summary_due(&self) -> Option<Instant> {
        self.summary_due
    }

    /// Writes how many lines were suppressed, once their second is over.
    pub(crate) fn summarise(&mut self, now: Instant) {
        if self.summary_due.is_none_or(|due| due > now) {
            return;
        }
        self.summary_due = None;
        let (worker, options, batch) = (self.worker, self.options, &mut self.batch);
        self.limiter.take_suppressed(now, |reason, count| {
            let line = SuppressedLine {
                time_us: unix_us(now, now),
                worker,
                reason,
                count,
                sampled: sampled(options, reason),
            };
            line.write(options.format, options.envelope, batch);
        });
    }

    /// Hands over the lines written so far. Counts the bytes that find no room.
    pub(crate) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let lost = self.queue.append(&mut self.batch) as u64;
        if lost > 0 {
            self.counters.add(WorkerCounter::LogBytesLost, lost);
        }
    }
}

fn limiter(options: LogOptions) -> LineLimiter {
    LineLimiter::new(options.failures_per_second, options.successes_per_second)
}

/// Returns how many connections a line about this end stands for.
fn sampled(options: LogOptions, reason: Reason) -> u32 {
    if reason.is_fault() { 1 } else { options.sample }
}

/// Returns the TLS version as the metrics name it.
pub(crate) fn version_of(version: tls::options::Version) -> Version {
    match version {
        tls::options::Version::Tls12 => Version::Tls12,
        tls::options::Version::Tls13 => Version::Tls13,
    }
}

fn unix_us(at: Instant, now: Instant) -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    micros(since_epoch.saturating_sub(now.saturating_duration_since(at)))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Pause between two batches, unless many bytes have come.
const INTERVAL: Duration = Duration::from_millis(100);

/// Number of bytes that are written without waiting for the interval's end.
const URGENT_BYTES: usize = 64 << 10;

/// Largest number of bytes that may wait for a writer that does not keep up.
const WAITING_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
pub struct LineQueue {
    waiting: Mutex<WaitingLines>,
    /// Signals the writer that lines are due.
    is_due: Condvar,
    is_written: Condvar,
}

#[derive(Debug, Default)]
struct WaitingLines {
    lines: Vec<u8>,
    /// Whether the writer must be woken for the next line.
    writer_sleeps: bool,
    is_writing: bool,
    is_flushing: bool,
    is_closed: bool,
}

impl WaitingLines {
    fn is_urgent(&self) -> bool {
        self.lines.len() >= URGENT_BYTES || self.is_flushing || self.is_closed
    }
}

impl LineQueue {
    /// Moves whole lines into the queue. Lines that find no room are dropped rather than holding up
    /// connections: returns how many bytes were.
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

    /// Returns the lines to be written next; the caller has written the previous ones. `None` = the
    /// queue was closed, and nothing is left.
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

    /// Waits until all lines are written, for at most this time.
    pub fn flush(&self, time_max: Duration) {
        let mut waiting = self.lock();
        waiting.is_flushing = true;
        self.is_due.notify_one();
        let is_left = |waiting: &mut WaitingLines| waiting.is_writing || !waiting.lines.is_empty();
        // The caller sees whether all are written.
        let _ = self.is_written.wait_timeout_while(waiting, time_max, is_left);
    }

    /// Closes the queue: the writer ends when it has written what waits.
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
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

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
